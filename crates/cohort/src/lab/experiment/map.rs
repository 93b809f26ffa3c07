// SPDX-License-Identifier: GPL-2.0-or-later
//! The map of the papers: for each item of `papers/figures.toml` the experiments that reproduce it
//! and what came of them.
//!
//! A check names the item that it reproduces (`paper`), so that the link is in the experiment's
//! file. `papers/map.toml` says what no experiment can: why an item cannot be measured or has not
//! been, and which items only repeat others. Our figures are those of the kept results.

use super::definition::{self, Check, Experiment, PaperRef};
use super::kept;
use super::papers::{Item, Papers};
use super::report::Entry;
use super::results::CheckResult;
use crate::lab::Lab;
use crate::lab::host::files;
use crate::show::{self, maybe, table, wrap};
use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, ColumnConstraint};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where it says what experiments do not.
const SENTENCES: &str = "papers/map.toml";
/// Changes when a field of the JSON changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// What became of an item or of one figure of it, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The aim is met; of an item: all are.
    Met,
    /// It cannot be measured here.
    Cannot,
    /// No result is kept, or there is no experiment yet.
    NotRun,
    Missed,
}

impl Verdict {
    const ALL: [Verdict; 4] = [
        Verdict::Met,
        Verdict::Missed,
        Verdict::NotRun,
        Verdict::Cannot,
    ];

    fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotRun => "not run",
            Verdict::Cannot => "cannot",
        }
    }
}

/// What `papers/map.toml` says of an item: one of `cannot`, `missing` and `same`, or a note.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    id: String,
    /// Why it cannot be measured here.
    cannot: Option<String>,
    /// Why there is no experiment yet.
    missing: Option<String>,
    /// The items that it repeats: their figures are its own.
    #[serde(default)]
    same: Vec<String>,
    /// What is to be known about its figures.
    note: Option<String>,
}

/// One of our figures beside the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The experiment, with the model after an `@` if it ran under one.
    pub experiment: String,
    pub name: String,
    pub unit: String,
    /// The paper's; none where it prints no number.
    pub paper: Option<f64>,
    pub measured: Option<f64>,
    /// The least and the most of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    pub aim: String,
    pub verdict: Verdict,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Why the result is old, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
}

/// An item with all that is known of it.
#[derive(Debug, Clone, Serialize)]
pub struct Mapped {
    pub id: String,
    #[serde(rename = "where")]
    pub place: String,
    pub title: String,
    /// None where there is nothing to measure.
    pub verdict: Option<Verdict>,
    /// The sentence of `papers/map.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The items that it repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
    pub figures: Vec<Row>,
}

/// All items, in the order of `papers/figures.toml`.
#[derive(Debug, Serialize)]
pub struct Map {
    pub schema_version: u32,
    /// Items by verdict.
    pub counts: BTreeMap<Verdict, usize>,
    /// Items that have nothing to measure.
    pub nothing: usize,
    pub items: Vec<Mapped>,
}

/// The map of a checkout.
pub fn map(lab: &Lab) -> Result<Map> {
    let papers = Papers::of(lab)?;
    let names = definition::names(lab)?.into_iter();
    let experiments = names.map(|name| definition::load(lab, &name, &papers));
    let experiments = experiments.collect::<Result<Vec<_>>>()?;
    let kept = kept::all(lab)?.into_iter();
    let kept = kept.map(|kept| Entry::of(lab, &papers, kept));
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let file = lab.path(SENTENCES);
    let sentences = match file.exists() {
        true => files::read(&file)?,
        false => String::new(),
    };
    let sentences = parse(&sentences).with_context(|| format!("{} is wrong", file.display()))?;
    let known = |id: &str| papers.item(id).is_some();
    for sentence in sentences.values() {
        let named = [&sentence.id].into_iter().chain(&sentence.same);
        if let Some(id) = named.into_iter().find(|id| !known(id)) {
            bail!("{SENTENCES} names {id}, which papers/figures.toml does not have");
        }
    }
    Ok(Map::new(&papers, &experiments, &kept, &sentences))
}

fn parse(text: &str) -> Result<BTreeMap<String, Sentence>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        item: Vec<Sentence>,
    }
    let file: File = toml::from_str(text)?;
    let mut found = BTreeMap::new();
    for sentence in file.item {
        let id = sentence.id.clone();
        let verdicts = [
            sentence.cannot.is_some(),
            sentence.missing.is_some(),
            !sentence.same.is_empty(),
        ];
        if verdicts.iter().filter(|said| **said).count() > 1 {
            bail!("{id} has more than one of `cannot`, `missing` and `same`");
        }
        if verdicts == [false; 3] && sentence.note.is_none() {
            bail!("{id} has none of `cannot`, `missing`, `same` and `note`");
        }
        if found.insert(id.clone(), sentence).is_some() {
            bail!("{id} is there twice");
        }
    }
    Ok(found)
}

/// The item that a check reproduces.
fn item_of(check: &Check) -> Option<&str> {
    match check.paper.as_ref()? {
        PaperRef::Id(id) => id.split('/').next(),
        PaperRef::Number(_) => None,
    }
}

