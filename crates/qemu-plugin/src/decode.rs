// SPDX-License-Identifier: GPL-2.0-or-later
//! Which instructions change translations, and marks: found once, when QEMU translates a block.
//!
//! A register that only a few instructions write need not be read at every access: the plugin
//! looks for those instructions and reads their operand when they are executed.

use crate::mark;

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

/// x86-64: what `bytes`, one instruction, means.
pub fn x86(bytes: &[u8]) -> Option<Op> {
    let mut rest = bytes;
    let mut rex = 0u8;
    let mut segment = false;
    let mut prefixes = 0;
    loop {
        match rest.first()? {
            0x66 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x67 => {}
            0x64 | 0x65 => segment = true,
            _ => break,
        }
        prefixes += 1;
        rest = &rest[1..];
    }
    if rest.first()? & 0xf0 == 0x40 {
        rex = rest[0];
        rest = &rest[1..];
    }
    match rest {
        [0xcf] => Some(Op::Return),
        [0x0f, 0x1f, 0x80, code @ ..] if prefixes == 0 && rex == 0 => {
            let code = u32::from_le_bytes(code.try_into().ok()?);
            mark::from_x86(code).map(Op::Mark)
        }
        [0x0f, 0x22, modrm] => {
            let to = match (modrm >> 3 & 7) | (rex & 4) << 1 {
                0 => SysReg::Cr0,
                3 => SysReg::Root,
                4 => SysReg::Cr4,
                _ => return None,
            };
            let from = (modrm & 7) | (rex & 1) << 3;
            Some(Op::Write { to, from })
        }
        [0x0f, 0x01, modrm, tail @ ..] if modrm >> 3 & 7 == 7 && *modrm < 0xc0 => {
            // A segment's base is not known here; more than is asked for is still right.
            let (scope, address) = match memory(*modrm, rex, tail) {
                Some(address) if !segment => (Scope::Page, address),
                _ => (Scope::All, Operand::None),
            };
            Some(Op::Invalidate { scope, address })
        }
        // INVPCID: its descriptor lies in memory, and QEMU's TCG does not offer it to guests.
        [0x0f, 0x38, 0x82, ..] if prefixes > 0 => Some(Op::Invalidate {
            scope: Scope::All,
            address: Operand::None,
        }),
        _ => None,
    }
}

/// The memory operand of a ModRM byte and what follows it.
fn memory(modrm: u8, rex: u8, tail: &[u8]) -> Option<Operand> {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let mut tail = tail;
    let mut index = None;
    let mut base = Some(rm | (rex & 1) << 3);
    let mut long = mode == 2;
    if rm == 4 {
        let (&sib, after) = tail.split_first()?;
        tail = after;
        let number = (sib >> 3 & 7) | (rex & 2) << 2;
        index = (number != 4).then_some((number, 1 << (sib >> 6)));
        base = Some((sib & 7) | (rex & 1) << 3);
        if sib & 7 == 5 && mode == 0 {
            base = None;
            long = true;
        }
    } else if rm == 5 && mode == 0 {
        return Some(Operand::Relative(i32::from_le_bytes(tail.try_into().ok()?)));
    }
    let displacement = match (long, mode) {
        (true, _) => i32::from_le_bytes(tail.try_into().ok()?),
        (false, 1) => i32::from(*tail.first()? as i8),
        _ => 0,
    };
    Some(Operand::Memory {
        base,
        index,
        displacement,
    })
}

/// An instruction of fixed length: the bits that tell it, and what it does with its register.
struct Word {
    mask: u32,
    value: u32,
    /// The lowest bit of the register's number.
    register: u32,
    does: Does,
}

enum Does {
    Write(SysReg),
    Invalidate(Scope),
    Return,
}

const fn word(mask: u32, value: u32, register: u32, does: Does) -> Word {
    Word {
        mask,
        value,
        register,
        does,
    }
}

