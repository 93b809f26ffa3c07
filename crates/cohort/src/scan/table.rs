// SPDX-License-Identifier: GPL-2.0-or-later
//! The default form: a table as wide as the terminal.

use super::args::Show;
use super::cell::{Value, plural};
use super::part::{least, lines};
use super::render::Before;
use super::report::Report;
use super::section::{GroupReport, place};
use crate::show::number;
use anyhow::Result;

/// The columns shown when none are named.
const DEFAULT: &[&str] = &[
    "group",
    "pid",
    "procs",
    "entries",
    "shareable",
    "huge",
    "once",
    "dup%",
    "ptps",
    "left",
    "saves",
];
/// Of those, the columns that are left out first where the terminal is narrow.
const SPARE: [&str; 4] = ["once", "huge", "shareable", "entries"];
/// Letters that a name has before columns are left out for it.
const NAME: usize = 24;

/// Places of the columns that are wanted.
pub fn columns(show: &Show) -> Result<Vec<usize>> {
    if show.columns.is_empty() {
        return DEFAULT.iter().map(|name| place(name)).collect();
    }
    show.columns.iter().map(|name| place(name)).collect()
}

/// Sorts groups as asked: largest first, names from A on.
pub fn sort(groups: &mut Vec<GroupReport>, show: &Show) -> Result<()> {
    let place = place(&show.sort)?;
    let value = |group: &GroupReport| group.columns().swap_remove(place).value;
    let mut keyed: Vec<(Value, GroupReport)> = groups
        .drain(..)
        .map(|group| (value(&group), group))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let order = match (a, b) {
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (a, b) => {
                let amount = |value: &Value| value.number().unwrap_or(0.0);
                amount(b).total_cmp(&amount(a))
            }
        };
        if show.reverse { order.reverse() } else { order }
    });
    groups.extend(keyed.into_iter().map(|(_, group)| group));
    Ok(())
}

/// The table of groups in `width` columns; `before` is the scan before, with `--watch`.
pub fn groups(
    report: &Report,
    show: &Show,
    before: Option<&Before>,
    width: usize,
) -> Result<String> {
    let mut places = columns(show)?;
    let (mut heading, mut rows) = cells(report, show, before, &places)?;
    if show.columns.is_empty() {
        let mut spare = SPARE.iter();
        while least(&heading, &rows) + NAME - 10 > width {
            let Some(name) = spare.next() else { break };
            let unwanted = place(name)?;
            places.retain(|place| *place != unwanted);
            (heading, rows) = cells(report, show, before, &places)?;
        }
    }
    let total = report.total.values(&places);
    let texts: Vec<usize> = (0..places.len())
        .filter(|&column| matches!(total[column], Value::Text(_)))
        .collect();
    let mut text = lines(&heading, &rows, &texts, width);
    if report.groups.len() > show.rows {
        text.push_str(&format!(
            "and {} more: -n shows them\n",
            plural(report.groups.len() - show.rows, "group", "groups")
        ));
    }
    if let Some(before) = before {
        text.push_str(&before.gone(report));
    }
    Ok(text)
}

/// Heading and rows.
fn cells(
    report: &Report,
    show: &Show,
    before: Option<&Before>,
    places: &[usize],
) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let names = report.total.columns();
    let mut heading: Vec<String> = places
        .iter()
        .map(|&place| {
            let column = &names[place];
            match (&column.value, show.units) {
                (Value::Bytes(_), false) => format!("{} kB", column.name),
                _ => column.name.to_string(),
            }
        })
        .collect();
    let before = before.filter(|before| before.any());
    if before.is_some() {
        heading.extend(["new procs", "saves more kB"].map(String::from));
    }
    let totals = show.totals.then_some(&report.total);
    let shown = report.groups.iter().take(show.rows).chain(totals);
    let rows = shown.map(|group| {
        let values = group.values(places);
        let mut row: Vec<String> = values.iter().map(|value| value.cell(show.units)).collect();
        if let Some(before) = before {
            let (processes, bytes) = before.change(group);
            row.extend([signed(processes as f64), signed((bytes / 1024) as f64)]);
        }
        row
    });
    Ok((heading, rows.collect()))
}

/// A change, with its sign; nothing for none.
pub fn signed(value: f64) -> String {
    match value {
        0.0 => String::new(),
        value if value > 0.0 => format!("+{}", number(value)),
        value => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn no_number_is_broken_at_any_width() {
        let mut report = report();
        report.groups[0].label = "python3 /usr/bin/gunicorn --workers 4 app:application".into();
        report.groups[0].entries.total = 123_456_789;
        report.groups[0].entries.classes.shareable = 123_456_780;
        report.groups[0].ptps.saved_bytes = 987_654_321 << 10;
        for (width, name) in [(80, "pyt"), (100, "python3"), (200, "app:application")] {
            let text = groups(&report, &Show::default(), None, width).unwrap();
            let wide = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(wide <= width, "{width}: {text}");
            assert!(
                text.contains("987,654,321") && text.contains(name),
                "{text}"
            );
            assert_eq!(text.lines().filter(|line| line.contains("pyt")).count(), 1);
            assert_eq!(text.contains("123,456,780"), width > 80, "{text}");
        }
        // Named columns are all shown, and whole, even where they do not fit.
        let show = Show {
            columns: [
                "group",
                "entries",
                "shareable",
                "saves",
                "rss",
                "pss",
                "tables",
            ]
            .map(String::from)
            .to_vec(),
            ..Show::default()
        };
        let text = groups(&report, &show, None, 40).unwrap();
        assert!(
            text.contains("123,456,789") && text.contains("987,654,321"),
            "{text}"
        );
    }

    #[test]
    fn default_columns_are_there_and_names_differ() {
        for name in DEFAULT {
            place(name).unwrap();
        }
        let columns = GroupReport::default().columns();
        let mut names: Vec<_> = columns.iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), columns.len());
        assert!(place("nope").is_err_and(|error| error.to_string().contains("shareable")));
    }
}
