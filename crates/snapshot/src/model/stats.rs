// SPDX-License-Identifier: GPL-2.0-or-later
//! What the entries of a table map, as counts.

use serde::{Deserialize, Serialize};

/// Counts of the pages that a table maps. Every entry is in exactly one count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStats {
    /// Anonymous pages mapped once.
    pub private: u16,
    /// Anonymous pages mapped more often: copied when written, or not distinguished.
    pub cow: u16,
    /// Merged pages.
    pub ksm: u16,
    /// Pages of files in private regions.
    pub file: u16,
    /// Pages of shared regions.
    pub shared: u16,
    /// The zero page.
    pub zero: u16,
    /// Pages without an account: the kernel's and devices'.
    pub special: u16,
    /// Entries of swap.
    pub swapped: u16,
    /// Entries of huge pages.
    pub huge: u16,
    /// Pages that the kernel charges to the process, those of huge pages included.
    pub resident: u16,
    /// The share of the pages that is the process's, in 4096ths of a page, as smaps counts it.
    pub proportional: u64,
}

impl TableStats {
    /// Entries in all counts together.
    pub fn entries(&self) -> u64 {
        [
            self.private,
            self.cow,
            self.ksm,
            self.file,
            self.shared,
            self.zero,
            self.special,
            self.swapped,
            self.huge,
        ]
        .into_iter()
        .map(u64::from)
        .sum()
    }
}
