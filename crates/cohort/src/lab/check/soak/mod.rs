// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab soak`: load for a long time, in too little memory, on a kernel that shares page
//! tables at every fork; then its log must be clean and no memory lost.

mod load;

use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::check::audit::Watch;
use crate::lab::check::tally::Tally;
use crate::lab::experiment::results;
use crate::lab::guest::job::Step;
use crate::lab::guest::programs;
use crate::lab::guest::protocol::{Metric, Report, metrics};
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Outcome, Spec, version_of};
use crate::lab::kernel::build::{self, Config, Kernel};
use crate::output::{self, say};
use crate::show;
use anyhow::{Context, Result, bail};
use load::{DIR, Load};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Virtual processors, whatever the host has.
const CPUS: u32 = 4;
/// Seconds of one phase when there is time enough: rounds repeat the phases.
const PHASE: u64 = 60;
/// Seconds of a phase of the first round, before the first measurement.
const WARM_UP: u64 = 10;
/// Guest seconds that a phase may take beyond its time, and that a measurement may take.
const GRACE: u64 = 300;
/// Guest seconds for kmemleak to read all memory twice, with KASAN under emulation.
const LEAKS: u64 = 1800;
/// Host seconds for the guest to boot and to end.
const BOOT_LIMIT: u64 = 400;
/// On a busy host, emulated processors stand still for long; that is not an error. Slabs that are
/// merged with others of their size cannot be counted, and neither can pages without an owner's
/// name.
const CMDLINE: &str = "cohort=always watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 \
    slab_nomerge page_owner=on";
/// Counters that must have grown: otherwise nothing was tested. The second if every program of a
/// user is in a group.
const SHARED: &str = "cohort_ptp_shared";
const JOINED: &str = "cohort_ptp_joined";
const ALL_JOIN: &str = "cohort_join=user";
/// How many slabs, and owners of pages, are named of those that grew most, if too much memory
/// is in use.
const NAMED: usize = 8;
/// Changes when a field of the results changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How long the load is.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Debug)]
    config: Config,
    /// The architecture of the kernel and its guest.
    #[arg(long, value_name = "NAME", default_value = LAB.name)]
    arch: Arch,
    /// A kernel image to use as it is, instead of a built one.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Run only phases whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Run without kmemleak, which slows down allocations and reads all memory at the end.
    #[arg(long)]
    no_leaks: bool,
    /// More words for the guest's kernel command line, such as `cohort_join=user`.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    #[command(flatten)]
    watch: Watch,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// The content of `out/results/soak.json`, or `soak-ARCH.json`.
#[derive(Debug, Serialize)]
struct Results {
    schema_version: u32,
    date: String,
    arch: Arch,
    image: PathBuf,
    kernel: Option<Kernel>,
    qemu: String,
    minutes: u64,
    rounds: u64,
    /// Values of every metric, the first before the load, then one after each round.
    measured: BTreeMap<String, Metric>,
    checks: Vec<Check>,
}

/// One question and its answer.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Check {
    name: String,
    pass: bool,
    /// The test could not run here.
    skipped: bool,
    notes: Vec<String>,
}

impl Check {
    fn new(name: impl Into<String>, notes: Vec<String>) -> Self {
        Check {
            name: name.into(),
            pass: notes.is_empty(),
            skipped: false,
            notes,
        }
    }
}

/// How the time is divided.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    rounds: u64,
    seconds: u64,
}

/// Rounds of about [`PHASE`] seconds per phase that fill the minutes, the warm-up included.
fn plan(minutes: u64, phases: u64) -> Plan {
    let left = (minutes * 60).saturating_sub(WARM_UP * phases);
    let rounds = (left / (PHASE * phases)).max(1);
    Plan {
        rounds,
        seconds: (left / (rounds * phases)).max(1),
    }
}

