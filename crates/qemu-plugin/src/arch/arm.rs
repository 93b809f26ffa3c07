// SPDX-License-Identifier: GPL-2.0-or-later
//! 32-bit ARM (ARMv7 with short descriptors).

use super::op::Reach::{Core, Machine};
use super::op::SystemRegister;
use super::words::Tagged::{Every, Named};
use super::words::{Does, Tlbi, Word, Words, word};
use super::{Arch, Cpu, FaultEntry, Flushes, Linux, UserMode, Walk};
use crate::mark::CODES;
use crate::ram::{Layout, Ram};
use translation::audit::Habits;
use translation::format::Step;
use translation::{AccessKind, Context, GuestMemory};

/// With QEMU's machine `virt`.
pub static ARCH: Arch = Arch {
    name: "arm",
    general: &[
        "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp",
        "lr", "pc",
    ],
    pc: "pc",
    stack: "sp",
    mark_argument: 0,
    system: &["cpsr", AREA],
    word: 4,
    // The mode field is 0b10000, User.
    user_mode: UserMode {
        register: "cpsr",
        mask: 0xf,
        value: 0,
    },
    linux: Some(Linux {
        area: AREA,
        kernel_area: AREA,
        current: "__entry_task",
        faults: &[
            FaultEntry {
                symbol: "do_DataAbort",
                read: data_abort,
            },
            FaultEntry {
                symbol: "do_PrefetchAbort",
                read: |cpu| (AccessKind::Fetch, cpu.general(0)),
            },
        ],
        // The saved registers lie between the handler's frame and the stack at its return.
        taken_off: 4,
    }),
    flushes: Some(Flushes {
        written: |_, _, _| None,
        fault_drops: false,
        address: 0xffff_ffff,
        habits: Habits {
            young,
            // The tables of members of a group that shares TLB entries, shared and not.
            group: 1 << 5 | 1 << 13,
            last: 0xbfff_ffff,
        },
    }),
    page_tables: "armv7-short",
    walk: walk::<Ram>,
    layout: VIRT,
    // PAGE_OFFSET of a kernel with the usual 3:1 split.
    kernel: 0xc000_0000,
    decode: |bytes| WORDS.decode(bytes),
    registers: super::registers::arm::decode,
};

/// The register with the offset of the processor's own variables.
const AREA: &str = "TPIDRPRW";

/// The hardware's entry that Linux would have written if the page had been used lately. Linux keeps
/// an entry of its own 2 KB before the hardware's, and leaves that at 0 until the page is used
/// (arch/arm/include/asm/pgtable-2level.h, `cpu_v7_set_pte_ext`).
fn young(memory: &dyn GuestMemory, step: &Step) -> Option<u64> {
    const VALID: u32 = 1;
    const YOUNG: u32 = 1 << 1;
    const DIRTY: u32 = 1 << 6;
    const READ_ONLY: u32 = 1 << 7;
    const USER: u32 = 1 << 8;
    const NO_EXECUTE: u32 = 1 << 9;
    const NONE: u32 = 1 << 11;
    if step.level != 1 || step.value != 0 {
        return None;
    }
    let own = memory.read_u32(step.paddr.checked_sub(2048)?)?;
    if own & (VALID | YOUNG | NONE) != VALID {
        return None;
    }
    let mut value = own & !0xfff | 2 | 1 << 4 | 1 << 11;
    for (bit, hardware) in [(USER, 1 << 5), (NO_EXECUTE, 1)] {
        if own & bit != 0 {
            value |= hardware;
        }
    }
    if own & (DIRTY | READ_ONLY) != DIRTY {
        value |= 1 << 9;
    }
    Some(value.into())
}

/// DFSR.WnR: the access was a store.
const DFSR_WRITE: u64 = 1 << 11;

/// Reads the arguments of `do_DataAbort(addr, fsr, regs)`.
fn data_abort(cpu: &dyn Cpu) -> (AccessKind, u64) {
    let kind = match cpu.general(1) & DFSR_WRITE {
        0 => AccessKind::Read,
        _ => AccessKind::Write,
    };
    (kind, cpu.general(0))
}

/// QEMU's ARM `virt` (hw/arm/virt.c): all of it from 1 GB.
pub const VIRT: Layout = Layout {
    base: 1 << 30,
    low: u64::MAX,
    high: 0,
};

/// The bits of TTBR0 and TTBR1 that are the table's address; the lower ones are cacheability.
const ROOT: u64 = 0xffff_ff80;
/// SCTLR.M: paging is on.
const SCTLR_M: u64 = 1;

