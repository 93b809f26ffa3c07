// SPDX-License-Identifier: GPL-2.0-or-later
//! All results as one page that needs no network, and as the README's tables.

use super::print;
use crate::lab::Lab;
use crate::lab::experiment::definition;
use crate::lab::experiment::results;
use crate::lab::experiment::results::Results;
use crate::lab::host::files;
use crate::show;
use anyhow::{Context, Result, bail};
use askama::Template;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    date: String,
    met: usize,
    total: usize,
    sections: Vec<Section>,
    missing: Vec<String>,
}

struct Section {
    results: Results,
    answer: String,
    met: usize,
    checks: Vec<Vec<String>>,
    figures: Vec<Shown>,
    failed: Vec<(String, String)>,
    kernels: Vec<String>,
}

struct Shown {
    title: String,
    svg: Option<String>,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Writes `out/report.html` and `out/results.md` from all results that there are.
pub fn report(lab: &Lab) -> Result<(PathBuf, PathBuf)> {
    let mut sections = Vec::new();
    let mut missing = Vec::new();
    for name in definition::names(lab)? {
        let runs = results::last(lab, &name)?;
        if runs.is_empty() {
            missing.push(name);
        }
        sections.extend(runs.into_iter().map(section));
    }
    if sections.is_empty() {
        bail!("no experiment has run yet: `cohort lab run NAME`, with a name of `cohort lab list`");
    }
    let all = || sections.iter().flat_map(|section| &section.results.checks);
    let markdown = markdown(&sections);
    let page = Page {
        date: results::utc(SystemTime::now()),
        met: all().filter(|check| check.pass).count(),
        total: all().count(),
        missing,
        sections,
    };
    let html = page.render().context("the report's template failed")?;
    let (html_file, markdown_file) = (lab.out("report.html"), lab.out("results.md"));
    files::write(&html_file, html.as_bytes())?;
    files::write(&markdown_file, markdown.as_bytes())?;
    Ok((html_file, markdown_file))
}

fn section(results: Results) -> Section {
    Section {
        answer: print::answer(&results),
        met: results.checks.iter().filter(|check| check.pass).count(),
        checks: results
            .checks
            .iter()
            .map(|check| {
                vec![
                    check.name.clone(),
                    check.unit.clone(),
                    show::maybe(check.paper),
                    match (&check.why, check.measured) {
                        (Some(why), None) => why.clone(),
                        (_, measured) => show::maybe(measured),
                    },
                    check.aim.clone(),
                    if check.pass { "met" } else { "missed" }.into(),
                ]
            })
            .collect(),
        figures: results
            .figures
            .iter()
            .map(|figure| {
                let (heading, rows) = show::rows(figure);
                Shown {
                    title: figure.title.clone(),
                    svg: show::svg(figure),
                    heading,
                    rows,
                }
            })
            .collect(),
        failed: results
            .variants
            .iter()
            .filter_map(|result| Some((result.variant.name.clone(), result.why.clone()?)))
            .collect(),
        kernels: results
            .kernels
            .iter()
            .map(|kernel| {
                format!(
                    "Linux {}; configuration {}; {}",
                    kernel.describe(),
                    crate::lab::host::hash::short(&kernel.config_hash),
                    kernel.compiler
                )
            })
            .collect(),
        results,
    }
}

/// The README's tables, one an experiment. A figure that was not measured is not in them, nor, of
/// a run under a model, what the run without one says.
fn markdown(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let results = &section.results;
        text.push_str(&format!("**{}**: {}\n\n", results.name(), results.title));
        let modelled = results.model.is_some();
        let mut rows = String::new();
        for check in &results.checks {
            let Some(measured) = check.measured else {
                continue;
            };
            if modelled && !check.of_model {
                continue;
            }
            rows.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                cell(&check.name),
                cell(&check.unit),
                show::maybe(check.paper),
                show::number(measured),
                cell(&check.aim),
                if check.pass { "met" } else { "missed" }
            ));
        }
        if !rows.is_empty() {
            text.push_str(
                "| figure | unit | paper | measured | aim | |\n|---|---|---:|---:|---|---|\n",
            );
            text.push_str(&rows);
            text.push('\n');
        }
        if let Some(figure) = results.figures.last().filter(|_| modelled) {
            let (heading, rows) = show::rows(figure);
            text.push_str(&format!("{}:\n\n", figure.title));
            text.push_str(&markdown_row(&heading));
            text.push_str(&format!("|---|{}\n", "---:|".repeat(heading.len() - 1)));
            rows.iter()
                .for_each(|row| text.push_str(&markdown_row(row)));
            text.push('\n');
        }
    }
    text
}

