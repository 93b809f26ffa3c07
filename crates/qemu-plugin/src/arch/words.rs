// SPDX-License-Identifier: GPL-2.0-or-later
//! Decoding of instructions of fixed length.

use super::op::{Op, Operand, Reach, Scope, SystemRegister};

/// An instruction of fixed length: the bits that tell it, and what it does with its register.
pub struct Word {
    mask: u32,
    value: u32,
    /// The lowest bit of the register's number.
    register: u32,
    does: Does,
}

pub enum Does {
    Write(&'static SystemRegister),
    /// Of the page that the register names, in every address space.
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

/// An architecture whose instructions are words.
pub struct Words {
    /// The instructions that matter.
    pub known: &'static [Word],
    /// The bits of a register's number.
    pub registers: u32,
    /// How a register names a page to be invalidated: shift left, then mask.
    pub page: (u8, u64),
    /// The mark that a word is.
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

/// ARM's invalidations name what they drop, mostly on all cores, whatever runs. Here all of them
/// are broadcasts, and that of one address space drops every space: more is dropped than the
/// processor must, nothing stays that it may not keep.
fn all_cores(scope: Scope) -> Op {
    Op::Invalidate {
        scope,
        reach: Reach::Machine,
    }
}
