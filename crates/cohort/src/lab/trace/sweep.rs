// SPDX-License-Identifier: GPL-2.0-or-later
//! Replaying traces: one under one model, or many under many configurations at once.

use crate::lab::experiment::complete;
use crate::lab::host::files;
use crate::lab::trace::joblist::{self, Scheduler};
use crate::output::{self, say};
use crate::show;
use crate::variation::{self, Configuration, Vary};
use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use translation::metrics::Metric;
use translation::report::Latencies;
use translation::trace::{self, Reader};
use translation::{Counters, Machine, SparseMemory};

/// Changes when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;
/// Metrics that the table shows unless others are asked for.
const SHOWN: &[&str] = &[
    "cycles",
    "l2-tlb-fetch-misses",
    "l2-tlb-data-misses",
    "walk-cycles",
    "icache-stall-cycles",
];

/// Arguments of `cohort lab replay`.
#[derive(clap::Args)]
pub struct ReplayArgs {
    /// A trace that `cohort lab record` wrote.
    trace: PathBuf,
    /// A built-in model's name or a TOML file.
    #[arg(long, value_name = "NAME", add = complete::models())]
    model: String,
    /// Let the cores take turns of at most so many instructions. Without it their turns are those
    /// of QEMU's vCPUs, many thousand instructions long.
    #[arg(long, value_name = "INSTRUCTIONS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    quantum: Option<u64>,
}

/// Arguments of `cohort lab sweep`.
#[derive(clap::Args)]
pub struct SweepArgs {
    /// Traces that `cohort lab record` wrote; with --merge, parts or directories of parts.
    #[arg(required = true, value_name = "TRACE")]
    inputs: Vec<PathBuf>,
    /// A built-in model's name or a TOML file; may be given many times.
    #[arg(long = "model", value_name = "NAME", required_unless_present = "merge",
        add = complete::models())]
    models: Vec<String>,
    /// Values for a key of the description, for instance core.rob=64,128 or tlb.4.entries=768,1536
    /// (elements count from 0); may be given many times, every combination is replayed.
    #[arg(long, value_name = "KEY=VALUE,…")]
    vary: Vec<Vary>,
    /// Replay each model also with other values of what it assumes, one assumption at a time, over
    /// the range that its description gives, with every miss waited for, and with no instruction
    /// waiting for another; print the spread of each metric.
    #[arg(long, conflicts_with_all = ["vary", "merge", "jobs"])]
    assumed: bool,
    /// Replay each trace also with the cores taking turns of so many instructions, as `replay
    /// --quantum` does; to see what finer turns do to the caches that they share.
    #[arg(long, value_name = "INSTRUCTIONS,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=1000),
        conflicts_with_all = ["assumed", "merge", "jobs"])]
    quantum: Vec<u64>,
    /// Metrics to show, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "METRIC")]
    show: Vec<String>,
    /// Write all metrics to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replay nothing; write the list of jobs for a scheduler.
    #[arg(long, value_enum, requires = "dir", conflicts_with = "json")]
    jobs: Option<Scheduler>,
    /// Where the list of jobs and their results go.
    #[arg(long, value_name = "DIR", requires = "jobs")]
    dir: Option<PathBuf>,
    /// Put the results of jobs together.
    #[arg(long, conflicts_with_all = ["models", "vary", "jobs"])]
    merge: bool,
}

/// A sweep's result.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sweep {
    schema_version: u32,
    rows: Vec<Row>,
    /// With `--assumed`: the bounds of each metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spread: Vec<Spread>,
}

/// Between what bounds a metric lies, as far as assumptions go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Spread {
    /// The trace's file.
    trace: String,
    /// The model.
    model: String,
    /// The metric.
    metric: String,
    /// Its value under the model as it is described.
    value: f64,
    /// The least value, and the assumption that gives it; none if it is the described one.
    least: (f64, Option<String>),
    /// The largest, likewise.
    most: (f64, Option<String>),
    /// With a reorder buffer of 0: every miss is waited for.
    dependent: f64,
    /// With `core.dependences = false`: no instruction waits for another.
    independent: f64,
}

impl Sweep {
    /// In an order that does not depend on where each was replayed, or when.
    fn of(mut rows: Vec<Row>) -> Self {
        let key = |row: &Row| (row.trace.clone(), row.configuration.clone(), row.quantum);
        rows.sort_by_cached_key(key);
        Sweep {
            schema_version: SCHEMA_VERSION,
            rows,
            spread: Vec::new(),
        }
    }
}

