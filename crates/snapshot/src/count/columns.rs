// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts which entries the tables of one index have in common.

use crate::model::word::Word;

/// For each slot of a table index, how many times each word stands there.
///
/// The first word of a slot has a place of its own, as nearly all tables of an index agree on it.
/// The others are sorted.
#[derive(Default)]
pub(super) struct Columns {
    first: Vec<(u64, u32)>,
    used: Vec<u16>,
    others: Vec<(u64, u32)>,
}

impl Columns {
    pub(super) fn clear(&mut self) {
        self.first.resize(Word::MAX_SLOTS, (0, 0));
        for slot in self.used.drain(..) {
            self.first[usize::from(slot)] = (0, 0);
        }
        self.others.clear();
    }

    pub(super) fn add(&mut self, word: Word, times: u32) {
        let first = &mut self.first[word.slot()];
        if first.1 == 0 {
            *first = (word.0, times);
            self.used.push(word.slot() as u16);
        } else if first.0 == word.0 {
            first.1 += times;
        } else {
            self.others.push((word.0, times));
        }
    }

    /// Must be called before `times` and `repeated`.
    pub(super) fn finish(&mut self) {
        self.others.sort_unstable();
        self.others.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }

    pub(super) fn times(&self, word: Word) -> u32 {
        let first = self.first[word.slot()];
        if first.0 == word.0 {
            return first.1;
        }
        match self.others.binary_search_by_key(&word.0, |other| other.0) {
            Ok(place) => self.others[place].1,
            Err(_) => 0,
        }
    }

    /// Number of different words that `wanted` picks and that occur at least twice.
    pub(super) fn repeated(&self, wanted: impl Fn(Word) -> bool) -> u64 {
        let first = self.used.iter().map(|slot| self.first[usize::from(*slot)]);
        let all = first.chain(self.others.iter().copied());
        all.filter(|(word, times)| *times > 1 && wanted(Word(*word)))
            .count() as u64
    }
}
