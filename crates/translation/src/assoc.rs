// SPDX-License-Identifier: GPL-2.0-or-later
//! A set-associative array of tags: the part that caches and page-walk caches have in common.

use crate::prefetch::prefetch;
use crate::replacement::{Policy, Replacement};

/// Sets of an array that remembers the slot found last in each.
const LAST_SETS: usize = 256;
/// The tag of a way that holds nothing.
const INVALID: u64 = u64::MAX;
/// Ways whose marks are in one word.
const MARKS: usize = 8;
/// The lowest bit of each byte.
const BYTES: u64 = 0x0101_0101_0101_0101;
/// The mark of a way that a set does not have: no tag has it, and it is not free.
const NO_WAY: u8 = 0xff;

/// Tags in sets. The caller gives the set and a tag that is unique in it.
///
/// A set is searched by marks, a byte of each tag, so that of the tags themselves only the one that is
/// found is read, and in a set that lacks the tag nearly always none.
#[derive(Clone, Debug)]
pub struct Assoc {
    ways: usize,
    /// Sets minus one; the sets are a power of two.
    set_mask: u64,
    tags: Vec<u64>,
    /// By set, in words: the mark of each way, the first in the lowest byte; 0 for one that is free.
    marks: Vec<u64>,
    /// Words of marks per set.
    words: usize,
    /// For each set the slot that was found last: looked at first, nothing more. Empty in large
    /// arrays, where fetching it costs more than it saves.
    last: Vec<u32>,
    replacement: Replacement,
}

/// Neither 0 nor [`NO_WAY`].
#[inline(always)]
fn mark_of(tag: u64) -> u8 {
    let byte = (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    byte.clamp(1, NO_WAY - 1)
}

/// The highest bit of each byte that is 0.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f * BYTES;
    !(((word & LOW) + LOW) | word | LOW)
}

impl Assoc {
    /// `entries` in sets of `ways`; the number of sets must be a power of two.
    pub fn new(entries: usize, ways: usize, policy: Policy) -> Self {
        let sets = entries / ways;
        assert!(
            sets.is_power_of_two() && sets * ways == entries,
            "checked by the description"
        );
        let words = ways.div_ceil(MARKS);
        let mut array = Self {
            ways,
            set_mask: sets as u64 - 1,
            tags: vec![INVALID; entries],
            marks: vec![0; sets * words],
            words,
            last: match sets {
                0..=LAST_SETS => (0..sets).map(|set| (set * ways) as u32).collect(),
                _ => Vec::new(),
            },
            replacement: Replacement::new(policy, sets, ways),
        };
        array.clear_marks();
        array
    }

    /// The set that an index falls into.
    #[inline(always)]
    pub fn set_of(&self, index: u64) -> usize {
        (index & self.set_mask) as usize
    }

    /// A set will be needed.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        prefetch(&self.marks, set * self.words, self.words);
        prefetch(&self.tags, set * self.ways, self.ways);
        self.replacement.prefetch(set);
    }

    /// The first slot of a set, and how many it has.
    pub fn slots(&self, set: usize) -> (usize, usize) {
        (set * self.ways, self.ways)
    }

    /// The slot that holds the tag, its age untouched.
    #[inline(always)]
    pub fn find(&self, set: usize, tag: u64) -> Option<usize> {
        let pattern = u64::from(mark_of(tag)) * BYTES;
        let first = set * self.ways;
        for (word, &marks) in self.words_of(set).iter().enumerate() {
            let mut alike = zero_bytes(marks ^ pattern);
            while alike != 0 {
                let slot = first + word * MARKS + alike.trailing_zeros() as usize / 8;
                if self.tags[slot] == tag {
                    return Some(slot);
                }
                alike &= alike - 1;
            }
        }
        None
    }

    #[inline(always)]
    fn words_of(&self, set: usize) -> &[u64] {
        &self.marks[set * self.words..(set + 1) * self.words]
    }

    /// The same, and it counts as a use.
    #[inline(always)]
    pub fn hit(&mut self, set: usize, tag: u64) -> Option<usize> {
        let slot = match self.last.get(set) {
            Some(&last) if self.tags[last as usize] == tag => last as usize,
            _ => {
                let slot = self.find(set, tag)?;
                self.remember(set, slot);
                slot
            }
        };
        self.replacement.used(set, slot - set * self.ways);
        Some(slot)
    }

    #[inline(always)]
    fn remember(&mut self, set: usize, slot: usize) {
        if let Some(last) = self.last.get_mut(set) {
            *last = slot as u32;
        }
    }

    /// Marks a way.
    #[inline(always)]
    fn mark(&mut self, set: usize, way: usize, mark: u8) {
        let shift = way % MARKS * 8;
        let word = &mut self.marks[set * self.words + way / MARKS];
        *word = *word & !(0xff << shift) | u64::from(mark) << shift;
    }

    /// Puts a tag that is not there into the set: the slot, and the tag that had to go.
    pub fn insert(&mut self, set: usize, tag: u64) -> (usize, Option<u64>) {
        debug_assert!(self.find(set, tag).is_none());
        let first = set * self.ways;
        let free = self
            .words_of(set)
            .iter()
            .enumerate()
            .find_map(|(word, &marks)| {
                let free = zero_bytes(marks);
                (free != 0).then(|| word * MARKS + free.trailing_zeros() as usize / 8)
            });
        let (way, old) = match free {
            Some(way) => (way, None),
            None => {
                let way = self.replacement.victim(set);
                (way, Some(self.tags[first + way]))
            }
        };
        let slot = first + way;
        self.tags[slot] = tag;
        self.mark(set, way, mark_of(tag));
        self.remember(set, slot);
        self.replacement.filled(set, way);
        (slot, old)
    }

    /// Empties a slot.
    pub fn remove(&mut self, slot: usize) {
        self.tags[slot] = INVALID;
        self.mark(slot / self.ways, slot % self.ways, 0);
    }

    /// Empties all slots.
    pub fn clear(&mut self) {
        self.tags.fill(INVALID);
        self.clear_marks();
    }

    fn clear_marks(&mut self) {
        for (number, word) in self.marks.iter_mut().enumerate() {
            let ways = self.ways - number % self.words * MARKS;
            *word = match ways {
                MARKS.. => 0,
                _ => u64::MAX << (ways * 8),
            };
        }
    }

    /// The tag in a slot.
    pub fn tag(&self, slot: usize) -> Option<u64> {
        Some(self.tags[slot]).filter(|&tag| tag != INVALID)
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.tags.len()
    }
}
