// SPDX-License-Identifier: GPL-2.0-or-later
//! Results to read: the kept ones as `docs/results.md` and as the README's picture, the last ones
//! as pages.

use super::page;
use crate::lab::Lab;
use crate::lab::experiment::compare::Plot;
use crate::lab::experiment::definition::{self, Experiment};
use crate::lab::experiment::kept::{self, Kept};
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::results::{Bounded, CheckResult};
use crate::lab::host::files;
use crate::show::{self, Chart, FigureResult, Kind, Mark, SeriesResult, X};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Where the tables of all kept results are.
const TABLES: &str = "docs/results.md";
/// The headlines beside a stock kernel.
const PICTURE: &str = "docs/pictures/results.svg";
/// The README's picture is between these lines.
const MARKS: [&str; 2] = ["<!-- results -->", "<!-- /results -->"];
/// What to do when the generated files are out of date.
const REMEDY: &str = "run `cohort lab report`";

/// Writes `docs/results.md` and the README's picture from what is kept, and `out/report.html` with
/// its pages from the last results. Returns what was written.
pub fn report(lab: &Lab) -> Result<Vec<PathBuf>> {
    let papers = Papers::of(lab)?;
    let mut written = Vec::new();
    for (path, text) in generated(lab, &papers)? {
        let path = lab.path(path);
        files::write(&path, text.as_bytes())?;
        written.push(path);
    }
    written.extend(page::write(lab, &papers)?);
    Ok(written)
}

/// Fails if a generated file is not what the kept results say.
pub fn check(lab: &Lab) -> Result<()> {
    let mut wrong = Vec::new();
    for (path, text) in generated(lab, &Papers::of(lab)?)? {
        if std::fs::read_to_string(lab.path(path)).ok() != Some(text) {
            wrong.push(path);
        }
    }
    if !wrong.is_empty() {
        bail!(
            "{} differs from what results/*.json and the sources say: {REMEDY}",
            wrong.join(" and ")
        );
    }
    Ok(())
}

/// A result with what is said beside it.
pub struct Entry {
    pub kept: Kept,
    pub old: Option<String>,
    /// What it is a result of, if that is there still.
    pub experiment: Option<Experiment>,
}

impl Entry {
    pub fn of(lab: &Lab, papers: &Papers, kept: Kept) -> Result<Self> {
        let id = (kept.experiment.as_str(), kept.model.as_deref());
        let old = kept::old(lab, papers, id, &kept.made_from, kept.change())?;
        let experiment = match definition::names(lab)?.contains(&kept.experiment) {
            true => Some(definition::load(lab, &kept.experiment, papers)?),
            false => None,
        };
        Ok(Entry {
            kept,
            old,
            experiment,
        })
    }

    /// The checks to show: of a run under a model only the model's own.
    pub fn checks(&self) -> impl Iterator<Item = &CheckResult> {
        let all = self.kept.model.is_none();
        let checks = self.kept.checks.iter();
        checks.filter(move |check| all || check.of_model)
    }

    /// The figures to show: a run under a model does not repeat those of `others` without one.
    pub fn figures<'a>(&self, others: impl Iterator<Item = &'a Entry>) -> Vec<&FigureResult> {
        let modelled = self.kept.model.is_some();
        let plain = others.map(|entry| &entry.kept).filter(|other| {
            modelled && other.experiment == self.kept.experiment && other.model.is_none()
        });
        let plain: Vec<_> = plain.flat_map(|kept| &kept.figures).collect();
        let repeated = |figure: &&FigureResult| !plain.iter().any(|it| it.title == figure.title);
        self.kept.figures.iter().filter(repeated).collect()
    }

    /// The check as the experiment's file has it.
    fn defined(&self, check: &CheckResult) -> Option<&definition::Check> {
        let checks = &self.experiment.as_ref()?.checks;
        checks.iter().find(|defined| defined.name == check.name)
    }

    fn headline(&self, check: &CheckResult) -> bool {
        self.defined(check).is_some_and(|defined| defined.headline)
    }
}

