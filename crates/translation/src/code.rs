// SPDX-License-Identifier: GPL-2.0-or-later
//! Instructions as the core's clock sees them: which registers each reads and writes.
//!
//! The model knows no architecture. A source that decodes instructions numbers the registers of its
//! own as it likes, up to 64 (`crates/qemu-plugin/src/arch` has the numbers of x86-64 and ARM).

use serde::{Deserialize, Serialize};

/// A set of registers, one bit each. Flags count as a register.
pub type Registers = u64;

/// How many registers there can be.
pub const REGISTERS: usize = Registers::BITS as usize;

/// One instruction. The default, which reads and writes nothing, depends on nothing.
///
/// Addressing that moves its register by a constant (push and pop, string instructions, ARM's
/// write-back) does not write it for the model: processors know the new value before the
/// instruction is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Op {
    /// Registers that give the address of its loads and stores.
    pub address: Registers,
    /// Registers that it reads for anything else.
    pub reads: Registers,
    /// Registers that it writes. They have their values when everything that it reads has, a
    /// loaded value among that.
    pub writes: Registers,
    /// Whether it loads.
    pub loads: bool,
    /// Whether it stores.
    pub stores: bool,
}

impl Op {
    /// Whether it accesses memory.
    pub fn accesses(&self) -> bool {
        self.loads || self.stores
    }
}
