// SPDX-License-Identifier: GPL-2.0-or-later
//! The cache hierarchy: private L1I, L1D and L2, a shared last level, main memory behind it.
//!
//! Every line has its set and its age, whether it holds data or page tables, so that the two push
//! each other out as they do in hardware. Caches write back and allocate on writes. The shared last
//! level contains what the private ones hold and knows for each line which cores have it; that is
//! what keeps the cores coherent: a core may write a line only after the others have given it up.

use crate::assoc::Assoc;
use crate::counters::Counters;
use crate::dram::{Dram, Geometry};
use crate::pool::Pool;
use crate::prefetch::prefetch;
use crate::replacement::Policy;

/// Bits of a line's state.
mod line {
    /// Changed; the level below has an older copy.
    pub const DIRTY: u8 = 1;
    /// This core alone has it and may write.
    pub const OWN: u8 = 2;
    /// The page walker read it: a line of page tables.
    pub const TABLE: u8 = 4;
}

/// Numbers of the caches in counters.
pub mod which {
    /// The instruction cache.
    pub const L1I: usize = 0;
    /// The data cache.
    pub const L1D: usize = 1;
    /// The private second level.
    pub const L2: usize = 2;
    /// The shared last level.
    pub const LAST: usize = 3;
}

/// The geometry of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lines.
    pub lines: usize,
    /// Ways of a set.
    pub ways: usize,
    /// Which way goes.
    pub policy: Policy,
    /// Access time in ticks.
    pub latency: u64,
    /// Whether what is written goes to the next level at once (an L1 alone).
    pub through: bool,
}

/// The geometry of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// L1I and L1D.
    pub l1: [Shape; 2],
    /// Private L2, if there is one.
    pub l2: Option<Shape>,
    /// Shared last level, if there is one.
    pub last: Option<Shape>,
    /// Misses that the shared last level may have under way, of all cores together.
    pub last_mshrs: usize,
    /// Line size as a power of two.
    pub line_shift: u32,
    /// Whether the page walker reads through the L1D, or begins at the level below.
    pub walk_in_l1d: bool,
    /// Ticks to fetch a changed line from another core, on top of the shared cache's time.
    pub snoop: u64,
    /// Main memory.
    pub memory: Geometry,
}

/// What the caches are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// By the program.
    Fetch,
    /// By the program.
    Read,
    /// By the program: the line becomes this core's own.
    Write,
    /// By the page walker.
    Walk,
}

#[derive(Clone, Debug)]
struct Cache {
    lines: Assoc,
    state: Vec<u8>,
    latency: u64,
    /// Whether what is written goes to the next level at once.
    through: bool,
    /// How many lines hold page tables.
    tables: u64,
}

impl Cache {
    fn new(shape: &Shape) -> Self {
        Self {
            lines: Assoc::new(shape.lines, shape.ways, shape.policy),
            state: vec![0; shape.lines],
            latency: shape.latency,
            through: shape.through,
            tables: 0,
        }
    }

    #[inline(always)]
    fn hit(&mut self, line: u64) -> Option<usize> {
        let set = self.lines.set_of(line);
        self.lines.hit(set, line)
    }

    #[inline(always)]
    fn prefetch(&self, line: u64) -> (usize, usize) {
        let set = self.lines.set_of(line);
        self.lines.prefetch(set);
        let (first, ways) = self.lines.slots(set);
        prefetch(&self.state, first, ways);
        (first, ways)
    }

    fn find(&self, line: u64) -> Option<usize> {
        self.lines.find(self.lines.set_of(line), line)
    }

    fn mark(&mut self, slot: usize, bits: u8) {
        if bits & line::TABLE != 0 && self.state[slot] & line::TABLE == 0 {
            self.tables += 1;
        }
        self.state[slot] |= bits;
    }

    /// Puts a line in; the line that had to go, and its state.
    fn fill(&mut self, line: u64, state: u8) -> (usize, Option<(u64, u8)>) {
        let (slot, old) = self.lines.insert(self.lines.set_of(line), line);
        let old = old.map(|tag| (tag, self.state[slot]));
        if old.is_some_and(|(_, state)| state & line::TABLE != 0) {
            self.tables -= 1;
        }
        self.state[slot] = 0;
        self.mark(slot, state);
        (slot, old)
    }

