// SPDX-License-Identifier: GPL-2.0-or-later
//! The model itself: cores with their TLBs, behind them the caches and memory they share.
//!
//! `mod.rs` has the parts and the events, `access.rs` the way of an access through TLBs and caches,
//! `check.rs` comparisons for debugging, `walk.rs` page walks, `spaces.rs` address spaces, processes and invalidations.

mod access;
mod build;
mod check;
mod spaces;
mod walk;

pub use build::CORES_MAX;

use crate::assoc::Assoc;
use crate::cache::Hierarchy;
use crate::code::Op;
use crate::counters::{Counters, Tally};
use crate::description::{Model, Tag, WalkCacheTag};
use crate::event::{
    AccessKind, Context, Fault, Identity, Invalidation, Mark, Member, Privilege, Segment, Sink,
};
use crate::format::{Format, Walk};
use crate::hash::QuickMap;
use crate::levels::Levels;
use crate::memory::GuestMemory;
use crate::requests::{Latencies, Requests, When};
use crate::time::Clock;
use crate::tlb::Tlb;
use crate::tlb::mechanism::Mechanism;
use crate::violation::Violation;
use std::collections::HashMap;

/// The number of no block of code.
const NO_BLOCK: usize = usize::MAX;

/// An access whose physical address the page tables do not explain.
#[derive(Clone, Copy, Debug)]
pub struct Mismatch {
    /// The core.
    pub core: usize,
    /// The access.
    pub kind: AccessKind,
    /// Its virtual address.
    pub vaddr: u64,
    /// The physical address that the source gave.
    pub paddr: Option<u64>,
    /// The one that a TLB held, if that is what is wrong: it was never filled with it, or the entry
    /// is another address space's.
    pub held: Option<u64>,
    /// What the tables say: the entries on the way and the result.
    pub walk: Walk,
}

/// Mismatches that are kept for [`Machine::mismatches`].
const MISMATCHES_KEPT: usize = 64;
/// How many clock cycles a core may lag behind the others before it counts as having been idle.
const IDLE_AFTER_CYCLES: u64 = 1_000_000;

/// An address space: one root.
#[derive(Clone, Debug)]
struct Space {
    root: u64,
    /// The hardware tag it was last used with.
    asid: u16,
    identity: Identity,
    /// The group that its counters are added to.
    bucket: usize,
    /// Faults whose handling was interrupted by a context switch.
    faults: u32,
    /// Where it has tried to write and taken a fault that is being handled.
    wrote: Option<u64>,
}

/// One core.
#[derive(Clone, Debug)]
struct Core {
    /// Whether a hit needs no more than tag, rights and address (see `access.rs`).
    fast: bool,
    /// The tags to look up with, by level.
    tags: Levels<u16>,
    /// By level, the tag of shared entries where owned ones have another; 0 if there are none.
    shared_tags: Levels<u16>,
    /// The running fault's access is being judged.
    faulting: bool,
    sure: Sure,
    /// Its process has nothing there and met a shared entry: a mistake if the kernel then maps a page.
    unmapped: Option<Violation>,
    space: u16,
    /// By kind of access: attribute bits that decide, and what they must be.
    decide: [u16; 3],
    wanted: [u16; 3],
    l1: [Tlb; 2],
    /// The levels behind it: one TLB for both sides, or two.
    behind: Vec<Vec<Tlb>>,
    walk_cache: Vec<Assoc>,
    leaves: Leaves,
    clock: Clock,
    /// The block of code that it executes, or [`NO_BLOCK`].
    block: usize,
    counters: Counters,
    /// The counters when they were last given to a process.
    given: Counters,
    /// Ticks that were idle.
    idle: u64,
    context: Context,
    /// The last context whose root was a process's, or as the next switch is told from it.
    ran: Context,
    /// Faults being handled, and when the outermost began.
    faults: u32,
    fault_instructions: u64,
    fault_ticks: u64,
}

/// Pages that are remembered as compared.
const SURE: usize = 128;

