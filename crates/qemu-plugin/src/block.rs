// SPDX-License-Identifier: GPL-2.0-or-later
//! What is kept of translated code until it is executed.

use crate::arch::FaultEntry;
use crate::arch::op::Op;

/// The part of a block that lies in one page: it is fetched at once.
#[derive(Debug)]
pub struct Block {
    /// Where it was translated. The page may be mapped elsewhere, see [`Block::space`].
    pub vaddr: u64,
    /// Where it is in memory; nothing for code in a device.
    pub paddr: Option<u64>,
    /// Bytes.
    pub size: u32,
    /// Instructions.
    pub instructions: u32,
    /// It is the kernel's code.
    pub kernel: bool,
    /// The address space in which `vaddr` is known to be right. QEMU translates a physical page
    /// once and runs it wherever it is mapped (CF_PCREL), so another process may have the same
    /// code at another address.
    pub space: u64,
}

/// An instruction that changes translations, a mark, or the page fault's entry.
#[derive(Debug)]
pub struct Site {
    /// What it is.
    pub what: Event,
    /// The address behind it.
    pub next: u64,
}

/// What a watched instruction is.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// Of the instruction set.
    Op(Op),
    /// The first instruction of the kernel's handling of a page fault.
    PageFault(&'static FaultEntry),
}