static SCTLR: SystemRegister = SystemRegister {
    name: "sctlr",
    write: |mmu, value| {
        mmu.context.paging = value & SCTLR_M != 0;
        None
    },
};

static TTBCR: SystemRegister = SystemRegister {
    name: "ttbcr",
    write: |mmu, value| {
        mmu.context.split = value as u8 & 7;
        None
    },
};

static TTBR0: SystemRegister = SystemRegister {
    name: "ttbr0",
    write: |mmu, value| {
        mmu.context.root = value & ROOT;
        None
    },
};

static TTBR1: SystemRegister = SystemRegister {
    name: "ttbr1",
    write: |mmu, value| {
        mmu.context.root_high = value & ROOT;
        None
    },
};

static CONTEXTIDR: SystemRegister = SystemRegister {
    name: "contextidr",
    write: |mmu, value| {
        // The low byte is the ASID.
        mmu.context.asid = value as u16 & 0xff;
        None
    },
};

static DACR: SystemRegister = SystemRegister {
    name: "dacr",
    write: |mmu, value| {
        mmu.context.dacr = value as u32;
        None
    },
};

/// The bits of MCR but the condition and the register.
const MCR: u32 = 0x0fff_0fff;

/// MCR p15 (Arm ARM, B3.18).
const A32: &[Word] = &[
    word(MCR, 0x0e01_0f10, 12, Does::Write(&SCTLR)),
    word(MCR, 0x0e02_0f50, 12, Does::Write(&TTBCR)),
    word(MCR, 0x0e02_0f10, 12, Does::Write(&TTBR0)),
    word(MCR, 0x0e02_0f30, 12, Does::Write(&TTBR1)),
    word(MCR, 0x0e0d_0f30, 12, Does::Write(&CONTEXTIDR)),
    word(MCR, 0x0e03_0f10, 12, Does::Write(&DACR)),
    // TLBIALLIS, TLBIMVAIS, TLBIASIDIS, TLBIMVAAIS, TLBIMVALIS, TLBIMVAALIS, then the same for one
    // core. The last two of each are ARMv8's.
    word(MCR, 0x0e08_0f13, 12, Tlbi::all(Every, Machine)),
    word(MCR, 0x0e08_0f33, 12, Tlbi::page(Named, Machine)),
    word(MCR, 0x0e08_0f53, 12, Tlbi::all(Named, Machine)),
    word(MCR, 0x0e08_0f73, 12, Tlbi::page(Every, Machine)),
    word(MCR, 0x0e08_0fb3, 12, Tlbi::leaf(Named, Machine)),
    word(MCR, 0x0e08_0ff3, 12, Tlbi::leaf(Every, Machine)),
    word(MCR, 0x0e08_0f17, 12, Tlbi::all(Every, Core)),
    word(MCR, 0x0e08_0f37, 12, Tlbi::page(Named, Core)),
    word(MCR, 0x0e08_0f57, 12, Tlbi::all(Named, Core)),
    word(MCR, 0x0e08_0f77, 12, Tlbi::page(Every, Core)),
    word(MCR, 0x0e08_0fb7, 12, Tlbi::leaf(Named, Core)),
    word(MCR, 0x0e08_0ff7, 12, Tlbi::leaf(Every, Core)),
    // ITLBIALL, ITLBIMVA, ITLBIASID, DTLBIALL, DTLBIMVA, DTLBIASID. On a unified TLB each acts on all
    // of it (Arm ARM, "TLB maintenance operations"), and the audit has one.
    word(MCR, 0x0e08_0f15, 12, Tlbi::all(Every, Core)),
    word(MCR, 0x0e08_0f35, 12, Tlbi::page(Named, Core)),
    word(MCR, 0x0e08_0f55, 12, Tlbi::all(Named, Core)),
    word(MCR, 0x0e08_0f16, 12, Tlbi::all(Every, Core)),
    word(MCR, 0x0e08_0f36, 12, Tlbi::page(Named, Core)),
    word(MCR, 0x0e08_0f56, 12, Tlbi::all(Named, Core)),
    // The rest of MCR p15, 0, Rt, c8: after the rows above. Those of Hyp mode have another opc1.
    word(0x0fff_0f10, 0x0e08_0f10, 12, Does::UnknownFlush),
    // How Linux returns from an exception: MOVS PC, LR to user mode, RFEIA to its own.
    word(0xffff_ffff, 0xe1b0_f00e, 0, Does::Return),
    word(0xffd0_ffff, 0xf890_0a00, 0, Does::Return),
];

