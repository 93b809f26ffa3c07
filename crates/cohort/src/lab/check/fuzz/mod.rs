// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab fuzz`: the differential fuzzer of `guest/fuzz` in guests that share page tables.
//!
//! A guest runs for some minutes with seeds of its own; then the next one boots. What fails is
//! run again, and if it fails again, its list of commands is shortened as far as possible, in as
//! few boots as possible: a boot tries many candidates, one after the other.

mod log;
mod shorten;

use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::check::audit::Watch;
use crate::lab::experiment::results;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::Plugin;
use crate::lab::guest::programs::{self, Program};
use crate::lab::guest::protocol::StepReport;
use crate::lab::guest::run::{Machine, Outcome, Spec, version_of};
use crate::lab::host::files;
use crate::lab::kernel::build::{self, Config, Kernel};
use crate::output::say;
use anyhow::{Result, bail};
use log::{Failure, Kind, Script, failure, totals};
use serde::Serialize;
use shorten::shorten;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Seconds that one guest fuzzes before the next one boots. A panic loses at most these.
const BOOT_SECONDS: u64 = 600;
/// Host seconds that a guest may take to boot, and to end, beside its fuzzing.
const BOOT_LIMIT: u64 = 400;
/// Host seconds for a boot of replays.
const REPLAY_LIMIT: u64 = 900;
/// How often a failure is tried again before it counts as a race.
const TRIES: u32 = 3;
/// Questions (boots) for shortening one failure.
const SHORTEN_ROUNDS: usize = 60;
/// Candidates in one boot.
const CANDIDATES: usize = 16;
/// Changes when a field of the results changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Where the random numbers begin; each guest has its own seed from here on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to fuzz.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Stop after so many operations.
    #[arg(long)]
    ops: Option<u64>,
    /// The kernel; operations are some ten times slower on `debug`.
    #[arg(long, value_enum, default_value_t = Config::Debug)]
    config: Config,
    /// The architecture of the kernel and its guests.
    #[arg(long, value_name = "NAME", default_value = LAB.name)]
    arch: Arch,
    /// A kernel image to use as it is, instead of a built one.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Which forks share: `always`, `optin` for those that asked, `never` to see whether a
    /// failure has to do with sharing at all.
    #[arg(long, default_value = "always", value_parser = ["always", "optin", "never"])]
    mode: String,
    /// More words for the guests' kernel command line, such as `cohort_protect=pte`.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Start workers by exec too, which join each other's tables as a group alone lets them;
    /// with their pages at equal addresses or at random ones, in 2 MB or not.
    #[arg(long, value_name = "LAYOUT", value_parser = ["equal", "random"])]
    exec: Option<String>,
    /// With --exec: who joins tables. All programs of one `user`, those that named a `group`,
    /// or `never`. But for `never`, a run in which no table was joined fails.
    #[arg(long, default_value = "user", value_parser = ["user", "group", "never"])]
    join: String,
    /// Percent of rounds in which several processes work at once. Such a run checks as much,
    /// but does not repeat exactly. By default a third of the time is spent so.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    race: Option<u32>,
    /// Run only this episode of the seed, to repeat a failure.
    #[arg(long)]
    episode: Option<u32>,
    /// Run the commands in a file, as a failure leaves it in out/fuzz.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Do not shorten what fails.
    #[arg(long)]
    no_shorten: bool,
    /// Shorten the file's commands if they fail, to FILE.short.
    #[arg(long, requires = "replay", conflicts_with = "no_shorten")]
    shorten: bool,
    #[command(flatten)]
    watch: Watch,
}

/// The content of `out/results/fuzz.json`.
#[derive(Debug, Serialize)]
struct Results {
    schema_version: u32,
    date: String,
    arch: Arch,
    kernel: Option<Kernel>,
    image: PathBuf,
    qemu: String,
    mode: String,
    /// Where workers that start by exec have their pages, and who joins tables.
    exec: Option<[String; 2]>,
    seed: u64,
    guests: u32,
    seconds: u64,
    operations: u64,
    operations_per_second: f64,
    totals: BTreeMap<String, f64>,
    failures: Vec<Found>,
}

