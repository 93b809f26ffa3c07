// SPDX-License-Identifier: GPL-2.0-or-later
//! A small kernel does random things, as BabelFish's, as ours and as a stock one, and whatever TLBs,
//! tags and bitmasks hold, an access reaches the page that the process's own tables say.

use crate::os::{OR_PC, OWNED, Os, RO, RW, context};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use translation::Fault;
use translation::{
    AccessKind, GuestMemory, Identity, Invalidation, Machine, Model, Sink, SparseMemory,
};

/// Guest memory that the kernel writes and the model reads.
#[derive(Clone, Default)]
pub struct Shared(pub Rc<RefCell<Os>>);

impl GuestMemory for Shared {
    fn read_u32(&self, paddr: u64) -> Option<u32> {
        self.0.borrow().memory.read_u32(paddr)
    }
    fn read_u64(&self, paddr: u64) -> Option<u64> {
        self.0.borrow().memory.read_u64(paddr)
    }
}

/// How the kernel marks what is shared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// BabelFish's bits in the pmd_t, MaskPages by its system calls.
    Paper,
    /// The cohort kernel's mark, and no word about private copies.
    Cohort,
    /// Nothing is shared.
    Stock,
}

pub const CORES: usize = 3;
const PROCESSES: usize = 8;
const REGIONS: usize = 3;
const PAGES: usize = 6;
const PC_BITS: usize = 3;
const BASE: u64 = 0x40_0000_0000;

/// Numbers as they come, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// The kernel. Processes 0 to 5 are in cohort 1, 6 and 7 in cohort 2.
pub struct World {
    pub memory: Shared,
    pub kind: Kind,
    pub roots: Vec<u64>,
    /// Whether a process has its own table of a region.
    own: Vec<[bool; REGIONS]>,
    /// By cohort: who is in the pid_list, and whether it overflowed.
    writers: [BTreeSet<usize>; 2],
    overflowed: [bool; 2],
    pub running: [usize; CORES],
    frames: u64,
}

fn cohort(process: usize) -> usize {
    usize::from(process >= 6)
}

pub fn address(region: usize, page: usize) -> u64 {
    BASE + ((region as u64) << 21) + ((page as u64) << 12)
}

impl World {
    pub fn new(kind: Kind) -> Self {
        let memory = Shared(Rc::new(RefCell::new(Os::new())));
        let mut world = Self {
            memory: memory.clone(),
            kind,
            roots: Vec::new(),
            own: vec![[kind == Kind::Stock; REGIONS]; PROCESSES],
            writers: Default::default(),
            overflowed: [false; 2],
            running: [0; CORES],
            frames: 0x1_0000_0000,
        };
        let mut os = memory.0.borrow_mut();
        for process in 0..PROCESSES {
            let root = os.table();
            world.roots.push(root);
            for region in 0..REGIONS {
                let first = if cohort(process) == 0 { 0 } else { 6 };
                if process == first || kind == Kind::Stock {
                    for page in 0..PAGES {
                        world.frames += 0x1000;
                        // The last page is not there yet.
                        let entry = if page == PAGES - 1 {
                            0
                        } else {
                            world.frames | RO
                        };
                        let slot = os.slot(root, address(region, page), 12);
                        os.memory.write_u64(slot, entry);
                    }
                }
                if process != first && kind != Kind::Stock {
                    let mark = if kind == Kind::Cohort {
                        crate::os::COHORT
                    } else {
                        0
                    };
                    let from = world.roots[first];
                    os.share(from, root, address(region, 0), mark);
                }
            }
        }
        drop(os);
        world
    }

    pub fn boot(&self, sink: &mut impl Sink) {
        for (process, &root) in self.roots.iter().enumerate() {
            let cohort = cohort(process) as u32 + 1;
            sink.set_identity(
                root,
                Identity {
                    process: process as u32 + 1,
                    cohort,
                },
            );
        }
        for core in 0..CORES {
            sink.set_context(core, context(self.roots[0]));
        }
    }

    /// What the process's own tables say.
    pub fn truth(&self, process: usize, vaddr: u64) -> (u64, bool, bool) {
        let mut os = self.memory.0.borrow_mut();
        let slot = os.slot(self.roots[process], vaddr, 12);
        let entry = os.memory.read_u64(slot).unwrap();
        (entry & 0xf_ffff_f000, entry & 1 != 0, entry & 2 != 0)
    }

    fn set(&mut self, process: usize, vaddr: u64, entry: u64) {
        let mut os = self.memory.0.borrow_mut();
        let slot = os.slot(self.roots[process], vaddr, 12);
        os.memory.write_u64(slot, entry);
    }