/// What ours takes of what a stock kernel takes, of all checks in `entries` that say so, or of their
/// headlines alone; none if there are none.
pub fn beside_stock(entries: &[&Entry], headlines: bool) -> Option<(FigureResult, Vec<Mark>)> {
    let checks = entries.iter().flat_map(|entry| {
        let checks = entry.checks().filter(|it| !headlines || entry.headline(it));
        checks.filter_map(|check| Some((*entry, check, entry.defined(check)?.plot.as_ref()?)))
    });
    let checks: Vec<(&Entry, &CheckResult, &Plot)> = checks.collect();
    let mark = |(at, (_, check, plot)): (usize, &(&Entry, &CheckResult, &Plot))| {
        Some(Mark {
            label: "paper".into(),
            series: 0,
            at,
            value: plot.of_stock.percent(check.paper?),
        })
    };
    let marks = checks.iter().enumerate().filter_map(mark).collect();
    let name = |(entry, _, plot): &(&Entry, &CheckResult, &Plot)| match entry.old {
        Some(_) => X::Text(format!("{} (old)", plot.label)),
        None => X::Text(plot.label.clone()),
    };
    let range = |(_, check, plot): &(&Entry, &CheckResult, &Plot)| {
        let [one, other] = check.spread()?.map(|end| plot.of_stock.percent(end));
        Some([one.min(other), one.max(other)])
    };
    let values = checks.iter().map(|(_, check, plot)| {
        let measured = check.measured?;
        Some(plot.of_stock.percent(measured))
    });
    let figure = FigureResult {
        title: "What Cohort takes, where a stock kernel takes 100 %".into(),
        kind: Kind::Bar,
        x_label: String::new(),
        y_label: "% of a stock kernel's; less is better".into(),
        log: false,
        x: checks.iter().map(name).collect(),
        series: vec![SeriesResult {
            label: "Cohort".into(),
            unit: "%".into(),
            values: values.collect(),
            ranges: checks.iter().map(range).collect(),
            bounds: Vec::new(),
        }],
    };
    (!checks.is_empty()).then_some((figure, marks))
}

/// The generated files with what they are to hold.
fn generated(lab: &Lab, papers: &Papers) -> Result<Vec<(&'static str, String)>> {
    let kept = kept::all(lab)?.into_iter();
    let entries = kept.map(|kept| Entry::of(lab, papers, kept));
    let entries = entries.collect::<Result<Vec<_>>>()?;
    let names = definition::names(lab)?;
    let kept = |name: &String| entries.iter().any(|entry| entry.kept.experiment == *name);
    let missing: Vec<&str> = names
        .iter()
        .filter(|n| !kept(n))
        .map(String::as_str)
        .collect();
    let readme = files::read(&lab.path("README.md"))?;
    let mut generated = vec![(TABLES, tables(&entries, &missing))];
    let all: Vec<&Entry> = entries.iter().collect();
    let drawn = beside_stock(&all, true).and_then(|(figure, marks)| {
        let chart = Chart {
            figure: &figure,
            marks: &marks,
            behind: Some(("stock", 100.0)),
        };
        Some((PICTURE, chart.file()?))
    });
    let block = block(&entries, drawn.is_some());
    generated.extend(drawn);
    generated.push(("README.md", with_block(&readme, &block)?));
    Ok(generated)
}

/// `docs/results.md`.
fn tables(entries: &[Entry], missing: &[&str]) -> String {
    let mut text = String::from(
        "# Results\n\n<!-- Written by `cohort lab report` from results/*.json: do not edit. -->\n\n\
         `paper` is what the paper reports for its own platform, or other work where the name says \
         so.\n`measured` is ours: the median where an experiment runs more than once, with the least \
         and the most of\nthe runs as `range`. `bounds` are the least and the most of a figure of the \
         translation model over its other readings:\n[model-qemu.md](model-qemu.md#bounds). A result \
         is old when sources that decide its figures have changed since.\n[lab.md](lab.md#results) \
         says how to make it again.\n",
    );
    text.push_str(&headlines(entries));
    for entry in entries {
        let kept = &entry.kept;
        text.push_str(&format!("\n## {}\n\n", kept.name()));
        if let Some(experiment) = &entry.experiment {
            let end = match experiment.title.ends_with(['.', '?']) {
                true => "",
                false => ".",
            };
            text.push_str(&format!("{}{end}\n\n", experiment.title));
        }
        text.push_str(&format!("{}\n", facts(kept)));
        if let Some(old) = &entry.old {
            text.push_str(&format!("\n**This result is {old}.**\n"));
        }
        let ranges = kept.checks.iter().any(|check| check.range.is_some());
        let bounds = entry.checks().any(|check| check.bounds.is_some());
        let mut rows = Vec::new();
        for check in entry.checks() {
            let mut row = vec![
                check.name.clone(),
                check.unit.clone(),
                show::maybe(check.paper),
                show::maybe(check.measured),
            ];
            if ranges {
                row.push(check.range.map_or("-".into(), show::range));
            }
            if bounds {
                let ends = check.bounds.as_ref().map(Bounded::ends);
                row.push(ends.map_or("-".into(), show::range));
            }
            row.extend([check.aim.clone(), verdict(check).into()]);
            rows.push(row);
        }
        if !rows.is_empty() {
            let mut heading = vec!["figure", "unit", "paper", "measured"];
            heading.extend(ranges.then_some("range"));
            heading.extend(bounds.then_some("bounds"));
            heading.extend(["aim", ""]);
            let heading: Vec<String> = heading.into_iter().map(String::from).collect();
            let align: Vec<&str> = heading
                .iter()
                .map(|name| match name.as_str() {
                    "paper" | "measured" | "range" | "bounds" => "---:",
                    _ => "---",
                })
                .collect();
            text.push_str(&format!("\n{}", markdown_table(&heading, &align, &rows)));
        }
        let words = [Kind::Table, Kind::Box];
        let figures = entry.figures(entries.iter()).into_iter();
        for figure in figures.filter(|figure| words.contains(&figure.kind)) {
            let (heading, rows) = show::rows(figure);
            let mut align = vec!["---:"; heading.len()];
            align[0] = "---";
            let table = markdown_table(&heading, &align, &rows);
            text.push_str(&format!("\n{}:\n\n{table}", figure.title));
        }
    }
    if !missing.is_empty() {
        text.push_str(&format!(
            "\nNo result is kept of: {}.\n",
            missing.join(", ")
        ));
    }
    text
}

