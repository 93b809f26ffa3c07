// SPDX-License-Identifier: GPL-2.0-or-later
//! One level of TLB on one side: the arrays that are looked up together.
//!
//! Several page sizes live side by side, each in the array that holds its size, or together in one
//! array. An entry's tag and its mask are one comparison: the page's virtual address with the 12
//! bits of the context's tag below it (no page is smaller than 4 KB), where the mask leaves out the
//! tag of a global entry and the offset bits of its page size.

pub mod mechanism;

use crate::entry::{Entry, attr};
use crate::replacement::{Policy, Replacement};
use mechanism::Way;

/// The bits of a tag that name the context.
pub const CONTEXT_MASK: u64 = 0xfff;
/// The owner of an entry whose address space is gone.
const NOBODY: u16 = u16::MAX;
/// Slots that are remembered by page, to be tried before a search.
const GUESSES: usize = 256;

/// The compared part of an entry. One cache line of the host holds four.
#[derive(Clone, Copy, Debug)]
struct Tag {
    key: u64,
    mask: u64,
}

/// Never equal to anything: the mask leaves 0.
const EMPTY: Tag = Tag {
    key: u64::MAX,
    mask: 0,
};

/// The part of an entry that a hit returns.
#[derive(Clone, Copy, Debug, Default)]
struct Body {
    frame: u64,
    extra: u32,
    attr: u16,
    owner: u16,
}

/// One array: sets of ways, for one page size or several.
#[derive(Clone, Debug)]
struct Bank {
    first: usize,
    ways: usize,
    set_mask: u64,
    /// The sizes that it takes, as powers of two, ascending.
    sizes: Vec<u32>,
    /// How many entries of each size are in it: sizes that are not there are not searched.
    held: Vec<u32>,
    /// How many ways of each set hold an entry.
    full: Vec<u16>,
    replacement: Replacement,
}

impl Bank {
    #[inline(always)]
    fn set(&self, page: u64, shift: u32) -> usize {
        (page >> shift & self.set_mask) as usize
    }

    #[inline(always)]
    fn first_way(&self, page: u64, shift: u32) -> usize {
        self.first + self.set(page, shift) * self.ways
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
struct Place {
    bank: u8,
    way: u16,
    set: u32,
}

/// How pages of a size are held.
#[derive(Clone, Copy, Debug)]
struct Holds {
    /// The size itself, or the next smaller one that there is.
    shift: u32,
    bank: u8,
    /// The size's number in the bank.
    size: u8,
}

/// An array's description, as [`Tlb::new`] takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Page sizes as powers of two.
    pub sizes: Vec<u32>,
    /// Entries in all.
    pub entries: usize,
    /// Ways of a set.
    pub ways: usize,
    /// Which way goes.
    pub policy: Policy,
}

/// The arrays of one level and side.
#[derive(Clone, Debug)]
pub struct Tlb {
    tags: Vec<Tag>,
    bodies: Vec<Body>,
    banks: Vec<Bank>,
    /// By slot.
    places: Vec<Place>,
    /// By page size, as a power of two.
    holds: Vec<Option<Holds>>,
    /// By low bits of the page number: the slot where it was last.
    guesses: Vec<u16>,
}

impl Tlb {
    /// Empty arrays.
    pub fn new(arrays: &[Array]) -> Self {
        let mut tlb = Self {
            tags: Vec::new(),
            bodies: Vec::new(),
            banks: Vec::new(),
            places: Vec::new(),
            holds: Vec::new(),
            guesses: vec![0; GUESSES],
        };
        for (number, array) in arrays.iter().enumerate() {
            let first = tlb.tags.len();
            let sets = array.entries / array.ways;
            assert!(sets.is_power_of_two(), "checked by the description");
            tlb.tags.resize(first + array.entries, EMPTY);
            tlb.places.extend((0..array.entries).map(|slot| Place {
                bank: number as u8,
                way: (slot % array.ways) as u16,
                set: (slot / array.ways) as u32,
            }));
            tlb.banks.push(Bank {
                first,
                ways: array.ways,
                set_mask: sets as u64 - 1,
                sizes: array.sizes.clone(),
                held: vec![0; array.sizes.len()],
                full: vec![0; sets],
                replacement: Replacement::new(array.policy, sets, array.ways),
            });
        }
        tlb.bodies.resize(tlb.tags.len(), Body::default());
        tlb.holds = (0..u64::BITS).map(|shift| tlb.holding(shift)).collect();
        tlb
    }

