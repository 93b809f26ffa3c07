// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scan found, as numbers with names: what `--json` prints and all other forms show.

use super::sections::{self, CodeReport, FillReport, RegionReport, Windows};
use cohort_snapshot::count::code::Zygotes;
use cohort_snapshot::count::content::{self, Content, Pages, Program};
use cohort_snapshot::count::entries::{self, Active, Contents, Entries, Ptps};
use cohort_snapshot::count::group::Group;
use cohort_snapshot::model::process::{Reason, Skipped};
use cohort_snapshot::model::{Frames, Sampling, Snapshot};
use serde::Serialize;

/// Changes when a field changes its meaning or goes; new fields do not change it.
pub const SCHEMA_VERSION: u32 = 2;

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
    /// How the processors were sampled, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    pub consistency: Consistency,
    /// All processes that were scanned, as one group.
    pub total: GroupReport,
    pub groups: Vec<GroupReport>,
    pub answer: String,
    /// Equal pages, where contents were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentReport>,
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

/// Equal pages (selective memory deduplication, Figures 5 to 7, Tables II and III).
#[derive(Debug, Clone, Default, Serialize)]
pub struct ContentReport {
    /// What the last look found.
    pub last: Content,
    /// For each look but the first, how alike each program's profile was to the one before
    /// (Jaccard's index).
    pub stability: Vec<Vec<(String, f64)>>,
    /// How alike the profiles of two programs are.
    pub similarity: Vec<(String, String, f64)>,
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
    pub code: CodeReport,
    pub larger_pages: Vec<FillReport>,
    /// Files and kinds of memory with most pages.
    pub regions: Vec<RegionReport>,
    /// Pages that are equal in content, where contents were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merging: Option<Merging>,
    /// The program of all members, if they have one.
    #[serde(skip)]
    pub program: Option<String>,
}

/// What merging would find in a group. A page is equal to one of any process, in the group or not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Merging {
    #[serde(flatten)]
    pub pages: Pages,
    /// Memory that merging would free; of all processes only, as a page freed is no group's alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<u64>,
    /// The profile of the program, where all members run one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// How alike its profile was from look to look, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<f64>,
}

impl ContentReport {
    /// How alike a program's profile was to that of the look before, on average.
    pub fn stability_of(&self, program: &str) -> Option<f64> {
        let looks = self.stability.iter().flatten();
        let alike: Vec<f64> = looks
            .filter(|(name, _)| name == program)
            .map(|(_, alike)| *alike)
            .collect();
        (!alike.is_empty()).then(|| alike.iter().sum::<f64>() / alike.len() as f64)
    }

    /// What concerns a group.
    fn of(&self, group: &GroupReport) -> Merging {
        let mut merging = Merging::default();
        for pid in &group.pids {
            merging.pages += self.last.processes.get(pid).copied().unwrap_or_default();
        }
        if let Some(name) = &group.program {
            let programs = &mut self.last.programs.iter();
            merging.program = programs.find(|program| program.name == *name).cloned();
            merging.stability = self.stability_of(name);
        }
        merging
    }
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
    /// Those used in the interval, where one was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
}

/// Page-table pages.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PtpsReport {
    #[serde(flatten)]
    pub counts: Ptps,
    /// Memory saved if equal tables were kept once, as they are now.
    pub identical_bytes: u64,
    /// Memory saved if Cohort's kernel had forked these processes.
    pub saved_bytes: u64,
    /// Memory saved if besides the first of them had touched all of its memory before it forked.
    pub touched_bytes: u64,
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
    /// Faults that the processes themselves would not have taken since Cohort's kernel forked
    /// them: an estimate, see [`cohort_snapshot::count::kin::Kept`].
    pub faults_saved: u64,
}

impl Report {
    /// Puts in what was found in the contents of pages.
    pub fn add_content(&mut self, found: ContentReport) {
        for group in &mut self.groups {
            group.merging = Some(found.of(group));
        }
        self.total.merging = Some(Merging {
            freed_bytes: Some(found.last.frames_saved * self.page_bytes),
            ..found.of(&self.total)
        });
        self.content = Some(found);
    }

