// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab mutate`: does a test fail if the kernel is wrong?
//!
//! `kernel/mutations.toml` names functions of the kernel with the invariant that each keeps and the
//! test that must fail without it. Each gets a guest, whose kernel has that one function do nothing
//! (see `image.rs`), and in which that one test runs. First all of the tests run on the kernel as it
//! is: a test that fails there shows nothing.

pub(super) mod bootable;
mod image;

use super::tally::Tally;
use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::experiment::results::{json, save, utc};
use crate::lab::guest::job::Step;
use crate::lab::guest::programs::{self, Program};
use crate::lab::guest::protocol::{Verdict, tap};
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Outcome, Spec};
use crate::lab::host::files;
use crate::lab::kernel::build::{self, Config};
use crate::output::say;
use crate::show;
use anyhow::{Context, Result, bail};
use bootable::Bootable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Changes when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;
const FILE: &str = "kernel/mutations.toml";
/// The invariants of `Documentation/mm/cohort.rst`.
const INVARIANTS: u32 = 14;
/// Seconds of guest time for one test, and of host time for a guest with one.
const STEP_LIMIT: u64 = 60;
const GUEST_LIMIT: u64 = 100;

/// What to mutate.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Bench)]
    config: Config,
    /// Run the mutations of this architecture: of amd64 those that every kernel has, of another one
    /// those that its kernel alone has.
    #[arg(long, value_name = "NAME", default_value_t = LAB)]
    arch: Arch,
    /// Only functions whose name contains this.
    #[arg(long, value_name = "WORD")]
    filter: Option<String>,
    /// Print the table of docs/testing.md and run nothing.
    #[arg(long)]
    docs: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutation: Vec<Mutation>,
}

/// A function that does nothing, and the test that must see it.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    function: String,
    /// The architecture that alone has it; without one, every one has, and amd64 runs it.
    #[serde(default = "lab_arch", skip_serializing_if = "is_lab")]
    arch: Arch,
    /// What it returns; nothing for a function without a value.
    returns: Option<i32>,
    /// The invariants that it keeps.
    invariants: Vec<u32>,
    /// What is wrong then.
    what: String,
    /// The program in `selftests/cohort`.
    program: String,
    /// A part of the case's description; without one, all cases of the short run.
    case: Option<String>,
    /// The mode of the kernel.
    #[serde(default = "always")]
    mode: String,
    /// More words for its command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    append: String,
}

fn lab_arch() -> Arch {
    LAB
}

fn is_lab(arch: &Arch) -> bool {
    *arch == LAB
}

fn always() -> String {
    "always".into()
}

/// What came of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "by", rename_all = "lowercase")]
enum Fate {
    /// The test failed: how.
    Killed(String),
    /// The test passed.
    Survived,
    /// It says nothing: why.
    Void(String),
}

/// The content of `out/results/mutate.json`.
#[derive(Debug, Serialize)]
struct Results {
    schema_version: u32,
    date: String,
    kernel: String,
    /// Host seconds of all guests.
    seconds: u64,
    mutations: Vec<Mutated>,
}

#[derive(Debug, Serialize)]
struct Mutated {
    #[serde(flatten)]
    mutation: Mutation,
    #[serde(flatten)]
    fate: Fate,
    seconds: u64,
}

impl File {
    fn read(lab: &Lab) -> Result<Self> {
        let path = lab.path(FILE);
        let file: File = toml::from_str(&files::read(&path)?)
            .with_context(|| format!("{} is not a list of mutations", path.display()))?;
        file.check()
            .with_context(|| format!("{} has a mistake", path.display()))?;
        Ok(file)
    }

    /// Every invariant has a mutation.
    fn check(&self) -> Result<()> {
        for invariant in 1..=INVARIANTS {
            let mutated = self
                .mutation
                .iter()
                .any(|mutation| mutation.invariants.contains(&invariant));
            if !mutated {
                bail!("no mutation breaks invariant {invariant}");
            }
        }
        let known = |invariant: &u32| (1..=INVARIANTS).contains(invariant);
        if let Some(mutation) = self
            .mutation
            .iter()
            .find(|m| !m.invariants.iter().all(known))
        {
            bail!("{} keeps an invariant that there is not", mutation.function);
        }
        if let Some(mutation) = self.mutation.iter().find(|m| {
            // It stands between single quotes on a command line.
            m.case.as_ref().is_some_and(|case| case.contains('\''))
        }) {
            bail!(
                "the case of {} has an apostrophe: use another part",
                mutation.function
            );
        }
        Ok(())
    }