    /// Gives a process its own copy of a region's table.
    fn unshare(&mut self, process: usize, region: usize) {
        let mut os = self.memory.0.borrow_mut();
        let root = self.roots[process];
        let pmd = os.slot(root, address(region, 0), 21);
        let old = os.memory.read_u64(pmd).unwrap() & 0xf_ffff_f000;
        let new = os.table();
        for entry in 0..512 {
            let value = os.memory.read_u64(old + entry * 8).unwrap();
            os.memory.write_u64(new + entry * 8, value);
        }
        let bits = if self.kind == Kind::Paper { OWNED } else { 0 };
        os.memory.write_u64(pmd, new | RW | bits);
        self.own[process][region] = true;
    }

    fn flush(&self, sink: &mut impl Sink, process: usize) {
        for core in 0..CORES {
            sink.invalidate(
                core,
                Invalidation::AddressSpace {
                    root: self.roots[process],
                },
            );
        }
    }

    /// A process writes to a page that is mapped read-only.
    pub fn copy_on_write(
        &mut self,
        sink: &mut impl Sink,
        process: usize,
        region: usize,
        page: usize,
    ) {
        let group = cohort(process);
        let vaddr = address(region, page);
        if self.kind != Kind::Stock && !self.own[process][region] {
            self.unshare(process, region);
        }
        if self.kind == Kind::Paper && !self.overflowed[group] {
            self.writers[group].insert(process);
            if self.writers[group].len() > PC_BITS {
                // All of the group go back to tables of their own in this MaskPage's range.
                self.overflowed[group] = true;
                for other in (0..PROCESSES).filter(|&other| cohort(other) == group) {
                    for region in 0..REGIONS {
                        if !self.own[other][region] {
                            self.unshare(other, region);
                        }
                    }
                }
            } else {
                for other in (0..PROCESSES).filter(|&other| cohort(other) == group) {
                    if !self.own[other][region] {
                        let mut os = self.memory.0.borrow_mut();
                        os.change(self.roots[other], vaddr, 21, OR_PC, 0);
                    }
                }
            }
        }
        self.frames += 0x1000;
        self.set(process, vaddr, self.frames | RW);
        if self.kind == Kind::Paper {
            sink.private_copy(self.roots[process], vaddr);
        }
        self.flush(sink, process);
    }

    /// A process ends, and another begins in its place: it shares again what the others of its
    /// group still share.
    pub fn restart(&mut self, sink: &mut impl Sink, process: usize) {
        let group = cohort(process);
        for region in 0..REGIONS {
            let mut others = (0..PROCESSES).filter(|&other| cohort(other) == group);
            let sharer = others.find(|&other| !self.own[other][region]);
            if let (true, Some(other)) = (self.own[process][region], sharer) {
                let (from, to) = (self.roots[other], self.roots[process]);
                let mut os = self.memory.0.borrow_mut();
                os.share(from, to, address(region, 0), 0);
                self.own[process][region] = false;
            }
        }
        self.writers[group].remove(&process);
        sink.retire(self.roots[process]);
    }

    /// A page comes into a table.
    pub fn fault_in(&mut self, process: usize, region: usize, page: usize) {
        self.frames += 0x1000;
        self.set(process, address(region, page), self.frames | RO);
    }
}

/// Random steps; after each access what the model says is compared with the tables.
fn live(model: &Model, kind: Kind, seed: u64, steps: usize) -> Machine<Shared> {
    let mut world = World::new(kind);
    let mut machine = Machine::new(model, CORES, world.memory.clone()).unwrap();
    world.boot(&mut machine);
    let mut dice = Dice(seed | 1);
    for step in 0..steps {
        let core = dice.below(CORES);
        if dice.below(5) == 0 {
            world.running[core] = dice.below(PROCESSES);
            machine.set_context(core, context(world.roots[world.running[core]]));
        }
        let process = world.running[core];
        let (region, page) = (dice.below(REGIONS), dice.below(PAGES));
        let vaddr = address(region, page) + dice.below(4096) as u64;
        // Writes are rare, so that private copies come slowly.
        let kind = match dice.below(300) {
            0 => AccessKind::Write,
            1..80 => AccessKind::Fetch,
            _ => AccessKind::Read,
        };
        let (frame, present, writable) = world.truth(process, vaddr);
        let allowed = present && (kind != AccessKind::Write || writable);
        let result = machine.attempt(core, kind, vaddr);
        let what = format!("step {step}: process {process}, {kind:?} of {vaddr:#x}: {result:?}");
        match result {
            Ok(paddr) => {
                assert!(allowed, "{what} should have failed");
                assert_eq!(paddr, frame | vaddr & 0xfff, "{what}");
            }
            Err(Fault::NotPresent) => {
                assert!(!present, "{what}");
                if dice.below(8) == 0 {
                    world.fault_in(process, region, page);
                }
            }
            Err(_) => {
                // A fault on an entry that was shared a moment ago is repeated by the kernel.
                assert!(present && kind == AccessKind::Write, "{what}");
                if !writable {
                    world.copy_on_write(&mut machine, process, region, page);
                } else {
                    machine.invalidate(core, Invalidation::Page { vaddr });
                }
            }
        }
    }
    machine
}