/// Entries of others that say what the tables of the running process say: page and frame. They are
/// forgotten at each switch and whenever entries are dropped.
#[derive(Clone, Debug)]
struct Sure(Vec<(u64, u64)>);

impl Sure {
    fn new() -> Self {
        Self(vec![(u64::MAX, 0); SURE])
    }

    fn place(vaddr: u64) -> usize {
        (vaddr >> 12) as usize % SURE
    }

    fn knows(&self, vaddr: u64, paddr: u64) -> bool {
        self.0[Self::place(vaddr)] == (vaddr >> 12, paddr >> 12)
    }

    fn note(&mut self, vaddr: u64, paddr: u64) {
        self.0[Self::place(vaddr)] = (vaddr >> 12, paddr >> 12);
    }

    fn forget(&mut self) {
        self.0.fill((u64::MAX, 0));
    }
}

/// Tables that are remembered.
const LEAVES: usize = 256;

/// Where the last tables of walks were, to guess where the next walk will end: for the host's memory
/// alone, so a guess may be wrong.
#[derive(Clone, Debug)]
struct Leaves {
    /// By bits of the virtual address: the address of the table.
    tables: Vec<u64>,
    /// Of a walk's last entry: bits of the address below those of its index, and its size.
    shift: u32,
    entry_bytes: u64,
}

impl Leaves {
    fn new(format: &Format) -> Self {
        Self {
            tables: vec![0; LEAVES],
            shift: format.level_shift(format.levels() - 1),
            entry_bytes: format.entry_bytes,
        }
    }

    fn place(&self, vaddr: u64) -> usize {
        (vaddr >> self.shift >> 9) as usize % LEAVES
    }

    fn note(&mut self, vaddr: u64, paddr: u64) {
        let place = self.place(vaddr);
        self.tables[place] = paddr & !0xfff;
    }

    /// Where the entry for an address may be.
    fn entry(&self, vaddr: u64) -> u64 {
        let offset = ((vaddr >> self.shift) * self.entry_bytes) & 0xfff;
        self.tables[self.place(vaddr)] + offset
    }
}

/// Constants of the machine, in ticks where they are times.
#[derive(Clone, Debug)]
struct Fixed {
    ticks_per_cycle: u64,
    tag: Tag,
    fault_drops_page: bool,
    /// The time of a walker's read that hits where it enters the caches.
    walk_hit: u64,
    /// By level and side.
    tlb_time: Levels<[u64; 2]>,
    flushed_on_switch: Levels<[bool; 2]>,
    walk_cache: Option<(WalkCacheTag, u64)>,
    /// The last level of TLB, 0 for L1.
    last_level: usize,
    /// By level: whether a mechanism judges lookups, and whether entries are shared by cohort.
    judged: Levels<bool>,
    /// The attribute bits of entries of the first level that a mechanism judges.
    judged_bits: u16,
    shared: Levels<bool>,
    /// Whether a mechanism must know what the guest's own tables say.
    infers: bool,
    /// Whether the kernel says who shares what, and the attribute bit of entries that are not shared.
    exact: bool,
    owned: u16,
    idle_after: u64,
}

/// Counters of a process, or of an address space of which the process is not known.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub identity: Identity,
    /// 0 if the process is known.
    pub root: u64,
    pub counters: Counters,
}

/// Counters of the region of interest, or of all time.
pub(crate) struct Counted {
    /// By core.
    pub cores: Vec<Counters>,
    /// By process.
    pub buckets: Vec<(Identity, u64, Counters)>,
    /// Filled in by the caller.
    pub requests: Option<Latencies>,
}

/// The region of interest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// Whether it ever began.
    pub marked: bool,
    /// Counters at its beginning, while it lasts: cores, buckets.
    pub began: Option<(Vec<Counters>, Vec<Counters>)>,
    /// The parts that are over.
    pub cores: Vec<Counters>,
    pub buckets: Vec<Counters>,
}

