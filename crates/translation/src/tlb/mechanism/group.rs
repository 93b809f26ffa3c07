// SPDX-License-Identifier: GPL-2.0-or-later
//! Global entries for the code of a group of processes, on machines without ARM's domains: what
//! EuroSys'16 section 3.2.3 leaves open for them.
//!
//! A walk makes an entry global if its page is executable and not writable, and the table that holds
//! the page's entry is marked as shared by a cohort. Such an entry hits for every member of that
//! cohort, whatever the tag. Something must keep it from others:
//!
//! - `leave = "all"`: a switch from a member to a process of another group, or of none, drops
//!   everything (x86: INVPCID type 2, or CR4.PGE toggled).
//! - `leave = "group"`: that switch drops the group's entries alone (ARMv8: RVAALE1 over the
//!   addresses of the group's code).
//! - `leave = "none"`: nothing is dropped. An entry carries its group's number, as an overlay index
//!   or a domain does, and a process that may not use it takes a fault, whose handler drops what
//!   matches the address.
//!
//! A switch to a kernel thread or to idle drops nothing: it uses no address of user space.
//!
//! A member whose own tables do not say what the group's entry says has no use of the entry. A kernel
//! would take such a process out of its group; the model compares each hit with the tables instead,
//! passes the entry over, and counts. It drops an entry that says another page or more rights.

use super::{After, Counts as AllCounts, Drop, Event, Figure, Leave, Looked, Lookup, Match};
use super::{Mechanism, Setup, Terms, Walked, Way};
use crate::entry::attr;
use crate::event::Identity;
use crate::format::{Test, Walk};
use crate::memory::GuestMemory;
use crate::tally::counters;
use serde::Deserialize;

/// The attribute bit of a group's entries; `extra` is the group's number.
const GROUP: u16 = 1 << attr::MECHANISM_SHIFT;

/// Which entries are global to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Global {
    /// Those of executable pages that are not writable, in tables that a cohort shares.
    CohortCode,
}

/// What a switch to a process outside the group drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaving {
    /// Everything, the kernel's global entries and walk caches too.
    All,
    /// The group's global entries.
    Group,
    /// Nothing: a process outside the group takes a fault at an entry of the group.
    None,
}

/// `[group]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which entries are global to a group.
    pub global: Global,
    /// A table is shared when the entry that points to it passes one of these tests.
    pub marked: Vec<Test>,
    /// What a switch to a process outside the group drops.
    pub leave: Leaving,
    /// Cycles that such a switch takes in addition, what is dropped and filled again left out.
    pub leave_cycles: u64,
    /// Cycles of the handler that drops a group's entry which another process met; with
    /// `leave = "none"` alone.
    pub fault_cycles: Option<u64>,
}

impl super::Part for Part {
    fn check(&self, machine: &Setup) -> Result<(), String> {
        let why = if !machine.numbers_spaces {
            "group needs tag = \"address-space\""
        } else if self.marked.is_empty() {
            "group.marked must name at least one test of bits"
        } else if self.leave == Leaving::None && self.fault_cycles.is_none() {
            "group.fault_cycles is needed with leave = \"none\""
        } else if self.leave != Leaving::None && self.fault_cycles.is_some() {
            "group.fault_cycles is for leave = \"none\": nobody meets another group's entry here"
        } else {
            return Ok(());
        };
        Err(why.to_owned())
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        let mut times = vec![("leave_cycles", self.leave_cycles)];
        times.extend(self.fault_cycles.map(|time| ("fault_cycles", time)));
        times
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        Some(Box::new(Groups {
            marked: self.marked.clone(),
            leave: self.leave,
            leave_time: self.leave_cycles * machine.ticks_per_cycle,
            fault_time: self.fault_cycles.unwrap_or(0) * machine.ticks_per_cycle,
            cohorts: Vec::new(),
            held: vec![0; machine.cores],
            fault: false,
        }))
    }
}

counters! {
    /// Counters of groups.
    Counts {
        /// Walks that made an entry global to a group.
        fills: u64,
        /// Hits of the first level on a group's entry that another process brought in.
        first_hits: u64,
        /// The same of the levels behind it: a walk less each.
        later_hits: u64,
        /// Switches from a process of a group to one outside it.
        changes: u64,
        /// Entries that these switches dropped.
        dropped: u64,
        /// Faults of processes outside the group at its entries.
        faults: u64,
        /// Lookups of members that passed over a group's entry, as their own tables say otherwise.
        refusals: u64,
        /// Group's entries met outside the group though a switch should have dropped them.
        violations: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![
            ("group-fills", self.fills, "entries"),
            ("group-first-hits", self.first_hits, "hits"),
            ("group-later-hits", self.later_hits, "hits"),
            ("group-changes", self.changes, "switches"),
            ("group-dropped", self.dropped, "entries"),
            ("group-faults", self.faults, "faults"),
            ("group-refusals", self.refusals, "entries"),
            ("group-violations", self.violations, "entries"),
        ]
    }
}

