// SPDX-License-Identifier: GPL-2.0-or-later
//! x86-64.

use super::op::{Exact, Mmu, Op, Operand, Pages, Reach, Scope, SystemRegister, Tags};
use super::{Arch, Cpu, FaultEntry, Flushes, Linux, UserMode, Walk};
use crate::mark::CODES;
use crate::ram::{Layout, Ram};
use std::mem::replace;
use translation::audit::Habits;
use translation::tlbi::{Drop, Tables};
use translation::{AccessKind, Context, GuestMemory, Invalidation};

/// With QEMU's machine `microvm`.
pub static ARCH: Arch = Arch {
    name: "x86_64",
    general: &[
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ],
    pc: "rip",
    stack: "rsp",
    mark_argument: 0,
    system: &["cr2", "cs", "gs_base", "k_gs_base"],
    word: 8,
    user_mode: UserMode {
        register: "cs",
        mask: 3,
        value: 3,
    },
    linux: Some(Linux {
        // The kernel's GS base: SWAPGS moved it here on the way to user code.
        area: "k_gs_base",
        kernel_area: "gs_base",
        current: "pcpu_hot",
        faults: &[FaultEntry {
            symbol: "asm_exc_page_fault",
            read: fault,
        }],
        // The error code.
        taken_off: 8,
    }),
    flushes: Some(Flushes {
        written,
        fault_drops: true,
        address: u64::MAX,
        habits: Habits {
            young: |_, _| None,
            group: 0,
            last: u64::MAX,
        },
    }),
    page_tables: "x86-64",
    walk: walk::<Ram>,
    layout: MICROVM,
    kernel: 1 << 63,
    decode,
    registers: super::registers::x86::decode,
};

/// Reads the error code on top of the stack, bit 1 a write and bit 4 a fetch (Intel SDM volume 3,
/// 4.7), and the address in CR2.
fn fault(cpu: &dyn Cpu) -> (AccessKind, u64) {
    let mut code = [0; 8];
    cpu.memory(cpu.named("rsp"), &mut code);
    let kind = match (code[0] & 16 != 0, code[0] & 2 != 0) {
        (true, _) => AccessKind::Fetch,
        (false, true) => AccessKind::Write,
        (false, false) => AccessKind::Read,
    };
    (kind, cpu.named("cr2"))
}

/// CR0.PG: paging is on.
const CR0_PG: u64 = 1 << 31;
/// CR4.LA57: the tables have five levels.
const CR4_LA57: u64 = 1 << 12;
/// CR4.PCIDE: entries are tagged.
const CR4_PCIDE: u64 = 1 << 17;
/// CR4.SMEP: the kernel executes no user page.
const CR4_SMEP: u64 = 1 << 20;
/// CR4.PSE, PAE, PGE and LA57: a change drops all entries.
const CR4_FLUSHING: u64 = 1 << 4 | 1 << 5 | 1 << 7 | CR4_LA57;
/// The bits of CR3 that are the PCID.
const PCID: u64 = 0xfff;
/// The bit of a value for CR3 that keeps entries.
const CR3_KEEP: u64 = 1 << 63;

static CR0: SystemRegister = SystemRegister {
    name: "cr0",
    write: |mmu, value| {
        let paging = value & CR0_PG != 0;
        let changed = replace(&mut mmu.context.paging, paging) != paging;
        changed.then_some(Invalidation::All)
    },
};

static CR3: SystemRegister = SystemRegister {
    name: "cr3",
    write: |mmu, value| {
        // The other bits are PCID, cache control and "keep entries".
        let root = value & ADDRESS;
        mmu.context.asid = match mmu.control & CR4_PCIDE {
            0 => 0,
            _ => (value & PCID) as u16,
        };
        // The kernel writes the same root again to flush the current address space. A new root is
        // a switch without a flush: the modelled processor has PCID, though QEMU's has not.
        let again = replace(&mut mmu.context.root, root) == root;
        again.then_some(Invalidation::AddressSpace { root })
    },
};

static CR4: SystemRegister = SystemRegister {
    name: "cr4",
    write: |mmu, value| {
        mmu.context.levels = if value & CR4_LA57 != 0 { 5 } else { 4 };
        // The kernel toggles PGE to flush, and rarely changes other bits.
        let changed = replace(&mut mmu.control, value) != value;
        changed.then_some(Invalidation::All)
    },
};