/// A modelled machine with its cores.
#[derive(Clone, Debug)]
pub struct Machine<M> {
    last_core: usize,
    cores: Vec<Core>,
    caches: Hierarchy,
    fixed: Fixed,
    format: Format,
    mechanisms: Vec<Box<dyn Mechanism>>,
    memory: M,
    /// Blocks of code, by number.
    code: Vec<Box<[Op]>>,
    /// The farthest that any core's clock has come.
    time: u64,
    spaces: Vec<Space>,
    by_root: QuickMap<u64, u16>,
    /// The next number of an address space to be given again when all are taken.
    recycle: u16,
    pub(crate) buckets: Vec<Bucket>,
    bucket_of: HashMap<(Identity, u64), usize>,
    pub(crate) region: Region,
    pub(crate) requests: Requests,
    check: bool,
    checked: u64,
    filled: check::Filled,
    mismatches: Vec<Mismatch>,
    violations: Vec<Violation>,
    /// Cores in the kernel.
    in_kernel: usize,
    pub(crate) model: Model,
}

impl<M: GuestMemory> Machine<M> {
    /// The memory it was given.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory it was given, to be changed.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// The name of its page-table format.
    pub fn page_tables(&self) -> &str {
        &self.model.page_tables
    }

    /// Compares from now on every access that comes with a physical address to a walk of the
    /// guest's tables, and each hit that the address contradicts to what the TLB was filled with:
    /// slow, for debugging. Without it only misses are compared. Of an access that crosses into
    /// another page the first page is compared.
    pub fn check_every_access(&mut self, on: bool) {
        self.check = on;
        for core in 0..self.cores.len() {
            self.renew(core);
        }
    }

    /// How many accesses were compared by [`Self::check_every_access`].
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// The first accesses that no walk explained, at most 64. A guest may cause some: between
    /// changing an entry and flushing it, other cores use the old one.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// The first violations of what BabelFish's kernel promises, at most 16.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Tries an access that may fail: what a test does that plays the operating system. Counts as
    /// an access whether it succeeds or not. Returns the physical address. It must not cross a page.
    pub fn attempt(&mut self, core: usize, kind: AccessKind, vaddr: u64) -> Result<u64, Fault> {
        self.enter(core);
        self.finish_block(core);
        self.count(core, kind);
        self.touch::<false>(core, kind, vaddr, None)
    }

    /// The ticks that a core's clock shows, idle time included; a cycle has
    /// [`Self::ticks_per_cycle`].
    pub fn now(&self, core: usize) -> u64 {
        self.cores[core].clock.now
    }

    /// Ticks of a cycle: the issue width.
    pub fn ticks_per_cycle(&self) -> u64 {
        self.fixed.ticks_per_cycle
    }

    /// The counters of a core since the beginning, whatever was marked.
    pub fn counters(&self, core: usize) -> Counters {
        let core = &self.cores[core];
        let mut counters = core.counters.clone();
        core.write_times(&mut counters);
        counters
    }

    /// The process whose address space a core has, as the source named it; 0 if it did not.
    pub fn process(&self, core: usize) -> u32 {
        self.spaces[usize::from(self.cores[core].space)]
            .identity
            .process
    }

    /// The counters of a process since the beginning, on whatever cores it ran, what runs now
    /// included. All processes that the source did not name have the number 0.
    pub fn process_counters(&self, process: u32) -> Counters {
        let mut sum = Counters::default();
        let of_it = |bucket: &&Bucket| bucket.identity.process == process;
        for bucket in self.buckets.iter().filter(of_it) {
            sum.add(&bucket.counters);
        }
        for (number, core) in self.cores.iter().enumerate() {
            if self.process(number) == process {
                let mut counters = core.counters.clone();
                core.write_times(&mut counters);
                sum.add_since(&counters, &core.given);
            }
        }
        sum
    }

    /// The TLBs of a core that serve a level (0 for L1) and side (0 fetch, 1 data), for a census.
    pub(crate) fn tlb(&self, core: usize, level: usize, side: usize) -> Option<&Tlb> {
        let core = &self.cores[core];
        match level {
            0 => Some(&core.l1[side]),
            _ => {
                let tlbs = core.behind.get(level - 1)?;
                tlbs.get(side.min(tlbs.len() - 1))
            }
        }
    }

