// SPDX-License-Identifier: GPL-2.0-or-later
//! Results that the repository keeps: `results/NAME.json`, small and with what they were made from.

use crate::lab::Lab;
use crate::lab::experiment::definition::{self, Experiment};
use crate::lab::experiment::made_from::MadeFrom;
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::results::{self, CheckResult, Results, title};
use crate::lab::host::files;
use crate::lab::host::hash::short;
use crate::lab::kernel::build::Config;
use crate::show::FigureResult;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Changes when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;
/// Digits of a figure that are kept.
const DIGITS: usize = 6;
/// The longest object or list that is written on one line.
const LINE: usize = 240;

/// A result as the repository keeps it: no metrics, nothing that names the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    pub schema_version: u32,
    pub experiment: String,
    /// A built-in translation model, or its file's path in the checkout.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// When it ran, UTC.
    pub date: String,
    /// Host seconds that the guests took.
    pub seconds: u64,
    /// How many times all guests were booted.
    pub runs: u32,
    pub kernels: Vec<Kernel>,
    /// QEMU's version.
    pub qemu: String,
    pub machine: Machine,
    pub made_from: MadeFrom,
    pub checks: Vec<CheckResult>,
    pub figures: Vec<FigureResult>,
}

/// A kernel that was booted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kernel {
    pub config: Config,
    /// For instance 6.12.48.
    pub version: String,
    /// The first digits of the hash of overlay and hooks; none for a stock kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<String>,
}

/// The kind of machine that ran the guests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    pub cpus: usize,
}

impl Machine {
    fn this() -> Self {
        Machine {
            processor: processor(&files::read(Path::new("/proc/cpuinfo")).unwrap_or_default()),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

/// The processor's name from `/proc/cpuinfo`.
pub fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(": "));
    name.map_or("unknown", |(_, name)| name.trim()).into()
}

impl Kept {
    /// What is kept of results, with the model as the command line named it.
    pub fn of(results: &Results) -> Self {
        let kernels = results.kernels.iter().map(|kernel| Kernel {
            config: kernel.config,
            version: kernel.version.clone(),
            change: kernel.change.as_deref().map(|change| short(change).into()),
        });
        Kept {
            schema_version: SCHEMA_VERSION,
            experiment: results.experiment.clone(),
            model: results.model.clone(),
            date: results.date.clone(),
            seconds: results.seconds,
            runs: results.runs.len() as u32,
            kernels: kernels.collect(),
            qemu: results.qemu.clone(),
            machine: Machine::this(),
            made_from: results.made_from.clone(),
            checks: results.checks.clone(),
            figures: results.figures.clone(),
        }
    }

    /// The experiment, and the model after an `@` if it ran under one.
    pub fn name(&self) -> String {
        title(&self.experiment, self.model.as_deref())
    }

    /// The hash of overlay and hooks; none if only stock kernels were booted.
    pub fn change(&self) -> Option<&str> {
        self.kernels
            .iter()
            .find_map(|kernel| kernel.change.as_deref())
    }

    /// Reads it. A file that was edited by hand is refused where its verdicts show that.
    fn parse(text: &str) -> Result<Self> {
        let kept: Kept = serde_json::from_str(text)?;
        results::known(kept.schema_version, SCHEMA_VERSION)?;
        for check in &kept.checks {
            if check.met() != Some(check.pass) {
                bail!(
                    "`pass` of `{}` does not follow from its `aim` and `measured`",
                    check.name
                );
            }
        }
        Ok(kept)
    }
}

/// A check as it is kept: its verdict is that of the figure with as many digits as are kept.
fn rounded(check: &CheckResult) -> CheckResult {
    let mut kept = check.clone();
    kept.measured = check.measured.map(digits);
    kept.pass = kept.met().unwrap_or(check.pass);
    kept
}

/// Why results are not fit to be kept; none if they are.
pub fn refusal(results: &Results, experiment: &Experiment) -> Option<String> {
    if let Some(problem) = results.problems.first() {
        return Some(problem.clone());
    }
    if let Some((variant, why)) = results.failed().next() {
        return Some(format!("{variant} failed: {why}"));
    }
    let (runs, needed) = (results.runs.len(), experiment.runs());
    (runs < needed as usize).then(|| format!("it has {runs} of {needed} runs"))
}

/// Writes `results/NAME.json` from results in which nothing went wrong; else an error, and the file
/// stays as it was.
pub fn keep(lab: &Lab, results: &Results, experiment: &Experiment) -> Result<PathBuf> {
    let name = results.name();
    if let Some(why) = refusal(results, experiment) {
        bail!("{name} is not kept: {why}");
    }
    let mut kept = Kept::of(results);
    if let Some(model) = &results.model {
        kept.model = Some(portable(lab, model)?);
    }
    kept.checks = kept.checks.iter().map(rounded).collect();
    let mut value = serde_json::to_value(&kept).context("JSON cannot hold these results")?;
    round(&mut value);
    let mut text = String::new();
    write(&mut text, &value, 0);
    text.push('\n');
    let file = lab.path(&format!("results/{name}.json"));
    files::write(&file, text.as_bytes())?;
    Ok(file)
}

/// A model's name that means the same in every checkout: files become paths in the checkout.
fn portable(lab: &Lab, model: &str) -> Result<String> {
    if !(model.contains('/') || model.ends_with(".toml")) {
        return Ok(model.into());
    }
    let file = Path::new(model)
        .canonicalize()
        .with_context(|| format!("cannot read the model {model}"))?;
    match file.strip_prefix(&lab.root) {
        Ok(below) => Ok(below.to_string_lossy().into_owned()),
        Err(_) => bail!("{model} is not in the checkout: results under it cannot be kept"),
    }
}

/// A figure with the digits that are kept.
fn digits(number: f64) -> f64 {
    let text = format!("{number:.*e}", DIGITS - 1);
    text.parse().unwrap_or(number)
}

fn round(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let number = digits(number.as_f64().unwrap_or_default());
            // A whole number is written as one.
            *value = match number == number.trunc() && number.abs() < 1e15 {
                true => Value::from(number as i64),
                false => Value::from(number),
            };
        }
        _ => {}
    }
}

