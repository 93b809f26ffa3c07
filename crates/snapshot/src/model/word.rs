// SPDX-License-Identifier: GPL-2.0-or-later
//! One leaf entry of a page table in eight bytes.
//!
//! A word says where in its table an entry stands, what it maps and with which rights, so that two
//! entries of the same table index are equal exactly when their words are, and a table is a sorted
//! list of words.

use serde::{Deserialize, Serialize};

/// Bits of a word that hold the frame, or type and offset of a swap entry.
const FRAME_BITS: u32 = 43;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;
const SLOT_SHIFT: u32 = 51;

/// The region allows reading.
pub const READ: u8 = 1;
/// The region allows writing.
pub const WRITE: u8 = 2;
/// The region allows executing.
pub const EXEC: u8 = 4;
/// The region is shared (`MAP_SHARED`).
pub const SHARED: u8 = 8;

const PERM_SHIFT: u32 = FRAME_BITS;
const SWAP: u64 = 1 << 47;
const FILE: u64 = 1 << 48;
const EXCLUSIVE: u64 = 1 << 49;
const HUGE: u64 = 1 << 50;

/// The kernel's format of an entry of `/proc/PID/pagemap`
/// (Documentation/admin-guide/mm/pagemap.rst).
pub mod raw {
    /// The page is in memory.
    pub const PRESENT: u64 = 1 << 63;
    /// The page is in swap, or is a migration or device entry.
    pub const SWAP: u64 = 1 << 62;
    /// A page of a file, or anonymous memory that is shared by `MAP_SHARED`.
    pub const FILE: u64 = 1 << 61;
    /// The page is mapped by nobody else (since Linux 4.2).
    pub const EXCLUSIVE: u64 = 1 << 56;
    /// Frame, or type and offset of a swap entry.
    pub const FRAME: u64 = (1 << 55) - 1;
}

/// A leaf entry that is not empty: in memory or in swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct Word(pub u64);

impl Word {
    /// Most entries that a table may have: those of arm64 with pages of 64 KB.
    pub const MAX_SLOTS: usize = 1 << (64 - SLOT_SHIFT);

    /// The word of what pagemap says of entry `slot` of its table, in a region with `perms`.
    ///
    /// A swap entry keeps its type (5 bits) and the lower 38 bits of its offset.
    #[inline(always)]
    pub fn from_raw(slot: usize, raw: u64, perms: u8) -> Word {
        let flags = ((raw & raw::SWAP) >> (62 - 47))
            | ((raw & raw::FILE) >> (61 - 48))
            | ((raw & raw::EXCLUSIVE) >> (56 - 49));
        Word(
            ((slot as u64) << SLOT_SHIFT)
                | flags
                | (u64::from(perms & 15) << PERM_SHIFT)
                | (raw & FRAME_MASK),
        )
    }

    /// The entry of a huge page: one word for all of `first`'s table.
    pub fn into_huge(self) -> Word {
        Word((self.0 | HUGE) & !(((Self::MAX_SLOTS as u64) - 1) << SLOT_SHIFT))
    }

    /// The same entry with another frame: for files whose frames are hidden.
    pub fn with_frame(self, frame: u64) -> Word {
        Word(self.0 & !FRAME_MASK | frame & FRAME_MASK)
    }

    /// Place in the table.
    #[inline(always)]
    pub fn slot(self) -> usize {
        (self.0 >> SLOT_SHIFT) as usize
    }

    /// Frame number, or a swap entry's type and offset.
    #[inline(always)]
    pub fn frame(self) -> u64 {
        self.0 & FRAME_MASK
    }

    /// `READ`, `WRITE`, `EXEC`, `SHARED` of the region.
    #[inline(always)]
    pub fn perms(self) -> u8 {
        (self.0 >> PERM_SHIFT) as u8 & 15
    }

    /// In swap, or on its way to another frame.
    #[inline(always)]
    pub fn swapped(self) -> bool {
        self.0 & SWAP != 0
    }

    /// A page of a file or of shared memory.
    #[inline(always)]
    pub fn file(self) -> bool {
        self.0 & FILE != 0
    }

    /// The kernel said that this is the page's only mapping.
    #[inline(always)]
    pub fn exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// A huge page's entry, one level up.
    #[inline(always)]
    pub fn huge(self) -> bool {
        self.0 & HUGE != 0
    }

    /// May be equal to another process's entry: in memory, small, and not mapped only once.
    #[inline(always)]
    pub fn candidate(self) -> bool {
        self.0 & (SWAP | EXCLUSIVE | HUGE) == 0
    }

    /// Private and writable: data, as opposed to code, constants and shared memory.
    #[inline(always)]
    pub fn data(self) -> bool {
        self.perms() & (WRITE | SHARED) == WRITE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_what_pagemap_says() {
        let raw = raw::PRESENT | raw::FILE | raw::EXCLUSIVE | 0x7_1234_5678;
        let word = Word::from_raw(511, raw, READ | EXEC);
        assert_eq!(
            (word.slot(), word.frame(), word.perms()),
            (511, 0x7_1234_5678, READ | EXEC)
        );
        assert!(word.file() && word.exclusive() && !word.swapped() && !word.huge());
        let swapped = Word::from_raw(8191, raw::SWAP | 0x1f, WRITE);
        assert!(swapped.swapped() && !swapped.file() && swapped.slot() == 8191);
        assert!(swapped.data() && !word.data());
    }

    #[test]
    fn soft_dirty_and_userfaultfd_bits_make_no_difference() {
        let raw = raw::PRESENT | 77;
        assert_eq!(
            Word::from_raw(3, raw | 1 << 55 | 1 << 57, READ),
            Word::from_raw(3, raw, READ)
        );
    }

    #[test]
    fn words_order_by_slot() {
        let low = Word::from_raw(1, raw::SWAP | raw::FILE | raw::FRAME, 15);
        let high = Word::from_raw(2, raw::PRESENT, 0);
        assert!(low < high);
        assert!(high.into_huge().slot() == 0 && high.into_huge().huge());
    }
}
