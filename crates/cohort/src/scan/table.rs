// SPDX-License-Identifier: GPL-2.0-or-later
//! The default form: a table of at most 100 columns.

use super::args::Show;
use super::cell::Value;
use super::report::Report;
use super::section::{GroupReport, place};
use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

const WIDTH: u16 = 100;

/// The columns shown when none are named.
const DEFAULT: &[&str] = &[
    "group",
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

/// The table of groups.
pub fn groups(report: &Report, show: &Show) -> Result<String> {
    let places = columns(show)?;
    let names = report.total.columns();
    let totals = report.total.values(&places);
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table.set_header(places.iter().map(|&place| {
        let column = &names[place];
        match (&column.value, show.units) {
            (Value::Bytes(_), false) => format!("{} kB", column.name),
            _ => column.name.to_string(),
        }
    }));
    let row = |group: &GroupReport| -> Vec<String> {
        let values = group.values(&places);
        values.iter().map(|value| value.cell(show.units)).collect()
    };
    table.add_rows(report.groups.iter().take(show.rows).map(row));
    if show.totals {
        table.add_row(row(&report.total));
    }
    for (shown, total) in table.column_iter_mut().zip(&totals) {
        if !matches!(total, Value::Text(_)) {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if report.groups.len() > show.rows {
        text.push_str(&format!(
            " and {} more groups: -n shows more\n",
            report.groups.len() - show.rows
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
