// SPDX-License-Identifier: GPL-2.0-or-later
//! BabelFish with a kernel that says who shares what (`source = "kernel"`).
//!
//! A small kernel follows the rules of `mm/cohort/babelfish.c`: whatever it does, no process meets a
//! shared entry that is not its own. Each rule that it breaks is found. What it writes to memory has
//! the cohort kernel's format.

use crate::os::{Os, RO, RW, context};
use crate::properties::{Dice, Shared, cases};
use crate::traces::Both;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use translation::trace::{Header, Reader, Recorder, replay};
use translation::violation::Wrong;
use translation::{
    AccessKind, Context, Fault, GuestMemory, Identity, Invalidation, Machine, Member, Model,
    Privilege, Sink, SparseMemory, abi,
};

const CORES: usize = 3;
const PROCESSES: usize = 6;
const RANGES: usize = 3;
const PAGES: u64 = 6;
const BASE: u64 = 0x40_0000_0000;
const CCID: u16 = 5;
/// Bits of an entry that points to a table.
const S: u64 = 1 << 10;
const ORPC: u64 = 1 << 52;
const TABLE: u64 = 0x000f_ffff_ffff_f000;

/// A rule that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    /// Processors keep their entries when a process leaves a table.
    Drop,
    /// It gets no bit.
    Bit,
    /// It gets one, but others' entries do not say so.
    Orpc,
    /// A processor that did not run a table's user when it changed keeps its entries.
    Stale,
    /// A process that maps something where others share gets no bit.
    Claim,
    /// A CCID is used again without a word.
    Reuse,
}

/// A process's table of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    Nothing,
    Shares,
    Own,
}

#[derive(Clone)]
struct Process {
    root: u64,
    pid: u32,
    /// Where its `struct cohort_bf_space` is.
    space: u64,
    /// The group's addresses less its own.
    diff: u64,
    has: [Has; RANGES],
}

struct Kernel {
    memory: Shared,
    broken: Option<Break>,
    list: Vec<Process>,
    running: [Option<usize>; CORES],
    /// The tables that are shared, and whether their entries are.
    tables: [u64; RANGES],
    begun: [bool; RANGES],
    group: u64,
    mask: u64,
    /// Which cores have dropped what the CCID's last owner had.
    seen: [bool; CORES],
    /// All members are about to end: the next owner's first process drops what they leave.
    abandoned: bool,
    pids: u32,
    frames: u64,
}

fn group_address(range: usize, page: u64) -> u64 {
    BASE + ((range as u64) << 21) + (page << 12)
}

impl Kernel {
    fn new(broken: Option<Break>, layouts: bool) -> Self {
        let memory = Shared(Rc::new(RefCell::new(Os::new())));
        let mut kernel = Self {
            memory,
            broken,
            list: Vec::new(),
            running: [None; CORES],
            tables: [0; RANGES],
            begun: [false; RANGES],
            group: 0,
            mask: 0,
            seen: [false; CORES],
            abandoned: false,
            pids: 0,
            frames: 0x1_0000_0000,
        };
        kernel.new_group();
        for number in 0..PROCESSES {
            let diff = if layouts { (number as u64) << 24 } else { 0 };
            let process = kernel.new_process(diff);
            kernel.list.push(process);
        }
        kernel
    }

    fn page(&self) -> u64 {
        self.memory.0.borrow_mut().table()
    }

    fn write(&self, paddr: u64, value: u64) {
        self.memory.0.borrow_mut().memory.write_u64(paddr, value);
    }

    fn write_u32(&self, paddr: u64, value: u32) {
        self.memory.0.borrow_mut().memory.write_u32(paddr, value);
    }

    fn frame(&mut self) -> u64 {
        self.frames += 0x1000;
        self.frames
    }

    /// Another group gets the CCID. Its tables have other pages.
    fn new_group(&mut self) {
        (self.group, self.mask) = (self.page(), self.page());
        self.write_u32(self.group, abi::GROUP_MAGIC);
        self.write_u32(self.group + 4, abi::VERSION);
        self.write(self.group + 24, BASE);
        self.write(self.group + 32, self.mask);
        self.write_u32(self.group + 12, 1);
        for range in 0..RANGES {
            self.tables[range] = self.page();
            for page in 0..PAGES {
                let frame = self.frame();
                self.write(self.tables[range] + page * 8, frame | RO);
            }
        }
        self.begun = [false; RANGES];
        if self.broken != Some(Break::Reuse) {
            self.seen = [false; CORES];
        }
    }