/// Runs the load and its checks.
pub fn soak(lab: &Lab, options: &Options) -> Result<Tally> {
    if options.config == Config::Pristine {
        bail!("a pristine kernel shares nothing: use --config debug or bench");
    }
    options.watch.check(options.arch)?;
    let mut load = load::load(lab)?;
    if let Some(word) = &options.filter {
        let names: Vec<String> = load.phases.iter().map(|it| it.name.clone()).collect();
        load.phases.retain(|phase| phase.name.contains(word));
        if load.phases.is_empty() {
            bail!(
                "no phase's name holds `{word}`; there are: {}",
                names.join(", ")
            );
        }
    }
    let plan = plan(options.minutes, load.phases.len() as u64);
    let arch = options.arch;
    let machine = Machine::of(arch)?;
    let (image, kernel) = build::image_for(lab, arch, options.config, options.kernel.as_deref())?;
    let steps = steps(&load, &plan);
    let symbols = kernel.as_ref().map_or(&image, |kernel| &kernel.symbols);
    let plugin = options.watch.plugin(symbols)?;
    let name = format!("{}soak", arch.mark());
    let mut outcome = Spec {
        name: name.clone(),
        machine,
        kernel: &image,
        memory: load.memory,
        cpus: CPUS,
        icount: plugin.is_some(),
        rootfs: Some(&rootfs::image(lab, arch.rootfs_tests)?),
        read_limit: None,
        cmdline: match options.no_leaks {
            true => format!("{CMDLINE} {}", options.append),
            false => format!("{CMDLINE} kmemleak=on {}", options.append),
        },
        init: &programs::init_for(lab, arch)?,
        programs: &programs::scripts(lab, DIR, "/lab/soak")?,
        plugin: plugin.as_ref(),
        // A hung guest ends long before each step has taken all that it may.
        limit: options
            .watch
            .limit(options.minutes * 60 + steps.len() as u64 * 60 + BOOT_LIMIT + GRACE + LEAKS),
        steps,
    }
    .run(lab)?;
    options.watch.judge(lab, &name, &mut outcome);
    let measured = measurements(&outcome.report)?;
    let joins = options.append.contains(ALL_JOIN);
    let checks = checks(&outcome, &load, &plan, &measured, joins);
    let mut tally = Tally::new();
    for check in &checks {
        match (check.skipped, check.pass) {
            (true, _) => tally.skipped += 1,
            (false, true) => tally.passed += 1,
            (false, false) => tally.fail(check.name.as_str(), &check.notes),
        }
    }
    let results = Results {
        schema_version: SCHEMA_VERSION,
        date: results::utc(std::time::SystemTime::now()),
        arch,
        image,
        kernel,
        qemu: format!("{} {}", arch.qemu, version_of(arch.qemu)?),
        minutes: options.minutes,
        rounds: plan.rounds,
        measured,
        checks,
    };
    let json = results::json(&results)?;
    results::save(lab, &arch.results("soak"), &json)?;
    if options.json {
        output::print(json)?;
    } else {
        output::print(table(&results, &load))?;
        say!("{tally}")?;
    }
    Ok(tally)
}

/// One round of the load, for a guest that is watched by other means.
pub struct Round {
    /// The scripts.
    pub programs: Vec<programs::Program>,
    /// The image of the root file system.
    pub rootfs: PathBuf,
    /// The phases, of so many guest seconds each.
    pub steps: Vec<Step>,
}

/// The load of [`soak`], without its measurements.
pub fn round(lab: &Lab, arch: Arch, seconds: u64) -> Result<Round> {
    let load = load::load(lab)?;
    let mut steps = vec![prepare(&load)];
    steps.extend(phases(&load, 0, seconds));
    Ok(Round {
        programs: programs::scripts(lab, DIR, "/lab/soak")?,
        rootfs: rootfs::image(lab, arch.rootfs_tests)?,
        steps,
    })
}

fn prepare(load: &Load) -> Step {
    let line = format!("exec sh /lab/soak/prepare.sh {}", load.group);
    Step::new("prepare", GRACE, line)
}