impl Map {
    fn new(
        papers: &Papers,
        experiments: &[Experiment],
        kept: &[Entry],
        sentences: &BTreeMap<String, Sentence>,
    ) -> Map {
        let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
        for experiment in experiments {
            for check in &experiment.checks {
                if let Some(id) = item_of(check) {
                    let found = figures(papers, experiment, check, kept);
                    rows.entry(id).or_default().extend(found);
                }
            }
        }
        let items = papers.items().iter();
        let items: Vec<Mapped> = items
            .map(|item| Mapped::new(item, &rows, sentences))
            .collect();
        let count = |verdict: Verdict| {
            let items = items.iter().filter(|it| it.verdict == Some(verdict));
            (verdict, items.count())
        };
        Map {
            schema_version: SCHEMA_VERSION,
            counts: Verdict::ALL.map(count).into(),
            nothing: items.iter().filter(|it| it.verdict.is_none()).count(),
            items,
        }
    }
}

/// What is kept of a check, once for each model that it ran under.
fn figures(papers: &Papers, experiment: &Experiment, check: &Check, kept: &[Entry]) -> Vec<Row> {
    let paper = match &check.paper {
        Some(PaperRef::Id(id)) => papers.get(id).flatten(),
        Some(PaperRef::Number(number)) => Some(*number),
        None => None,
    };
    let row = |name: String| Row {
        experiment: name,
        name: check.name.clone(),
        unit: check.unit.clone(),
        paper,
        measured: None,
        range: None,
        aim: check.aim.text(),
        verdict: Verdict::NotRun,
        why: None,
        old: None,
    };
    let results: Vec<(&Entry, &CheckResult)> = kept
        .iter()
        .filter(|entry| entry.kept.experiment == experiment.name)
        .filter_map(|entry| Some((entry, entry.checks().find(|it| it.name == check.name)?)))
        .collect();
    let measured = results.iter().filter(|(_, it)| it.measured.is_some());
    let rows: Vec<Row> = measured
        .map(|(entry, it)| Row {
            measured: it.measured,
            range: it.spread(),
            aim: it.aim.clone(),
            verdict: match it.pass {
                true => Verdict::Met,
                false => Verdict::Missed,
            },
            old: entry.old.clone(),
            ..row(entry.kept.name())
        })
        .collect();
    if !rows.is_empty() {
        return rows;
    }
    let why = results.iter().find_map(|(_, it)| it.why.clone());
    vec![Row {
        why: Some(why.unwrap_or_else(|| "no result is kept".into())),
        ..row(experiment.name.clone())
    }]
}

impl Mapped {
    fn new(
        item: &Item,
        rows: &BTreeMap<&str, Vec<Row>>,
        sentences: &BTreeMap<String, Sentence>,
    ) -> Mapped {
        let none = Sentence::default();
        let sentence = sentences.get(&item.id).unwrap_or(&none);
        let figures = rows.get(item.id.as_str()).cloned().unwrap_or_default();
        let worst = worst(&item.id, rows, sentences, &mut BTreeSet::new());
        let why = [&sentence.cannot, &sentence.missing, &sentence.note];
        let why: Vec<&str> = why.into_iter().flatten().map(String::as_str).collect();
        Mapped {
            id: item.id.clone(),
            place: item.place.clone(),
            title: item.title.clone(),
            verdict: match item.measured() {
                true => Some(worst.unwrap_or(Verdict::NotRun)),
                false => None,
            },
            why: (!why.is_empty()).then(|| why.join(" ")),
            same: sentence.same.clone(),
            figures,
        }
    }
}

/// The worst verdict of an item's figures, of those of the items that it repeats, and of its
/// sentence; none without any of these.
fn worst(
    id: &str,
    rows: &BTreeMap<&str, Vec<Row>>,
    sentences: &BTreeMap<String, Sentence>,
    seen: &mut BTreeSet<String>,
) -> Option<Verdict> {
    if !seen.insert(id.into()) {
        return None;
    }
    let mut found: Vec<Verdict> = rows
        .get(id)
        .into_iter()
        .flatten()
        .map(|row| row.verdict)
        .collect();
    if let Some(sentence) = sentences.get(id) {
        found.extend(sentence.cannot.as_ref().map(|_| Verdict::Cannot));
        found.extend(sentence.missing.as_ref().map(|_| Verdict::NotRun));
        let same = sentence.same.iter();
        found.extend(same.filter_map(|other| worst(other, rows, sentences, seen)));
    }
    found.into_iter().max()
}