const WORDS: Words = Words {
    known: A32,
    registers: 0xf,
    condition: 0xf000_0000,
    page: (0, 0xffff_f000),
    tag: (0, 8),
    hints: false,
    mark: from_a32,
};

/// The lowest mark. Marks are HINT #0x80 and above with the condition "always": the architecture
/// leaves them unallocated and defines them as no-operations.
const A32_HINT: u32 = 0xe320_f080;
fn from_a32(word: u32) -> Option<u16> {
    let code = word.wrapping_sub(A32_HINT);
    (code < CODES).then_some(code as u16)
}

/// Walks ARMv7's short descriptors (Arm ARM, B3.5).
fn walk<M: GuestMemory>(context: &Context, vaddr: u64, memory: &M) -> Walk {
    let mut walk = Walk {
        entries: Vec::new(),
        paddr: None,
    };
    let split = u32::from(context.split);
    let root = match split > 0 && vaddr >> (32 - split) != 0 {
        true => context.root_high & 0xffff_c000,
        false => context.root & !((1 << (14 - split)) - 1),
    };
    let at = root + (vaddr >> 20) * 4;
    let Some(first) = memory.read_u32(at) else {
        return walk;
    };
    walk.entries.push((at, first.into()));
    let first = u64::from(first);
    let (entry, shift) = match (first & 3, first >> 18 & 1) {
        (1, _) => {
            let at = (first & 0xffff_fc00) + (vaddr >> 12 & 255) * 4;
            let Some(second) = memory.read_u32(at) else {
                return walk;
            };
            walk.entries.push((at, second.into()));
            match second & 3 {
                0 => return walk,
                1 => (u64::from(second), 16),
                _ => (u64::from(second), 12),
            }
        }
        (0, _) => return walk,
        (_, 0) => (first, 20),
        (_, _) => (first, 24),
    };
    let offset = (1u64 << shift) - 1;
    walk.paddr = Some(entry & 0xffff_ffff & !offset | vaddr & offset);
    walk
}

#[cfg(test)]
mod tests {
    use super::super::op::{Mmu, Op, Scope};
    use super::super::tests::compare;
    use super::*;
    use translation::SparseMemory;
    use translation::tlbi::{Drop, Tables};

    #[test]
    fn instructions_are_found_by_their_bits() {
        let a32 = |word: u32| WORDS.decode(&word.to_le_bytes());
        let write = |to, from| Some(Op::Write { to, from });
        // mcr p15,0,r2,c2,c0,0; mcr p15,0,r1,c13,c0,1; mcr p15,0,r3,c3,c0,0; mrc of the first
        assert_eq!(a32(0xee02_2f10), write(&TTBR0, 2));
        assert_eq!(a32(0xee0d_1f30), write(&CONTEXTIDR, 1));
        assert_eq!(a32(0xee03_3f10), write(&DACR, 3));
        // mcr p15,0,r0,c1,c0,0; mcr p15,0,r4,c2,c0,2
        assert_eq!(a32(0xee01_0f10), write(&SCTLR, 0));
        assert_eq!(a32(0xee02_4f50), write(&TTBCR, 4));
        assert_eq!(a32(0xee12_2f10), None);
    }

    #[test]
    fn each_form_of_a_flush_drops_what_the_manual_says() {
        let page = Drop {
            tables: Tables::Above,
            ..Drop::page(0x42, 0x1234_5000)
        };
        let everywhere = Drop { tag: None, ..page };
        // mcr p15, 0, r4, c8, c3 or c7, OP: TLBIALL, TLBIMVA, TLBIASID, TLBIMVAA
        for (op, expected) in [
            (0, Drop::ALL),
            (1, page),
            (2, Drop::tag(0x42)),
            (3, everywhere),
        ] {
            for (crm, reach) in [(3, Machine), (7, Core)] {
                let word = 0xee08_4f10u32 | op << 5 | crm;
                let Some(Op::Invalidate {
                    scope: Scope::Exact,
                    reach: modelled,
                    exact,
                }) = WORDS.decode(&word.to_le_bytes())
                else {
                    panic!("{word:#x} does not flush");
                };
                assert_eq!((modelled, exact.reach), (reach, reach));
                let dropped = exact.drop(7, 0, |number| [0x1234_5042, 0][usize::from(number != 4)]);
                assert_eq!(dropped, expected, "{word:#x}");
            }
        }
    }

