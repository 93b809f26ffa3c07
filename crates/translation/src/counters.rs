// SPDX-License-Identifier: GPL-2.0-or-later
//! What the model counts.
//!
//! A core counts with plain integers. Processes and cohorts cost nothing while they run: when a
//! core changes its process, what was counted since the last change goes to the one that leaves.

use crate::entry::SIZES_MAX;
use crate::levels::Levels;
pub use crate::tally::Tally;
use crate::tally::counters;
use crate::tlb::mechanism::Counts;

/// Caches: L1I, L1D, the private L2, the shared last level.
pub const CACHES: usize = 4;
/// Levels of page tables.
pub const TABLE_LEVELS: usize = crate::entry::LEVELS_MAX;

counters! {
    /// One level of TLB, one side, one page size.
    TlbCounters {
        /// Lookups that found a usable entry.
        hits: u64,
        /// Of these, on an entry that another process of the cohort brought in (ISCA'20 Figure 10b).
        shared_hits: u64,
        /// Of these, on a global entry that another address space brought in.
        global_hits: u64,
        /// Lookups that found none. Counted by the size of the page that was then found.
        misses: u64,
    }
}

counters! {
    /// One cache.
    CacheCounters {
        /// Hits of the program's own accesses.
        hits: u64,
        /// Misses of the program's own accesses.
        misses: u64,
        /// Hits of the page walker (and of MaskPage reads).
        walk_hits: u64,
        /// Misses of the page walker (and of MaskPage reads).
        walk_misses: u64,
        /// Changed lines given to the next level to make room.
        writebacks: u64,
        /// Lines that other cores gave up because this one wrote to them, or that any core did
        /// because the shared cache made room for this one's.
        invalidated: u64,
    }
}

counters! {
    /// Main memory.
    MemoryCounters {
        /// Lines read.
        reads: u64,
        /// Lines written back.
        writes: u64,
        /// Accesses to a row that was open.
        row_hits: u64,
        /// Accesses to a bank with no row open.
        row_opens: u64,
        /// Accesses to a bank with another row open.
        row_conflicts: u64,
    }
}

counters! {
    /// Page faults, by what the access was and by why.
    FaultCounters {
        /// By fetches, loads, stores.
        by_kind: [u64; 3],
        /// No page was mapped.
        not_present: u64,
        /// The page did not allow it.
        protection: u64,
        /// A write to a page that a cohort shares (BabelFish's CoW page fault).
        copy_on_write: u64,
        /// The page's domain was closed (ARMv7).
        domain: u64,
        /// The page tables allowed the access after all: another core had just fixed them.
        spurious: u64,
        /// Instructions between each fault and its end.
        instructions: u64,
        /// Ticks in that time. See [`Counters::cycles`] for the unit.
        ticks: u64,
    }
}

counters! {
    /// Page walks.
    WalkCounters {
        /// Walks begun: misses in the last level of TLB.
        walks: u64,
        /// Of these for fetches.
        fetch_walks: u64,
        /// Entries read through the caches, by level of the tables, the topmost first.
        references: [u64; TABLE_LEVELS],
        /// Entries found in the page-walk cache, by level.
        cached: [u64; TABLE_LEVELS],
        /// Lookups of the page-walk cache that failed.
        cache_misses: u64,
        /// Ticks from the beginning of each walk to its end, for fetches and for data.
        ticks: [u64; 2],
        /// Lines of page tables in each cache (L1I, L1D, private L2, shared last level), summed up
        /// over the walks: divided by these it is the mean.
        table_lines: [u64; CACHES],
        /// Ticks that walks waited for the walker.
        waiting: u64,
    }
}

counters! {
    by level:
    /// The counters of a core, a process, a cohort or all of them. Times are in ticks; a cycle has
    /// `Report::ticks_per_cycle`.
    Counters {
        /// Instructions executed.
        instructions: u64,
        /// Time, idle time left out.
        ticks: u64,
        /// Instruction fetches, as the source gave them.
        fetches: u64,
        /// Loads.
        reads: u64,
        /// Stores.
        writes: u64,
        /// By level (L1 first), side (fetch, data) and number of the page size in the format.
        tlb: Levels<[[TlbCounters; SIZES_MAX]; 2]>,
        /// Walks.
        walk: WalkCounters,
        /// L1I, L1D, private L2, shared last level.
        cache: [CacheCounters; CACHES],
        /// Main memory.
        memory: MemoryCounters,
        /// Ticks the core waited for the translation of a fetch.
        itlb_stall: u64,
        /// Ticks it waited for the line of a fetch: instruction cache stall.
        icache_stall: u64,
        /// Ticks it waited for the translation of a load or store.
        dtlb_stall: u64,
        /// Ticks it waited for the line of a load, or for an MSHR.
        dcache_stall: u64,
        /// Ticks it waited for results that instructions need of each other, beyond that.
        dependence_stall: u64,
        /// Page faults.
        faults: FaultCounters,
        /// Changes of the address space or of its tag.
        context_switches: u64,
        /// TLB entries dropped by invalidations.
        invalidated: u64,
        /// TLB entries dropped at context switches.
        switched_out: u64,
        /// TLB entries dropped because the guest's own translation had changed.
        stale: u64,
        /// Accesses that no walk of the tables explains. They count as walks and fill no TLB.
        unexplained: u64,
        /// Counts of the mechanisms of the TLB.
        mechanisms: Counts,
    }
}

impl Counters {
    /// Counters of a machine with so many levels of TLB, all 0.
    pub fn of_levels(count: usize) -> Self {
        Self {
            tlb: Levels::from_fn(count, |_| Default::default()),
            ..Self::default()
        }
    }

    /// Whole cycles.
    pub fn cycles(&self, ticks_per_cycle: u64) -> u64 {
        self.ticks / ticks_per_cycle
    }

    /// Misses of a TLB level (0 for L1) on one side (0 fetch, 1 data), all page sizes.
    pub fn tlb_misses(&self, level: usize, side: usize) -> u64 {
        let sides = self.tlb.get(level);
        sides.map_or(0, |sides| sides[side].iter().map(|size| size.misses).sum())
    }

    /// A count for each thousand instructions; 0 without instructions.
    pub fn per_kilo(&self, count: u64) -> f64 {
        if self.instructions == 0 {
            0.0
        } else {
            count as f64 * 1000.0 / self.instructions as f64
        }
    }

    /// Adds the counters of another.
    pub fn add(&mut self, other: &Self) {
        self.add_since(other, &Self::default());
    }
}
