// SPDX-License-Identifier: GPL-2.0-or-later
//! Results on the terminal: tables as wide as it is, and one sentence with the answer.

use super::results::{CheckResult, Results};
use crate::show::{Kind, maybe, ranged, rows, table};
use comfy_table::ColumnConstraint;
use std::collections::{BTreeMap, BTreeSet};

/// Prints an experiment's tables, checks and the answer.
pub fn results(results: &Results) -> String {
    let mut text = format!("\n{}: {}\n", results.name(), results.title);
    let in_words = [Kind::Table, Kind::Box];
    for figure in results
        .figures
        .iter()
        .filter(|f| in_words.contains(&f.kind))
    {
        let (heading, rows) = rows(figure);
        let mut shown = table();
        shown.set_header(heading).add_rows(rows);
        text.push_str(&format!("\n{}\n{shown}\n", figure.title));
    }
    if !results.checks.is_empty() {
        let mut shown = table();
        shown.set_header(["check", "unit", "paper", "measured", "aim", ""]);
        for check in &results.checks {
            shown.add_row([
                check.name.clone(),
                check.unit.clone(),
                maybe(check.paper),
                ranged(check.measured, check.spread()),
                check.aim.clone(),
                if check.pass { "met" } else { "missed" }.to_string(),
            ]);
        }
        text.push_str(&format!("\n{shown}\n{}", bounds(&results.checks)));
    }
    for check in &results.checks {
        if let Some(why) = &check.why {
            text.push_str(&format!("{} was not measured: {why}\n", check.name));
        }
    }
    for problem in &results.problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    text.push_str(&format!("{}\n", answer(results)));
    text
}

/// A sentence on what the bounds in the table are of; empty without bounds.
fn bounds(checks: &[CheckResult]) -> String {
    let bounds = checks.iter().filter_map(|check| check.bounds.as_ref());
    let ends = bounds.flat_map(|bounds| [&bounds.least_under, &bounds.most_under]);
    let readings: BTreeSet<&str> = ends.flatten().map(String::as_str).collect();
    if readings.is_empty() {
        return String::new();
    }
    let readings: Vec<&str> = readings.into_iter().collect();
    format!(
        "In brackets: the least and the most over other readings of the model ({}).\n",
        readings.join(", ")
    )
}

/// The sentence below the tables: how many aims were met, on which kernels.
pub fn answer(results: &Results) -> String {
    let met = results.checks.iter().filter(|check| check.pass).count();
    let kernels: Vec<String> = results.kernels.iter().map(|k| k.describe()).collect();
    format!(
        "{}: {met} of {} aims met, on Linux {} under QEMU {}.",
        results.name(),
        results.checks.len(),
        kernels.join(" and "),
        results.qemu
    )
}

/// A run's date and verdicts, as `cohort lab list` prints them.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    date: String,
    met: Vec<bool>,
    /// Why the result is old, if it is.
    old: Option<String>,
}

impl Outcome {
    pub fn new(date: &str, checks: &[CheckResult], old: Option<String>) -> Self {
        Outcome {
            date: date.into(),
            met: checks.iter().map(|check| check.pass).collect(),
            old,
        }
    }
}

impl Outcome {
    fn aims(&self) -> String {
        let met = self.met.iter().filter(|met| **met).count();
        format!("{met} of {}", self.met.len())
    }

    /// The day, and a mark that [`list`] explains below its table.
    fn day(&self) -> String {
        let day = self.date.split(' ').next().unwrap_or_default();
        match &self.old {
            Some(_) => format!("{day}, old"),
            None => day.into(),
        }
    }
}

/// What a file of results says.
#[derive(Debug)]
pub enum Found {
    /// There is no file.
    Never,
    Ran(Outcome),
    /// The reason why the file cannot be read.
    Unreadable(String),
}

impl Found {
    /// Why it is old or cannot be read.
    fn note(&self) -> Option<&str> {
        match self {
            Found::Never => None,
            Found::Ran(outcome) => outcome.old.as_deref(),
            Found::Unreadable(error) => Some(error),
        }
    }

