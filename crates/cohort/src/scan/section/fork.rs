// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries that a fork copies, and faults that sharing avoids.

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, count};
use crate::scan::part::Part;
use crate::show::number;
use serde::Serialize;

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
}

impl Section for Fork {
    fn count(input: &Input) -> Fork {
        Fork {
            copied: input.sum(|process| process.fork_copies),
            left: input.sum(|process| process.fork_leaves),
            faults_avoided: input.sum(|process| process.fork_faults),
            faults_saved: input.counts.faults_saved,
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