/// One trace under one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    /// The trace's file.
    trace: String,
    /// What the trace says it is.
    about: String,
    /// The configuration.
    #[serde(flatten)]
    configuration: Configuration,
    /// The instructions of a core's turn; none if the turns are those of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quantum: Option<u64>,
    /// Accesses replayed.
    accesses: u64,
    /// The counters of the region of interest, and the latencies of its requests.
    metrics: Vec<Metric>,
}

/// Replays a trace under one model and prints its report as JSON.
pub fn replay(args: &ReplayArgs) -> Result<()> {
    let configuration = Configuration {
        model: args.model.clone(),
        set: Vec::new(),
    };
    let (machine, _, _) = played(&args.trace, &configuration, args.quantum)?;
    let text = serde_json::to_string_pretty(&machine.report())
        .context("counters that JSON cannot hold")?;
    say!("{text}")?;
    Ok(())
}

/// Replays, lists jobs or merges, and prints the table.
pub fn sweep(args: &SweepArgs) -> Result<()> {
    check_metrics(&args.show)?;
    let sweep = if args.merge {
        merge(&args.inputs)?
    } else if args.assumed {
        spread(args)?
    } else {
        let configurations = variation::all(&args.models, &args.vary);
        // Find a mistyped trace or model before the others take their time.
        for configuration in &configurations {
            configuration.load()?;
        }
        for trace in &args.inputs {
            open(trace)?;
        }
        if let (Some(scheduler), Some(dir)) = (args.jobs, &args.dir) {
            let traces = args
                .inputs
                .iter()
                .map(|trace| Ok(std::path::absolute(trace)?))
                .collect::<Result<Vec<_>>>()?;
            // A scheduler may start the jobs in any directory.
            let configurations = configurations
                .into_iter()
                .map(Configuration::absolute)
                .collect::<Result<Vec<_>>>()?;
            say!(
                "{}",
                joblist::write(scheduler, &traces, &configurations, dir)?
            )?;
            return Ok(());
        }
        let finer = args.quantum.iter().copied().map(Some);
        let turns: Vec<Option<u64>> = std::iter::once(None).chain(finer).collect();
        let mut work = Vec::new();
        for trace in &args.inputs {
            for configuration in &configurations {
                work.extend(turns.iter().map(|&quantum| (trace, configuration, quantum)));
            }
        }
        let rows = work
            .par_iter()
            .map(|(trace, configuration, quantum)| row(trace, configuration, *quantum))
            .collect::<Result<Vec<_>>>()?;
        Sweep::of(rows)
    };
    if let Some(path) = &args.json {
        let text =
            serde_json::to_string_pretty(&sweep).context("counters that JSON cannot hold")?;
        files::write(path, (text + "\n").as_bytes())?;
    }
    let text = match sweep.spread.is_empty() {
        true => table(&sweep, &args.show)?,
        false => spread_table(&sweep, &args.show),
    };
    output::print(text)?;
    Ok(())
}

/// Finds a mistyped metric before traces take their time.
fn check_metrics(wanted: &[String]) -> Result<()> {
    let names = metric_names();
    match wanted.iter().find(|wanted| !names.contains(wanted)) {
        Some(wanted) => bail!("{}", unknown(wanted, names.iter().map(String::as_str))),
        None => Ok(()),
    }
}

/// Replays every trace under every model, as it is and with each of its assumptions replaced.
fn spread(args: &SweepArgs) -> Result<Sweep> {
    let mut work = Vec::new();
    for trace in &args.inputs {
        open(trace)?;
        for model in &args.models {
            let others = variation::assumed(model)?;
            let ends = variation::dependences(model)?;
            let changed = ends.iter().chain(&others);
            let plain = Configuration {
                model: model.clone(),
                set: Vec::new(),
            };
            let mut runs = vec![plain];
            runs.extend(changed.map(|other| other.configuration.clone()));
            work.push((trace, model, runs, others));
        }
    }
    let mut all = Vec::new();
    let mut bounds = Vec::new();
    for (trace, model, runs, others) in work {
        let rows = runs
            .par_iter()
            .map(|configuration| row(trace, configuration, None))
            .collect::<Result<Vec<_>>>()?;
        let labels = others.iter().map(|other| Some(other.label.clone()));
        for (at, metric) in rows[0].metrics.iter().enumerate() {
            let values = rows[3..].iter().map(|row| row.metrics[at].value);
            let values = values.zip(labels.clone());
            let (mut least, mut most) = ((metric.value, None), (metric.value, None));
            for (value, label) in values {
                if value < least.0 {
                    least = (value, label.clone());
                }
                if value > most.0 {
                    most = (value, label);
                }
            }
            bounds.push(Spread {
                trace: rows[0].trace.clone(),
                model: model.clone(),
                metric: metric.name.clone(),
                value: metric.value,
                least,
                most,
                dependent: rows[1].metrics[at].value,
                independent: rows[2].metrics[at].value,
            });
        }
        all.extend(rows);
    }
    let mut sweep = Sweep::of(all);
    sweep.spread = bounds;
    Ok(sweep)
}