/// JSON with one line per check and per list of values, so that diffs are readable.
fn write(text: &mut String, value: &Value, indent: usize) {
    let short = || value.to_string().len() <= LINE;
    let margin = "  ".repeat(indent + 1);
    let (open, close) = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => ('[', ']'),
        Value::Object(fields) if !fields.is_empty() && (indent == 0 || !short()) => ('{', '}'),
        _ => return text.push_str(&value.to_string()),
    };
    text.push(open);
    let mut separator = "\n";
    let mut item = |name: Option<&String>, value: &Value| {
        text.push_str(separator);
        text.push_str(&margin);
        if let Some(name) = name {
            text.push_str(&format!("{}: ", Value::from(name.as_str())));
        }
        write(text, value, indent + 1);
        separator = ",\n";
    };
    match value {
        Value::Array(items) => items.iter().for_each(|value| item(None, value)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| item(Some(name), value)),
        _ => {}
    }
    text.push_str(&format!("\n{}{close}", "  ".repeat(indent)));
}

/// All kept results by name; an experiment's own come before those under models.
pub fn all(lab: &Lab) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    for (_, kept) in each(lab)? {
        found.push(kept?);
    }
    found.sort_by_key(|kept| (kept.experiment.clone(), kept.model.clone()));
    Ok(found)
}

/// The name of each kept result, and what its file holds unless that is damaged.
pub fn each(lab: &Lab) -> Result<Vec<(String, Result<Kept>)>> {
    let files = files::with_suffix(&lab.path("results"), ".json")?;
    let named = files.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let kept = read(path, &name).with_context(|| {
            format!(
                "{} is damaged: `{} --keep` writes it again",
                path.display(),
                results::command(&name)
            )
        });
        (name.into_owned(), kept)
    });
    Ok(named.collect())
}

fn read(path: &Path, name: &str) -> Result<Kept> {
    let kept = Kept::parse(&files::read(path)?)?;
    if kept.name() != name {
        bail!("it holds the result of {}", kept.name());
    }
    Ok(kept)
}

/// The sources that a result would be made from now: none if its experiment or its model is gone.
pub fn now(
    lab: &Lab,
    papers: &Papers,
    name: &str,
    model: Option<&str>,
) -> Result<Option<MadeFrom>> {
    if !definition::names(lab)?.iter().any(|known| known == name) {
        return Ok(None);
    }
    let experiment = definition::load(lab, name, papers)?;
    let experiment = match model {
        Some(_) => experiment.modelled(),
        None => experiment,
    };
    Ok(MadeFrom::of(lab, &experiment, papers, model).ok())
}