    /// The cells "aims met" and "run".
    fn cells(&self) -> Option<(String, String)> {
        match self {
            Found::Never => None,
            Found::Ran(outcome) => Some((outcome.aims(), outcome.day())),
            Found::Unreadable(_) => Some(("-".into(), "cannot be read".into())),
        }
    }
}

/// A row of `cohort lab list`: an experiment, or an experiment under one model.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    title: String,
    /// The last run in this checkout.
    last: Found,
    pub kept: Found,
}

impl Row {
    pub fn new(name: String, title: &str, last: Found) -> Self {
        Row {
            name,
            title: title.into(),
            last,
            kept: Found::Never,
        }
    }

    /// The cells "aims met" and "run". The kept result has a line of its own unless it is the last
    /// run.
    fn cells(&self) -> (String, String) {
        let kept = self.kept.cells();
        let kept = kept.map(|(aims, run)| (aims, format!("{run}, kept")));
        let last = match (&self.last, &self.kept) {
            (Found::Ran(last), Found::Ran(kept)) if last == kept => None,
            (Found::Never, Found::Never) => Some(("-".into(), "never".into())),
            (last, _) => last.cells(),
        };
        let (aims, runs): (Vec<String>, Vec<String>) = last.into_iter().chain(kept).unzip();
        (aims.join("\n"), runs.join("\n"))
    }

    /// What the table has no room for: why a result is old or cannot be read.
    fn notes(&self) -> Vec<&str> {
        let (last, kept) = (self.last.note(), self.kept.note());
        let kept = kept.filter(|_| last != kept);
        last.into_iter().chain(kept).collect()
    }
}

/// The table of `cohort lab list`, and below it each note with the experiments that it is about.
pub fn list(rows: &[Row]) -> String {
    let mut shown = table();
    shown.set_header(["experiment", "what", "aims met", "run"]);
    let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let (aims, run) = row.cells();
        shown.add_row([row.name.clone(), row.title.clone(), aims, run]);
        for note in row.notes() {
            notes.entry(note).or_default().push(&row.name);
        }
    }
    // Experiments, numbers and dates stay whole: what an experiment is about may take more lines.
    for column in [0, 2, 3] {
        let column = shown.column_mut(column).expect("the heading has it");
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    let mut text = shown.to_string();
    for (note, names) in notes {
        text.push_str(&format!("\n{note}: {}", names.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(date: &str) -> Outcome {
        Outcome {
            date: date.into(),
            met: vec![true, false],
            old: None,
        }
    }

    #[test]
    fn the_list_has_a_line_per_experiment_and_no_rules_between_them() {
        let title = "word ".repeat(30);
        let mut rows = ["one", "two"].map(|name| Row::new(name.into(), &title, Found::Never));
        rows[1].kept = Found::Ran(Outcome {
            old: Some("old: kernel changed since".into()),
            ..outcome("2026-01-01 00:00:00 UTC")
        });
        let text = list(&rows);
        // No terminal reads a test's output, so that the width is the one without a terminal.
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        let rules = text.lines().filter(|line| line.contains("──"));
        assert_eq!(rules.count(), 2, "{text}");
        assert!(text.contains(" 1 of 2     2026-01-01, old, kept"), "{text}");
        assert!(text.ends_with("\nold: kernel changed since: two"), "{text}");
    }

    #[test]
    fn a_kept_result_has_a_line_of_its_own_only_where_it_is_not_the_last_run() {
        let cell = |last, kept: Found| {
            let mut row = Row::new("demo".into(), "Demo", last);
            row.kept = kept;
            row.cells().1
        };
        let ran = |date: &str| Found::Ran(outcome(date));
        let unreadable = || Found::Unreadable("cannot read it".into());
        assert_eq!(cell(Found::Never, Found::Never), "never");
        assert_eq!(cell(ran("today"), Found::Never), "today");
        assert_eq!(cell(ran("today"), ran("today")), "today, kept");
        assert_eq!(cell(ran("today"), ran("before")), "today\nbefore, kept");
        assert_eq!(cell(Found::Never, ran("before")), "before, kept");
        assert_eq!(
            cell(unreadable(), ran("before")),
            "cannot be read\nbefore, kept"
        );
        assert_eq!(
            cell(ran("today"), unreadable()),
            "today\ncannot be read, kept"
        );
    }
}
