// SPDX-License-Identifier: GPL-2.0-or-later
//! BabelFish (ISCA'20): processes of a cohort share TLB entries.
//!
//! First the mechanism: the lookup of Figure 8, the O and ORPC bits that a walk finds, ASLR-HW's
//! transformation between the levels, and what is dropped at a copy on write. Then what the paper's
//! kernel keeps: CCIDs and MaskPages (section III-A and Appendix).
//!
//! A MaskPage belongs to a set of PMD tables, that is to one cohort and to the range of addresses
//! that one PMD table covers. It holds a PC bitmask for each entry of those tables and one ordered
//! `pid_list`; a process's place in the list is its bit. Where the paper's kernel shares tables one
//! level higher (2 MB pages) the same holds one level higher.
//!
//! With `source = "kernel"` the guest's kernel keeps all that, and says so: `babelfish/exact.rs`.
//! With `source = "inferred"` the model keeps MaskPages in the kernel's place:
//!
//! - The CCID is the cohort of the address space ([`crate::Sink::set_identity`]). Without a cohort
//!   every entry is owned.
//! - An entry is owned unless the page-table page that holds it is shared, which the cohort kernel
//!   says with a bit in the entry that points to that page (`owned` in the description).
//! - A process that has a table of its own where its cohort shares one made a private copy: it gets
//!   its bit when the model first meets the difference, in a walk or in a translation that is not
//!   the shared one. Each fault on a store that leaves it with a table of its own there is a copy on
//!   write, which drops the shared entry of the page. A source that knows better calls
//!   [`crate::Sink::private_copy`].
//! - The MaskPages have addresses of their own above all of the guest's memory, so that reading
//!   them goes through the caches.

mod exact;

use super::{
    After, Counts as AllCounts, Drop, Event, Figure, Looked, Lookup, Match, Mechanism, Setup,
    Sharing, Terms, Walked, Way,
};
use crate::abi::PIDS;
use crate::entry::{Entry, SIZES_MAX, attr, size_class};
use crate::event::{AccessKind, Fault, Segment};
use crate::format::{Test, Walk};
use crate::hash::QuickMap;
use crate::memory::GuestMemory;
use crate::tally::counters;
use exact::Exact;
use serde::Deserialize;
use std::collections::HashMap;

/// O: owned by one process.
const OWNED: u16 = 1 << attr::MECHANISM_SHIFT;
/// ORPC: some process has a private copy.
const OR_PC: u16 = 2 << attr::MECHANISM_SHIFT;
/// Entries of a table: PC bitmasks of a MaskPage (ISCA'20 Figure 13).
const MASKS: usize = 512;
/// Where MaskPages lie: above any guest's memory, below the end of 52-bit addresses.
const FIRST_PAGE: u64 = 0xf_0000_0000_0000;
/// CCIDs have 12 bits; 0 means none.
const CCIDS: u16 = 0xfff;

/// Address layout randomisation (ISCA'20 section IV-D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aslr {
    /// One layout per cohort: entries are shared in both levels of TLB.
    Sw,
    /// One layout per process: a transformation between the levels; L1 is not shared.
    Hw,
}

/// Where the model has from what is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// It infers that from what the guest does, and keeps MaskPages itself.
    #[default]
    Inferred,
    /// The kernel says so by marks, in its tables and in MaskPages of its own: see `exact.rs`.
    Kernel,
}

/// `[babelfish]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Inferred if left out.
    #[serde(default)]
    pub source: Source,
    /// Which of the two.
    pub aslr: Aslr,
    /// ASLR-HW: cycles of the transformation on each L1 TLB miss.
    pub transform_cycles: u64,
    /// L2 access time in cycles when the PC bitmask is read; the L2's own `cycles` is the short one.
    pub long_cycles: u64,
    /// Bits of the PC bitmask, and places in a `pid_list`: at most 32.
    pub pc_bits: u32,
    /// A table is owned when the entry that points to it passes one of these tests.
    pub owned: Vec<Test>,
    /// ORPC when that entry passes one of these. Left out: ORPC is taken from the MaskPage itself.
    pub or_pc: Option<Vec<Test>>,
}

