// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast the model is on this machine: `cargo run --release -p translation --example bench`.
//!
//! The events are made up: on eight cores, two processes each of one cohort run blocks of code
//! from 64 KB with jumps into 4 MB, and load and store in a hot 16 KB, a warm 1 MB and a cold 256 MB.
//! The *busy* mix leaves the hot part seldom, as programs do; the *harsh* one often. Of *hits* every access
//! hits the L1 TLB and the L1 cache. Of *near* none does either, but the second levels have nearly all; of
//! *misses* nearly all miss these and the last cache too, so each walks.
//! It prints figures and asserts nothing about them. `-- MODEL MIX` leaves the others out; a
//! third word is the number of blocks, for profilers that take their time.

use std::time::Duration;
use translation::{
    AccessKind, Context, Identity, Machine, Model, Op, Sink, SparseMemory,
    trace::{Header, Reader, Recorder, replay},
};

/// Processor time so far, which other programs on the machine disturb less than the clock.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

const CORES: usize = 8;
/// Blocks of code that run.
const BLOCKS: u64 = 3_000_000;
/// How often, of 4096 times, a mix goes elsewhere.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    jumps: u64,
    warm: u64,
    cold: u64,
    /// Whether accesses go around in more lines and pages than the L1s of any model hold instead.
    around: bool,
}

const MIXES: [Mix; 5] = [
    Mix {
        name: "hits",
        jumps: 0,
        warm: 0,
        cold: 0,
        around: false,
    },
    Mix {
        name: "near",
        jumps: 0,
        warm: 0,
        cold: 0,
        around: true,
    },
    Mix {
        name: "busy",
        jumps: 24,
        warm: 60,
        cold: 2,
        around: false,
    },
    Mix {
        name: "harsh",
        jumps: 128,
        warm: 176,
        cold: 16,
        around: false,
    },
    Mix {
        name: "misses",
        jumps: 4096,
        warm: 0,
        cold: 4096,
        around: false,
    },
];
const SPAN: u64 = 512 << 20;