/// The bounds as a table of at most 100 columns, and a sentence about the first metric.
fn spread_table(sweep: &Sweep, wanted: &[String]) -> String {
    let names: Vec<&str> = match wanted {
        [] => SHOWN.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let heading = [
        "trace",
        "model",
        "metric",
        "value",
        "least",
        "most",
        "misses wait",
        "none waits",
    ];
    let stem = |path: &str| {
        let stem = Path::new(path).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    };
    let bound = |(value, label): &(f64, Option<String>)| match label {
        Some(label) => format!("{} ({label})", show::number(*value)),
        None => show::number(*value),
    };
    let mut lines = Vec::new();
    for name in &names {
        for one in sweep.spread.iter().filter(|one| one.metric == *name) {
            lines.push(vec![
                stem(&one.trace),
                one.model.clone(),
                one.metric.replace('-', " "),
                show::number(one.value),
                bound(&one.least),
                bound(&one.most),
                show::number(one.dependent),
                show::number(one.independent),
            ]);
        }
    }
    let mut text = show::plain(heading.map(str::to_owned).into(), lines);
    for one in sweep.spread.iter().filter(|one| one.metric == names[0]) {
        let percent = |bound: f64| 100.0 * (bound / one.value - 1.0);
        text.push_str(&format!(
            "{} under {}: {} {}, from {:+.1} % to {:+.1} % over what the model assumes.\n",
            stem(&one.trace),
            one.model,
            show::number(one.value),
            one.metric.replace('-', " "),
            percent(one.least.0),
            percent(one.most.0),
        ));
    }
    text
}

fn open(trace: &Path) -> Result<Reader<File>> {
    let file = File::open(trace).with_context(|| format!("cannot read {}", trace.display()))?;
    Reader::new(file).with_context(|| trace.display().to_string())
}

/// A machine that has seen a whole trace, what the trace is of, and how many accesses it has. With a
/// quantum the cores take turns of so many instructions.
pub fn played(
    trace: &Path,
    configuration: &Configuration,
    quantum: Option<u64>,
) -> Result<(Machine<SparseMemory>, String, u64)> {
    let reader = open(trace)?;
    let about = reader.header().about.clone();
    let model = configuration
        .load()?
        .with_page_tables(&reader.header().page_tables)
        .with_context(|| trace.display().to_string())?;
    let mut machine = Machine::new(&model, reader.header().cores, SparseMemory::new())
        .with_context(|| format!("the model {}", configuration.name()))?;
    let replayed = match quantum {
        None => trace::replay(reader, &mut machine),
        Some(quantum) => trace::replay_interleaved(reader, &mut machine, quantum),
    };
    let accesses = replayed.with_context(|| trace.display().to_string())?;
    Ok((machine, about, accesses))
}

fn row(trace: &Path, configuration: &Configuration, quantum: Option<u64>) -> Result<Row> {
    let (machine, about, accesses) = played(trace, configuration, quantum)?;
    let report = machine.report();
    let mut metrics = report.total.counters.metrics(machine.ticks_per_cycle());
    metrics.extend(report.requests.metrics());
    Ok(Row {
        trace: trace.display().to_string(),
        about,
        configuration: configuration.clone(),
        quantum,
        accesses,
        metrics,
    })
}

impl Row {
    /// The configuration, and the turns of the cores if they are not the trace's.
    fn name(&self) -> String {
        let quantum = self.quantum.map(|quantum| format!(" quantum={quantum}"));
        self.configuration.name() + &quantum.unwrap_or_default()
    }
}

/// Puts parts together: a job that ran twice counts once, if both results are equal.
fn merge(inputs: &[PathBuf]) -> Result<Sweep> {
    let mut parts = Vec::new();
    for input in inputs {
        if input.is_dir() {
            let found = files::with_suffix(input, ".json")?;
            if found.is_empty() {
                bail!("{} holds no part: has a job ended?", input.display());
            }
            let mut missing = joblist::parts(input)?;
            missing.retain(|part| !part.exists());
            if let Some(first) = missing.first() {
                bail!(
                    "{} of the jobs in {} have no result, the first is {}: wait for them, or run \
                     their lines of jobs.txt again",
                    missing.len(),
                    input.display(),
                    first.display()
                );
            }
            parts.extend(found);
        } else {
            parts.push(input.clone());
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for part in &parts {
        let sweep: Sweep = serde_json::from_str(&files::read(part)?)
            .with_context(|| format!("{} is not part of a sweep", part.display()))?;
        if sweep.schema_version != SCHEMA_VERSION {
            bail!(
                "{} has schema version {}, this program has {SCHEMA_VERSION}",
                part.display(),
                sweep.schema_version
            );
        }
        for row in sweep.rows {
            let same =
                |other: &&Row| other.trace == row.trace && other.configuration == row.configuration;
            match rows.iter().find(same) {
                None => rows.push(row),
                Some(other) if *other == row => {}
                Some(_) => bail!(
                    "{} contradicts another part about {} under {}: one of them is of another \
                     trace of that name, or of another version of the model",
                    part.display(),
                    row.trace,
                    row.configuration.name()
                ),
            }
        }
    }
    Ok(Sweep::of(rows))
}

/// The metrics of every row, whatever its model.
fn metric_names() -> Vec<String> {
    let mut metrics = Counters::default().metrics(1);
    metrics.extend(Latencies::default().metrics());
    metrics.into_iter().map(|metric| metric.name).collect()
}

/// Says that no metric is `wanted`, and which may have been meant.
fn unknown<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    // Leaving out words is a more likely mistake than replacing them.
    let lacks = |name: &str| {
        let has = |word| name.split('-').any(|other| other == word);
        wanted.split('-').filter(|&word| !has(word)).count()
    };
    let mut near: Vec<_> = names
        .map(|name| (lacks(name), edits(wanted, name), name))
        .filter(|&(lacking, edits, _)| lacking == 0 || edits <= wanted.len() / 2)
        .collect();
    near.sort();
    let near: Vec<_> = near.iter().take(3).map(|&(_, _, name)| name).collect();
    let meant = match near.as_slice() {
        [] => String::new(),
        near => format!("; near it are {}", near.join(", ")),
    };
    format!(
        "there is no metric `{wanted}`{meant}; all are in docs/model-qemu.md and in what --json \
         writes"
    )
}

/// Letters to change, add or leave out to make `b` of `a`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The rows as a table of at most 100 columns, and the best of each trace in a sentence.
fn table(sweep: &Sweep, wanted: &[String]) -> Result<String> {
    let names: Vec<&str> = if wanted.is_empty() {
        SHOWN.to_vec()
    } else {
        wanted.iter().map(String::as_str).collect()
    };
    let value = |row: &Row, name: &str| -> Result<f64> {
        let found = row.metrics.iter().find(|metric| metric.name == name);
        let known = row.metrics.iter().map(|metric| metric.name.as_str());
        Ok(found.with_context(|| unknown(name, known))?.value)
    };
    let mut heading = vec!["trace".to_string(), "configuration".to_string()];
    heading.extend(names.iter().map(|name| name.replace('-', " ")));
    let mut lines = Vec::new();
    for row in &sweep.rows {
        let trace = Path::new(&row.trace).file_stem().unwrap_or_default();
        let mut line = vec![trace.to_string_lossy().into_owned(), row.name()];
        for name in &names {
            line.push(show::number(value(row, name)?));
        }
        lines.push(line);
    }
    let mut text = show::plain(heading, lines);
    let mut traces: Vec<&str> = sweep.rows.iter().map(|row| row.trace.as_str()).collect();
    traces.dedup();
    for trace in traces {
        let of_trace = sweep.rows.iter().filter(|row| row.trace == trace);
        let mut best: Option<(&Row, f64)> = None;
        for row in of_trace {
            let now = value(row, names[0])?;
            if best.is_none_or(|(_, least)| now < least) {
                best = Some((row, now));
            }
        }
        if let Some((row, least)) = best {
            text.push_str(&format!(
                "{trace}: the least {}, {}, has {}.\n",
                names[0].replace('-', " "),
                show::number(least),
                row.name()
            ));
        }
    }
    Ok(text)
}

#[cfg(test)]
#[path = "../../../tests/common/trace.rs"]
mod recorded;

#[cfg(test)]
mod tests {
    use super::*;

    fn configurations() -> Vec<Configuration> {
        let vary = ["tlb.1.entries=16,64".parse().unwrap()];
        variation::all(&["baseline".into(), "babelfish-isca20".into()], &vary)
    }

    #[test]
    fn parts_of_a_sweep_are_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("a.trace");
        recorded::record(&trace, 4_000, 37, 300);
        let configurations: Vec<_> = configurations()
            .into_iter()
            .filter(|c| c.load().is_ok())
            .collect();
        assert!(configurations.len() >= 2, "{configurations:?}");
        let mut rows: Vec<_> = configurations
            .iter()
            .map(|configuration| row(&trace, configuration, None).unwrap())
            .collect();
        rows.sort_by(|a, b| a.configuration.cmp(&b.configuration));
        let parts = dir.path().join("parts");
        for (number, row) in rows.iter().rev().enumerate() {
            let part = Sweep {
                schema_version: SCHEMA_VERSION,
                rows: vec![row.clone()],
                spread: Vec::new(),
            };
            let text = serde_json::to_string(&part).unwrap();
            files::write(&parts.join(format!("{number}.json")), text.as_bytes()).unwrap();
        }
        // A job that ran twice is not worth a message.
        std::fs::copy(parts.join("0.json"), parts.join("again.json")).unwrap();
        let merged = merge(std::slice::from_ref(&parts)).unwrap();
        assert_eq!(merged.rows, rows);
        let text = table(&merged, &[]).unwrap();
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("the least cycles"), "{text}");
        assert!(table(&merged, &["nope".into()]).is_err());

        // A job of the list that has not ended is missing.
        let jobs = parts.join("jobs.txt");
        std::fs::write(&jobs, "one\ntwo\n").unwrap();
        std::fs::copy(parts.join("0.json"), parts.join("part-0001.json")).unwrap();
        let error = merge(std::slice::from_ref(&parts)).unwrap_err().to_string();
        assert!(error.contains("part-0002.json"), "{error}");
        std::fs::copy(parts.join("0.json"), parts.join("part-0002.json")).unwrap();
        assert_eq!(merge(std::slice::from_ref(&parts)).unwrap().rows, rows);

        let contradiction = parts.join("0.json");
        let text = files::read(&contradiction).unwrap();
        let changed = text.replacen("\"accesses\":4000", "\"accesses\":4001", 1);
        assert_ne!(text, changed);
        files::write(&contradiction, changed.as_bytes()).unwrap();
        let error = merge(&[parts]).unwrap_err().to_string();
        assert!(error.contains("contradicts"), "{error}");
    }

    #[test]
    fn a_smaller_tlb_misses_more_and_a_replay_is_repeatable() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("a.trace");
        recorded::record(&trace, 4_000, 37, 300);
        let with = |entries: &str| {
            let configuration = Configuration {
                model: "babelfish-isca20".into(),
                set: vec![("tlb.1.entries".into(), entries.into())],
            };
            row(&trace, &configuration, None).unwrap()
        };
        let misses = |row: &Row| {
            let found = row.metrics.iter().find(|m| m.name == "l1-tlb-data-misses");
            found.unwrap().value
        };
        let (small, large) = (with("16"), with("64"));
        assert_eq!(small.accesses, 4_000);
        let names: Vec<_> = small.metrics.iter().map(|m| m.name.clone()).collect();
        assert_eq!(names, metric_names());
        for name in ["l2-tlb-data-mpki", "l2-table-lines", "requests-p95-cycles"] {
            assert!(small.metrics.iter().any(|m| m.name == name), "{name}");
        }
        assert!(misses(&small) >= misses(&large) && misses(&large) > 0.0);
        assert_eq!(small, with("16"));
        // Rates have many digits; a part has all of them.
        let text = serde_json::to_string(&small).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), small);
    }

    #[test]
    fn the_spread_holds_the_value_and_names_the_assumptions_at_its_ends() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("a.trace");
        recorded::record(&trace, 4_000, 37, 300);
        let args = SweepArgs {
            inputs: vec![trace],
            models: vec!["babelfish-isca20".into()],
            vary: Vec::new(),
            assumed: true,
            show: Vec::new(),
            json: None,
            jobs: None,
            dir: None,
            merge: false,
            quantum: Vec::new(),
        };
        let sweep = spread(&args).unwrap();
        let of = |name: &str| sweep.spread.iter().find(|one| one.metric == name).unwrap();
        let cycles = of("cycles");
        assert!(
            cycles.least.0 < cycles.value && cycles.value < cycles.most.0,
            "{cycles:?}"
        );
        assert!(cycles.least.1.is_some() && cycles.most.1.is_some());
        assert!(cycles.dependent > cycles.value, "{cycles:?}");
        assert!(cycles.independent <= cycles.value, "{cycles:?}");
        // Assumptions do not change what the program does.
        let instructions = of("instructions");
        assert_eq!(instructions.least, (instructions.value, None));
        assert_eq!(instructions.most, (instructions.value, None));
        let text = spread_table(&sweep, &[]);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("over what the model assumes"), "{text}");
    }

    #[test]
    fn finer_turns_have_a_row_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("a.trace");
        recorded::record(&trace, 4_000, 37, 300);
        let configuration = &configurations()[0];
        let rows = [Some(10), None].map(|turn| row(&trace, configuration, turn).unwrap());
        let sweep = Sweep::of(rows.into());
        assert_eq!(sweep.rows[0].name(), configuration.name());
        let named = format!("{} quantum=10", configuration.name());
        assert_eq!(sweep.rows[1].name(), named);
        assert!(table(&sweep, &[]).unwrap().contains("quantum=10"));
        // Parts from before there were quanta are still read.
        let text = serde_json::to_string(&sweep.rows[0]).unwrap();
        assert!(!text.contains("quantum"), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), sweep.rows[0]);
    }

    #[test]
    fn a_metric_that_is_not_there_is_named_with_those_near_it() {
        assert_eq!(edits("walk-cycle", "walk-cycles"), 1);
        assert_eq!(edits("", "ab"), 2);
        assert_eq!(edits("kitten", "sitting"), 3);
        let names = metric_names();
        let says = |wanted| unknown(wanted, names.iter().map(String::as_str));
        for (wanted, near) in [
            ("walk-cycle", "near it are walk-cycles"),
            ("l2-tlb-dta-misses", "near it are l2-tlb-data-misses"),
            (
                "l2-tlb-misses",
                "near it are l2-tlb-data-misses, l2-tlb-fetch-misses",
            ),
        ] {
            let error = says(wanted);
            assert!(error.contains(near) && error.contains(wanted), "{error}");
        }
        let error = says("zzzz");
        assert!(
            !error.contains("near") && error.contains("docs/"),
            "{error}"
        );
        assert!(SHOWN.iter().all(|shown| names.iter().any(|n| n == shown)));
    }

    fn crc32(text: &[u8]) -> u32 {
        let bit = |crc: u32, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
        let byte = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), bit);
        !text.iter().fold(u32::MAX, byte)
    }

    #[test]
    fn bad_traces_and_parts_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("a.trace");
        recorded::record(&trace, 4_000, 37, 300);
        let bytes = std::fs::read(&trace).unwrap();
        let mut configurations = configurations().into_iter();
        let configuration = &configurations.find(|c| c.load().is_ok()).unwrap();
        for (name, content) in [
            ("cut", &bytes[..bytes.len() - 5]),
            ("foreign", b"\x7fELF"),
            ("empty", b""),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            let error = format!("{:#}", row(&path, configuration, None).unwrap_err());
            assert!(error.contains(name) && error.contains("trace"), "{error}");
        }
        // Of page tables that no format describes: no recorder writes such a head.
        let path = dir.path().join("of a vax");
        let facts = "cores = 1\npage_tables = \"vax\"\nabout = \"\"\n";
        let mut head = b"COHORTTR".to_vec();
        head.extend(bytes[8..10].iter().copied());
        head.extend((facts.len() as u32).to_le_bytes());
        head.extend(facts.as_bytes());
        // The version is under the checksum.
        let sum = crc32(&[facts.as_bytes(), &bytes[8..10]].concat());
        head.extend(sum.to_le_bytes());
        std::fs::write(&path, head).unwrap();
        let error = format!("{:#}", row(&path, configuration, None).unwrap_err());
        assert!(
            error.contains("of a vax: ") && error.contains("armv8-4k"),
            "{error}"
        );
        // A directory can be opened but is not a file: say so once.
        let error = format!("{:#}", row(dir.path(), configuration, None).unwrap_err());
        assert_eq!(error.matches("directory").count(), 1, "{error}");
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
        let empty = dir.path().join("none");
        files::make_dir(&empty).unwrap();
        assert!(merge(&[empty]).unwrap_err().to_string().contains("no part"));
        assert!(merge(&[trace]).is_err());
    }
}
