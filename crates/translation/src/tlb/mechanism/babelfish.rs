// SPDX-License-Identifier: GPL-2.0-or-later
//! What BabelFish's kernel keeps: CCIDs and MaskPages (ISCA'20 section III-A and Appendix).
//!
//! A MaskPage belongs to a set of PMD tables, that is to one cohort and to the range of addresses
//! that one PMD table covers. It holds a PC bitmask for each entry of those tables and one ordered
//! `pid_list`; a process's place in the list is its bit. Where the paper's kernel shares tables one
//! level higher (2 MB pages) the same holds one level higher.
//!
//! No kernel writes MaskPages yet, so the model keeps them in its owner's place:
//!
//! - The CCID is the cohort of the address space ([`crate::Sink::set_identity`]). Without a cohort
//!   every entry is owned.
//! - An entry is owned unless the page-table page that holds it is shared, which the cohort kernel
//!   says with a bit in the entry that points to that page (`babelfish.owned` in the description).
//! - A process that has a table of its own where its cohort shares one made a private copy: it gets
//!   its bit when the model first meets the difference, in a walk or in a translation that is not
//!   the shared one. A source that knows better calls [`crate::Sink::private_copy`].
//! - The MaskPages have addresses of their own above all of the guest's memory, so that reading
//!   them goes through the caches.

use crate::entry::SIZES_MAX;
use crate::hash::QuickMap;
use std::collections::HashMap;

/// Entries of a table: PC bitmasks of a MaskPage (ISCA'20 Figure 13).
const MASKS: usize = 512;
/// Where MaskPages lie: above any guest's memory, below the end of 52-bit addresses.
const FIRST_PAGE: u64 = 0xf_0000_0000_0000;
/// CCIDs have 12 bits; 0 means none.
const CCIDS: u16 = 0xfff;

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
pub enum Copied {
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
pub struct MaskPages {
    pages: QuickMap<(u16, u32, u64), usize>,
    list: Vec<MaskPage>,
    ccids: HashMap<u32, u16>,
    bits: usize,
    /// For each page size of the format, the size that an entry above its leaf covers.
    above: [Option<u32>; SIZES_MAX],
}

impl MaskPages {
    /// None yet; `bits` places in a `pid_list`, `above` as [`crate::format::Format::above_shift`].
    pub fn new(bits: u32, above: [Option<u32>; SIZES_MAX]) -> Self {
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
    pub fn ccid(&mut self, cohort: u32) -> u16 {
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
    pub fn ccid_of(&self, cohort: u32) -> Option<u16> {
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
    pub fn bit(&self, ccid: u16, class: usize, vaddr: u64, space: u16) -> Option<u32> {
        let (page, _) = self.find(ccid, class, vaddr)?;
        page.pid_list
            .iter()
            .position(|&pid| pid == Some(space))
            .map(|place| place as u32)
    }

    /// The PC bitmask of an entry, and the physical address where it lies. 0 without a MaskPage.
    pub fn mask(&self, ccid: u16, class: usize, vaddr: u64) -> (u32, u64) {
        self.find(ccid, class, vaddr)
            .map_or((0, FIRST_PAGE), |(page, index)| {
                (page.masks[index], page.paddr + index as u64 * 4)
            })
    }

    /// Whether the range has gone back to own translations.
    pub fn overflowed(&self, ccid: u16, class: usize, vaddr: u64) -> bool {
        self.find(ccid, class, vaddr)
            .is_some_and(|(page, _)| page.overflowed)
    }

    /// Whether an entry has been seen to point to a shared table.
    pub fn seen_shared(&self, ccid: u16, class: usize, vaddr: u64) -> bool {
        self.find(ccid, class, vaddr)
            .is_some_and(|(page, index)| page.shared[index])
    }

    /// A walk went through a shared table.
    pub fn note_shared(&mut self, ccid: u16, class: usize, vaddr: u64) {
        if let Some((page, index)) = self.make(ccid, class, vaddr) {
            page.shared[index] = true;
        }
    }

    /// "Actions on a Write to a CoW Page": the process takes the next place in the `pid_list` if it
    /// has none, and its bit is set.
    pub fn copied(&mut self, ccid: u16, class: usize, vaddr: u64, space: u16) -> Copied {
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
    pub fn range(&self, class: usize, vaddr: u64) -> Option<(u64, u32)> {
        let shift = self.above[class]? + 9;
        Some((vaddr >> shift << shift, shift))
    }

    /// An address space is gone: its places are free and its bits clear.
    pub fn forget(&mut self, space: u16) {
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
