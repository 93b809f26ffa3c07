// SPDX-License-Identifier: GPL-2.0-or-later
//! Running a guest under the translation model: QEMU's arguments before, the metrics after.
//!
//! The plugin's figures become metrics of the steps that they were counted in, named `model-…`,
//! so that experiments use them like any other.

use crate::lab::guest::job::Step;
use crate::lab::guest::run::Outcome;
use crate::lab::guest::setup::free_bytes;
use crate::lab::host::files;
use crate::variation::{Alternative, Bounds};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin's file, beside this program.
const PLUGIN: &str = "libcohort_qemu.so";
/// The names of metrics from the model begin with this.
pub const PREFIX: &str = "model-";
/// Before the label of another reading of the model in the name of a metric.
pub const READING: char = '@';
/// The file of the model's other readings, in a run's directory.
const READINGS: &str = "readings.json";
/// The file of a profile.
pub const PROFILE: &str = "profile.json";
/// Files here are in memory.
const SHM: &str = "/dev/shm";
/// Guest seconds for a mark.
const MARK_LIMIT: u64 = 60;

/// Which part of a command the translation model counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regions {
    /// All of it.
    #[default]
    Command,
    /// The part that it marks itself, with `lab-mark` or `mark.h`.
    Marks,
}

/// The work of the plugin in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The plugin.
    file: PathBuf,
    /// `vmlinux`, for names and page faults.
    kernel: Option<PathBuf>,
    /// How the accesses are used.
    pub task: Task,
    /// Other readings of the model, which bound its figures: they run beside it.
    pub readings: Vec<Alternative>,
    /// The content of a trace, in words; empty if it need not say.
    pub about: String,
    /// Walk the page tables at every access and compare.
    pub check: bool,
    /// Audit the kernel's TLB flushes.
    pub audit: bool,
    /// From the first instruction on, whatever the marks.
    pub whole: bool,
}

/// How the plugin uses the accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// They are counted.
    Count,
    /// A model takes them: a built-in's name or a file.
    Model(String),
    /// They are recorded in this file.
    Record(PathBuf),
    /// They are of no interest: the kernel's functions are profiled, into [`PROFILE`] in the run's
    /// directory.
    Profile,
}

/// Refuses what no guest could run: a model that cannot be used, or a missing plugin. Call this
/// before a kernel is built.
pub fn ready(task: &Task) -> Result<()> {
    if let Task::Model(model) = task {
        translation::Model::load(model)?;
    }
    let file = plugin()?;
    if !file.is_file() {
        bail!(
            "there is no {}, which translation models run in: `make build` in the checkout makes it \
             beside target/release/cohort; run that program",
            file.display()
        );
    }
    Ok(())
}

fn plugin() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell this program's file")?;
    Ok(own.with_file_name(PLUGIN))
}

impl Plugin {
    /// For a guest with this kernel.
    pub fn new(kernel: &Path, task: Task) -> Result<Self> {
        Self::with(Some(kernel), task)
    }

    /// For a guest with a kernel that has no symbols: its processes and page faults are not seen.
    pub fn nameless(task: Task) -> Result<Self> {
        Self::with(None, task)
    }

    fn with(kernel: Option<&Path>, task: Task) -> Result<Self> {
        ready(&task)?;
        let file = plugin()?;
        let task = match task {
            Task::Model(model) => {
                if model.contains(['/', ',']) || model.ends_with(".toml") {
                    let path = Path::new(&model)
                        .canonicalize()
                        .with_context(|| format!("cannot read the model {model}"))?;
                    Task::Model(path.to_string_lossy().into_owned())
                } else {
                    Task::Model(model)
                }
            }
            other => other,
        };
        let written = match &task {
            Task::Count | Task::Profile => Path::new(""),
            Task::Model(model) => Path::new(model),
            Task::Record(file) => file,
        };
        // Only `about` has its commas doubled, as QEMU's options want them: paths can do without.
        for path in [&file, kernel.unwrap_or(Path::new("")), written] {
            if path.to_string_lossy().contains(',') {
                bail!(
                    "{}: QEMU's plugins take no path with a comma",
                    path.display()
                );
            }
        }
        Ok(Plugin {
            file,
            kernel: kernel.map(Path::to_path_buf),
            task,
            readings: Vec::new(),
            about: String::new(),
            check: false,
            audit: false,
            whole: false,
        })
    }

