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

/// Ways whose order fits into a word.
const ORDERED_WAYS: usize = 16;
/// One in each nibble.
const NIBBLES: u64 = 0x1111_1111_1111_1111;

/// The state of a policy over all sets of a structure.
#[derive(Clone, Debug)]
pub struct Replacement {
    policy: Policy,
    ways: usize,
    /// LRU and FIFO with few ways: by set, the ways in nibbles, the last used (or filled) in the
    /// lowest.
    orders: Vec<u64>,
    /// LRU and FIFO with more ways: by set and way, the time of the last use (or the fill).
    stamps: Vec<u64>,
    /// PLRU: bit `node` of a set's word tells that the older half is the right one.
    trees: Vec<u64>,
    /// The last time given; random: the generator's state.
    state: u64,
}

/// The order of ways that were never used: the lowest goes first.
fn unused(ways: usize) -> u64 {
    let mut order = 0;
    for place in 0..ORDERED_WAYS {
        let way = if place < ways {
            ways - 1 - place
        } else {
            place
        };
        order |= (way as u64) << (place * 4);
    }
    order
}

/// The order after a use of a way.
#[inline(always)]
fn moved_to_front(order: u64, way: usize) -> u64 {
    let way = way as u64;
    if order & 15 == way {
        return order;
    }
    // The way's nibble alone becomes 0; the lowest that is found is exact.
    let other = order ^ (way * NIBBLES);
    let zeros = other.wrapping_sub(NIBBLES) & !other & (NIBBLES << 3);
    let place = zeros.trailing_zeros() & !3;
    let younger = order & ((1 << place) - 1);
    let older = order & (u64::MAX << place << 4);
    older | younger << 4 | way
}

impl Replacement {
    /// For `sets` sets of `ways` ways (at most 64 with PLRU, and a power of two).
    pub fn new(policy: Policy, sets: usize, ways: usize) -> Self {
        let aged = matches!(policy, Policy::Lru | Policy::Fifo);
        let ordered = aged && ways <= ORDERED_WAYS;
        Self {
            policy,
            ways,
            orders: vec![unused(ways); if ordered { sets } else { 0 }],
            stamps: vec![0; if aged && !ordered { sets * ways } else { 0 }],
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
        prefetch(&self.orders, set, 1);
        prefetch(&self.stamps, set * self.ways, self.ways);
    }

    /// A way was used.
    #[inline(always)]
    pub fn used(&mut self, set: usize, way: usize) {
        if self.policy == Policy::Lru {
            self.youngest(set, way);
        } else if self.policy == Policy::Plru {
            self.point_away(set, way);
        }
    }

    /// A way was filled with a new entry.
    #[inline]
    pub fn filled(&mut self, set: usize, way: usize) {
        if self.policy == Policy::Fifo {
            self.youngest(set, way);
        } else {
            self.used(set, way);
        }
    }

    #[inline(always)]
    fn youngest(&mut self, set: usize, way: usize) {
        if let Some(order) = self.orders.get_mut(set) {
            *order = moved_to_front(*order, way);
        } else {
            self.state += 1;
            self.stamps[set * self.ways + way] = self.state;
        }
    }

    /// The way to be replaced in a set whose ways are all valid.
    #[inline]
    pub fn victim(&mut self, set: usize) -> usize {
        match self.orders.get(set) {
            Some(order) => (order >> ((self.ways - 1) * 4) & 15) as usize,
            None => self.other_victim(set),
        }
    }

    fn other_victim(&mut self, set: usize) -> usize {
        match self.policy {
            Policy::Lru | Policy::Fifo => {
                let first = set * self.ways;
                let stamps = &self.stamps[first..first + self.ways];
                let (mut oldest, mut way_of_oldest) = (u64::MAX, 0);
                for (way, &stamp) in stamps.iter().enumerate() {
                    // Without a branch: the processor could not predict it.
                    let older = stamp < oldest;
                    oldest = if older { stamp } else { oldest };
                    way_of_oldest = if older { way } else { way_of_oldest };
                }
                way_of_oldest
            }
            Policy::Plru => {
                let tree = self.trees[set];
                let mut node = 1;
                while node < self.ways {
                    node = node * 2 + (tree >> node & 1) as usize;
                }
                node - self.ways
            }
            Policy::Random => {
                // xorshift64*: the upper bits are the good ones.
                self.state ^= self.state >> 12;
                self.state ^= self.state << 25;
                self.state ^= self.state >> 27;
                let draw = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
                ((draw * self.ways as u64) >> 32) as usize
            }
        }
    }

    /// Turns the bits on the path to a way so that each points to the other half.
    fn point_away(&mut self, set: usize, way: usize) {
        let mut node = way + self.ways;
        let mut tree = self.trees[set];
        while node > 1 {
            let right = node as u64 & 1;
            node /= 2;
            tree = tree & !(1 << node) | (1 - right) << node;
        }
        self.trees[set] = tree;
    }
}
