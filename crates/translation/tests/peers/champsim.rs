// SPDX-License-Identifier: GPL-2.0-or-later
//! ChampSim's counts, which were measured once and stand in `champsim.toml`, beside the model's.
//!
//! Compared is what does not depend on where ChampSim put its frames: TLBs and the walk cache. The
//! streams `zipf` and `chase8M` take NumPy's permutations to make again; they stand in the table and
//! are not run here.

use crate::pycachesim::memory;
use crate::streams::{self, Stream};
use translation::{AccessKind, Context, Machine, Model, Sink};

/// A page of code far from the data: no table but the root is common to both.
const CODE: u64 = 0x5555_5555_4000;

#[path = "../../examples/peer_cycles.rs"]
#[allow(dead_code)]
mod peer_cycles;

/// Two streams are left out that docs/model.md explains: a chain of L1 hits, and a stride of lines.
#[test]
fn cycles_are_within_15_percent_of_champsims() {
    for (name, ratio) in peer_cycles::ratios().unwrap() {
        if !["chase, 16 KB", "strided, 64 bytes"].contains(&name) {
            assert!((0.85..=1.15).contains(&ratio), "{name}: {ratio}");
        }
    }
}

#[test]
fn tlbs_and_walks_count_what_champsim_counts() {
    let table: toml::Table = include_str!("champsim.toml").parse().unwrap();
    let text = "name = \"peer\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\n\
                [cache]\nwalker_enters = \"l1d\"\nlast = { kb = 2048 }\n";
    let model = Model::parse("peer", text).unwrap();
    let accesses = table["accesses"].as_integer().unwrap() as u64;
    let mut compared = 0;
    for row in table["stream"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let stream: Stream = match name {
            "strided64" => streams::strided64(accesses),
            "strided4160" => streams::strided4160(accesses),
            "random64M" => streams::random64m(accesses),
            _ => continue,
        };
        let mut machine = Machine::new(&model, 1, memory(CODE)).unwrap();
        let context = Context {
            paging: true,
            root: 0x1000,
            ..Context::default()
        };
        machine.set_context(0, context);
        machine.access(0, AccessKind::Fetch, CODE, None, 4);
        for (kind, vaddr) in stream {
            machine.access(0, kind, vaddr, None, 8);
        }
        let counters = machine.counters(0);
        for (what, ours) in [
            ("dtlb_misses", counters.tlb_misses(0, 1)),
            (
                "stlb_misses",
                counters.tlb_misses(1, 0) + counters.tlb_misses(1, 1),
            ),
            ("walk_reads", counters.walk.references.iter().sum()),
        ] {
            let theirs = row[what].as_integer().unwrap() as u64;
            assert_eq!(ours, theirs, "{name}: {what}");
            compared += 1;
        }
    }
    assert_eq!(compared, 9);
}