    /// With the readings of its model that bound figures; without a model there are none.
    pub fn bounded(mut self, bounds: Bounds) -> Result<Self> {
        if let Task::Model(model) = &self.task {
            self.readings = bounds.readings(model)?;
        }
        Ok(self)
    }

    /// The factor on a guest's time limit with the plugin. The guest is slower by more
    /// than that, but limits are many times what a guest takes.
    pub fn slower(&self) -> u64 {
        let one = match self.check {
            true => 12,
            false => 4,
        };
        one + 2 * self.readings.len() as u64
    }

    /// Writes what the plugin reads from the run's directory.
    pub fn prepare(&self, dir: &Path) -> Result<()> {
        if self.readings.is_empty() {
            return Ok(());
        }
        let list = self.readings.iter().map(|reading| {
            let description = reading.configuration.table()?.to_string();
            Ok(serde_json::json!({ "label": reading.label, "description": description }))
        });
        let list = list.collect::<Result<Vec<_>>>()?;
        let text = serde_json::to_string(&list).context("JSON cannot hold the readings")?;
        files::write(&dir.join(READINGS), text.as_bytes())
    }

    /// `-plugin`'s argument, with the guest's memory in a file below `ram`, at the physical address
    /// `base` if the board has one of its own; output goes below `dir`.
    fn argument(&self, ram: &Path, base: Option<u64>, dir: &Path) -> String {
        let mut text = format!(
            "{},ram={},out={}",
            self.file.display(),
            ram.display(),
            dir.join("model.json").display()
        );
        if let Some(base) = base {
            text.push_str(&format!(",base={base:#x}"));
        }
        if let Some(kernel) = &self.kernel {
            text.push_str(&format!(",kernel={}", kernel.display()));
        }
        match &self.task {
            Task::Count => {}
            Task::Model(model) => text.push_str(&format!(",model={model}")),
            Task::Record(file) => text.push_str(&format!(",record={}", file.display())),
            Task::Profile => {
                text.push_str(&format!(",profile={}", dir.join(PROFILE).display()));
            }
        }
        if !self.readings.is_empty() {
            text.push_str(&format!(",readings={}", dir.join(READINGS).display()));
        }
        if !self.about.is_empty() {
            // QEMU takes a single one for the end of the value.
            text.push_str(&format!(",about={}", self.about.replace(',', ",,")));
        }
        for (name, on) in [
            ("check", self.check),
            ("audit", self.audit),
            ("whole", self.whole),
        ] {
            if on {
                text.push_str(&format!(",{name}=on"));
            }
        }
        text
    }

    /// Adds to QEMU's command line what the plugin needs; the machine's memory is named `ram`.
    pub fn add_to(&self, qemu: &mut Command, memory: u64, base: Option<u64>, dir: &Path) {
        let ram = memory_dir(Path::new(SHM), memory, dir);
        qemu.arg("-object")
            .arg(format!(
                "memory-backend-file,id=ram,size={memory}M,share=on,mem-path={}",
                ram.display()
            ))
            .arg("-plugin")
            .arg(self.argument(&ram, base, dir));
    }
}

/// Where QEMU makes the file with the guest's memory, which it removes at once: in memory if the
/// machine has a place for it, else with the run's other files.
fn memory_dir(shm: &Path, memory: u64, dir: &Path) -> PathBuf {
    // In containers it is small, and QEMU is killed when it is full.
    match free_bytes(shm) {
        Ok(free) if free >> 20 > memory => shm.to_path_buf(),
        _ => dir.to_path_buf(),
    }
}

/// The output of the plugin.
#[derive(Debug, Deserialize)]
pub struct Output {
    /// Instructions that the guest executed.
    pub instructions: u64,
    /// Translations compared, if that was asked for.
    pub check: Option<Check>,
    /// What the flush audit found, if that was asked for.
    pub audit: Option<Audit>,
    /// The labels of the model's other readings.
    #[serde(default)]
    readings: Vec<String>,
    regions: Vec<Part>,
    requests: Vec<Part>,
    /// Of the model's whole report, what is read here.
    report: Option<Report>,
}

#[derive(Debug, Deserialize)]
struct Report {
    total: Total,
}

