// SPDX-License-Identifier: GPL-2.0-or-later
//! How far a snapshot may be trusted: what became of reading each process.

use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::process::{Reason, Skipped};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Consistency {
    /// Seconds from the first process to the last.
    pub seconds: f64,
    /// Processes that were read.
    pub read: usize,
    /// Of those, processes whose regions changed meanwhile.
    pub changed: usize,
    pub vanished: usize,
    /// Zombies.
    pub ended: usize,
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

impl Consistency {
    pub fn new(snapshot: &Snapshot) -> Consistency {
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
            ended: skipped(|reason| *reason == Reason::Ended),
            refused: skipped(|reason| *reason == Reason::Refused),
            unreadable: skipped(|reason| matches!(reason, Reason::Unreadable(_))),
            same_memory: skipped(|reason| matches!(reason, Reason::SharesMemoryOf(_))),
            huge_by_sum: snapshot.huge_by_sum,
            pss_over_kernel: None,
            skipped: snapshot.skipped.clone(),
        }
    }
}
