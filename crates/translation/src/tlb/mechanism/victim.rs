// SPDX-License-Identifier: GPL-2.0-or-later
//! A victim TLB: a few fully associative entries behind the last level. What that level gives up to
//! make room waits here, and a miss looks here before it walks; what it finds goes back.

use super::{Beside, Counts as AllCounts, Figure, Lookup, Mechanism, Setup};
use crate::entry::Entry;
use crate::replacement::Policy;
use crate::tally::counters;
use serde::Deserialize;

/// `[victim]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Entries per core.
    pub entries: usize,
    /// Access time, beyond the last level's.
    pub cycles: u64,
}

impl super::Part for Part {
    fn check(&self, _: &Setup) -> Result<(), String> {
        Beside::check("victim", self.entries)
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        vec![("cycles", self.cycles)]
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        let beside = Beside::new(self.entries, self.cycles, Policy::Lru, machine);
        Some(Box::new(Victim { beside }))
    }
}

counters! {
    /// The victim TLB's counters.
    Counts {
        /// Misses of the last level that it turned into hits.
        hits: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![("victim-hits", self.hits, "hits")]
    }
}

#[derive(Clone, Debug)]
struct Victim {
    beside: Beside,
}

impl Mechanism for Victim {
    fn judges(&self, _: usize) -> bool {
        false
    }

    fn evicted(&mut self, core: usize, _: usize, entry: &Entry, tag: u16) {
        self.beside.held[core].insert(entry, tag);
    }

    fn missed(&mut self, of: &Lookup, tag: u16, counts: &mut AllCounts) -> Option<(Entry, u64)> {
        let (entry, _) = self.beside.take(of, tag)?;
        counts.victim.hits += 1;
        Some((entry, self.beside.time))
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
    use crate::{AccessKind, Context, Counters, Invalidation, Machine, Model, Sink, SparseMemory};

    const ROOT: u64 = 0x1000;
    /// 4 KB pages that fall into one set of `baseline`'s L2 TLB, which has 128 sets of 12 ways.
    const STRIDE: u64 = 128 << 12;
    const WAYS: u64 = 12;

    /// A machine with `baseline`'s TLBs and, with `entries` above 0, a victim TLB.
    fn machine(entries: usize) -> Machine<SparseMemory> {
        let victim = match entries {
            0 => String::new(),
            _ => format!("[victim]\nentries = {entries}\ncycles = 3\n"),
        };
        let text = format!("name = \"victim\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\n{victim}");
        let mut memory = SparseMemory::new();
        for (table, next) in [(ROOT, 0x2000), (0x2000, 0x3000)] {
            memory.write_u64(table, next | 7);
        }
        for page in 0..64 {
            let vaddr = page * STRIDE;
            let table = 0x1_0000 + (vaddr >> 21) * 0x1000;
            memory.write_u64(0x3000 + (vaddr >> 21) * 8, table | 7);
            memory.write_u64(table + (vaddr >> 12 & 511) * 8, frame(page) | 7);
        }
        let model = Model::parse("victim", &text).unwrap();
        let mut machine = Machine::new(&model, 1, memory).unwrap();
        let context = Context {
            paging: true,
            root: ROOT,
            ..Context::default()
        };
        machine.set_context(0, context);
        machine
    }

    fn frame(page: u64) -> u64 {
        0x100_0000 + (page << 12)
    }

    /// What the accesses to these pages, in this order, added to walks and to the victim's hits.
    fn touch(
        machine: &mut Machine<SparseMemory>,
        pages: impl IntoIterator<Item = u64>,
    ) -> (u64, u64) {
        let counts = |c: Counters| (c.walk.walks, c.mechanisms.victim.hits);
        let before = counts(machine.counters(0));
        for page in pages {
            let (vaddr, paddr) = (page * STRIDE, frame(page));
            machine.access(0, AccessKind::Read, vaddr, Some(paddr), 8);
        }
        let after = counts(machine.counters(0));
        (after.0 - before.0, after.1 - before.1)
    }

    #[test]
    fn a_set_with_a_page_too_many_does_not_walk() {
        // GIVEN one page more than a set has ways, in turn THEN without a victim TLB each access
        // walks, and with one of a single entry none does after the first round.
        let mut without = machine(0);
        assert_eq!(touch(&mut without, 0..=WAYS), (WAYS + 1, 0));
        assert_eq!(touch(&mut without, 0..=WAYS), (WAYS + 1, 0));
        let mut with = machine(1);
        assert_eq!(touch(&mut with, 0..=WAYS), (WAYS + 1, 0));
        assert_eq!(touch(&mut with, 0..=WAYS), (0, WAYS + 1));
        assert_eq!(with.counters(0).unexplained, 0);
        // As soon as the time is felt.
        for machine in [&mut with, &mut without] {
            machine.instructions(0, 1000);
        }
        assert!(with.now(0) < without.now(0));
    }

    #[test]
    fn what_is_invalidated_is_not_found() {
        let mut machine = machine(4);
        touch(&mut machine, 0..=WAYS);
        // Page 0 went first.
        machine.invalidate(0, Invalidation::Page { vaddr: 0 });
        assert_eq!(touch(&mut machine, [0]), (1, 0));
        touch(&mut machine, 0..=WAYS);
        machine.invalidate(0, Invalidation::AddressSpace { root: ROOT });
        assert_eq!(touch(&mut machine, 0..=WAYS), (WAYS + 1, 0));
    }

    #[test]
    fn another_address_space_does_not_find_it() {
        let mut machine = machine(4);
        touch(&mut machine, 0..=WAYS);
        let other = 0x8000;
        machine.memory_mut().write_u64(other, 0x2000 | 7);
        let context = Context {
            paging: true,
            root: other,
            ..Context::default()
        };
        machine.set_context(0, context);
        assert_eq!(touch(&mut machine, [0]), (1, 0));
    }
}