    /// The first bank that takes the largest of the sizes up to this one.
    fn holding(&self, shift: u32) -> Option<Holds> {
        let sizes = self.banks.iter().flat_map(|bank| &bank.sizes).copied();
        let shift = sizes.filter(|&size| size <= shift).max()?;
        let found = self.banks.iter().enumerate().find_map(|(bank, array)| {
            let size = array.sizes.iter().position(|&size| size == shift)?;
            Some((bank as u8, size as u8))
        });
        found.map(|(bank, size)| Holds { shift, bank, size })
    }

    /// How many entries it has room for.
    pub fn capacity(&self) -> usize {
        self.tags.len()
    }

    fn guess_index(vaddr: u64) -> usize {
        (vaddr >> 12) as usize % GUESSES
    }

    /// The tag that [`Self::matches`] compares: a virtual address and the context's tag.
    #[inline(always)]
    pub fn probe(vaddr: u64, context: u16) -> u64 {
        vaddr & !CONTEXT_MASK | u64::from(context) & CONTEXT_MASK
    }

    #[inline(always)]
    fn matches(&self, slot: usize, probe: u64) -> bool {
        let tag = self.tags[slot];
        probe & tag.mask == tag.key
    }

    /// The slot where this page was last, if it still matches. It finds no more than
    /// [`Self::find`] would, only sooner; with tags that are not unique in a set (BabelFish's) ask
    /// `find` instead.
    #[inline(always)]
    pub fn guess(&self, vaddr: u64, probe: u64) -> Option<usize> {
        let slot = usize::from(self.guesses[Self::guess_index(vaddr)]);
        (slot < self.tags.len() && self.matches(slot, probe)).then_some(slot)
    }

    /// Counts a use of the slot, for replacement.
    #[inline(always)]
    pub fn used(&mut self, slot: usize) {
        let place = self.places[slot];
        let bank = &mut self.banks[usize::from(place.bank)];
        bank.replacement
            .used(place.set as usize, usize::from(place.way));
    }

    /// Searches all arrays for a slot that matches and of which `accept` says yes; arrays in
    /// order, then sizes ascending, then ways. Replacement is not told.
    pub fn find(
        &mut self,
        vaddr: u64,
        probe: u64,
        mut accept: impl FnMut(&mut Self, usize) -> bool,
    ) -> Option<usize> {
        for number in 0..self.banks.len() {
            for size in 0..self.banks[number].sizes.len() {
                let bank = &self.banks[number];
                if bank.held[size] == 0 {
                    continue;
                }
                let shift = bank.sizes[size];
                // Fully associative: one pass finds every size.
                let every = bank.set_mask == 0;
                let mut from = bank.first_way(vaddr, shift);
                let end = from + bank.ways;
                let alike = |tag: &Tag| probe & tag.mask == tag.key;
                while let Some(way) = self.tags[from..end].iter().position(alike) {
                    let slot = from + way;
                    if (every || self.shift(slot) == shift) && accept(self, slot) {
                        self.guesses[Self::guess_index(vaddr)] = slot as u16;
                        return Some(slot);
                    }
                    from = slot + 1;
                }
                if every {
                    break;
                }
            }
        }
        None
    }

    /// The largest page size of these arrays that is at most `shift`: a larger page is held as
    /// pieces of that size. `None` when every size is larger.
    #[inline(always)]
    pub fn size_for(&self, shift: u32) -> Option<u32> {
        self.holds(shift).map(|holds| holds.shift)
    }

    #[inline(always)]
    fn holds(&self, shift: u32) -> Option<Holds> {
        self.holds[(shift as usize).min(self.holds.len() - 1)]
    }

    /// Puts an entry in under the context's tag and returns what it pushed out, with its tag. The
    /// entry's size must be one that [`Self::size_for`] gave.
    pub fn insert(&mut self, entry: &Entry, context: u16) -> Option<(Entry, u16)> {
        let holds = self.holds(entry.shift)?;
        debug_assert_eq!(holds.shift, entry.shift);
        let bank = &mut self.banks[usize::from(holds.bank)];
        let set = bank.set(entry.page, entry.shift);
        let first = bank.first + set * bank.ways;
        let (slot, old) = if usize::from(bank.full[set]) < bank.ways {
            let ways = &self.tags[first..first + bank.ways];
            let free = ways.iter().position(|tag| tag.key == u64::MAX)?;
            (first + free, None)
        } else {
            let slot = first + bank.replacement.victim(set);
            let tag = self.context(slot);
            let old = self.entry(slot).map(|entry| (entry, tag));
            self.remove(slot);
            (slot, old)
        };
        let context_mask = if entry.attr & attr::GLOBAL != 0 {
            0
        } else {
            CONTEXT_MASK
        };
        let mask = u64::MAX << entry.shift | context_mask;
        self.tags[slot] = Tag {
            key: Self::probe(entry.page, context) & mask,
            mask,
        };
        self.bodies[slot] = Body {
            frame: entry.frame,
            extra: entry.extra,
            attr: entry.attr,
            owner: entry.owner,
        };
        let bank = &mut self.banks[usize::from(holds.bank)];
        bank.held[usize::from(holds.size)] += 1;
        bank.full[set] += 1;
        bank.replacement.filled(set, slot - first);
        self.guesses[Self::guess_index(entry.page)] = slot as u16;
        old
    }

