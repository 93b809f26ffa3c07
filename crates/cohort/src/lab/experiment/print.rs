// SPDX-License-Identifier: GPL-2.0-or-later
//! Results on the terminal: tables of at most 100 columns and one sentence with the answer.

use super::results::Results;
use crate::show::{Kind, maybe, ranged, rows, table};

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

/// The one sentence.
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

/// The table of `cohort lab list`.
pub fn list(lines: &[[String; 3]]) -> String {
    let mut shown = table();
    shown.set_header(["experiment", "what", "last run"]);
    for line in lines {
        shown.add_row(line.clone());
    }
    shown.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_is_wider_than_a_hundred_columns() {
        let long = "word ".repeat(60);
        let text = list(&[[long.clone(), long.clone(), long]]);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }
}