/// What a write of a control register drops (Intel SDM volume 3, 4.10.4.1).
fn written(register: &SystemRegister, mmu: &Mmu, value: u64) -> Option<Drop> {
    match register.name {
        "cr0" => (mmu.context.paging != (value & CR0_PG != 0)).then_some(Drop::ALL),
        "cr3" if mmu.control & CR4_PCIDE == 0 => Some(Drop::BUT_GLOBAL),
        "cr3" if value & CR3_KEEP != 0 => None,
        "cr3" => Some(Drop::tag((value & PCID) as u16)),
        _ => {
            let (set, cleared) = (value & !mmu.control, mmu.control & !value);
            let flushes = (set | cleared) & CR4_FLUSHING | cleared & CR4_PCIDE | set & CR4_SMEP;
            (flushes != 0).then_some(Drop::ALL)
        }
    }
}

/// QEMU's `microvm` (hw/i386/microvm.c): 3 GB from 0, the rest from 4 GB.
pub const MICROVM: Layout = Layout {
    base: 0,
    low: 0xc000_0000,
    high: 1 << 32,
};

/// The upper half of a mark's displacement. A mark is the 7-byte `nopl 0x434f00NN(%rax)`, NN its
/// code: a no-operation on every processor, also in user space, that no compiler emits.
const X86_MAGIC: u32 = 0x434f;
fn decode(bytes: &[u8]) -> Option<Op> {
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
        [0xf4] => Some(Op::Halt),
        [0x0f, 0x1f, 0x80, code @ ..] if prefixes == 0 && rex == 0 => {
            let code = u32::from_le_bytes(code.try_into().ok()?);
            from_x86(code).map(Op::Mark)
        }
        [0x0f, 0x22, modrm] => {
            let to = match (modrm >> 3 & 7) | (rex & 4) << 1 {
                0 => &CR0,
                3 => &CR3,
                4 => &CR4,
                _ => return None,
            };
            let from = (modrm & 7) | (rex & 1) << 3;
            Some(Op::Write { to, from })
        }
        [0x0f, 0x01, modrm, tail @ ..] if modrm >> 3 & 7 == 7 && *modrm < 0xc0 => {
            // The base of a segment is unknown here. Dropping too much is still correct.
            let scope = match memory(*modrm, rex, tail) {
                Some(address) if !segment => Scope::Page(address),
                _ => Scope::All,
            };
            Some(invalidate(scope))
        }
        // INVPCID: its operand is in memory. QEMU's TCG does not offer it to guests.
        [0x0f, 0x38, 0x82, ..] if prefixes > 0 => Some(invalidate(Scope::All)),
        _ => None,
    }
}

/// INVLPG drops the page under the tag in use, and every entry of the tag that points to a table
/// (Intel SDM volume 3, 4.10.4.1).
fn invalidate(scope: Scope) -> Op {
    let (tags, pages) = match scope {
        Scope::Page(address) => (Tags::Current, Pages::At(address)),
        _ => (Tags::Every, Pages::All),
    };
    Op::Invalidate {
        scope,
        reach: Reach::Core,
        exact: Exact {
            tags,
            pages,
            tables: Tables::All,
            reach: Reach::Core,
        },
    }
}

/// Decodes the memory operand of a ModRM byte and the bytes that follow; None if it is cut off.
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

fn from_x86(displacement: u32) -> Option<u16> {
    (displacement >> 16 == X86_MAGIC && displacement & 0xffff < CODES)
        .then_some(displacement as u16)
}