    /// Whether both sides of a level are one TLB.
    pub(crate) fn unified(&self, level: usize) -> bool {
        level > 0 && self.cores[0].behind[level - 1].len() == 1
    }

    /// Levels of TLB.
    pub(crate) fn tlb_levels(&self) -> usize {
        self.fixed.last_level + 1
    }

    pub(crate) fn caches(&self) -> &Hierarchy {
        &self.caches
    }

    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// The identity of an address space, by its number in a TLB entry.
    pub(crate) fn identity(&self, space: u16) -> (Identity, u64) {
        let space = self.spaces.get(usize::from(space));
        space.map_or_else(Default::default, |space| (space.identity, space.root))
    }

    /// The next event is of this core. A core that was left behind by more than a time slice of
    /// any source was idle: its clock catches up.
    #[inline(always)]
    fn enter(&mut self, core: usize) {
        if core != self.last_core {
            self.change_core(core);
        }
    }

    #[inline(never)]
    fn change_core(&mut self, core: usize) {
        self.time = self.time.max(self.cores[self.last_core].clock.now);
        self.last_core = core;
        let core = &mut self.cores[core];
        if self.time.saturating_sub(core.clock.now) > self.fixed.idle_after {
            core.clock.drain();
            core.idle += core.clock.skip_to(self.time);
        }
    }

    /// The block of code that a core executes is issued to its end.
    #[inline(always)]
    fn finish_block(&mut self, core: usize) {
        let core = &mut self.cores[core];
        if let Some(code) = self.code.get(core.block) {
            core.clock.execute(code, code.len());
            core.block = NO_BLOCK;
        }
    }

    #[inline(always)]
    fn count(&mut self, core: usize, kind: AccessKind) {
        let counters = &mut self.cores[core].counters;
        match kind {
            AccessKind::Fetch => counters.fetches += 1,
            AccessKind::Read => counters.reads += 1,
            AccessKind::Write => counters.writes += 1,
        }
    }

    /// Gives what a core counted since the last time to the process that runs on it.
    fn settle(&mut self, core: usize) {
        let core = &mut self.cores[core];
        let mut counters = core.counters.clone();
        core.write_times(&mut counters);
        core.counters = counters;
        let bucket = self.spaces[usize::from(core.space)].bucket;
        self.buckets[bucket]
            .counters
            .add_since(&core.counters, &core.given);
        core.given = core.counters.clone();
    }

    fn settle_all(&mut self) {
        for core in 0..self.cores.len() {
            self.settle(core);
        }
    }

    /// The counters of the region of interest, or of all time if none was marked; what runs now
    /// included.
    pub(crate) fn counted(&self) -> Counted {
        let mut cores: Vec<Counters> = self
            .cores
            .iter()
            .map(|core| core.counters.clone())
            .collect();
        let mut buckets: Vec<Counters> = self.buckets.iter().map(|b| b.counters.clone()).collect();
        for (core, counters) in self.cores.iter().zip(&mut cores) {
            core.write_times(counters);
            let bucket = self.spaces[usize::from(core.space)].bucket;
            buckets[bucket].add_since(counters, &core.given);
        }
        if self.region.marked {
            (cores, buckets) = self.region_sums(&cores, &buckets);
        }
        let named = self.buckets.iter().zip(buckets);
        let buckets = named
            .map(|(bucket, sum)| (bucket.identity, bucket.root, sum))
            .collect();
        Counted {
            cores,
            buckets,
            requests: None,
        }
    }

    fn region_start(&mut self) {
        self.settle_all();
        if !self.region.marked {
            self.region.marked = true;
            self.requests.clear();
        }
        if self.region.began.is_none() {
            let cores = self
                .cores
                .iter()
                .map(|core| core.counters.clone())
                .collect();
            let buckets = self
                .buckets
                .iter()
                .map(|bucket| bucket.counters.clone())
                .collect();
            self.region.began = Some((cores, buckets));
        }
    }

