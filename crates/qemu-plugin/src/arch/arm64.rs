// SPDX-License-Identifier: GPL-2.0-or-later
//! 64-bit ARM (AArch64).

use super::arm::VIRT;
use super::op::Reach::{Core, Machine};
use super::op::SystemRegister;
use super::words::Tagged::{Every, Named};
use super::words::{Does, Tlbi, Word, Words, word};
use super::{Arch, Cpu, FaultEntry, Flushes, Linux, UserMode, Walk};
use crate::mark::CODES;
use crate::ram::Ram;
use translation::audit::Habits;
use translation::format::Step;
use translation::{AccessKind, Context, GuestMemory};

/// With QEMU's machine `virt`.
pub static ARCH: Arch = Arch {
    name: "aarch64",
    general: &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
        "x27", "x28", "x29", "x30",
    ],
    pc: "pc",
    stack: "sp",
    mark_argument: 0,
    system: &["cpsr", AREA],
    word: 8,
    // EL and SP of PSTATE: EL0t.
    user_mode: UserMode {
        register: "cpsr",
        mask: 0xf,
        value: 0,
    },
    linux: Some(Linux {
        area: AREA,
        kernel_area: AREA,
        current: "__entry_task",
        faults: &[FaultEntry {
            symbol: "do_mem_abort",
            read: abort,
        }],
        // The saved registers lie between the handler's frame and the stack at its return.
        taken_off: 16,
    }),
    flushes: Some(Flushes {
        written: |_, _, _| None,
        fault_drops: false,
        // The top byte may be a program's own.
        address: 0x00ff_ffff_ffff_ffff,
        habits: Habits {
            young,
            group: 0,
            last: u64::MAX,
        },
    }),
    page_tables: "armv8-4k",
    walk: walk::<Ram>,
    layout: VIRT,
    kernel: 1 << 63,
    decode: |bytes| WORDS.decode(bytes),
    registers: super::registers::arm64::decode,
};

/// Reads the arguments of `do_mem_abort(far, esr, regs)`. ESR_EL1.EC tells instructions from data,
/// WnR a store.
fn abort(cpu: &dyn Cpu) -> (AccessKind, u64) {
    let esr = cpu.general(1);
    let kind = match (esr >> 26 & 0x3f, esr & 1 << 6) {
        (0x20 | 0x21, _) => AccessKind::Fetch,
        (_, 0) => AccessKind::Read,
        _ => AccessKind::Write,
    };
    (kind, cpu.general(0))
}

/// The register with the offset of the processor's own variables.
const AREA: &str = "TPIDR_EL1";

/// The access flag of an entry.
const ACCESSED: u64 = 1 << 10;

/// The entry with its access flag set: a TLB takes no entry without it, but may keep one from which
/// it is taken.
fn young(_: &dyn GuestMemory, step: &Step) -> Option<u64> {
    let absent = step.value & 1 == 0 || step.value & ACCESSED != 0;
    (!absent).then_some(step.value | ACCESSED)
}

/// The bits of TTBR0 and TTBR1 that are the table's address; bit 0 is CnP, the upper 16 the ASID.
const ROOT: u64 = 0x0000_ffff_ffff_fffe;
/// Where Linux has a table without entries, before that of TTBR1 (`RESERVED_SWAPPER_OFFSET`). TTBR0 is
/// set to it on the way from one process to the next, and by software that keeps user space from the
/// kernel (`CONFIG_ARM64_SW_TTBR0_PAN`).
const RESERVED: u64 = 0x1000;
/// SCTLR_EL1.M: paging is on.
const SCTLR_M: u64 = 1;
/// TCR_EL1.A1: the ASID is TTBR1's, not TTBR0's.
const TCR_A1: u64 = 1 << 22;

static SCTLR: SystemRegister = SystemRegister {
    name: "sctlr_el1",
    write: |mmu, value| {
        mmu.context.paging = value & SCTLR_M != 0;
        None
    },
};

static TCR: SystemRegister = SystemRegister {
    name: "tcr_el1",
    write: |mmu, value| {
        mmu.control = value;
        mmu.context.levels = levels(value);
        None
    },
};

