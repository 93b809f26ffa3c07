// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries that a fork copies, and faults that sharing avoids.

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, count};
use crate::scan::part::Part;
use crate::show::number;
use serde::Serialize;
use std::collections::HashSet;

/// What happens when each process of the group forks once.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Fork {
    /// Entries that stock fork copies.
    pub copied: u64,
    /// Entries that stock fork leaves for the children to fault on.
    pub left: u64,
    /// Faults that get those back, and that sharing avoids.
    pub faults_avoided: u64,
    /// Faults that the processes themselves would not have taken since Cohort's kernel forked
    /// them: an estimate, see [`cohort_snapshot::count::kin::Kept`].
    pub faults_saved: u64,
    /// Faults of the processes since their start, those for a disk left out.
    pub faults: u64,
    /// Faults of the processes and of their children in each second of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_per_second: Option<f64>,
    /// Most entries that a fork of a process copies that has forked others of the group.
    pub copied_by_parent: u64,
}

impl Section for Fork {
    fn count(input: &Input) -> Fork {
        Fork {
            copied: input.sum(|process| process.fork_copies),
            left: input.sum(|process| process.fork_leaves),
            faults_avoided: input.sum(|process| process.fork_faults),
            faults_saved: input.counts.faults_saved,
            faults: input.sum(|process| process.identity.faults),
            faults_per_second: rate(input),
            copied_by_parent: copied_by_parent(input),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::count(
                "copied",
                "entries that stock fork copies if each process forks once",
                self.copied,
            ),
            Column::count(
                "faults",
                "faults that those children are spared",
                self.faults_avoided,
            ),
            Column::count(
                "faults-saved",
                "faults that these processes had been spared, forked by Cohort's kernel",
                self.faults_saved,
            ),
        ]
    }

    fn parts(&self, scope: Scope) -> Vec<Part> {
        let mut part = Part::new("If each process forked once", &["", "sum", "a process"]);
        let each = |sum: u64| number((sum as f64 / scope.processes.max(1) as f64).round());
        for (label, value) in [
            ("entries that stock fork copies", self.copied),
            ("entries that it leaves out", self.left),
            ("faults to get those back, at most", self.faults_avoided),
            (
                "faults that they had been spared already",
                self.faults_saved,
            ),
        ] {
            part.row(label, &[count(value), each(value)]);
        }
        vec![part]
    }
}

/// None where no interval was watched.
fn rate(input: &Input) -> Option<f64> {
    let (snapshot, members) = (input.snapshot, &input.group.members);
    (snapshot.interval > 0.0).then(|| {
        let faulted = members
            .iter()
            .filter_map(|&place| snapshot.processes[place].faulted);
        faulted.sum::<u64>() as f64 / snapshot.interval
    })
}

fn copied_by_parent(input: &Input) -> u64 {
    let (snapshot, members) = (input.snapshot, &input.group.members);
    let members: HashSet<usize> = members.iter().copied().collect();
    let parents = members.iter().filter_map(|&place| snapshot.parents[place]);
    let copied = parents
        .filter(|parent| members.contains(parent))
        .map(|parent| snapshot.processes[parent].fork_copies);
    copied.max().unwrap_or(0)
}
