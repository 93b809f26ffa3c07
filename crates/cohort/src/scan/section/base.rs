// SPDX-License-Identifier: GPL-2.0-or-later
//! What each section of a group's report can do.

use crate::scan::cell::Column;
use crate::scan::metrics::Metrics;
use crate::scan::part::Part;
use crate::show::FigureResult;
use cohort_snapshot::count::code::Zygotes;
use cohort_snapshot::count::entries::Counts;
use cohort_snapshot::count::group::Group;
use cohort_snapshot::model::{Process, Snapshot};

/// A group and what was counted of it.
pub struct Input<'a> {
    pub snapshot: &'a Snapshot,
    pub zygotes: &'a Zygotes,
    pub group: &'a Group,
    pub counts: &'a Counts,
}

impl Input<'_> {
    /// A sum over the processes of the group.
    pub fn sum(&self, pick: fn(&Process) -> u64) -> u64 {
        let members = self.group.members.iter();
        members
            .map(|&place| pick(&self.snapshot.processes[place]))
            .sum()
    }
}

/// Facts that parts print besides the figures of their section.
#[derive(Clone, Copy)]
pub struct Scope {
    pub processes: usize,
    pub page_bytes: u64,
}

/// One cluster of bars for a group: each bar's label and height.
pub struct Bars {
    pub title: &'static str,
    pub unit: &'static str,
    pub bars: Vec<(&'static str, u64)>,
}

/// A section of a group's report. Its fields are its JSON.
pub trait Section {
    fn count(input: &Input) -> Self
    where
        Self: Sized;

    /// Always the same names in the same order, whatever was found.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// Tables of the details and of the page.
    fn parts(&self, _: Scope) -> Vec<Part> {
        Vec::new()
    }

    /// OpenMetrics of all processes, besides those of the columns.
    fn metrics(&self, _: &mut Metrics) {}

    /// Bars of the page. All groups have the same labels.
    fn bars(&self) -> Option<Bars> {
        None
    }

    /// A plot of the page, of all processes.
    fn plot(&self) -> Option<FigureResult> {
        None
    }
}