static TTBR0: SystemRegister = SystemRegister {
    name: "ttbr0_el1",
    write: |mmu, value| {
        let (root, high) = (value & ROOT, mmu.context.root_high);
        // Neither has entries of a process: [`Context::has_process`] knows the latter.
        let reserved = high != 0 && root == high.wrapping_sub(RESERVED);
        mmu.context.root = if reserved { high } else { root };
        if mmu.control & TCR_A1 == 0 {
            mmu.context.asid = (value >> 48) as u16;
        }
        None
    },
};

static TTBR1: SystemRegister = SystemRegister {
    name: "ttbr1_el1",
    write: |mmu, value| {
        mmu.context.root_high = value & ROOT;
        if mmu.control & TCR_A1 != 0 {
            mmu.context.asid = (value >> 48) as u16;
        }
        None
    },
};

/// The number of levels with this TCR. T0SZ is the number of high address bits that are not
/// translated. (T1SZ could differ, but not in Linux once processes run.)
fn levels(tcr: u64) -> u8 {
    let bits = 64 - (tcr & 63).min(52);
    (bits - 12).div_ceil(9) as u8
}

/// The bits of TLBI but the register, and but the one that is set in CRn for the forms that do not
/// wait for accesses of the XS attribute: they drop the same.
const TLBI: u32 = 0xffff_efe0;
/// The bits that SYS with op1 = 0 and CRn = 8 or 9 has alike, so every TLBI for EL1.
const ANY_TLBI: u32 = 0xffff_e000;

/// MSR to a register, TLBI, ERET (Arm ARM, C5.1 and C5.5).
const A64: &[Word] = &[
    word(0xffff_ffe0, 0xd518_1000, 0, Does::Write(&SCTLR)),
    word(0xffff_ffe0, 0xd518_2040, 0, Does::Write(&TCR)),
    word(0xffff_ffe0, 0xd518_2000, 0, Does::Write(&TTBR0)),
    word(0xffff_ffe0, 0xd518_2020, 0, Does::Write(&TTBR1)),
    // VMALLE1, VAE1, ASIDE1, VAAE1, VALE1, VAALE1: inner shareable.
    word(TLBI, 0xd508_8300, 0, Tlbi::all(Every, Machine)),
    word(TLBI, 0xd508_8320, 0, Tlbi::page(Named, Machine)),
    word(TLBI, 0xd508_8340, 0, Tlbi::all(Named, Machine)),
    word(TLBI, 0xd508_8360, 0, Tlbi::page(Every, Machine)),
    word(TLBI, 0xd508_83a0, 0, Tlbi::leaf(Named, Machine)),
    word(TLBI, 0xd508_83e0, 0, Tlbi::leaf(Every, Machine)),
    // VMALLE1, VAE1, ASIDE1, VAAE1, VALE1, VAALE1: outer shareable.
    word(TLBI, 0xd508_8100, 0, Tlbi::all(Every, Machine)),
    word(TLBI, 0xd508_8120, 0, Tlbi::page(Named, Machine)),
    word(TLBI, 0xd508_8140, 0, Tlbi::all(Named, Machine)),
    word(TLBI, 0xd508_8160, 0, Tlbi::page(Every, Machine)),
    word(TLBI, 0xd508_81a0, 0, Tlbi::leaf(Named, Machine)),
    word(TLBI, 0xd508_81e0, 0, Tlbi::leaf(Every, Machine)),
    // VMALLE1, VAE1, ASIDE1, VAAE1, VALE1, VAALE1: this core.
    word(TLBI, 0xd508_8700, 0, Tlbi::all(Every, Core)),
    word(TLBI, 0xd508_8720, 0, Tlbi::page(Named, Core)),
    word(TLBI, 0xd508_8740, 0, Tlbi::all(Named, Core)),
    word(TLBI, 0xd508_8760, 0, Tlbi::page(Every, Core)),
    word(TLBI, 0xd508_87a0, 0, Tlbi::leaf(Named, Core)),
    word(TLBI, 0xd508_87e0, 0, Tlbi::leaf(Every, Core)),
    // RVAE1, RVAAE1, RVALE1, RVAALE1: inner shareable.
    word(TLBI, 0xd508_8220, 0, Tlbi::range(Named, false, Machine)),
    word(TLBI, 0xd508_8260, 0, Tlbi::range(Every, false, Machine)),
    word(TLBI, 0xd508_82a0, 0, Tlbi::range(Named, true, Machine)),
    word(TLBI, 0xd508_82e0, 0, Tlbi::range(Every, true, Machine)),
    // RVAE1, RVAAE1, RVALE1, RVAALE1: outer shareable.
    word(TLBI, 0xd508_8520, 0, Tlbi::range(Named, false, Machine)),
    word(TLBI, 0xd508_8560, 0, Tlbi::range(Every, false, Machine)),
    word(TLBI, 0xd508_85a0, 0, Tlbi::range(Named, true, Machine)),
    word(TLBI, 0xd508_85e0, 0, Tlbi::range(Every, true, Machine)),
    // RVAE1, RVAAE1, RVALE1, RVAALE1: this core.
    word(TLBI, 0xd508_8620, 0, Tlbi::range(Named, false, Core)),
    word(TLBI, 0xd508_8660, 0, Tlbi::range(Every, false, Core)),
    word(TLBI, 0xd508_86a0, 0, Tlbi::range(Named, true, Core)),
    word(TLBI, 0xd508_86e0, 0, Tlbi::range(Every, true, Core)),
    // The rest of TLBI, and TLBIP, for EL1: after the rows above.
    word(ANY_TLBI, 0xd508_8000, 0, Does::UnknownFlush),
    word(ANY_TLBI, 0xd548_8000, 0, Does::UnknownFlush),
    word(0xffff_ffff, 0xd69f_03e0, 0, Does::Return),
];