    fn region_stop(&mut self) {
        self.settle_all();
        if self.region.began.is_some() {
            let cores: Vec<_> = self
                .cores
                .iter()
                .map(|core| core.counters.clone())
                .collect();
            let buckets: Vec<_> = self
                .buckets
                .iter()
                .map(|bucket| bucket.counters.clone())
                .collect();
            let (cores, buckets) = self.region_sums(&cores, &buckets);
            self.region.cores = cores;
            self.region.buckets = buckets;
            self.region.began = None;
        }
    }

    /// The counters of the region so far, when those of all time are `now`.
    fn region_sums(&self, now: &[Counters], given: &[Counters]) -> (Vec<Counters>, Vec<Counters>) {
        let none = Counters::default();
        let mut cores = self.region.cores.clone();
        let mut buckets = self.region.buckets.clone();
        cores.resize(now.len(), none.clone());
        buckets.resize(given.len(), none.clone());
        if let Some((old_cores, old_buckets)) = &self.region.began {
            for (number, sum) in cores.iter_mut().enumerate() {
                sum.add_since(&now[number], &old_cores[number]);
            }
            for (number, sum) in buckets.iter_mut().enumerate() {
                sum.add_since(&given[number], old_buckets.get(number).unwrap_or(&none));
            }
        }
        (cores, buckets)
    }
}

impl Core {
    /// Writes what the clock knows into the counters.
    fn write_times(&self, counters: &mut Counters) {
        let stalls = self.clock.stalls();
        counters.ticks = self.clock.now - self.idle;
        counters.itlb_stall = stalls.fetch_translation;
        counters.icache_stall = stalls.fetch_cache;
        counters.dtlb_stall = stalls.data_translation;
        counters.dcache_stall = stalls.data_cache;
        counters.dependence_stall = stalls.dependence;
    }

    /// Whether rights allow the access.
    #[inline(always)]
    fn allows(&self, bits: u16, kind: AccessKind) -> bool {
        bits & self.decide[kind as usize] == self.wanted[kind as usize]
    }

    /// What was counted in fault handling since it began, or was last looked at.
    fn count_fault_handling(&mut self) {
        let ticks = self.clock.now - self.idle;
        self.counters.faults.instructions += self.counters.instructions - self.fault_instructions;
        self.counters.faults.ticks += ticks - self.fault_ticks;
        self.begin_fault_handling();
    }

    fn begin_fault_handling(&mut self) {
        self.fault_instructions = self.counters.instructions;
        self.fault_ticks = self.clock.now - self.idle;
    }
}

impl<M: GuestMemory> Sink for Machine<M> {
    #[inline]
    fn instructions(&mut self, core: usize, count: u64) {
        self.enter(core);
        self.finish_block(core);
        let core = &mut self.cores[core];
        core.counters.instructions += count;
        core.clock.advance(count);
    }

    fn define(&mut self, block: u32, code: &[Op]) {
        let block = block as usize;
        for core in 0..self.cores.len() {
            if self.cores[core].block == block {
                self.finish_block(core);
            }
        }
        if self.code.len() <= block {
            self.code.resize(block + 1, Box::default());
        }
        self.code[block] = match self.model.core.dependences {
            true => code.into(),
            // An instruction that reads and writes nothing waits for none.
            false => vec![Op::default(); code.len()].into(),
        };
    }

    #[inline]
    fn execute(&mut self, core: usize, block: u32) {
        self.enter(core);
        self.finish_block(core);
        let core = &mut self.cores[core];
        core.counters.instructions += self.code[block as usize].len() as u64;
        core.block = block as usize;
        core.clock.enter();
    }

    #[inline]
    fn at(&mut self, core: usize, instruction: u32) {
        let core = &mut self.cores[core];
        if let Some(code) = self.code.get(core.block) {
            core.clock.at(code, instruction as usize);
        }
    }

