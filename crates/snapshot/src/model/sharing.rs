// SPDX-License-Identifier: GPL-2.0-or-later
//! What a process shares now on a kernel with Cohort.

/// `/proc/PID/cohort`. A table is a last-level page table if no level is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Number of the cohort: a zygote and its descendants have the same. 0 for none.
    pub cohort: u64,
    /// Its forks share.
    pub zygote: bool,
    /// Number of the group, whose members need not be forked from one another. 0 for none; nothing
    /// if the kernel has no groups.
    pub group: Option<u64>,
    /// The group's name; empty if it has none.
    pub group_name: String,
    /// Tables that have other users.
    pub shared_tables: u64,
    /// Those of them that are charged to this process. Each shared table has one owner.
    pub owned_tables: u64,
    /// Tables that others of its group may join. Nothing if the kernel has no groups.
    pub open_tables: Option<u64>,
    /// PMD tables that have other users; the tables below them are among `shared_tables`.
    pub shared_pmd_tables: u64,
    /// Bytes in memory that tables map which others own.
    pub borrowed: u64,
    /// Bytes in swap that they map.
    pub borrowed_swap: u64,
}

impl Sharing {
    /// Tables that the process would have beside those that exist, did it not share.
    pub fn saved_tables(&self) -> u64 {
        self.shared_tables.saturating_sub(self.owned_tables)
    }

    /// Whether it is neither in a cohort nor in a group, and shares nothing.
    pub fn is_none(&self) -> bool {
        [
            self.cohort,
            self.group.unwrap_or(0),
            self.shared_tables,
            self.shared_pmd_tables,
            self.open_tables.unwrap_or(0),
        ]
        .iter()
        .all(|&number| number == 0)
    }
}