    /// Gives a line up; its state.
    fn drop_line(&mut self, line: u64) -> Option<u8> {
        let slot = self.find(line)?;
        let state = std::mem::take(&mut self.state[slot]);
        if state & line::TABLE != 0 {
            self.tables -= 1;
        }
        self.lines.remove(slot);
        Some(state)
    }

    fn table_lines(&self) -> impl Iterator<Item = u64> {
        (0..self.lines.len())
            .filter(|&slot| self.state[slot] & line::TABLE != 0)
            .filter_map(|slot| self.lines.tag(slot))
    }
}

/// A core's own caches.
#[derive(Clone, Debug)]
struct Private {
    l1: [Cache; 2],
    l2: Option<Cache>,
}

/// The hierarchy of all cores.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    private: Vec<Private>,
    last: Option<Cache>,
    last_mshrs: Pool,
    /// For each slot of the last level, the cores that may have the line.
    sharers: Vec<u64>,
    memory: Dram,
    line_shift: u32,
    walk_in_l1d: bool,
    snoop: u64,
}

impl Hierarchy {
    /// Empty caches for `cores` cores (at most 64).
    pub fn new(shapes: &Shapes, cores: usize) -> Self {
        let private = Private {
            l1: [Cache::new(&shapes.l1[0]), Cache::new(&shapes.l1[1])],
            l2: shapes.l2.as_ref().map(Cache::new),
        };
        Self {
            private: vec![private; cores],
            last: shapes.last.as_ref().map(Cache::new),
            last_mshrs: Pool::new(shapes.last_mshrs, shapes.memory.longest()),
            sharers: vec![0; shapes.last.map_or(0, |shape| shape.lines)],
            memory: Dram::new(shapes.memory),
            line_shift: shapes.line_shift,
            walk_in_l1d: shapes.walk_in_l1d,
            snoop: shapes.snoop,
        }
    }

    /// The line that holds a physical address.
    #[inline(always)]
    pub fn line(&self, paddr: u64) -> u64 {
        paddr >> self.line_shift
    }

    /// Line size as a power of two.
    #[inline(always)]
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// The sets of the larger caches in which a line may be will be needed.
    #[inline(always)]
    pub fn prefetch(&self, core: usize, line: u64) {
        if let Some(cache) = &self.private[core].l2 {
            cache.prefetch(line);
        }
        if let Some(cache) = &self.last {
            let (first, ways) = cache.prefetch(line);
            prefetch(&self.sharers, first, ways);
        }
    }

    /// An access to a line, if the L1 (0: L1I, 1: L1D) settles it: whether it did. A miss counts
    /// nothing; ask [`Self::access`] then.
    #[inline(always)]
    pub fn hit_l1(
        &mut self,
        core: usize,
        side: usize,
        line: u64,
        write: bool,
        counters: &mut Counters,
    ) -> bool {
        let cache = &mut self.private[core].l1[side];
        let Some(slot) = cache.hit(line) else {
            return false;
        };
        if write {
            if cache.state[slot] & line::OWN == 0 || cache.through {
                return false;
            }
            cache.state[slot] |= line::DIRTY;
        }
        counters.cache[side].hits += 1;
        true
    }