impl super::Part for Part {
    fn check(&self, machine: &Setup) -> Result<(), String> {
        let why = if !(1..=32).contains(&self.pc_bits) {
            "babelfish.pc_bits must be 1 to 32"
        } else if !machine.numbers_spaces {
            "babelfish needs tag = \"address-space\" for its PCID"
        } else if machine.levels != 2 {
            "babelfish needs two levels of TLB, as the paper has"
        } else if self.owned.is_empty() {
            "babelfish.owned must name at least one test of bits"
        } else if self.source == Source::Inferred {
            return Ok(());
        } else if self.pc_bits as usize != PIDS {
            "babelfish.pc_bits must be 32 with source = \"kernel\", whose MaskPages have so many"
        } else if self.or_pc.is_none() {
            "babelfish.or_pc must name a test of bits with source = \"kernel\", which sets ORPC"
        } else {
            return Ok(());
        };
        Err(why.to_owned())
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("transform_cycles", self.transform_cycles),
            ("long_cycles", self.long_cycles),
        ]
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        let mut above = [None; SIZES_MAX];
        for (above, &size) in above.iter_mut().zip(machine.format.sizes()) {
            *above = machine.format.above_shift(size);
        }
        if self.source == Source::Kernel {
            return Some(Box::new(Exact::new(self, machine)));
        }
        Some(Box::new(BabelFish {
            hw: self.aslr == Aslr::Hw,
            transform: self.transform_cycles * machine.ticks_per_cycle,
            long: self.long_cycles * machine.ticks_per_cycle,
            owned: self.owned.clone(),
            or_pc: self.or_pc.clone(),
            masks: MaskPages::new(self.pc_bits, above),
            ccids: Vec::new(),
            segments: QuickMap::default(),
            read_mask: false,
        }))
    }
}

counters! {
    /// BabelFish's counters.
    Counts {
        /// MaskPages read by walks.
        #[serde(skip)] // The report has `mask_pages_read` since schema version 1.
        mask_pages: u64,
        /// L2 TLB lookups that read a PC bitmask and took the long access time.
        long_accesses: u64,
        /// Lookups refused by the process's bit in a PC bitmask.
        private_refusals: u64,
        /// Lookups that met another process's owned entry.
        owned_refusals: u64,
        /// Places given in a `pid_list`.
        pids_listed: u64,
        /// MaskPages that ran out of places: the group went back to own translations.
        overflows: u64,
        /// Walks that found a translation to be shared, as the kernel says. Inferred ones are not
        /// counted.
        #[serde(skip_serializing_if = "is_zero")]
        shared_fills: u64,
        /// Times that a process met a shared entry which the kernel should have kept from it.
        #[serde(skip_serializing_if = "is_zero")]
        violations: u64,
        /// Times that a process met one where it maps nothing: it reads there what others of its CCID
        /// have, instead of a fault.
        #[serde(skip_serializing_if = "is_zero")]
        strays: u64,
    }
}

/// A report has no counters of what a model without the kernel's word cannot count.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![
            ("mask-pages-read", self.mask_pages, "reads"),
            ("babelfish-long-accesses", self.long_accesses, "accesses"),
            ("babelfish-private-refusals", self.private_refusals, "entries"),
            ("babelfish-owned-refusals", self.owned_refusals, "entries"),
            ("babelfish-pids-listed", self.pids_listed, "places"),
            ("babelfish-overflows", self.overflows, "pages"),
            ("babelfish-shared-fills", self.shared_fills, "entries"),
            ("babelfish-violations", self.violations, "entries"),
            ("babelfish-strays", self.strays, "entries"),
        ]
    }
}

