// SPDX-License-Identifier: GPL-2.0-or-later
//! A next-line prefetcher: a load or store that misses the L1D brings in the lines behind it, within
//! the page.

use super::{Counts as AllCounts, Figure, Mechanism, Setup};
use crate::event::AccessKind;
use crate::tally::counters;
use serde::Deserialize;

/// `[next_line]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The line that is brought in: 1 for the next, 2 for the one after it.
    pub distance: u64,
}

impl super::Part for Part {
    fn check(&self, _: &Setup) -> Result<(), String> {
        match self.distance {
            1..=16 => Ok(()),
            _ => Err("next_line.distance must be 1 to 16".to_owned()),
        }
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        Some(Box::new(NextLine {
            distance: self.distance,
            page_lines: 4096 / machine.line_bytes,
        }))
    }
}

counters! {
    /// The prefetcher's counters.
    Counts {
        /// Lines brought in.
        fetched: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![("next-line-prefetches", self.fetched, "lines")]
    }
}

#[derive(Clone, Debug)]
struct NextLine {
    distance: u64,
    page_lines: u64,
}

impl Mechanism for NextLine {
    fn judges(&self, _: usize) -> bool {
        false
    }

    fn line_missed(
        &mut self,
        _: usize,
        kind: AccessKind,
        line: u64,
        counts: &mut AllCounts,
    ) -> Option<u64> {
        let next = line + self.distance;
        // Where the next page lies in memory, the address of this one does not say.
        if kind == AccessKind::Fetch || next / self.page_lines != line / self.page_lines {
            return None;
        }
        counts.next_line.fetched += 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use crate::tlb::mechanism::testing::{Guest, machine};

    #[test]
    fn every_second_line_of_a_page_is_there_before_it_is_read() {
        let mut with = machine("[next_line]\ndistance = 1\n");
        let mut without = machine("");
        for line in 0..64 {
            with.read_at(line * 64);
            without.read_at(line * 64);
        }
        let (with, without) = (with.counters(0), without.counters(0));
        assert_eq!((with.cache[1].misses, without.cache[1].misses), (32, 64));
        assert_eq!(with.mechanisms.next_line.fetched, 32);
        // Memory reads the same lines, whoever asked for them.
        assert_eq!(with.memory.reads, without.memory.reads);
    }

    #[test]
    fn nothing_is_brought_in_from_another_page() {
        let mut machine = machine("[next_line]\ndistance = 1\n");
        machine.read_at(63 * 64);
        assert_eq!(machine.counters(0).mechanisms.next_line.fetched, 0);
    }
}
