// SPDX-License-Identifier: GPL-2.0-or-later
//! The last results as pages that need no network: `out/report.html` with a plot per paper, and
//! `out/report/PAPER.html` with everything about one.
//!
//! An experiment that has not run in this checkout is shown by its kept result.

#[cfg(test)]
mod tests;

use super::report::{Entry, beside_stock, facts, verdict};
use super::terms::{escape, explain, glossary};
use crate::lab::Lab;
use crate::lab::experiment::definition;
use crate::lab::experiment::kept::{self, Kept};
use crate::lab::experiment::papers::{Paper, Papers};
use crate::lab::experiment::results::{self, CheckResult};
use crate::lab::host::files;
use crate::show::{self, Chart, FigureResult, Kind, Mark, SeriesResult, X};
use anyhow::{Context, Result};
use askama::Template;
use std::path::PathBuf;
use std::time::SystemTime;

/// A table of more rows is folded, and so is a plot of more bars.
const ROWS: usize = 10;
const BARS: usize = 24;

#[derive(Template)]
#[template(path = "report/summary.html")]
struct Summary<'a> {
    date: String,
    met: usize,
    total: usize,
    topics: &'a [Topic],
    missing: Vec<String>,
    terms: Vec<(&'static str, &'static str)>,
}

#[derive(Template)]
#[template(path = "report/paper.html")]
struct Page<'a> {
    topic: &'a Topic,
    topics: &'a [Topic],
}

/// A paper, or what no paper measures.
struct Topic {
    paper: Paper,
    /// Beside a stock kernel.
    svg: Option<String>,
    sections: Vec<Section>,
}

/// A result. Texts in it that are HTML have terms explained.
struct Section {
    name: String,
    title: String,
    about: String,
    /// Of the paper, for instance `Table 4`.
    items: String,
    facts: String,
    old: Option<String>,
    last: bool,
    met: usize,
    total: usize,
    shown: Vec<Row>,
    folded: Vec<Row>,
    /// Plots of what the papers print too, one per unit.
    beside: Vec<Shown>,
    figures: Vec<Shown>,
    wrong: Vec<String>,
    /// Flame graphs of it have been drawn.
    profiled: bool,
}

/// A figure with an aim.
struct Row {
    name: String,
    paper: String,
    measured: String,
    aim: String,
    verdict: &'static str,
}

impl Row {
    fn of(check: &CheckResult) -> Self {
        let unit = match check.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        Row {
            name: explain(&check.name),
            paper: match check.paper {
                Some(paper) => format!("{}{}", show::number(paper), escape(&unit)),
                None => "-".into(),
            },
            measured: match (&check.why, check.measured) {
                (Some(why), None) => escape(why),
                (_, None) => "-".into(),
                (_, Some(value)) => {
                    let range = check
                        .spread()
                        .map(|range| format!(" ({})", show::range(range)));
                    let value = show::number(value);
                    format!("{value}{}{}", escape(&unit), range.unwrap_or_default())
                }
            },
            aim: escape(&check.aim),
            verdict: verdict(check),
        }
    }
}

struct Shown {
    title: String,
    svg: Option<String>,
    /// It is too long to stand open.
    long: bool,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Shown {
    fn of(figure: &FigureResult, marks: &[Mark]) -> Self {
        let parts = plotted(figure);
        let drawn = parts.as_ref().unwrap_or(figure);
        let chart = Chart {
            figure: drawn,
            marks: if parts.is_some() { &[] } else { marks },
            behind: None,
        };
        let (heading, rows) = show::rows(figure);
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| escape(cell)).collect())
            .collect();
        let bars = drawn.x.len() * drawn.series.len();
        Shown {
            title: explain(&figure.title),
            svg: chart.svg(),
            long: match drawn.kind {
                Kind::Table => rows.len() > ROWS,
                Kind::Bar => bars > BARS,
                Kind::Line | Kind::Box => false,
            },
            heading: heading.iter().map(|cell| explain(cell)).collect(),
            rows,
        }
    }
}