fn phases(load: &Load, round: u64, seconds: u64) -> impl Iterator<Item = Step> {
    load.phases.iter().map(move |phase| {
        Step::new(
            phase_step(&phase.name, round),
            seconds + GRACE,
            format!("exec sh /lab/soak/load.sh {seconds} {}", phase.options),
        )
    })
}

/// The job: a short round, a measurement, and then a measurement after each round.
fn steps(load: &Load, plan: &Plan) -> Vec<Step> {
    let mut steps = vec![prepare(load)];
    for round in 0..=plan.rounds {
        let seconds = if round == 0 { WARM_UP } else { plan.seconds };
        steps.extend(phases(load, round, seconds));
        steps.push(Step::new(
            measure_step(round),
            GRACE,
            "exec sh /lab/soak/measure.sh",
        ));
    }
    steps.push(Step::new("leaks", LEAKS, "exec sh /lab/soak/leaks.sh"));
    steps
}

fn phase_step(phase: &str, round: u64) -> String {
    format!("{phase}-{round}")
}

fn measure_step(round: u64) -> String {
    format!("measure-{round}")
}

/// All that was measured, round by round.
fn measurements(report: &Report) -> Result<BTreeMap<String, Metric>> {
    let mut measured = BTreeMap::new();
    for step in &report.steps {
        metrics(&step.lines, &mut measured)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("the step {} printed no metric", step.name))?;
    }
    Ok(measured)
}

fn checks(
    outcome: &Outcome,
    load: &Load,
    plan: &Plan,
    measured: &BTreeMap<String, Metric>,
    joins: bool,
) -> Vec<Check> {
    let report = &outcome.report;
    let mut checks = Vec::new();
    let ended = |name: &str| -> Vec<String> {
        match report.find(name) {
            Some(step) if step.ending.success() => Vec::new(),
            Some(step) => {
                let tail = step.lines.len().saturating_sub(15);
                let mut notes = vec![format!("{name}: {}", step.ending)];
                let told = step.lines.iter().filter(|line| line.contains("fail: "));
                notes.extend(told.chain(&step.lines[tail..]).cloned());
                notes
            }
            None => vec![format!("{name}: the guest ended before it began")],
        }
    };
    checks.push(Check::new(
        "the guest has swap and a control group",
        ended("prepare"),
    ));
    for phase in &load.phases {
        let notes = (0..=plan.rounds)
            .flat_map(|round| ended(&phase_step(&phase.name, round)))
            .collect();
        checks.push(Check::new(
            format!("{}: {}", phase.name, phase.reason),
            notes,
        ));
    }
    checks.push(Check::new(
        "what is in use was measured",
        (0..=plan.rounds)
            .flat_map(|round| ended(&measure_step(round)))
            .collect(),
    ));
    let rounds = plan.rounds as usize + 1;
    for limit in &load.limits {
        let notes = match measured.get(&limit.name) {
            Some(metric) if metric.values.len() == rounds => {
                let mut notes = limit.exceeded(metric);
                if !notes.is_empty() && ["Free", "SUnreclaim"].contains(&limit.name.as_str()) {
                    let kinds = ["owner", "slab"];
                    notes.extend(kinds.iter().filter_map(|kind| grown(report, plan, kind)));
                }
                notes
            }
            _ => vec![format!("it was not measured {rounds} times")],
        };
        checks.push(Check::new(
            format!("{}: {}", limit.name, limit.allowed()),
            notes,
        ));
    }
    let grew = |name| match measured.get(name).map(|metric| metric.values.as_slice()) {
        Some([first, .., last]) if last > first => Vec::new(),
        _ => vec![format!("{name} of /proc/vmstat did not grow")],
    };
    checks.push(Check::new("page tables were shared", grew(SHARED)));
    if joins {
        checks.push(Check::new("page tables were joined", grew(JOINED)));
    }
    checks.push(leaks(outcome, measured));
    checks.push(Check::new(
        "the guest runs to its end",
        outcome.problem().into_iter().collect(),
    ));
    let taint = report
        .taint
        .filter(|taint| taint & !programs::TAINT_TEST != 0);
    checks.push(Check::new(
        "the kernel's log is clean",
        outcome
            .complaints
            .iter()
            .cloned()
            .chain(taint.map(|taint| format!("taint {taint}")))
            .collect(),
    ));
    checks
}