/// The bits of an entry, or of CR3, that are an address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Walks page tables (Intel SDM volume 3, 4.5).
fn walk<M: GuestMemory>(context: &Context, vaddr: u64, memory: &M) -> Walk {
    let mut walk = Walk {
        entries: Vec::new(),
        paddr: None,
    };
    let mut table = context.root;
    let levels = if context.levels == 5 { 5 } else { 4 };
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let at = table + (vaddr >> shift & 511) * 8;
        let Some(entry) = memory.read_u64(at) else {
            return walk;
        };
        walk.entries.push((at, entry));
        if entry & 1 == 0 {
            return walk;
        }
        let offset = (1u64 << shift) - 1;
        if level == 0 || (level <= 2 && entry & 0x80 != 0) {
            walk.paddr = Some(entry & ADDRESS & !offset | vaddr & offset);
            return walk;
        }
        table = entry & ADDRESS;
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::super::op::Mmu;
    use super::super::tests::{LONG, compare};

    use super::*;

    #[test]
    fn control_registers_are_found_with_any_prefix() {
        let write = |to, from| Some(Op::Write { to, from });
        // mov %rax,%cr3; mov %r9,%cr3; mov %ecx,%cr0; mov %r8,%cr4 with a redundant REX.W.
        assert_eq!(decode(&[0x0f, 0x22, 0xd8]), write(&CR3, 0));
        assert_eq!(decode(&[0x41, 0x0f, 0x22, 0xd9]), write(&CR3, 9));
        assert_eq!(decode(&[0x0f, 0x22, 0xc1]), write(&CR0, 1));
        assert_eq!(decode(&[0x49, 0x0f, 0x22, 0xe0]), write(&CR4, 8));
        // Writes of CR2 and CR8 and reads of CR3 do not affect translation.
        assert_eq!(decode(&[0x0f, 0x22, 0xd0]), None);
        assert_eq!(decode(&[0x44, 0x0f, 0x22, 0xc0]), None);
        assert_eq!(decode(&[0x0f, 0x20, 0xd8]), None);
    }

    #[test]
    fn the_operand_of_invlpg_is_decoded() {
        let at = |bytes: &[u8]| match decode(bytes) {
            Some(Op::Invalidate {
                scope: Scope::Page(operand),
                reach: Reach::Core,
                ..
            }) => operand.address(0x70_0000, |number| 0x1000 * (u64::from(number) + 1)),
            other => panic!("{bytes:x?} is {other:?}"),
        };
        // (%rax); (%r15); 0x10(%rdi); -8(%rbx,%rcx,4); 0x12345678; 0x100(%rip); (%rsp)
        assert_eq!(at(&[0x0f, 0x01, 0x38]), 0x1000);
        assert_eq!(at(&[0x41, 0x0f, 0x01, 0x3f]), 0x10000);
        assert_eq!(at(&[0x0f, 0x01, 0x7f, 0x10]), 0x8010);
        assert_eq!(at(&[0x0f, 0x01, 0x7c, 0x8b, 0xf8]), 0x4000 + 4 * 0x2000 - 8);
        assert_eq!(
            at(&[0x0f, 0x01, 0x3c, 0x25, 0x78, 0x56, 0x34, 0x12]),
            0x1234_5678
        );
        assert_eq!(at(&[0x0f, 0x01, 0x3d, 0x00, 0x01, 0x00, 0x00]), 0x70_0100);
        assert_eq!(at(&[0x0f, 0x01, 0x3c, 0x24]), 0x5000);
        // Relative to GS: everything is dropped.
        let all = Some(invalidate(Scope::All));
        assert_eq!(decode(&[0x65, 0x0f, 0x01, 0x38]), all);
        // swapgs has the same opcode and no memory operand.
        assert_eq!(decode(&[0x0f, 0x01, 0xf8]), None);
    }

    #[test]
    fn returns_are_found_and_ordinary_instructions_are_not() {
        assert_eq!(decode(&[0x48, 0xcf]), Some(Op::Return));
        assert_eq!(decode(&[0xf4]), Some(Op::Halt));
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
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_cut_invlpg_drops_everything() {
        for bytes in [
            &[0x0f, 0x01, 0x3c, 0x25, 0x78][..],
            &[0x0f, 0x01, 0x3d, 0],
            &[0x0f, 0x01, 0x7c],
        ] {
            // The operand cannot be decoded, so everything is dropped.
            let all = Some(invalidate(Scope::All));
            assert_eq!(decode(bytes), all, "{bytes:x?}");
        }
    }

    #[test]
    fn x86_registers_have_the_numbers_of_instructions() {
        let x86 = &ARCH;
        assert_eq!(x86.general[4], x86.stack);
        assert_eq!(x86.general[1], "rcx");
        assert_eq!(x86.general[3], "rbx");
    }

    #[test]
    fn marks_are_no_operations_with_a_number() {
        for code in 0..CODES as u8 {
            let mark = [0x0f, 0x1f, 0x80, code, 0, 0x4f, 0x43];
            assert_eq!(decode(&mark), Some(Op::Mark(code.into())));
        }
        // A compiler's long nop; another displacement; a code that is too large.
        assert_eq!(from_x86(0), None);
        assert_eq!(from_x86(0x434e_0001), None);
        assert_eq!(from_x86(0x434f_0010), None);
    }

    #[test]
    fn a_root_that_is_written_again_is_a_flush_and_a_new_one_a_switch() {
        let mut mmu = Mmu::default();
        let mut write = |register: &SystemRegister, value| (register.write)(&mut mmu, value);
        assert_eq!(write(&CR3, 0x1000 | 3), None);
        let flush = Some(Invalidation::AddressSpace { root: 0x1000 });
        assert_eq!(write(&CR3, 1 << 63 | 0x1000 | 4), flush);
        assert_eq!(write(&CR3, 0x2000), None);
        // Turning paging on and changing a bit of CR4 flush; the same values again do not.
        let all = Some(Invalidation::All);
        assert_eq!(write(&CR0, CR0_PG | 1), all);
        assert_eq!(write(&CR0, CR0_PG), None);
        assert_eq!(write(&CR4, 1 << 7), all);
        assert_eq!(write(&CR4, 1 << 7), None);
        assert_eq!((mmu.context.paging, mmu.context.levels), (true, 4));
        let _ = (CR4.write)(&mut mmu, CR4_LA57);
        assert_eq!((mmu.context.root, mmu.context.levels), (0x2000, 5));
    }

    #[test]
    fn an_audit_drops_what_the_kernel_counts_on() {
        // Without PCID a write of CR3 drops all of the user's entries, whatever its root.
        let mut mmu = Mmu::default();
        assert_eq!(written(&CR3, &mmu, 0x1000), Some(Drop::BUT_GLOBAL));
        assert_eq!(written(&CR0, &mmu, CR0_PG), Some(Drop::ALL));
        assert_eq!(written(&CR0, &mmu, 1), None);
        assert_eq!(written(&CR4, &mmu, 1 << 7), Some(Drop::ALL));
        assert_eq!(written(&CR4, &mmu, CR4_PCIDE), None);
        assert_eq!(written(&CR4, &mmu, CR4_SMEP), Some(Drop::ALL));
        // With PCID it drops those of the new PCID, or none.
        let _ = (CR4.write)(&mut mmu, CR4_PCIDE | CR4_SMEP);
        assert_eq!(written(&CR3, &mmu, 0x1003), Some(Drop::tag(3)));
        assert_eq!(written(&CR3, &mmu, CR3_KEEP | 0x1003), None);
        assert_eq!(written(&CR4, &mmu, CR4_PCIDE), None);
        assert_eq!(written(&CR4, &mmu, CR4_SMEP), Some(Drop::ALL));
        let _ = (CR3.write)(&mut mmu, CR3_KEEP | 0x1003);
        assert_eq!((mmu.context.root, mmu.context.asid), (0x1000, 3));
    }

    #[test]
    fn the_walk_agrees_with_the_models_on_random_tables() {
        let context = Context {
            paging: true,
            root: 0x3000,
            levels: 4,
            ..Context::default()
        };
        let canonical = |dice: u64| ((dice as i64) << 16 >> 16) as u64;
        compare("x86-64", &context, LONG, canonical, |memory, vaddr| {
            walk(&context, vaddr, memory)
        });
    }

    #[test]
    fn the_error_code_says_what_faulted() {
        struct Stopped(u64);
        impl Cpu for Stopped {
            fn general(&self, _: u8) -> u64 {
                0
            }
            fn named(&self, name: &str) -> u64 {
                if name == "cr2" { 0x7000 } else { 0x100 }
            }
            fn memory(&self, vaddr: u64, to: &mut [u8]) -> bool {
                assert_eq!(vaddr, 0x100);
                to.copy_from_slice(&self.0.to_le_bytes());
                true
            }
        }
        // Faults of user code on absent pages: read, write, fetch.
        assert_eq!(fault(&Stopped(4)), (AccessKind::Read, 0x7000));
        assert_eq!(fault(&Stopped(6)), (AccessKind::Write, 0x7000));
        assert_eq!(fault(&Stopped(0x14)), (AccessKind::Fetch, 0x7000));
    }
}