/// A failure in the results.
#[derive(Debug, Serialize)]
struct Found {
    kind: Kind,
    message: String,
    seed: Option<u64>,
    episode: Option<u32>,
    /// How often it was tried again, and whether it failed again.
    tries: u32,
    reproduced: bool,
    commands: Option<usize>,
    file: Option<PathBuf>,
}

/// All that a guest needs.
struct Bench<'a> {
    lab: &'a Lab,
    options: &'a Options,
    machine: Machine<'static>,
    image: PathBuf,
    kernel: Option<Kernel>,
    init: PathBuf,
    fuzz: Program,
    plugin: Option<Plugin>,
}

/// Runs the fuzzer; false when something failed.
pub fn fuzz(lab: &Lab, options: &Options) -> Result<bool> {
    if options.config == Config::Pristine && options.mode != "never" {
        bail!("a pristine kernel shares nothing: use --config debug or bench, or --mode never");
    }
    if options.minutes == 0 && options.replay.is_none() {
        bail!("--minutes must be 1 at least");
    }
    let arch = options.arch;
    if !arch.fuzzes {
        bail!("the fuzzer needs pages of 4 KB: those of {arch} have another size");
    }
    options.watch.check(arch)?;
    let replay = options.replay.as_deref().map(read_script).transpose()?;
    let (image, kernel) = build::image_for(lab, arch, options.config, options.kernel.as_deref())?;
    let symbols = kernel.as_ref().map_or(&image, |kernel| &kernel.symbols);
    let bench = Bench {
        plugin: options.watch.plugin(symbols)?,
        lab,
        options,
        machine: Machine::of(arch)?,
        image,
        kernel,
        init: programs::init_for(lab, arch)?,
        fuzz: programs::fuzz(lab, arch)?,
    };
    match replay {
        Some(script) => bench.replay(&script),
        None => bench.search(),
    }
}

fn read_script(path: &Path) -> Result<Script> {
    let script = Script::from_file(&files::read(path)?);
    if script.len() == 0 {
        bail!("{} holds no commands: see docs/testing.md", path.display());
    }
    Ok(script)
}

