// SPDX-License-Identifier: GPL-2.0-or-later
//! The timing of a core: how much of a miss it feels.
//!
//! Time is counted in ticks, of which a cycle has as many as the core issues instructions, so that
//! an instruction is one tick and all sums are whole numbers.
//!
//! - An instruction takes one tick, whatever it does.
//! - A hit in the L1 TLB and the L1 cache costs nothing more: the pipeline hides it.
//! - A fetch that misses stalls the core for all of its latency.
//! - A load that misses is put into a queue with the time when its data is there. The core goes on
//!   until the reorder buffer is full behind the oldest load (as many instructions later as the
//!   buffer has entries), and then waits for it: the *exposed part* of the miss. Misses behind each
//!   other in the buffer overlap.
//! - A store leaves through a write buffer: it waits for its translation as a load does, but not
//!   for its line.
//! - A miss holds one of the MSHRs of the core's own caches until its line is there. When all are
//!   taken the core waits for the first. A miss of the shared cache takes one of that cache's as
//!   well, for which all cores compete (`cache.rs`).
//! - A walk takes one of the core's page walkers until it has ended, and waits for the first that is
//!   free when all are taken.
//!
//! The instructions of a basic block are counted before its accesses, so a position in the reorder
//! buffer is known to within a block.

use crate::mshr::Mshrs;
use std::collections::VecDeque;

/// Loads under way that are remembered.
const QUEUE: usize = 256;

/// A load whose result is under way.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The instruction count at which the reorder buffer is full behind it.
    full_at: u64,
    done: u64,
    /// The last part of the latency, spent in the caches; what came before was translation.
    cache_part: u64,
}

/// A core's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Now.
    pub now: u64,
    /// Instructions so far.
    pub instructions: u64,
    /// When [`Self::advance`] has to look at the queue.
    look_at: u64,
    rob: u64,
    loads: VecDeque<Load>,
    mshrs: Mshrs,
    /// When each page walker is free.
    walkers: Vec<u64>,
    stalls: Stalls,
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
    /// For the line of a load, or for a free MSHR.
    pub data_cache: u64,
}

impl Clock {
    /// A clock at 0 of a core with `rob` entries in its reorder buffer (0: it executes in order and
    /// waits for each load), `mshrs` MSHRs and `walkers` page walkers (each at least one).
    pub fn new(rob: u64, mshrs: usize, walkers: usize) -> Self {
        Self {
            now: 0,
            instructions: 0,
            look_at: u64::MAX,
            rob,
            loads: VecDeque::with_capacity(QUEUE),
            mshrs: Mshrs::new(mshrs, u64::MAX),
            walkers: vec![0; walkers.max(1)],
            stalls: Stalls::default(),
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

    #[cold]
    fn advance_stalling(&mut self, count: u64) {
        let target = self.instructions + count;
        while let Some(load) = self.loads.front().copied() {
            if load.full_at > target {
                break;
            }
            // The instructions up to the one that no longer fits are issued first.
            let fit = load.full_at.max(self.instructions) - self.instructions;
            self.now += fit;
            self.instructions += fit;
            self.wait_for(load);
            self.loads.pop_front();
        }
        self.now += target - self.instructions;
        self.instructions = target;
        self.look_at = self.loads.front().map_or(u64::MAX, |load| load.full_at);
    }

    fn wait_for(&mut self, load: Load) {
        let stall = load.done.saturating_sub(self.now);
        // What was hidden hid the beginning: translation comes before the line.
        let cache = stall.min(load.cache_part);
        self.stalls.data_cache += cache;
        self.stalls.data_translation += stall - cache;
        self.now += stall;
    }

    /// A fetch that took so long.
    pub fn fetch(&mut self, translation: u64, cache: u64) {
        self.stalls.fetch_translation += translation;
        self.stalls.fetch_cache += cache;
        self.now += translation + cache;
    }

    /// A load, or a store (`waits_for_line` false), that took so long. `cache` is 0 for a hit.
    pub fn data(&mut self, translation: u64, cache: u64, waits_for_line: bool) {
        if cache > 0 {
            self.take_mshr(translation + cache);
        }
        let cache_part = if waits_for_line { cache } else { 0 };
        if translation + cache_part == 0 {
            return;
        }
        let load = Load {
            full_at: self.instructions + self.rob,
            done: self.now + translation + cache_part,
            cache_part,
        };
        if self.rob == 0 {
            self.wait_for(load);
            return;
        }
        if self.loads.len() == QUEUE {
            // More at once than any block of code brings; the oldest is waited for.
            if let Some(oldest) = self.loads.pop_front() {
                self.wait_for(oldest);
            }
        }
        self.loads.push_back(load);
        self.look_at = self.loads.front().map_or(u64::MAX, |load| load.full_at);
    }

    fn take_mshr(&mut self, latency: u64) {
        let wait = self.mshrs.wait(self.now);
        self.stalls.data_cache += wait;
        self.now += wait;
        self.mshrs.take(self.now + latency);
    }

    /// How long a page walk that is wanted `after` ticks from now waits for a walker.
    pub fn walker_wait(&self, after: u64) -> u64 {
        let free = self.walkers.iter().copied().min().unwrap_or(0);
        free.saturating_sub(self.now + after)
    }

    /// The walker that is free first is taken until so many ticks from now.
    pub fn walker_taken(&mut self, until: u64) {
        let until = self.now + until;
        if let Some(first) = self.walkers.iter_mut().min() {
            *first = until.max(*first);
        }
    }

    /// Waits for every load that is under way: at serialising events, so that their cost is not
    /// felt by the next process.
    pub fn drain(&mut self) {
        while let Some(load) = self.loads.pop_front() {
            self.wait_for(load);
        }
        self.look_at = u64::MAX;
    }

    /// Moves the clock of an idle core forward; returns by how much.
    pub fn skip_to(&mut self, time: u64) -> u64 {
        let gap = time.saturating_sub(self.now);
        self.now += gap;
        gap
    }
}
