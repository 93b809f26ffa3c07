// SPDX-License-Identifier: GPL-2.0-or-later
//! Results on the terminal: tables of at most 100 columns and one sentence with the answer.

use super::results::{CheckResult, Results};
use crate::show::{Kind, maybe, ranged, rows, table};
use std::fmt;

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
                ranged(check.measured, check.range),
                check.aim.clone(),
                if check.pass { "met" } else { "missed" }.to_string(),
            ]);
        }
        text.push_str(&format!("\n{shown}\n"));
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

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = self.met.iter().filter(|met| **met).count();
        write!(f, "{met} of {} aims met, {}", self.met.len(), self.date)?;
        match &self.old {
            Some(old) => write!(f, ", {old}"),
            None => Ok(()),
        }
    }
}

/// The last run in this checkout.
#[derive(Debug)]
pub enum Last {
    Never,
    Ran(Outcome),
    /// The reason why its file cannot be read.
    Unreadable(String),
}

/// A row of `cohort lab list`: an experiment, or an experiment under one model.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    title: String,
    last: Last,
    pub kept: Option<Outcome>,
}

impl Row {
    pub fn new(name: String, title: &str, last: Last) -> Self {
        Row {
            name,
            title: title.into(),
            last,
            kept: None,
        }
    }

    /// The cell "last run". The kept result has a line of its own unless it is the last run.
    fn runs(&self) -> String {
        let kept = self.kept.as_ref().map(|kept| format!("kept: {kept}"));
        let last = match (&self.last, &self.kept) {
            (Last::Ran(last), Some(kept)) if last == kept => return format!("{last}, kept"),
            (Last::Never, Some(_)) => None,
            (Last::Never, None) => Some("never".into()),
            (Last::Ran(last), _) => Some(last.to_string()),
            (Last::Unreadable(error), _) => Some(error.clone()),
        };
        let lines: Vec<String> = last.into_iter().chain(kept).collect();
        lines.join("\n")
    }
}

/// The table of `cohort lab list`.
pub fn list(rows: &[Row]) -> String {
    let mut shown = table();
    shown.set_header(["experiment", "what", "last run"]);
    for row in rows {
        shown.add_row([row.name.clone(), row.title.clone(), row.runs()]);
    }
    shown.to_string()
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
    fn no_table_is_wider_than_a_hundred_columns() {
        let long = "word ".repeat(60);
        let last = Last::Unreadable(long.clone());
        let mut row = Row::new(long.clone(), &long, last);
        row.kept = Some(outcome(&long));
        let text = list(&[row]);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_kept_result_has_a_line_of_its_own_only_where_it_is_not_the_last_run() {
        let cell = |last, kept: Option<&str>| {
            let mut row = Row::new("demo".into(), "Demo", last);
            row.kept = kept.map(outcome);
            row.runs()
        };
        let ran = || Last::Ran(outcome("today"));
        assert_eq!(cell(Last::Never, None), "never");
        assert_eq!(cell(ran(), None), "1 of 2 aims met, today");
        assert_eq!(cell(ran(), Some("today")), "1 of 2 aims met, today, kept");
        assert_eq!(
            cell(ran(), Some("before")),
            "1 of 2 aims met, today\nkept: 1 of 2 aims met, before"
        );
        assert_eq!(
            cell(Last::Never, Some("before")),
            "kept: 1 of 2 aims met, before"
        );
        assert_eq!(
            cell(Last::Unreadable("cannot read it".into()), Some("before")),
            "cannot read it\nkept: 1 of 2 aims met, before"
        );
    }
}