impl Bench<'_> {
    /// Fuzzes until the time is over or something fails.
    fn search(&self) -> Result<bool> {
        let start = Instant::now();
        let limit = Duration::from_secs(self.options.minutes * 60);
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut guests = 0;
        let mut found = Vec::new();
        loop {
            let left = limit.saturating_sub(start.elapsed()).as_secs();
            let done = sums.get("operations").copied().unwrap_or_default() as u64;
            let enough = self.options.ops.is_some_and(|ops| done >= ops);
            if guests > 0 && (left < 20 || enough || self.options.episode.is_some()) {
                break;
            }
            let seed = self.options.seed + u64::from(guests);
            let outcome = self.boot(
                "fuzz",
                self.steps(seed, left.clamp(20, BOOT_SECONDS)),
                Vec::new(),
                left.min(BOOT_SECONDS) + BOOT_LIMIT,
            )?;
            guests += 1;
            for (name, value) in totals(&outcome.report.steps) {
                *sums.entry(name).or_default() += value;
            }
            say!(
                "seed {seed}: {} operations so far",
                sums.get("operations").copied().unwrap_or_default()
            )?;
            let failed = first_failure(&outcome);
            if let Some((step, failure)) = failed {
                say!("seed {seed}, {step}: {}", failure.message)?;
                say!("    the console is in {}", outcome.console.display())?;
                found.push(self.investigate(&step, failure)?);
                break;
            }
        }
        let qemu = self.options.arch.qemu;
        let operations = sums.get("operations").copied().unwrap_or_default();
        let seconds = sums.get("seconds").copied().unwrap_or_default();
        let clean = found.is_empty();
        if clean && operations == 0.0 {
            bail!("the fuzzer reported no operations: its report is in out/run/fuzz/report");
        }
        self.write(Results {
            schema_version: SCHEMA_VERSION,
            date: results::utc(std::time::SystemTime::now()),
            arch: self.options.arch,
            kernel: self.kernel.clone(),
            image: self.image.clone(),
            qemu: format!("{qemu} {}", version_of(qemu)?),
            mode: self.options.mode.clone(),
            exec: self
                .options
                .exec
                .clone()
                .map(|exec| [exec, self.options.join.clone()]),
            seed: self.options.seed,
            guests,
            seconds: start.elapsed().as_secs(),
            operations: operations as u64,
            operations_per_second: if seconds > 0.0 {
                operations / seconds
            } else {
                0.0
            },
            totals: sums,
            failures: found,
        })?;
        say!(
            "{operations} operations in {guests} guests: {}",
            if clean { "clean" } else { "FAILED" }
        )?;
        Ok(clean)
    }

    /// Two steps per guest: one that repeats exactly, one that races.
    fn steps(&self, seed: u64, seconds: u64) -> Vec<Step> {
        let episode = match self.options.episode {
            Some(episode) => format!(" --episode {episode}"),
            None => String::new(),
        };
        let step = |name: &str, seconds: u64, race: u32| {
            let ops = match self.options.ops {
                Some(ops) => format!(" --ops {ops}"),
                None => String::new(),
            };
            Step::new(
                name,
                // A debug kernel may still be checking the end of an episode when its time is over.
                seconds + BOOT_LIMIT,
                format!(
                    "fuzz --seed {seed} --seconds {seconds} {}{ops}{episode}",
                    self.flags(race)
                ),
            )
        };
        match self.options.race {
            Some(race) => vec![step(&format!("race-{race}"), seconds, race)],
            None if self.options.episode.is_some() => vec![step("race-0", seconds, 0)],
            None => vec![
                step("race-0", seconds * 2 / 3, 0),
                step("race-50", seconds / 3, 50),
            ],
        }
    }

    fn flags(&self, race: u32) -> String {
        let noise = if race > 0 { " --noise 1" } else { "" };
        let exec = match &self.options.exec {
            Some(layout) => format!(" --exec {layout} --join {}", self.options.join),
            None => String::new(),
        };
        format!("--mode {} --race {race}{noise}{exec}", self.options.mode)
    }

    fn boot(
        &self,
        name: &str,
        steps: Vec<Step>,
        more: Vec<Program>,
        limit: u64,
    ) -> Result<Outcome> {
        let mut programs = vec![self.fuzz.clone()];
        programs.extend(more);
        let mut outcome = Spec {
            name: name.into(),
            machine: self.machine,
            kernel: &self.image,
            memory: 1_536,
            cpus: 2,
            icount: self.plugin.is_some(),
            rootfs: None,
            read_limit: None,
            // Two nodes, so that pages can move from one to the other.
            cmdline: format!(
                "numa=fake=2 cohort={} {}",
                self.options.mode, self.options.append
            ),
            init: &self.init,
            programs: &programs,
            steps,
            plugin: self.plugin.as_ref(),
            limit: self.options.watch.limit(limit),
        }
        .run(self.lab)?;
        self.options.watch.judge(self.lab, name, &mut outcome);
        Ok(outcome)
    }

    /// Tries to repeat a failure, and shortens the commands that lead to it.
    fn investigate(&self, step: &str, failure: Failure) -> Result<Found> {
        let mut found = Found {
            kind: failure.kind,
            message: failure.message.clone(),
            seed: failure.seed,
            episode: failure.episode,
            tries: 0,
            reproduced: false,
            commands: None,
            file: None,
        };
        let (Some(seed), Some(episode)) = (failure.seed, failure.episode) else {
            return Ok(found);
        };
        let race = step
            .strip_prefix("race-")
            .and_then(|percent| percent.parse().ok())
            .unwrap_or(0);
        let mut script = None;
        while found.tries < TRIES && script.is_none() {
            found.tries += 1;
            say!(
                "episode {episode} of seed {seed} again, {} of {TRIES}",
                found.tries
            )?;
            let command = format!(
                "fuzz --seed {seed} --episode {episode} --log {}",
                self.flags(race)
            );
            let steps = vec![Step::new("again", REPLAY_LIMIT, command)];
            let outcome = self.boot("fuzz-again", steps, Vec::new(), REPLAY_LIMIT)?;
            let again = first_failure(&outcome).filter(|(_, again)| again.kind == failure.kind);
            if let (Some(_), Some(report)) = (again, outcome.report.find("again")) {
                script = Some(Script::from_log(&report.lines));
            }
        }
        let Some(script) = script.filter(|script| script.len() > 0) else {
            say!("it did not fail again: a race; the same seeds may show it another time")?;
            return Ok(found);
        };
        found.reproduced = true;
        let script = self.save(&mut found, script, &failure)?;
        if !self.options.no_shorten {
            let short = self.shorten(&script, failure.kind);
            self.save(&mut found, short, &failure)?;
        }
        Ok(found)
    }

    /// Writes the commands to `out/fuzz`, with how to run them.
    fn save(&self, found: &mut Found, script: Script, failure: &Failure) -> Result<Script> {
        let name = format!(
            "fuzz/seed-{}-{}.fuzz",
            failure.seed.unwrap_or_default(),
            failure.episode.unwrap_or_default()
        );
        let file = self.lab.out(&name);
        files::write(
            &file,
            format!(
                "# {}\n# cohort lab fuzz --arch {} --mode {} --replay {}\n{script}",
                failure.message,
                self.options.arch,
                self.options.mode,
                file.display()
            )
            .as_bytes(),
        )?;
        say!("{} commands are in {}", script.len(), file.display())?;
        found.commands = Some(script.len());
        found.file = Some(file);
        Ok(script)
    }

    fn shorten(&self, script: &Script, kind: Kind) -> Script {
        let kept = shorten(script.len(), SHORTEN_ROUNDS, |candidates| {
            for (at, group) in candidates.chunks(CANDIDATES).enumerate() {
                let scripts: Vec<Script> = group
                    .iter()
                    .map(|kept| script.only(|number| kept.binary_search(&number).is_ok()))
                    .collect();
                say!(
                    "shortening: {} candidates of about {} commands",
                    scripts.len(),
                    scripts.first().map_or(0, Script::len)
                )?;
                let failing = self.replay_many(&scripts, kind)?;
                if let Some(which) = failing {
                    return Ok(Some(at * CANDIDATES + which));
                }
            }
            Ok(None)
        });
        script.only(|number| kept.binary_search(&number).is_ok())
    }

    /// Replays scripts one after the other in one guest and finds the first that fails in this way.
    fn replay_many(&self, scripts: &[Script], kind: Kind) -> Result<Option<usize>> {
        let outcome = self.boot_replays(scripts)?;
        let steps = &outcome.report.steps;
        for (number, step) in steps.iter().enumerate() {
            let last = number + 1 == steps.len();
            if failure(&outcome, step, last).is_some_and(|failure| failure.kind == kind) {
                return Ok(step
                    .name
                    .strip_prefix("replay-")
                    .and_then(|n| n.parse().ok()));
            }
        }
        Ok(None)
    }

    fn boot_replays(&self, scripts: &[Script]) -> Result<Outcome> {
        let dir = self.lab.out("run/fuzz-scripts");
        files::make_dir(&dir)?;
        let (mut steps, mut more) = (Vec::new(), Vec::new());
        for (number, script) in scripts.iter().enumerate() {
            let file = dir.join(number.to_string());
            files::write(&file, script.to_string().as_bytes())?;
            let guest_path = format!("/lab/script-{number}");
            let races = script
                .rounds
                .iter()
                .any(|round| round.how.starts_with("race"));
            steps.push(Step::new(
                format!("replay-{number}"),
                REPLAY_LIMIT,
                format!(
                    "fuzz {} --replay {guest_path}",
                    self.flags(if races { 50 } else { 0 })
                ),
            ));
            more.push(Program {
                guest_path,
                file,
                mode: 0o644,
            });
        }
        self.boot("fuzz-replay", steps, more, REPLAY_LIMIT)
    }

    /// Runs a file's commands.
    fn replay(&self, script: &Script) -> Result<bool> {
        let outcome = self.boot_replays(std::slice::from_ref(script))?;
        let clean = match first_failure(&outcome) {
            Some((_, failure)) => {
                say!("{}", failure.message)?;
                say!("    the console is in {}", outcome.console.display())?;
                if let (true, Some(file)) = (self.options.shorten, &self.options.replay) {
                    let short = self.shorten(script, failure.kind);
                    let file = files::sibling(file, ".short");
                    files::write(&file, format!("# {}\n{short}", failure.message).as_bytes())?;
                    say!("{} commands are in {}", short.len(), file.display())?;
                }
                false
            }
            None => true,
        };
        say!(
            "{} commands: {}",
            script.len(),
            if clean { "clean" } else { "FAILED" }
        )?;
        Ok(clean)
    }

    fn write(&self, results: Results) -> Result<()> {
        let mut name = String::from("fuzz");
        if results.exec.is_some() {
            name.push_str("-exec");
        }
        let name = results.arch.results(&name);
        results::save(self.lab, &name, &results::json(&results)?).map(drop)
    }
}

