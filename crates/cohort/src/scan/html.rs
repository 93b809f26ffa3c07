// SPDX-License-Identifier: GPL-2.0-or-later
//! A page that needs nothing else: the answer, the groups, all about all processes, and plots.

use super::args::Show;
use super::details::{self, Part};
use super::report::{GroupReport, Report};
use super::table::{self, Value};
use crate::show::{FigureResult, Kind, SeriesResult, X, svg};
use anyhow::{Context, Result};
use askama::Template;

/// Groups that a plot shows.
const BARS: usize = 10;

#[derive(Template)]
#[template(path = "scan.html")]
struct Page<'a> {
    report: &'a Report,
    frames: &'static str,
    groups: Part,
    parts: Vec<Part>,
    plots: Vec<String>,
}

/// The page.
pub fn page(report: &Report, show: &Show) -> Result<String> {
    let columns = table::columns(show)?;
    let totals = show.totals.then_some(&report.total);
    let groups = Part {
        title: "Groups".into(),
        heading: columns
            .iter()
            .map(|column| column.name.to_string())
            .collect(),
        rows: report
            .groups
            .iter()
            .take(show.rows)
            .chain(totals)
            .map(|group| {
                let cells = columns.iter().map(|column| match (column.value)(group) {
                    Value::Text(text) => text,
                    value => table::cell(value, true),
                });
                cells.collect()
            })
            .collect(),
    };
    Page {
        report,
        frames: match report.frames {
            cohort_snapshot::model::Frames::Visible => "page frames seen",
            _ => "page frames hidden: lower bounds",
        },
        groups,
        parts: details::parts(report, &report.total),
        plots: figures(report).iter().filter_map(svg).collect(),
    }
    .render()
    .context("cannot make the page")
}

fn figures(report: &Report) -> Vec<FigureResult> {
    let groups: Vec<&GroupReport> = report.groups.iter().take(BARS).collect();
    let mut figures = vec![
        bars(
            &groups,
            "Entries by class",
            "entries",
            &[
                ("shareable", |group| group.entries.classes.shareable),
                ("unshareable", |group| group.entries.classes.unshareable),
                ("huge", |group| group.entries.classes.huge),
                ("left if each is kept once", |group| group.entries.once),
            ],
        ),
        bars(
            &groups,
            "Last-level page tables",
            "tables",
            &[
                ("now", |group| group.ptps.counts.tables),
                ("left if equal ones are kept once", |group| {
                    group.ptps.counts.distinct
                }),
                ("left if Cohort's kernel had forked them", |group| {
                    group.ptps.counts.kept
                }),
            ],
        ),
    ];
    let code: Vec<_> = report
        .total
        .larger_pages
        .iter()
        .filter(|fill| fill.kind.code())
        .collect();
    if !code.is_empty() {
        figures.push(FigureResult {
            title: "Windows of 64 KB by how much is missing in them".into(),
            kind: Kind::Line,
            x_label: "sixteenths that are missing, at most".into(),
            y_label: "% of windows".into(),
            log: false,
            x: (0..16)
                .map(|missing| X::Number(f64::from(missing)))
                .collect(),
            series: code
                .iter()
                .map(|fill| SeriesResult {
                    label: fill.kind.label().into(),
                    unit: "%".into(),
                    values: cumulative(&fill.small.sixteenths),
                })
                .collect(),
        });
    }
    figures
}

/// For 0 to 15 sixteenths missing, the percentage of windows that miss no more.
fn cumulative(sixteenths: &[u64]) -> Vec<Option<f64>> {
    let all: u64 = sixteenths.iter().sum();
    (0..16)
        .map(|missing| {
            let enough: u64 = sixteenths.iter().skip(16 - missing).sum();
            (all > 0).then(|| 100.0 * enough as f64 / all as f64)
        })
        .collect()
}

type Pick = fn(&GroupReport) -> u64;

fn bars(groups: &[&GroupReport], title: &str, unit: &str, series: &[(&str, Pick)]) -> FigureResult {
    FigureResult {
        title: title.into(),
        kind: Kind::Bar,
        x_label: "group".into(),
        y_label: unit.into(),
        log: false,
        x: groups
            .iter()
            .map(|group| X::Text(group.name.chars().take(12).collect()))
            .collect(),
        series: series
            .iter()
            .map(|(label, pick)| SeriesResult {
                label: label.to_string(),
                unit: unit.into(),
                values: groups
                    .iter()
                    .map(|group| Some(pick(group) as f64))
                    .collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;

    #[test]
    fn a_page_is_self_contained_and_escapes_names() {
        let mut report = report();
        report.groups[0].name = "<script>alert(1)</script>".into();
        let text = page(&report, &Show::default()).unwrap();
        assert!(
            !text.contains("<script") && !text.contains("http"),
            "{text}"
        );
        assert!(
            text.contains("<svg") && text.contains("&#60;script") || text.contains("&lt;script")
        );
    }

    #[test]
    fn the_distribution_ends_at_all_windows() {
        let mut sixteenths = vec![0; 17];
        (sixteenths[16], sixteenths[1]) = (3, 1);
        let shares = cumulative(&sixteenths);
        assert_eq!(
            (shares[0], shares[14], shares[15]),
            (Some(75.0), Some(75.0), Some(100.0))
        );
    }
}
