// SPDX-License-Identifier: GPL-2.0-or-later
//! Debugging: every access is compared to a walk of the guest's tables, and what a TLB holds to what
//! it was filled with.
//!
//! A hit that the source contradicts is dropped as stale: as a rule the guest has changed its
//! tables, and flushes later. That would hide a TLB that was filled or tagged wrongly. So while
//! checking the walks are kept that filled them, and an entry may be stale only if its tables have
//! changed since.

use super::{MISMATCHES_KEPT, Machine, Mismatch};
use crate::description::Tag;
use crate::entry::Entry;
use crate::entry::attr;
use crate::event::AccessKind;
use crate::format::Walk;
use crate::memory::GuestMemory;
use std::collections::{BTreeSet, HashMap};

/// Walks that filled the TLBs: the last one of each page and address space.
#[derive(Clone, Debug, Default)]
pub(super) struct Filled {
    walks: HashMap<(u16, u64, u32), Walk>,
    shifts: BTreeSet<u32>,
}

/// In place of the address space of a global page.
const ANYBODY: u16 = u16::MAX;

impl Filled {
    /// A walk of `space` found a page of `1 << shift` bytes for the address.
    pub fn note(&mut self, space: u16, bits: u16, vaddr: u64, shift: u32, walk: &Walk) {
        let space = if bits & attr::GLOBAL != 0 {
            ANYBODY
        } else {
            space
        };
        self.shifts.insert(shift);
        self.walks.insert((space, vaddr >> shift, shift), *walk);
    }

    /// The address space is gone.
    pub fn forget(&mut self, space: u16) {
        self.walks.retain(|key, _| key.0 != space);
    }

    fn of<'a>(&'a self, entry: &'a Entry, vaddr: u64) -> impl Iterator<Item = (u32, &'a Walk)> {
        let global = entry.attr & attr::GLOBAL != 0;
        let space = if global { ANYBODY } else { entry.owner };
        self.shifts.iter().filter_map(move |&shift| {
            let walk = self.walks.get(&(space, vaddr >> shift, shift))?;
            Some((shift, walk))
        })
    }
}

impl<M: GuestMemory> Machine<M> {
    /// Compares an access that succeeded in the guest to a walk.
    pub(super) fn check_access(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
        certain: bool,
    ) {
        if !certain || paddr.is_none() || !self.cores[core].context.paging {
            return;
        }
        self.checked += 1;
        let there = match self.fixed.exact {
            true => vaddr,
            false => self.relocate(core, vaddr).0,
        };
        let walk = self
            .format
            .walk(&self.memory, &self.cores[core].context, there);
        let translated = walk
            .result
            .ok()
            .map(|page| page.frame | there & ((1 << page.shift) - 1));
        if translated != paddr {
            self.keep_mismatch(Mismatch {
                core,
                kind,
                vaddr,
                paddr,
                held: None,
                walk,
            });
        }
    }

    /// A hit on `entry` contradicted the source. That is right if its tables have changed since it
    /// was filled, and never right if it is another address space's. `vaddr` is in the layout of
    /// the level, `shared` says that cohorts share its entries.
    pub(super) fn check_stale(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
        entry: &Entry,
        shared: bool,
    ) {
        let held = entry.frame | vaddr & ((1 << entry.shift) - 1);
        if paddr == Some(held) {
            // What contradicts are the rights.
            return;
        }
        let foreign = entry.attr & attr::GLOBAL == 0
            && !shared
            && self.model.tag == Tag::AddressSpace
            && entry.owner != self.cores[core].space;
        let ignored = self.hardware_bits();
        let wrong = self.filled.of(entry, vaddr).find(|(shift, walk)| {
            let same = walk.steps().iter().all(|step| {
                let now = self.format.read(&self.memory, step.paddr);
                now.is_some_and(|now| (now ^ step.value) & !ignored == 0)
            });
            let said = walk
                .result
                .map(|page| page.frame | vaddr & ((1 << shift) - 1));
            same && said != Ok(held)
        });
        let walk = match wrong {
            Some((_, walk)) => *walk,
            None if foreign => self
                .format
                .walk(&self.memory, &self.cores[core].context, vaddr),
            None => return,
        };
        self.keep_mismatch(Mismatch {
            core,
            kind,
            vaddr,
            paddr,
            held: Some(held),
            walk,
        });
    }