/// AArch64 (Arm ARM, C5.1 and C5.5): MSR to a register, TLBI, ERET.
const A64: &[Word] = &[
    word(0xffff_ffe0, 0xd518_1000, 0, Does::Write(SysReg::Control)),
    word(
        0xffff_ffe0,
        0xd518_2040,
        0,
        Does::Write(SysReg::TableControl),
    ),
    word(0xffff_ffe0, 0xd518_2000, 0, Does::Write(SysReg::Root)),
    word(0xffff_ffe0, 0xd518_2020, 0, Does::Write(SysReg::KernelRoot)),
    word(0xffff_ffe0, 0xd518_d020, 0, Does::Write(SysReg::Context)),
    // TLBI of ranges (RVAE1 and its kin, ARMv8.4), of which the pages are not worked out.
    word(0xffff_ff20, 0xd508_8220, 0, Does::Invalidate(Scope::All)),
    word(0xffff_ff20, 0xd508_8520, 0, Does::Invalidate(Scope::All)),
    word(0xffff_ff20, 0xd508_8620, 0, Does::Invalidate(Scope::All)),
    // TLBI VAE1, VAAE1, VALE1, VAALE1 and their broadcast forms, then ASIDE1, then the rest.
    word(0xffff_f960, 0xd508_8120, 0, Does::Invalidate(Scope::Page)),
    word(0xffff_f960, 0xd508_8160, 0, Does::Invalidate(Scope::Page)),
    word(0xffff_f9e0, 0xd508_8140, 0, Does::Invalidate(Scope::Space)),
    word(0xffff_f9e0, 0xd508_8100, 0, Does::Invalidate(Scope::All)),
    word(0xffff_ffff, 0xd69f_03e0, 0, Does::Return),
];

/// ARMv7 (Arm ARM, B3.18): MCR p15.
const A32: &[Word] = &[
    word(0x0fff_0fff, 0x0e01_0f10, 12, Does::Write(SysReg::Control)),
    word(
        0x0fff_0fff,
        0x0e02_0f50,
        12,
        Does::Write(SysReg::TableControl),
    ),
    word(0x0fff_0fff, 0x0e02_0f10, 12, Does::Write(SysReg::Root)),
    word(
        0x0fff_0fff,
        0x0e02_0f30,
        12,
        Does::Write(SysReg::KernelRoot),
    ),
    word(0x0fff_0fff, 0x0e0d_0f30, 12, Does::Write(SysReg::Context)),
    word(0x0fff_0fff, 0x0e03_0f10, 12, Does::Write(SysReg::Domains)),
    // TLBIMVA(IS) and TLBIMVAA(IS), TLBIASID(IS), TLBIALL(IS).
    word(0x0fff_0ffb, 0x0e08_0f33, 12, Does::Invalidate(Scope::Page)),
    word(0x0fff_0ffb, 0x0e08_0f73, 12, Does::Invalidate(Scope::Page)),
    word(0x0fff_0ffb, 0x0e08_0f53, 12, Does::Invalidate(Scope::Space)),
    word(0x0fff_0ffb, 0x0e08_0f13, 12, Does::Invalidate(Scope::All)),
];

/// An architecture whose instructions are words.
struct Words {
    /// The instructions that matter.
    known: &'static [Word],
    /// The bits of a register's number.
    registers: u32,
    /// How a register names a page to be invalidated: shift left, then mask.
    page: (u8, u64),
    /// The mark that a word is.
    mark: fn(u32) -> Option<u16>,
}

/// TLBI by address takes VA[55:12] in the low 44 bits.
const AARCH64: Words = Words {
    known: A64,
    registers: 0x1f,
    page: (12, 0x00ff_ffff_ffff_f000),
    mark: mark::from_a64,
};

const ARMV7: Words = Words {
    known: A32,
    registers: 0xf,
    page: (0, 0xffff_f000),
    mark: mark::from_a32,
};

/// AArch64: what `bytes`, one instruction, means.
pub fn a64(bytes: &[u8]) -> Option<Op> {
    AARCH64.decode(bytes)
}

/// ARMv7: what `bytes`, one instruction, means.
pub fn a32(bytes: &[u8]) -> Option<Op> {
    ARMV7.decode(bytes)
}