#[derive(Clone, Debug)]
struct BabelFish {
    /// ASLR-HW: L1 is not shared.
    hw: bool,
    /// Ticks of ASLR-HW's transformation.
    transform: u64,
    /// Ticks of an L2 access that reads the PC bitmask.
    long: u64,
    owned: Vec<Test>,
    or_pc: Option<Vec<Test>>,
    masks: MaskPages,
    /// By address space.
    ccids: Vec<u16>,
    /// By address space, where its layout differs from its cohort's.
    segments: QuickMap<u16, Vec<Segment>>,
    /// The lookup read a PC bitmask.
    read_mask: bool,
}

fn any(tests: &[Test], entry: u64) -> bool {
    tests.iter().any(|test| test.holds(entry))
}

impl BabelFish {
    /// 0 for an address space without a cohort.
    fn ccid(&self, space: u16) -> u16 {
        self.ccids.get(usize::from(space)).copied().unwrap_or(0)
    }

    fn set_ccid(&mut self, space: u16, ccid: u16) {
        let space = usize::from(space);
        self.ccids.resize(self.ccids.len().max(space + 1), 0);
        self.ccids[space] = ccid;
    }

    /// The shared entries of a page, or of a range.
    fn drop(&self, all_cores: bool, tag: u16, vaddr: u64, range: Option<u32>) -> Drop {
        Drop::Tagged {
            all_cores,
            from_level: usize::from(self.hw),
            tag,
            vaddr,
            range,
            without: OWNED,
        }
    }

    /// What the kernel does when a process has got a copy of its own: sets its bit, and invalidates
    /// the shared entry of the page, local and remote; or, without a bit to set, ends the sharing in
    /// the MaskPage's range. `None` if the bit was set before.
    fn copied(
        &mut self,
        space: u16,
        class: usize,
        vaddr: u64,
        counts: &mut AllCounts,
    ) -> Option<Drop> {
        let ccid = self.ccid(space);
        match self.masks.copied(ccid, class, vaddr, space) {
            Copied::Known => None,
            Copied::Set { listed } => {
                counts.babelfish.pids_listed += u64::from(listed);
                Some(self.drop(true, ccid, vaddr, None))
            }
            Copied::Overflowed => {
                counts.babelfish.overflows += 1;
                let (start, shift) = self.masks.range(class, vaddr)?;
                Some(self.drop(true, ccid, start, Some(shift)))
            }
        }
    }
}

impl Mechanism for BabelFish {
    fn judges(&self, level: usize) -> bool {
        level > 0 || !self.hw
    }

    fn sharing(&self, _: usize, level: usize, space: u16) -> Option<Sharing> {
        self.judges(level).then(|| Sharing {
            tag: self.ccid(space),
            owned: OWNED,
            apart: false,
        })
    }

    /// The model sets the bits in the kernel's place, unless the kernel has its own.
    fn infers(&self) -> bool {
        self.or_pc.is_none()
    }