fn model(name: &str, kind: Kind) -> Model {
    let bits = match (name.starts_with("babelfish"), kind) {
        (true, Kind::Paper) => {
            format!("[babelfish]\nowned = [\"10=1\"]\nor_pc = [\"9=1\"]\npc_bits = {PC_BITS}\n")
        }
        (true, _) => format!("[babelfish]\npc_bits = {PC_BITS}\n"),
        (false, _) => String::new(),
    };
    let text = format!(
        "name = \"test\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"{name}\"\n{bits}"
    );
    Model::parse("test", &text).unwrap()
}

#[test]
fn a_long_run_of_every_kernel_on_every_model_translates_right() {
    for name in [
        "babelfish-isca20",
        "babelfish-isca20-aslr-sw",
        "baseline",
        "zen4",
        "zen4-group-all",
        "zen4-group",
        "zen4-group-overlay",
        "baseline-group-all",
        "baseline-group-overlay",
    ] {
        for kind in [Kind::Paper, Kind::Cohort, Kind::Stock] {
            for seed in 1..3 {
                live(&model(name, kind), kind, seed * 77, 40_000);
            }
        }
    }
}

#[test]
fn sharing_happens_and_ends_as_it_should() {
    let shared_hits = |machine: &Machine<Shared>| -> u64 {
        let report = machine.report();
        ["fetch", "data"]
            .map(|side| report.total.tlb_sum(2, side).1)
            .iter()
            .sum()
    };
    let paper = live(
        &model("babelfish-isca20", Kind::Paper),
        Kind::Paper,
        5,
        3_000,
    );
    assert!(shared_hits(&paper) > 100);
    let cohort = live(
        &model("babelfish-isca20", Kind::Cohort),
        Kind::Cohort,
        5,
        3_000,
    );
    assert!(shared_hits(&cohort) > 100);
    // A stock kernel shares no table, so BabelFish's TLB shares nothing.
    let stock = live(
        &model("babelfish-isca20", Kind::Stock),
        Kind::Stock,
        5,
        3_000,
    );
    assert_eq!(shared_hits(&stock), 0);
    // And without BabelFish nothing is shared whatever the kernel does.
    let plain = live(&model("baseline", Kind::Cohort), Kind::Cohort, 5, 3_000);
    assert_eq!(shared_hits(&plain), 0);
    // Global entries of a group's code alone: only of tables that are marked.
    for name in ["zen4-group-all", "zen4-group", "zen4-group-overlay"] {
        let machine = live(&model(name, Kind::Cohort), Kind::Cohort, 5, 3_000);
        let group = machine.report().total.mechanisms.group;
        assert!(
            group.first_hits + group.later_hits > 20,
            "{name}: {group:?}"
        );
        assert!(
            group.changes > 20 && group.refusals > 0,
            "{name}: {group:?}"
        );
        assert_eq!(group.violations, 0, "{name}");
        let stock = live(&model(name, Kind::Stock), Kind::Stock, 5, 3_000);
        assert_eq!(stock.report().total.mechanisms.group.fills, 0, "{name}");
    }
    // More writers than bits: in the end all is owned, in both ways of keeping MaskPages.
    for kind in [Kind::Paper, Kind::Cohort] {
        let long = live(&model("babelfish-isca20", kind), kind, 9, 60_000);
        assert!(
            long.report().total.mechanisms.babelfish.overflows >= 1,
            "{kind:?}"
        );
        assert!(
            long.report().total.mechanisms.babelfish.pids_listed >= PC_BITS as u64,
            "{kind:?}"
        );
    }
}

