// SPDX-License-Identifier: GPL-2.0-or-later
//! The output in the form that was asked for.

use super::args::{Output, Show};
use super::cell::{plural, size};
use super::part::Part;
use super::report::Report;
use super::section::GroupReport;
use super::{export, html, table};
use crate::show::{columns, number, wrap};
use anyhow::Result;
use cohort_snapshot::count::active::Watched;
use cohort_snapshot::model::Frames;
use std::collections::BTreeMap;

/// The scan before this one, with `--watch`: by label each group's processes and savings.
#[derive(Default)]
pub struct Before(BTreeMap<String, (usize, u64)>);

impl Before {
    pub fn new(report: &Report) -> Before {
        let all = std::iter::once(&report.total).chain(&report.groups);
        let figures = |group: &GroupReport| (group.processes, group.ptps.saved_bytes);
        Before(
            all.map(|group| (group.label.clone(), figures(group)))
                .collect(),
        )
    }

    /// Whether there was one.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Processes and bytes saved that a group has more than before.
    pub fn change(&self, group: &GroupReport) -> (i64, i64) {
        let (processes, bytes) = self.0.get(&group.label).copied().unwrap_or_default();
        (
            group.processes as i64 - processes as i64,
            group.ptps.saved_bytes as i64 - bytes as i64,
        )
    }

    /// A line about the groups that are gone, if any are.
    pub fn gone(&self, report: &Report) -> String {
        let now = Before::new(report);
        let gone: Vec<&str> = self
            .0
            .keys()
            .filter(|label| !now.0.contains_key(*label))
            .map(String::as_str)
            .collect();
        match gone.first() {
            None => String::new(),
            Some(first) => format!(
                "{} gone since the scan before, {} among them\n",
                plural(gone.len(), "group", "groups"),
                super::cell::shorten(first, 40)
            ),
        }
    }
}

/// The output. `before` is the scan before with `--watch`, which has a JSON object on one line.
pub fn render(report: &Report, show: &Show, before: Option<&Before>) -> Result<String> {
    let output = if show.json { Output::Json } else { show.output };
    Ok(match output {
        Output::Json if before.is_some() => serde_json::to_string(report)? + "\n",
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Csv => export::csv(report, show)?,
        Output::Openmetrics => export::openmetrics(report, show)?,
        Output::Html => html::page(report, show)?,
        Output::Table => {
            let width = usize::from(columns());
            let mut text = table::groups(report, show, before, width)?;
            text.push('\n');
            if show.details || report.content.is_some() {
                text.push_str(&parts(&report.parts(), width));
            } else {
                text.push_str(&parts(&report.join_parts(), width));
            }
            text.push_str(&paragraphs(report, width));
            text
        }
    })
}

/// Each paper once, in the order in which parts name them.
pub fn papers(parts: &[Part]) -> Vec<&'static str> {
    let mut papers = Vec::new();
    for paper in parts.iter().filter_map(|part| part.paper) {
        if !papers.contains(&paper) {
            papers.push(paper);
        }
    }
    papers
}

/// The parts, and below them the footnotes.
fn parts(parts: &[Part], width: usize) -> String {
    let papers = papers(parts);
    let mut text = String::new();
    for part in parts {
        let note = papers.iter().position(|paper| Some(*paper) == part.paper);
        text.push_str(&part.text(width, note.map(|note| note + 1)));
        text.push('\n');
    }
    for (number, paper) in papers.iter().enumerate() {
        let note = format!("[{}] After {paper}.", number + 1);
        text.push_str(&(wrap(&note, width).join("\n") + "\n"));
    }
    if !papers.is_empty() {
        text.push('\n');
    }
    text
}

/// The notes, and the answer behind them.
fn paragraphs(report: &Report, width: usize) -> String {
    let verdict = &report.verdict;
    let said = format!("Verdict: {}.", verdict.worth.label());
    let next = format!("Next: {}.", verdict.next);
    let lines = notes(report)
        .into_iter()
        .chain([said, report.answer.clone(), next]);
    lines
        .map(|line| wrap(&line, width).join("\n") + "\n")
        .collect()
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let consistency = &report.consistency;
    let mut read = plural(consistency.read, "process", "processes") + " read";
    for (count, what) in [
        (consistency.changed, "changed meanwhile"),
        (consistency.vanished, "vanished"),
        (consistency.ended, "had ended"),
        (consistency.refused, "refused"),
        (consistency.unreadable, "could not be read"),
    ] {
        if count > 0 {
            read.push_str(&format!(", {count} {what}"));
        }
    }
    notes.push(match &report.cost {
        Some(cost) => format!(
            "{read}; {} pages in {:.2} s, {:.2} s of processor time, {} of memory at most.",
            number(cost.pages as f64),
            cost.seconds,
            cost.cpu_seconds,
            size(cost.peak_bytes)
        ),
        None => format!("{read}."),
    });
    if report.frames != Frames::Visible {
        notes.push("Page frames were not all seen.".into());
    }
    match report.total.entries.active.map(|active| active.by) {
        Some(Watched::Frames) => notes.push(
            "Active entries: known frame by frame, from the kernel's idle page tracking.".into(),
        ),
        Some(Watched::Regions) => notes.push(
            "Active entries: known region by region, as this kernel does not track idle pages."
                .into(),
        ),
        None => {}
    }
    notes.extend(report.joins.iter().flat_map(|joins| joins.notes()));
    if let Some(ratio) = report.consistency.pss_over_kernel {
        notes.push(format!(
            "Proportional set size: {:.2} % of what the kernel's smaps says.",
            100.0 * ratio
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn papers_are_in_footnotes() {
        let text = parts(&report().parts(), 100);
        assert!(
            text.contains("\nEntries [1]\n") || text.starts_with("Entries [1]\n"),
            "{text}"
        );
        assert!(text.contains("\n[1] After Figure 9 of BabelFish"), "{text}");
    }

    #[test]
    fn a_round_shows_the_changes_since_the_one_before() {
        let mut report = report();
        let before = Before::new(&report);
        report.groups[0].processes = 5;
        report.groups[0].ptps.saved_bytes = 4096;
        assert_eq!(before.change(&report.groups[0]), (3, -4096));
        let text = table::groups(&report, &Show::default(), Some(&before), 120).unwrap();
        assert!(text.contains("+3") && text.contains("-4"), "{text}");
        report.groups.clear();
        assert!(before.gone(&report).starts_with("1 group gone"));
    }
}