    /// The table of docs/testing.md.
    fn docs(&self) -> String {
        let mut text = String::from(
            "| does nothing | invariant | so that | what fails |\n|---|---|---|---|\n",
        );
        for mutation in &self.mutation {
            let value = match mutation.returns {
                Some(value) => format!(", returns {value}"),
                None => String::new(),
            };
            let case = match &mutation.case {
                Some(case) => format!(": {case}"),
                None => String::new(),
            };
            let arch = match mutation.arch == LAB {
                true => String::new(),
                false => format!(" ({})", mutation.arch),
            };
            text.push_str(&format!(
                "| `{}`{value}{arch} | {} | {} | `{}`{case} |\n",
                mutation.function,
                numbers(&mutation.invariants),
                mutation.what,
                mutation.program,
            ));
        }
        text
    }
}

impl Mutation {
    /// What the kernel's command line says about Cohort.
    fn words(&self) -> String {
        format!("cohort={} {}", self.mode, self.append)
            .trim_end()
            .into()
    }

    /// The test's step, told apart from the same program with other cases.
    fn step(&self) -> Step {
        let mut name = self.program.clone();
        let mut command = format!("{} -q -m {}", self.program, self.mode);
        if let Some(case) = &self.case {
            let word: String = case
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                .collect();
            name = format!("{name}.{word}");
            command.push_str(&format!(" -k '{case}'"));
        }
        Step::new(name, STEP_LIMIT, command)
    }
}

fn numbers(invariants: &[u32]) -> String {
    if invariants.is_empty() {
        return "none".into();
    }
    let all: Vec<String> = invariants.iter().map(u32::to_string).collect();
    all.join(", ")
}

/// What all guests have.
struct Host<'a> {
    lab: &'a Lab,
    arch: Arch,
    init: PathBuf,
    programs: Vec<Program>,
    rootfs: PathBuf,
}

impl Host<'_> {
    fn boot(&self, name: String, image: &Path, words: &str, steps: Vec<Step>) -> Result<Outcome> {
        let limit = GUEST_LIMIT * steps.len().max(1) as u64;
        Spec {
            name,
            machine: Machine::of(self.arch)?,
            kernel: image,
            memory: 1_024,
            cpus: 2,
            icount: false,
            rootfs: Some(&self.rootfs),
            read_limit: None,
            cmdline: format!("numa=fake=2 {words}"),
            init: &self.init,
            programs: &self.programs,
            steps,
            plugin: None,
            limit,
        }
        .run(self.lab)
    }
}

/// Runs the mutations; one that is not killed is a failed test.
pub fn mutate(lab: &Lab, options: &Options) -> Result<Tally> {
    let file = File::read(lab)?;
    if options.docs {
        crate::output::print(file.docs())?;
        return Ok(Tally::new());
    }
    if options.config == Config::Pristine {
        bail!("a pristine kernel has nothing to mutate: use --config debug or bench");
    }
    let chosen: Vec<&Mutation> = file
        .mutation
        .iter()
        .filter(|mutation| {
            let filter = options.filter.as_ref();
            mutation.arch == options.arch
                && filter.is_none_or(|word| mutation.function.contains(word))
        })
        .collect();
    if chosen.is_empty() {
        bail!(
            "{FILE} has no such mutation for {}: `cohort lab mutate --docs` lists all",
            options.arch
        );
    }
    let _lock = files::Lock::take(&lab.out("mutate.lock"), "another run of `lab mutate`")?;
    let start = Instant::now();
    let arch = options.arch;
    let kernel = build::build_for(lab, arch, options.config)?;
    let host = Host {
        lab,
        arch,
        init: programs::init_for(lab, arch)?,
        programs: programs::selftests(lab, arch, options.config)?,
        rootfs: rootfs::image(lab, arch.rootfs)?,
    };
    let whole = Bootable::built(&kernel);
    let sound = sound(&host, &whole.image, &chosen)?;
    let mut mutations = Vec::new();
    let mut tally = Tally::new();
    for mutation in chosen {
        let began = Instant::now();
        let key = (mutation.words(), mutation.step().name);
        let fate = match sound.get(&key) {
            Some(Some(why)) => Fate::Void(format!("on the kernel as it is, {why}")),
            _ => mutated(&host, &whole, mutation)?,
        };
        let (word, by) = match &fate {
            Fate::Killed(by) => ("killed", by.as_str()),
            Fate::Survived => ("SURVIVED", "the test passed"),
            Fate::Void(why) => ("VOID", why.as_str()),
        };
        say!(
            "{word} {} (invariant {}) by {}: {by}",
            mutation.function,
            numbers(&mutation.invariants),
            mutation.program
        )?;
        match &fate {
            Fate::Killed(_) => tally.passed += 1,
            _ => tally.fail(
                format!("{} does nothing: {word}", mutation.function),
                &[by.to_string()],
            ),
        }
        mutations.push(Mutated {
            mutation: mutation.clone(),
            fate,
            seconds: began.elapsed().as_secs(),
        });
    }
    let name = arch.results("mutate");
    let results = Results {
        schema_version: SCHEMA_VERSION,
        date: utc(SystemTime::now()),
        kernel: kernel.describe(),
        seconds: start.elapsed().as_secs(),
        mutations,
    };
    save(lab, &name, &json(&results)?)?;
    crate::output::print(table(&results))?;
    Ok(tally)
}

