// SPDX-License-Identifier: GPL-2.0-or-later
//! Forms for other programs: CSV and OpenMetrics, both made from the columns.

use super::args::Show;
use super::cell::{Value, clean, shorten};
use super::metrics::Metrics;
use super::report::Report;
use super::section::GroupReport;
use super::table;
use anyhow::Result;
use std::collections::HashSet;

/// Letters of a group's label; Prometheus keeps every label in memory.
const LABEL: usize = 100;

/// The groups as CSV (RFC 4180); sizes are in bytes.
pub fn csv(report: &Report, show: &Show) -> Result<String> {
    let columns = report.total.columns();
    let places = places(report, show)?;
    let mut lines = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    lines.write_record(places.iter().map(|&place| columns[place].name))?;
    let totals = show.totals.then_some(&report.total);
    for group in report.groups.iter().chain(totals) {
        let cells = group.values(&places).into_iter().map(|value| match value {
            Value::None => String::new(),
            Value::Text(text) => harmless(&text),
            Value::Bytes(bytes) => bytes.to_string(),
            Value::Count(value) | Value::Percent(value) => value.to_string(),
        });
        lines.write_record(cells)?;
    }
    Ok(String::from_utf8(lines.into_inner()?)?)
}

/// A name that neither a terminal obeys nor a spreadsheet, to which these letters begin a formula.
fn harmless(text: &str) -> String {
    let quote = if text.starts_with(['=', '+', '-', '@']) {
        "'"
    } else {
        ""
    };
    format!("{quote}{}", clean(text))
}

/// Places of the columns that are named, or of all.
fn places(report: &Report, show: &Show) -> Result<Vec<usize>> {
    match show.columns.is_empty() {
        true => Ok((0..report.total.columns().len()).collect()),
        false => table::columns(show),
    }
}

/// Gauges in OpenMetrics' text format, for Prometheus' textfile collector and the like: of the
/// columns and groups that are asked for, and with all columns also the other figures.
pub fn openmetrics(report: &Report, show: &Show) -> Result<String> {
    let mut text = Metrics::default();
    columns(&mut text, report, show)?;
    if show.columns.is_empty() {
        report.total.metrics(&mut text);
        if let Some(found) = &report.content {
            found.metrics(&mut text, report.page_bytes);
        }
    }
    outcomes(&mut text, report);
    figures(&mut text, report);
    Ok(text.finish())
}

/// A family for every column that has a number for all processes. Labels hold no process's number,
/// so that a series goes on after a restart.
fn columns(text: &mut Metrics, report: &Report, show: &Show) -> Result<()> {
    let all = std::iter::once(("all", &report.total));
    let shown = report.groups.iter().take(show.rows);
    let groups = shown.map(|group| ("group", group));
    let mut labels = HashSet::new();
    let rows: Vec<_> = all
        .chain(groups)
        .map(|(scope, group)| {
            let mut label = label(group);
            // Two that are cut may be the same.
            while !labels.insert((scope, label.clone())) {
                label.push('\'');
            }
            (scope, label, group.columns())
        })
        .collect();
    for place in places(report, show)? {
        let column = &rows[0].2[place];
        let Some(unit) = column.value.unit() else {
            continue;
        };
        let name = column.name.replace('%', "").replace('-', "_");
        text.family(&name, unit, column.help);
        for (scope, name, columns) in &rows {
            if let Some(value) = columns[place].value.number() {
                text.sample(&[("scope", scope), ("group", name)], value);
            }
        }
    }
    Ok(())
}

/// A long label is cut before the number that tells groups of one name apart, which it keeps.
fn label(group: &GroupReport) -> String {
    match group.label.strip_prefix(&group.name) {
        Some(number) if group.name.chars().count() > LABEL => {
            format!("{}{number}", shorten(&group.name, LABEL))
        }
        _ => group.label.clone(),
    }
}

/// How many processes were read, and how many not.
fn outcomes(text: &mut Metrics, report: &Report) {
    let consistency = &report.consistency;
    text.family("processes", "", "processes by what became of reading them");
    for (state, count) in [
        ("read", consistency.read),
        ("changed", consistency.changed),
        ("vanished", consistency.vanished),
        ("ended", consistency.ended),
        ("refused", consistency.refused),
        ("unreadable", consistency.unreadable),
        ("same_memory", consistency.same_memory),
    ] {
        text.sample(&[("state", state)], count as f64);
    }
}

