// SPDX-License-Identifier: GPL-2.0-or-later
//! The meaning of watched instructions: those that change translations, and marks.
//!
//! They are found once, when QEMU translates a block, and their operands are read when they are
//! executed. So no system register is read at an access.

use translation::tlbi::{Drop, Tables};
use translation::{Context, Invalidation};

/// The state that a core translates by.
#[derive(Debug, Default)]
pub struct Mmu {
    /// The part that the model uses.
    pub context: Context,
    /// The last value of a register that later writes depend on: x86's CR4, arm64's TCR.
    pub control: u64,
}

/// A system register that affects translations. Equal if the names are.
#[derive(Debug)]
pub struct SystemRegister {
    /// The architecture manual's name.
    pub name: &'static str,
    /// Applies a write of this value. Returns the TLB entries of the core that the write drops.
    pub write: fn(&mut Mmu, u64) -> Option<Invalidation>,
}

impl PartialEq for SystemRegister {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SystemRegister {}

/// Which TLB entries an instruction drops in the model. That has tags where QEMU's processor of x86-64
/// has none, so there it does not do what the manual says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of one page, in the current address space or global.
    Page(Operand),
    /// Those that the manual says.
    Exact,
    All,
}

/// What an instruction drops by the manual. The audit of flushes heeds it for every architecture, the
/// model where the [`Scope`] says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    pub tags: Tags,
    pub pages: Pages,
    pub tables: Tables,
    pub reach: Reach,
}

/// Whose entries an instruction drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tags {
    /// Those of the tag in use.
    Current,
    /// Those of the tag in a register: at which bit, and how many bits.
    Named { register: u8, shift: u8, bits: u8 },
    /// Those of every tag.
    Every,
}

/// Which pages an instruction drops. By address it drops global entries too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// All, and global ones only with those of every tag.
    All,
    /// The one at an address.
    At(Operand),
    /// The same, if it is of the level that ARM's form in a register hints at.
    Hinted { page: Operand, register: u8 },
    /// A range, which ARM's form in a register names: the first page, and how many.
    Range { register: u8 },
}

impl Exact {
    /// What it drops from the TLBs of a core whose tag is `current`. `next` and `register` are as
    /// for [`Operand::address`].
    pub fn drop(&self, current: u16, next: u64, register: impl Fn(u8) -> u64) -> Drop {
        let tag = match self.tags {
            Tags::Current => Some(current),
            Tags::Named {
                register: number,
                shift,
                bits,
            } => Some((register(number) >> shift & ((1 << bits) - 1)) as u16),
            Tags::Every => None,
        };
        let page = |operand: Operand| {
            let vaddr = operand.address(next, &register);
            Some((vaddr, vaddr))
        };
        let (range, sizes) = match self.pages {
            Pages::All => (None, None),
            Pages::At(operand) => (page(operand), None),
            Pages::Hinted {
                page: operand,
                register: number,
            } => (page(operand), hint(register(number))),
            Pages::Range { register: number } => {
                let value = register(number);
                (Some(range(value)), hint_of_range(value))
            }
        };
        Drop {
            tag,
            global: range.is_some() || tag.is_none(),
            range,
            sizes,
            tables: self.tables,
        }
    }
}

/// The addresses that ARM's TLBI of a range names, for pages of 4 KB (Arm ARM, TLBI RVAE1): BaseADDR
/// in bits 36:0, NUM in 43:39, SCALE in 45:44.
fn range(value: u64) -> (u64, u64) {
    let first = ((value << 27) as i64 >> 15) as u64;
    let pages = ((value >> 39 & 31) + 1) << (5 * (value >> 44 & 3) + 1);
    (first, first.wrapping_add((pages << 12) - 1))
}

/// Which pages of the 4 KB granule have their entry in a table of a level; a contiguous run of them
/// counts as they do.
fn of_level(level: u64) -> Option<(u32, u32)> {
    let shift = 12 + 9 * (3 - level as u32);
    Some((shift, shift + 8))
}

/// The pages of another granule, which these tables do not have: none is as large as this.
const NO_PAGES: Option<(u32, u32)> = Some((64, 64));

/// Which pages ARM's TLBI of an address is about, by its hint TTL in bits 47:44 (Arm ARM, TLBI VAE1): in
/// the upper two the granule, in the lower two the level of the page's entry. Without a granule it is
/// about all, and so it is with level 0, where no page of 4 KB granule is.
///
/// A processor without FEAT_TTL ignores the hint. Its kernel must write 0 there, as Linux does: so the
/// hint is heeded without a look at the processor.
fn hint(value: u64) -> Option<(u32, u32)> {
    match (value >> 46 & 3, value >> 44 & 3) {
        (0, _) | (1, 0) => None,
        (1, level) => of_level(level),
        _ => NO_PAGES,
    }
}

/// The same for a range, by TTL in bits 38:37 and the granule TG in bits 47:46. The reserved granule 0
/// counts as 4 KB.
fn hint_of_range(value: u64) -> Option<(u32, u32)> {
    match (value >> 46 & 3, value >> 37 & 3) {
        (2.., _) => NO_PAGES,
        (_, 0) => None,
        (_, level) => of_level(level),
    }
}

/// On which cores an instruction drops entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The one that executes it.
    Core,
    /// All.
    Machine,
}

/// Where an instruction finds an address. Registers are numbers of [`super::Arch::general`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// base + index * scale + displacement.
    Memory {
        base: Option<u8>,
        /// Register and scale.
        index: Option<(u8, u8)>,
        displacement: i32,
    },
    /// The displacement from the next instruction.
    Relative(i32),
    /// ARM's form: a register's value, shifted left, then masked.
    Page {
        register: u8,
        shift: u8,
        /// The bits that are address.
        mask: u64,
    },
}

impl Operand {
    /// The address. `next` is that of the next instruction, `register` reads a general register.
    pub fn address(self, next: u64, register: impl Fn(u8) -> u64) -> u64 {
        match self {
            Operand::Memory {
                base,
                index,
                displacement,
            } => {
                let base = base.map_or(0, &register);
                let index = index.map_or(0, |(number, scale)| {
                    register(number).wrapping_mul(u64::from(scale))
                });
                let sum = base.wrapping_add(index);
                sum.wrapping_add_signed(i64::from(displacement))
            }
            Operand::Relative(displacement) => next.wrapping_add_signed(i64::from(displacement)),
            Operand::Page {
                register: number,
                shift,
                mask,
            } => {
                let address = register(number) << shift & mask;
                // A 64-bit address is given without its top byte: extend the sign.
                let unnamed = mask.leading_zeros().min(8);
                match mask >> 32 {
                    0 => address,
                    _ => ((address << unnamed) as i64 >> unnamed) as u64,
                }
            }
        }
    }
}

/// The effect of a watched instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Writes a general register to a system register.
    Write {
        to: &'static SystemRegister,
        /// The general register's number.
        from: u8,
    },
    /// Drops TLB entries.
    Invalidate {
        scope: Scope,
        reach: Reach,
        exact: Exact,
    },
    /// Drops TLB entries, but which ones is not known: the instruction without the bits that name a
    /// register, or say when it is executed.
    UnknownFlush(u32),
    /// Returns from an exception.
    Return,
    /// Halts until an interrupt.
    Halt,
    /// A mark of `mark.h`, by its code.
    Mark(u16),
}
