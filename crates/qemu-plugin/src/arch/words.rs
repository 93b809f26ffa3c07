// SPDX-License-Identifier: GPL-2.0-or-later
//! Decodes instructions of 32 bits by tables.

use super::op::{Op, Operand, Reach, Scope, SystemRegister};

/// A watched instruction: it is this one if `word & mask == value`.
pub struct Word {
    mask: u32,
    value: u32,
    /// Position of the lowest bit of the register's number.
    register: u32,
    does: Does,
}

pub enum Does {
    Write(&'static SystemRegister),
    /// Drops the page that the register names, in every address space.
    InvalidatePage,
    Invalidate(Scope),
    Return,
}

pub const fn word(mask: u32, value: u32, register: u32, does: Does) -> Word {
    Word {
        mask,
        value,
        register,
        does,
    }
}

/// How an architecture encodes its watched instructions.
pub struct Words {
    /// The first match counts.
    pub known: &'static [Word],
    /// The mask of a register's number.
    pub registers: u32,
    /// Shift and mask of [`Operand::Page`].
    pub page: (u8, u64),
    /// The code of a mark; None if the word is not one.
    pub mark: fn(u32) -> Option<u16>,
}

impl Words {
    pub fn decode(&self, bytes: &[u8]) -> Option<Op> {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        let Some(found) = self.known.iter().find(|w| word & w.mask == w.value) else {
            return (self.mark)(word).map(Op::Mark);
        };
        let register = (word >> found.register & self.registers) as u8;
        let (shift, mask) = self.page;
        Some(match found.does {
            Does::Write(to) => Op::Write { to, from: register },
            Does::InvalidatePage => all_cores(Scope::PageAllSpaces(Operand::Page {
                register,
                shift,
                mask,
            })),
            Does::Invalidate(scope) => all_cores(scope),
            Does::Return => Op::Return,
        })
    }
}

/// Counts every invalidation as a broadcast, and that of one address space as that of all: ARM's name
/// their address space, mostly on all cores, but the plugin does not read it. So the model drops
/// more than a processor must, and keeps nothing that a processor must drop.
fn all_cores(scope: Scope) -> Op {
    Op::Invalidate {
        scope,
        reach: Reach::Machine,
    }
}