    /// Figure 8, from step 2 on, for one way whose VPN and CCID match.
    fn judge(
        &mut self,
        of: &Lookup,
        way: &Way,
        terms: &mut Terms,
        _: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Match {
        if of.walked || !self.judges(of.level) || way.attr & attr::GLOBAL != 0 {
            return Match::Yes;
        }
        if way.attr & OWNED != 0 {
            if way.owner != of.space {
                counts.babelfish.owned_refusals += 1;
                return Match::No;
            }
            return Match::Yes;
        }
        if way.attr & OR_PC != 0 {
            self.read_mask = true;
            let class = size_class(way.attr);
            let ccid = self.ccid(of.space);
            let bit = self.masks.bit(ccid, class, of.vaddr, of.space);
            if bit.is_some_and(|bit| way.extra >> bit & 1 != 0) {
                counts.babelfish.private_refusals += 1;
                return Match::No;
            }
        }
        terms.others = way.owner != of.space;
        if of.kind == AccessKind::Write {
            terms.refusal = Fault::CopyOnWrite;
        }
        Match::Yes
    }

    fn looked(
        &mut self,
        of: &Lookup,
        looked: Looked,
        after: &mut After,
        counts: &mut AllCounts,
    ) {
        if std::mem::take(&mut self.read_mask) && of.level > 0 {
            counts.babelfish.long_accesses += 1;
            after.access = self.long;
        }
        if looked.passed > 0 {
            // A shared entry is not this process's page, though no bit said so.
            counts.babelfish.private_refusals += looked.passed;
            if self.ccid(of.space) != 0 {
                after.drop = self.copied(of.space, looked.class, of.vaddr, counts);
            }
        }
    }

    /// ASLR-HW: "determines which segment is being accessed, and then adds the corresponding entry
    /// in diff_i_offset[]" (ISCA'20 section IV-D).
    fn relocate(&self, _: usize, space: u16, vaddr: u64) -> Option<(u64, u64)> {
        if !self.hw {
            return None;
        }
        let segments = self.segments.get(&space);
        let inside = |part: &&Segment| (part.start..part.end).contains(&vaddr);
        let inside = segments.and_then(|segments| segments.iter().find(inside));
        let there = inside.map_or(vaddr, |part| vaddr.wrapping_add(part.offset));
        Some((there, self.transform))
    }

    /// The O and ORPC bits of the entry above the leaf, and what follows from them.
    fn walked(
        &mut self,
        _: usize,
        space: u16,
        vaddr: u64,
        walk: &Walk,
        _: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Walked {
        let mut walked = Walked {
            attr: OWNED,
            ..Walked::default()
        };
        let ccid = self.ccid(space);
        let (Ok(page), Some(above)) = (walk.result, walk.above_leaf()) else {
            return walked;
        };
        if ccid == 0 {
            return walked;
        }
        let class = size_class(page.attr);
        if any(&self.owned, above.value) {
            if self.infers() && self.masks.seen_shared(ccid, class, vaddr) {
                // Its cohort shares a table here and it does not.
                walked.drop = self.copied(space, class, vaddr, counts);
            }
            return walked;
        }
        if self.masks.overflowed(ccid, class, vaddr) {
            return walked;
        }
        if self.infers() {
            self.masks.note_shared(ccid, class, vaddr);
        }
        let (mask, paddr) = self.masks.mask(ccid, class, vaddr);
        let or_pc = match &self.or_pc {
            Some(tests) => any(tests, above.value),
            None => mask != 0,
        };
        // "When the PC bitmask bits are not loaded into the TLB, the hardware clears the
        // corresponding TLB storage" (ISCA'20 section III-A).
        walked.attr = 0;
        if or_pc {
            counts.babelfish.mask_pages += 1;
            walked.attr = OR_PC;
            walked.extra = mask;
            // "The hardware accesses the MaskPage in parallel with the request for the pte_t entry"
            // (ISCA'20 Appendix).
            walked.read = Some(paddr);
        }
        walked
    }

    fn split(&self, level: usize, piece: &mut Entry) {
        if self.judges(level) {
            // The PC bitmask is the whole page's; a piece is the process's own.
            piece.attr = piece.attr & !OR_PC | OWNED;
            piece.extra = 0;
        }
    }

    fn event(&mut self, event: Event, counts: &mut AllCounts) -> Option<Drop> {
        match event {
            Event::Identity(space, identity) => {
                self.masks.forget(space);
                let ccid = self.masks.ccid(identity.cohort);
                self.set_ccid(space, ccid);
                None
            }
            Event::Gone(space) => {
                self.masks.forget(space);
                self.segments.remove(&space);
                None
            }
            Event::Segments(space, segments) => {
                self.segments.insert(space, segments.to_vec());
                None
            }
            Event::PrivateCopy(space, vaddr, class) => {
                let ccid = self.ccid(space);
                if ccid == 0 {
                    return None;
                }
                // "Irrespective of whether this was the process' first CoW event in this MaskPage,
                // the OS invalidates from the local and remote TLBs the TLB entry for this VPN that
                // has the O bit equal to zero" (ISCA'20 section III-A).
                let copied = self.copied(space, class, vaddr, counts);
                copied.or(Some(self.drop(true, ccid, vaddr, None)))
            }
            Event::Wrote(space, vaddr, walk) => {
                let ccid = self.ccid(space);
                let (Ok(page), Some(above)) = (walk.result, walk.above_leaf()) else {
                    return None;
                };
                let class = size_class(page.attr);
                let own = any(&self.owned, above.value);
                if !self.infers() || !own || !self.masks.seen_shared(ccid, class, vaddr) {
                    return None;
                }
                // As above.
                let copied = self.copied(space, class, vaddr, counts);
                copied.or(Some(self.drop(true, ccid, vaddr, None)))
            }
            Event::SharedPage(vaddr, cohort) => {
                let ccid = self.masks.ccid_of(cohort)?;
                Some(self.drop(false, ccid, vaddr, None))
            }
            Event::Runs(..) | Event::Shared(..) => None,
        }
    }
}

/// A MaskPage (Figure 13).
#[derive(Clone, Debug)]
struct MaskPage {
    paddr: u64,
    /// The address spaces in the order of their first private copy. A place is empty again when
    /// its address space is gone; the paper does not say what becomes of it.
    pid_list: Vec<Option<u16>>,
    masks: Box<[u32; MASKS]>,
    /// Which entries have been seen to point to a shared table.
    shared: Box<[bool; MASKS]>,
    /// There were more writers than bits: nothing is shared here any more.
    overflowed: bool,
}

/// What a write to a copy-on-write page did to the MaskPage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    /// The process's bit was set already.
    Known,
    /// It is set now; `listed` if the process had no place in the list before.
    Set {
        /// Whether it took a place in the `pid_list`.
        listed: bool,
    },
    /// The list was full: the group goes back to own translations in this range.
    Overflowed,
}

/// All MaskPages and CCIDs.
#[derive(Clone, Debug)]
struct MaskPages {
    pages: QuickMap<(u16, u32, u64), usize>,
    list: Vec<MaskPage>,
    ccids: HashMap<u32, u16>,
    bits: usize,
    /// For each page size of the format, the size that an entry above its leaf covers.
    above: [Option<u32>; SIZES_MAX],
}

impl MaskPages {
    /// None yet; `bits` places in a `pid_list`, `above` as [`crate::format::Format::above_shift`].
    fn new(bits: u32, above: [Option<u32>; SIZES_MAX]) -> Self {
        let bits = bits as usize;
        Self {
            pages: QuickMap::default(),
            list: Vec::new(),
            ccids: HashMap::new(),
            bits,
            above,
        }
    }

