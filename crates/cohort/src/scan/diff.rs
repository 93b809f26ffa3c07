// SPDX-License-Identifier: GPL-2.0-or-later
//! What changed between two captures.

use super::cell::Value;
use super::part::Part;
use super::report::{Report, SCHEMA_VERSION};
use super::section::GroupReport;
use crate::show::{number, with_unit};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two reports side by side.
#[derive(Debug, Serialize)]
pub struct Diff {
    pub schema_version: u32,
    /// All processes.
    pub total: Vec<Change>,
    /// Groups that are in either, by label: a service that was started anew is the same.
    pub groups: BTreeMap<String, Vec<Change>>,
}

/// A figure in both; none where the group is not there.
#[derive(Debug, PartialEq, Serialize)]
pub struct Change {
    pub name: &'static str,
    /// `bytes`, `percent`, or nothing for a count.
    pub unit: &'static str,
    pub before: Option<f64>,
    pub after: Option<f64>,
}

/// Compares.
pub fn diff(before: &Report, after: &Report) -> Diff {
    let mut groups: BTreeMap<String, (Option<&GroupReport>, Option<&GroupReport>)> =
        BTreeMap::new();
    for group in &before.groups {
        groups.entry(group.label.clone()).or_default().0 = Some(group);
    }
    for group in &after.groups {
        groups.entry(group.label.clone()).or_default().1 = Some(group);
    }
    Diff {
        schema_version: SCHEMA_VERSION,
        total: changes(Some(&before.total), Some(&after.total)),
        groups: groups
            .into_iter()
            .map(|(name, (before, after))| (name, changes(before, after)))
            .collect(),
    }
}

fn changes(before: Option<&GroupReport>, after: Option<&GroupReport>) -> Vec<Change> {
    let values = |group: Option<&GroupReport>| -> Vec<Value> {
        let columns = group.map(GroupReport::columns).unwrap_or_default();
        columns.into_iter().map(|column| column.value).collect()
    };
    let (before, after) = (values(before), values(after));
    let names = GroupReport::default().columns().into_iter().enumerate();
    names
        .filter_map(|(place, column)| {
            let (before, after) = (before.get(place), after.get(place));
            let number = |value: Option<&Value>| value.and_then(Value::number);
            let unit = |value: Option<&Value>| value.and_then(Value::unit);
            Some(Change {
                name: column.name,
                unit: unit(before).or(unit(after))?,
                before: number(before),
                after: number(after),
            })
        })
        .collect()
}

impl Diff {
    /// As text: the totals that changed, and the groups with the largest changes.
    pub fn text(&self, rows: usize, width: usize) -> String {
        let total = Part {
            title: "All processes".into(),
            paper: None,
            heading: ["", "before", "after", "change", "%"]
                .map(String::from)
                .to_vec(),
            rows: self
                .total
                .iter()
                .filter(|change| change.by() != 0.0)
                .map(Change::row)
                .collect(),
        };
        let mut groups: Vec<_> = self
            .groups
            .iter()
            .filter(|(_, changes)| changes.iter().any(|change| change.by() != 0.0))
            .collect();
        let size = |changes: &[Change]| find(changes, "entries").map_or(0.0, |c| c.by().abs());
        groups.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
        let mut text = match total.rows.is_empty() {
            true => "All processes: no figure changed\n".into(),
            false => total.text(width, None),
        };
        if !groups.is_empty() {
            let part = Part {
                title: "Groups that changed".into(),
                paper: None,
                heading: [
                    "", "procs", "change", "entries", "change", "ptps", "change", "saves", "change",
                ]
                .map(String::from)
                .to_vec(),
                rows: groups
                    .iter()
                    .take(rows)
                    .map(|(name, changes)| group_row(name, changes))
                    .collect(),
            };
            text.push('\n');
            text.push_str(&part.text(width, None));
        }
        text
    }
}

fn find<'a>(changes: &'a [Change], name: &str) -> Option<&'a Change> {
    changes.iter().find(|change| change.name == name)
}

fn group_row(name: &str, changes: &[Change]) -> Vec<String> {
    let mut row = vec![name.to_string()];
    for column in ["procs", "entries", "ptps", "saves"] {
        match find(changes, column) {
            Some(change) => row.extend([number(change.after.unwrap_or(0.0)), signed(change.by())]),
            None => row.extend(["-".to_string(), "-".to_string()]),
        }
    }
    row
}

impl Change {
    fn by(&self) -> f64 {
        self.after.unwrap_or(0.0) - self.before.unwrap_or(0.0)
    }

    fn row(&self) -> Vec<String> {
        let before = self.before.unwrap_or(0.0);
        let percent = match before == 0.0 {
            true => "-".to_string(),
            false => format!("{:+.1}", 100.0 * self.by() / before),
        };
        vec![
            with_unit(self.name, self.unit),
            number(before),
            number(self.after.unwrap_or(0.0)),
            signed(self.by()),
            percent,
        ]
    }
}

fn signed(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn a_group_that_is_gone_is_a_change() {
        let (before, mut after) = (report(), report());
        after.groups.clear();
        after.total.processes = 1;
        let diff = diff(&before, &after);
        let procs = find(&diff.total, "procs").unwrap();
        let unit = |name| find(&diff.total, name).unwrap().unit;
        assert_eq!((unit("procs"), unit("saves")), ("", "bytes"));
        assert_eq!((procs.before, procs.after), (Some(2.0), Some(1.0)));
        let gone = &diff.groups["x -y"];
        assert_eq!(find(gone, "procs").unwrap().after, None);
        let text = diff.text(5, 100);
        assert!(text.contains("x -y") && text.contains("-50.0"), "{text}");
    }

    #[test]
    fn equal_captures_have_no_changes() {
        let text = diff(&report(), &report()).text(5, 100);
        assert_eq!(text, "All processes: no figure changed\n");
    }
}
