// SPDX-License-Identifier: GPL-2.0-or-later
//! Every different page table once.
//!
//! Forked processes have mostly equal tables, so keeping each once bounds memory by what differs,
//! and makes comparing two tables comparing two numbers. Tables of different places are different
//! even with equal words: an equal translation has an equal virtual page.

use crate::model::word::Word;
use hashbrown::HashTable;
use std::sync::Mutex;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SHARDS: usize = 64;
/// Words in one block of a shard; blocks are never moved, so nothing is ever twice in memory.
const BLOCK: usize = 16384;

/// Names a table of a store.
pub type TableId = u32;

#[derive(Clone, Copy)]
struct Meta {
    index: u64,
    block: u32,
    start: u16,
    words: u16,
}

#[derive(Default)]
struct Shard {
    found: HashTable<u32>,
    metas: Vec<Meta>,
    blocks: Vec<Vec<Word>>,
}

impl Shard {
    fn words(&self, meta: Meta) -> &[Word] {
        let start = usize::from(meta.start);
        &self.blocks[meta.block as usize][start..start + usize::from(meta.words)]
    }

    fn insert(&mut self, hash: u64, index: u64, words: &[Word]) -> u32 {
        let metas = &self.metas;
        let blocks = &self.blocks;
        let equal = |&local: &u32| {
            let meta: Meta = metas[local as usize];
            let start = usize::from(meta.start);
            meta.index == index
                && &blocks[meta.block as usize][start..start + usize::from(meta.words)] == words
        };
        if let Some(&local) = self.found.find(hash, equal) {
            return local;
        }
        if self
            .blocks
            .last()
            .is_none_or(|block| block.len() + words.len() > block.capacity())
        {
            // The first blocks are small: most shards of a small machine hold little.
            let size = BLOCK.min(512 << self.blocks.len().min(5)).max(words.len());
            self.blocks.push(Vec::with_capacity(size));
        }
        let block = self.blocks.len() - 1;
        let start = self.blocks[block].len();
        self.blocks[block].extend_from_slice(words);
        let local = self.metas.len() as u32;
        self.metas.push(Meta {
            index,
            block: block as u32,
            start: start as u16,
            words: words.len() as u16,
        });
        let metas = &self.metas;
        let blocks = &self.blocks;
        self.found.insert_unique(hash, local, |&other| {
            let meta = metas[other as usize];
            let start = usize::from(meta.start);
            hash_of(
                meta.index,
                &blocks[meta.block as usize][start..start + usize::from(meta.words)],
            )
        });
        local
    }
}

/// A hash of words at a place.
pub(crate) fn hash_of(index: u64, words: &[Word]) -> u64 {
    // SAFETY: a Word is a transparent u64, and any byte of it may be read.
    let bytes =
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
    xxh3_64_with_seed(bytes, index)
}

/// A hash of numbers.
pub(crate) fn hash(numbers: &[u64]) -> u64 {
    // SAFETY: any byte of a u64 may be read.
    xxh3_64(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) })
}

/// A store that many threads fill.
pub struct Store {
    shards: Vec<Mutex<Shard>>,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Store {
    /// Puts in table `index` (its address over what it covers) with `words`, sorted by slot, of
    /// which there is at least one, and names it; an equal table has the same name.
    pub fn insert(&self, index: u64, words: &[Word]) -> TableId {
        let hash = hash_of(index, words);
        let shard = (hash >> 32) as usize % SHARDS;
        let local = self.shards[shard]
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .insert(hash, index, words);
        local * SHARDS as u32 + shard as u32
    }

    /// Ends filling.
    pub fn finish(self) -> Tables {
        let shards: Vec<Shard> = self
            .shards
            .into_iter()
            .map(|shard| {
                let mut shard = shard
                    .into_inner()
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                shard.found = HashTable::new();
                shard
            })
            .collect();
        Tables { shards }
    }
}

/// Every different table of a snapshot.
pub struct Tables {
    shards: Vec<Shard>,
}

impl Tables {
    fn meta(&self, id: TableId) -> (&Shard, Meta) {
        let shard = &self.shards[id as usize % SHARDS];
        (shard, shard.metas[id as usize / SHARDS])
    }

    /// The table's words, sorted by slot.
    pub fn words(&self, id: TableId) -> &[Word] {
        let (shard, meta) = self.meta(id);
        shard.words(meta)
    }

    /// Where the table stands: its address over what it covers.
    pub fn index(&self, id: TableId) -> u64 {
        self.meta(id).1.index
    }

    /// All names, in no order.
    pub fn ids(&self) -> Vec<TableId> {
        let mut ids = Vec::with_capacity(self.len());
        for (number, shard) in self.shards.iter().enumerate() {
            ids.extend((0..shard.metas.len()).map(|local| (local * SHARDS + number) as u32));
        }
        ids
    }

    /// One more than the largest name: the length of a list with one place a table.
    pub fn bound(&self) -> usize {
        let longest = self.shards.iter().map(|shard| shard.metas.len()).max();
        longest.unwrap_or(0) * SHARDS
    }

    /// How many different tables there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.metas.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::word::raw;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The number of cases, unless `PROPTEST_CASES` gives another.
    fn cases(usual: u32) -> ProptestConfig {
        match std::env::var_os("PROPTEST_CASES") {
            Some(_) => ProptestConfig::default(),
            None => ProptestConfig::with_cases(usual),
        }
    }

    fn table(frames: &[u64]) -> Vec<Word> {
        frames
            .iter()
            .enumerate()
            .map(|(slot, frame)| Word::from_raw(slot, raw::PRESENT | frame, 1))
            .collect()
    }

    proptest! {
        #![proptest_config(cases(40))]
        #[test]
        fn equal_tables_have_one_name_and_keep_their_words(
            tables in prop::collection::vec((0u64..3, prop::collection::vec(0u64..3, 1..600)), 1..60)
        ) {
            let store = Store::default();
            let names: Vec<_> = tables.iter().map(|(index, frames)| store.insert(*index, &table(frames))).collect();
            let finished = store.finish();
            let mut naive = HashMap::new();
            for (content, name) in tables.iter().zip(&names) {
                prop_assert_eq!(naive.entry(content).or_insert(*name), name);
                let words = table(&content.1);
                prop_assert_eq!(finished.words(*name), &words[..]);
                prop_assert_eq!(finished.index(*name), content.0);
                prop_assert!((*name as usize) < finished.bound());
            }
            prop_assert_eq!(finished.len(), naive.len());
            prop_assert_eq!(finished.ids().len(), naive.len());
        }
    }
}