    /// The CCID of a cohort; 0 for none. Numbers are given in the order of appearance. After 4095
    /// cohorts the next has none.
    fn ccid(&mut self, cohort: u32) -> u16 {
        if cohort == 0 {
            return 0;
        }
        let next = self.ccids.len() as u16 + 1;
        if let Some(&ccid) = self.ccids.get(&cohort) {
            ccid
        } else if next <= CCIDS {
            self.ccids.insert(cohort, next);
            next
        } else {
            0
        }
    }

    /// The same without giving a new one.
    fn ccid_of(&self, cohort: u32) -> Option<u16> {
        self.ccids.get(&cohort).copied()
    }

    fn find(&self, ccid: u16, class: usize, vaddr: u64) -> Option<(&MaskPage, usize)> {
        let above = self.above[class]?;
        let page = *self.pages.get(&(ccid, above, vaddr >> (above + 9)))?;
        Some((&self.list[page], (vaddr >> above) as usize % MASKS))
    }

    fn make(&mut self, ccid: u16, class: usize, vaddr: u64) -> Option<(&mut MaskPage, usize)> {
        let above = self.above[class]?;
        let next = self.list.len();
        let page = *self
            .pages
            .entry((ccid, above, vaddr >> (above + 9)))
            .or_insert(next);
        if page == next {
            self.list.push(MaskPage {
                paddr: FIRST_PAGE + next as u64 * 4096,
                pid_list: Vec::new(),
                masks: Box::new([0; MASKS]),
                shared: Box::new([false; MASKS]),
                overflowed: false,
            });
        }
        Some((&mut self.list[page], (vaddr >> above) as usize % MASKS))
    }

