// SPDX-License-Identifier: GPL-2.0-or-later
//! Mistakes of a kernel that runs BabelFish: a process meets a shared TLB entry that says other than
//! the process's own page tables.
//!
//! The machine compares at each hit on a shared entry, when it may: x86 lets a processor use an old
//! entry until the kernel has flushed it, so a difference is a mistake only if no flush can be under
//! way. That is taken to be so while no core is in the kernel (a core that has halted is not), since
//! the cohort kernel changes who shares a table, and sets bits and drops entries, in one critical
//! section. A fault is an exception: it interrupts no such section, so its own core does not count.
//!
//! One flush may wait longer: reclaim collects pages, and may be preempted before it flushes. The
//! guest's own translation tells that apart. QEMU has TLBs, too, which the kernel flushes as it would
//! a process's own entries: where the access used the page that the shared entry has, the process's
//! own entry would be as old, and to find that is the flush audit's work.
//!
//! An entry that is found wrong is dropped, so it counts once.
//!
//! A process that has nothing at an address, no region either, has no bit there, and meets what others
//! share. The kernel does not promise otherwise: such a *stray* is counted apart. It is told from a
//! mistake by what the fault gives that the access takes without the entry: a page, or none.

use crate::audit::{more, rights};
use crate::entry::Entry;
use crate::format::{Translation, Walk};
use serde::{Serialize, Serializer};

/// Violations that are kept for a look.
pub(crate) const KEPT: usize = 16;

/// How the entry is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// The process's tables have no page there.
    Gone,
    /// They have another page, or one of another size.
    Other,
    /// They allow less.
    Rights,
    /// A walk found the process sharing a table, and with a bit in its PC bitmask or without a
    /// MaskPage that has one.
    Masked,
}

/// A violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// How the entry is wrong.
    pub wrong: Wrong,
    /// The core.
    pub core: usize,
    /// The process's CCID.
    pub ccid: u16,
    /// The process's number in `pid_list`s.
    pub pid: u32,
    /// Its root.
    pub root: u64,
    /// The address, as the process has it.
    pub vaddr: u64,
    /// What the entry says.
    #[serde(serialize_with = "page")]
    pub held: Option<Translation>,
    /// What the process's own tables say.
    #[serde(serialize_with = "page")]
    pub own: Option<Translation>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.wrong {
            Wrong::Masked => "which a walk found shared against its PC bitmask",
            _ => "of a shared entry",
        };
        write!(
            f,
            "core {}, CCID {}, process {} ({:#x}) at {:#x}: {} {what}, its own tables have {}",
            self.core,
            self.ccid,
            self.pid,
            self.root,
            self.vaddr,
            words(&self.held),
            words(&self.own)
        )
    }
}

fn words(page: &Option<Translation>) -> String {
    page.map_or("nothing".to_owned(), |page| {
        let size = crate::entry::size_name(page.shift);
        format!("{:#x}, {size} ({})", page.frame, rights(page.attr))
    })
}

fn page<S: Serializer>(page: &Option<Translation>, serializer: S) -> Result<S::Ok, S::Error> {
    words(page).serialize(serializer)
}

/// How an entry differs from a walk of the process's tables for its address `vaddr`. `used`: the guest
/// itself used the entry's page. A difference of layouts leaves the offset in a page as it is.
pub(crate) fn compare(entry: &Entry, vaddr: u64, walk: &Walk, used: bool) -> Option<Wrong> {
    let Ok(page) = walk.result else {
        return (!used).then_some(Wrong::Gone);
    };
    let there = |frame: u64, shift: u32| frame | vaddr & ((1 << shift) - 1);
    if there(page.frame, page.shift) != there(entry.frame, entry.shift) {
        return (!used).then_some(Wrong::Other);
    }
    match more(entry.attr, page.attr) {
        true => Some(Wrong::Rights),
        false => (page.shift != entry.shift).then_some(Wrong::Other),
    }
}