#[derive(Debug, Deserialize)]
struct Total {
    tlb: Vec<Level>,
    babelfish: Option<Fish>,
}

#[derive(Debug, Deserialize)]
struct Level {
    shared_hits: u64,
}

/// What BabelFish's TLBs have met whose kernel says what is shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Fish {
    /// Walks that found a translation to be shared.
    #[serde(default)]
    pub shared_fills: u64,
    /// Hits on an entry that another process's walk had brought in.
    #[serde(skip)]
    pub shared_hits: u64,
    /// Hits on one that is not the process's own.
    #[serde(default)]
    pub violations: u64,
    /// Hits where the process maps nothing, which the kernel does not prevent.
    #[serde(default)]
    pub strays: u64,
}

impl Fish {
    /// The result in a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "{} shared entries filled, {} hits of other processes, {} where nothing is mapped, \
             {} violations",
            self.shared_fills, self.shared_hits, self.strays, self.violations
        )
    }

    /// No process has met what is not its own, and so many hits might have shown it.
    pub fn is_right(&self, enough: u64) -> bool {
        self.violations == 0 && self.shared_hits >= enough
    }
}

/// Translations compared with QEMU's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Check {
    /// How many.
    pub checked: u64,
    /// How many differed.
    pub wrong: u64,
    /// How many the model compared with its own walks.
    pub model_checked: u64,
    /// How many of these differed, at most 64 per guest.
    pub model_wrong: u64,
}

impl Check {
    /// Adds another guest's.
    pub fn add(&mut self, other: Check) {
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.model_checked += other.model_checked;
        self.model_wrong += other.model_wrong;
    }

    /// One sentence if something is wrong; `log` has the details.
    pub fn problem(&self, log: &Path) -> Option<String> {
        (self.wrong + self.model_wrong > 0 || self.checked == 0).then(|| {
            format!(
                "{} of {} translations and {} of {} of the model differ from QEMU's: {}",
                self.wrong,
                self.checked,
                self.model_wrong,
                self.model_checked,
                log.display()
            )
        })
    }
}

/// What the flush audit found.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Audit {
    /// Times that entries were compared.
    pub audits: u64,
    /// Entries compared.
    pub compared: u64,
    /// Entries that the TLBs were filled with.
    pub filled: u64,
    /// Changes of tables below entries.
    pub changes: u64,
    /// Entries that outlived their flush.
    pub missing: u64,
    /// Entries that are wrong though no store to their tables was seen.
    pub unseen: u64,
    /// Faults that a processor would have taken for the rights of an old entry.
    pub spurious: u64,
    /// The places with most of these, the one with most first.
    pub spurious_places: Vec<Place>,
    /// Uses of an old page, allowed ones included.
    pub diverged: u64,
    /// Entries that serve whoever runs.
    pub global: u64,
    /// Faults that a processor would have taken for the closed domain of an entry.
    pub domain_faults: u64,
    /// Flushes of a form that the plugin does not know: the instruction, and how often.
    #[serde(default)]
    pub unknown_flushes: BTreeMap<String, u64>,
    /// One per function of the kernel and kind of mistake.
    pub findings: Vec<Finding>,
}

/// Faults of one place that only a processor would take.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Place {
    /// The kernel's function that gave the right which the entry lacks, and its caller.
    pub function: String,
    /// The process that would have faulted.
    pub task: String,
    /// How many faults.
    pub count: u64,
}

/// Missing flushes of one place.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Finding {
    /// The function that changed the table.
    pub function: String,
    /// What is wrong with the entry.
    pub kind: String,
    /// How many entries.
    pub count: u64,
    /// Sentences about the first.
    pub first: String,
}

impl Audit {
    /// The result in a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "{} audits, {} entries compared, {} missing flushes",
            self.audits, self.compared, self.missing
        )
    }

    /// A sentence about flushes that the audit took for none; None if there are none.
    pub fn unknown(&self) -> Option<String> {
        let total: u64 = self.unknown_flushes.values().sum();
        let forms = self.unknown_flushes.iter();
        let forms: Vec<_> = forms
            .map(|(form, count)| format!("{form} ({count} times)"))
            .collect();
        (total > 0).then(|| {
            format!(
                "{total} flushes are of forms that the audit does not know, and dropped nothing: {}",
                forms.join(", ")
            )
        })
    }
}

