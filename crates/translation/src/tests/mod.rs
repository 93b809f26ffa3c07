// SPDX-License-Identifier: GPL-2.0-or-later
//! Each structure beside one that is written to be obviously right, event by event.

mod assoc;
mod cache;
mod dram;
mod format;
mod replacement;
mod sets;
mod time;
mod tlb;
mod walkers;

use crate::replacement::Policy;
use sets::Turn;

/// Every policy beside its name in the references.
const POLICIES: [(Policy, Turn); 4] = [
    (Policy::Lru, Turn::Lru),
    (Policy::Fifo, Turn::Fifo),
    (Policy::Plru, Turn::Plru),
    (Policy::Random, Turn::Random),
];

fn turn(policy: Policy) -> Turn {
    let known = POLICIES.iter().find(|(known, _)| *known == policy);
    known.unwrap().1
}

/// A sequence of numbers, the same in every run: xorshift64.
pub struct Dice(u64);

impl Dice {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
