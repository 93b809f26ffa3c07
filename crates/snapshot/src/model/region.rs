// SPDX-License-Identifier: GPL-2.0-or-later
//! Regions of address spaces.

use super::word::SHARED;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

/// Names a file of a snapshot.
pub type FileId = u32;

/// The object that a region maps: a file, or a name that the kernel gives to other memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Backing {
    /// Device number as `/proc/PID/maps` has it.
    pub device: (i32, i32),
    /// 0 for memory without a file.
    pub inode: u64,
    /// Path, `[heap]` and the like, or nothing.
    pub path: String,
}

impl Backing {
    /// A file, or memory that is named like one (`memfd`, `SYSV…`, `/dev/zero`).
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }
}

/// All that regions map, each once.
#[derive(Default)]
pub struct Files {
    inner: Mutex<(HashMap<Backing, FileId>, Vec<Backing>)>,
}

impl Files {
    /// Names what a region maps.
    pub fn name(&self, backing: Backing) -> FileId {
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(&id) = inner.0.get(&backing) {
            return id;
        }
        let id = inner.1.len() as FileId;
        inner.1.push(backing.clone());
        inner.0.insert(backing, id);
        id
    }

    /// All of them, in the order of their names.
    pub fn finish(self) -> Vec<Backing> {
        self.inner
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .1
    }
}

/// The use of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Code of the main program.
    Program,
    /// Code of another file.
    Library,
    /// Code that was made at run time.
    Generated,
    /// Mapped private and never written: constants, and files that are read.
    File,
    /// Private and writable pages of a file.
    Data,
    /// The heap.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Other private memory without a file.
    Anonymous,
    /// `MAP_SHARED`.
    Shared,
    /// The kernel's: vdso and its data, and drivers'.
    Special,
}

impl Kind {
    /// Code.
    pub fn code(self) -> bool {
        matches!(self, Kind::Program | Kind::Library | Kind::Generated)
    }

    /// As shown.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Program => "program code",
            Kind::Library => "library code",
            Kind::Generated => "generated code",
            Kind::File => "file, constants",
            Kind::Data => "library data",
            Kind::Heap => "heap",
            Kind::Stack => "stack",
            Kind::Anonymous => "anonymous",
            Kind::Shared => "shared memory",
            Kind::Special => "special",
        }
    }
}

/// A region of an address space. Addresses are in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First page.
    pub start: u64,
    /// Behind the last page.
    pub end: u64,
    /// Of the first page in the file, in pages.
    pub offset: u64,
    /// The mapped file.
    pub file: FileId,
    /// `word::{READ, WRITE, EXEC, SHARED}`.
    pub perms: u8,
    /// Its use.
    pub kind: Kind,
    /// Cohort's kernel may share tables that map it (cohort_vma_shareable() in mm/cohort/share.c),
    /// as far as can be told: not stacks, drivers' mappings, and what is locked into memory.
    pub shareable: bool,
    /// Pages in memory, those of huge pages included.
    pub present: u32,
    /// Entries of huge pages; their pages count as in memory, but not in the windows below.
    pub huge: u32,
    /// Pages in swap.
    pub swapped: u32,
    /// Pages in memory that are anonymous.
    pub anonymous: u32,
    /// Pages used in the interval, where one was watched.
    pub referenced: Option<u32>,
    /// Windows of 64 KB with at least one page in memory.
    pub small_windows: u32,
    /// Windows of 2 MB with at least one page in memory.
    pub large_windows: u32,
}

impl Region {
    /// Pages of address space.
    pub fn pages(&self) -> u64 {
        self.end - self.start
    }

    /// A stock fork copies its entries: it is private and holds anonymous pages, or a driver's
    /// (vma_needs_copy() in mm/memory.c).
    pub fn copied(&self) -> bool {
        self.perms & SHARED == 0 && (self.anonymous > 0 || self.swapped > 0)
            || self.kind == Kind::Special
    }

    /// The mapped object and the rights, in one number.
    pub fn mapped(&self) -> u64 {
        u64::from(self.file) << 8 | u64::from(self.perms)
    }
}
