// SPDX-License-Identifier: GPL-2.0-or-later
//! What differs between the machines that QEMU emulates, as data.

pub(crate) mod arm;
pub(crate) mod arm64;
pub mod list;
pub mod op;
mod words;
pub(crate) mod x86;

use crate::ram::Layout;
use op::Op;

/// An architecture, with the machine that QEMU makes of it.
#[derive(Debug)]
pub struct Arch {
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
    /// What an instruction means.
    pub decode: fn(&[u8]) -> Option<Op>,
}

/// A walk: what it read, and the physical address if it got there.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    /// Addresses and values of the entries, from the root on.
    pub entries: Vec<(u64, u64)>,
    /// The result.
    pub paddr: Option<u64>,
}