    /// An access to a line by `core` at its tick `now`: the ticks it takes beyond a hit in the L1
    /// (for the walker: in all). 0 is a hit.
    pub fn access(
        &mut self,
        core: usize,
        request: Request,
        line: u64,
        now: u64,
        counters: &mut Counters,
    ) -> u64 {
        let walk = request == Request::Walk;
        let side = usize::from(request != Request::Fetch);
        let mark = if walk { line::TABLE } else { 0 };
        let write = request == Request::Write;
        // A miss costs the access times of all levels that were asked, the L1's among them; a hit
        // in the L1 is hidden by the pipeline.
        let mut time = 0;
        let mut count = |cache: usize, hit: bool| {
            let counters = &mut counters.cache[cache];
            match (walk, hit) {
                (false, true) => counters.hits += 1,
                (false, false) => counters.misses += 1,
                (true, true) => counters.walk_hits += 1,
                (true, false) => counters.walk_misses += 1,
            }
        };
        let uses_l1 = !walk || self.walk_in_l1d;
        if uses_l1 {
            let cache = &mut self.private[core].l1[side];
            let latency = cache.latency;
            if let Some(slot) = cache.hit(line) {
                cache.mark(slot, mark);
                count(side, true);
                if walk {
                    time += latency;
                }
                if write && cache.state[slot] & line::OWN == 0 {
                    time += self.take_from_others(core, line, counters);
                    self.own(core, line);
                }
                if write {
                    let cache = &mut self.private[core].l1[side];
                    if cache.through {
                        self.write_through(core, line, now + time, counters);
                    } else {
                        cache.state[slot] |= line::DIRTY;
                    }
                }
                return time;
            }
            count(side, false);
            time += latency;
        }
        let mut state = mark;
        let mut found = false;
        if let Some(cache) = &mut self.private[core].l2 {
            time += cache.latency;
            if let Some(slot) = cache.hit(line) {
                cache.mark(slot, mark);
                count(which::L2, true);
                state |= cache.state[slot] & (line::OWN | line::TABLE);
                found = true;
            } else {
                count(which::L2, false);
            }
        }
        if !found {
            let (below, own) = self.last_level(core, line, mark, now + time, write, counters);
            time += below;
            if own {
                state |= line::OWN;
            }
            if let Some(cache) = &mut self.private[core].l2 {
                let (_, old) = cache.fill(line, state);
                if let Some((victim, victim_state)) = old {
                    self.evicted(core, which::L2, victim, victim_state, now + time, counters);
                }
            }
        } else if write && state & line::OWN == 0 {
            time += self.take_from_others(core, line, counters);
            self.own(core, line);
            state |= line::OWN;
        }
        if uses_l1 {
            let through = write && self.private[core].l1[side].through;
            let dirty = if write && !through { line::DIRTY } else { 0 };
            let state = state | dirty;
            if through {
                self.write_through(core, line, now + time, counters);
            }
            let (_, old) = self.private[core].l1[side].fill(line, state);
            if let Some((victim, victim_state)) = old {
                self.evicted(core, side, victim, victim_state, now + time, counters);
            }
        }
        time
    }

    /// A miss of the private caches: the ticks it takes, and whether the line is now this core's
    /// own.
    fn last_level(
        &mut self,
        core: usize,
        line: u64,
        mark: u8,
        now: u64,
        write: bool,
        counters: &mut Counters,
    ) -> (u64, bool) {
        let walk = mark != 0;
        let me = 1u64 << core;
        let Some(cache) = &mut self.last else {
            // No shared cache: private hierarchies are not kept coherent.
            return (
                self.memory.access(line, now, false, &mut counters.memory),
                true,
            );
        };
        let mut time = cache.latency;
        let hit = cache.hit(line);
        let own_counters = &mut counters.cache[which::LAST];
        match (walk, hit.is_some()) {
            (false, true) => own_counters.hits += 1,
            (false, false) => own_counters.misses += 1,
            (true, true) => own_counters.walk_hits += 1,
            (true, false) => own_counters.walk_misses += 1,
        }
        if let Some(slot) = hit {
            cache.mark(slot, mark);
            let others = self.sharers[slot] & !me;
            if write {
                if others != 0 {
                    time += self.take_from_others(core, line, counters);
                }
            } else if others.count_ones() == 1 {
                // One other core may have it as its own: it becomes shared.
                time += self.share(others.trailing_zeros() as usize, line, slot);
            }
            self.sharers[slot] |= me;
            return (time, write || others == 0);
        }
        let mshr = self.last_mshrs.claim(now + time);
        time = mshr.at - now;
        time += self
            .memory
            .access(line, now + time, false, &mut counters.memory);
        self.last_mshrs.take(mshr, now + time, line);
        let (slot, old) = cache.fill(line, mark);
        let had = std::mem::replace(&mut self.sharers[slot], me);
        if let Some((victim, state)) = old {
            self.evicted_last(victim, state, had, now + time, counters);
        }
        (time, true)
    }

    /// The other core keeps the line but may not write it any more.
    fn share(&mut self, other: usize, line: u64, slot: usize) -> u64 {
        let private = &mut self.private[other];
        let mut dirty = false;
        for cache in private.l1.iter_mut().chain(&mut private.l2) {
            if let Some(slot) = cache.find(line) {
                dirty |= cache.state[slot] & line::DIRTY != 0;
                cache.state[slot] &= !(line::DIRTY | line::OWN);
            }
        }
        if !dirty {
            return 0;
        }
        if let Some(last) = &mut self.last {
            last.state[slot] |= line::DIRTY;
        }
        self.snoop
    }