/// What ran when and where, in one sentence.
pub fn facts(kept: &Kept) -> String {
    let kernels: Vec<String> = kept
        .kernels
        .iter()
        .map(|kernel| match &kernel.change {
            Some(change) => format!("{} ({}, change {change})", kernel.version, kernel.config),
            None => format!("{} ({})", kernel.version, kernel.config),
        })
        .collect();
    let model = kept
        .model
        .as_ref()
        .map_or(String::new(), |model| format!(" with the model {model}"));
    format!(
        "Linux {} under QEMU {}{model}, {} on {}; {}, {} CPUs.",
        kernels.join(" and "),
        kept.qemu,
        match kept.runs {
            1 => "one run".into(),
            runs => format!("{runs} runs"),
        },
        kept.date.split(' ').next().unwrap_or_default(),
        kept.machine.processor,
        kept.machine.cpus,
    )
}

pub fn verdict(check: &CheckResult) -> &'static str {
    match (check.measured, check.pass) {
        (None, _) => "not measured",
        (_, true) => "met",
        (_, false) => "missed",
    }
}

/// The headline of each experiment that has one, as a table.
fn headlines(entries: &[Entry]) -> String {
    let mut rows = Vec::new();
    for entry in entries {
        let Some(check) = entry.checks().find(|check| entry.headline(check)) else {
            continue;
        };
        let with_unit = |value: Option<f64>| match value {
            Some(value) => format!("{} {}", show::number(value), check.unit),
            None => "-".into(),
        };
        let name = entry.kept.name();
        let anchor: String = name
            .chars()
            .filter(|c| c.is_alphanumeric() || *c == '-')
            .collect();
        let old = if entry.old.is_some() { ", old" } else { "" };
        rows.push(vec![
            format!("[{name}](#{anchor})"),
            check.name.clone(),
            with_unit(check.paper).trim().into(),
            with_unit(check.measured).trim().into(),
            check.aim.clone(),
            format!("{}{old}", verdict(check)),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let heading = ["experiment", "figure", "paper", "measured", "aim", ""].map(String::from);
    let align = ["---", "---", "---:", "---:", "---", "---"];
    format!("\n{}", markdown_table(&heading, &align, &rows))
}

/// What stands in the README: the picture, if there is one, and how many aims are met.
fn block(entries: &[Entry], picture: bool) -> String {
    if entries.is_empty() {
        return "No results are kept yet: `cohort lab run NAME --keep` makes one.\n".into();
    }
    let checks = || entries.iter().flat_map(Entry::checks);
    let sentence = format!(
        "{} of {} aims are met in {} results, {} of them old: [all tables]({TABLES}).\n",
        checks().filter(|check| check.pass).count(),
        checks().count(),
        entries.len(),
        entries.iter().filter(|entry| entry.old.is_some()).count(),
    );
    match picture {
        true => {
            format!("![What Cohort takes of what a stock kernel takes]({PICTURE})\n\n{sentence}")
        }
        false => sentence,
    }
}

/// The README with another block between its marks.
fn with_block(readme: &str, block: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let parts = readme.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) = parts
        .with_context(|| format!("README.md has no lines {begin} and {end} for the results"))?;
    Ok(format!("{before}{begin}\n{block}{end}{after}"))
}

fn markdown_table(heading: &[String], align: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = markdown_row(heading);
    text.push_str(&format!("|{}|\n", align.join("|")));
    rows.iter()
        .for_each(|row| text.push_str(&markdown_row(row)));
    text
}

/// A text inside a table of Markdown: neither a bar nor a line's end may end its cell.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r']).collect();
    words.join(" ").replace('|', "\\|")
}

fn markdown_row(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|text| cell(text)).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::lab::experiment::definition::Guest;
    use crate::lab::experiment::made_from::MadeFrom;
    use crate::lab::experiment::made_from::tests::{edit, fake};
    use crate::lab::experiment::results::{self, Results, Run, SCHEMA_VERSION};
    use crate::lab::kernel::build::Config;
    use crate::show::{FigureResult, SeriesResult, X};
    use crate::variation::Bounds;

    /// Results of an experiment `demo`: a check that passed and one that was not measured.
    pub fn results() -> Results {
        let check = |name: &str, measured: Option<f64>| CheckResult {
            name: name.into(),
            unit: "x".into(),
            paper: Some(2.1),
            measured,
            range: None,
            bounds: None,
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
            boots: 1,
            made_from: MadeFrom::default(),
            kernels: vec![crate::lab::kernel::build::Kernel {
                config: Config::Bench,
                version: "6.12.7".into(),
                change: Some("0123456789abcdef".into()),
                config_hash: "fedcba9876543210".into(),
                compiler: "gcc".into(),
                image: PathBuf::new(),
                symbols: PathBuf::new(),
            }],
            qemu: "10.0.2".into(),
            model: None,
            bounds: Bounds::None,
            translations: None,
            guest: Guest {
                arch: crate::lab::arch::LAB,
                memory: 256,
                cpus: 1,
                icount: true,
                rootfs: None,
                timeout: 60,
                fresh: false,
                cmdline: String::new(),
                cohort: false,
            },
            runs: vec![Run::default()],
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
                    ranges: Vec::new(),
                    bounds: Vec::new(),
                }],
            }],
            problems: Vec::new(),
        }
    }

    fn checkout() -> (tempfile::TempDir, Lab) {
        let (dir, lab) = fake();
        let readme = b"# Demo\n\n<!-- results -->\n<!-- /results -->\n\nMore.\n";
        files::write(&lab.path("README.md"), readme).unwrap();
        (dir, lab)
    }

    /// Results made from the sources of `lab` as they are, kept there.
    fn keep(lab: &Lab, mut results: Results) {
        let papers = Papers::of(lab).unwrap();
        results.made_from = kept::now(lab, &papers, "demo", results.model.as_deref())
            .unwrap()
            .unwrap();
        let experiment = definition::load(lab, "demo", &papers).unwrap();
        kept::keep(lab, &results, &experiment).unwrap();
    }

    #[test]
    fn an_edited_figure_and_an_old_one_are_found() {
        let (_dir, lab) = checkout();
        let error = check(&lab).unwrap_err().to_string();
        assert!(error.contains("docs/results.md and README.md"), "{error}");
        report(&lab).unwrap();
        check(&lab).unwrap();
        let readme = files::read(&lab.path("README.md")).unwrap();
        assert!(readme.contains("No results are kept yet"), "{readme}");
        assert!(readme.starts_with("# Demo\n") && readme.ends_with("\n\nMore.\n"));

        edit(
            &lab,
            "experiments/demo.toml",
            "unit = \"x\"",
            "unit = \"x\"\nheadline = true\nplot = { label = \"fork\", of_stock = \"over\" }",
        );
        keep(&lab, results());
        assert!(check(&lab).is_err());
        report(&lab).unwrap();
        check(&lab).unwrap();
        let row = "| speed-up | x | 2.10 | 4 | >= 3 | met |";
        let text = files::read(&lab.path(TABLES)).unwrap();
        assert!(text.contains(row) && !text.contains("old:"), "{text}");
        assert!(
            text.contains("| lost | x | 2.10 | - | >= 3 | not measured |"),
            "{text}"
        );
        let readme = files::read(&lab.path("README.md")).unwrap();
        assert!(readme.contains(&format!("]({PICTURE})\n")), "{readme}");
        let row = "| [demo](#demo) | speed-up | 2.10 x | 4 x | >= 3 | met |";
        assert!(text.contains(row), "{text}");
        let picture = files::read(&lab.path(PICTURE)).unwrap();
        assert!(picture.contains("\nfork\n") && picture.contains("\n25 %; paper 47.6\n"));
        assert!(
            readme.contains("1 of 2 aims are met in 1 results, 0 of them old"),
            "{readme}"
        );

        edit(&lab, TABLES, "| 4 |", "| 5 |");
        let error = check(&lab).unwrap_err().to_string();
        assert!(
            error.contains(TABLES) && error.contains("lab report"),
            "{error}"
        );
        assert!(!error.contains("README"), "{error}");
        report(&lab).unwrap();

        edit(&lab, "kernel/overlay/mm/a.c", "int a", "long a");
        assert!(check(&lab).is_err());
        report(&lab).unwrap();
        let text = files::read(&lab.path(TABLES)).unwrap();
        let old = "**This result is old (of change 0123456789ab): kernel changed since.**";
        assert!(text.contains(old), "{text}");
        assert!(text.contains("| met, old |"), "{text}");
        let picture = files::read(&lab.path(PICTURE)).unwrap();
        assert!(picture.contains("\nfork (old)\n"), "{picture}");
    }

    #[test]
    fn a_cell_of_a_table_stays_on_its_line() {
        let row = markdown_row(&["a|b\nc".into(), "d".into()]);
        assert_eq!(row, "| a\\|b c | d |\n");
    }

    #[test]
    fn a_run_under_a_model_stands_beside_the_one_without() {
        let (_dir, lab) = checkout();
        let mut modelled = results();
        modelled.model = Some("zen4".into());
        modelled.checks.push(CheckResult {
            name: "cycles".into(),
            of_model: true,
            range: Some([3.5, 4.5]),
            bounds: Some(Bounded {
                least: 3.0,
                most: 5.5,
                least_under: Some("core.rob=0".into()),
                most_under: None,
            }),
            ..modelled.checks[0].clone()
        });
        modelled.figures[0].title = "Under zen4".into();
        modelled.figures[0].kind = Kind::Table;
        keep(&lab, results());
        keep(&lab, modelled);
        report(&lab).unwrap();
        let text = files::read(&lab.path(TABLES)).unwrap();
        let (plain, under) = text.split_once("## demo@zen4").unwrap();
        assert!(plain.contains("speed-up") && !plain.contains("Under zen4"));
        // A result from before there were bounds has no column for them.
        assert!(plain.contains("| measured | aim |"), "{plain}");
        let row = "| cycles | x | 2.10 | 4 | 3.50 to 4.50 | 3 to 5.50 | >= 3 | met |";
        assert!(
            under.contains(row) && !under.contains("speed-up"),
            "{under}"
        );
        let table = "Under zen4:\n\n| MB | stock |\n|---|---:|\n| 1 | 1 |";
        assert!(under.contains(table), "{under}");
    }

    #[test]
    fn results_under_models_are_found_by_their_experiment() {
        let (_dir, lab) = Lab::fake();
        let write = |results: &Results| {
            let json = results::json(results).unwrap();
            results::save(&lab, &results.name(), &json).unwrap();
        };
        let mut modelled = results();
        modelled.model = Some("models/mine.toml".into());
        write(&results());
        write(&modelled);
        // Another experiment's, whose name only begins alike.
        files::write(&lab.out("results/demo-2@mine.json"), b"{}").unwrap();
        let names: Vec<_> = results::last(&lab, "demo").unwrap();
        let names: Vec<_> = names.iter().map(Results::name).collect();
        assert_eq!(names, ["demo", "demo@mine"]);
    }

    #[test]
    fn results_of_another_version_say_what_to_do() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.out("results/demo.json"), b"{}").unwrap();
        let error = format!("{:#}", results::last(&lab, "demo").unwrap_err());
        assert!(error.contains("lab run demo"), "{error}");
        let later = Results {
            schema_version: SCHEMA_VERSION + 1,
            ..results()
        };
        results::save(&lab, "demo", &results::json(&later).unwrap()).unwrap();
        let error = format!("{:#}", results::last(&lab, "demo").unwrap_err());
        assert!(error.contains("schema version 3"), "{error}");
        files::remove(&lab.out("results/demo.json")).unwrap();
        files::write(&lab.out("results/demo@zen4.json"), b"{}").unwrap();
        let error = format!("{:#}", results::last(&lab, "demo").unwrap_err());
        assert!(error.contains("lab run demo --model zen4"), "{error}");
    }
}
