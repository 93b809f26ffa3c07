// SPDX-License-Identifier: GPL-2.0-or-later
//! pycachesim's rule, written down again: each level is sets of lines in the order of their use; a
//! miss asks the next level and puts the line in front, and the last of a full set goes. TLBs are
//! such caches, whose lines are pages. The rule knows no addresses but one, so TLBs run on page
//! tables and caches without paging.

use crate::streams::{self, DATA, Stream};
use translation::{AccessKind, Context, Machine, Model, Sink, SparseMemory};

/// One level.
struct Level {
    /// Lines of a set, the one used last in front.
    sets: Vec<Vec<u64>>,
    ways: usize,
    shift: u32,
    hits: u64,
    misses: u64,
}

impl Level {
    fn new(sets: usize, ways: usize, shift: u32) -> Self {
        Self {
            sets: vec![Vec::new(); sets],
            ways,
            shift,
            hits: 0,
            misses: 0,
        }
    }

    fn hit(&mut self, address: u64) -> bool {
        let line = address >> self.shift;
        let set = line as usize % self.sets.len();
        let set = &mut self.sets[set];
        let there = set.iter().position(|&held| held == line);
        if let Some(place) = there {
            set.remove(place);
        } else if set.len() == self.ways {
            set.pop();
        }
        set.insert(0, line);
        match there {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        there.is_some()
    }
}

/// Reads through two levels.
fn reference(stream: &Stream, mut levels: [Level; 2]) -> [(u64, u64); 2] {
    for &(_, address) in stream {
        let _ = levels[0].hit(address) || levels[1].hit(address);
    }
    levels.map(|level| (level.hits, level.misses))
}

fn all() -> Vec<(&'static str, Stream)> {
    vec![
        ("strided64", streams::strided64(200_000)),
        ("strided4160", streams::strided4160(200_000)),
        ("random64M", streams::random64m(200_000)),
        ("skewed", streams::skewed(200_000, 8_192, false)),
        ("stores", streams::skewed(200_000, 4_096, true)),
        ("chase", streams::chase(200_000, 131_072)),
    ]
}

/// The baseline without what the rule does not have.
fn model() -> Model {
    let text = "name = \"peer\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\n\
                [cache]\nl2 = { kb = 256, ways = 8, cycles = 8, mshrs = 16 }\n\
                last = { kb = 65536, ways = 16, cycles = 32, mshrs = 16 }\n";
    Model::parse("peer", text).unwrap()
}

/// Page tables for 256 MB of data, and a page of code, at physical addresses in order.
pub fn memory(code: u64) -> SparseMemory {
    let mut memory = SparseMemory::new();
    let mut tables = 0x1000;
    let mut map = |memory: &mut SparseMemory, vaddr: u64, paddr: u64| {
        let mut table = 0x1000;
        for shift in [39, 30, 21] {
            let slot = table + (vaddr >> shift & 511) * 8;
            let entry = translation::GuestMemory::read_u64(&*memory, slot).unwrap_or(0);
            table = match entry {
                0 => {
                    tables += 0x1000;
                    memory.write_u64(slot, tables | 7);
                    tables
                }
                entry => entry & !0xfff,
            };
        }
        memory.write_u64(table + (vaddr >> 12 & 511) * 8, paddr | 7);
    };
    for page in 0..65_536 {
        map(&mut memory, DATA + page * 4096, 0x4000_0000 + page * 4096);
    }
    map(&mut memory, code, 0x3000_0000);
    memory
}

#[test]
fn tlbs_count_what_the_rule_counts() {
    for (name, stream) in all() {
        let mut machine = Machine::new(&model(), 1, memory(0x5555_5555_4000)).unwrap();
        let context = Context {
            paging: true,
            root: 0x1000,
            ..Context::default()
        };
        machine.set_context(0, context);
        for &(kind, vaddr) in &stream {
            machine.access(0, kind, vaddr, None, 8);
        }
        let counters = machine.counters(0);
        let levels = [0, 1].map(|level| counters.tlb[level][1][0]);
        let ours = levels.map(|level| (level.hits, level.misses));
        let levels = [Level::new(16, 4, 12), Level::new(128, 12, 12)];
        assert_eq!(ours, reference(&stream, levels), "{name}");
        assert_eq!(counters.unexplained, 0);
    }
}

#[test]
fn caches_count_what_the_rule_counts() {
    // The last level holds every line of the streams, so that it takes none from those above it.
    for (name, stream) in all() {
        let mut machine = Machine::new(&model(), 1, SparseMemory::new()).unwrap();
        for &(_, vaddr) in &stream {
            machine.access(0, AccessKind::Read, vaddr, Some(vaddr), 8);
        }
        let caches = machine.counters(0).cache;
        let ours = [caches[1], caches[2]].map(|cache| (cache.hits, cache.misses));
        let levels = [Level::new(64, 8, 6), Level::new(512, 8, 6)];
        assert_eq!(ours, reference(&stream, levels), "{name}");
    }
}
