// SPDX-License-Identifier: GPL-2.0-or-later
//! A quick hash for keys that nobody chooses to do harm: frames, roots, ranges of addresses.
//!
//! No map that uses it is ever iterated over, so its order means nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with that hash.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Multiplies by an odd constant and folds the upper half down.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
