// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scan found, as numbers with names: what `--json` prints and all other forms show.

use cohort_snapshot::entries::{self, Contents, Entries, Ptps};
use cohort_snapshot::group::Group;
use cohort_snapshot::model::{Frames, Snapshot};
use cohort_snapshot::process::{Reason, Skipped};
use serde::Serialize;

/// Changes when a field changes its meaning or goes; new fields do not change it.
pub const SCHEMA_VERSION: u32 = 1;

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
    pub frames: Frames,
    pub consistency: Consistency,
    /// All processes that were scanned, as one group.
    pub total: GroupReport,
    pub groups: Vec<GroupReport>,
    pub answer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// How far the snapshot may be trusted.
#[derive(Debug, Serialize)]
pub struct Consistency {
    /// Seconds from the first process to the last.
    pub seconds: f64,
    /// Processes that were read.
    pub read: usize,
    /// Of those, processes whose regions changed meanwhile.
    pub changed: usize,
    pub vanished: usize,
    pub refused: usize,
    pub unreadable: usize,
    /// Processes left out as they share all memory with another.
    pub same_memory: usize,
    /// Processes whose huge pages were told from small ones by their sum in smaps.
    pub huge_by_sum: u32,
    /// Our sum of proportional set sizes over the kernel's, where they were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_over_kernel: Option<f64>,
    pub skipped: Vec<Skipped>,
}

/// What the scan itself took.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Most memory that was in use.
    pub peak_bytes: u64,
    /// Pages in memory or swap that were found.
    pub pages: u64,
    pub threads: usize,
}

/// What was found about a group.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupReport {
    pub name: String,
    pub processes: usize,
    pub pids: Vec<i32>,
    pub entries: EntriesReport,
    pub contents: Contents,
    pub ptps: PtpsReport,
    pub fork: ForkReport,
    pub resident_bytes: u64,
    pub proportional_bytes: u64,
    /// What the kernel says that page tables of all levels take.
    pub table_bytes: u64,
}

/// Entries (BabelFish, Figure 9).
#[derive(Debug, Clone, Default, Serialize)]
pub struct EntriesReport {
    pub total: u64,
    #[serde(flatten)]
    pub classes: Entries,
    /// Different entries among the shareable ones.
    pub distinct: u64,
    /// Left if each is kept once.
    pub once: u64,
}

/// Page-table pages.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PtpsReport {
    #[serde(flatten)]
    pub counts: Ptps,
    /// Memory saved if equal tables were kept once, as they are now.
    pub identical_bytes: u64,
    /// Memory saved if tables were shared until an anonymous page in them differs.
    pub saved_bytes: u64,
    /// As `identical_bytes`, with code and data in tables apart.
    pub apart_bytes: u64,
}

/// What happens when each process of the group forks once.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ForkReport {
    /// Entries that stock fork copies.
    pub copied: u64,
    /// Entries that stock fork leaves for the children to fault on.
    pub left: u64,
    /// Faults that get those back, and that sharing avoids.
    pub faults_avoided: u64,
}

impl Report {
    /// What is in `snapshot`, by `groups`.
    pub fn new(snapshot: &Snapshot, groups: &[Group]) -> Report {
        let all = Group {
            name: "all".into(),
            members: (0..snapshot.processes.len()).collect(),
        };
        let total = GroupReport::new(snapshot, &all);
        let groups: Vec<GroupReport> = groups
            .iter()
            .map(|group| GroupReport::new(snapshot, group))
            .collect();
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            time: snapshot.time,
            host: snapshot.host.clone(),
            kernel: snapshot.kernel.clone(),
            machine: snapshot.machine.clone(),
            page_bytes: snapshot.page,
            frames: snapshot.frames,
            consistency: Consistency::new(snapshot),
            total,
            groups,
            answer: String::new(),
            cost: None,
        };
        report.answer = super::answer::answer(&report);
        report
    }
}

impl Consistency {
    fn new(snapshot: &Snapshot) -> Consistency {
        let skipped = |wanted: fn(&Reason) -> bool| {
            snapshot
                .skipped
                .iter()
                .filter(|skip| wanted(&skip.reason))
                .count()
        };
        Consistency {
            seconds: snapshot.duration,
            read: snapshot.processes.len(),
            changed: snapshot
                .processes
                .iter()
                .filter(|process| process.changed)
                .count(),
            vanished: skipped(|reason| *reason == Reason::Vanished),
            refused: skipped(|reason| *reason == Reason::Refused),
            unreadable: skipped(|reason| matches!(reason, Reason::Unreadable(_))),
            same_memory: skipped(|reason| matches!(reason, Reason::SharesMemoryOf(_))),
            huge_by_sum: snapshot.huge_by_sum,
            pss_over_kernel: None,
            skipped: snapshot.skipped.clone(),
        }
    }
}

impl GroupReport {
    fn new(snapshot: &Snapshot, group: &Group) -> GroupReport {
        let counts = entries::count(snapshot, &group.members);
        let page = snapshot.page;
        let members = || {
            group
                .members
                .iter()
                .map(|place| &snapshot.processes[*place])
        };
        let ptps = counts.ptps;
        GroupReport {
            name: group.name.clone(),
            processes: group.members.len(),
            pids: members().map(|process| process.identity.pid).collect(),
            entries: EntriesReport {
                total: counts.entries.total(),
                classes: counts.entries,
                distinct: counts.distinct,
                once: counts.once(),
            },
            contents: counts.contents,
            ptps: PtpsReport {
                counts: ptps,
                identical_bytes: (ptps.tables - ptps.distinct) * page,
                saved_bytes: (ptps.tables - ptps.lineages) * page,
                apart_bytes: (ptps.apart - ptps.apart_distinct) * page,
            },
            fork: ForkReport {
                copied: members().map(|process| process.fork_copies).sum(),
                left: members().map(|process| process.fork_leaves).sum(),
                faults_avoided: members().map(|process| process.fork_faults).sum(),
            },
            resident_bytes: counts.resident * page,
            proportional_bytes: ((u128::from(counts.proportional) * u128::from(page)) >> 12) as u64,
            table_bytes: members().map(|process| process.identity.table_bytes).sum(),
        }
    }
}