    fn new_process(&mut self, diff: u64) -> Process {
        let (root, space) = (self.page(), self.page());
        self.pids += 1;
        let own = BASE - diff;
        let words = [
            u64::from(abi::VERSION) << 32 | u64::from(abi::SPACE_MAGIC),
            u64::from(self.pids) << 32 | 1 << 16 | u64::from(CCID),
            self.group,
            own,
            own + (1 << 23),
            diff,
        ];
        for (number, word) in words.into_iter().enumerate() {
            self.write(space + number as u64 * 8, word);
        }
        Process {
            root,
            pid: self.pids,
            space,
            diff,
            has: [Has::Nothing; RANGES],
        }
    }

    fn own_address(&self, process: usize, range: usize, page: u64) -> u64 {
        group_address(range, page) - self.list[process].diff
    }

    /// Where the entry of a level is.
    fn slot(&self, process: usize, range: usize, page: u64, level: u32) -> u64 {
        let vaddr = self.own_address(process, range, page);
        let root = self.list[process].root;
        self.memory.0.borrow_mut().slot(root, vaddr, level)
    }

    fn read(&self, paddr: u64) -> u64 {
        self.memory.read_u64(paddr).unwrap()
    }

    /// The process's entry of a page; 0 if it has no table there.
    fn truth(&self, process: usize, range: usize, page: u64) -> u64 {
        match self.list[process].has[range] {
            Has::Nothing => 0,
            _ => self.read(self.slot(process, range, page, 12)),
        }
    }

    /// The process that a core runs, if it has something in a range. What it does where it has
    /// nothing is its own mistake, of which the kernel promises nothing.
    fn uses(&self, core: usize, range: usize) -> Option<usize> {
        self.running[core].filter(|&process| self.list[process].has[range] != Has::Nothing)
    }

    fn users(&self, range: usize) -> Vec<usize> {
        let shares = |&process: &usize| self.list[process].has[range] == Has::Shares;
        (0..self.list.len()).filter(shares).collect()
    }

    fn change_users(&self, range: usize, set: u64, clear: u64) {
        for process in self.users(range) {
            let pmd = self.slot(process, range, 0, 21);
            self.write(pmd, self.read(pmd) & !clear | set);
        }
    }

    // MaskPages.

    fn bits(&self, range: usize) -> u32 {
        let at = abi::mask_at(self.mask, group_address(range, 0));
        self.memory.read_u32(at).unwrap()
    }

    fn set_bits(&self, range: usize, bits: u32) {
        self.write_u32(abi::mask_at(self.mask, group_address(range, 0)), bits);
    }

    fn place(&self, pid: u32) -> Option<u32> {
        abi::place(&self.memory, self.mask, pid)
    }

    fn set_bit(&self, process: usize, range: usize) {
        let pid = self.list[process].pid;
        let list = abi::pid_list(self.mask);
        let place = self.place(pid).unwrap_or_else(|| {
            let mut free = list.clone().step_by(4);
            let free = free.position(|at| self.memory.read_u32(at) == Some(0));
            let free = free.unwrap() as u32;
            self.write_u32(list.start + u64::from(free) * 4, pid);
            free
        });
        self.set_bits(range, self.bits(range) | 1 << place);
    }

    fn clear_bits(&self, range: usize, bits: u32) {
        self.set_bits(range, self.bits(range) & !bits);
        for place in (0..32).filter(|place| bits >> place & 1 != 0) {
            if (0..RANGES).all(|range| self.bits(range) >> place & 1 == 0) {
                self.write_u32(abi::pid_list(self.mask).start + place * 4, 0);
            }
        }
    }

    // Marks and flushes.

    fn drop_entries(&self, sink: &mut impl Sink, range: usize, cores: &[usize]) {
        for &core in cores {
            let what = Invalidation::SharedPages {
                ccid: CCID,
                vaddr: group_address(range, 0),
                order: 9,
            };
            sink.invalidate(core, what);
        }
    }