    /// What is in `snapshot`, by `groups`.
    pub fn new(snapshot: &Snapshot, groups: &[Group]) -> Report {
        let zygotes = Zygotes::new(snapshot);
        let all = Group {
            name: "all".into(),
            members: (0..snapshot.processes.len()).collect(),
        };
        let total = GroupReport::new(snapshot, &zygotes, &all);
        let groups: Vec<GroupReport> = groups
            .iter()
            .map(|group| match group.members == all.members {
                // Counted already.
                true => GroupReport {
                    name: group.name.clone(),
                    ..total.clone()
                },
                false => GroupReport::new(snapshot, &zygotes, group),
            })
            .collect();
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            time: snapshot.time,
            host: snapshot.host.clone(),
            kernel: snapshot.kernel.clone(),
            machine: snapshot.machine.clone(),
            page_bytes: snapshot.page,
            frames: snapshot.frames,
            sampling: snapshot.sampling.clone(),
            consistency: Consistency::new(snapshot),
            total,
            groups,
            answer: String::new(),
            content: None,
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
    fn new(snapshot: &Snapshot, zygotes: &Zygotes, group: &Group) -> GroupReport {
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
                active: counts.active,
            },
            contents: counts.contents,
            ptps: PtpsReport {
                counts: ptps,
                identical_bytes: (ptps.tables - ptps.distinct) * page,
                saved_bytes: (ptps.tables - ptps.kept + ptps.uppers_saved) * page,
                touched_bytes: (ptps.tables - ptps.lineages + ptps.uppers_saved) * page,
                apart_bytes: (ptps.apart - ptps.apart_distinct) * page,
            },
            fork: ForkReport {
                copied: members().map(|process| process.fork_copies).sum(),
                left: members().map(|process| process.fork_leaves).sum(),
                faults_avoided: members().map(|process| process.fork_faults).sum(),
                faults_saved: counts.faults_saved,
            },
            resident_bytes: counts.resident * page,
            proportional_bytes: ((u128::from(counts.proportional) * u128::from(page)) >> 12) as u64,
            table_bytes: members().map(|process| process.identity.table_bytes).sum(),
            code: CodeReport::new(snapshot, zygotes, group),
            larger_pages: sections::fill(snapshot, group),
            regions: sections::regions(snapshot, group),
            merging: None,
            program: {
                let mut names = members().map(|process| content::program_of(&process.identity));
                let first = names.next();
                let same = names.all(|name| Some(name) == first);
                first.filter(|_| same).map(str::to_string)
            },
        }
    }
}

impl GroupReport {
    /// A sum over all kinds of regions that larger pages were tried for.
    pub fn windows(&self, pick: fn(&FillReport) -> u64) -> u64 {
        self.larger_pages.iter().map(pick).sum()
    }

    /// How full all larger pages of a size would be, in percent.
    pub fn full(&self, pick: fn(&FillReport) -> &Windows) -> Option<f64> {
        let each = || self.larger_pages.iter().map(pick);
        let full: f64 = each()
            .map(|windows| windows.full_percent * windows.windows as f64)
            .sum();
        let windows: u64 = each().map(|windows| windows.windows).sum();
        (windows > 0).then(|| full / windows as f64)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A report of one group with two processes.
    pub fn report() -> Report {
        let group = GroupReport {
            name: "x (1)".into(),
            processes: 2,
            pids: vec![1, 2],
            program: Some("/bin/x".into()),
            entries: EntriesReport {
                total: 100,
                classes: Entries {
                    shareable: 60,
                    unshareable: 40,
                    ..Entries::default()
                },
                distinct: 30,
                once: 70,
                active: None,
            },
            ptps: PtpsReport {
                counts: Ptps {
                    tables: 10,
                    identical: 4,
                    distinct: 8,
                    lineages: 7,
                    kept: 8,
                    ..Ptps::default()
                },
                saved_bytes: 8192,
                ..PtpsReport::default()
            },
            ..GroupReport::default()
        };
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            time: 1,
            host: "h".into(),
            kernel: "6.12".into(),
            machine: "x86_64".into(),
            page_bytes: 4096,
            frames: Frames::Visible,
            sampling: None,
            consistency: Consistency {
                seconds: 0.5,
                read: 2,
                changed: 0,
                vanished: 0,
                refused: 0,
                unreadable: 0,
                same_memory: 0,
                huge_by_sum: 0,
                pss_over_kernel: None,
                skipped: Vec::new(),
            },
            total: GroupReport {
                name: "all".into(),
                ..group.clone()
            },
            groups: vec![group],
            answer: String::new(),
            content: None,
            cost: None,
        };
        report.answer = super::super::answer::answer(&report);
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

    #[test]
    fn the_answer_says_what_to_share_what_it_saves_and_how_sure() {
        let answer = report().answer;
        for part in [
            "x (1)",
            "8 of its 10 tables",
            "8.0 KB",
            "30",
            "2 processes read",
        ] {
            assert!(answer.contains(part), "no {part} in: {answer}");
        }
    }
}