#[derive(Clone, Debug)]
struct Groups {
    marked: Vec<Test>,
    leave: Leaving,
    leave_time: u64,
    fault_time: u64,
    /// By address space: the group of its process, 0 for none.
    cohorts: Vec<u32>,
    /// By core: the group whose entries it may hold, or whose member ran last; 0 for none.
    held: Vec<u32>,
    /// The lookup met an entry of a group that its process is not in.
    fault: bool,
}

impl Groups {
    fn cohort(&self, space: u16) -> u32 {
        self.cohorts.get(usize::from(space)).copied().unwrap_or(0)
    }
}

impl Mechanism for Groups {
    fn judges(&self, _: usize) -> bool {
        true
    }

    fn judged_bits(&self) -> u16 {
        GROUP
    }

    fn judge(
        &mut self,
        of: &Lookup,
        way: &Way,
        terms: &mut Terms,
        _: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Match {
        if of.walked || way.attr & GROUP == 0 {
            return Match::Yes;
        }
        if way.extra == self.cohort(of.space) {
            terms.compared = true;
            return Match::Yes;
        }
        match self.leave {
            // The guest did not take this fault: its processor has no such entries.
            Leaving::None => self.fault |= of.certain,
            Leaving::All | Leaving::Group => counts.group.violations += 1,
        }
        Match::No
    }

    fn looked(&mut self, of: &Lookup, found: Looked, after: &mut After, counts: &mut AllCounts) {
        counts.group.refusals += found.passed;
        if std::mem::take(&mut self.fault) {
            counts.group.faults += 1;
            after.time += self.fault_time;
            after.miss = true;
            after.drop = Some(Drop::Address { vaddr: of.vaddr });
        }
    }

    fn hit(&mut self, of: &Lookup, way: &Way, counts: &mut AllCounts) {
        if way.attr & GROUP == 0 {
            return;
        }
        self.held[of.core] = way.extra;
        if way.owner != of.space {
            match of.level {
                0 => counts.group.first_hits += 1,
                _ => counts.group.later_hits += 1,
            }
        }
    }

    fn walked(
        &mut self,
        core: usize,
        space: u16,
        _: u64,
        walk: &Walk,
        _: &dyn GuestMemory,
        counts: &mut AllCounts,
    ) -> Walked {
        const DECIDE: u16 = attr::USER | attr::WRITE | attr::USER_WRITE | attr::NO_EXECUTE;
        let group = self.cohort(space);
        let (Ok(page), Some(above)) = (walk.result, walk.above_leaf()) else {
            return Walked::default();
        };
        let code = page.attr & DECIDE == attr::USER;
        if group == 0 || !code || !self.marked.iter().any(|test| test.holds(above.value)) {
            return Walked::default();
        }
        counts.group.fills += 1;
        self.held[core] = group;
        Walked {
            attr: GROUP | attr::GLOBAL,
            extra: group,
            ..Walked::default()
        }
    }

    fn turned(&mut self, core: usize, to: Identity, counts: &mut AllCounts) -> Option<Leave> {
        // A kernel thread, or a process that has not run user code yet.
        if to.process == 0 || self.held[core] == 0 || self.held[core] == to.cohort {
            return None;
        }
        self.held[core] = 0;
        counts.group.changes += 1;
        Some(Leave {
            drops: match self.leave {
                Leaving::All => Some(0),
                Leaving::Group => Some(GROUP),
                Leaving::None => None,
            },
            time: self.leave_time,
        })
    }

    fn left(&mut self, dropped: u64, counts: &mut AllCounts) {
        counts.group.dropped += dropped;
    }

    fn event(&mut self, event: Event, _: &mut AllCounts) -> Option<Drop> {
        if let Event::Identity(space, identity) = event {
            let space = usize::from(space);
            self.cohorts.resize(self.cohorts.len().max(space + 1), 0);
            self.cohorts[space] = identity.cohort;
        }
        None
    }
}
