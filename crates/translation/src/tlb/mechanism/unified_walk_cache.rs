// SPDX-License-Identifier: GPL-2.0-or-later
//! A walk cache of another kind: one array for the entries of all levels of the tables, by virtual
//! address and address space. A walk takes the longest prefix that is there.

use super::{Counts as AllCounts, Figure, Mechanism, Setup, WalkOf};
use crate::assoc::Assoc;
use crate::entry::Entry;
use crate::format::Step;
use crate::replacement::Policy;
use crate::tally::counters;
use serde::Deserialize;

/// `[unified_walk_cache]`; a machine with it leaves `[walk_cache]` out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Entries, of all levels together.
    pub entries: usize,
    /// Ways of a set.
    pub ways: usize,
    /// Access time.
    pub cycles: u64,
}

impl super::Part for Part {
    fn check(&self, _: &Setup) -> Result<(), String> {
        let (entries, ways) = (self.entries, self.ways);
        if ways == 0 || entries > 16384 || entries % ways != 0 {
            return Err("unified_walk_cache.ways must divide entries, at most 16384".to_owned());
        }
        match (entries / ways).is_power_of_two() {
            true => Ok(()),
            false => Err(format!(
                "unified_walk_cache.ways: {entries} entries in {ways} ways do not make a power of \
                 two of sets"
            )),
        }
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        vec![("cycles", self.cycles)]
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        let levels = 0..machine.format.levels();
        let empty = Assoc::new(self.entries, self.ways, Policy::Lru);
        Some(Box::new(Unified {
            held: vec![empty.clone(); machine.cores],
            empty,
            shifts: levels.map(|level| machine.format.level_shift(level)).collect(),
            time: self.cycles * machine.ticks_per_cycle,
        }))
    }
}

counters! {
    /// The walk cache's counters.
    Counts {
        /// Entries that walks did not read.
        saved: u64,
        /// Walks that found none.
        misses: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![
            ("unified-walk-cache-saved", self.saved, "entries"),
            ("unified-walk-cache-misses", self.misses, "walks"),
        ]
    }
}

#[derive(Clone, Debug)]
struct Unified {
    /// By core.
    held: Vec<Assoc>,
    empty: Assoc,
    /// By level of the tables: the lowest bit of the address that chooses an entry.
    shifts: Vec<u32>,
    /// Ticks of an access.
    time: u64,
}

impl Unified {
    /// What chooses the set, and what is compared: prefix, address space and level.
    fn key(&self, of: &WalkOf, step: &Step) -> (u64, u64) {
        let prefix = of.vaddr >> self.shifts[step.level];
        let space = u64::from(of.space & 0xfff);
        (prefix, prefix << 15 | space << 3 | step.level as u64)
    }
}

impl Mechanism for Unified {
    fn judges(&self, _: usize) -> bool {
        false
    }

    fn walk_from(
        &mut self,
        of: &WalkOf,
        steps: &[Step],
        counts: &mut AllCounts,
    ) -> Option<(usize, u64)> {
        let above = &steps[..steps.len().saturating_sub(1)];
        let keys: Vec<_> = above.iter().map(|step| self.key(of, step)).collect();
        let held = &mut self.held[of.core];
        let there = |&(index, tag): &(u64, u64)| {
            let set = held.set_of(index);
            held.hit(set, tag).is_some()
        };
        let known = keys.iter().rposition(there).map_or(0, |deepest| deepest + 1);
        counts.unified_walk_cache.saved += known as u64;
        counts.unified_walk_cache.misses += u64::from(known == 0);
        Some((known, self.time))
    }

    fn walk_read(&mut self, of: &WalkOf, step: &Step) {
        let (index, tag) = self.key(of, step);
        let held = &mut self.held[of.core];
        let set = held.set_of(index);
        if held.find(set, tag).is_none() {
            held.insert(set, tag);
        }
    }

    fn dropped(
        &mut self,
        core: usize,
        page: Option<u64>,
        _: &mut dyn FnMut(&Entry, u16) -> bool,
    ) -> u64 {
        // Values are the guest's own, so what stays is never out of date; a switch that drops all
        // must drop this.
        if page.is_none() {
            self.held[core] = self.empty.clone();
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::tlb::mechanism::testing::{Guest, machine};

    #[test]
    fn a_walk_reads_the_leaf_alone_once_its_table_is_known() {
        // GIVEN four levels of tables WHEN eight pages of one table are read THEN the first walk
        // reads four entries, and each other walk one.
        let mut with = machine("[unified_walk_cache]\nentries = 16\nways = 4\ncycles = 1\n");
        let mut without = machine("");
        for page in 0..8 {
            with.read(page);
            without.read(page);
        }
        let references = |counters: &crate::Counters| counters.walk.references.iter().sum::<u64>();
        let (with, without) = (with.counters(0), without.counters(0));
        assert_eq!((references(&with), references(&without)), (11, 32));
        assert_eq!(with.mechanisms.unified_walk_cache.saved, 21);
        assert_eq!(with.mechanisms.unified_walk_cache.misses, 1);
    }
}
