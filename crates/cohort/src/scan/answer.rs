// SPDX-License-Identifier: GPL-2.0-or-later
//! The sentence at the end: what to share, what it saves, how sure.

use super::cell::{plural, size};
use super::consistency::Consistency;
use super::section::GroupReport;
use crate::show::number;
use cohort_snapshot::model::Frames;

/// About the group whose tables save most.
pub fn answer(groups: &[GroupReport], frames: Frames, consistency: &Consistency) -> String {
    let sure = sure(frames, consistency);
    let best = groups
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
        number(best.entries.duplicates()),
        number((best.fork.copied as f64 / best.processes as f64).round()),
        number((best.fork.faults_avoided as f64 / best.processes as f64).round()),
    )
}

fn sure(frames: Frames, consistency: &Consistency) -> String {
    let mut parts = Vec::new();
    if frames == Frames::Hidden {
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

#[cfg(test)]
mod tests {
    use crate::scan::report::tests::report;

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