/// Tables of one address space: `SPAN` from 0, its frames from `frames`.
fn map(memory: &mut SparseMemory, root: u64, frames: u64) {
    memory.write_u64(root, (root + 0x1000) | 7);
    memory.write_u64(root + 0x1000, (root + 0x2000) | 7);
    for table in 0..SPAN >> 21 {
        let at = root + 0x3000 + table * 0x1000;
        memory.write_u64(root + 0x2000 + table * 8, at | 7);
        for page in 0..512 {
            memory.write_u64(at + page * 8, (frames + (table << 21) + (page << 12)) | 7);
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The address of an access, by its number, of those that go around: 128 pages, eight lines of each.
fn around(number: u64) -> u64 {
    let (page, round) = (number % 128, number / 128 % 8);
    page << 12 | ((round * 8 + page) % 64) << 6
}

/// Six instructions: every second one loads or stores, between them registers are computed.
fn block() -> [Op; 6] {
    let bit = |number: usize| 1 << (number % 16);
    let compute = |number: usize| Op {
        reads: bit(number) | bit(number + 3),
        writes: bit(number) | 1 << 63,
        ..Op::default()
    };
    let access = |number: usize, store: bool| Op {
        address: bit(number),
        reads: if store { bit(number + 1) } else { 0 },
        writes: if store { 0 } else { bit(number + 5) },
        loads: !store,
        stores: store,
    };
    [
        compute(0),
        access(0, false),
        compute(5),
        access(1, false),
        compute(6),
        access(2, true),
    ]
}

/// Gives the events to a sink; returns instructions and accesses.
fn drive(sink: &mut impl Sink, roots: &[u64], mix: Mix, blocks: u64) -> (u64, u64) {
    let mut state = 1;
    let (mut instructions, mut accesses) = (0, 0);
    let mut code = [0u64; CORES];
    sink.define(0, &block());
    for (number, &root) in roots.iter().enumerate() {
        sink.set_identity(
            root,
            Identity {
                process: number as u32 + 1,
                cohort: 1,
            },
        );
    }
    for block in 0..blocks {
        // Slices as QEMU's round robin gives them.
        let core = (block / 10_000) as usize % CORES;
        let process = core * 2 + (block / 160_000) as usize % 2;
        let frames = process as u64 * SPAN + (1 << 32);
        if block % 10_000 == 0 {
            let context = Context {
                paging: true,
                root: roots[process],
                ..Context::default()
            };
            sink.set_context(core, context);
        }
        let dice = random(&mut state);
        code[core] = if dice % 4096 < mix.jumps {
            ((dice >> 12) % (4 << 20)) & !15
        } else {
            (code[core] & !0xffff) | ((code[core] + 32 + (dice >> 40) % 64) & 0xfff0)
        };
        let at = match mix.around {
            true => around(block),
            false => code[core],
        };
        sink.execute(core, 0);
        sink.access(core, AccessKind::Fetch, at, Some(frames + at), 24);
        for load in 0..3u64 {
            let dice = random(&mut state);
            let (dice, place) = (dice % 4096, dice >> 12);
            let at = if mix.around {
                (64 << 20) + around(block * 3 + load)
            } else if dice < mix.cold {
                place % (256 << 20)
            } else if dice < mix.cold + mix.warm {
                (128 << 20) + place % (1 << 20)
            } else {
                (64 << 20) + place % (16 << 10)
            } & !7;
            let kind = if load == 2 {
                AccessKind::Write
            } else {
                AccessKind::Read
            };
            sink.at(core, load as u32 * 2 + 1);
            sink.access(core, kind, at, Some(frames + at), 8);
        }
        instructions += 6;
        accesses += 4;
    }
    (instructions, accesses)
}

/// Prints the figures.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = SparseMemory::new();
    let roots: Vec<u64> = (0..2 * CORES as u64)
        .map(|process| (process + 1) << 24)
        .collect();
    for (number, &root) in roots.iter().enumerate() {
        map(&mut memory, root, number as u64 * SPAN + (1 << 32));
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let left_out = |at: usize, name: &str| wanted.get(at).is_some_and(|wanted| wanted != name);
    let blocks = wanted.get(2).map_or(Ok(BLOCKS), |blocks| blocks.parse())?;
    println!(
        "{:<26} {:<6} {:>10} {:>11} {:>8}",
        "model", "mix", "M instr/s", "M access/s", "L2 MPKI"
    );
    for name in Model::builtin_names() {
        for mix in MIXES {
            if left_out(0, name) || left_out(1, mix.name) {
                continue;
            }
            let model = Model::builtin(name)?;
            let model = model.with_page_tables("x86-64")?;
            let mut machine = Machine::new(&model, CORES, &memory)?;
            let began = cpu_time();
            let (instructions, accesses) = drive(&mut machine, &roots, mix, blocks);
            let seconds = (cpu_time() - began).as_secs_f64();
            let total = machine.report().total;
            let misses = total.tlb_sum(2, "fetch").2 + total.tlb_sum(2, "data").2;
            println!(
                "{name:<26} {:<6} {:>10.1} {:>11.1} {:>8.2}",
                mix.name,
                instructions as f64 / seconds / 1e6,
                accesses as f64 / seconds / 1e6,
                misses as f64 * 1000.0 / instructions as f64,
            );
        }
    }
    for mix in MIXES {
        if left_out(0, "babelfish-isca20") || left_out(1, mix.name) {
            continue;
        }
        let about = Header {
            cores: CORES,
            page_tables: "x86-64".to_owned(),
            about: String::new(),
        };
        let mut recorder = Recorder::new(&about, &memory, Vec::new())?;
        let began = cpu_time();
        let (_, accesses) = drive(&mut recorder, &roots, mix, blocks);
        let trace = recorder.finish()?;
        let recorded = (cpu_time() - began).as_secs_f64();
        let model = Model::builtin("babelfish-isca20")?;
        let mut machine = Machine::new(&model, CORES, SparseMemory::new())?;
        let began = cpu_time();
        replay(Reader::new(trace.as_slice())?, &mut machine)?;
        let replayed = (cpu_time() - began).as_secs_f64();
        println!(
            "{}: recorded {:.1}, replayed {:.1} M accesses/s; {:.2} bytes an access",
            mix.name,
            accesses as f64 / recorded / 1e6,
            accesses as f64 / replayed / 1e6,
            trace.len() as f64 / accesses as f64,
        );
    }
    Ok(())
}