    /// The cores that run a member.
    fn busy(&self) -> Vec<usize> {
        let runs = |&core: &usize| self.running[core].is_some();
        (0..CORES).filter(runs).collect()
    }

    fn cores_of(&self, process: usize) -> Vec<usize> {
        let runs = |&core: &usize| self.running[core] == Some(process);
        (0..CORES).filter(runs).collect()
    }

    /// On processors that do not run it, its own entries alone go: with PCIDs that is when they
    /// next do.
    fn flush(&self, sink: &mut impl Sink, process: usize) {
        for core in 0..CORES {
            let root = self.list[process].root;
            sink.invalidate(core, Invalidation::AddressSpace { root });
        }
    }

    fn switch(&mut self, sink: &mut impl Sink, core: usize, process: Option<usize>) {
        self.running[core] = process;
        let Some(process) = process else {
            sink.set_context(core, context(0x9000));
            sink.set_member(core, &Member::default());
            return;
        };
        let Process { root, space, .. } = self.list[process];
        sink.set_context(core, context(root));
        if !std::mem::replace(&mut self.seen[core], true) {
            sink.invalidate(core, Invalidation::Ccid { ccid: CCID });
        }
        sink.set_member(core, &abi::member(&self.memory, space).unwrap());
    }

    // What processes do.

    fn begin_range(&mut self, range: usize) {
        if self.begun[range] || self.users(range).len() < 2 {
            return;
        }
        for process in 0..self.list.len() {
            if self.list[process].has[range] == Has::Own {
                self.set_bit(process, range);
            }
        }
        let or_pc = if self.bits(range) != 0 { ORPC } else { 0 };
        self.change_users(range, S | or_pc, 0);
        self.begun[range] = true;
    }

    fn end_range(&mut self, sink: &mut impl Sink, range: usize) {
        self.change_users(range, 0, S | ORPC);
        if !self.abandoned {
            self.drop_entries(sink, range, &[0, 1, 2]);
        }
        self.clear_bits(range, u32::MAX);
        self.begun[range] = false;
    }

    /// It maps what others share. Whatever it has there is gone.
    fn join(&mut self, sink: &mut impl Sink, process: usize, range: usize) {
        if self.list[process].has[range] == Has::Shares {
            return;
        }
        let pmd = self.slot(process, range, 0, 21);
        self.write(pmd, self.tables[range] | RW);
        self.list[process].has[range] = Has::Shares;
        self.flush(sink, process);
        if !self.begun[range] {
            return self.begin_range(range);
        }
        if let Some(place) = self.place(self.list[process].pid) {
            self.clear_bits(range, 1 << place);
        }
        let or_pc = if self.bits(range) != 0 { ORPC } else { 0 };
        self.change_users(range, S | or_pc, ORPC & !or_pc);
    }

    /// It gets a table of its own, with the same pages.
    fn leave(&mut self, sink: &mut impl Sink, process: usize, range: usize) {
        let own = self.page();
        for page in 0..512 {
            let entry = self.read(self.tables[range] + page * 8);
            self.write(own + page * 8, entry);
        }
        self.write(self.slot(process, range, 0, 21), own | RW);
        self.list[process].has[range] = Has::Own;
        self.uncount(sink, process, range, true);
        self.flush(sink, process);
    }

    fn uncount(&mut self, sink: &mut impl Sink, process: usize, range: usize, masked: bool) {
        if !self.begun[range] {
            return;
        }
        if self.users(range).len() < 2 {
            return self.end_range(sink, range);
        }
        if masked && self.broken != Some(Break::Bit) {
            self.set_bit(process, range);
            if self.broken != Some(Break::Orpc) {
                self.change_users(range, ORPC, 0);
            }
        }
        if masked && self.broken != Some(Break::Drop) {
            self.drop_entries(sink, range, &[0, 1, 2]);
        }
    }