#[test]
fn the_same_run_gives_the_same_figures() {
    let run = || {
        let machine = live(
            &model("babelfish-isca20", Kind::Cohort),
            Kind::Cohort,
            3,
            20_000,
        );
        serde_json::to_string(&(machine.report(), machine.census())).unwrap()
    };
    let figures = run();
    assert_eq!(figures, run());
    // The same on any machine: whoever changes what the model does, and no one else, changes this.
    assert_eq!(
        crc32fast::hash(figures.as_bytes()),
        0x2d6a_b8db,
        "{figures}"
    );
}

/// The number of cases, unless `PROPTEST_CASES` gives another.
pub fn cases(usual: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(usual),
    }
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn any_short_run_with_a_group_translates_right(seed in any::<u64>(), which in 0..5usize) {
        let names = [
            "zen4-group-all",
            "zen4-group",
            "zen4-group-overlay",
            "baseline-group-all",
            "baseline-group-overlay",
        ];
        live(&model(names[which], Kind::Cohort), Kind::Cohort, seed, 4_000);
    }

    #[test]
    fn any_short_run_translates_right(seed in any::<u64>(), paper in any::<bool>(), sw in any::<bool>()) {
        let kind = if paper { Kind::Paper } else { Kind::Cohort };
        let name = if sw { "babelfish-isca20-aslr-sw" } else { "babelfish-isca20" };
        live(&model(name, kind), kind, seed, 4_000);
    }
}

#[test]
fn a_page_that_came_after_a_process_left_is_not_its_own() {
    // GIVEN a process that took a table of its own while a page was absent, and a sibling that
    // brought the page into the shared table and into the TLB WHEN the first looks there THEN it
    // finds nothing, though nobody told the model of its private copy.
    for name in ["babelfish-isca20", "babelfish-isca20-aslr-sw"] {
        let mut world = World::new(Kind::Cohort);
        let mut machine =
            Machine::new(&model(name, Kind::Cohort), CORES, world.memory.clone()).unwrap();
        world.boot(&mut machine);
        let vaddr = address(1, PAGES - 1);
        world.unshare(0, 1);
        world.fault_in(1, 1, PAGES - 1);
        let mut attempt = |process: usize| {
            machine.set_context(0, context(world.roots[process]));
            machine.attempt(0, AccessKind::Fetch, vaddr)
        };
        assert!(attempt(1).is_ok(), "{name}");
        assert_eq!(attempt(0), Err(Fault::NotPresent), "{name}");
        assert!(attempt(2).is_ok(), "{name}");
    }
}

#[test]
fn aslr_hw_shares_over_layouts_that_differ() {
    // GIVEN a process whose segment lies 0x5555000 above its cohort's WHEN it fetches there THEN it
    // uses the entry that its sibling brought in at the cohort's address.
    let mut os = Os::new();
    let roots = [0; 2].map(|_| os.table());
    os.map(roots[0], BASE, 0x7000_0000, RW);
    os.share(roots[0], roots[1], BASE, crate::os::COHORT);
    let memory: SparseMemory = os.memory;
    let model = Model::builtin("babelfish-isca20").unwrap();
    let mut machine = Machine::new(&model, 1, memory).unwrap();
    for (number, &root) in roots.iter().enumerate() {
        machine.set_identity(
            root,
            Identity {
                process: number as u32 + 1,
                cohort: 1,
            },
        );
    }
    let offset = 0x555_5000u64;
    let segment = translation::Segment {
        start: BASE + offset,
        end: BASE + offset + 0x10_0000,
        offset: offset.wrapping_neg(),
    };
    machine.set_segments(roots[1], &[segment]);
    machine.set_context(0, context(roots[0]));
    machine.access(0, AccessKind::Fetch, BASE + 8, Some(0x7000_0008), 4);
    machine.set_context(0, context(roots[1]));
    machine.access(
        0,
        AccessKind::Fetch,
        BASE + offset + 16,
        Some(0x7000_0010),
        4,
    );
    let counters = machine.counters(0);
    assert_eq!((counters.walk.walks, counters.unexplained), (1, 0));
    assert_eq!(counters.tlb[1][0][0].shared_hits, 1);
    // The second time its own L1 has it, under its own address, without the transformation.
    let stall = counters.itlb_stall;
    machine.access(
        0,
        AccessKind::Fetch,
        BASE + offset + 24,
        Some(0x7000_0018),
        4,
    );
    let counters = machine.counters(0);
    assert_eq!(
        (counters.tlb[0][0][0].hits, counters.itlb_stall),
        (1, stall)
    );
    // Outside the segment the layouts are the same.
    assert_eq!(machine.attempt(0, AccessKind::Read, BASE), Ok(0x7000_0000));
}
