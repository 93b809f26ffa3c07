// SPDX-License-Identifier: GPL-2.0-or-later
//! What differs between the machines that QEMU emulates, as data.

use crate::decode::{self, Op};
use crate::ram::{Layout, MICROVM, VIRT};

/// A machine.
#[derive(Debug)]
pub struct Target {
    /// QEMU's name.
    pub name: &'static str,
    /// QEMU's names of the general registers, by their number in instructions.
    pub general: &'static [&'static str],
    /// The program counter.
    pub pc: &'static str,
    /// The stack pointer.
    pub stack: &'static str,
    /// The number of the general register with a mark's argument.
    pub mark_argument: u8,
    /// Other registers that are read.
    pub system: &'static [&'static str],
    /// The register that tells user mode, which of its bits do, and what they are then.
    pub user_mode: (&'static str, u64, u64),
    /// The register that holds the processor's own area of the kernel while user code runs.
    pub kernel_area: Option<&'static str>,
    /// The page tables' format, as models name it.
    pub page_tables: &'static str,
    /// Where the machine has its memory.
    pub layout: Layout,
    /// From here on addresses are the kernel's.
    pub kernel: u64,
    /// The bits of a root register that are the table's address.
    pub root: u64,
    /// Where the address space's number is.
    pub asid: Asid,
    /// What an instruction means.
    pub decode: fn(&[u8]) -> Option<Op>,
}

/// Where a processor keeps the number of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asid {
    /// Nowhere that is watched.
    None,
    /// In the low eight bits of CONTEXTIDR (ARMv7).
    ContextId,
    /// In the upper 16 bits of the root that TCR.A1 chooses (ARMv8).
    Root,
}

const X86_64: Target = Target {
    name: "x86_64",
    general: &[
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ],
    pc: "rip",
    stack: "rsp",
    mark_argument: 0,
    system: &["cr2", "cs", "k_gs_base"],
    user_mode: ("cs", 3, 3),
    // SWAPGS has exchanged them on the way out.
    kernel_area: Some("k_gs_base"),
    page_tables: "x86-64",
    layout: MICROVM,
    kernel: 1 << 63,
    // The others are PCID or cache control, and "keep entries".
    root: 0x000f_ffff_ffff_f000,
    asid: Asid::None,
    decode: decode::x86,
};

const AARCH64: Target = Target {
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
    decode: decode::a64,
};

const ARM: Target = Target {
    name: "arm",
    general: &[
        "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp",
        "lr", "pc",
    ],
    pc: "pc",
    stack: "sp",
    mark_argument: 0,
    system: &["cpsr"],
    // The mode is User, 0b10000.
    user_mode: ("cpsr", 0xf, 0),
    kernel_area: None,
    page_tables: "armv7-short",
    layout: VIRT,
    // PAGE_OFFSET of a kernel with the usual 3:1 split.
    kernel: 0xc000_0000,
    // The lower ones are cacheability.
    root: 0xffff_ff80,
    asid: Asid::ContextId,
    decode: decode::a32,
};

/// All of them.
pub const TARGETS: &[Target] = &[X86_64, AARCH64, ARM];

/// The machine that QEMU calls `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The names of all of them.
pub fn names() -> String {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_whole() {
        for target in TARGETS {
            assert_eq!(find(target.name).map(|t| t.name), Some(target.name));
            assert!(target.general.len() >= 16, "{}", target.name);
            assert!(usize::from(target.mark_argument) < target.general.len());
            // Any machine takes this guest's tables.
            for model in translation::Model::builtin_names() {
                let model = translation::Model::builtin(model).unwrap();
                let taken = model.with_page_tables(target.page_tables);
                assert!(taken.is_ok(), "{}: {:?}", target.name, taken.err());
            }
            // What is read by name must be among what is looked up.
            for name in [Some(target.user_mode.0), target.kernel_area] {
                assert!(name.is_none_or(|name| target.system.contains(&name)));
            }
            let mut names: Vec<_> = target.general.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), target.general.len(), "{}", target.name);
        }
        assert!(find("sparc").is_none());
        assert_eq!(names(), "x86_64, aarch64, arm");
    }

    #[test]
    fn x86_registers_have_the_numbers_of_instructions() {
        let x86 = find("x86_64").unwrap();
        assert_eq!(x86.general[4], x86.stack);
        assert_eq!(x86.general[1], "rcx");
        assert_eq!(x86.general[3], "rbx");
    }
}
