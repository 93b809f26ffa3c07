// SPDX-License-Identifier: GPL-2.0-or-later
//! What came of experiments, and its files: `out/results/NAME.json`.

use crate::lab::Lab;
use crate::lab::experiment::definition::{Aim, Guest};
use crate::lab::experiment::made_from::MadeFrom;
use crate::lab::guest::plugin::Check;
use crate::lab::guest::protocol::Metric;
use crate::lab::host::files;
use crate::lab::kernel::build::{Config, Kernel};
use crate::show::FigureResult;
use crate::variation::Bounds;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Changes when a field of the results changes its meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// All that came of an experiment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The format.
    pub schema_version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// The experiment's `about`.
    pub about: String,
    /// The items of the papers.
    pub paper: Vec<String>,
    /// When it ran, UTC.
    pub date: String,
    /// Host seconds that its guests took.
    pub seconds: u64,
    /// How many guests that were.
    pub boots: u64,
    /// The sources that decide its figures.
    pub made_from: MadeFrom,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The emulator's version.
    pub qemu: String,
    /// The translation model that the guests ran under, unless their variants name another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// The readings of the translation model that bound its figures.
    #[serde(default)]
    pub bounds: Bounds,
    /// Translations compared with QEMU's, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub translations: Option<Check>,
    /// The machine.
    pub guest: Guest,
    /// The output of the guests, for each run.
    pub runs: Vec<Run>,
    /// The figures with an aim.
    pub checks: Vec<CheckResult>,
    /// Tables and plots.
    pub figures: Vec<FigureResult>,
    /// Complaints of the guests' kernels, and how guests ended early.
    pub problems: Vec<String>,
}

/// All guests of an experiment, booted once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Run {
    /// Host seconds that the guests took.
    pub seconds: u64,
    /// The variants, in the order of the experiment's file.
    pub variants: Vec<VariantResult>,
}

/// The results of a variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VariantResult {
    /// The variant.
    #[serde(flatten)]
    pub variant: VariantInfo,
    /// Why it has no figures, if it failed.
    pub why: Option<String>,
    /// Its metrics, by name.
    pub metrics: BTreeMap<String, Metric>,
}

/// The parts of a variant that results name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VariantInfo {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: Config,
    /// The measured command.
    pub command: String,
    /// Commands that ran before it.
    pub setup: Vec<String>,
}

/// A figure beside the paper's and the aim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The paper's figure.
    pub paper: Option<f64>,
    /// Ours: the median over all runs.
    pub measured: Option<f64>,
    /// The least and the most of several runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub range: Option<[f64; 2]>,
    /// Between what it lies as far as the model's assumptions go.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bounds: Option<Bounded>,
    /// The aim.
    pub aim: String,
    /// The median meets the aim.
    pub pass: bool,
    /// It is a figure of the translation model's.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub of_model: bool,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// The bounds of a figure of the translation model, over its other readings and over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    pub least: f64,
    pub most: f64,
    /// The reading that gives the least; none if it is the model as it is described.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub least_under: Option<String>,
    /// The reading that gives the most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most_under: Option<String>,
}

impl Bounded {
    /// Those of both, of two runs.
    pub fn or(self, other: Self) -> Self {
        let (least, most) = (other.least < self.least, other.most > self.most);
        let pick = |other_s: bool, one, other| if other_s { other } else { one };
        Bounded {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            least_under: pick(least, self.least_under, other.least_under),
            most_under: pick(most, self.most_under, other.most_under),
        }
    }

    /// The least and the most.
    pub fn ends(&self) -> [f64; 2] {
        [self.least, self.most]
    }
}

impl CheckResult {
    /// True if its figure meets its aim; none if the aim cannot be read.
    pub fn met(&self) -> Option<bool> {
        let aim = Aim::parse(&self.aim)?;
        Some(self.measured.is_some_and(|measured| aim.met(measured)))
    }

    /// Between what it lies: its bounds, which hold its range, else its range.
    pub fn spread(&self) -> Option<[f64; 2]> {
        self.bounds.as_ref().map(Bounded::ends).or(self.range)
    }
}

/// An experiment as lists and reports name it: `NAME`, or `NAME@MODEL` under a model that the
/// command line named.
pub fn title(name: &str, model: Option<&str>) -> String {
    let model = model.map(|model| {
        let stem = Path::new(model).file_stem().unwrap_or_default();
        format!("@{}", stem.to_string_lossy())
    });
    format!("{name}{}", model.unwrap_or_default())
}

/// The experiment of a title.
pub fn experiment(title: &str) -> &str {
    title.split('@').next().unwrap_or(title)
}

impl Results {
    /// The experiment, and the model after an `@` if it ran under one.
    pub fn name(&self) -> String {
        title(&self.experiment, self.model.as_deref())
    }

    /// Variants without figures, each with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        let variants = self.runs.iter().flat_map(|run| &run.variants);
        variants.filter_map(|result| Some((result.variant.name.as_str(), result.why.as_deref()?)))
    }

    /// The hash of overlay and hooks; none if only stock kernels were booted.
    pub fn change(&self) -> Option<&str> {
        self.kernels
            .iter()
            .find_map(|kernel| kernel.change.as_deref())
    }
}

/// Where the results of an experiment are; a model's are apart from those without.
pub fn file(lab: &Lab, name: &str, model: Option<&str>) -> PathBuf {
    lab.out(&format!("results/{}.json", title(name, model)))
}

/// The text of a file of results.
pub fn json(results: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(results).context("JSON cannot hold these results")?;
    Ok(text + "\n")
}

/// Writes `out/results/NAME.json`: every command of the lab that has results writes them here.
pub fn save(lab: &Lab, name: &str, json: &str) -> Result<PathBuf> {
    let file = lab.out(&format!("results/{name}.json"));
    files::write(&file, json.as_bytes())?;
    Ok(file)
}

/// The last results of an experiment: without a model first, then those under each model. None
/// if it never ran.
pub fn last(lab: &Lab, name: &str) -> Result<Vec<Results>> {
    let under = format!("{name}@");
    let mut found: Vec<PathBuf> = vec![file(lab, name, None)];
    found.retain(|path| path.exists());
    let all = files::with_suffix(&lab.out("results"), ".json")?;
    found.extend(all.into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(&under)
    }));
    let read = |path: &PathBuf| {
        parse(&files::read(path)?).with_context(|| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            format!(
                "{} is not from this version of the lab: run `{}` again",
                path.display(),
                command(&stem)
            )
        })
    };
    found.iter().map(read).collect()
}

fn parse(text: &str) -> Result<Results> {
    let results: Results = serde_json::from_str(text)?;
    known(results.schema_version, SCHEMA_VERSION)?;
    Ok(results)
}

/// Fails if a file's format is not the one that this program has: its fields may mean something
/// else.
pub fn known(schema_version: u32, ours: u32) -> Result<()> {
    if schema_version != ours {
        bail!("it has schema version {schema_version}, this program has {ours}");
    }
    Ok(())
}

/// The command that makes the results of this title again.
pub fn command(title: &str) -> String {
    match title.split_once('@') {
        Some((name, model)) => format!("cohort lab run {name} --model {model}"),
        None => format!("cohort lab run {title}"),
    }
}

/// A time as `2026-01-31 12:00:00 UTC`.
pub fn utc(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%F %T UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_are_right_over_leap_years() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(at(1_772_323_200), "2026-03-01 00:00:00 UTC");
    }
}
