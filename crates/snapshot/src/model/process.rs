// SPDX-License-Identifier: GPL-2.0-or-later
//! What identifies a process, and why one is missing.

use serde::{Deserialize, Serialize};

/// Which process it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub ppid: i32,
    /// Clock ticks from boot to its start: a later process of the same number has others.
    pub start_time: u64,
    /// Effective user.
    pub uid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Path of the program; empty where that may not be read.
    pub exe: String,
    /// Its command line, words separated by a space.
    pub command: String,
    /// Its control group: of version 2 if it is in one, else the deepest of version 1.
    pub cgroup: String,
    /// Size of its page tables of all levels, as the kernel reports it, in bytes.
    pub table_bytes: u64,
    /// Memory that it has locked (`mlock`), in bytes.
    pub locked_bytes: u64,
    /// Page faults since its start that needed no reading from a disk.
    pub faults: u64,
}

/// Why a process is not in a snapshot. A capture holds the places of these, so new ones come last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It ended before it was read to its end.
    Vanished,
    /// We may not read it.
    Refused,
    /// It shares the whole address space of another one (`CLONE_VM`), which is counted.
    SharesMemoryOf(i32),
    /// Its files could not be read or understood.
    Unreadable(String),
    /// It has ended, and its parent has not waited for it yet (a zombie).
    Ended,
    /// It is a kernel thread, which has no memory of its own.
    Kernel,
    /// It is the process that reads.
    Own,
}

/// A process that is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its number.
    pub pid: i32,
    /// Its name, where that was known.
    pub name: String,
    /// Why.
    pub reason: Reason,
}