impl Words {
    fn decode(&self, bytes: &[u8]) -> Option<Op> {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        let Some(found) = self.known.iter().find(|w| word & w.mask == w.value) else {
            return (self.mark)(word).map(Op::Mark);
        };
        let register = (word >> found.register & self.registers) as u8;
        let (shift, mask) = self.page;
        Some(match found.does {
            Does::Write(to) => Op::Write { to, from: register },
            Does::Invalidate(scope) => Op::Invalidate {
                scope,
                address: match scope {
                    Scope::Page => Operand::Page {
                        register,
                        shift,
                        mask,
                    },
                    Scope::Space | Scope::All => Operand::None,
                },
            },
            Does::Return => Op::Return,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_registers_are_found_with_any_prefix() {
        let write = |to, from| Some(Op::Write { to, from });
        // mov %rax,%cr3; mov %r9,%cr3; mov %ecx,%cr0; mov %r8,%cr4 with a useless REX.W.
        assert_eq!(x86(&[0x0f, 0x22, 0xd8]), write(SysReg::Root, 0));
        assert_eq!(x86(&[0x41, 0x0f, 0x22, 0xd9]), write(SysReg::Root, 9));
        assert_eq!(x86(&[0x0f, 0x22, 0xc1]), write(SysReg::Cr0, 1));
        assert_eq!(x86(&[0x49, 0x0f, 0x22, 0xe0]), write(SysReg::Cr4, 8));
        // CR2 and CR8 do not concern translation, nor does reading CR3.
        assert_eq!(x86(&[0x0f, 0x22, 0xd0]), None);
        assert_eq!(x86(&[0x44, 0x0f, 0x22, 0xc0]), None);
        assert_eq!(x86(&[0x0f, 0x20, 0xd8]), None);
    }

    #[test]
    fn the_operand_of_invlpg_is_worked_out() {
        let at = |bytes: &[u8]| match x86(bytes) {
            Some(Op::Invalidate { scope, address }) => {
                let register = |number: u8| 0x1000 * (u64::from(number) + 1);
                (scope, address.address(0x70_0000, register))
            }
            other => panic!("{bytes:x?} is {other:?}"),
        };
        // (%rax); (%r15); 0x10(%rdi); -8(%rbx,%rcx,4); 0x12345678; 0x100(%rip); (%rsp)
        assert_eq!(at(&[0x0f, 0x01, 0x38]), (Scope::Page, Some(0x1000)));
        assert_eq!(at(&[0x41, 0x0f, 0x01, 0x3f]), (Scope::Page, Some(0x10000)));
        assert_eq!(at(&[0x0f, 0x01, 0x7f, 0x10]), (Scope::Page, Some(0x8010)));
        assert_eq!(
            at(&[0x0f, 0x01, 0x7c, 0x8b, 0xf8]),
            (Scope::Page, Some(0x4000 + 4 * 0x2000 - 8))
        );
        assert_eq!(
            at(&[0x0f, 0x01, 0x3c, 0x25, 0x78, 0x56, 0x34, 0x12]),
            (Scope::Page, Some(0x1234_5678))
        );
        assert_eq!(
            at(&[0x0f, 0x01, 0x3d, 0x00, 0x01, 0x00, 0x00]),
            (Scope::Page, Some(0x70_0100))
        );
        assert_eq!(at(&[0x0f, 0x01, 0x3c, 0x24]), (Scope::Page, Some(0x5000)));
        // Relative to GS: more is thrown away than asked for.
        assert_eq!(at(&[0x65, 0x0f, 0x01, 0x38]), (Scope::All, None));
        // swapgs has the same opcode and no memory operand.
        assert_eq!(x86(&[0x0f, 0x01, 0xf8]), None);
    }

    #[test]
    fn returns_and_ordinary_instructions() {
        assert_eq!(x86(&[0x48, 0xcf]), Some(Op::Return));
        for bytes in [
            &[0x90][..],
            &[0xc3],
            &[0x0f, 0x05],
            &[0x66],
            &[],
            &[0x48],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x44, 0, 0],
        ] {
            assert_eq!(x86(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_cut_instruction_is_none() {
        for bytes in [
            &[0x0f, 0x01, 0x3c, 0x25, 0x78][..],
            &[0x0f, 0x01, 0x3d, 0],
            &[0x0f, 0x01, 0x7c],
        ] {
            // It cannot be read, so all is thrown away rather than the wrong page.
            let all = Op::Invalidate {
                scope: Scope::All,
                address: Operand::None,
            };
            assert_eq!(x86(bytes), Some(all), "{bytes:x?}");
        }
    }

    #[test]
    fn arm_instructions_are_told_by_their_bits() {
        let a64 = |word: u32| a64(&word.to_le_bytes());
        let a32 = |word: u32| a32(&word.to_le_bytes());
        // msr ttbr0_el1, x7; msr contextidr_el1, x1; eret; nop; mrs x7, ttbr0_el1
        let write = |to, from| Some(Op::Write { to, from });
        assert_eq!(a64(0xd518_2007), write(SysReg::Root, 7));
        assert_eq!(a64(0xd518_d021), write(SysReg::Context, 1));
        // msr sctlr_el1, x0; msr tcr_el1, x10
        assert_eq!(a64(0xd518_1000), write(SysReg::Control, 0));
        assert_eq!(a64(0xd518_204a), write(SysReg::TableControl, 10));
        assert_eq!(a64(0xd69f_03e0), Some(Op::Return));
        assert_eq!(a64(0xd503_201f), None);
        assert_eq!(a64(0xd538_2007), None);
        // tlbi vae1is, x2; tlbi vale1is, x2; tlbi aside1is, x0; tlbi vmalle1is; tlbi vmalle1
        // tlbi vae1os, x2; tlbi vale1os, x2
        for word in [
            0xd508_8322,
            0xd508_83a2,
            0xd508_8722,
            0xd508_8122,
            0xd508_81a2,
        ] {
            let Some(Op::Invalidate { scope, address }) = a64(word) else {
                panic!("{word:#x} is no invalidation");
            };
            assert_eq!(scope, Scope::Page, "{word:#x}");
            // The ASID in the upper bits is not address.
            assert_eq!(
                address.address(0, |_| 0x0042_0000_0001_2345),
                Some(0x1234_5000)
            );
        }
        // A kernel's address comes without its topmost byte.
        let Some(Op::Invalidate { address, .. }) = a64(0xd508_8322) else {
            panic!("tlbi vae1is is no invalidation");
        };
        assert_eq!(
            address.address(0, |_| 0x0000_0fff_8000_1234),
            Some(0xffff_f800_0123_4000)
        );
        for (word, scope) in [
            (0xd508_8340, Scope::Space),
            (0xd508_8740, Scope::Space),
            (0xd508_8142, Scope::Space),
            (0xd508_831f, Scope::All),
            (0xd508_871f, Scope::All),
            (0xd508_811f, Scope::All),
            // tlbi rvae1, x2; rvae1is; rvale1is; rvaale1is; rvaae1is; rvae1os; rvaale1os
            (0xd508_8622, Scope::All),
            (0xd508_8222, Scope::All),
            (0xd508_82a2, Scope::All),
            (0xd508_82e2, Scope::All),
            (0xd508_8262, Scope::All),
            (0xd508_8522, Scope::All),
            (0xd508_85e2, Scope::All),
        ] {
            let address = Operand::None;
            assert_eq!(
                a64(word),
                Some(Op::Invalidate { scope, address }),
                "{word:#x}"
            );
        }
        // mcr p15,0,r2,c2,c0,0; mcr p15,0,r1,c13,c0,1; mcr p15,0,r3,c3,c0,0; mrc of the first
        assert_eq!(a32(0xee02_2f10), write(SysReg::Root, 2));
        assert_eq!(a32(0xee0d_1f30), write(SysReg::Context, 1));
        assert_eq!(a32(0xee03_3f10), write(SysReg::Domains, 3));
        // mcr p15,0,r0,c1,c0,0; mcr p15,0,r4,c2,c0,2
        assert_eq!(a32(0xee01_0f10), write(SysReg::Control, 0));
        assert_eq!(a32(0xee02_4f50), write(SysReg::TableControl, 4));
        assert_eq!(a32(0xee12_2f10), None);
        // TLBIMVA, TLBIMVAIS, TLBIMVAA; TLBIASID; TLBIALL, TLBIALLIS
        for word in [0xee08_4f37, 0xee08_4f33, 0xee08_4f77] {
            let Some(Op::Invalidate { scope, address }) = a32(word) else {
                panic!("{word:#x} is no invalidation");
            };
            assert_eq!(scope, Scope::Page);
            assert_eq!(address.address(0, |_| 0x1234_5042), Some(0x1234_5000));
        }
        for (word, scope) in [
            (0xee08_0f57, Scope::Space),
            (0xee08_0f17, Scope::All),
            (0xee08_0f13, Scope::All),
        ] {
            let address = Operand::None;
            assert_eq!(a32(word), Some(Op::Invalidate { scope, address }));
        }
    }
}