/// TLBI by address has VA[55:12] in the low 44 bits of its register.
const WORDS: Words = Words {
    known: A64,
    registers: 0x1f,
    condition: 0,
    page: (12, 0x00ff_ffff_ffff_f000),
    tag: (48, 16),
    hints: true,
    mark: from_a64,
};

/// The lowest mark. Marks are HINT #0x60 and above: the architecture leaves them unallocated and
/// defines them as no-operations.
const A64_HINT: u32 = 0xd503_201f | 0x60 << 5;
fn from_a64(word: u32) -> Option<u16> {
    let code = word.wrapping_sub(A64_HINT) >> 5;
    (word & 0x1f == 0x1f && code < CODES).then_some(code as u16)
}

/// Walks ARMv8's tables of the 4 KB granule (Arm ARM, D8.3).
fn walk<M: GuestMemory>(context: &Context, vaddr: u64, memory: &M) -> Walk {
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
        let Some(entry) = memory.read_u64(at) else {
            return walk;
        };
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
    use super::super::op::{Mmu, Op, Scope};
    use super::super::tests::{LONG, compare};
    use super::*;
    use translation::SparseMemory;
    use translation::tlbi::{Drop, Tables};

    #[test]
    fn instructions_are_found_by_their_bits() {
        let a64 = |word: u32| WORDS.decode(&word.to_le_bytes());
        // msr ttbr0_el1, x7; msr contextidr_el1, x1; eret; nop; mrs x7, ttbr0_el1
        let write = |to, from| Some(Op::Write { to, from });
        assert_eq!(a64(0xd518_2007), write(&TTBR0, 7));
        // CONTEXTIDR_EL1 is only for debuggers.
        assert_eq!(a64(0xd518_d021), None);
        // msr sctlr_el1, x0; msr tcr_el1, x10
        assert_eq!(a64(0xd518_1000), write(&SCTLR, 0));
        assert_eq!(a64(0xd518_204a), write(&TCR, 10));
        assert_eq!(a64(0xd69f_03e0), Some(Op::Return));
        assert_eq!(a64(0xd503_201f), None);
        assert_eq!(a64(0xd538_2007), None);
    }

    #[test]
    fn each_form_of_a_flush_drops_what_the_manual_says() {
        let flush = |crm: u32, op: u32, value: u64| {
            let word = 0xd508_8002u32 | crm << 8 | op << 5;
            match WORDS.decode(&word.to_le_bytes()) {
                Some(Op::Invalidate {
                    scope: Scope::Exact,
                    reach,
                    exact,
                }) => {
                    assert_eq!(reach, exact.reach);
                    let dropped = exact.drop(7, 0, |number| if number == 2 { value } else { 0 });
                    (exact.reach, dropped)
                }
                other => panic!("{word:#x} is {other:?}"),
            }
        };
        let above = Drop {
            tables: Tables::Above,
            ..Drop::page(0x42, 0x1234_5000)
        };
        let leaf = Drop {
            tables: Tables::Kept,
            ..above
        };
        let every = |drop| Drop { tag: None, ..drop };
        // The upper bits are the ASID. vmalle1, vae1, aside1, vaae1, vale1, vaale1
        for (op, expected) in [
            (0, Drop::ALL),
            (1, above),
            (2, Drop::tag(0x42)),
            (3, every(above)),
            (5, leaf),
            (7, every(leaf)),
        ] {
            for (crm, reach) in [(1, Machine), (3, Machine), (7, Core)] {
                let (found, dropped) = flush(crm, op, 0x0042_0000_0001_2345);
                assert_eq!((found, dropped), (reach, expected), "{crm} {op}");
            }
        }
        // A kernel address, without its top byte.
        let (_, kernel) = flush(3, 3, 0x0000_0fff_8000_1234);
        let page = 0xffff_f800_0123_4000;
        assert_eq!(kernel.range, Some((page, page)));
        // Ranges: three times 2^11 pages from page 0x12345 on.
        let value = 0x42 << 48 | 2 << 44 | 2 << 39 | 0x1_2345;
        let range = Some((0x1234_5000, 0x1234_5000 + (3 << 11 << 12) - 1));
        for (op, expected) in [(1, above), (3, every(above)), (5, leaf), (7, every(leaf))] {
            for (crm, reach) in [(2, Machine), (5, Machine), (6, Core)] {
                let (found, dropped) = flush(crm, op, value);
                let expected = Drop { range, ..expected };
                assert_eq!((found, dropped), (reach, expected));
            }
        }
        let (_, kernel) = flush(2, 3, 0x1f_ffff_fff0);
        let first = 0xffff_ffff_ffff_0000;
        assert_eq!(kernel.range, Some((first, first + 0x1fff)));
    }

    #[test]
    fn a_hint_names_the_size_of_the_pages() {
        let sizes = |word: u32, value: u64| match WORDS.decode(&word.to_le_bytes()) {
            Some(Op::Invalidate { exact, .. }) => exact.drop(7, 0, |_| value).sizes,
            other => panic!("{word:#x} is {other:?}"),
        };
        let (pages, large, huge) = (Some((12, 20)), Some((21, 29)), Some((30, 38)));
        // Those of another granule: none is found.
        let none = Some((64, 64));
        // tlbi vae1is, vaae1, vale1os, each with x2: TTL is bits 47:44.
        for word in [0xd508_8322u32, 0xd508_8762, 0xd508_81a2] {
            for (ttl, expected) in [
                (0b0000, None),
                (0b0011, None),
                (0b0100, None),
                (0b0101, huge),
                (0b0110, large),
                (0b0111, pages),
                (0b1011, none),
                (0b1110, none),
            ] {
                let value = 0x42 << 48 | ttl << 44 | 0x1_2345;
                assert_eq!(sizes(word, value), expected, "{word:#x} {ttl:#b}");
            }
        }
        // tlbi rvae1is, rvaale1: TTL is bits 38:37, the granule bits 47:46. Bits 45:44 are the scale.
        for word in [0xd508_8222u32, 0xd508_86e2] {
            for (granule, ttl, expected) in [
                (1, 0, None),
                (1, 1, huge),
                (1, 2, large),
                (1, 3, pages),
                (2, 0, none),
                (3, 3, none),
            ] {
                let value = 0x42 << 48 | granule << 46 | 2 << 44 | ttl << 37 | 0x1_2345;
                assert_eq!(sizes(word, value), expected, "{word:#x} {granule} {ttl}");
            }
        }
        // All of an ASID: the bits are of no meaning.
        assert_eq!(sizes(0xd508_8342, 0x42 << 48 | 0b0111 << 44), None);
    }

    #[test]
    fn every_flush_of_el1_is_known_or_counted_and_nxs_changes_nothing() {
        let decode = |word: u32| WORDS.decode(&word.to_le_bytes());
        let mut known = 0;
        for form in 0..1 << 7 {
            let word = 0xd508_8000u32 | form << 5 | 7;
            let plain = decode(word);
            let nxs = decode(word | 1 << 12);
            match plain {
                Some(Op::Invalidate { .. }) => assert_eq!(plain, nxs, "{word:#x}"),
                _ => {
                    assert_eq!(plain, Some(Op::UnknownFlush(word & !31)));
                    assert_eq!(nxs, Some(Op::UnknownFlush((word | 1 << 12) & !31)));
                }
            }
            known += u32::from(matches!(plain, Some(Op::Invalidate { .. })));
        }
        // Six forms without a range and four with one, for one core and for two kinds of all.
        assert_eq!(known, 3 * (6 + 4));
        // TLBI VAE2IS, VMALLS12E1IS; AT S1E1R; SYSL; a TLBIP.
        assert_eq!(decode(0xd50c_8327), None);
        assert_eq!(decode(0xd50c_83df), None);
        assert_eq!(decode(0xd508_7807), None);
        assert_eq!(decode(0xd528_8307), None);
        assert_eq!(decode(0xd548_8327), Some(Op::UnknownFlush(0xd548_8320)));
    }

    #[test]
    fn an_entry_without_its_access_flag_is_old() {
        let memory = SparseMemory::new();
        let step = |value| Step {
            level: 3,
            paddr: 0,
            value,
        };
        assert_eq!(young(&memory, &step(0x5003)), Some(0x5403));
        assert_eq!(young(&memory, &step(0x5403)), None);
        assert_eq!(young(&memory, &step(0x5002)), None);
    }

    #[test]
    fn marks_are_no_operations_with_a_number() {
        for code in 0..CODES {
            let mark = A64_HINT | code << 5;
            assert_eq!(
                WORDS.decode(&mark.to_le_bytes()),
                Some(Op::Mark(code as u16))
            );
        }
        // yield, bti
        assert_eq!(from_a64(0xd503_203f), None);
        assert_eq!(from_a64(0xd503_245f), None);
    }

    #[test]
    fn tcr_selects_the_root_with_the_asid() {
        let mut mmu = Mmu::default();
        let mut write = |register: &SystemRegister, value| {
            assert_eq!((register.write)(&mut mmu, value), None);
            mmu.context
        };
        // T0SZ of 25 leaves 39 bits, so three levels.
        assert_eq!(write(&TCR, 25).levels, 3);
        let context = write(&TTBR0, 7 << 48 | 0x4000 | 1);
        assert_eq!((context.root, context.asid), (0x4000, 7));
        let context = write(&TTBR1, 8 << 48 | 0x5000);
        assert_eq!((context.root_high, context.asid), (0x5000, 7));
        assert_eq!(write(&TCR, TCR_A1 | 16).levels, 4);
        assert_eq!(write(&TTBR0, 9 << 48 | 0x6000).asid, 7);
        assert_eq!(write(&TTBR1, 9 << 48 | 0x5000).asid, 9);
    }

    #[test]
    fn the_table_without_entries_is_no_processs() {
        let mut mmu = Mmu::default();
        let mut write = |register: &SystemRegister, value| {
            assert_eq!((register.write)(&mut mmu, value), None);
            (mmu.context.has_process(), mmu.context.asid)
        };
        // While the kernel boots there is no TTBR1 yet.
        assert_eq!(write(&TTBR0, 0xffff_ffff_f000), (true, 0));
        write(&TCR, TCR_A1 | 16);
        write(&TTBR1, 0x5000);
        assert_eq!(write(&TTBR0, 0x9000), (true, 0));
        // Linux's cpu_do_switch_mm: the table before TTBR1's, the ASID, the new root.
        assert_eq!(write(&TTBR0, 0x4000), (false, 0));
        assert_eq!(write(&TTBR1, 9 << 48 | 0x5000), (false, 9));
        assert_eq!(write(&TTBR0, 0x7000 | 1), (true, 9));
    }

    #[test]
    fn the_walk_agrees_with_the_models_on_random_tables() {
        for (levels, unused) in [(3, 25), (4, 16)] {
            let context = Context {
                paging: true,
                root: 0x3000,
                root_high: 0x8000,
                levels,
                ..Context::default()
            };
            let canonical = |dice: u64| ((dice as i64) << unused >> unused) as u64;
            compare("armv8-4k", &context, LONG, canonical, |memory, vaddr| {
                walk(&context, vaddr, memory)
            });
        }
    }
}