    /// Bits of an entry that change by themselves: accessed and dirty, which are bits 5 and 6 on
    /// x86 and mean nothing of the kind elsewhere, where they then count.
    pub(crate) fn hardware_bits(&self) -> u64 {
        match self.model.page_tables.starts_with("x86") && self.format.entry_bytes == 8 {
            true => 0x60,
            false => 0,
        }
    }

    pub(super) fn keep_mismatch(&mut self, mismatch: Mismatch) {
        if self.mismatches.len() < MISMATCHES_KEPT {
            self.mismatches.push(mismatch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Context, Sink};
    use crate::memory::SparseMemory;
    use crate::{Model, machine::Mismatch};

    const VADDR: u64 = 0x40_2000;
    /// Present, writable, of the user.
    const RW: u64 = 7;

    /// A machine that checks, with two address spaces that map a page each.
    fn machine() -> Machine<SparseMemory> {
        let model = Model::builtin("zen4").unwrap();
        let mut machine = Machine::new(&model, 1, SparseMemory::new()).unwrap();
        for (root, frame) in [(0x10_000, 0x90_000), (0x20_000, 0xa0_000)] {
            for level in 0..3 {
                let index = VADDR >> (39 - 9 * level) & 511;
                let table = root + level * 0x1000;
                let next = (table + 0x1000) | RW;
                machine.memory_mut().write_u64(table + index * 8, next);
            }
            let leaf = root + 0x3000 + (VADDR >> 12 & 511) * 8;
            machine.memory_mut().write_u64(leaf, frame | RW);
        }
        machine.check_every_access(true);
        enter(&mut machine, 0x10_000);
        machine
    }

    fn enter(machine: &mut Machine<SparseMemory>, root: u64) {
        let context = Context {
            paging: true,
            root,
            ..Context::default()
        };
        machine.set_context(0, context);
    }

    fn read(machine: &mut Machine<SparseMemory>, paddr: u64) {
        machine.access(0, AccessKind::Read, VADDR, Some(paddr), 8);
    }

    fn held(machine: &Machine<SparseMemory>) -> Vec<Option<u64>> {
        machine
            .mismatches()
            .iter()
            .map(|m: &Mismatch| m.held)
            .collect()
    }

    #[test]
    fn an_entry_whose_table_has_changed_may_be_stale() {
        // GIVEN a page in the TLBs WHEN its entry changes, and nobody has flushed it yet THEN the
        // hit is dropped, twice as both levels hold it, and nothing is wrong.
        let mut machine = machine();
        read(&mut machine, 0x90_000);
        let leaf = 0x13_000 + (VADDR >> 12 & 511) * 8;
        machine.memory_mut().write_u64(leaf, 0xb0_000 | RW);
        read(&mut machine, 0xb0_000);
        assert_eq!(machine.counters(0).stale, 2);
        assert_eq!(held(&machine), []);
    }

    #[test]
    fn an_entry_that_no_walk_brought_in_is_found() {
        // GIVEN a TLB that was filled with another page than the tables say THEN the access that
        // hits it is a mismatch; the accessed and dirty bits make no difference.
        let mut machine = machine();
        read(&mut machine, 0x90_000);
        let mut wrong = machine.cores[0].l1[1].entries().next().unwrap();
        wrong.frame = 0xc0_000;
        let tag = machine.cores[0].tags[0];
        machine.cores[0].l1[1].remove_page(VADDR, |_, _| true);
        machine.cores[0].l1[1].insert(&wrong, tag);
        let leaf = 0x13_000 + (VADDR >> 12 & 511) * 8;
        machine.memory_mut().write_u64(leaf, 0x90_000 | RW | 0x60);
        read(&mut machine, 0x90_000);
        assert_eq!(held(&machine), [Some(0xc0_000)]);
    }

    #[test]
    fn an_entry_of_another_address_space_is_found() {
        // GIVEN a TLB that holds an entry of one address space under the tag of the other.
        let mut machine = machine();
        read(&mut machine, 0x90_000);
        let entry = machine.cores[0].l1[1].entries().next().unwrap();
        enter(&mut machine, 0x20_000);
        let tag = machine.cores[0].tags[0];
        machine.cores[0].l1[1].insert(&entry, tag);
        read(&mut machine, 0xa0_000);
        assert_eq!(held(&machine), [Some(0x90_000)]);
        // Without such a mistake each has its own.
        enter(&mut machine, 0x10_000);
        read(&mut machine, 0x90_000);
        enter(&mut machine, 0x20_000);
        read(&mut machine, 0xa0_000);
        assert_eq!(held(&machine).len(), 1);
    }
}