/// A text inside a table of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn markdown_row(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|text| cell(text)).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::experiment::definition::Guest;
    use crate::lab::experiment::results::{CheckResult, SCHEMA_VERSION};
    use crate::lab::kernel::build::Config;
    use crate::show::{FigureResult, Kind, SeriesResult, X};

    fn results() -> Results {
        let check = |name: &str, measured: Option<f64>| CheckResult {
            name: name.into(),
            unit: "x".into(),
            paper: Some(2.1),
            measured,
            aim: ">= 3".into(),
            pass: measured.is_some(),
            of_model: name == "cycles",
            why: measured.is_none().then(|| "shared failed".into()),
        };
        Results {
            schema_version: SCHEMA_VERSION,
            experiment: "demo".into(),
            title: "A <demo>".into(),
            about: "about".into(),
            paper: vec!["p.t4".into()],
            date: "2026-01-01 00:00:00 UTC".into(),
            seconds: 3,
            kernels: vec![crate::lab::kernel::build::Kernel {
                config: Config::Bench,
                version: "6.12.7".into(),
                change: Some("0123456789abcdef".into()),
                config_hash: "fedcba9876543210".into(),
                compiler: "gcc".into(),
                image: PathBuf::new(),
            }],
            qemu: "10.0.2".into(),
            model: None,
            translations: None,
            guest: Guest {
                memory: 256,
                cpus: 1,
                icount: true,
                rootfs: None,
                timeout: 60,
                fresh: false,
                cmdline: String::new(),
                cohort: false,
            },
            variants: Vec::new(),
            checks: vec![check("speed-up", Some(4.0)), check("lost", None)],
            figures: vec![FigureResult {
                title: "Scaling".into(),
                kind: Kind::Line,
                x_label: "MB".into(),
                y_label: "i".into(),
                log: true,
                x: vec![X::Number(1.0), X::Number(10.0)],
                series: vec![SeriesResult {
                    label: "stock".into(),
                    unit: "".into(),
                    values: vec![Some(1.0), Some(10.0)],
                }],
            }],
            problems: Vec::new(),
        }
    }

    #[test]
    fn the_page_is_whole_and_asks_for_nothing_from_outside() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.path("experiments/demo.toml"), b"").unwrap();
        files::write(&lab.path("experiments/later.toml"), b"").unwrap();
        assert!(report(&lab).unwrap_err().to_string().contains("lab run"));

        let json = serde_json::to_string(&results()).unwrap();
        files::write(&lab.out("results/demo.json"), json.as_bytes()).unwrap();
        let (html, markdown) = report(&lab).unwrap();
        let html = files::read(&html).unwrap();
        assert!(
            html.contains("<svg") && html.contains("A &#60;demo&#62;"),
            "{html}"
        );
        assert!(html.contains("0123456789ab") && html.contains("later"));
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        let markdown = files::read(&markdown).unwrap();
        assert!(markdown.contains("| speed-up | x | 2.10 | 4 | >= 3 | met |"));
        assert!(!markdown.contains("lost"), "{markdown}");
    }

    #[test]
    fn a_run_under_a_model_stands_beside_the_one_without() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.path("experiments/demo.toml"), b"").unwrap();
        let write = |results: &Results| {
            let path = results::file(&lab, "demo", results.model.as_deref());
            files::write(&path, serde_json::to_string(results).unwrap().as_bytes()).unwrap();
        };
        let mut modelled = results();
        modelled.model = Some("models/mine.toml".into());
        modelled.checks.push(CheckResult {
            name: "cycles".into(),
            of_model: true,
            ..modelled.checks[0].clone()
        });
        modelled.figures[0].title = "Under mine".into();
        write(&results());
        write(&modelled);
        // Another experiment's, whose name only begins alike.
        files::write(&lab.out("results/demo-2@mine.json"), b"{}").unwrap();
        let names: Vec<_> = results::last(&lab, "demo").unwrap();
        let names: Vec<_> = names.iter().map(Results::name).collect();
        assert_eq!(names, ["demo", "demo@mine"]);

        let (html, markdown) = report(&lab).unwrap();
        let html = files::read(&html).unwrap();
        assert!(
            html.contains("id=\"demo@mine\"") && html.contains("id=\"demo\""),
            "{html}"
        );
        let markdown = files::read(&markdown).unwrap();
        let (plain, under) = markdown.split_once("**demo@mine**").unwrap();
        assert!(plain.contains("speed-up") && !plain.contains("Under mine"));
        assert!(
            under.contains("| cycles |") && !under.contains("speed-up"),
            "{under}"
        );
        assert!(
            under.contains("Under mine:\n\n| MB | stock |\n|---|---:|\n| 1 | 1 |"),
            "{under}"
        );
    }

    #[test]
    fn results_of_another_version_say_what_to_do() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.out("results/demo.json"), b"{}").unwrap();
        let error = format!("{:#}", results::last(&lab, "demo").unwrap_err());
        assert!(error.contains("lab run demo"), "{error}");
        files::remove(&lab.out("results/demo.json")).unwrap();
        files::write(&lab.out("results/demo@zen4.json"), b"{}").unwrap();
        let error = format!("{:#}", results::last(&lab, "demo").unwrap_err());
        assert!(error.contains("lab run demo --model zen4"), "{error}");
    }
}
