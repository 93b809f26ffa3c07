// SPDX-License-Identifier: GPL-2.0-or-later
//! A set-associative array of tags: the part that caches and page-walk caches have in common.

use crate::prefetch::prefetch;
use crate::replacement::{Policy, Replacement};

/// Sets of an array that remembers the slot found last in each.
const LAST_SETS: usize = 1024;
/// The tag of a way that holds nothing.
const INVALID: u64 = u64::MAX;

/// Tags in sets. The caller gives the set and a tag that is unique in it.
#[derive(Clone, Debug)]
pub struct Assoc {
    ways: usize,
    /// Sets minus one; the sets are a power of two.
    set_mask: u64,
    tags: Vec<u64>,
    /// For each set the slot that was found last: looked at first, nothing more. Empty in large
    /// arrays, where fetching it costs more than it saves.
    last: Vec<u32>,
    replacement: Replacement,
}

impl Assoc {
    /// `entries` in sets of `ways`; the number of sets must be a power of two.
    pub fn new(entries: usize, ways: usize, policy: Policy) -> Self {
        let sets = entries / ways;
        assert!(
            sets.is_power_of_two() && sets * ways == entries,
            "checked by the description"
        );
        Self {
            ways,
            set_mask: sets as u64 - 1,
            tags: vec![INVALID; entries],
            last: match sets {
                0..=LAST_SETS => (0..sets).map(|set| (set * ways) as u32).collect(),
                _ => Vec::new(),
            },
            replacement: Replacement::new(policy, sets, ways),
        }
    }

    /// The set that an index falls into.
    #[inline(always)]
    pub fn set_of(&self, index: u64) -> usize {
        (index & self.set_mask) as usize
    }

    /// A set will be needed.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
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
        if let Some(&last) = self.last.get(set) {
            if self.tags[last as usize] == tag {
                return Some(last as usize);
            }
        }
        let first = set * self.ways;
        let tags = &self.tags[first..first + self.ways];
        tags.iter()
            .position(|&held| held == tag)
            .map(|way| first + way)
    }

    /// The same, and it counts as a use.
    #[inline(always)]
    pub fn hit(&mut self, set: usize, tag: u64) -> Option<usize> {
        let slot = self.find(set, tag)?;
        self.remember(set, slot);
        self.replacement.used(slot);
        Some(slot)
    }

    #[inline(always)]
    fn remember(&mut self, set: usize, slot: usize) {
        if let Some(last) = self.last.get_mut(set) {
            *last = slot as u32;
        }
    }

    /// Puts a tag that is not there into the set: the slot, and the tag that had to go.
    pub fn insert(&mut self, set: usize, tag: u64) -> (usize, Option<u64>) {
        debug_assert!(self.find(set, tag).is_none());
        let first = set * self.ways;
        let free = self.tags[first..first + self.ways]
            .iter()
            .position(|&held| held == INVALID);
        let (slot, old) = match free {
            Some(way) => (first + way, None),
            None => {
                let slot = self.replacement.victim(set);
                (slot, Some(self.tags[slot]))
            }
        };
        self.tags[slot] = tag;
        self.remember(set, slot);
        self.replacement.filled(slot);
        (slot, old)
    }

    /// Empties a slot.
    pub fn remove(&mut self, slot: usize) {
        self.tags[slot] = INVALID;
    }

    /// Empties all slots.
    pub fn clear(&mut self) {
        self.tags.fill(INVALID);
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
