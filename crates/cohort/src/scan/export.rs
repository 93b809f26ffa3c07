// SPDX-License-Identifier: GPL-2.0-or-later
//! Forms for other programs: CSV and OpenMetrics, both made from the columns.

use super::args::Show;
use super::cell::Value;
use super::metrics::Metrics;
use super::report::Report;
use super::table;
use anyhow::Result;

/// The groups as CSV (RFC 4180); sizes are in bytes.
pub fn csv(report: &Report, show: &Show) -> Result<String> {
    let columns = report.total.columns();
    let places: Vec<usize> = match show.columns.is_empty() {
        true => (0..columns.len()).collect(),
        false => table::columns(show)?,
    };
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let names = places.iter().map(|&place| quote(columns[place].name));
    let mut text = line(names.collect());
    let totals = show.totals.then_some(&report.total);
    for group in report.groups.iter().chain(totals) {
        let cells = group.values(&places).into_iter().map(|value| match value {
            Value::None => String::new(),
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
    let mut text = Metrics::default();
    columns(&mut text, report);
    report.total.metrics(&mut text);
    if let Some(found) = &report.content {
        found.metrics(&mut text, report.page_bytes);
    }
    outcomes(&mut text, report);
    figures(&mut text, report);
    text.finish()
}

/// A family for every column that has a number for all processes.
fn columns(text: &mut Metrics, report: &Report) {
    let all = std::iter::once(("all", &report.total));
    let groups = report.groups.iter().map(|group| ("group", group));
    let rows: Vec<_> = all
        .chain(groups)
        .map(|(scope, group)| (scope, &group.name, group.columns()))
        .collect();
    for (place, column) in rows[0].2.iter().enumerate() {
        let unit = match column.value {
            Value::None | Value::Text(_) => continue,
            Value::Bytes(_) => "bytes",
            Value::Percent(_) => "percent",
            Value::Count(_) => "",
        };
        let name = column.name.replace('%', "").replace('-', "_");
        text.family(&name, unit, column.help);
        for (scope, name, columns) in &rows {
            if let Some(value) = columns[place].value.number() {
                text.sample(&[("scope", scope), ("group", name)], value);
            }
        }
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
        report.groups[0].name = "a,\"b\"".into();
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
    fn csv_has_what_was_found_in_contents() {
        let mut report = report();
        report.groups[0].name = "x".into();
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
    fn openmetrics_is_what_its_readers_take() {
        let mut report = report();
        report.groups[0].name = "a\"b\\c\nd".into();
        report.add_content(crate::scan::report::tests::content());
        report.total.code.sampled = Some(cohort_snapshot::count::code::Sampled {
            kernel: 77,
            ..Default::default()
        });
        let text = openmetrics(&report);
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