/// Runs every test once on the kernel as it is: by command line and step, why it shows nothing there.
fn sound(
    host: &Host,
    image: &Path,
    chosen: &[&Mutation],
) -> Result<BTreeMap<(String, String), Option<String>>> {
    let mut jobs: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for mutation in chosen {
        let steps = jobs.entry(mutation.words()).or_default();
        let step = mutation.step();
        if !steps.iter().any(|other| other.name == step.name) {
            steps.push(step);
        }
    }
    let mut sound = BTreeMap::new();
    for (number, (words, steps)) in jobs.into_iter().enumerate() {
        let name = format!("mutate-none-{number}");
        let outcome = host.boot(name, image, &words, steps.clone())?;
        for step in steps {
            let why = match fate(&outcome, &step.name) {
                Fate::Survived => None,
                Fate::Killed(by) | Fate::Void(by) => Some(by),
            };
            sound.insert((words.clone(), step.name), why);
        }
    }
    Ok(sound)
}

/// Boots a kernel with one function that does nothing.
fn mutated(host: &Host, whole: &Bootable, mutation: &Mutation) -> Result<Fate> {
    let dir = host.lab.out("mutate");
    let changed = match whole.without(host.arch, &mutation.function, mutation.returns, &dir) {
        Ok(changed) => changed,
        Err(error) => return Ok(Fate::Void(format!("{error:#}"))),
    };
    let step = mutation.step();
    let name = format!("mutate-{}", mutation.function);
    let outcome = host.boot(name, &changed.image, &mutation.words(), vec![step.clone()])?;
    changed.remove()?;
    Ok(fate(&outcome, &step.name))
}

/// What a test says of the kernel that it ran on.
fn fate(outcome: &Outcome, step: &str) -> Fate {
    let Some(report) = outcome.report.find(step) else {
        let why = outcome.problem();
        let why = why.unwrap_or_else(|| "the guest did not run it".into());
        return Fate::Void(format!("the guest did not get to its test: {why}"));
    };
    let tests = tap(report);
    let failed: Vec<_> = tests
        .iter()
        .filter(|t| t.verdict == Verdict::Fail)
        .collect();
    if let Some(first) = failed.first() {
        let more = match failed.len() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        return Fate::Killed(format!("{}{more}", first.name));
    }
    if let Some(problem) = outcome.problem() {
        return Fate::Killed(problem);
    }
    if let Some(complaint) = outcome.complaints.first() {
        return Fate::Killed(format!("the kernel says: {complaint}"));
    }
    match tests.iter().any(|test| test.verdict == Verdict::Pass) {
        true => Fate::Survived,
        false => Fate::Void("no case ran".into()),
    }
}

