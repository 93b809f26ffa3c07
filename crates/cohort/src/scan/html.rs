// SPDX-License-Identifier: GPL-2.0-or-later
//! A page that needs nothing else: the answer, the groups, all about all processes, and plots.

use super::args::Show;
use super::cell::{Value, shorten};
use super::part::Part;
use super::report::Report;
use super::section::{Bars, GroupReport};
use super::table;
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
    /// With their titles.
    plots: Vec<(String, String)>,
}

/// The page.
pub fn page(report: &Report, show: &Show) -> Result<String> {
    let places = table::columns(show)?;
    let columns = report.total.columns();
    let totals = show.totals.then_some(&report.total);
    let row = |group: &GroupReport| -> Vec<String> {
        let cells = group.values(&places).into_iter().map(|value| match value {
            Value::Text(text) => text,
            value => value.cell(true),
        });
        cells.collect()
    };
    let heading = places.iter().map(|&place| columns[place].name.to_string());
    let shown = report.groups.iter().take(show.rows);
    let groups = Part {
        title: "Groups".into(),
        paper: None,
        heading: heading.collect(),
        rows: shown.chain(totals).map(row).collect(),
    };
    let page = Page {
        report,
        parts: report.parts(),
        frames: match report.frames {
            cohort_snapshot::model::Frames::Visible => "page frames seen",
            _ => "page frames hidden: lower bounds",
        },
        groups,
        plots: figures(report)
            .iter()
            .filter_map(|figure| Some((figure.title.clone(), svg(figure)?)))
            .collect(),
    };
    let text = page.render().context("cannot make the page")?;
    // Names of processes and files hold what a terminal would obey.
    Ok(text.replace(|letter: char| letter.is_control() && letter != '\n', "?"))
}

/// Bars of the first groups, and plots of all processes.
fn figures(report: &Report) -> Vec<FigureResult> {
    let groups: Vec<&GroupReport> = report.groups.iter().take(BARS).collect();
    let mut figures = Vec::new();
    for (place, section) in report.total.sections().into_iter().enumerate() {
        if let Some(total) = section.bars() {
            let each = groups
                .iter()
                .filter_map(|group| group.sections()[place].bars());
            figures.push(bars(&groups, &total, &each.collect::<Vec<_>>()));
        }
        figures.extend(section.plot());
    }
    figures
}

/// `labels` has the bars' labels, `each` the bars of every group.
fn bars(groups: &[&GroupReport], labels: &Bars, each: &[Bars]) -> FigureResult {
    let name = |group: &&GroupReport| X::Text(shorten(&group.label, 44));
    let series = labels.bars.iter().enumerate();
    FigureResult {
        title: labels.title.into(),
        kind: Kind::Bar,
        x_label: "group".into(),
        y_label: labels.unit.into(),
        log: false,
        x: groups.iter().map(name).collect(),
        series: series
            .map(|(bar, (label, _))| SeriesResult {
                label: label.to_string(),
                unit: labels.unit.into(),
                ranges: Vec::new(),
                bounds: Vec::new(),
                values: each
                    .iter()
                    .map(|group| Some(group.bars[bar].1 as f64))
                    .collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::report;
    use crate::show::browser;

    #[test]
    fn a_page_is_self_contained_and_escapes_names() {
        let mut report = report();
        report.groups[0].label = "<script>alert(1)</script>".into();
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
    fn a_page_can_be_read_on_a_telephone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("scan.html");
        let mut report = report();
        report.groups[0].label = "/usr/sbin/a-program-with-a-long-name --and an --argument".into();
        std::fs::write(&file, page(&report, &Show::default()).unwrap()).unwrap();
        browser::check(&[file]);
    }
}
