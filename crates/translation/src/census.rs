// SPDX-License-Identifier: GPL-2.0-or-later
//! A census: what TLBs and caches hold at this moment, and how much of it is there twice.
//!
//! Two entries of a TLB are duplicates when they say the same (virtual page, frame, size, rights)
//! for different address spaces. Two lines of page tables in a cache are duplicates when they have
//! the same content, it is not empty, and it is the same part of a table: what several processes
//! have for the same addresses when they do not share the table.

use crate::entry::Entry;
use crate::entry::attr;
use crate::machine::Machine;
use crate::memory::GuestMemory;
use crate::report::CACHE_NAMES;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Attribute bits that say what an entry allows, not who may use it.
const RIGHTS: u16 = attr::WRITE | attr::USER | attr::USER_WRITE | attr::NO_EXECUTE | 0xff << 8;

/// The content of a TLB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlbCensus {
    /// From 1 on.
    pub level: usize,
    /// "fetch", "data" or "both".
    pub side: &'static str,
    /// Room.
    pub capacity: u64,
    /// Valid entries.
    pub entries: u64,
    /// Of these, global.
    pub global: u64,
    /// Of these, of processes in a cohort.
    pub in_cohorts: u64,
    /// Entries that another entry makes superfluous: it says the same.
    pub duplicates: u64,
    /// Of these, for two processes of one cohort: what sharing could save.
    pub duplicates_in_cohorts: u64,
}

/// A cache's lines of page tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCensus {
    /// "l1d", "l2" or "last".
    pub cache: &'static str,
    /// Room, in lines.
    pub capacity: u64,
    /// Lines of page tables.
    pub table_lines: u64,
    /// Of these, lines that another one makes superfluous.
    pub duplicates: u64,
}

/// The content of a core's structures; the shared cache is with core 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoreCensus {
    /// The core.
    pub core: usize,
    /// TLBs.
    pub tlb: Vec<TlbCensus>,
    /// Caches.
    pub caches: Vec<CacheCensus>,
}

impl<M: GuestMemory> Machine<M> {
    /// Counts what is held now, core by core.
    pub fn census(&self) -> Vec<CoreCensus> {
        (0..self.cores()).map(|core| self.census_of(core)).collect()
    }

    fn census_of(&self, core: usize) -> CoreCensus {
        let mut tlb = Vec::new();
        for level in 0..self.tlb_levels() {
            for side in 0..2 {
                let unified = self.unified(level);
                if unified && side == 1 {
                    continue;
                }
                let Some(held) = self.tlb(core, level, side) else {
                    continue;
                };
                let mut census = self.census_of_tlb(held.entries());
                census.level = level + 1;
                census.side = if unified {
                    "both"
                } else {
                    ["fetch", "data"][side]
                };
                census.capacity = held.capacity() as u64;
                tlb.push(census);
            }
        }
        let mut caches = Vec::new();
        for (name, part) in self.model.cache.parts() {
            let Some(number) = CACHE_NAMES.iter().position(|&known| known == name) else {
                continue;
            };
            // No walk reads instructions, and the shared cache is everybody's.
            if name == "l1i" || name == "last" && core != 0 {
                continue;
            }
            let lines = self.caches().table_lines_of(core, number);
            caches.push(CacheCensus {
                cache: name,
                capacity: (part.kb as u64 * 1024) / self.model.cache.line_bytes,
                table_lines: lines.len() as u64,
                duplicates: self.duplicate_lines(&lines),
            });
        }
        CoreCensus { core, tlb, caches }
    }

    fn census_of_tlb(&self, entries: impl Iterator<Item = Entry>) -> TlbCensus {
        let mut census = TlbCensus::default();
        let mut seen = BTreeSet::new();
        let mut seen_in_cohort = BTreeSet::new();
        for entry in entries {
            census.entries += 1;
            if entry.attr & attr::GLOBAL != 0 {
                census.global += 1;
                continue;
            }
            let says = (entry.page, entry.frame, entry.shift, entry.attr & RIGHTS);
            census.duplicates += u64::from(!seen.insert(says));
            let cohort = self.identity(entry.owner).0.cohort;
            if cohort != 0 {
                census.in_cohorts += 1;
                census.duplicates_in_cohorts += u64::from(!seen_in_cohort.insert((cohort, says)));
            }
        }
        census
    }

    /// Lines that have the same content at the same place of a table as another.
    fn duplicate_lines(&self, lines: &[u64]) -> u64 {
        let shift = self.caches().line_shift();
        let mut seen: BTreeMap<(u64, Vec<u64>), u64> = BTreeMap::new();
        for &line in lines {
            let start = line << shift;
            let words = (start..start + (1 << shift)).step_by(8);
            let content: Vec<u64> = words
                .map(|paddr| self.memory().read_u64(paddr).unwrap_or(0))
                .collect();
            if content.iter().any(|&word| word != 0) {
                let ignored = self.hardware_bits();
                let content = content.into_iter().map(|word| word & !ignored).collect();
                *seen.entry((start & 0xfff, content)).or_default() += 1;
            }
        }
        seen.values().map(|count| count - 1).sum()
    }
}