/// What is wrong with a map: measurements of which nothing is said, and sentences that experiments
/// have overtaken.
#[cfg(test)]
fn faults(
    papers: &Papers,
    experiments: &[Experiment],
    sentences: &BTreeMap<String, Sentence>,
) -> Vec<String> {
    let checks = experiments.iter().flat_map(|it| &it.checks);
    let checked: BTreeSet<&str> = checks.filter_map(item_of).collect();
    let mut found = Vec::new();
    for item in papers.items() {
        let id = item.id.as_str();
        let sentence = sentences.get(id);
        let excused = sentence.is_some_and(|it| it.cannot.is_some() || it.missing.is_some());
        let same = sentence.is_some_and(|it| !it.same.is_empty());
        let has_check = checked.contains(id);
        if item.measured() && !has_check && !excused && !same {
            found.push(format!(
                "no check names {id}, and {SENTENCES} has no `cannot`, `missing` or `same` for it"
            ));
        }
        if excused && (has_check || !item.measured()) {
            let why = match has_check {
                true => "a check names it",
                false => "it is no measurement",
            };
            found.push(format!("{SENTENCES} excuses {id}, but {why}"));
        }
    }
    for experiment in experiments {
        let own: BTreeSet<&str> = experiment.checks.iter().filter_map(item_of).collect();
        for id in &experiment.paper {
            let measured = papers.item(id).is_some_and(Item::measured);
            if measured && !own.contains(id.as_str()) {
                let name = &experiment.name;
                found.push(format!(
                    "{name} reproduces {id}, which no check of it names"
                ));
            }
        }
    }
    found
}

/// The map as tables, one per paper, and the counts in a sentence.
pub fn text(map: &Map, papers: &Papers) -> String {
    let mut text = String::new();
    for paper in papers.list() {
        let own = |item: &&Mapped| item.id.split('.').next() == Some(paper.id.as_str());
        let items: Vec<&Mapped> = map.items.iter().filter(own).collect();
        text.push_str(&of_paper(&paper.title, &paper.venue, &items));
    }
    text.push_str(&sentence(map));
    text
}

fn of_paper(title: &str, venue: &str, items: &[&Mapped]) -> String {
    let mut shown = table();
    shown.set_header([
        "item, experiment",
        "figure",
        "paper",
        "ours",
        "aim",
        "verdict",
    ]);
    let mut notes = Vec::new();
    let name = |id: &str| id.split_once('.').map_or(id, |(_, name)| name).to_string();
    for item in items {
        let mut before = None;
        for row in &item.figures {
            // An item is named once, and so is each of its experiments.
            let mut names = Vec::new();
            if before.is_none() {
                names.push(name(&item.id));
            }
            if before != Some(&row.experiment) {
                names.push(format!("  {}", row.experiment));
            }
            before = Some(&row.experiment);
            let ours = match row.old {
                Some(_) => format!("{} *", maybe(row.measured)),
                None => maybe(row.measured),
            };
            shown.add_row([
                names.join("\n"),
                show::with_unit(&row.name, &row.unit),
                maybe(row.paper),
                ours,
                row.aim.clone(),
                row.verdict.text().into(),
            ]);
        }
        if let (Some(verdict), true) = (item.verdict, item.figures.is_empty()) {
            let dash = || "-".to_string();
            let (title, verdict) = (item.title.clone(), verdict.text().to_string());
            shown.add_row([name(&item.id), title, dash(), dash(), dash(), verdict]);
        }
        let same: Vec<String> = item.same.iter().map(|id| name(id)).collect();
        let same = (!same.is_empty()).then(|| format!("repeats {}.", same.join(", ")));
        let said: Vec<&str> = same.iter().chain(&item.why).map(String::as_str).collect();
        if !said.is_empty() {
            notes.push(format!("{}: {}", name(&item.id), said.join(" ")));
        }
    }
    for column in [2, 3] {
        let column = shown.column_mut(column).expect("the heading has it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Names and numbers stay whole: what a figure is may take more lines.
    for column in [0, 2, 3, 4, 5] {
        let column = shown.column_mut(column).expect("the heading has it");
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    let heading = wrap(&format!("{title} ({venue})"), usize::from(show::columns()));
    let mut text = format!("{}\n{shown}\n", heading.join("\n"));
    for note in notes {
        for (nth, line) in wrap(&note, usize::from(show::columns()) - 3)
            .iter()
            .enumerate()
        {
            let margin = if nth == 0 { " " } else { "   " };
            text.push_str(&format!("{margin}{line}\n"));
        }
    }
    text.push('\n');
    text
}

/// The counts of items.
fn sentence(map: &Map) -> String {
    let measured = map.items.len() - map.nothing;
    let counts: Vec<String> = Verdict::ALL
        .iter()
        .map(|verdict| {
            let count = map.counts.get(verdict).copied().unwrap_or(0);
            format!("{count} {}", verdict.text())
        })
        .collect();
    let old: BTreeSet<&str> = map
        .items
        .iter()
        .flat_map(|item| &item.figures)
        .filter(|row| row.old.is_some())
        .map(|row| row.experiment.as_str())
        .collect();
    let mut text = String::new();
    if !old.is_empty() {
        text.push_str("* of an old result, see `cohort lab list`.\n");
    }
    let counted = format!(
        "Of {measured} items with a measurement: {}. {} more have nothing to measure.",
        counts.join(", "),
        map.nothing
    );
    text.push_str(&wrap(&counted, usize::from(show::columns())).join("\n"));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