/// The columns of a table that can stand on one axis, as bars: all if they are of one unit, else
/// those in per cent. None if there are not two of them.
fn plotted(figure: &FigureResult) -> Option<FigureResult> {
    if figure.kind != Kind::Table {
        return None;
    }
    let first = &figure.series.first()?.unit;
    let one = !first.is_empty() && figure.series.iter().all(|series| series.unit == *first);
    let chosen = figure
        .series
        .iter()
        .filter(|series| one || series.unit == "%");
    let series: Vec<SeriesResult> = chosen.cloned().collect();
    (series.len() > 1).then(|| FigureResult {
        kind: Kind::Bar,
        y_label: series[0].unit.clone(),
        series,
        ..figure.clone()
    })
}

/// Writes the pages; none if nothing has run and nothing is kept.
pub fn write(lab: &Lab, papers: &Papers) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (name, html) in pages(lab, papers)? {
        let path = lab.out(&name);
        files::write(&path, html.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}

/// The pages by their path below `out`, the summary first.
fn pages(lab: &Lab, papers: &Papers) -> Result<Vec<(String, String)>> {
    let (entries, missing) = entries(lab, papers)?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut topics = topics(&entries, papers);
    for section in topics.iter_mut().flat_map(|topic| &mut topic.sections) {
        let graphs = lab.out(&format!("profile/{}.html", section.name));
        section.profiled = graphs.exists();
    }
    let checks = || entries.iter().flat_map(|(entry, _)| entry.checks());
    let summary = Summary {
        date: results::utc(SystemTime::now()),
        met: checks().filter(|check| check.pass).count(),
        total: checks().count(),
        topics: &topics,
        missing,
        terms: glossary(),
    };
    let failed = "the report's template failed";
    let mut pages = vec![("report.html".into(), summary.render().context(failed)?)];
    for topic in &topics {
        let page = Page {
            topic,
            topics: &topics,
        };
        let html = page.render().context(failed)?;
        pages.push((format!("report/{}.html", topic.paper.id), html));
    }
    Ok(pages)
}

/// Results with what went wrong in them, none where they are kept ones.
type Latest = (Entry, Option<Vec<String>>);

/// The last result of each experiment, or its kept one; and the experiments without any.
fn entries(lab: &Lab, papers: &Papers) -> Result<(Vec<Latest>, Vec<String>)> {
    let kept = kept::all(lab)?;
    let mut found: Vec<Latest> = Vec::new();
    let mut missing = Vec::new();
    for name in definition::names(lab)? {
        let before = found.len();
        // Those of another version of the lab have to be made again, as `cohort lab list` says.
        for results in results::last(lab, &name).unwrap_or_default() {
            let failed = results.failed().map(|(name, why)| format!("{name}: {why}"));
            let wrong = failed.chain(results.problems.iter().cloned()).collect();
            found.push((Entry::of(lab, papers, Kept::of(&results))?, Some(wrong)));
        }
        for kept in kept.iter().filter(|kept| kept.experiment == name) {
            if !found
                .iter()
                .any(|(entry, _)| entry.kept.name() == kept.name())
            {
                found.push((Entry::of(lab, papers, kept.clone())?, None));
            }
        }
        if found.len() == before {
            missing.push(name);
        }
    }
    Ok((found, missing))
}

/// Papers with results, in the papers' order; what no paper measures comes last.
fn topics(entries: &[Latest], papers: &Papers) -> Vec<Topic> {
    let beyond = Paper {
        id: "beyond".into(),
        title: "What no paper measures".into(),
        authors: String::new(),
        venue: String::new(),
        about:
            "Forks of large programs, shared memory, the worst case, and what Cohort costs those \
                who do not use it."
                .into(),
    };
    let of = |entry: &Entry| {
        let items = entry.experiment.as_ref().map(|it| it.paper.as_slice());
        let first = items.unwrap_or_default().first()?;
        first.split('.').next().map(str::to_string)
    };
    let mut topics = Vec::new();
    for paper in papers.list().iter().chain([&beyond]) {
        let known = |id: &String| papers.list().iter().any(|paper| paper.id == *id);
        let here = |entry: &Entry| match of(entry).filter(known) {
            Some(id) => id == paper.id,
            None => paper.id == beyond.id,
        };
        let own: Vec<&Latest> = entries.iter().filter(|(entry, _)| here(entry)).collect();
        if own.is_empty() {
            continue;
        }
        let plain: Vec<&Entry> = own.iter().map(|(entry, _)| entry).collect();
        let svg = beside_stock(&plain, false).and_then(|(figure, marks)| {
            let chart = Chart {
                figure: &figure,
                marks: &marks,
                behind: Some(("stock", 100.0)),
            };
            chart.svg()
        });
        topics.push(Topic {
            paper: paper.clone(),
            svg,
            sections: own
                .iter()
                .map(|one| section(one, entries, papers))
                .collect(),
        });
    }
    topics
}

fn section((entry, wrong): &Latest, all: &[Latest], papers: &Papers) -> Section {
    let experiment = entry.experiment.as_ref();
    let checks: Vec<&CheckResult> = entry.checks().collect();
    // What is missed, and what a paper has, is always seen.
    let many = checks.len() > ROWS;
    let open = |check: &&&CheckResult| !many || !check.pass || check.paper.is_some();
    let rows = |shown: bool| {
        let rows = checks.iter().filter(move |check| open(check) == shown);
        rows.map(|check| Row::of(check)).collect()
    };
    let others = all.iter().map(|(entry, _)| entry);
    let figures = entry.figures(others).into_iter().map(|figure| {
        let defined = experiment.into_iter().flat_map(|it| &it.figures);
        let lines = defined.filter(|it| it.title == figure.title);
        let lines = lines.flat_map(|it| &it.paper);
        let marks: Vec<Mark> = lines.flat_map(|it| it.marks(figure, papers)).collect();
        Shown::of(figure, &marks)
    });
    let items = experiment.into_iter().flat_map(|it| &it.paper);
    let items: Vec<String> = items
        .filter_map(|id| Some(papers.item(id)?.words()))
        .collect();
    let name = entry.kept.name();
    Section {
        title: explain(experiment.map_or(&name, |it| &it.title)),
        about: explain(experiment.map_or("", |it| &it.about)),
        items: escape(&items.join("; ")),
        facts: escape(&facts(&entry.kept)),
        old: entry.old.clone(),
        last: wrong.is_some(),
        met: checks.iter().filter(|check| check.pass).count(),
        total: checks.len(),
        shown: rows(true),
        folded: rows(false),
        beside: beside_paper(&checks),
        figures: figures.collect(),
        wrong: wrong.clone().unwrap_or_default(),
        profiled: false,
        name,
    }
}

/// What the papers print too, as a plot for each unit.
fn beside_paper(checks: &[&CheckResult]) -> Vec<Shown> {
    let mut units: Vec<&str> = Vec::new();
    let both = |check: &&&CheckResult| check.paper.is_some() && check.measured.is_some();
    for check in checks.iter().filter(both) {
        if !units.contains(&check.unit.as_str()) {
            units.push(&check.unit);
        }
    }
    let of = |unit: &str| {
        let here = checks.iter().filter(both);
        let here: Vec<_> = here.filter(|check| check.unit == unit).collect();
        let marks = here.iter().enumerate().filter_map(|(at, check)| {
            Some(Mark {
                label: "paper".into(),
                series: 0,
                at,
                value: check.paper?,
            })
        });
        let figure = FigureResult {
            title: format!("Beside the paper, {unit}"),
            kind: Kind::Bar,
            x_label: "figure".into(),
            y_label: unit.into(),
            log: false,
            x: here
                .iter()
                .map(|check| X::Text(check.name.clone()))
                .collect(),
            series: vec![SeriesResult {
                label: "ours".into(),
                unit: unit.into(),
                values: here.iter().map(|check| check.measured).collect(),
                ranges: here.iter().map(|check| check.spread()).collect(),
                bounds: Vec::new(),
            }],
        };
        Shown::of(&figure, &marks.collect::<Vec<_>>())
    };
    units.into_iter().map(of).collect()
}
