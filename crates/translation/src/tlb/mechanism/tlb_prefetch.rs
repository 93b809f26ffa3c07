// SPDX-License-Identifier: GPL-2.0-or-later
//! A sequential TLB prefetcher: a miss of the last level has the page behind it walked for, too. The
//! entry waits in a small buffer beside the last level, and moves into it on its first use.

use super::{Beside, Counts as AllCounts, Figure, Lookup, Mechanism, Setup};
use crate::entry::Entry;
use crate::replacement::Policy;
use crate::tally::counters;
use crate::tlb::Tlb;
use serde::Deserialize;

/// `[tlb_prefetch]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Entries of a core's buffer.
    pub entries: usize,
    /// Access time of the buffer, beyond the last level's.
    pub cycles: u64,
}

impl super::Part for Part {
    fn check(&self, _: &Setup) -> Result<(), String> {
        Beside::check("tlb_prefetch", self.entries)
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        vec![("cycles", self.cycles)]
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        Some(Box::new(Prefetcher {
            beside: Beside::new(self.entries, self.cycles, Policy::Fifo, machine),
            ready: vec![vec![0; self.entries]; machine.cores],
        }))
    }
}

counters! {
    /// The prefetcher's counters.
    Counts {
        /// Entries walked for ahead.
        fetched: u64,
        /// Misses of the last level that found their entry in the buffer.
        hits: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![
            ("tlb-prefetches", self.fetched, "walks"),
            ("tlb-prefetch-hits", self.hits, "hits"),
        ]
    }
}

#[derive(Clone, Debug)]
struct Prefetcher {
    beside: Beside,
    /// By core and slot: the tick when the entry is there.
    ready: Vec<Vec<u64>>,
}

impl Mechanism for Prefetcher {
    fn judges(&self, _: usize) -> bool {
        false
    }

    fn ahead(&mut self, of: &Lookup, shift: u32) -> Option<u64> {
        let next = (of.vaddr >> shift).wrapping_add(1) << shift;
        (next > of.vaddr).then_some(next)
    }

    fn fetched(&mut self, core: usize, entry: &Entry, tag: u16, ready: u64, counts: &mut AllCounts) {
        let held = &mut self.beside.held[core];
        let probe = Tlb::probe(entry.page, tag);
        if held.find(entry.page, probe, |_, _| true).is_some() {
            return;
        }
        held.insert(entry, tag);
        if let Some(slot) = held.find(entry.page, probe, |_, _| true) {
            self.ready[core][slot] = ready;
        }
        counts.tlb_prefetch.fetched += 1;
    }

    fn missed(&mut self, of: &Lookup, tag: u16, counts: &mut AllCounts) -> Option<(Entry, u64)> {
        let (entry, slot) = self.beside.take(of, tag)?;
        counts.tlb_prefetch.hits += 1;
        let waits = self.ready[of.core][slot].saturating_sub(of.now);
        Some((entry, waits.max(self.beside.time)))
    }

    fn dropped(
        &mut self,
        core: usize,
        page: Option<u64>,
        which: &mut dyn FnMut(&Entry, u16) -> bool,
    ) -> u64 {
        self.beside.dropped(core, page, which)
    }
}

#[cfg(test)]
mod tests {
    use crate::tlb::mechanism::testing::{Guest, machine};
    use crate::{Invalidation, Sink};

    const TABLE: &str = "[tlb_prefetch]\nentries = 16\ncycles = 1\n";

    #[test]
    fn pages_in_order_walk_once_for_all() {
        // GIVEN 64 pages in order WHEN each is read THEN only the first is walked for on demand;
        // the others were walked for ahead, each once.
        let mut with = machine(TABLE);
        let mut without = machine("");
        for page in 0..64 {
            for machine in [&mut with, &mut without] {
                machine.instructions(0, 1000);
                machine.read(page);
            }
        }
        let (with, without) = (with.counters(0), without.counters(0));
        assert_eq!((with.walk.walks, without.walk.walks), (1, 64));
        assert_eq!(with.mechanisms.tlb_prefetch.hits, 63);
        assert_eq!(with.mechanisms.tlb_prefetch.fetched, 64);
        assert!(with.dtlb_stall < without.dtlb_stall);
    }

    #[test]
    fn an_entry_that_is_not_there_yet_is_waited_for() {
        // GIVEN lines that the L1D holds WHEN their pages are read without an instruction between
        // them THEN the walk for the next is still under way. The core runs nothing beside a read, so
        // that the wait is not hidden.
        const PAGES: u64 = 7;
        let table = format!("[core]\nrob = 0\n{TABLE}");
        let mut soon = machine(&table);
        let mut late = machine(&table);
        for page in (0..PAGES).chain(0..PAGES) {
            if page == 0 {
                soon.invalidate(0, Invalidation::All);
                late.invalidate(0, Invalidation::All);
            }
            soon.read(page);
            late.instructions(0, 100_000);
            late.read(page);
        }
        let (soon, late) = (soon.counters(0), late.counters(0));
        assert_eq!(soon.mechanisms, late.mechanisms);
        assert!(soon.dtlb_stall > late.dtlb_stall);
    }

    #[test]
    fn what_is_invalidated_is_not_found() {
        let mut machine = machine(TABLE);
        machine.read(0);
        machine.invalidate(0, Invalidation::All);
        machine.read(1);
        assert_eq!(machine.counters(0).mechanisms.tlb_prefetch.hits, 0);
        assert_eq!(machine.counters(0).walk.walks, 2);
    }
}
