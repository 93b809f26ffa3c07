// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scan found, as numbers with names: what `--json` prints and all other forms show.

use super::compared::Compared;
use super::consistency::Consistency;
use super::cost::Cost;
use super::fork_time::ForkTime;
use super::part::Part;
use super::section::{Boundary, ContentReport, GroupReport, JoinsReport, Merging};
use super::verdict::Verdict;
use cohort_snapshot::count::code::Zygotes;
use cohort_snapshot::count::group::{By, Group};
use cohort_snapshot::model::{Frames, Sampling, Snapshot};
use serde::Serialize;

/// Changes when a field changes its meaning or goes; new fields do not change it.
pub const SCHEMA_VERSION: u32 = 3;

/// All that a scan found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub schema_version: u32,
    /// Seconds since 1970.
    pub time: u64,
    pub host: String,
    pub kernel: String,
    pub machine: String,
    pub page_bytes: u64,
    /// Memory of the machine, where the kernel reports that.
    pub memory_bytes: Option<u64>,
    pub frames: Frames,
    /// How the processors were sampled, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    pub consistency: Consistency,
    /// All processes that were scanned, as one group.
    pub total: GroupReport,
    pub groups: Vec<GroupReport>,
    pub compared: Compared,
    pub verdict: Verdict,
    /// The verdict in sentences.
    pub answer: String,
    /// Equal pages, where contents were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentReport>,
    /// What groups would share with each other, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joins: Option<JoinsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Report {
    /// Puts in what was found in the contents of pages.
    pub fn add_content(&mut self, found: ContentReport) {
        for group in &mut self.groups {
            group.merging = Some(found.of(&group.pids, group.program.as_deref()));
        }
        self.total.merging = Some(Merging {
            freed_bytes: Some(found.last.frames_saved * self.page_bytes),
            ..found.of(&self.total.pids, self.total.program.as_deref())
        });
        self.content = Some(found);
    }

    /// Puts in what joining would save. `groups` are those of the report in their order; at most
    /// `rows` of them are shown.
    pub fn add_joins(
        &mut self,
        snapshot: &Snapshot,
        groups: &[Group],
        boundary: Boundary,
        rows: usize,
    ) {
        let (found, all, each) = JoinsReport::new(snapshot, groups, boundary, rows);
        for (group, joins) in self.groups.iter_mut().zip(each) {
            group.joins = Some(joins);
        }
        self.total.joins = Some(all);
        self.joins = Some(found);
        self.conclude(None);
    }

    /// What is in `snapshot`, by `groups`.
    pub fn new(snapshot: &Snapshot, groups: &[Group], by: By) -> Report {
        let compared = Compared::new(snapshot, groups, by);
        let zygotes = Zygotes::new(snapshot);
        let all = Group {
            name: "all".into(),
            label: "all".into(),
            root: None,
            members: (0..snapshot.processes.len()).collect(),
        };
        let total = GroupReport::new(snapshot, &zygotes, &all);
        let groups: Vec<GroupReport> = groups
            .iter()
            .map(|group| match group.members == all.members {
                // Counted already.
                true => GroupReport {
                    name: group.name.clone(),
                    label: group.label.clone(),
                    root: group.root,
                    ..total.clone()
                },
                false => GroupReport::new(snapshot, &zygotes, group),
            })
            .collect();
        let consistency = Consistency::new(snapshot);
        let mut report = Report {
            compared,
            verdict: Verdict::default(),
            answer: String::new(),
            schema_version: SCHEMA_VERSION,
            time: snapshot.time,
            host: snapshot.host.clone(),
            kernel: snapshot.kernel.clone(),
            machine: snapshot.machine.clone(),
            page_bytes: snapshot.page,
            memory_bytes: snapshot.memory,
            frames: snapshot.frames,
            sampling: snapshot.sampling.clone(),
            consistency,
            total,
            groups,
            content: None,
            joins: None,
            cost: None,
        };
        report.conclude(None);
        report
    }

    /// Judges what is known by now.
    pub fn conclude(&mut self, fork: Option<ForkTime>) {
        self.verdict = Verdict::new(self, fork);
        self.answer = self.verdict.answer(self);
    }

    /// The tables of the details and of the page, about all processes.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = self.total.parts(self.page_bytes);
        if let Some(found) = &self.joins {
            parts.extend(found.parts());
        }
        if let Some(found) = &self.content {
            parts.extend(found.parts(self.page_bytes));
        }
        parts
    }

    /// Those that were asked for without all details.
    pub fn join_parts(&self) -> Vec<Part> {
        let Some(found) = &self.joins else {
            return Vec::new();
        };
        let mut parts = found.parts();
        parts.extend(self.total.join_parts(self.page_bytes));
        parts
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use cohort_snapshot::count::content::{Content, Pages, Program};
    use cohort_snapshot::count::entries;

    /// A report of one group with two processes.
    pub fn report() -> Report {
        let mut group = GroupReport {
            name: "x -y".into(),
            label: "x -y".into(),
            root: Some(1),
            processes: 2,
            pids: vec![1, 2],
            program: Some("/bin/x".into()),
            ..GroupReport::default()
        };
        group.entries.total = 100;
        group.entries.classes = entries::Entries {
            shareable: 60,
            unshareable: 40,
            ..entries::Entries::default()
        };
        group.entries.distinct = 30;
        group.entries.once = 70;
        group.ptps.counts = entries::Ptps {
            tables: 10,
            identical: 4,
            distinct: 8,
            lineages: 7,
            kept: 8,
            ..entries::Ptps::default()
        };
        group.ptps.saved_bytes = 8192;
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            time: 1,
            host: "h".into(),
            kernel: "6.12".into(),
            machine: "x86_64".into(),
            page_bytes: 4096,
            memory_bytes: None,
            frames: Frames::Visible,
            sampling: None,
            consistency: Consistency {
                seconds: 0.5,
                read: 2,
                changed: 0,
                vanished: 0,
                ended: 0,
                refused: 0,
                unreadable: 0,
                same_memory: 0,
                huge_by_sum: 0,
                pss_over_kernel: None,
                skipped: Vec::new(),
            },
            total: GroupReport {
                name: "all".into(),
                label: "all".into(),
                root: None,
                ..group.clone()
            },
            groups: vec![group],
            compared: Compared {
                groups: 1,
                processes: 2,
                ..Compared::default()
            },
            verdict: Verdict::default(),
            answer: String::new(),
            content: None,
            joins: None,
            cost: None,
        };
        report.conclude(None);
        report
    }

    /// Contents that were looked at twice.
    pub fn content() -> ContentReport {
        let mut program = Program::default();
        program.name = "/bin/x".into();
        program.profile = 4;
        let pages = |mergeable, equal| Pages {
            mergeable,
            equal,
            ..Pages::default()
        };
        ContentReport {
            last: Content {
                mergeable: 9,
                equal: 5,
                frames_saved: 3,
                programs: vec![program],
                processes: [(1, pages(6, 3)), (2, pages(2, 1)), (9, pages(1, 1))].into(),
                ..Content::default()
            },
            stability: vec![vec![("/bin/x".into(), 0.5)]],
            similarity: vec![("/bin/x".into(), "/bin/y".into(), 0.25)],
        }
    }
}