/// Figures of the scan as a whole.
fn figures(text: &mut Metrics, report: &Report) {
    let consistency = &report.consistency;
    let visible = report.frames == cohort_snapshot::model::Frames::Visible;
    let lost = report.sampling.as_ref().map(|sampling| sampling.lost);
    let cost = report.cost.as_ref();
    for (name, unit, help, value) in [
        (
            "frames_visible",
            "",
            "1 if page frames could be seen",
            Some(f64::from(u8::from(visible))),
        ),
        (
            "verdict",
            "",
            "0 for not known, 1 for no, 2 for perhaps, 3 for worth it",
            Some(f64::from(report.verdict.worth as u8)),
        ),
        (
            "memory",
            "bytes",
            "memory of the machine",
            report.memory_bytes.map(|bytes| bytes as f64),
        ),
        (
            "fork",
            "seconds",
            "a stock fork of the group that would save most",
            report.verdict.fork.map(|fork| fork.seconds),
        ),
        (
            "fork_copy",
            "seconds",
            "what copying entries takes of that",
            report.verdict.fork.map(|fork| fork.copy_seconds),
        ),
        (
            "faults_spared",
            "per_second",
            "page faults per second that sharing would spare",
            report.verdict.faults_per_second,
        ),
        (
            "time",
            "seconds",
            "when the scan was made",
            Some(report.time as f64),
        ),
        (
            "read",
            "seconds",
            "from the first process to the last",
            Some(consistency.seconds),
        ),
        (
            "pss_over_kernel",
            "",
            "our proportional set size over that of smaps",
            consistency.pss_over_kernel,
        ),
        (
            "samples_lost",
            "",
            "samples that the kernel had no room for",
            lost.map(|lost| lost as f64),
        ),
        (
            "cpu",
            "seconds",
            "processor time that the scan took",
            cost.map(|cost| cost.cpu_seconds),
        ),
        (
            "peak",
            "bytes",
            "most memory that the scan used",
            cost.map(|cost| cost.peak_bytes as f64),
        ),
    ] {
        if let Some(value) = value {
            text.family(name, unit, help);
            text.sample(&[], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn csv_quotes_what_it_must() {
        let mut report = report();
        report.groups[0].label = "a,\"b\"".into();
        let show = Show {
            columns: vec!["group".into(), "procs".into(), "saves".into()],
            ..Show::default()
        };
        let text = csv(&report, &show).unwrap();
        assert_eq!(text, "group,procs,saves\r\n\"a,\"\"b\"\"\",2,8192\r\n");
        let text = csv(&report, &Show::default()).unwrap();
        assert_eq!(text.lines().count(), 2);
        let widths: Vec<usize> = text
            .replace(",\"\"b\"\"", "")
            .lines()
            .map(|line| line.split(',').count())
            .collect();
        assert_eq!(widths, [report.total.columns().len(); 2]);
    }

    #[test]
    fn no_form_passes_on_what_a_terminal_or_a_spreadsheet_obeys() {
        let mut report = report();
        report.groups[0].label = "=x\x1b]0;y\x07\r".into();
        let show = Show {
            columns: vec!["group".into()],
            ..Show::default()
        };
        assert_eq!(csv(&report, &show).unwrap(), "group\r\n'=x?]0;y??\r\n");
        let gauges = openmetrics(&report, &Show::default()).unwrap();
        assert!(gauges.contains("group=\"=x?]0;y??\""), "{gauges}");
        let page = crate::scan::html::page(&report, &show).unwrap();
        for text in [gauges, page] {
            assert!(!text.contains(['\x1b', '\x07', '\r']), "{text}");
        }
    }

    #[test]
    fn csv_has_what_was_found_in_contents() {
        let mut report = report();
        report.groups[0].label = "x".into();
        let names = "group,merge-read,merge-equal,merge-frees,merge-profile,merge-stability";
        let show = Show {
            columns: names.split(',').map(String::from).collect(),
            totals: true,
            ..Show::default()
        };
        // Nothing was asked for: empty, and no zeros.
        let text = csv(&report, &show).unwrap();
        assert_eq!(text, format!("{names}\r\nx,,,,,\r\nall,,,,,\r\n"));
        report.add_content(crate::scan::report::tests::content());
        let text = csv(&report, &show).unwrap();
        // The third process is in no group, and a frame that is freed is no group's alone.
        let expected = format!("{names}\r\nx,8,4,,4,0.5\r\nall,8,4,12288,4,0.5\r\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn openmetrics_obeys_rows_and_columns_and_names_no_process() {
        let mut report = report();
        report.groups.push(report.groups[0].clone());
        report.groups[1].label = "x -y #2".into();
        let show = Show {
            columns: vec!["procs".into()],
            rows: 1,
            ..Show::default()
        };
        let text = openmetrics(&report, &show).unwrap();
        let groups: Vec<&str> = text
            .lines()
            .filter(|l| l.contains("scope=\"group\""))
            .collect();
        assert_eq!(
            groups,
            ["cohort_scan_procs{scope=\"group\",group=\"x -y\"} 2"]
        );
        assert!(!text.contains("cohort_scan_pid"), "{text}");
        // Long names stay apart.
        for (group, number) in report.groups.iter_mut().zip(["", " #2"]) {
            group.name = "x".repeat(300);
            group.label = format!("{}{number}", group.name);
        }
        assert_ne!(label(&report.groups[0]), label(&report.groups[1]));
        assert!(label(&report.groups[1]).len() < 120);
    }

    #[test]
    fn openmetrics_is_what_its_readers_take() {
        let mut report = report();
        report.groups[0].label = "a\"b\\c".into();
        report.add_content(crate::scan::report::tests::content());
        report.total.code.sampled = Some(cohort_snapshot::count::code::Sampled {
            kernel: 77,
            ..Default::default()
        });
        let text = openmetrics(&report, &Show::default()).unwrap();
        for line in [
            "cohort_scan_samples_kernel{scope=\"all\",group=\"all\"} 77\n",
            "cohort_scan_content_pages{state=\"equal\"} 5\n",
            "cohort_scan_merge_equal{scope=\"all\",group=\"all\"} 4\n",
            "cohort_scan_content_freed_bytes 12288\n",
            "cohort_scan_content_stability{program=\"/bin/x\",look=\"2\"} 0.5\n",
            "cohort_scan_content_similarity{program=\"/bin/x\",other=\"/bin/y\"} 0.25\n",
            "cohort_scan_time_seconds 1\n",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        // What was not asked for is not said to be 0.
        assert!(!text.contains("cohort_scan_active"), "{text}");
        assert!(text.ends_with("# EOF\n"));
        assert!(
            text.contains("cohort_scan_saves_bytes{scope=\"group\",group=\"a\\\"b\\\\c\"} 8192\n")
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