/// The owners whose memory grew most during the load, of what `measure.sh` lists as
/// `KIND NAME KB`: where to look.
fn grown(report: &Report, plan: &Plan, kind: &str) -> Option<String> {
    let before = held(report, 0, kind);
    let mut grown: Vec<(i64, String)> = held(report, plan.rounds, kind)
        .into_iter()
        .map(|(name, kb)| (kb - before.get(&name).copied().unwrap_or(0), name))
        .filter(|(more, _)| *more > 0)
        .collect();
    grown.sort_by(|one, other| other.cmp(one));
    grown.truncate(NAMED);
    let words: Vec<_> = grown
        .iter()
        .map(|(more, name)| format!("{name} +{more}"))
        .collect();
    (!words.is_empty()).then(|| format!("{kind}s that grew most, in kB: {}", words.join(", ")))
}

/// The kB of each of a kind in a measurement.
fn held(report: &Report, round: u64, kind: &str) -> BTreeMap<String, i64> {
    let lines = report.find(&measure_step(round)).map(|step| &step.lines);
    lines
        .into_iter()
        .flatten()
        .filter_map(|line| {
            let mut words = line.strip_prefix(kind)?.split_whitespace();
            Some((words.next()?.to_string(), words.next()?.parse().ok()?))
        })
        .collect()
}

/// The leaks that kmemleak found, if the kernel has it.
fn leaks(outcome: &Outcome, measured: &BTreeMap<String, Metric>) -> Check {
    let name = "kmemleak finds nothing lost";
    let step = outcome.report.find("leaks");
    if step.is_some_and(|step| step.ending.skipped()) {
        return Check {
            name: name.into(),
            pass: true,
            skipped: true,
            notes: vec!["kmemleak is off, or not there".into()],
        };
    }
    let found = measured
        .get("leaks")
        .and_then(|metric| metric.values.last());
    let lines = || step.map(|step| step.lines.clone()).unwrap_or_default();
    Check::new(
        name,
        match found {
            Some(0.0) => Vec::new(),
            Some(_) => lines(),
            None => vec!["it did not say".into()],
        },
    )
}

