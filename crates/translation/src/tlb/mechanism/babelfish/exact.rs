// SPDX-License-Identifier: GPL-2.0-or-later
//! BabelFish as a kernel runs it: `source = "kernel"`.
//!
//! Nothing is inferred. The cohort kernel says by marks which process a core runs (CCID, number,
//! segments) and which shared entries a core drops; bits S and ORPC are in the page tables, PC
//! bitmasks and `pid_list`s in the guest's memory ([`crate::abi`]). Each core has a register with
//! the CCID and the rest, as marks are executed by cores.
//!
//! An entry is owned, under its address space's tag, or shared, under the CCID and at the group's
//! address. A walk finds it shared if the last-level table's entry has S, and then reads the PC
//! bitmask if that has ORPC. The directory of MaskPages and the `pid_list` are read for free: the
//! paper does not say how the hardware has them. Overflow needs no rule: the kernel clears S.
//!
//! The kernel promises that no process meets a shared entry which says other than the process's
//! own tables (`mm/cohort/babelfish.c`). The machine compares both at each hit:
//! [`crate::violation`] says when.

use super::{AllCounts, OR_PC, OWNED, Part, any};
use crate::abi;
use crate::entry::{Entry, attr};
use crate::event::{AccessKind, Fault, Member};
use crate::format::{Test, Walk};
use crate::memory::GuestMemory;
use crate::tlb::mechanism::{
    After, Drop, Event, Looked, Lookup, Match, Mechanism, Setup, Sharing, Terms, Walked, Way,
};

/// The hardware.
#[derive(Clone, Debug)]
pub(super) struct Exact {
    /// ASLR-HW: L1 is not shared.
    hw: bool,
    /// Ticks of ASLR-HW's transformation.
    transform: u64,
    /// Ticks of an L2 access that reads the PC bitmask.
    long: u64,
    owned: Vec<Test>,
    or_pc: Vec<Test>,
    /// The page size, as a power of two, that last-level tables have.
    least: u32,
    /// By core: what runs.
    members: Vec<Member>,
    /// The lookup read a PC bitmask.
    read_mask: bool,
}

impl Exact {
    pub(super) fn new(part: &Part, machine: &Setup) -> Self {
        Self {
            hw: part.aslr == super::Aslr::Hw,
            transform: part.transform_cycles * machine.ticks_per_cycle,
            long: part.long_cycles * machine.ticks_per_cycle,
            owned: part.owned.clone(),
            or_pc: part.or_pc.clone().unwrap_or_default(),
            least: machine.format.sizes()[0],
            members: vec![Member::default(); machine.cores.max(1)],
            read_mask: false,
        }
    }
}

impl Mechanism for Exact {
    fn judges(&self, level: usize) -> bool {
        level > 0 || !self.hw
    }

    fn sharing(&self, core: usize, level: usize, _: u16) -> Option<Sharing> {
        self.judges(level).then(|| Sharing {
            tag: self.members[core].ccid,
            owned: OWNED,
            apart: true,
        })
    }

    fn exact(&self) -> bool {
        true
    }

    fn violated(&mut self, core: usize, counts: &mut AllCounts) -> Option<(u16, u32)> {
        counts.babelfish.violations += 1;
        let member = &self.members[core];
        Some((member.ccid, member.pid))
    }

    fn strayed(&mut self, counts: &mut AllCounts) {
        counts.babelfish.strays += 1;
    }

    /// Figure 8, from step 2 on.
    fn judge(
        &mut self,
        of: &Lookup,
        way: &Way,
        terms: &mut Terms,
        memory: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Match {
        if of.walked || !self.judges(of.level) || way.attr & attr::GLOBAL != 0 {
            return Match::Yes;
        }
        let member = &self.members[of.core];
        // Numbers of address spaces and CCIDs may be alike.
        if way.attr & OWNED != 0 {
            return match way.owner == of.space {
                true => Match::Yes,
                false => Match::No,
            };
        }
        if member.ccid == 0 || way.tag != member.ccid {
            return Match::No;
        }
        if way.attr & OR_PC != 0 {
            self.read_mask = true;
            // By the address in the layout of the group, which that of L1 is not under ASLR-HW: but
            // then L1 is not judged.
            let vaddr = member.group_address(of.own);
            let place = abi::mask_page(memory, member.group, vaddr)
                .and_then(|page| abi::place(memory, page, member.pid));
            if place.is_some_and(|place| way.extra >> place & 1 != 0) {
                counts.babelfish.private_refusals += 1;
                return Match::No;
            }
        }
        terms.promised = true;
        if of.kind == AccessKind::Write {
            terms.refusal = Fault::CopyOnWrite;
        }
        Match::Yes
    }

    fn looked(&mut self, of: &Lookup, _: Looked, after: &mut After, counts: &mut AllCounts) {
        if std::mem::take(&mut self.read_mask) && of.level > 0 {
            counts.babelfish.long_accesses += 1;
            after.access = self.long;
        }
    }

    fn relocate(&self, core: usize, _: u16, vaddr: u64) -> Option<(u64, u64)> {
        self.hw
            .then(|| (self.members[core].group_address(vaddr), self.transform))
    }

    fn walked(
        &mut self,
        core: usize,
        _: u16,
        vaddr: u64,
        walk: &Walk,
        memory: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Walked {
        let member = &self.members[core];
        let mut walked = Walked {
            attr: OWNED,
            ..Walked::default()
        };
        let (Ok(page), Some(above)) = (walk.result, walk.above_leaf()) else {
            return walked;
        };
        if member.ccid == 0 || page.shift != self.least || any(&self.owned, above.value) {
            return walked;
        }
        if any(&self.or_pc, above.value) {
            let Some(masks) = abi::mask_page(memory, member.group, vaddr) else {
                walked.wrong = true;
                return walked;
            };
            counts.babelfish.mask_pages += 1;
            let at = abi::mask_at(masks, vaddr);
            let mask = memory.read_u32(at).unwrap_or(0);
            walked.read = Some(at);
            let place = abi::place(memory, masks, member.pid);
            if place.is_some_and(|place| mask >> place & 1 != 0) {
                walked.wrong = true;
                return walked;
            }
            walked.attr = OR_PC;
            walked.extra = mask;
        } else {
            walked.attr = 0;
        }
        counts.babelfish.shared_fills += 1;
        walked
    }

    fn split(&self, level: usize, piece: &mut Entry) {
        if self.judges(level) {
            piece.attr = piece.attr & !OR_PC | OWNED;
            piece.extra = 0;
        }
    }

    fn event(&mut self, event: Event, _: &mut AllCounts) -> Option<Drop> {
        match event {
            Event::Runs(core, member) => {
                self.members[core] = member.clone();
                // With ASLR-SW nothing adds a difference: such a process has no CCID.
                if !self.hw && member.segments.iter().any(|part| part.offset != 0) {
                    self.members[core].ccid = 0;
                }
                None
            }
            Event::Shared(ccid, vaddr, shift) => Some(Drop::Tagged {
                all_cores: false,
                from_level: usize::from(self.hw),
                tag: ccid,
                vaddr,
                range: Some(shift),
                without: OWNED,
            }),
            Event::Identity(..)
            | Event::Gone(_)
            | Event::Segments(..)
            | Event::PrivateCopy(..)
            | Event::Wrote(..)
            | Event::SharedPage(..) => None,
        }
    }
}
