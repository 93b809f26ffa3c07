// SPDX-License-Identifier: GPL-2.0-or-later
//! The timing of a core: when its instructions are executed, and how much of a miss it feels.
//!
//! Time is counted in ticks, of which a cycle has as many as the core issues instructions, so that
//! an instruction is one tick and all sums are whole numbers.
//!
//! - Instructions are issued in order, one a tick, as long as the reorder buffer has room. It is
//!   full behind an instruction whose result is not there when as many more as it has entries have
//!   been issued; the core then waits for it. Misses within the buffer overlap.
//! - An instruction is executed when the registers that it reads are there, in whatever order. Its
//!   result is there a cycle later; that of a load when its data is: the L1's time after its address
//!   if it hits. So a load waits for its address and no more. Where the source names no registers
//!   (it calls `instructions`, or the instruction is unknown), nothing waits for anything.
//! - A store is done when its translation, its address and its data are there. Its line comes later: it
//!   waits in the store buffer, and the core waits only when that is full.
//! - A miss holds one of its L1's or L2's MSHRs from after its translation until its line is there;
//!   when all are taken it waits for the first, and the core goes on meanwhile. A miss of the
//!   shared cache takes one of that cache's as well, for which all cores compete (`cache.rs`).
//! - A load that hits a line, or a page, which is still on its way waits for it.
//! - A walk takes one of the core's page walkers until it has ended, and waits for the first that is
//!   free when all are taken.
//! - Fetches run ahead of the issue by as many instructions as there is room for between the two
//!   (`fetch_ahead`), and come in order. The core waits for what is not there in time.
//!
//! Where the source names registers the position in the reorder buffer is exact; else the
//! instructions of a basic block are counted before its accesses, and it is known to within a block.

use crate::code::{Op, REGISTERS, Registers};
use crate::event::AccessKind;
use crate::pool::{Claim, Pool};
use std::collections::VecDeque;

/// Unfinished instructions that are remembered.
const QUEUE: usize = 256;
/// Stalls that are remembered, to know when an earlier instruction was issued.
const STALLS: usize = 64;
/// Walks whose end is remembered.
const WALKS: usize = 16;
/// Stores whose data is late that are remembered, by address.
const LATE_STORES: usize = 64;

/// The fixed numbers of a core. Times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ticks of a cycle.
    pub cycle: u64,
    /// Entries of the reorder buffer; 0 executes in order and waits for each load.
    pub rob: u64,
    /// Instructions that fetches run ahead by.
    pub fetch_ahead: u64,
    /// Entries of the store buffer.
    pub stores: usize,
    /// MSHRs for fetches, and for loads and stores.
    pub mshrs: [usize; 2],
    /// Page walkers.
    pub walkers: usize,
    /// From a load's address to its data in the L1.
    pub l1_hit: u64,
    /// Whether instructions wait for the registers they read. If not, every one of a block must be
    /// `Op::default()`.
    pub dependences: bool,
}

/// An instruction that is issued and behind which the reorder buffer may fill up.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// The instruction count at which the reorder buffer is full behind it.
    full_at: u64,
    /// When its translation begins, when it ends, and when the instruction is done.
    begins: u64,
    translated: u64,
    done: u64,
}

/// A core's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Now: when the next instruction is issued.
    pub now: u64,
    /// Instructions issued so far.
    pub instructions: u64,
    /// When [`Self::advance`] has to look at the queue.
    look_at: u64,
    shape: Shape,
    /// In the order of the program, and each done later than the one before: one that is done
    /// earlier is never waited for.
    queue: VecDeque<Unfinished>,
    /// Of fetches, and of loads and stores.
    mshrs: [Pool; 2],
    store_buffer: Pool,
    walkers: Pool,
    /// Pages whose walks are under way on the data side, and until when.
    walks: [(u64, u64); WALKS],
    next_walk: usize,
    /// No line or page is under way for data from then on.
    settled: u64,
    /// When the address of the current access is there, and when it begins: not before a walk for its
    /// page that is under way has ended.
    wanted: u64,
    start: u64,
    /// When the address of the current instruction is there.
    address: u64,
    /// When the fetch before was asked for, and when the last was there.
    fetch_asked: u64,
    fetched: u64,
    /// The last stalls: the instruction before which, and how many ticks.
    last_stalls: VecDeque<(u64, u64)>,
    stalls: Stalls,
    /// When each register is there; only those in `late` may be later than now.
    ready: [u64; REGISTERS],
    late: Registers,
    /// Addresses, in units of eight bytes, that stores write whose data is late, and when it is there.
    late_stores: [(u64, u64); LATE_STORES],
    late_until: u64,
    /// The first instruction of the block that is not finished.
    cursor: usize,
    /// Whether that one is issued; its memory accesses may follow.
    issued: bool,
    /// When what it loads is there.
    loaded: u64,
}

