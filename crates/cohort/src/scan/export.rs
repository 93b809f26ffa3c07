// SPDX-License-Identifier: GPL-2.0-or-later
//! Forms for other programs: CSV and OpenMetrics, both made from the table's columns.

use super::args::Show;
use super::report::{ContentReport, GroupReport, Report};
use super::sections::Windows;
use super::table::{self, COLUMNS, Column, Value};
use anyhow::Result;
use cohort_snapshot::count::content::Program;

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
    for column in COLUMNS {
        let unit = match (column.value)(&report.total) {
            Value::None | Value::Text(_) => continue,
            Value::Bytes(_) => "bytes",
            Value::Percent(_) => "percent",
            Value::Count(_) => "",
        };
        text.family(
            &column.name.replace('%', "").replace('-', "_"),
            unit,
            column.help,
        );
        let all = std::iter::once(("all", &report.total));
        let groups = report.groups.iter().map(|group| ("group", group));
        for (scope, group) in all.chain(groups) {
            let value = match (column.value)(group) {
                Value::None | Value::Text(_) => continue,
                Value::Bytes(bytes) => bytes as f64,
                Value::Count(value) | Value::Percent(value) => value,
            };
            text.sample(&[("scope", scope), ("group", &group.name)], value);
        }
    }
    larger_pages(&mut text, &report.total);
    if let Some(found) = &report.content {
        content(&mut text, found, report.page_bytes);
    }
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
    text.text + "# EOF\n"
}

/// Larger pages by kind of region, of all processes.
fn larger_pages(text: &mut Metrics, total: &GroupReport) {
    type Pick = fn(&Windows) -> f64;
    let picks: [(&str, &str, &str, Pick); 4] = [
        (
            "larger_pages",
            "",
            "larger pages that there would be, by kind of region",
            |w| w.windows as f64,
        ),
        (
            "larger_pages_full",
            "percent",
            "how full they would be",
            |w| w.full_percent,
        ),
        (
            "larger_pages_waste",
            "bytes",
            "memory that they would waste",
            |w| w.wasted_bytes as f64,
        ),
        (
            "larger_pages_spared",
            "",
            "entries that they would spare",
            |w| w.entries_saved as f64,
        ),
    ];
    for (name, unit, help, pick) in picks {
        text.family(name, unit, help);
        for fill in &total.larger_pages {
            for windows in [&fill.small, &fill.large] {
                let bytes = windows.bytes.to_string();
                text.sample(
                    &[("kind", fill.kind.label()), ("page_bytes", &bytes)],
                    pick(windows),
                );
            }
        }
    }
}

/// Pages that are equal in content.
fn content(text: &mut Metrics, found: &ContentReport, page: u64) {
    let last = &found.last;
    text.family(
        "content_pages",
        "",
        "anonymous pages by what their contents are",
    );
    for (state, pages) in [
        ("mergeable", last.mergeable),
        ("equal", last.equal),
        ("same_address", last.same_address),
        ("zeros", last.zeros),
        ("changed", last.changed),
        ("unreadable", last.unreadable),
    ] {
        text.sample(&[("state", state)], pages as f64);
    }
    text.family("content_freed", "bytes", "memory that merging would free");
    text.sample(&[], (last.frames_saved * page) as f64);
    text.family("content_equal_pages", "", "equal pages by kind of region");
    for (kind, pages) in &last.kinds {
        text.sample(&[("kind", kind.label())], *pages as f64);
    }
    type Pick = fn(&Program) -> f64;
    let picks: [(&str, &str, &str, Pick); 4] = [
        (
            "content_mergeable",
            "",
            "virtual pages that may merge, by program",
            |p| p.mergeable as f64,
        ),
        ("content_profile", "", "of those, equal to another", |p| {
            p.profile as f64
        }),
        (
            "content_skipped",
            "percent",
            "what a scan by the profile would skip",
            |p| p.skipped_percent,
        ),
        (
            "content_in_vain",
            "percent",
            "what a common profile would scan in vain",
            |p| p.false_positive_percent,
        ),
    ];
    for (name, unit, help, pick) in picks {
        text.family(name, unit, help);
        for program in &last.programs {
            text.sample(&[("program", &program.name)], pick(program));
        }
    }
    text.family(
        "content_stability",
        "",
        "how alike a profile was to the look before (Jaccard)",
    );
    for (look, programs) in found.stability.iter().enumerate() {
        for (program, alike) in programs {
            let look = (look + 2).to_string();
            text.sample(&[("program", program), ("look", &look)], *alike);
        }
    }
    text.family(
        "content_similarity",
        "",
        "how alike the profiles of two programs are",
    );
    for (one, other, alike) in &found.similarity {
        text.sample(&[("program", one), ("other", other)], *alike);
    }
}

/// A text of OpenMetrics.
#[derive(Default)]
struct Metrics {
    text: String,
    name: String,
}

impl Metrics {
    /// Begins a family of gauges, to which all samples belong until the next.
    fn family(&mut self, name: &str, unit: &str, help: &str) {
        self.name = match unit {
            "" => format!("cohort_scan_{name}"),
            unit => format!("cohort_scan_{name}_{unit}"),
        };
        let name = &self.name;
        self.text
            .push_str(&format!("# TYPE {name} gauge\n# HELP {name} {help}\n"));
        if !unit.is_empty() {
            self.text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", label(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        self.text
            .push_str(&format!("{}{labels} {value}\n", self.name));
    }
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
        let text = csv(&report, &Show::default()).unwrap();
        assert_eq!(text.lines().count(), 2);
        let widths: Vec<usize> = text
            .replace(",\"\"b\"\"", "")
            .lines()
            .map(|line| line.split(',').count())
            .collect();
        assert_eq!(widths, [COLUMNS.len(); 2]);
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
