// SPDX-License-Identifier: GPL-2.0-or-later
//! The interface of an architecture: data, and functions for what data cannot express.
//!
//! Each architecture is one file here and one line in `list.rs`. No code outside this folder names
//! one.

mod arm;
mod arm64;
pub mod list;
pub mod op;
pub mod registers;
mod words;
mod x86;

use crate::ram::{Layout, Ram};
use op::{Mmu, Op, SystemRegister};
use translation::audit::Habits;
use translation::tlbi::Drop;
use translation::{AccessKind, Context};

/// An architecture and the machine of it that QEMU emulates.
#[derive(Debug)]
pub struct Arch {
    /// QEMU's name of the target.
    pub name: &'static str,
    /// QEMU's names of the general registers, by their number in instructions.
    pub general: &'static [&'static str],
    /// The program counter.
    pub pc: &'static str,
    /// The stack pointer.
    pub stack: &'static str,
    /// The number of the general register with a mark's argument.
    pub mark_argument: u8,
    /// Bytes of a pointer.
    pub word: usize,
    /// QEMU's names of the other registers that the plugin reads.
    pub system: &'static [&'static str],
    pub user_mode: UserMode,
    /// How to follow its Linux kernel. Without it, processes and page faults are not reported.
    pub linux: Option<Linux>,
    /// What drops TLB entries on a processor that is as the guest's kernel believes it to be. Without
    /// it, flushes cannot be audited.
    pub flushes: Option<Flushes>,
    /// The page tables' format, by its name in models.
    pub page_tables: &'static str,
    /// The check mode's walk of these tables. It shares no code with the model's.
    pub walk: Walker,
    /// Where its usual machine has its memory; the argument `base` names another place.
    pub layout: Layout,
    /// The first address of the kernel's half.
    pub kernel: u64,
    /// What to do at an instruction; None for those that need not be watched.
    pub decode: fn(&[u8]) -> Option<Op>,
    /// Which registers the instructions of a block read and write, for the model's clock.
    pub registers: registers::Decoder,
}

/// The processor is in user mode while these bits of this register have this value.
#[derive(Debug)]
pub struct UserMode {
    /// One of [`Arch::system`].
    pub register: &'static str,
    pub mask: u64,
    pub value: u64,
}

/// What the flush audit must know of an architecture.
///
/// The timing model may keep more entries than the kernel counts on: it models tags on a processor
/// that has none. An audit must drop exactly what the kernel knows to be dropped.
#[derive(Debug)]
pub struct Flushes {
    /// What a write of this value to a system register drops. Called before the write.
    pub written: fn(&SystemRegister, &Mmu, u64) -> Option<Drop>,
    /// A page fault drops the entries of its address.
    pub fault_drops: bool,
    /// The bits of an address that are translated.
    pub address: u64,
    /// What Linux does with the tables.
    pub habits: Habits,
}

/// Where Linux keeps the running process and handles page faults.
#[derive(Debug)]
pub struct Linux {
    /// The register with the address of the processor's own area while user code runs, one of
    /// [`Arch::system`].
    pub area: &'static str,
    /// The same while kernel code runs.
    pub kernel_area: &'static str,
    /// The symbol of the pointer to the running task in that area.
    pub current: &'static str,
    /// The entries into the page fault handler; empty where faults are not followed.
    pub faults: &'static [FaultEntry],
    /// Bytes that the handler pops between such an entry and its return from the exception.
    pub taken_off: u64,
}

/// An entry into the page fault handler.
#[derive(Debug)]
pub struct FaultEntry {
    /// The symbol of its first instruction.
    pub symbol: &'static str,
    /// Reads the access that faulted and its address. Called before that instruction.
    pub read: fn(&dyn Cpu) -> (AccessKind, u64),
}

/// The registers and memory of the core that runs.
pub trait Cpu {
    /// The general register with this number; 0 if it cannot be read.
    fn general(&self, number: u8) -> u64;
    /// The register with this name, one that the architecture lists; 0 if it cannot be read.
    fn named(&self, name: &str) -> u64;
    /// Reads memory by virtual address; false if it cannot be read.
    fn memory(&self, vaddr: u64, to: &mut [u8]) -> bool;
}

/// Reads a pointer of so many bytes by virtual address; None if it cannot be read.
pub fn pointer(bytes: usize, vaddr: u64, read: impl FnOnce(u64, &mut [u8]) -> bool) -> Option<u64> {
    let mut word = [0; 8];
    // Addresses of a 32-bit kernel wrap at 32 bits.
    let vaddr = vaddr & (u64::MAX >> (64 - 8 * bytes));
    read(vaddr, &mut word[..bytes]).then(|| u64::from_le_bytes(word))
}

/// Walks the page tables of a context for a virtual address.
pub type Walker = fn(&Context, u64, &Ram) -> Walk;

/// The result of a walk.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    /// Addresses and values of the entries, from the root on.
    pub entries: Vec<(u64, u64)>,
    /// None without a translation.
    pub paddr: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use translation::SparseMemory;
    use translation::format::Format;

    /// Bits of 64-bit entries that leave addresses within a megabyte. ARMv8's contiguous bit (52)
    /// is clear: it promises that neighbours agree, which random entries do not.
    pub const LONG: u64 = !0x001f_ffff_fff0_0000;

    /// Compares a walk with the model's on tables of random entries from 0 on. Both must translate
    /// many addresses, to the same result.
    pub fn compare(
        name: &str,
        context: &Context,
        mask: u64,
        vaddr: impl Fn(u64) -> u64,
        own: impl Fn(&SparseMemory, u64) -> Walk,
    ) {
        let format = Format::builtin(name).unwrap();
        let (mut state, mut translated) = (1u64, 0);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..40 {
            let mut memory = SparseMemory::new();
            // Entries point into these pages again; three of four are present.
            for at in (0..0x10_0000).step_by(8) {
                memory.write_u64(at, (random() | random() & 0x3_0000_0003) & mask);
            }
            for _ in 0..4_000 {
                let vaddr = vaddr(random());
                let theirs = format.walk(&memory, context, vaddr);
                let expected = theirs
                    .result
                    .ok()
                    .map(|page| page.frame | vaddr & ((1 << page.shift) - 1));
                let found = own(&memory, vaddr);
                assert_eq!(found.paddr, expected, "{name}, round {round}: {vaddr:#x}");
                translated += u32::from(expected.is_some());
            }
        }
        assert!(translated > 1_000, "{name}: {translated}");
    }
}
