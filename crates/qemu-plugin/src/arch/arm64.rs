// SPDX-License-Identifier: GPL-2.0-or-later
//! AArch64.

use super::arm::VIRT;
use super::op::{Op, Scope, SysReg};
use super::words::{Does, Word, Words, word};
use super::{Asid, Target, Walk};
use crate::mark::CODES;
use translation::Context;

pub const AARCH64: Target = Target {
    name: "aarch64",
    general: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
        "x27", "x28", "x29", "x30",
    ],
    pc: "pc",
    stack: "sp",
    mark_argument: 0,
    system: &["cpsr"],
    // PSTATE's EL and SP: EL0t.
    user_mode: ("cpsr", 0xf, 0),
    kernel_area: None,
    page_tables: "armv8-4k",
    layout: VIRT,
    kernel: 1 << 63,
    // Bit 0 is CnP.
    root: 0x0000_ffff_ffff_fffe,
    asid: Asid::Root,
    decode: a64,
};

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

/// TLBI by address takes VA[55:12] in the low 44 bits.
const WORDS: Words = Words {
    known: A64,
    registers: 0x1f,
    page: (12, 0x00ff_ffff_ffff_f000),
    mark: from_a64,
};

/// HINT #0x60 and above.
const A64_HINT: u32 = 0xd503_201f | 0x60 << 5;
/// AArch64: what `bytes`, one instruction, means.
fn a64(bytes: &[u8]) -> Option<Op> {
    WORDS.decode(bytes)
}

/// The code of an AArch64 mark.
fn from_a64(word: u32) -> Option<u16> {
    let code = word.wrapping_sub(A64_HINT) >> 5;
    (word & 0x1f == 0x1f && code < CODES).then_some(code as u16)
}

/// Walks ARMv8's tables of the 4 KB granule (Arm ARM, D8.3).
pub fn armv8(context: &Context, vaddr: u64, read: impl Fn(u64) -> Option<u64>) -> Walk {
    const TABLE: u64 = 0x0000_ffff_ffff_f000;
    let mut walk = Walk {
        entries: Vec::new(),
        paddr: None,
    };
    let root = match vaddr >> 55 & 1 {
        0 => context.root,
        _ => context.root_high,
    };
    let mut table = root & TABLE;
    let levels = if context.levels == 3 { 3 } else { 4 };
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let at = table + (vaddr >> shift & 511) * 8;
        let Some(entry) = read(at) else { return walk };
        walk.entries.push((at, entry));
        let last = match (level, entry & 3) {
            (0, 3) | (1 | 2, 1) if entry & 1 << 10 != 0 => true,
            (1.., 3) => false,
            _ => return walk,
        };
        if last {
            let offset = (1u64 << shift) - 1;
            walk.paddr = Some(entry & TABLE & !offset | vaddr & offset);
            return walk;
        }
        table = entry & TABLE;
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::super::op::Operand;
    use super::*;

    #[test]
    fn instructions_are_told_by_their_bits() {
        let a64 = |word: u32| a64(&word.to_le_bytes());
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
    }

    #[test]
    fn marks_are_no_operations_with_a_number() {
        for code in 0..CODES {
            let mark = A64_HINT | code << 5;
            assert_eq!(a64(&mark.to_le_bytes()), Some(Op::Mark(code as u16)));
        }
        // yield, bti
        assert_eq!(from_a64(0xd503_203f), None);
        assert_eq!(from_a64(0xd503_245f), None);
    }
}