/// The first step of a guest that failed. A guest that ran no step failed as a whole.
fn first_failure(outcome: &Outcome) -> Option<(String, Failure)> {
    let steps = &outcome.report.steps;
    if steps.is_empty() {
        let nothing = StepReport {
            name: "boot".into(),
            lines: Vec::new(),
            ending: crate::lab::guest::protocol::Ending::Unfinished,
        };
        return failure(outcome, &nothing, true).map(|failure| (nothing.name, failure));
    }
    steps.iter().enumerate().find_map(|(number, step)| {
        failure(outcome, step, number + 1 == steps.len())
            .map(|failure| (step.name.clone(), failure))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    fn program() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lab = Lab {
            root: dir.path().to_path_buf(),
            tarball: PathBuf::from("none"),
        };
        for folder in [
            "guest/fuzz",
            "guest/workloads/lib",
            "kernel/overlay/include/uapi",
            "kernel/overlay/tools/testing/selftests/cohort/lib",
        ] {
            for file in files::walk(&root.join(folder)).unwrap() {
                let path = file.strip_prefix(&root).unwrap().to_string_lossy();
                files::write(&lab.path(&path), &std::fs::read(&file).unwrap()).unwrap();
            }
        }
        let program = programs::fuzz(&lab, LAB).unwrap().file;
        (dir, program)
    }

    /// The output of the fuzzer, and its exit status. A process that it had just forked when it
    /// ended may outlive it and would keep its output open: all of them end with it.
    fn run(program: &Path, words: &[&str]) -> (Option<i32>, String) {
        let mut child = Command::new(program)
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            pipe.read_to_end(&mut text).unwrap();
            text
        });
        let status = child.wait().unwrap();
        kill_process_group(Pid::from_child(&child), Signal::KILL).ok();
        let text = reader.join().unwrap();
        (status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The oracle against the kernel that this runs on, and against mistakes made on purpose.
    #[test]
    fn the_oracle_agrees_with_this_kernel_and_finds_every_sabotage() {
        let (_dir, program) = program();
        for words in [
            &["--seed", "3", "--ops", "3000"][..],
            &["--seed", "4", "--ops", "3000", "--race", "50"][..],
            &[
                "--seed", "5", "--ops", "3000", "--race", "50", "--noise", "1",
            ][..],
        ] {
            let (status, text) = run(&program, words);
            assert_eq!(status, Some(0), "{words:?}: {text}");
            assert!(text.contains("# clean: "), "{text}");
        }
        for how in ["lost-write", "leak", "stale", "unmap", "protect", "crash"] {
            let words = ["--seed", "3", "--ops", "20000", "--sabotage", how];
            let (status, text) = run(&program, &words);
            assert_eq!(status, Some(1), "{how} was not found: {text}");
            assert!(text.contains("# FAIL seed 3 episode "), "{how}: {text}");
        }
    }

    #[test]
    fn the_same_seed_is_the_same_run_and_its_log_replays() {
        let (dir, program) = program();
        let words = ["--seed", "9", "--ops", "1500", "--log"];
        let log = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| line.starts_with("> "))
                .map(String::from)
                .collect()
        };
        let first = log(&run(&program, &words).1);
        assert_eq!(first, log(&run(&program, &words).1));
        let script = Script::from_log(&first);
        assert!(script.len() > 1_000);
        let file = dir.path().join("script");
        files::write(&file, script.to_string().as_bytes()).unwrap();
        let replayed = run(&program, &["--replay", &file.to_string_lossy(), "--log"]);
        assert_eq!(replayed.0, Some(0), "{}", replayed.1);
        assert_eq!(Script::from_log(&log(&replayed.1)), script);
    }

    /// Workers that start by exec, at equal and at random addresses: contents as before.
    #[test]
    fn the_oracle_agrees_with_workers_that_start_by_exec() {
        let (dir, program) = program();
        for (exec, race) in [("equal", "0"), ("random", "0"), ("random", "50")] {
            let words = [
                "--seed", "6", "--ops", "3000", "--exec", exec, "--race", race,
            ];
            let (status, text) = run(&program, &words);
            assert_eq!(status, Some(0), "{words:?}: {text}");
            let started = text
                .lines()
                .find_map(|line| line.strip_prefix("metric execs "))
                .and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
            assert!(started.is_some_and(|started| started > 5), "{text}");
        }
        for how in ["lost-write", "leak", "stale", "unmap", "protect", "crash"] {
            let words = [
                "--seed",
                "3",
                "--ops",
                "20000",
                "--exec",
                "random",
                "--sabotage",
                how,
            ];
            let (status, text) = run(&program, &words);
            assert_eq!(status, Some(1), "{how} was not found: {text}");
        }
        let words = ["--seed", "9", "--ops", "1500", "--exec", "random", "--log"];
        let lines: Vec<String> = run(&program, &words).1.lines().map(String::from).collect();
        let script = Script::from_log(&lines);
        assert_eq!(script.exec.as_deref(), Some("random user"));
        assert!(script.to_string().contains(" SPAWN "));
        let file = dir.path().join("script");
        files::write(&file, script.to_string().as_bytes()).unwrap();
        let (status, text) = run(&program, &["--replay", &file.to_string_lossy(), "--log"]);
        assert_eq!(status, Some(0), "{text}");
        let lines: Vec<String> = text.lines().map(String::from).collect();
        assert_eq!(Script::from_log(&lines), script);
    }

    #[test]
    fn a_failure_replays_and_parts_of_it_can_be_left_out() {
        let (dir, program) = program();
        let text = run(
            &program,
            &[
                "--seed",
                "3",
                "--sabotage",
                "unmap",
                "--log",
                "--ops",
                "20000",
            ],
        )
        .1;
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let script = Script::from_log(&lines);
        let file = dir.path().join("script");
        let fails = |script: &Script| {
            files::write(&file, script.to_string().as_bytes()).unwrap();
            let path = file.to_string_lossy();
            run(&program, &["--replay", &path, "--sabotage", "unmap"]).0 == Some(1)
        };
        assert!(fails(&script));
        let kept = shorten(script.len(), 5, |candidates| {
            Ok(candidates
                .iter()
                .position(|kept| fails(&script.only(|number| kept.contains(&number)))))
        });
        assert!(kept.len() < script.len(), "{} left", kept.len());
    }

    #[test]
    fn bad_options_and_scripts_are_refused_with_a_reason() {
        let (dir, program) = program();
        let file = dir.path().join("script");
        files::write(&file, b"round serial -1\n0 NOTHING 1 2 3 4 5\n").unwrap();
        let (status, text) = run(&program, &["--replay", &file.to_string_lossy()]);
        assert_eq!(status, Some(2));
        assert!(text.contains(":2 is no command"), "{text}");
        files::write(&file, b"# nothing\n").unwrap();
        let error = read_script(&file).unwrap_err().to_string();
        assert!(error.contains("no commands"), "{error}");
    }
}