    /// Empties a slot.
    pub fn remove(&mut self, slot: usize) {
        if self.tags[slot].key == u64::MAX {
            return;
        }
        let place = self.places[slot];
        let holds = self.holds(self.shift(slot));
        let bank = &mut self.banks[usize::from(place.bank)];
        if let Some(holds) = holds {
            bank.held[usize::from(holds.size)] -= 1;
        }
        bank.full[place.set as usize] -= 1;
        self.tags[slot] = EMPTY;
    }

    /// Empties the slots of which `which` says yes, and returns how many. `which` sees the entry
    /// and the context's tag it is held under.
    pub fn remove_if(&mut self, mut which: impl FnMut(&Entry, u16) -> bool) -> u64 {
        let mut removed = 0;
        for slot in 0..self.tags.len() {
            let context = self.context(slot);
            if self.entry(slot).is_some_and(|entry| which(&entry, context)) {
                self.remove(slot);
                removed += 1;
            }
        }
        removed
    }

    /// Empties, in the sets where the page of `vaddr` can be, the slots of which `which` says yes.
    pub fn remove_page(&mut self, vaddr: u64, mut which: impl FnMut(&Entry, u16) -> bool) -> u64 {
        let mut removed = 0;
        for number in 0..self.banks.len() {
            for size in 0..self.banks[number].sizes.len() {
                let bank = &self.banks[number];
                if bank.held[size] == 0 {
                    continue;
                }
                let first = bank.first_way(vaddr, bank.sizes[size]);
                for slot in first..first + bank.ways {
                    let Some(entry) = self.entry(slot) else {
                        continue;
                    };
                    let context = self.context(slot);
                    if vaddr >> entry.shift == entry.page >> entry.shift && which(&entry, context) {
                        self.remove(slot);
                        removed += 1;
                    }
                }
            }
        }
        removed
    }

    /// Empties everything, and returns how many entries there were.
    pub fn clear(&mut self) -> u64 {
        let held: u32 = self.banks.iter().flat_map(|bank| &bank.held).sum();
        if held > 0 {
            self.tags.fill(EMPTY);
            for bank in &mut self.banks {
                bank.held.fill(0);
                bank.full.fill(0);
            }
        }
        u64::from(held)
    }

    /// The page size of a valid slot: the lowest bit of its mask that belongs to the page.
    fn shift(&self, slot: usize) -> u32 {
        (self.tags[slot].mask & !CONTEXT_MASK).trailing_zeros()
    }

    /// The context's tag that a valid slot is held under.
    fn context(&self, slot: usize) -> u16 {
        (self.tags[slot].key & CONTEXT_MASK) as u16
    }

    /// The entry in a slot.
    pub fn entry(&self, slot: usize) -> Option<Entry> {
        let tag = self.tags[slot];
        if tag.key == u64::MAX {
            return None;
        }
        let body = self.bodies[slot];
        Some(Entry {
            page: tag.key & !CONTEXT_MASK,
            frame: body.frame,
            shift: self.shift(slot),
            attr: body.attr,
            owner: body.owner,
            extra: body.extra,
        })
    }

    /// Every entry, slot by slot.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.tags.len()).filter_map(|slot| self.entry(slot))
    }

    /// The physical address that a matching slot gives.
    #[inline(always)]
    pub fn translate(&self, slot: usize, vaddr: u64) -> u64 {
        self.bodies[slot].frame | vaddr & !(self.tags[slot].mask & !CONTEXT_MASK)
    }

    /// The slot's [`attr`] bits.
    #[inline(always)]
    pub fn attr(&self, slot: usize) -> u16 {
        self.bodies[slot].attr
    }

    /// The address space that brought the slot's entry in.
    #[inline(always)]
    pub fn owner(&self, slot: usize) -> u16 {
        self.bodies[slot].owner
    }

    /// What mechanisms judge of the slot.
    #[inline(always)]
    pub fn way(&self, slot: usize) -> Way {
        let body = &self.bodies[slot];
        Way {
            attr: body.attr,
            owner: body.owner,
            extra: body.extra,
            tag: self.context(slot),
        }
    }

    /// An address space's number is given to another: its entries are nobody's.
    pub fn disown(&mut self, owner: u16) {
        for body in self.bodies.iter_mut().filter(|body| body.owner == owner) {
            body.owner = NOBODY;
        }
    }
}