/// Ticks in which the core waited, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// For the translation of a fetch.
    pub fetch_translation: u64,
    /// For the line of a fetch.
    pub fetch_cache: u64,
    /// For the translation of a load or store.
    pub data_translation: u64,
    /// For the line of a load, for an MSHR, or for the store buffer.
    pub data_cache: u64,
    /// For instructions that wait for each other's results.
    pub dependence: u64,
}

impl Clock {
    /// A clock at 0.
    pub fn new(shape: Shape) -> Self {
        let pool = |count| Pool::new(count, u64::MAX);
        Self {
            now: 0,
            instructions: 0,
            look_at: u64::MAX,
            shape,
            queue: VecDeque::with_capacity(QUEUE),
            mshrs: shape.mshrs.map(pool),
            store_buffer: pool(shape.stores),
            walkers: pool(shape.walkers),
            walks: [(0, 0); WALKS],
            next_walk: 0,
            settled: 0,
            wanted: 0,
            start: 0,
            address: 0,
            fetch_asked: 0,
            fetched: 0,
            last_stalls: VecDeque::with_capacity(STALLS),
            stalls: Stalls::default(),
            ready: [0; REGISTERS],
            late: 0,
            late_stores: [(0, 0); LATE_STORES],
            late_until: 0,
            cursor: 0,
            issued: false,
            loaded: 0,
        }
    }

    /// The ticks spent waiting so far.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }

    /// `count` instructions are issued.
    #[inline(always)]
    pub fn advance(&mut self, count: u64) {
        if self.instructions + count >= self.look_at {
            self.advance_stalling(count);
        } else {
            self.now += count;
            self.instructions += count;
        }
    }

    #[inline(never)]
    fn advance_stalling(&mut self, count: u64) {
        let target = self.instructions + count;
        while let Some(first) = self.queue.front().copied() {
            if first.full_at > target {
                break;
            }
            // The instructions up to the one that no longer fits are issued first.
            let fit = first.full_at.max(self.instructions) - self.instructions;
            self.now += fit;
            self.instructions += fit;
            self.wait_for(first);
            self.queue.pop_front();
        }
        self.now += target - self.instructions;
        self.instructions = target;
        self.look_at = self.queue.front().map_or(u64::MAX, |first| first.full_at);
    }

    fn wait_for(&mut self, what: Unfinished) {
        let from = |time: u64| what.done.saturating_sub(time.max(self.now));
        let stall = from(self.now);
        let (cache, both) = (from(what.translated), from(what.begins));
        self.stalls.data_cache += cache;
        self.stalls.data_translation += both - cache;
        self.stalls.dependence += stall - both;
        self.stall(stall);
    }

    /// Nothing is issued for so long.
    fn stall(&mut self, ticks: u64) {
        if ticks == 0 {
            return;
        }
        self.now += ticks;
        if self.last_stalls.len() == STALLS {
            self.last_stalls.pop_front();
        }
        self.last_stalls.push_back((self.instructions, ticks));
    }

    /// An instruction that was issued now will be done then.
    #[inline(never)]
    fn unfinished(&mut self, begins: u64, translated: u64, done: u64) {
        let what = Unfinished {
            full_at: self.instructions + self.shape.rob,
            begins,
            translated,
            done,
        };
        if self.shape.rob == 0 {
            self.wait_for(what);
            return;
        }
        if self.queue.back().is_some_and(|last| last.done >= done) {
            return;
        }
        if self.queue.len() == QUEUE {
            // More at once than any block of code brings; the oldest is waited for.
            if let Some(oldest) = self.queue.pop_front() {
                self.wait_for(oldest);
            }
        }
        self.queue.push_back(what);
        self.look_at = self.queue.front().map_or(u64::MAX, |first| first.full_at);
    }

    // --- registers ---

    /// A block of instructions begins. The one before must be finished.
    #[inline(always)]
    pub fn enter(&mut self) {
        self.cursor = 0;
        self.issued = false;
        self.address = 0;
    }