    /// It writes to a page.
    fn copy_on_write(&mut self, sink: &mut impl Sink, process: usize, range: usize, page: u64) {
        match self.list[process].has[range] {
            Has::Nothing => return,
            Has::Shares => self.leave(sink, process, range),
            Has::Own => {}
        }
        let frame = self.frame();
        self.write(self.slot(process, range, page, 12), frame | RW);
        let vaddr = self.own_address(process, range, page);
        let root = self.list[process].root;
        for core in 0..CORES {
            let what = match self.running[core] == Some(process) {
                true => Invalidation::Page { vaddr },
                false => Invalidation::AddressSpace { root },
            };
            sink.invalidate(core, what);
        }
    }

    /// It maps memory of its own where it had nothing.
    fn map(&mut self, sink: &mut impl Sink, process: usize, range: usize, page: u64) {
        if self.list[process].has[range] != Has::Nothing {
            return;
        }
        if self.begun[range] && self.broken != Some(Break::Claim) {
            self.set_bit(process, range);
            self.change_users(range, ORPC, 0);
            self.drop_entries(sink, range, &[0, 1, 2]);
        }
        let (own, frame) = (self.page(), self.frame());
        self.write(own + page * 8, frame | RW);
        self.write(self.slot(process, range, 0, 21), own | RW);
        self.list[process].has[range] = Has::Own;
    }

    /// A page of a shared table is taken, moved or comes.
    fn change(&mut self, sink: &mut impl Sink, range: usize, page: u64, gone: bool) {
        let entry = if gone { 0 } else { self.frame() | RO };
        self.write(self.tables[range] + page * 8, entry);
        if self.begun[range] {
            let cores = match self.broken {
                Some(Break::Stale) => self.busy(),
                _ => vec![0, 1, 2],
            };
            self.drop_entries(sink, range, &cores);
        }
        for process in self.users(range) {
            self.flush(sink, process);
        }
    }

    /// It ends, and another begins in its place.
    fn exit(&mut self, sink: &mut impl Sink, process: usize) {
        self.write_u32(self.list[process].space + 8, 1 << 16);
        for core in self.cores_of(process) {
            self.switch(sink, core, None);
        }
        for range in 0..RANGES {
            if std::mem::replace(&mut self.list[process].has[range], Has::Nothing) == Has::Shares {
                self.uncount(sink, process, range, false);
            }
        }
        if let Some(place) = self.place(self.list[process].pid) {
            for range in 0..RANGES {
                self.clear_bits(range, 1 << place);
            }
        }
        self.list[process] = self.new_process(self.list[process].diff);
        let identity = Identity {
            process: self.list[process].pid,
            cohort: 0,
        };
        sink.set_identity(self.list[process].root, identity);
    }

    /// All end, and another group gets the CCID.
    fn end_group(&mut self, sink: &mut impl Sink) {
        self.abandoned = true;
        for process in 0..PROCESSES {
            self.exit(sink, process);
        }
        self.abandoned = false;
        self.new_group();
        for process in 0..PROCESSES {
            self.list[process] = self.new_process(self.list[process].diff);
        }
    }

    /// Something happens, if only a switch.
    fn step(&mut self, sink: &mut impl Sink, dice: &mut Dice) {
        let (core, process) = (dice.below(CORES), dice.below(PROCESSES));
        let (range, page) = (dice.below(RANGES), dice.below(PAGES as usize) as u64);
        match dice.below(400) {
            0 => self.end_group(sink),
            1..=3 => self.exit(sink, process),
            4..=10 => self.change(sink, range, page, dice.below(3) == 0),
            11..=14 => self.copy_on_write(sink, process, range, page),
            15..=17 => self.map(sink, process, range, page),
            18..=40 => self.join(sink, process, range),
            41..=140 => {
                let process = (dice.below(20) > 0).then_some(process);
                self.switch(sink, core, process);
            }
            _ => {}
        }
        // A user's copy is written once it has one.
        if dice.below(100) == 0 && self.list[process].has[range] == Has::Own {
            self.copy_on_write(sink, process, range, page);
        }
    }
}

fn model(aslr: &str) -> Model {
    let text = format!(
        "name = \"exact\"\nabout = \"\"\nbase = \"babelfish-kernel\"\n[babelfish]\naslr = \"{aslr}\"\n\
         [sources]\nbabelfish = \"assumed: a test\"\n"
    );
    Model::parse("exact", &text).unwrap()
}