/// A region or a request.
#[derive(Debug, Deserialize)]
struct Part {
    /// The step it was in, by its number in the marks.
    step: u64,
    metrics: Vec<Value>,
    /// The metrics under each of the other readings.
    #[serde(default)]
    readings: Vec<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct Value {
    name: String,
    value: f64,
    unit: String,
}

impl Output {
    /// Reads it from a run's directory.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("model.json");
        serde_json::from_str(&files::read(&path)?)
            .with_context(|| format!("{} is not of this plugin: `make build`", path.display()))
    }

    /// What BabelFish's TLBs have met, from the first instruction on.
    pub fn babelfish(&self) -> Result<Fish> {
        let total = self.report.as_ref().map(|report| &report.total);
        let total = total.context("the plugin has run no model")?;
        let fish = total.babelfish.context("its model has no BabelFish")?;
        Ok(Fish {
            shared_hits: total.tlb.iter().map(|level| level.shared_hits).sum(),
            ..fish
        })
    }

    /// Gives each step the metrics of its regions and requests; those of another reading of the model
    /// have its label behind their name. `marked` are the names of the steps that were to be counted,
    /// in the order of their numbers.
    pub fn give(&self, marked: &[String], outcome: &mut Outcome) -> Result<(), String> {
        let kinds = [(PREFIX, &self.regions), ("model-request-", &self.requests)];
        for (prefix, parts) in kinds {
            for part in parts {
                let name = (part.step as usize)
                    .checked_sub(1)
                    .and_then(|n| marked.get(n));
                let step = outcome
                    .report
                    .steps
                    .iter_mut()
                    .find(|s| Some(&s.name) == name);
                let Some(step) = step else { continue };
                let line = |v: &Value| format!("metric {prefix}{} {} {}", v.name, v.value, v.unit);
                step.lines.extend(part.metrics.iter().map(line));
                for (label, metrics) in self.readings.iter().zip(&part.readings) {
                    let line = |v: &Value| {
                        let name = format!("{prefix}{}{READING}{label}", v.name);
                        format!("metric {name} {} {}", v.value, v.unit)
                    };
                    step.lines.extend(metrics.iter().map(line));
                }
            }
        }
        for (name, number) in marked.iter().zip(1..) {
            if !self.regions.iter().any(|part| part.step == number) {
                return Err(format!(
                    "the model saw no region in the step {name}: it begins with the mark start \
                     and ends with stop"
                ));
            }
        }
        Ok(())
    }
}

