// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts the tables of one index as they would be with code and data in tables apart.

use crate::model::store::hash_of;
use crate::model::word::Word;
use hashbrown::HashMap;

/// See the fields of [`super::entries::Ptps`].
#[derive(Default)]
pub(super) struct Apart {
    pub tables: u64,
    pub identical: u64,
    pub distinct: u64,
    pub lineages: u64,
}

/// Code and data of the tables of an index, apart from each other.
#[derive(Default)]
pub(super) struct Parts {
    parts: HashMap<(bool, u64), u64>,
    alone: u64,
    pub(super) lineages: Vec<Option<u64>>,
}

impl Parts {
    pub(super) fn add(&mut self, words: &[Word], times: u64, unknown: bool) {
        let of_data = words.iter().filter(|word| word.data()).count();
        for data in [false, true] {
            let count = if data { of_data } else { words.len() - of_data };
            if count == 0 {
                continue;
            }
            let hash = if count == words.len() {
                hash_of(0, words)
            } else {
                let part: Vec<Word> = words
                    .iter()
                    .copied()
                    .filter(|word| word.data() == data)
                    .collect();
                hash_of(0, &part)
            };
            if unknown {
                self.alone += times;
            } else {
                *self.parts.entry((data, hash)).or_default() += times;
            }
        }
    }

    pub(super) fn finish(mut self) -> Apart {
        let mut apart = Apart {
            tables: self.alone,
            distinct: self.alone,
            ..Apart::default()
        };
        for times in self.parts.values() {
            apart.tables += times;
            apart.distinct += 1;
            apart.identical += times * u64::from(*times > 1);
        }
        self.lineages.sort_unstable();
        let unknown = self
            .lineages
            .iter()
            .filter(|lineage| lineage.is_none())
            .count();
        self.lineages.dedup();
        let different = self.lineages.iter().flatten().count();
        apart.lineages = (different + unknown) as u64;
        apart
    }
}