fn table(results: &Results) -> String {
    let heading = ["does nothing", "invariant", "test", "", "by", "s"];
    let rows = results.mutations.iter().map(|mutated| {
        let mutation = &mutated.mutation;
        let (word, by) = match &mutated.fate {
            Fate::Killed(by) => ("killed", by.clone()),
            Fate::Survived => ("SURVIVED", String::new()),
            Fate::Void(why) => ("VOID", why.clone()),
        };
        vec![
            mutation.function.clone(),
            numbers(&mutation.invariants),
            mutation.program.clone(),
            word.into(),
            by,
            mutated.seconds.to_string(),
        ]
    });
    show::plain(heading.map(String::from).to_vec(), rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::guest::protocol::Report;
    use crate::lab::guest::run::End;

    fn repository() -> Lab {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Lab::find(Some(root)).unwrap()
    }

    #[test]
    fn functions_and_programs_are_in_the_kernel_and_the_document_lists_them() {
        let lab = repository();
        let file = File::read(&lab).unwrap();
        let sources: String = ["kernel/overlay/mm", "kernel/overlay/arch"]
            .iter()
            .flat_map(|dir| files::walk(&lab.path(dir)).unwrap())
            .map(|path| files::read(&path).unwrap())
            .collect();
        for mutation in &file.mutation {
            let call = format!("{}(", mutation.function);
            assert!(sources.contains(&call), "{} is gone", mutation.function);
            let tests = lab.path("kernel/overlay/tools/testing/selftests/cohort");
            let program = tests.join(format!("{}.c", mutation.program));
            let text = files::read(&program).unwrap();
            if let Some(case) = &mutation.case {
                assert!(text.contains(case), "{} has no {case}", mutation.program);
            }
        }
        let document = files::read(&lab.path("docs/testing.md")).unwrap();
        assert!(
            document.contains(&file.docs()),
            "docs/testing.md has not the table that `cohort lab mutate --docs` prints"
        );
    }

    #[test]
    fn an_architecture_or_a_word_without_mutations_is_refused() {
        for (arch, filter) in [("arm64", None), ("amd64", Some("no_such_function".into()))] {
            let options = Options {
                config: Config::Bench,
                arch: arch.parse().unwrap(),
                filter,
                docs: false,
            };
            let refused = mutate(&repository(), &options).unwrap_err().to_string();
            let why = format!("no such mutation for {arch}");
            assert!(refused.contains(&why), "{refused}");
        }
    }

    #[test]
    fn an_invariant_without_a_mutation_is_refused() {
        let lab = repository();
        let mut file = File::read(&lab).unwrap();
        file.mutation
            .retain(|mutation| !mutation.invariants.contains(&8));
        let error = file.check().unwrap_err().to_string();
        assert!(error.contains("invariant 8"), "{error}");
    }

    fn outcome(lines: &[&str], end: End, complaints: &[&str]) -> Outcome {
        let mut report = Report::default();
        lines.iter().for_each(|line| report.line(line));
        Outcome {
            report,
            end,
            complaints: complaints.iter().map(|line| line.to_string()).collect(),
            console: PathBuf::from("console.log"),
        }
    }

    #[test]
    fn a_mutation_is_killed_by_a_failed_case_or_a_kernel_that_complains_in_it() {
        let good = [
            "ready",
            "begin tlb",
            "out tlb 1..1",
            "out tlb ok 1 one",
            "end tlb exit=0",
        ];
        let of = |lines: &[&str], end, complaints: &[&str]| {
            fate(&outcome(lines, end, complaints), "tlb")
        };
        assert_eq!(of(&good, End::Done, &[]), Fate::Survived);
        let by = |fate| match fate {
            Fate::Killed(by) => by,
            other => panic!("{other:?}"),
        };
        assert!(by(of(&good, End::Done, &["BUG: x"])).contains("BUG: x"));
        let bad = [
            "ready",
            "begin tlb",
            "out tlb 1..1",
            "out tlb not ok 1 one",
            "end tlb exit=1",
        ];
        assert_eq!(by(of(&bad, End::Done, &[])), "one");
        let panicked = of(&good[..2], End::Panic("bad".into()), &[]);
        assert!(by(panicked).contains("tlb runs to its end"));
        // A kernel that does not boot shows nothing of the test; nor does a case that is skipped.
        let booted = of(&[], End::Panic("bad".into()), &[]);
        assert!(matches!(booted, Fate::Void(_)), "{booted:?}");
        let skipped = [
            "ready",
            "begin tlb",
            "out tlb 1..1",
            "out tlb ok 1 one # SKIP no",
            "end tlb exit=0",
        ];
        assert_eq!(
            of(&skipped, End::Done, &[]),
            Fate::Void("no case ran".into())
        );
    }
}
