// SPDX-License-Identifier: GPL-2.0-or-later
//! The sentence at the end: what to share, what it saves, how sure.

use super::report::{GroupReport, Report};
use super::table::size;
use crate::show::number;
use cohort_snapshot::model::Frames;

/// The answer of a report.
pub fn answer(report: &Report) -> String {
    let sure = sure(report);
    let best = report
        .groups
        .iter()
        .filter(|group| group.processes > 1)
        .max_by_key(|group| {
            (
                group.ptps.saved_bytes,
                group.entries.total - group.entries.once,
            )
        });
    let Some(best) = best.filter(|group| group.ptps.saved_bytes > 0) else {
        return format!(
            "No group of processes has tables to share: nothing to gain from it; {sure}."
        );
    };
    let ptps = &best.ptps.counts;
    let touched = match best.ptps.touched_bytes > best.ptps.saved_bytes {
        true => format!(
            " ({} if its first process touched its memory before it forked)",
            size(best.ptps.touched_bytes)
        ),
        false => String::new(),
    };
    format!(
        "Share the page tables of {} ({}): {} of its {} tables would do, which saves {}{touched}, {} % of \
         its entries are copies of others, and a fork would save {} entries to copy and up to {} \
         faults; {sure}.",
        best.name,
        plural(best.processes, "process", "processes"),
        number(ptps.kept as f64),
        number(ptps.tables as f64),
        size(best.ptps.saved_bytes),
        number(duplicates(best)),
        number((best.fork.copied as f64 / best.processes as f64).round()),
        number((best.fork.faults_avoided as f64 / best.processes as f64).round()),
    )
}

/// Percent of entries that would go if each was kept once.
pub fn duplicates(group: &GroupReport) -> f64 {
    let entries = &group.entries;
    let percent = 100.0 * (entries.total - entries.once) as f64 / entries.total.max(1) as f64;
    (percent * 10.0).round() / 10.0
}

fn sure(report: &Report) -> String {
    let consistency = &report.consistency;
    let mut parts = Vec::new();
    if report.frames == Frames::Hidden {
        parts.push("a lower bound, as frames are hidden".to_string());
    }
    parts.push(format!(
        "{} read in {} s",
        plural(consistency.read, "process", "processes"),
        number(consistency.seconds)
    ));
    for (count, what) in [
        (consistency.changed, "changed meanwhile"),
        (consistency.vanished, "vanished"),
        (consistency.refused, "refused"),
        (consistency.unreadable, "could not be read"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.join(", ")
}

/// A count with its noun.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{} {noun}", number(count as f64))
}
