// SPDX-License-Identifier: GPL-2.0-or-later
//! Forms for other programs: CSV and OpenMetrics, both made from the table's columns.

use super::args::Show;
use super::report::{GroupReport, Report};
use super::table::{self, COLUMNS, Column, Value};
use anyhow::Result;

/// The groups as CSV (RFC 4180); sizes are in bytes.
pub fn csv(report: &Report, show: &Show) -> Result<String> {
    let columns: Vec<&Column> = match show.columns.is_empty() {
        true => COLUMNS.iter().collect(),
        false => table::columns(show)?,
    };
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let mut text = line(columns.iter().map(|column| quote(column.name)).collect());
    let totals = show.totals.then_some(&report.total);
    for group in report.groups.iter().chain(totals) {
        let cells = columns.iter().map(|column| match (column.value)(group) {
            Value::Text(text) => quote(&text),
            Value::Bytes(bytes) => bytes.to_string(),
            Value::Count(value) | Value::Percent(value) => value.to_string(),
        });
        text.push_str(&line(cells.collect()));
    }
    Ok(text)
}

fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_string()
}

/// Gauges in OpenMetrics' text format, for Prometheus' textfile collector and the like.
pub fn openmetrics(report: &Report) -> String {
    let mut text = String::new();
    for column in COLUMNS {
        let unit = match (column.value)(&report.total) {
            Value::Text(_) => continue,
            Value::Bytes(_) => "_bytes",
            Value::Percent(_) => "_percent",
            Value::Count(_) => "",
        };
        let name = format!(
            "cohort_scan_{}{unit}",
            column.name.replace('%', "").replace('-', "_")
        );
        family(&mut text, &name, column.help);
        if let Some(unit) = unit.strip_prefix('_') {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        let mut sample = |group: &GroupReport, scope: &str| {
            let value = match (column.value)(group) {
                Value::Text(_) => return,
                Value::Bytes(bytes) => bytes as f64,
                Value::Count(value) | Value::Percent(value) => value,
            };
            let group = label(&group.name);
            text.push_str(&format!(
                "{name}{{scope=\"{scope}\",group=\"{group}\"}} {value}\n"
            ));
        };
        sample(&report.total, "all");
        for group in &report.groups {
            sample(group, "group");
        }
    }
    let consistency = &report.consistency;
    family(
        &mut text,
        "cohort_scan_processes",
        "processes by what became of reading them",
    );
    for (state, count) in [
        ("read", consistency.read),
        ("changed", consistency.changed),
        ("vanished", consistency.vanished),
        ("refused", consistency.refused),
        ("unreadable", consistency.unreadable),
        ("same_memory", consistency.same_memory),
    ] {
        text.push_str(&format!(
            "cohort_scan_processes{{state=\"{state}\"}} {count}\n"
        ));
    }
    family(
        &mut text,
        "cohort_scan_frames_visible",
        "1 if page frames could be seen",
    );
    let visible = u8::from(report.frames == cohort_snapshot::model::Frames::Visible);
    text.push_str(&format!("cohort_scan_frames_visible {visible}\n"));
    family(
        &mut text,
        "cohort_scan_time_seconds",
        "when the scan was made",
    );
    text.push_str("# UNIT cohort_scan_time_seconds seconds\n");
    text.push_str(&format!("cohort_scan_time_seconds {}\n", report.time));
    if let Some(cost) = &report.cost {
        family(
            &mut text,
            "cohort_scan_cpu_seconds",
            "processor time that the scan took",
        );
        text.push_str("# UNIT cohort_scan_cpu_seconds seconds\n");
        text.push_str(&format!("cohort_scan_cpu_seconds {}\n", cost.cpu_seconds));
    }
    text.push_str("# EOF\n");
    text
}

fn family(text: &mut String, name: &str, help: &str) {
    text.push_str(&format!("# TYPE {name} gauge\n# HELP {name} {help}\n"));
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn csv_quotes_what_it_must() {
        let mut report = report();
        report.groups[0].name = "a,\"b\"".into();
        let show = Show {
            columns: vec!["group".into(), "procs".into(), "saves".into()],
            ..Show::default()
        };
        let text = csv(&report, &show).unwrap();
        assert_eq!(text, "group,procs,saves\r\n\"a,\"\"b\"\"\",2,8192\r\n");
        assert_eq!(csv(&report, &Show::default()).unwrap().lines().count(), 2);
    }

    #[test]
    fn openmetrics_is_what_its_readers_take() {
        let mut report = report();
        report.groups[0].name = "a\"b\\c\nd".into();
        let text = openmetrics(&report);
        assert!(text.ends_with("# EOF\n"));
        assert!(
            text.contains(
                "cohort_scan_saves_bytes{scope=\"group\",group=\"a\\\"b\\\\c\\nd\"} 8192\n"
            )
        );
        let mut families = std::collections::HashSet::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && *line != "# EOF")
        {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                // Each family once, and before its samples.
                (Some("#"), Some("TYPE"), Some(name)) => assert!(families.insert(name), "{name}"),
                (Some("#"), Some("HELP" | "UNIT"), Some(name)) => assert!(families.contains(name)),
                (Some(sample), ..) => {
                    let name = sample.split('{').next().unwrap();
                    assert!(families.contains(name), "{line}");
                    let value = line.rsplit(' ').next().unwrap();
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