    /// Executes the instructions of the block up to this one, itself left out.
    #[inline]
    pub fn execute(&mut self, block: &[Op], to: usize) {
        let mut at = self.cursor;
        if !self.shape.dependences && self.shape.cycle <= self.shape.rob {
            // But for a load that was issued, none has anything to wait for: all at once.
            let to = to.min(block.len());
            if at < to && std::mem::replace(&mut self.issued, false) {
                self.finish(&block[at], self.loaded);
                at += 1;
            }
            if at < to {
                self.advance((to - at) as u64);
            }
            self.cursor = at.max(to);
            self.address = 0;
            return;
        }
        while let Some(op) = block.get(at).filter(|_| at < to) {
            let loaded = match std::mem::replace(&mut self.issued, false) {
                true => self.loaded,
                false => {
                    self.advance(1);
                    0
                }
            };
            self.finish(op, loaded);
            at += 1;
        }
        self.cursor = at;
        self.address = 0;
    }

    /// The accesses that follow are of this instruction of the block.
    #[inline]
    pub fn at(&mut self, block: &[Op], number: usize) {
        let Some(op) = block.get(number) else {
            self.address = 0;
            return;
        };
        self.execute(block, number);
        self.address = self.latest(op.address);
        if number == self.cursor && !self.issued {
            self.advance(1);
            self.issued = true;
            self.loaded = match op.loads {
                true => self.address.max(self.now) + self.shape.l1_hit,
                false => 0,
            };
        }
    }

    /// The values of an instruction's results are there when all that it needs is.
    #[inline(always)]
    fn finish(&mut self, op: &Op, loaded: u64) {
        let inputs = self.latest(op.address | op.reads).max(self.now);
        let done = (inputs + self.shape.cycle).max(loaded);
        // As many ticks at least pass until the buffer is full.
        if self.shape.rob > 0 && done > self.now + self.shape.rob {
            self.unfinished(done, done, done);
        }
        let mut writes = op.writes;
        if done <= self.now + 1 {
            // There for the next instruction.
            self.late &= !writes;
            return;
        }
        self.late |= writes;
        while writes != 0 {
            self.ready[writes.trailing_zeros() as usize] = done;
            writes &= writes - 1;
        }
    }

    /// When the last of these registers is there; 0 if all are.
    #[inline(always)]
    fn latest(&mut self, registers: Registers) -> u64 {
        let mut late = registers & self.late;
        let mut time = 0;
        while late != 0 {
            let number = late.trailing_zeros();
            let ready = self.ready[number as usize];
            if ready <= self.now {
                self.late &= !(1 << number);
            }
            time = time.max(ready);
            late &= late - 1;
        }
        time
    }

    // --- accesses ---

    /// An access begins that the L1s did not settle, or translation did not.
    pub fn begin(&mut self, kind: AccessKind, vaddr: u64) {
        if kind == AccessKind::Fetch {
            self.start = self.fetch_asked.max(self.room());
            self.fetch_asked = self.start;
            return;
        }
        self.wanted = self.now.max(self.address);
        self.start = self.wanted;
        if self.settled > self.start {
            let page = vaddr >> 12;
            for &(walked, until) in &self.walks {
                if walked == page {
                    self.start = self.start.max(until);
                }
            }
        }
    }

    /// When the instruction was issued that made room for the fetch of the next one.
    fn room(&self) -> u64 {
        let ahead = self.shape.fetch_ahead;
        let before = self.instructions.saturating_sub(ahead);
        let since = self.last_stalls.iter().rev();
        let since = since.take_while(|&&(at, _)| at > before);
        let stalls: u64 = since.map(|&(_, ticks)| ticks).sum();
        self.now.saturating_sub(ahead + stalls)
    }

    /// When the current access begins.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// An MSHR for a miss that is found `after` ticks from the access's beginning, and how long
    /// the miss waits for it.
    pub fn claim(&self, kind: AccessKind, after: u64) -> (Claim, u64) {
        let time = self.start + after;
        let claim = self.mshrs[usize::from(kind != AccessKind::Fetch)].claim(time);
        (claim, claim.at - time)
    }

    /// The claimed MSHR is taken for so many ticks.
    pub fn take(&mut self, kind: AccessKind, claim: Claim, ticks: u64, line: u64) {
        let until = claim.at + ticks;
        if kind == AccessKind::Fetch {
            self.mshrs[0].take(claim, until, line);
        } else {
            self.mshrs[1].take(claim, until, line);
            self.settled = self.settled.max(until);
        }
    }

