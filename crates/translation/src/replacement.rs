// SPDX-License-Identifier: GPL-2.0-or-later
//! Replacement: which way of a set goes when a new entry needs room.

use crate::prefetch::prefetch;
use serde::Deserialize;

/// The replacement policies a description may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Least recently used, exactly.
    #[default]
    Lru,
    /// First in, first out (round robin).
    Fifo,
    /// A binary tree of bits, as hardware approximates LRU. The ways must be a power of two.
    Plru,
    /// Any way: a fixed pseudo-random sequence, the same in every run.
    Random,
}

/// The state of a policy over all sets of a structure. A slot is `set * ways + way`.
#[derive(Clone, Debug)]
pub struct Replacement {
    policy: Policy,
    ways: usize,
    /// LRU: time of the last use; FIFO: of the fill. Unused by the others.
    stamps: Vec<u64>,
    /// PLRU: bit `node` of a set's word tells that the older half is the right one.
    trees: Vec<u64>,
    /// LRU and FIFO: the last time given; random: the generator's state.
    state: u64,
}

impl Replacement {
    /// For `sets` sets of `ways` ways (at most 64 with PLRU, and a power of two).
    pub fn new(policy: Policy, sets: usize, ways: usize) -> Self {
        let stamped = matches!(policy, Policy::Lru | Policy::Fifo);
        Self {
            policy,
            ways,
            stamps: vec![0; if stamped { sets * ways } else { 0 }],
            trees: vec![0; if policy == Policy::Plru { sets } else { 0 }],
            state: if policy == Policy::Random {
                0x9e37_79b9_7f4a_7c15
            } else {
                0
            },
        }
    }

    /// The state of a set will be needed.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        prefetch(&self.stamps, set * self.ways, self.ways);
    }

    /// The slot was used.
    #[inline(always)]
    pub fn used(&mut self, slot: usize) {
        if self.policy == Policy::Lru {
            self.state += 1;
            self.stamps[slot] = self.state;
        } else if self.policy == Policy::Plru {
            self.point_away(slot);
        }
    }

    /// The slot was filled with a new entry.
    pub fn filled(&mut self, slot: usize) {
        if self.policy == Policy::Fifo {
            self.state += 1;
            self.stamps[slot] = self.state;
        } else {
            self.used(slot);
        }
    }

    /// The slot to be replaced in a set whose ways are all valid.
    pub fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways;
        match self.policy {
            Policy::Lru | Policy::Fifo => {
                let stamps = &self.stamps[first..first + self.ways];
                let (mut oldest, mut way_of_oldest) = (u64::MAX, 0);
                for (way, &stamp) in stamps.iter().enumerate() {
                    // Without a branch: the processor could not predict it.
                    let older = stamp < oldest;
                    oldest = if older { stamp } else { oldest };
                    way_of_oldest = if older { way } else { way_of_oldest };
                }
                first + way_of_oldest
            }
            Policy::Plru => {
                let tree = self.trees[set];
                let mut node = 1;
                while node < self.ways {
                    node = node * 2 + (tree >> node & 1) as usize;
                }
                first + node - self.ways
            }
            Policy::Random => {
                // xorshift64*: the upper bits are the good ones.
                self.state ^= self.state >> 12;
                self.state ^= self.state << 25;
                self.state ^= self.state >> 27;
                let draw = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
                first + ((draw * self.ways as u64) >> 32) as usize
            }
        }
    }

    /// Turns the bits on the way to the slot so that each points to the other half.
    fn point_away(&mut self, slot: usize) {
        let set = slot / self.ways;
        let mut node = slot % self.ways + self.ways;
        let mut tree = self.trees[set];
        while node > 1 {
            let right = node as u64 & 1;
            node /= 2;
            tree = tree & !(1 << node) | (1 - right) << node;
        }
        self.trees[set] = tree;
    }
}