/// Random steps; after each a process reads. What it reads must be its own.
fn live(broken: Option<Break>, aslr: &str, seed: u64, steps: usize) -> Machine<Shared> {
    let mut kernel = Kernel::new(broken, aslr == "hw");
    let mut machine = Machine::new(&model(aslr), CORES, kernel.memory.clone()).unwrap();
    let mut dice = Dice(seed | 1);
    for core in 0..CORES {
        kernel.switch(&mut machine, core, Some(core));
    }
    for step in 0..steps {
        kernel.step(&mut machine, &mut dice);
        let (core, range) = (dice.below(CORES), dice.below(RANGES));
        let page = dice.below(PAGES as usize) as u64;
        let Some(process) = kernel.uses(core, range) else {
            continue;
        };
        let vaddr = kernel.own_address(process, range, page) + 8;
        let truth = kernel.truth(process, range, page);
        let result = machine.attempt(core, AccessKind::Read, vaddr);
        let expected = match truth & 1 {
            0 => Err(Fault::NotPresent),
            _ => Ok((truth & TABLE) + 8),
        };
        // A violation is dropped when it is found, so that even then the result is right.
        assert_eq!(result, expected, "step {step}, {broken:?}");
    }
    machine
}

fn violations(machine: &Machine<Shared>) -> u64 {
    machine.report().total.mechanisms.babelfish.violations
}

#[test]
fn a_kernel_that_keeps_the_rules_has_no_violation() {
    for aslr in ["hw", "sw"] {
        let machine = live(None, aslr, 7, 60_000);
        let report = machine.report();
        let fish = report.total.mechanisms.babelfish;
        assert_eq!(fish.violations, 0, "{:?}", machine.violations());
        assert!(report.violations.is_empty());
        // All of the mechanism is used.
        let shared: u64 = ["fetch", "data"]
            .map(|side| {
                report
                    .total
                    .tlb_sum(if aslr == "hw" { 2 } else { 1 }, side)
                    .1
            })
            .iter()
            .sum();
        assert!(shared > 500, "{shared}");
        assert!(fish.shared_fills > 500, "{fish:?}");
        assert!(
            fish.mask_pages > 100 && fish.private_refusals > 50,
            "{fish:?}"
        );
        assert!(fish.long_accesses > 100 || aslr == "sw", "{fish:?}");
        assert_eq!(report.total.tlb_stale, 0);
    }
}

