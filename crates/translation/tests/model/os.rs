// SPDX-License-Identifier: GPL-2.0-or-later
//! A little operating system for tests: x86-64 page tables in sparse memory.

use translation::{Context, GuestMemory, SparseMemory};

/// Bits of an entry: present, writable, user.
pub const RW: u64 = 7;
/// Present and user, not writable.
pub const RO: u64 = 5;
/// Large page.
pub const PS: u64 = 0x80;
/// Global.
pub const GLOBAL: u64 = 0x100;
/// BabelFish's bits of a pmd_t: ORPC and O (ISCA'20 Figure 5a), and the cohort kernel's mark.
pub const OR_PC: u64 = 1 << 9;
pub const OWNED: u64 = 1 << 10;
pub const COHORT: u64 = 1 << 9;

/// Memory with page tables in it.
#[derive(Default)]
pub struct Os {
    pub memory: SparseMemory,
    tables: u64,
}

impl Os {
    pub fn new() -> Self {
        Self {
            memory: SparseMemory::new(),
            tables: 0x10_0000,
        }
    }

    /// A new page-table page. Each begins in cache sets of its own in the small tests.
    pub fn table(&mut self) -> u64 {
        self.tables += 0x1000;
        self.tables
    }

    /// Where the entry of a level (39, 30, 21 or 12) for an address is; tables are made on the way.
    pub fn slot(&mut self, root: u64, vaddr: u64, level: u32) -> u64 {
        let mut table = root;
        for shift in [39, 30, 21, 12] {
            let slot = table + (vaddr >> shift & 511) * 8;
            if shift == level {
                return slot;
            }
            let entry = self.memory.read_u64(slot).unwrap();
            table = if entry & 1 == 0 {
                let new = self.table();
                self.memory.write_u64(slot, new | RW);
                new
            } else {
                entry & 0x000f_ffff_ffff_f000
            };
        }
        unreachable!("there are four levels")
    }

    /// Maps a page; `flags` decide the size: `PS` maps 2 MB.
    pub fn map(&mut self, root: u64, vaddr: u64, paddr: u64, flags: u64) {
        let slot = self.slot(root, vaddr, if flags & PS != 0 { 21 } else { 12 });
        self.memory.write_u64(slot, paddr | flags);
    }

    /// Lets a second address space use the table of the first one's 2 MB around `vaddr`.
    pub fn share(&mut self, from: u64, to: u64, vaddr: u64, bits: u64) {
        let source = self.slot(from, vaddr, 21);
        let entry = self.memory.read_u64(source).unwrap() | bits;
        self.memory.write_u64(source, entry);
        let target = self.slot(to, vaddr, 21);
        self.memory.write_u64(target, entry);
    }

    /// Changes bits of the entry of a level.
    pub fn change(&mut self, root: u64, vaddr: u64, level: u32, set: u64, clear: u64) {
        let slot = self.slot(root, vaddr, level);
        let entry = self.memory.read_u64(slot).unwrap();
        self.memory.write_u64(slot, entry & !clear | set);
    }
}

/// The context of an address space.
pub fn context(root: u64) -> Context {
    Context {
        paging: true,
        root,
        ..Context::default()
    }
}