    /// The bit of a process in the PC bitmasks of this range: its place in the `pid_list`. `class`
    /// is the number of the page's size in the format.
    fn bit(&self, ccid: u16, class: usize, vaddr: u64, space: u16) -> Option<u32> {
        let (page, _) = self.find(ccid, class, vaddr)?;
        page.pid_list
            .iter()
            .position(|&pid| pid == Some(space))
            .map(|place| place as u32)
    }

    /// The PC bitmask of an entry, and the physical address where it lies. 0 without a MaskPage.
    fn mask(&self, ccid: u16, class: usize, vaddr: u64) -> (u32, u64) {
        self.find(ccid, class, vaddr)
            .map_or((0, FIRST_PAGE), |(page, index)| {
                (page.masks[index], page.paddr + index as u64 * 4)
            })
    }

    /// Whether the range has gone back to own translations.
    fn overflowed(&self, ccid: u16, class: usize, vaddr: u64) -> bool {
        self.find(ccid, class, vaddr)
            .is_some_and(|(page, _)| page.overflowed)
    }

    /// Whether an entry has been seen to point to a shared table.
    fn seen_shared(&self, ccid: u16, class: usize, vaddr: u64) -> bool {
        self.find(ccid, class, vaddr)
            .is_some_and(|(page, index)| page.shared[index])
    }

    /// A walk went through a shared table.
    fn note_shared(&mut self, ccid: u16, class: usize, vaddr: u64) {
        if let Some((page, index)) = self.make(ccid, class, vaddr) {
            page.shared[index] = true;
        }
    }

    /// "Actions on a Write to a CoW Page": the process takes the next place in the `pid_list` if it
    /// has none, and its bit is set.
    fn copied(&mut self, ccid: u16, class: usize, vaddr: u64, space: u16) -> Copied {
        let bits = self.bits;
        let Some((page, index)) = self.make(ccid, class, vaddr) else {
            return Copied::Known;
        };
        if page.overflowed {
            return Copied::Known;
        }
        let known = page.pid_list.iter().position(|&pid| pid == Some(space));
        let place = known.or_else(|| page.pid_list.iter().position(Option::is_none));
        let place = match place {
            Some(place) => place,
            None if page.pid_list.len() < bits => {
                page.pid_list.push(None);
                page.pid_list.len() - 1
            }
            None => {
                page.overflowed = true;
                page.masks.fill(0);
                page.pid_list.clear();
                return Copied::Overflowed;
            }
        };
        page.pid_list[place] = Some(space);
        let bit = 1 << place;
        if page.masks[index] & bit != 0 {
            return Copied::Known;
        }
        page.masks[index] |= bit;
        Copied::Set {
            listed: known.is_none(),
        }
    }

    /// The range that a MaskPage covers: the first address and the size as a power of two.
    fn range(&self, class: usize, vaddr: u64) -> Option<(u64, u32)> {
        let shift = self.above[class]? + 9;
        Some((vaddr >> shift << shift, shift))
    }

    /// An address space is gone: its places are free and its bits clear.
    fn forget(&mut self, space: u16) {
        for page in &mut self.list {
            let place = page.pid_list.iter().position(|&pid| pid == Some(space));
            if let Some(place) = place {
                page.pid_list[place] = None;
                for mask in page.masks.iter_mut() {
                    *mask &= !(1 << place);
                }
            }
        }
    }
}
