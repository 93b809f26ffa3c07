// SPDX-License-Identifier: GPL-2.0-or-later
//! Decodes instructions of 32 bits by tables.

use super::op::{Exact, Op, Operand, Pages, Reach, Scope, SystemRegister, Tags};
use translation::tlbi::Tables;

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
    Invalidate(Tlbi),
    /// A flush of a form that no row before it knows.
    UnknownFlush,
    Return,
}

/// A TLBI, as the manual has it.
#[derive(Clone, Copy)]
pub struct Tlbi {
    pub tags: Tagged,
    pub pages: Paged,
    /// It keeps entries that point to tables.
    pub last_level: bool,
    pub reach: Reach,
}

/// Whose entries a TLBI drops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tagged {
    /// Those of the tag that the register names.
    Named,
    Every,
}

/// Which pages a TLBI drops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Paged {
    All,
    /// The one that the register names.
    One,
    /// Those that the register names.
    Range,
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
    /// The bits of an instruction that say when it is executed.
    pub condition: u32,
    /// Shift and mask of [`Operand::Page`].
    pub page: (u8, u64),
    /// Where a tag is in the register of a TLBI: at which bit, and how many bits.
    pub tag: (u8, u8),
    /// The register of a TLBI by address has a hint at the level.
    pub hints: bool,
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
        Some(match found.does {
            Does::Write(to) => Op::Write { to, from: register },
            Does::Invalidate(tlbi) => self.invalidation(tlbi, register),
            Does::UnknownFlush => {
                Op::UnknownFlush(word & !(self.registers << found.register) & !self.condition)
            }
            Does::Return => Op::Return,
        })
    }

    fn invalidation(&self, tlbi: Tlbi, register: u8) -> Op {
        let (shift, mask) = self.page;
        let page = Operand::Page {
            register,
            shift,
            mask,
        };
        let (shift, bits) = self.tag;
        Op::Invalidate {
            scope: Scope::Exact,
            reach: tlbi.reach,
            exact: Exact {
                tags: match tlbi.tags {
                    Tagged::Every => Tags::Every,
                    Tagged::Named => Tags::Named {
                        register,
                        shift,
                        bits,
                    },
                },
                pages: match tlbi.pages {
                    Paged::All => Pages::All,
                    Paged::One if self.hints => Pages::Hinted { page, register },
                    Paged::One => Pages::At(page),
                    Paged::Range => Pages::Range { register },
                },
                tables: match (tlbi.last_level, tlbi.pages) {
                    (true, _) => Tables::Kept,
                    (false, Paged::All) => Tables::All,
                    (false, _) => Tables::Above,
                },
                reach: tlbi.reach,
            },
        }
    }
}

impl Tlbi {
    /// By address.
    pub const fn page(tags: Tagged, reach: Reach) -> Does {
        Does::Invalidate(Tlbi {
            tags,
            pages: Paged::One,
            last_level: false,
            reach,
        })
    }

    /// By address, and only the entry of the page.
    pub const fn leaf(tags: Tagged, reach: Reach) -> Does {
        Does::Invalidate(Tlbi {
            tags,
            pages: Paged::One,
            last_level: true,
            reach,
        })
    }

    /// Of a range of addresses.
    pub const fn range(tags: Tagged, last_level: bool, reach: Reach) -> Does {
        Does::Invalidate(Tlbi {
            tags,
            pages: Paged::Range,
            last_level,
            reach,
        })
    }

    /// Of a tag, or of everything.
    pub const fn all(tags: Tagged, reach: Reach) -> Does {
        Does::Invalidate(Tlbi {
            tags,
            pages: Paged::All,
            last_level: false,
            reach,
        })
    }
}