    #[inline]
    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32) {
        self.enter(core);
        self.count(core, kind);
        if kind == AccessKind::Write {
            let core = &mut self.cores[core];
            if let Some(code) = self.code.get(core.block) {
                core.clock.stored(code, vaddr);
            }
        }
        let last = vaddr.wrapping_add(u64::from(size.max(1)) - 1);
        if (vaddr ^ last) >> self.caches.line_shift() == 0 {
            let _ = self.touch::<true>(core, kind, vaddr, paddr);
        } else {
            self.access_split(core, kind, vaddr, paddr, last);
        }
    }

    fn expect(&mut self, core: usize, vaddr: u64, paddr: Option<u64>) {
        if let Some(paddr) = paddr {
            self.caches.prefetch(core, self.caches.line(paddr));
        }
        let leaf = self.cores[core].leaves.entry(vaddr);
        self.memory.expect(leaf);
        self.caches.prefetch(core, self.caches.line(leaf));
    }

    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        self.enter(core);
        self.finish_block(core);
        let why = self.touch_in_peace(core, kind, vaddr);
        let fixed_drops = self.fixed.fault_drops_page;
        let number = core;
        let core = &mut self.cores[core];
        let faults = &mut core.counters.faults;
        faults.by_kind[kind as usize] += 1;
        match why {
            Err(Fault::NotPresent) => faults.not_present += 1,
            Err(Fault::Protection) => faults.protection += 1,
            Err(Fault::CopyOnWrite) => faults.copy_on_write += 1,
            Err(Fault::Domain) => faults.domain += 1,
            Ok(_) => faults.spurious += 1,
        }
        if core.faults == 0 {
            core.begin_fault_handling();
        }
        core.faults += 1;
        let space = usize::from(core.space);
        if fixed_drops {
            self.drop_page(number, vaddr);
        }
        if kind == AccessKind::Write {
            self.spaces[space].wrote = Some(vaddr);
        }
    }

    fn fault_done(&mut self, core: usize) {
        self.enter(core);
        self.finish_block(core);
        let number = core;
        let core = &mut self.cores[core];
        if core.faults == 1 {
            core.count_fault_handling();
        }
        core.faults = core.faults.saturating_sub(1);
        let space = core.space;
        if let Some(met) = core.unmapped.take() {
            self.judge_unmapped(number, met);
        }
        if let Some(vaddr) = self.spaces[usize::from(space)].wrote.take() {
            self.wrote(number, vaddr);
        }
    }

    fn set_context(&mut self, core: usize, context: Context) {
        self.enter(core);
        self.finish_block(core);
        self.change_context(core, context);
        let in_kernel = |core: &&Core| core.context.privilege == Privilege::Kernel;
        self.in_kernel = self.cores.iter().filter(in_kernel).count();
    }

    fn set_identity(&mut self, root: u64, identity: Identity) {
        self.change_identity(root, identity);
    }

    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        self.change_segments(root, segments);
    }

    fn set_member(&mut self, core: usize, member: &Member) {
        // What a machine has no use for does not end the block of code either.
        if self.fixed.exact {
            self.enter(core);
            self.finish_block(core);
            self.change_member(core, member);
        }
    }

    fn private_copy(&mut self, root: u64, vaddr: u64) {
        self.copied_page(root, vaddr);
    }

    fn retire(&mut self, root: u64) {
        self.retire_space(root);
    }

    fn invalidate(&mut self, core: usize, what: Invalidation) {
        use Invalidation::{Ccid, SharedPages};
        if matches!(what, SharedPages { .. } | Ccid { .. }) && !self.fixed.exact {
            return;
        }
        self.enter(core);
        self.finish_block(core);
        self.invalidate_in(core, what);
    }

    fn mark(&mut self, core: usize, mark: Mark) {
        self.enter(core);
        self.finish_block(core);
        let now = When::of(core, self.cores[core].clock.now, self.time);
        let counts = !self.region.marked || self.region.began.is_some();
        match mark {
            Mark::Start => self.region_start(),
            Mark::Stop => self.region_stop(),
            Mark::RequestBegin { id } => self.requests.begin(id, now),
            Mark::RequestEnd { id } => {
                self.requests
                    .end(id, now, self.fixed.ticks_per_cycle, counts);
            }
        }
    }
}