#[test]
fn every_rule_that_is_broken_gives_violations() {
    for broken in [
        Break::Drop,
        Break::Bit,
        Break::Orpc,
        Break::Stale,
        Break::Claim,
        Break::Reuse,
    ] {
        for aslr in ["hw", "sw"] {
            let machine = live(Some(broken), aslr, 7, 60_000);
            assert!(violations(&machine) > 0, "{broken:?} {aslr}");
            let first = machine.violations()[0];
            assert_eq!(first.ccid, CCID, "{broken:?}");
            assert_ne!(first.held, first.own, "{broken:?}");
            assert!(machine.violations().len() <= 16);
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn no_order_of_events_gives_a_violation(seed in any::<u64>(), sw in any::<bool>()) {
        let machine = live(None, if sw { "sw" } else { "hw" }, seed, 4_000);
        prop_assert_eq!(violations(&machine), 0, "{:?}", machine.violations());
    }
}

/// Two processes at different addresses that share range 0, on two cores.
fn pair() -> (Kernel, Machine<Shared>) {
    let mut kernel = Kernel::new(None, true);
    let mut machine = Machine::new(&model("hw"), CORES, kernel.memory.clone()).unwrap();
    for process in 0..2 {
        kernel.join(&mut machine, process, 0);
    }
    (kernel, machine)
}

fn read(
    kernel: &Kernel,
    machine: &mut Machine<Shared>,
    core: usize,
    page: u64,
) -> Result<u64, Fault> {
    let process = kernel.running[core].unwrap();
    let vaddr = kernel.own_address(process, 0, page);
    machine.attempt(core, AccessKind::Read, vaddr)
}

#[test]
fn processes_at_different_addresses_use_one_entry() {
    let (mut kernel, mut machine) = pair();
    kernel.switch(&mut machine, 0, Some(0));
    let page = read(&kernel, &mut machine, 0, 3);
    kernel.switch(&mut machine, 0, Some(1));
    assert_ne!(kernel.own_address(0, 0, 3), kernel.own_address(1, 0, 3));
    assert_eq!(read(&kernel, &mut machine, 0, 3), page);
    let total = machine.report().total;
    assert_eq!((total.walks, total.tlb_sum(2, "data").1), (1, 1));
    assert_eq!(total.mechanisms.babelfish.shared_fills, 1);
    // Without a CCID it has entries of its own, and those of the CCID stay.
    kernel.switch(&mut machine, 0, None);
    machine.set_context(0, context(kernel.list[1].root));
    machine
        .attempt(0, AccessKind::Read, kernel.own_address(1, 0, 4))
        .unwrap();
    assert_eq!(machine.report().total.mechanisms.babelfish.shared_fills, 1);
    kernel.switch(&mut machine, 0, Some(0));
    read(&kernel, &mut machine, 0, 3).unwrap();
    assert_eq!(machine.report().total.walks, 2);
}

#[test]
fn the_mask_page_is_read_where_the_kernel_has_it() {
    let (mut kernel, mut machine) = pair();
    kernel.join(&mut machine, 2, 0);
    kernel.copy_on_write(&mut machine, 2, 0, 5);
    kernel.switch(&mut machine, 0, Some(0));
    let before = machine.report().total.mask_pages_read;
    read(&kernel, &mut machine, 0, 3).unwrap();
    assert_eq!(machine.report().total.mask_pages_read - before, 1);
    // Its line is in the caches, as any other: the tables' leaf and the MaskPage are read.
    let lines = machine.report().total.caches;
    let l2 = lines.iter().find(|cache| cache.cache == "l2").unwrap();
    assert_eq!(l2.walk_misses, 5);
    // The process with the bit does not take the entry.
    kernel.switch(&mut machine, 0, Some(2));
    read(&kernel, &mut machine, 0, 3).unwrap();
    let fish = machine.report().total.mechanisms.babelfish;
    assert_eq!((fish.private_refusals, fish.long_accesses), (1, 1));
    assert_eq!((fish.shared_fills, fish.violations), (1, 0));
}

#[test]
fn marks_drop_what_they_name_on_their_core() {
    let (mut kernel, mut machine) = pair();
    let fill = |kernel: &mut Kernel, machine: &mut Machine<Shared>| {
        for core in 0..2 {
            kernel.switch(machine, core, Some(core));
            (0..4).for_each(|page| {
                read(kernel, machine, core, page).unwrap();
            });
        }
    };
    let held = |machine: &Machine<Shared>| {
        let census = machine.census();
        [0, 1].map(|core: usize| {
            let second = census[core].tlb.iter().filter(|tlb| tlb.level == 2);
            second.map(|tlb| tlb.entries).sum::<u64>()
        })
    };
    let pages = |vaddr, order| Invalidation::SharedPages {
        ccid: CCID,
        vaddr,
        order,
    };
    let own = kernel.own_address(0, 0, 1);
    let root = kernel.list[0].root;
    for (what, left) in [
        (pages(group_address(0, 1), 0), 3),
        (pages(group_address(0, 0), 1), 2),
        (pages(group_address(0, 0), 9), 0),
        (pages(group_address(1, 0), 9), 4),
        (Invalidation::Ccid { ccid: CCID }, 0),
        (Invalidation::Ccid { ccid: CCID + 1 }, 4),
        // What the process that runs could use goes, at its own address.
        (Invalidation::Page { vaddr: own }, 3),
        // A reload of its root drops what is its own alone.
        (Invalidation::AddressSpace { root }, 4),
    ] {
        machine.invalidate(0, Invalidation::All);
        fill(&mut kernel, &mut machine);
        assert_eq!(held(&machine), [4, 4]);
        machine.invalidate(0, what);
        assert_eq!(held(&machine), [left, 4], "{what:?}");
    }
    // Entries of a process that is gone stay: the kernel has not dropped them.
    fill(&mut kernel, &mut machine);
    machine.set_identity(
        root,
        Identity {
            process: 1,
            cohort: 0,
        },
    );
    machine.set_identity(
        root,
        Identity {
            process: 9,
            cohort: 0,
        },
    );
    assert_eq!(held(&machine), [4, 4]);
    kernel.switch(&mut machine, 0, Some(0));
    let before = machine.report().total.tlb_sum(2, "data").1;
    read(&kernel, &mut machine, 0, 0).unwrap();
    assert_eq!(machine.report().total.tlb_sum(2, "data").1, before + 1);
}

/// A wrong entry in core 0's TLB: process 0 has another page of its own.
fn wrong() -> (Kernel, Machine<Shared>) {
    let (mut kernel, mut machine) = pair();
    kernel.switch(&mut machine, 0, Some(1));
    read(&kernel, &mut machine, 0, 3).unwrap();
    kernel.switch(&mut machine, 0, Some(0));
    let own = kernel.page();
    kernel.write(own + 3 * 8, 0x7777_0000 | RW);
    kernel.write(kernel.slot(0, 0, 0, 21), own | RW);
    (kernel, machine)
}

#[test]
fn a_violation_says_who_met_what() {
    let (kernel, mut machine) = wrong();
    let shared = kernel.read(kernel.tables[0] + 3 * 8) & TABLE;
    assert_eq!(read(&kernel, &mut machine, 0, 3), Ok(0x7777_0000));
    let [found] = machine.violations() else {
        panic!("{:?}", machine.violations());
    };
    assert_eq!((found.wrong, found.core), (Wrong::Other, 0));
    assert_eq!((found.ccid, found.pid), (CCID, kernel.list[0].pid));
    assert_eq!(found.vaddr, kernel.own_address(0, 0, 3));
    assert_eq!(found.held.map(|page| page.frame), Some(shared));
    assert_eq!(found.own.map(|page| page.frame), Some(0x7777_0000));
    let words = found.to_string();
    assert!(
        words.contains(&format!("{shared:#x}, 4K (read, execute)")),
        "{words}"
    );
    let json = serde_json::to_value(machine.report()).unwrap();
    assert_eq!(json["violations"][0]["wrong"], "other");
    assert_eq!(json["total"]["babelfish"]["violations"], 1);
    // It is counted once.
    read(&kernel, &mut machine, 0, 3).unwrap();
    assert_eq!(violations(&machine), 1);
}

#[test]
fn an_old_entry_is_no_violation_while_it_may_be_flushed() {
    let vaddr = |kernel: &Kernel| kernel.own_address(0, 0, 3);
    let (kernel, mut machine) = wrong();
    let (old, new) = (kernel.read(kernel.tables[0] + 24) & TABLE, 0x7777_0000);
    // GIVEN another core in the kernel, which may be about to flush THEN the entry is stale.
    let in_kernel = Context {
        privilege: Privilege::Kernel,
        ..context(0x9000)
    };
    machine.set_context(2, in_kernel);
    machine.access(0, AccessKind::Read, vaddr(&kernel), Some(new), 8);
    assert_eq!((violations(&machine), machine.counters(0).stale), (0, 1));
    // GIVEN none there, but the guest itself uses the old page.
    let (kernel, mut machine) = wrong();
    machine.access(0, AccessKind::Read, vaddr(&kernel), Some(old), 8);
    assert_eq!(violations(&machine), 0);
    // WHEN it does not THEN it is one.
    let (kernel, mut machine) = wrong();
    machine.access(0, AccessKind::Read, vaddr(&kernel), Some(new), 8);
    assert_eq!((violations(&machine), machine.counters(0).stale), (1, 0));
    // A fault is in the kernel, and came from outside of it.
    let (kernel, mut machine) = wrong();
    kernel.write(kernel.slot(0, 0, 3, 12), 0);
    let faulted = Context {
        privilege: Privilege::Kernel,
        ..context(kernel.list[0].root)
    };
    machine.set_context(0, faulted);
    machine.fault(0, AccessKind::Read, vaddr(&kernel));
    assert_eq!(machine.counters(0).faults.not_present, 1);
    // WHEN it gives a page THEN the entry was a mistake.
    kernel.write(kernel.slot(0, 0, 3, 12), 0x7777_0000 | RW);
    machine.fault_done(0);
    assert_eq!(machine.violations()[0].wrong, Wrong::Gone);
}

#[test]
fn who_maps_nothing_strays() {
    let (kernel, mut machine) = wrong();
    kernel.write(kernel.slot(0, 0, 3, 12), 0);
    machine.fault(0, AccessKind::Read, kernel.own_address(0, 0, 3));
    machine.fault_done(0);
    let fish = machine.report().total.mechanisms.babelfish;
    assert_eq!((fish.strays, fish.violations), (1, 0));
}

#[test]
fn more_rights_and_a_bit_of_ones_own_are_violations() {
    // The shared table's page may be written in the entry, and not in the process's tables.
    let (mut kernel, mut machine) = pair();
    let leaf = kernel.tables[0] + 3 * 8;
    kernel.write(leaf, kernel.read(leaf) | RW);
    kernel.switch(&mut machine, 0, Some(1));
    read(&kernel, &mut machine, 0, 3).unwrap();
    kernel.write(leaf, kernel.read(leaf) & !2);
    kernel.switch(&mut machine, 0, Some(0));
    read(&kernel, &mut machine, 0, 3).unwrap();
    assert_eq!(machine.violations()[0].wrong, Wrong::Rights);
    // An entry with S whose process has its bit: it is taken as owned.
    let (mut kernel, mut machine) = pair();
    kernel.set_bit(0, 0);
    kernel.change_users(0, ORPC, 0);
    kernel.switch(&mut machine, 0, Some(0));
    read(&kernel, &mut machine, 0, 3).unwrap();
    let fish = machine.report().total.mechanisms.babelfish;
    assert_eq!((fish.violations, fish.shared_fills), (1, 0));
    assert_eq!(machine.violations()[0].wrong, Wrong::Masked);
    // Fewer rights are no violation: the processor faults, and walks.
    let (mut kernel, mut machine) = pair();
    kernel.switch(&mut machine, 0, Some(1));
    read(&kernel, &mut machine, 0, 3).unwrap();
    kernel.write(
        kernel.tables[0] + 24,
        kernel.read(kernel.tables[0] + 24) | RW,
    );
    kernel.switch(&mut machine, 0, Some(0));
    read(&kernel, &mut machine, 0, 3).unwrap();
    assert_eq!(violations(&machine), 0);
}

#[test]
fn a_replay_gives_the_figures_of_the_run() {
    for broken in [None, Some(Break::Drop), Some(Break::Stale)] {
        let mut kernel = Kernel::new(broken, true);
        let header = Header {
            cores: CORES,
            page_tables: "x86-64".to_owned(),
            about: String::new(),
        };
        let model = model("hw");
        let mut machine = Machine::new(&model, CORES, kernel.memory.clone()).unwrap();
        let mut recorder = Recorder::new(&header, kernel.memory.clone(), Vec::new()).unwrap();
        let mut dice = Dice(99);
        {
            let both = &mut Both(&mut machine, &mut recorder);
            for core in 0..CORES {
                kernel.switch(both, core, Some(core));
            }
            for _ in 0..40_000 {
                kernel.step(both, &mut dice);
                let (core, range) = (dice.below(CORES), dice.below(RANGES));
                let page = dice.below(PAGES as usize) as u64;
                let Some(process) = kernel.uses(core, range) else {
                    continue;
                };
                let vaddr = kernel.own_address(process, range, page) + 8;
                let truth = kernel.truth(process, range, page);
                both.instructions(core, 7);
                if truth & 1 == 0 {
                    both.fault(core, AccessKind::Read, vaddr);
                    both.fault_done(core);
                    continue;
                }
                let paddr = (dice.below(3) > 0).then_some((truth & TABLE) + 8);
                both.access(core, AccessKind::Read, vaddr, paddr, 8);
            }
        }
        let trace = recorder.finish().unwrap();
        let mut again = Machine::new(&model, CORES, SparseMemory::new()).unwrap();
        replay(Reader::new(trace.as_slice()).unwrap(), &mut again).unwrap();
        let report = machine.report();
        assert_eq!(again.report(), report, "{broken:?}");
        let fish = report.total.mechanisms.babelfish;
        assert_eq!(fish.violations > 0, broken.is_some(), "{broken:?}");
        assert!(fish.shared_fills > 100 && fish.mask_pages > 50, "{fish:?}");
        assert_eq!(report.total.unexplained, 0);
    }
}