/// The measured values, and the failures.
fn table(results: &Results, load: &Load) -> String {
    let rows = results
        .measured
        .iter()
        .filter(|(name, _)| name.as_str() != "leaks")
        .map(|(name, metric)| {
            let (first, last) = (metric.values.first(), metric.values.last());
            let limit = load.limits.iter().find(|limit| limit.name == *name);
            vec![
                show::with_unit(name, &metric.unit),
                show::maybe(first.copied()),
                show::maybe(last.copied()),
                show::maybe(first.zip(last).map(|(first, last)| last - first)),
                limit.map_or(String::new(), |limit| limit.allowed()),
            ]
        })
        .collect();
    let heading = ["", "before", "after", "difference", "allowed"];
    let mut text = show::plain(heading.map(String::from).to_vec(), rows);
    for check in &results.checks {
        let word = match (check.pass, check.skipped) {
            (_, true) => "skip",
            (true, false) => "ok",
            (false, false) => "not ok",
        };
        text.push_str(&format!("{word} {}\n", check.name));
        for note in check.notes.iter().filter(|_| !check.skipped) {
            text.push_str(&format!("    {note}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::guest::run::End;

    fn load() -> Load {
        load::parse(
            "memory = 512\ngroup = '64M'\n\
             [[phase]]\nname = 'fork'\nreason = 'r'\noptions = '--fork 1'\n\
             [[limit]]\nname = 'Free'\nless = 10\nreason = 'r'\n\
             [[limit]]\nname = 'PageTables'\nmore = 4\nreason = 'r'\n",
        )
        .unwrap()
    }

    const GOOD: &str = "ready\nbegin prepare\nend prepare exit=0\n\
        begin fork-0\nend fork-0 exit=0\n\
        begin measure-0\nout measure-0 metric Free 100 kB\n\
        out measure-0 metric PageTables 8 kB\nout measure-0 metric cohort_ptp_shared 5 events\n\
        end measure-0 exit=0\n\
        begin fork-1\nend fork-1 exit=0\n\
        begin measure-1\nout measure-1 metric Free 95 kB\n\
        out measure-1 metric PageTables 12 kB\nout measure-1 metric cohort_ptp_shared 9 events\n\
        end measure-1 exit=0\n\
        begin leaks\nend leaks exit=4\ntaint 0\ndone\n";

    fn failed(text: &str, complaints: &[&str]) -> Vec<String> {
        let checks = asked(text, complaints).into_iter();
        checks
            .filter(|check| !check.pass)
            .map(|check| check.name)
            .collect()
    }

    fn asked(text: &str, complaints: &[&str]) -> Vec<Check> {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        let outcome = Outcome {
            end: if report.done {
                End::Done
            } else {
                End::Panic("oops".into())
            },
            report,
            complaints: complaints.iter().map(|line| line.to_string()).collect(),
            console: PathBuf::from("console.log"),
        };
        let measured = measurements(&outcome.report).unwrap();
        let plan = Plan {
            rounds: 1,
            seconds: 1,
        };
        checks(&outcome, &load(), &plan, &measured, false)
    }

    #[test]
    fn the_time_is_divided_into_rounds_that_fill_it() {
        for (minutes, rounds, seconds) in [(60, 11, 64), (5, 1, 50), (1, 1, 2)] {
            assert_eq!(plan(minutes, 5), Plan { rounds, seconds }, "{minutes}");
        }
        assert!(plan(60, 1).rounds > 50);
    }

    #[test]
    fn each_round_runs_every_phase_and_measures() {
        let steps = steps(&load(), &plan(3, 1));
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "prepare",
                "fork-0",
                "measure-0",
                "fork-1",
                "measure-1",
                "fork-2",
                "measure-2",
                "leaks"
            ]
        );
        assert!(
            steps[3].command.ends_with("load.sh 85 --fork 1"),
            "{}",
            steps[3].command
        );
        crate::lab::guest::job::write(&steps).unwrap();
    }

    #[test]
    fn a_good_run_fails_nothing() {
        assert!(failed(GOOD, &[]).is_empty(), "{:?}", failed(GOOD, &[]));
    }

    #[test]
    fn each_thing_that_goes_wrong_is_its_own_failure() {
        let cases = [
            (GOOD.replace("Free 95", "Free 89"), "Free"),
            (GOOD.replace("PageTables 12", "PageTables 13"), "PageTables"),
            (
                GOOD.replace("end fork-1 exit=0", "end fork-1 exit=1"),
                "fork",
            ),
            (
                GOOD.replace("shared 9", "shared 5"),
                "page tables were shared",
            ),
            (
                GOOD.replace("end leaks exit=4", "end leaks exit=0"),
                "kmemleak",
            ),
            (GOOD.replace("taint 0", "taint 512"), "the kernel's log"),
            (
                GOOD.replace("end measure-1 exit=0", "end measure-1 exit=2"),
                "what is in use was measured",
            ),
            (
                GOOD.replace(
                    "end leaks exit=4",
                    "out leaks metric leaks 2 objects\nend leaks exit=0",
                ),
                "kmemleak",
            ),
        ];
        for (text, name) in cases {
            let names = failed(&text, &[]);
            assert!(
                names.len() == 1 && names[0].starts_with(name),
                "{name}: {names:?}"
            );
        }
        assert_eq!(failed(GOOD, &["WARNING: x"]), ["the kernel's log is clean"]);
    }

    #[test]
    fn memory_that_is_lost_is_looked_for_in_slabs_and_owners() {
        let text = GOOD
            .replace("Free 95", "Free 80")
            .replace(
                "end measure-0",
                "out measure-0 slab dentry 40\nend measure-0",
            )
            .replace(
                "end measure-1",
                "out measure-1 slab dentry 44\nout measure-1 slab new 9\n\
                 out measure-1 owner a<b 8\nend measure-1",
            );
        let free = |text: &str| {
            let mut checks = asked(text, &[]).into_iter();
            checks.find(|it| it.name.starts_with("Free")).unwrap()
        };
        let notes = free(&text).notes;
        assert!(notes[3].ends_with("kB: a<b +8"), "{notes:?}");
        assert!(notes[4].ends_with("new +9, dentry +4"), "{notes:?}");
        assert!(free(&text.replace("Free 80", "Free 95")).notes.is_empty());
    }

    /// The exit status of `load.sh` if stress-ng prints and returns this, and the memory controller
    /// has killed so many before and after.
    fn loaded(says: &str, returns: u32, kills: (u32, u32)) -> i32 {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let events = path("memory.events");
        std::fs::write(&events, format!("oom 9\noom_kill {}\n", kills.0)).unwrap();
        let stub = format!(
            "#!/bin/sh\ncat <<'E'\n{says}\nE\necho oom_kill {} >{}\nexit {returns}\n",
            kills.1,
            events.display()
        );
        std::fs::write(path("stress-ng"), stub).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/soak/load.sh");
        let status = std::process::Command::new("sh")
            .args([script, "1", "--fork", "1"])
            // By a shell: a file that has just been written may be busy.
            .env("STRESS_NG", format!("sh {}", path("stress-ng").display()))
            .env("SOAK_GROUP", dir.path())
            .env("SOAK_FILES", path("files"))
            .stdout(std::process::Stdio::null())
            .status();
        status.unwrap().code().unwrap()
    }

    #[test]
    fn a_stressor_that_was_killed_is_no_failure_and_a_wrong_counter_is() {
        const CUT: &str = "stress-ng: fail:  [9] fork instance 2 corrupted bogo-ops counter, 70 vs 0\n\
            stress-ng: fail:  [9] fork instance 2 hash error in bogo-ops counter and run flag, 19 vs 0\n\
            stress-ng: fail:  [9] metrics-check: stressor metrics corrupted, data is compromised";
        let wrong = CUT.replace("70 vs 0", "70 vs 71");
        let lost = "stress-ng: fail:  [9] vm: detected 1 bit error";
        for (says, returns, kills, exit) in [
            ("stress-ng: info: well", 0, (0, 0), 0),
            ("stress-ng: info: too little memory", 2, (0, 3), 0),
            ("stress-ng: info: none can run", 3, (0, 0), 3),
            (CUT, 2, (1, 2), 0),
            (CUT, 7, (1, 2), 0),
            (CUT, 2, (2, 2), 1),
            (&wrong, 2, (1, 2), 1),
            (lost, 2, (1, 2), 1),
            ("stress-ng: info: metrics", 7, (1, 1), 7),
        ] {
            assert_eq!(
                loaded(says, returns, kills),
                exit,
                "{says} {returns} {kills:?}"
            );
        }
    }

    #[test]
    fn a_guest_that_panics_passes_nothing_that_it_did_not_reach() {
        let text = GOOD.split("begin fork-1").next().unwrap();
        let names = failed(text, &["Kernel panic"]);
        for name in [
            "fork",
            "Free",
            "PageTables",
            "kmemleak",
            "the guest",
            "the kernel's",
        ] {
            assert!(
                names.iter().any(|it| it.starts_with(name)),
                "{name}: {names:?}"
            );
        }
    }
}
