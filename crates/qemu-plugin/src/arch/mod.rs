// SPDX-License-Identifier: GPL-2.0-or-later
//! What differs between the machines that QEMU emulates, as data.

pub(crate) mod arm;
pub(crate) mod arm64;
pub mod list;
pub mod op;
mod words;
pub(crate) mod x86;

use crate::ram::{Layout, Ram};
use op::Op;
use translation::{AccessKind, Context};

/// An architecture, with the machine that QEMU makes of it.
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
    /// Other registers that are read.
    pub system: &'static [&'static str],
    /// How user mode is told.
    pub user_mode: UserMode,
    /// What is known of its Linux kernel; without it processes and page faults are not seen.
    pub linux: Option<Linux>,
    /// The page tables' format, as models name it.
    pub page_tables: &'static str,
    /// The check mode's walk of these tables. It shares no code with the model's.
    pub walk: Walker,
    /// Where the machine has its memory.
    pub layout: Layout,
    /// Addresses from here on are the kernel's.
    pub kernel: u64,
    /// What an instruction means, if it means anything to us.
    pub decode: fn(&[u8]) -> Option<Op>,
}

/// The processor is in user mode while these bits of this register have this value.
#[derive(Debug)]
pub struct UserMode {
    /// One of [`Arch::system`].
    pub register: &'static str,
    /// The bits.
    pub mask: u64,
    /// Their value.
    pub value: u64,
}

/// Where Linux keeps the running process, and where page faults enter it.
#[derive(Debug)]
pub struct Linux {
    /// The register with the address of the processor's own area while user code runs, one of
    /// [`Arch::system`].
    pub area: &'static str,
    /// The symbol of the pointer to the running task in that area.
    pub current: &'static str,
    /// The ways into the page fault's handling.
    pub faults: &'static [FaultEntry],
    /// Bytes that are on the stack at such an entry and have been taken off at the return.
    pub taken_off: u64,
}

/// A way into the page fault's handling.
#[derive(Debug)]
pub struct FaultEntry {
    /// The symbol of its first instruction.
    pub symbol: &'static str,
    /// The access that faulted and its address, before that instruction is executed.
    pub read: fn(&dyn Cpu) -> (AccessKind, u64),
}

/// The core that runs.
pub trait Cpu {
    /// The general register with this number; 0 if it cannot be read.
    fn general(&self, number: u8) -> u64;
    /// The register with this name, one that the architecture lists; 0 if it cannot be read.
    fn named(&self, name: &str) -> u64;
    /// Reads memory by virtual address; false if it is not there.
    fn memory(&self, vaddr: u64, to: &mut [u8]) -> bool;
}

/// Walks the tables of a context for an address.
pub type Walker = fn(&Context, u64, &Ram) -> Walk;

/// A walk: what it read, and the physical address if it got there.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    /// Addresses and values of the entries, from the root on.
    pub entries: Vec<(u64, u64)>,
    /// The result.
    pub paddr: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use translation::SparseMemory;
    use translation::format::Format;

    /// Bits of 64-bit entries that leave addresses within a megabyte. ARMv8's contiguous bit (52)
    /// is left out: it says that neighbours agree, which random ones do not.
    pub const LONG: u64 = !0x001f_ffff_fff0_0000;

    /// Compares with the model's walker on tables of random entries from 0 on; fails unless both
    /// translated many addresses, and the same.
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
            // Entries that point into these pages again, and three of four are present.
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
