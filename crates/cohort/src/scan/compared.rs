// SPDX-License-Identifier: GPL-2.0-or-later
//! How much could be compared: "nothing to gain" is said only where all was.

use cohort_snapshot::count::group::{By, Group};
use cohort_snapshot::model::parents::{self, Unknown};
use cohort_snapshot::model::{Frames, Snapshot};
use serde::Serialize;
use std::collections::BTreeSet;

/// What could be compared, and the reasons why the rest could not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Compared {
    /// Groups of more than one process.
    pub groups: usize,
    /// Processes in all groups.
    pub processes: usize,
    /// Processes whose parent is not known, as the path of a program may not be read.
    pub program_hidden: usize,
    /// Parents that run the same program as a child of theirs and were not read.
    pub parents_left_out: BTreeSet<i32>,
    /// Processes whose parent is not known, as regions were left out.
    pub regions_left_out: usize,
    /// Each process was put into a group of its own.
    pub each_alone: bool,
    /// Frames are hidden, so that the savings are lower bounds.
    pub frames_hidden: bool,
}

/// Why there is no answer, and the command that has one.
pub struct Missing {
    pub why: String,
    pub instead: String,
}

impl Compared {
    pub fn new(snapshot: &Snapshot, groups: &[Group], by: By) -> Compared {
        let mut compared = Compared {
            groups: groups
                .iter()
                .filter(|group| group.members.len() > 1)
                .count(),
            processes: snapshot.processes.len(),
            each_alone: by == By::Process,
            frames_hidden: snapshot.frames == Frames::Hidden,
            ..Compared::default()
        };
        for unknown in parents::unknown(snapshot).into_iter().flatten() {
            match unknown {
                Unknown::ProgramHidden => compared.program_hidden += 1,
                Unknown::RegionsLeftOut => compared.regions_left_out += 1,
                Unknown::ParentLeftOut(pid) => {
                    compared.parents_left_out.insert(pid);
                }
            }
        }
        compared
    }

    /// Why "nothing to gain" cannot be said although no saving was found; none if it can.
    pub fn missing(&self) -> Option<Missing> {
        let missing = |why: &str, instead: &str| {
            Some(Missing {
                why: why.into(),
                instead: instead.into(),
            })
        };
        if self.each_alone {
            return missing(
                "--by process puts each process into a group of its own",
                "the same command without --by, or with --by machine",
            );
        }
        if self.program_hidden > 0 {
            return missing(
                "the paths of programs (/proc/PID/exe) may not be read, so it is not known which \
                 processes were forked from one another",
                "the same command as root with CAP_SYS_PTRACE and CAP_SYS_ADMIN",
            );
        }
        let parents: Vec<String> = self.parents_left_out.iter().map(i32::to_string).collect();
        if !parents.is_empty() {
            let shown = &parents[..parents.len().min(5)];
            let (parents_are, verb, was) = match parents.len() {
                1 => ("the parent (process", "runs", "was"),
                _ => ("the parents (processes", "run", "were"),
            };
            return Some(Missing {
                why: format!(
                    "{parents_are} {}) {verb} the same program and {was} not read: filtered out, \
                     or not readable",
                    shown.join(", ")
                ),
                instead: format!("cohort scan --tree {}", shown.join(",")),
            });
        }
        if self.regions_left_out > 0 {
            return missing(
                "--mapping leaves out the pages by which forks are known",
                "the same command without --mapping",
            );
        }
        match self.processes {
            0 | 1 => missing(
                "one process was read, and there is nothing to compare it with",
                "cohort scan without a filter, or with --tree for a process and its descendants",
            ),
            _ => None,
        }
    }
}
