// SPDX-License-Identifier: GPL-2.0-or-later
//! Which instructions change translations, and marks: found once, when QEMU translates a block.
//!
//! A register that only a few instructions write need not be read at every access: the plugin
//! looks for those instructions and reads their operand when they are executed.

/// A system register that decides about translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysReg {
    /// Where the page tables begin (CR3, TTBR0).
    Root,
    /// Where the kernel's begin, where it has its own (TTBR1).
    KernelRoot,
    /// The address space's number, apart from the root (CONTEXTIDR).
    Context,
    /// Domain access rights (DACR).
    Domains,
    /// x86's CR0: paging on or off.
    Cr0,
    /// x86's CR4: global pages, five levels.
    Cr4,
    /// ARM's SCTLR: paging on or off.
    Control,
    /// How ARM's tables are divided and how deep they are (TTBCR, TCR).
    TableControl,
}

/// Which entries an instruction throws away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One page, in the current address space and among the global ones.
    Page,
    /// All of an address space.
    Space,
    /// All.
    All,
}

/// Where an instruction finds a value or an address, in numbers of general registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// None.
    None,
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
    pub fn address(self, next: u64, register: impl Fn(u8) -> u64) -> Option<u64> {
        match self {
            Operand::None => None,
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
                Some(sum.wrapping_add_signed(i64::from(displacement)))
            }
            Operand::Relative(displacement) => {
                Some(next.wrapping_add_signed(i64::from(displacement)))
            }
            Operand::Page {
                register: number,
                shift,
                mask,
            } => {
                let address = register(number) << shift & mask;
                // 56 bits of an address are a kernel's if the topmost is set.
                let unnamed = mask.leading_zeros().min(8);
                Some(match mask >> 32 {
                    0 => address,
                    _ => ((address << unnamed) as i64 >> unnamed) as u64,
                })
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
        to: SysReg,
        /// The general register's number.
        from: u8,
    },
    /// It invalidates entries.
    Invalidate {
        /// Which.
        scope: Scope,
        /// Of which page.
        address: Operand,
    },
    /// It returns from an exception.
    Return,
    /// A mark of `mark.h`.
    Mark(u16),
}
