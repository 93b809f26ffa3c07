// SPDX-License-Identifier: GPL-2.0-or-later
//! Which instructions change translations, and marks: found once, when QEMU translates a block.
//!
//! A register that only a few instructions write need not be read at every access: the plugin
//! looks for those instructions and reads their operand when they are executed.

use translation::{Context, Invalidation};

/// What a core translates by.
#[derive(Debug, Default)]
pub struct Mmu {
    /// What the model is told.
    pub context: Context,
    /// The last value of a register on which other writes depend: x86's CR4, arm64's TCR.
    pub control: u64,
}

/// A system register that decides about translations.
#[derive(Debug)]
pub struct SystemRegister {
    /// The manual's name.
    pub name: &'static str,
    /// What a write of this value changes, and which entries of the core it drops.
    pub write: fn(&mut Mmu, u64) -> Option<Invalidation>,
}

impl PartialEq for SystemRegister {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SystemRegister {}

/// Which entries an instruction drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One page, of the current address space and among the global ones.
    Page(Operand),
    /// One page, of every address space.
    PageAllSpaces(Operand),
    /// All but the global ones.
    AllButGlobal,
    /// All.
    All,
}

/// Whose entries an instruction drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of the core that executes it.
    Core,
    /// Those of every core.
    Machine,
}

/// Where an instruction finds a value or an address, in numbers of general registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// base + index * scale + displacement.
    Memory {
        /// The base.
        base: Option<u8>,
        /// The index and its scale.
        index: Option<(u8, u8)>,
        /// The displacement.
        displacement: i32,
    },
    /// Relative to the next instruction.
    Relative(i32),
    /// A page's number in a register, as ARM's invalidations have it: shift left, then mask.
    Page {
        /// The register.
        register: u8,
        /// Bits to shift left.
        shift: u8,
        /// What of it is address.
        mask: u64,
    },
}

impl Operand {
    /// The address that it means: `next` is the address of the next instruction, `register` reads
    /// a general register.
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
                // 56 bits of an address are a kernel's if the topmost is set.
                let unnamed = mask.leading_zeros().min(8);
                match mask >> 32 {
                    0 => address,
                    _ => ((address << unnamed) as i64 >> unnamed) as u64,
                }
            }
        }
    }
}

/// What an instruction means for translations or for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// It writes a general register to a system register.
    Write {
        /// Where to.
        to: &'static SystemRegister,
        /// The general register's number.
        from: u8,
    },
    /// It invalidates entries.
    Invalidate {
        /// Which.
        scope: Scope,
        /// Whose.
        reach: Reach,
    },
    /// It returns from an exception.
    Return,
    /// A mark of `mark.h`.
    Mark(u16),
}