    /// Every other core gives the line up: the ticks it takes.
    fn take_from_others(&mut self, core: usize, line: u64, counters: &mut Counters) -> u64 {
        let Some(slot) = self.last.as_ref().and_then(|last| last.find(line)) else {
            return 0;
        };
        let others = self.sharers[slot] & !(1 << core);
        self.sharers[slot] = 1 << core;
        let (any, dirty) = self.drop_in(others, line, counters);
        if dirty {
            if let Some(last) = &mut self.last {
                last.state[slot] |= line::DIRTY;
            }
        }
        if any { self.snoop } else { 0 }
    }

    /// The cores of a set give a line up: whether any had it, and whether one had changed it.
    fn drop_in(&mut self, cores: u64, line: u64, counters: &mut Counters) -> (bool, bool) {
        let (mut any, mut dirty, mut rest) = (false, false, cores);
        while rest != 0 {
            let private = &mut self.private[rest.trailing_zeros() as usize];
            rest &= rest - 1;
            for (number, cache) in private.l1.iter_mut().chain(&mut private.l2).enumerate() {
                if let Some(state) = cache.drop_line(line) {
                    any = true;
                    dirty |= state & line::DIRTY != 0;
                    counters.cache[number].invalidated += 1;
                }
            }
        }
        (any, dirty)
    }

    /// The core's copies of the line become its own.
    fn own(&mut self, core: usize, line: u64) {
        let private = &mut self.private[core];
        for cache in private.l1.iter_mut().chain(&mut private.l2) {
            if let Some(slot) = cache.find(line) {
                cache.state[slot] |= line::OWN;
            }
        }
    }

    /// What was written to an L1 that keeps nothing back: the next cache that has the line takes
    /// it, or memory. Nothing waits for it.
    fn write_through(&mut self, core: usize, line: u64, now: u64, counters: &mut Counters) {
        let below = self.private[core].l2.iter_mut().chain(&mut self.last);
        for cache in below {
            if let Some(slot) = cache.hit(line) {
                cache.state[slot] |= line::DIRTY;
                return;
            }
        }
        self.memory.access(line, now, true, &mut counters.memory);
    }

    /// A private cache gave a line up to make room.
    fn evicted(
        &mut self,
        core: usize,
        from: usize,
        line: u64,
        state: u8,
        now: u64,
        counters: &mut Counters,
    ) {
        if state & line::DIRTY == 0 {
            return;
        }
        counters.cache[from].writebacks += 1;
        if from != which::L2 {
            if let Some(cache) = &mut self.private[core].l2 {
                if let Some(slot) = cache.find(line) {
                    cache.state[slot] |= line::DIRTY;
                    return;
                }
            }
        }
        if let Some(cache) = &mut self.last {
            if let Some(slot) = cache.find(line) {
                cache.state[slot] |= line::DIRTY;
                return;
            }
        }
        // Nothing waits for it, but it takes the bank's time.
        self.memory.access(line, now, true, &mut counters.memory);
    }

    /// The last level gave a line up: so do the cores that have it.
    fn evicted_last(
        &mut self,
        line: u64,
        state: u8,
        sharers: u64,
        now: u64,
        counters: &mut Counters,
    ) {
        let (_, dirty) = self.drop_in(sharers, line, counters);
        if dirty || state & line::DIRTY != 0 {
            counters.cache[which::LAST].writebacks += 1;
            self.memory.access(line, now, true, &mut counters.memory);
        }
    }

    /// How many lines of each of a core's caches hold page tables; the shared cache is the last.
    pub fn table_lines(&self, core: usize) -> [u64; 4] {
        let private = &self.private[core];
        [
            private.l1[0].tables,
            private.l1[1].tables,
            private.l2.as_ref().map_or(0, |cache| cache.tables),
            self.last.as_ref().map_or(0, |cache| cache.tables),
        ]
    }

    /// The lines of page tables that a cache of a core holds, as line numbers, by slot.
    pub fn table_lines_of(&self, core: usize, cache: usize) -> Vec<u64> {
        let private = &self.private[core];
        match cache {
            which::L1I | which::L1D => private.l1[cache].table_lines().collect(),
            which::L2 => private.l2.iter().flat_map(Cache::table_lines).collect(),
            _ => self.last.iter().flat_map(Cache::table_lines).collect(),
        }
    }
}