    #[test]
    fn a_copy_of_ttbr1_in_ttbr0_is_no_processs() {
        let mut mmu = Mmu::default();
        let mut write = |register: &SystemRegister, value| {
            assert_eq!((register.write)(&mut mmu, value), None);
            (mmu.context.has_process(), mmu.context.asid)
        };
        write(&TTBR1, 0x4000_404a);
        assert_eq!(write(&TTBR0, 0x6000_404a), (true, 0));
        // Linux's check_and_switch_context and cpu_v7_switch_mm.
        assert_eq!(write(&TTBR0, 0x4000_404a), (false, 0));
        assert_eq!(write(&CONTEXTIDR, 0x105), (false, 5));
        assert_eq!(write(&TTBR0, 0x6000_804a), (true, 5));
    }

    #[test]
    fn every_flush_is_known_or_counted() {
        let decode = |word: u32| WORDS.decode(&word.to_le_bytes());
        let exact = |word| match decode(word) {
            Some(Op::Invalidate { exact, .. }) => Some(exact),
            _ => None,
        };
        let mut known = 0;
        for crm in 0..16 {
            for op in 0..8 {
                let word = 0xee08_4f10u32 | op << 5 | crm;
                match exact(word) {
                    // The instruction side's and the data side's are as that of both.
                    Some(found) if crm == 5 || crm == 6 => {
                        assert_eq!(Some(found), exact(word & !15 | 7), "{word:#x}");
                    }
                    Some(_) => {}
                    None => {
                        let form = word & 0x0fff_0fff;
                        assert_eq!(decode(word), Some(Op::UnknownFlush(form)), "{word:#x}");
                    }
                }
                known += u32::from(exact(word).is_some());
            }
        }
        assert_eq!(known, 2 * 6 + 2 * 3);
        let leaf = exact(0xee08_4fb3).unwrap();
        assert_eq!((leaf.tables, leaf.reach), (Tables::Kept, Machine));
        // TLBIMVAH, which is of Hyp mode; a read; another coprocessor.
        assert_eq!(decode(0xee88_4f33), None);
        assert_eq!(decode(0xee18_4f33), None);
        assert_eq!(decode(0xee08_4e33), None);
    }

    #[test]
    fn an_old_page_is_what_linux_would_make_of_its_own_entry() {
        let mut memory = SparseMemory::new();
        let leaf = |value| Step {
            level: 1,
            paddr: 0x9804,
            value,
        };
        // Valid, dirty, of the user, not executable.
        memory.write_u32(0x9004, 0x8000_0000 | 1 | 1 << 6 | 1 << 8 | 1 << 9);
        let value = young(&memory, &leaf(0)).unwrap();
        assert_eq!(value, 0x8000_0000 | 2 | 1 | 1 << 4 | 1 << 5 | 1 << 11);
        assert_eq!(young(&memory, &leaf(2)), None);
        let above = Step {
            level: 0,
            ..leaf(0)
        };
        assert_eq!(young(&memory, &above), None);
        // A clean page may not be written; one that is young is absent for another reason.
        memory.write_u32(0x9004, 0x8000_0000 | 1 | 1 << 8);
        assert_eq!(young(&memory, &leaf(0)).unwrap() >> 9 & 1, 1);
        for own in [1 | 1 << 1, 1 | 1 << 11, 0] {
            memory.write_u32(0x9004, 0x8000_0000 | own);
            assert_eq!(young(&memory, &leaf(0)), None, "{own:#x}");
        }
    }

    #[test]
    fn marks_are_no_operations_with_a_number() {
        for code in 0..CODES {
            let mark = A32_HINT | code;
            assert_eq!(
                WORDS.decode(&mark.to_le_bytes()),
                Some(Op::Mark(code as u16))
            );
        }
        // dbg, nop
        assert_eq!(from_a32(0xe320_f0f5), None);
        assert_eq!(from_a32(0xe320_f000), None);
    }

    #[test]
    fn the_walk_agrees_with_the_models_on_random_tables() {
        /// Bits of two entries that leave addresses within a megabyte.
        const SHORT: u64 = 0x000f_ffff_000f_ffff;
        for split in [0, 1, 3] {
            let context = Context {
                paging: true,
                root: 0x4000,
                root_high: 0x8000,
                split,
                ..Context::default()
            };
            let word = |dice: u64| dice & 0xffff_ffff;
            compare("armv7-short", &context, SHORT, word, |memory, vaddr| {
                walk(&context, vaddr, memory)
            });
        }
    }
}