/// In words that a result is old, and why; none while its sources are the same.
pub fn old(
    lab: &Lab,
    papers: &Papers,
    (name, model): (&str, Option<&str>),
    made_from: &MadeFrom,
    change: Option<&str>,
) -> Result<Option<String>> {
    let differs = match now(lab, papers, name, model)? {
        Some(now) => made_from.differs(&now),
        None => vec!["experiment or model, which is gone,"],
    };
    let of = change.map_or(String::new(), |change| {
        format!(" (of change {})", short(change))
    });
    let (last, first) = match differs.split_last() {
        None => return Ok(None),
        Some((last, [])) => (*last, String::new()),
        Some((last, first)) => (*last, format!("{} and ", first.join(", "))),
    };
    Ok(Some(format!("old{of}: {first}{last} changed since")))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::lab::experiment::made_from::tests::{edit, fake};
    use crate::lab::experiment::report::tests::results;
    use crate::lab::experiment::results::{Run, VariantInfo, VariantResult};

    fn demo(lab: &Lab) -> Experiment {
        definition::load(lab, "demo", &Papers::of(lab).unwrap()).unwrap()
    }

    #[test]
    fn a_kept_result_is_small_and_is_read_again() {
        let (_dir, lab) = fake();
        let mut results = results();
        results.checks[0].measured = Some(4.123456789);
        let file = keep(&lab, &results, &demo(&lab)).unwrap();
        let text = files::read(&file).unwrap();
        assert!(
            text.contains("\"measured\":4.12346") && !text.contains("metrics"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() < LINE + 20), "{text}");
        let all = all(&lab).unwrap();
        assert_eq!(all[0].name(), "demo");
        assert_eq!(all[0].checks[0].measured, Some(4.12346));
        assert_eq!(all[0].change(), Some("0123456789ab"));
        files::write(&lab.path("results/other.json"), text.as_bytes()).unwrap();
        let error = format!("{:#}", super::all(&lab).unwrap_err());
        assert!(error.contains("the result of demo"), "{error}");
        assert!(error.contains("`cohort lab run other --keep`"), "{error}");
    }

    #[test]
    fn a_kept_result_that_was_edited_or_has_another_format_is_refused() {
        let (_dir, lab) = fake();
        let file = keep(&lab, &results(), &demo(&lab)).unwrap();
        let text = files::read(&file).unwrap();
        for (from, to, why) in [
            ("\"measured\":4", "\"measured\":-5", "`pass` of `speed-up`"),
            ("\">= 3\"", "\">= three\"", "`pass` of `speed-up`"),
            ("\"measured\":null", "\"measured\":4", "`pass` of `lost`"),
            ("schema_version\": 1", "schema_version\": 99", "version 99"),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            files::write(&file, text.replacen(from, to, 1).as_bytes()).unwrap();
            let error = format!("{:#}", all(&lab).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_figure_as_it_is_kept() {
        let (_dir, lab) = fake();
        let mut results = results();
        results.checks[0].measured = Some(2.999999999);
        results.checks[0].pass = false;
        keep(&lab, &results, &demo(&lab)).unwrap();
        let check = &all(&lab).unwrap()[0].checks[0];
        assert_eq!((check.measured, check.pass), (Some(3.0), true));
    }

    #[test]
    fn a_broken_run_is_not_kept_and_the_old_file_stays() {
        let (_dir, lab) = fake();
        let experiment = demo(&lab);
        let file = keep(&lab, &results(), &experiment).unwrap();
        let before = files::read(&file).unwrap();

        let mut hung = results();
        hung.checks[0].measured = Some(9.0);
        hung.problems = vec!["the guest hung".into()];
        let mut failed = results();
        failed.runs[0].variants.push(VariantResult {
            variant: VariantInfo {
                name: "stock".into(),
                kernel: Config::Bench,
                command: "fork-cost".into(),
                setup: Vec::new(),
            },
            why: Some("status 1".into()),
            metrics: Default::default(),
        });
        let mut quick = results();
        quick.runs.clear();
        for (results, why) in [(hung, "hung"), (failed, "status 1"), (quick, "0 of 1 runs")] {
            let error = keep(&lab, &results, &experiment).unwrap_err().to_string();
            assert!(error.contains("not kept") && error.contains(why), "{error}");
            assert_eq!(files::read(&file).unwrap(), before);
        }
        let mut more = results();
        more.runs.push(Run::default());
        keep(&lab, &more, &experiment).unwrap();
    }

    #[test]
    fn an_old_result_says_which_part_changed() {
        let (_dir, lab) = fake();
        let papers = Papers::of(&lab).unwrap();
        let of = |lab: &Lab, made_from: &MadeFrom| {
            old(
                lab,
                &papers,
                ("demo", None),
                made_from,
                Some("0123456789abcdef"),
            )
            .unwrap()
        };
        let made_from = now(&lab, &papers, "demo", None).unwrap().unwrap();
        edit(&lab, "kernel/overlay/mm/a.c", "Why", "Because");
        assert_eq!(of(&lab, &made_from), None);
        edit(&lab, "kernel/overlay/mm/a.c", "int", "long");
        assert_eq!(
            of(&lab, &made_from).unwrap(),
            "old (of change 0123456789ab): kernel changed since"
        );
        edit(&lab, "guest/init/init.c", "int", "long");
        assert!(
            of(&lab, &made_from)
                .unwrap()
                .contains("kernel and guest programs")
        );
        files::remove(&lab.path("experiments/demo.toml")).unwrap();
        assert!(of(&lab, &made_from).unwrap().contains("gone"));
    }

    #[test]
    fn a_model_outside_the_checkout_is_refused() {
        let (_dir, lab) = fake();
        let other = tempfile::tempdir().unwrap();
        let file = other.path().join("mine.toml");
        files::write(&file, b"").unwrap();
        let error = portable(&lab, &file.to_string_lossy())
            .unwrap_err()
            .to_string();
        assert!(error.contains("not in the checkout"), "{error}");
        assert_eq!(portable(&lab, "zen4").unwrap(), "zen4");
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(
            processor("processor : 0\nmodel name\t: A CPU @ 2 GHz\n"),
            "A CPU @ 2 GHz"
        );
        assert_eq!(processor(""), "unknown");
    }
}
