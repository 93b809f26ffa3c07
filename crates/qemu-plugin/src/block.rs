// SPDX-License-Identifier: GPL-2.0-or-later
//! What the plugin keeps about translated code until QEMU executes it.

use crate::arch::FaultEntry;
use crate::arch::op::Op;

/// The part of a translated block that lies in one page. It counts as one fetch.
#[derive(Debug)]
pub struct Block {
    /// The address in the space named by `space`.
    pub vaddr: u64,
    /// None for code in device memory.
    pub paddr: Option<u64>,
    /// In bytes.
    pub size: u32,
    /// How many begin in this part.
    pub instructions: u32,
    /// What each reads and writes. Empty if nobody wants to know.
    pub code: Vec<translation::Op>,
    /// The number by which the engine knows `code`, from when it is first executed.
    pub number: Option<u32>,
    /// True if the address is in the kernel's half.
    pub kernel: bool,
    /// The number of the kernel function that it is part of, and whether it is the function's
    /// first; used by a profile only.
    pub function: (u32, bool),
    /// The address space (`Core::space`) in which `vaddr` has been checked. QEMU translates a
    /// physical page once and runs it wherever it is mapped (CF_PCREL), so another process may have
    /// the same code at another address.
    pub space: u64,
}

/// A watched instruction.
#[derive(Debug)]
pub struct Site {
    pub what: Event,
    /// The address of the next instruction.
    pub next: u64,
}

/// Why an instruction is watched.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// It changes translations, returns from an exception, or is a mark.
    Op(Op),
    /// It is the first instruction of the kernel's page fault handler.
    PageFault(&'static FaultEntry),
}