/// The job with marks around the steps named `measured`, and the names of these in order.
pub fn mark(
    steps: &[Step],
    measured: impl Fn(&str) -> bool,
    regions: Regions,
) -> (Vec<Step>, Vec<String>) {
    let mut marked = Vec::new();
    let mut job = Vec::new();
    if regions == Regions::Command {
        job.push(Step::new("mark.warm", MARK_LIMIT, "lab-mark warm"));
    }
    for step in steps {
        if !measured(&step.name) {
            job.push(step.clone());
            continue;
        }
        marked.push(step.name.clone());
        let number = marked.len();
        let at = |what: &str, command: String| {
            Step::new(format!("mark.{what}-{number}"), MARK_LIMIT, command)
        };
        let start = match regions {
            Regions::Command => format!("lab-mark step {number} -- lab-mark start {number}"),
            Regions::Marks => format!("lab-mark step {number}"),
        };
        job.push(at("start", start));
        job.push(step.clone());
        if regions == Regions::Command {
            job.push(at("stop", "lab-mark stop".into()));
        }
    }
    (job, marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::arch::Arch;
    use crate::lab::guest::protocol::{self, Report};
    use crate::lab::guest::run::End;

    #[test]
    fn what_babelfish_met_is_read_and_too_little_is_not_right() {
        let read = |report: &str| -> Output {
            serde_json::from_str(&format!(
                r#"{{"instructions": 1, "regions": [], "requests": [], "report": {report}}}"#
            ))
            .unwrap()
        };
        let met = read(
            r#"{"total": {"tlb": [{"shared_hits": 3}, {"shared_hits": 4}],
                          "babelfish": {"shared_fills": 5, "strays": 1}}}"#,
        );
        let fish = met.babelfish().unwrap();
        assert_eq!((fish.shared_hits, fish.strays, fish.violations), (7, 1, 0));
        assert!(fish.is_right(7) && !fish.is_right(8));
        let wrong = Fish {
            violations: 1,
            ..fish
        };
        assert!(!wrong.is_right(0));
        let none = read(r#"{"total": {"tlb": []}}"#).babelfish();
        assert!(none.unwrap_err().to_string().contains("BabelFish"));
        assert!(read("null").babelfish().is_err());
    }

    fn steps() -> Vec<Step> {
        ["a.setup-1", "a.1", "b.1"]
            .map(|name| Step::new(name, 5, "true"))
            .to_vec()
    }

    #[test]
    fn steps_that_are_measured_stand_between_marks() {
        let measured = |name: &str| !name.contains("setup");
        let (job, marked) = mark(&steps(), measured, Regions::Command);
        let text: Vec<_> = job
            .iter()
            .map(|s| format!("{}: {}", s.name, s.command))
            .collect();
        assert_eq!(
            text,
            [
                "mark.warm: lab-mark warm",
                "a.setup-1: true",
                "mark.start-1: lab-mark step 1 -- lab-mark start 1",
                "a.1: true",
                "mark.stop-1: lab-mark stop",
                "mark.start-2: lab-mark step 2 -- lab-mark start 2",
                "b.1: true",
                "mark.stop-2: lab-mark stop",
            ]
        );
        assert_eq!(marked, ["a.1", "b.1"]);
        // A command that marks itself only needs another name than the others.
        let (job, _) = mark(&steps(), measured, Regions::Marks);
        assert_eq!(job.len(), 5);
        assert_eq!(job[1].command, "lab-mark step 1");
    }

    #[test]
    fn metrics_go_to_their_step_and_a_step_without_a_region_is_named() {
        let output: Output = serde_json::from_str(
            r#"{"schema_version": 1, "instructions": 9, "readings": ["core.rob=0"], "regions": [
                {"step": 2, "id": 0, "metrics": [{"name": "cycles", "value": 7, "unit": "cycles"}],
                 "readings": [[{"name": "cycles", "value": 9, "unit": "cycles"}]]}],
                "requests": [
                {"step": 2, "id": 4, "metrics": [{"name": "cycles", "value": 3, "unit": "cycles"}]},
                {"step": 2, "id": 5, "metrics": [{"name": "cycles", "value": 4, "unit": "cycles"}]},
                {"step": 9, "id": 5, "metrics": []}]}"#,
        )
        .unwrap();
        let mut report = Report::default();
        for line in ["begin a.1", "end a.1 exit=0", "begin b.1", "end b.1 exit=0"] {
            report.line(line);
        }
        let mut outcome = Outcome {
            report,
            end: End::Done,
            complaints: Vec::new(),
            console: PathBuf::new(),
        };
        let marked = ["a.1".to_string(), "b.1".to_string()];
        let error = output.give(&marked, &mut outcome).unwrap_err();
        assert!(error.contains("the step a.1"), "{error}");
        let mut metrics = BTreeMap::new();
        protocol::metrics(&outcome.report.find("b.1").unwrap().lines, &mut metrics).unwrap();
        assert_eq!(metrics["model-cycles"].values, [7.0]);
        assert_eq!(metrics["model-cycles@core.rob=0"].values, [9.0]);
        assert_eq!(metrics["model-request-cycles"].values, [3.0, 4.0]);
        assert!(outcome.report.find("a.1").unwrap().lines.is_empty());
    }

    #[test]
    fn a_translation_that_differs_is_a_problem_and_so_is_a_check_of_none() {
        let right = Check {
            checked: 9,
            model_checked: 9,
            ..Check::default()
        };
        let log = Path::new("qemu.log");
        assert_eq!(right.problem(log), None);
        let problems = [
            Check { wrong: 1, ..right },
            Check {
                model_wrong: 1,
                ..right
            },
            Check::default(),
        ];
        for check in problems {
            let words = check.problem(log).unwrap();
            assert!(words.contains("qemu.log"), "{words}");
        }
        let mut sum = right;
        sum.add(Check { wrong: 2, ..right });
        assert_eq!((sum.checked, sum.wrong), (18, 2));
    }

    #[test]
    fn memory_is_where_there_is_room_for_it() {
        let (shm, dir) = (tempfile::tempdir().unwrap(), Path::new("/out/run/x"));
        let free = free_bytes(shm.path()).unwrap() >> 20;
        assert_eq!(memory_dir(shm.path(), 0, dir), shm.path());
        assert_eq!(memory_dir(shm.path(), free * 2 + 1_024, dir), dir);
        assert_eq!(memory_dir(&shm.path().join("none"), 0, dir), dir);
    }

    #[test]
    fn flushes_that_the_audit_does_not_know_are_listed() {
        assert_eq!(Audit::default().unknown(), None);
        let forms = [("0x0e080f94", 2), ("0x0e080fd4", 1)];
        let audit = Audit {
            unknown_flushes: forms.map(|(form, count)| (form.into(), count)).into(),
            ..Audit::default()
        };
        let text = audit.unknown().unwrap();
        assert!(text.starts_with("3 flushes "), "{text}");
        assert!(
            text.ends_with("0x0e080f94 (2 times), 0x0e080fd4 (1 times)"),
            "{text}"
        );
    }

    #[test]
    fn the_plugin_is_told_all_of_it() {
        let plugin = Plugin {
            file: "/p.so".into(),
            kernel: Some("/vmlinux".into()),
            task: Task::Model("baseline".into()),
            readings: Vec::new(),
            about: String::new(),
            check: true,
            audit: false,
            whole: false,
        };
        let text = plugin.argument(Path::new("/m"), None, Path::new("/out/run/x"));
        assert!(text.starts_with("/p.so,ram=/m,out="), "{text}");
        assert!(
            text.contains(",out=/out/run/x/model.json,kernel=/vmlinux,model=baseline,check=on")
        );
        // A board whose memory is not where its architecture's usual machine has it.
        let a9 = "armv7-a9".parse::<Arch>().unwrap();
        let base = a9.lab.as_ref().unwrap().ram;
        let text = plugin.argument(Path::new("/m"), base, Path::new("/out/run/x"));
        assert!(text.contains(",base=0x60000000,"), "{text}");
        let nameless = Plugin {
            kernel: None,
            ..plugin.clone()
        };
        let text = nameless.argument(Path::new("/m"), None, Path::new("/out/run/x"));
        assert!(!text.contains("kernel"), "{text}");
        let recorder = Plugin {
            task: Task::Record("/t.part".into()),
            about: "x, stock, Linux 6.12.1 (bench, change a=b)".into(),
            check: false,
            ..plugin.clone()
        };
        let auditor = Plugin {
            task: Task::Count,
            check: false,
            audit: true,
            ..plugin.clone()
        };
        let text = auditor.argument(Path::new("/m"), None, Path::new("/out/run/x"));
        assert!(text.ends_with(",kernel=/vmlinux,audit=on"), "{text}");
        // A comma is doubled; an equals sign within a value is the value's own.
        let text = recorder.argument(Path::new("/m"), None, Path::new("/out/run/x"));
        let about = ",about=x,, stock,, Linux 6.12.1 (bench,, change a=b)";
        assert!(
            text.contains(",record=/t.part,") && text.ends_with(about),
            "{text}"
        );
        assert!(
            !plugin
                .argument(Path::new("/m"), None, Path::new("/d"))
                .contains("about")
        );
        let bounded = plugin.clone().bounded(Bounds::Dependences).unwrap();
        let counter = Plugin {
            task: Task::Count,
            ..plugin.clone()
        };
        let counter = counter.bounded(Bounds::Dependences).unwrap();
        assert!(counter.readings.is_empty());
        let dir = tempfile::tempdir().unwrap();
        bounded.prepare(dir.path()).unwrap();
        let file = dir.path().join(READINGS);
        let text = bounded.argument(Path::new("/m"), None, dir.path());
        assert!(
            text.contains(&format!(",readings={}", file.display())),
            "{text}"
        );
        let written: serde_json::Value =
            serde_json::from_str(&files::read(&file).unwrap()).unwrap();
        assert_eq!(written[0]["label"], "core.rob=0");
        assert!(bounded.slower() > plugin.slower());
        let mut qemu = Command::new("qemu");
        plugin.add_to(&mut qemu, 512, None, Path::new("/out/run/x"));
        let args: Vec<_> = qemu.get_args().map(|arg| arg.to_string_lossy()).collect();
        assert!(args[1].contains("size=512M,share=on"));
    }
}
