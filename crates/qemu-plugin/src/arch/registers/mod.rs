// SPDX-License-Identifier: GPL-2.0-or-later
//! Which registers instructions read and write, for the model's clock. Decoder libraries know the
//! instructions; what is here says what the model needs of them.
//!
//! What a decoder does not know is taken to read and write everything, so that it waits for all
//! before it and all behind it waits for it.

pub mod arm;
pub mod arm64;
pub mod x86;

use translation::Op;
use translation::code::Registers;

/// The bytes of an instruction, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    pub vaddr: u64,
    pub size: usize,
    bytes: [u8; 16],
}

impl Bytes {
    pub fn new(vaddr: u64, from: &[u8]) -> Self {
        let size = from.len().min(16);
        let mut bytes = [0; 16];
        bytes[..size].copy_from_slice(&from[..size]);
        Bytes { vaddr, size, bytes }
    }

    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// An instruction that is not known.
const UNKNOWN: Op = Op {
    address: Registers::MAX,
    reads: Registers::MAX,
    writes: Registers::MAX,
    loads: false,
    stores: false,
};

/// Decodes the instructions of one architecture's block.
pub type Decoder = fn(&[Bytes]) -> Vec<Op>;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sets of one instruction as bit numbers: address, reads, writes; and whether it loads and
    /// stores.
    pub type Sets = (Vec<u32>, Vec<u32>, Vec<u32>, bool, bool);

    pub fn sets(decoder: Decoder, bytes: &[u8]) -> Sets {
        let op = decoder(&[Bytes::new(0x1000, bytes)])[0];
        let list = |set: Registers| (0..64).filter(|bit| set >> bit & 1 == 1).collect();
        (
            list(op.address),
            list(op.reads),
            list(op.writes),
            op.loads,
            op.stores,
        )
    }

    /// An instruction of four bytes and its sets.
    pub type Row<'a> = (u32, &'a [u32], &'a [u32], &'a [u32], bool, bool);

    /// Decodes each instruction by itself and compares.
    pub fn check_words(decoder: Decoder, rows: &[Row<'_>]) {
        for &(word, address, reads, writes, loads, stores) in rows {
            let (address, reads) = (address.to_vec(), reads.to_vec());
            let wanted: Sets = (address, reads, writes.to_vec(), loads, stores);
            assert_eq!(sets(decoder, &word.to_le_bytes()), wanted, "{word:#x}");
        }
    }
}