    /// A fetch that took so long.
    pub fn fetch(&mut self, translation: u64, cache: u64) {
        self.fetched = self.fetched.max(self.start + translation + cache);
        let stall = self.fetched.saturating_sub(self.now);
        // What was hidden hid the beginning: translation comes before the line.
        let for_line = stall.min(cache);
        self.stalls.fetch_cache += for_line;
        self.stalls.fetch_translation += stall - for_line;
        self.stall(stall);
    }

    /// A load, or a store (`load` false), that took so long. `cache` is 0 for a hit.
    pub fn data(&mut self, translation: u64, cache: u64, load: bool) {
        let translated = self.start + translation;
        let there = translated + cache;
        if load {
            let data = match cache {
                0 => there + self.shape.l1_hit,
                _ => there,
            };
            self.loaded = self.loaded.max(data);
            if there > self.now {
                self.unfinished(self.wanted, translated, there);
            }
            return;
        }
        if translated > self.now {
            self.unfinished(self.wanted, translated, translated);
        }
        if cache > 0 {
            let claim = self.store_buffer.claim(self.now);
            let wait = claim.at - self.now;
            self.store_buffer.take(claim, there.max(claim.at), 0);
            self.stalls.data_cache += wait;
            self.stall(wait);
        }
    }

    /// Whether a hit may be on something that is still on its way.
    #[inline(always)]
    pub fn unsettled(&self) -> bool {
        self.settled > self.now || self.late_until > self.now
    }

    /// A load that hit: the line, the page or a store's data may still be on its way.
    #[inline(never)]
    pub fn hit(&mut self, vaddr: u64, line: u64) {
        self.begin(AccessKind::Read, vaddr);
        let (stored, ready) = self.late_stores[(vaddr >> 3) as usize % LATE_STORES];
        if stored == vaddr >> 3 {
            self.wanted = self.wanted.max(ready);
            self.start = self.start.max(ready);
        }
        self.hit_line(line);
    }

    /// The same of the line alone, from the access's beginning on.
    pub fn hit_line(&mut self, line: u64) {
        let under_way = self.mshrs[1].taken_for(line, self.start);
        let there = under_way.unwrap_or(self.start);
        self.loaded = self.loaded.max(there);
        if there > self.now {
            self.unfinished(self.wanted, self.start, there);
        }
    }

    /// A store of the current instruction of the block: who loads from there waits for its data.
    #[inline(always)]
    pub fn stored(&mut self, block: &[Op], vaddr: u64) {
        let Some(op) = block.get(self.cursor).filter(|_| self.issued) else {
            return;
        };
        let ready = self.latest(op.reads).max(match op.loads {
            true => self.loaded,
            false => 0,
        });
        let entry = &mut self.late_stores[(vaddr >> 3) as usize % LATE_STORES];
        if ready > self.now {
            *entry = (vaddr >> 3, ready);
            self.late_until = self.late_until.max(ready);
        } else if entry.0 == vaddr >> 3 {
            entry.1 = 0;
        }
    }

    /// How long a page walk that is wanted `after` ticks from the access's beginning waits for a
    /// walker.
    pub fn walker(&self, after: u64) -> (Claim, u64) {
        let time = self.start + after;
        let claim = self.walkers.claim(time);
        (claim, claim.at - time)
    }

    /// The claimed walker is taken for so many ticks, by a walk for this page.
    pub fn walker_taken(&mut self, claim: Claim, ticks: u64, kind: AccessKind, vaddr: u64) {
        let until = claim.at + ticks;
        self.walkers.take(claim, until, 0);
        if kind != AccessKind::Fetch {
            self.walks[self.next_walk] = (vaddr >> 12, until);
            self.next_walk = (self.next_walk + 1) % WALKS;
            self.settled = self.settled.max(until);
        }
    }

    /// Waits for everything that is under way: at serialising events, so that their cost is not
    /// felt by the next process.
    pub fn drain(&mut self) {
        while let Some(first) = self.queue.pop_front() {
            self.wait_for(first);
        }
        self.look_at = u64::MAX;
    }

    /// Moves the clock of an idle core forward; returns by how much.
    pub fn skip_to(&mut self, time: u64) -> u64 {
        let gap = time.saturating_sub(self.now);
        self.now += gap;
        self.fetch_asked = self.fetch_asked.max(self.now);
        gap
    }
}
