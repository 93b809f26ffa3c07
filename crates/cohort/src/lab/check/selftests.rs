// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab test`: the kernel's selftests in the guest, in every mode that shares.

use super::audit::Watch;
use super::tally::Tally;
use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::check::translations;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::Plugin;
use crate::lab::guest::programs::{self, Program};
use crate::lab::guest::protocol::{FATAL, Test, Verdict, kunit, tap};
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Outcome, Spec};
use crate::lab::kernel::build::{self, Config};
use crate::output::say;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The program that prints KUnit's results.
const KUNIT_PROGRAM: &str = "kunit";
/// The fuzzer. A short run of it is a test of its own.
const FUZZ_PROGRAM: &str = "fuzz";
/// The fuzzer replays what failed once: a test of its own too.
const REGRESSIONS_STEP: &str = "fuzz-regressions";
/// The fuzzer's options in it. Its own seconds: a debug kernel needs more for the last look.
const FUZZ_OPTIONS: &str = "--seed 1 --seconds 30 --race 15 --noise 1 --tap";
/// The modes that the tests run in: sharing where asked for, and at every fork.
const MODES: &[&str] = &["optin", ALWAYS];
/// The one that shares most.
const ALWAYS: &str = "always";
/// Programs that a short run has in one mode alone, by how their names begin; the others, and all
/// in a full run, run in both. What they test hardly depends on the mode, and they are divided so
/// that both guests end at about the same time.
const ONCE: &[(&str, &str)] = &[
    ("join_file", "optin"),
    ("join_place", "optin"),
    ("ksm_selective_dormant", "optin"),
    ("ksm_selective_profile", "optin"),
    ("reclaim_swap", "optin"),
    ("region_order_anon", "optin"),
    ("region_order_fail", "optin"),
    ("region_order_file", "optin"),
    ("shared_merge", "optin"),
    ("fail", "always"),
    ("fair", "always"),
    ("fork_regions", "always"),
    (FUZZ_PROGRAM, "always"),
    ("gup", "always"),
    ("ksm_selective_states", "always"),
    ("race", "always"),
    ("reclaim_page", "always"),
    ("region_order", "always"),
    ("tlb", "always"),
    ("unshare", "always"),
    ("upper", "always"),
];
/// The option with which our KUnit tests run at boot.
const KUNIT: &str = "CONFIG_COHORT_KUNIT_TEST";
/// The option with which processes may share TLB entries.
const TLB_GROUP: &str = "CONFIG_COHORT_TLB";
/// Makes the program that it executes the first of a group that does, and its options.
const LEADER: &str = "cohort-exec";
const LEADER_OPTIONS: &str = "--tlb --leave-ids";
/// The test program is no zygote then, as without. The fuzzer's processes are zygotes anyway.
const PLAIN: &str = " -g";
/// Makes itself one.
const LEADS: &str = "tlb_group";
/// Retry up to this many failures: they may be timeouts on a loaded host.
const RETRIES: usize = 3;
/// Guest seconds for one test program; a debug kernel under emulation is slow.
const STEP_LIMIT: u64 = 1_500;
/// Host seconds for a boot with all test programs.
const GUEST_LIMIT: u64 = 4_200;
/// The factor on time limits for a full run, which has about four times as many cases, and longer
/// ones.
const FULL_TIMES: u64 = 6;

/// Counts a test of a guest in `mode`.
pub fn count(tally: &mut Tally, mode: &str, test: &Test) {
    match test.verdict {
        Verdict::Pass => tally.passed += 1,
        Verdict::Fail => tally.fail(format!("{mode}: {}", test.name), &test.notes),
        Verdict::Skip => tally.skipped += 1,
    }
}

/// Which tests run, and how.
#[derive(Debug, Default)]
pub struct How {
    /// Only programs whose names hold this.
    pub filter: Option<String>,
    /// All of their cases.
    pub full: bool,
    /// Each in every mode.
    pub every_mode: bool,
    /// More of the kernels' command line.
    pub append: String,
    /// Each leads a group of processes that share TLB entries.
    pub tlb_group: bool,
    /// Whether the kernels' TLB flushes are audited.
    pub watch: Watch,
}

/// Boots the kernel in each mode and runs test programs.
pub fn test(lab: &Lab, arch: Arch, config: Config, how: &How) -> Result<Tally> {
    if config == Config::Pristine {
        bail!("a pristine kernel has nothing to test: use --config debug or bench");
    }
    how.watch.check(arch)?;
    let filter = how.filter.as_deref();
    if how.tlb_group && !build::sets_option(lab, arch, config, TLB_GROUP)? {
        bail!("the {arch} kernel has no {TLB_GROUP}: its processes cannot share TLB entries");
    }
    let kernel = build::build_for(lab, arch, config)?;
    let plugin = how.watch.plugin(&kernel.symbols)?;
    let mut selftests = programs::selftests(lab, arch, config)?;
    if build::has_option(lab, arch, config, KUNIT)? {
        selftests.insert(0, programs::kunit(lab, arch)?);
    }
    let mut regressions = Vec::new();
    if arch.fuzzes {
        // Last: it leaves the guest with swap and merging switched on.
        selftests.push(programs::fuzz(lab, arch)?);
        regressions = programs::regressions(lab)?;
    }
    let names: Vec<&str> = selftests
        .iter()
        .map(|program| program.name())
        .chain((!regressions.is_empty()).then_some(REGRESSIONS_STEP))
        .collect();
    let (mut chosen, mut model) = choose(&names, filter)?;
    if arch != LAB {
        // They compare x86-64's tables.
        model.clear();
    }
    if how.watch.is_on() {
        chosen.retain(|name| filter.is_some() || !waits(name));
        model.clear();
    }
    let mut all: Vec<_> = selftests.iter().chain(&regressions).cloned().collect();
    if how.tlb_group {
        all.push(programs::workload_for(lab, arch, LEADER)?);
    }
    let name = format!("test-{}", config.name(arch));
    let mut guests = Guests::new(lab, arch, name, &kernel.image, &all, how)?;
    guests.plugin = plugin;
    // Empty if the filter chooses only the model's tests.
    let modes = MODES.iter().filter(|_| !chosen.is_empty());
    let jobs: Vec<_> = modes
        .map(|&mode| {
            let all = how.full || how.every_mode || filter.is_some();
            let mut names = chosen.clone();
            names.retain(|name| all || runs_in(name, mode));
            (mode, steps(&names, mode, how))
        })
        .collect();
    // A model's guest keeps one processor busy: it runs beside the others.
    let (outcomes, models) = std::thread::scope(|scope| {
        let models = scope.spawn(|| match model.is_empty() {
            true => Ok(Vec::new()),
            false => translations::tests(lab, &kernel, &model),
        });
        let outcomes = guests.boot_all(&jobs, "");
        (
            outcomes,
            models.join().expect("a model's thread does not panic"),
        )
    });
    let models = models?.into_iter().map(|test| ("model", test));
    let tests = guests.judge(outcomes, &jobs)?;
    let mut tally = Tally::new();
    for (mode, test) in tests.into_iter().chain(models) {
        count(&mut tally, mode, &test);
        print(mode, &test)?;
    }
    Ok(tally)
}

/// Runs all `selftests` of another tree than the lab's in one guest, which shares always.
pub fn run_all(
    lab: &Lab,
    arch: Arch,
    name: String,
    kernel: &Path,
    selftests: &[Program],
) -> Result<Vec<Test>> {
    let how = How::default();
    let guests = Guests::new(lab, arch, name, kernel, selftests, &how)?;
    let names: Vec<&str> = selftests.iter().map(Program::name).collect();
    let jobs = [(ALWAYS, steps(&names, ALWAYS, &how))];
    let tests = guests.judge(guests.boot_all(&jobs, ""), &jobs)?;
    Ok(tests.into_iter().map(|(_, test)| test).collect())
}

/// A mode, and the steps of its guest.
type Job = (&'static str, Vec<Step>);

/// What the guests of a run have in common.
struct Guests<'a> {
    lab: &'a Lab,
    /// The beginning of their names.
    name: String,
    machine: Machine<'static>,
    kernel: &'a Path,
    init: PathBuf,
    programs: &'a [Program],
    rootfs: PathBuf,
    plugin: Option<Plugin>,
    how: &'a How,
}

impl<'a> Guests<'a> {
    fn new(
        lab: &'a Lab,
        arch: Arch,
        name: String,
        kernel: &'a Path,
        programs: &'a [Program],
        how: &'a How,
    ) -> Result<Self> {
        Ok(Guests {
            lab,
            name,
            machine: Machine::of(arch)?,
            kernel,
            init: programs::init_for(lab, arch)?,
            programs,
            // Files on a disk, swap and direct I/O are among what is tested.
            rootfs: rootfs::image(lab, arch.rootfs)?,
            plugin: None,
            how,
        })
    }

    fn boot(&self, (mode, steps): &Job, again: &str) -> Result<Outcome> {
        let name = format!("{}-{mode}{again}", self.name);
        let mut outcome = Spec {
            name: name.clone(),
            machine: self.machine,
            kernel: self.kernel,
            memory: 1_024,
            cpus: match self.how.watch.is_on() {
                // The plugin runs them one after the other.
                true => 2,
                false => cpus(),
            },
            icount: self.plugin.is_some(),
            rootfs: Some(&self.rootfs),
            read_limit: None,
            // Two nodes, as far as the kernel can tell: pages move between them.
            cmdline: format!("numa=fake=2 cohort={mode} {}", self.how.append),
            init: &self.init,
            programs: self.programs,
            steps: steps.clone(),
            plugin: self.plugin.as_ref(),
            limit: self.how.watch.limit(GUEST_LIMIT * times(self.how.full)),
        }
        .run(self.lab)
        .with_context(|| format!("the guest in mode {mode}"))?;
        self.how.watch.judge(self.lab, &name, &mut outcome);
        Ok(outcome)
    }

    /// Beside each other: most tests keep one processor busy.
    fn boot_all(&self, jobs: &[Job], again: &str) -> Vec<Result<Outcome>> {
        std::thread::scope(|scope| {
            let guests: Vec<_> = jobs
                .iter()
                .map(|job| scope.spawn(|| self.boot(job, again)))
                .collect();
            guests
                .into_iter()
                .map(|guest| guest.join().expect("a guest's thread does not panic"))
                .collect()
        })
    }

    /// All tests with their modes, after a second guest for those in doubt.
    fn judge(
        &self,
        outcomes: Vec<Result<Outcome>>,
        jobs: &[Job],
    ) -> Result<Vec<(&'static str, Test)>> {
        let mut found = Vec::new();
        let mut doubts = Vec::new();
        for (outcome, (mode, steps_taken)) in outcomes.into_iter().zip(jobs) {
            let tests = verdicts(&outcome?, steps_taken);
            let doubtful = doubtful(&tests);
            if !doubtful.is_empty() {
                eprintln!("mode {mode}: {} failed; once more", doubtful.join(", "));
                doubts.push((*mode, steps(&doubtful, mode, self.how)));
            }
            found.push((*mode, tests));
        }
        let second = self.boot_all(&doubts, "-again");
        for (outcome, (mode, steps_taken)) in second.into_iter().zip(&doubts) {
            let (_, tests) = found
                .iter_mut()
                .find(|(of, _)| of == mode)
                .expect("a mode in doubt was found in");
            second_look(tests, verdicts(&outcome?, steps_taken));
        }
        Ok(found
            .into_iter()
            .flat_map(|(mode, tests)| tests.into_iter().map(move |(_, test)| (mode, test)))
            .collect())
    }
}

/// Those of the programs `names`, and of the model's tests, whose names hold `filter`; an error if
/// there are none.
fn choose<'a>(
    names: &[&'a str],
    filter: Option<&str>,
) -> Result<(Vec<&'a str>, Vec<&'static str>)> {
    let wanted = |name: &&str| filter.is_none_or(|filter| name.contains(filter));
    let chosen: Vec<&str> = names.iter().copied().filter(wanted).collect();
    let model: Vec<&str> = translations::NAMES.iter().copied().filter(wanted).collect();
    if chosen.is_empty() && model.is_empty() {
        let all: Vec<&str> = names.iter().chain(&translations::NAMES).copied().collect();
        bail!(
            "no test's name holds `{}`; there are: {}",
            filter.unwrap_or_default(),
            all.join(", ")
        );
    }
    Ok((chosen, model))
}

/// Whether a short run has the program `name` in `mode`.
fn runs_in(name: &str, mode: &str) -> bool {
    // The fuzzer's regressions are short, and run in both.
    let of = |start: &str| name.starts_with(start) && name != REGRESSIONS_STEP;
    let only = ONCE.iter().find(|(start, _)| of(start));
    only.is_none_or(|(_, only)| *only == mode)
}

/// Its processes wait for each other on several processors, which the plugin lets take turns of many
/// thousand instructions.
fn waits(name: &str) -> bool {
    name == "tlb" || name.starts_with("race")
}

/// As many processors as the host has, for races; at least two.
fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(2, |count| count.get().clamp(2, 4) as u32)
}

fn times(full: bool) -> u64 {
    if full { FULL_TIMES } else { 1 }
}

/// The job: each program is told the mode, so that a guest in another one fails its tests.
fn steps(names: &[&str], mode: &str, how: &How) -> Vec<Step> {
    let short = if how.full { "" } else { " -q" };
    names
        .iter()
        .map(|&name| {
            let command = match name {
                KUNIT_PROGRAM => name.to_string(),
                FUZZ_PROGRAM => format!("{name} {FUZZ_OPTIONS} --mode {mode}"),
                REGRESSIONS_STEP => format!(
                    "{FUZZ_PROGRAM} --replay-all {} --mode {mode}",
                    programs::REGRESSIONS
                ),
                name => format!("{name}{short} -m {mode}"),
            };
            let plain = match name {
                FUZZ_PROGRAM | REGRESSIONS_STEP => "",
                _ => PLAIN,
            };
            let command = match how.tlb_group && ![KUNIT_PROGRAM, LEADS].contains(&name) {
                true => format!("{LEADER} {LEADER_OPTIONS} {command}{plain}"),
                false => command,
            };
            Step::new(name, STEP_LIMIT * times(how.full), command)
        })
        .collect()
}

/// All tests of a guest, each with its program: those of its programs and, without a program, that
/// guest and kernel came through well.
pub fn verdicts<'a>(outcome: &Outcome, steps: &'a [Step]) -> Vec<(&'a str, Test)> {
    let mut tests = Vec::new();
    for step in steps {
        let found = match outcome.report.find(&step.name) {
            Some(report) if step.name == KUNIT_PROGRAM => kunit(report),
            Some(report) => tap(report),
            None => vec![Test {
                name: format!("{} runs", step.name),
                verdict: Verdict::Fail,
                notes: vec![format!("{FATAL}: the guest ended before it began")],
            }],
        };
        tests.extend(found.into_iter().map(|test| (step.name.as_str(), test)));
    }
    let of = |name: &str, good: bool, mut notes: Vec<String>| {
        if !good {
            notes.push(format!("{FATAL}: it is the guest or its kernel"));
        }
        Test {
            name: name.to_string(),
            verdict: if good { Verdict::Pass } else { Verdict::Fail },
            notes,
        }
    };
    let clean = outcome
        .report
        .taint
        .is_some_and(|taint| taint & !programs::TAINT_TEST == 0);
    tests.push((
        "",
        of(
            "the guest runs to its end",
            outcome.problem().is_none(),
            outcome.problem().into_iter().collect(),
        ),
    ));
    tests.push((
        "",
        of(
            "the kernel's log is clean",
            outcome.complaints.is_empty() && clean,
            outcome
                .complaints
                .iter()
                .cloned()
                .chain(outcome.report.taint.map(|taint| format!("taint {taint}")))
                .collect(),
        ),
    ));
    tests
}

/// The programs whose failures may be timeouts on a busy host; none if a failure is fatal, or if
/// there are too many.
fn doubtful<'a>(tests: &[(&'a str, Test)]) -> Vec<&'a str> {
    let failed: Vec<_> = tests
        .iter()
        .filter(|(_, test)| test.verdict == Verdict::Fail)
        .collect();
    if failed.len() > RETRIES || failed.iter().any(|(_, test)| test.fatal()) {
        return Vec::new();
    }
    let mut programs: Vec<&str> = failed.iter().map(|(program, _)| *program).collect();
    programs.dedup();
    programs
}

/// Counts a failure neither way if everything passed in a second guest. What failed
/// there is a failure beside the first.
fn second_look(tests: &mut Vec<(&str, Test)>, again: Vec<(&str, Test)>) {
    let worse: Vec<_> = again
        .into_iter()
        .filter(|(_, test)| test.verdict == Verdict::Fail)
        .map(|(_, mut test)| {
            test.name.push_str(" (second run)");
            ("", test)
        })
        .collect();
    if worse.is_empty() {
        for (_, test) in tests
            .iter_mut()
            .filter(|(_, test)| test.verdict == Verdict::Fail)
        {
            test.verdict = Verdict::Skip;
            test.name = format!(
                "UNSTEADY {}: failed once, then held ({})",
                test.name,
                test.notes.join("; ")
            );
        }
    }
    tests.extend(worse);
}

/// Prints a test's verdict and, if it failed, what it said.
pub fn print(mode: &str, test: &Test) -> Result<()> {
    let word = match test.verdict {
        Verdict::Pass => "ok",
        Verdict::Fail => "not ok",
        Verdict::Skip => "skip",
    };
    say!("{mode}: {word} {}", test.name)?;
    if test.verdict == Verdict::Fail {
        for note in &test.notes {
            say!("    {note}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::guest::protocol::Report;
    use crate::lab::guest::run::End;

    #[test]
    fn a_short_run_has_each_program_in_some_mode() {
        let dir = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernel/overlay/tools/testing/selftests/cohort"
        );
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| Some(name.strip_suffix(".c")?.to_string()))
            .collect();
        names.extend([FUZZ_PROGRAM, REGRESSIONS_STEP].map(str::to_string));
        for name in &names {
            assert!(MODES.iter().any(|mode| runs_in(name, mode)), "{name}");
        }
        for (start, only) in ONCE {
            assert!(MODES.contains(only), "{only}");
            assert!(names.iter().any(|name| name.starts_with(start)), "{start}");
        }
        for name in ["share", "security", "prctl", REGRESSIONS_STEP] {
            assert!(MODES.iter().all(|mode| runs_in(name, mode)), "{name}");
        }
    }

    fn outcome(text: &str, end: End, complaints: &[&str]) -> Outcome {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        Outcome {
            report,
            end,
            complaints: complaints.iter().map(|line| line.to_string()).collect(),
            console: PathBuf::from("console.log"),
        }
    }

    fn failed(outcome: &Outcome) -> Vec<String> {
        let steps = [Step::new("share", 1, "share"), Step::new("swap", 1, "swap")];
        verdicts(outcome, &steps)
            .into_iter()
            .filter(|(_, test)| test.verdict == Verdict::Fail)
            .map(|(_, test)| test.name)
            .collect()
    }

    /// What is left of failures in `first` after a second guest with the report `second`, and
    /// whether there was one.
    fn looked_twice(first: &str, second: &str, complaints: &[&str]) -> (bool, usize, usize) {
        let all = [Step::new("share", 1, "share"), Step::new("swap", 1, "swap")];
        let first = outcome(first, End::Done, &[]);
        let mut tests = verdicts(&first, &all);
        let programs = doubtful(&tests);
        let steps: Vec<Step> = programs
            .iter()
            .map(|name| Step::new(*name, 1, ""))
            .collect();
        if !programs.is_empty() {
            let second = outcome(second, End::Done, complaints);
            second_look(&mut tests, verdicts(&second, &steps));
        }
        let of = |verdict| {
            tests
                .iter()
                .filter(|(_, test)| test.verdict == verdict)
                .count()
        };
        (!programs.is_empty(), of(Verdict::Fail), of(Verdict::Skip))
    }

    #[test]
    fn what_fails_once_and_then_holds_counts_neither_way() {
        let bad = GOOD.replace(
            "share ok 1 a",
            "share # [7] x.c:1: two, not one\nout share not ok 1 a",
        );
        assert_eq!(looked_twice(&bad, GOOD, &[]), (true, 0, 1));
        // twice is a failure, and so is a kernel that complains the second time
        assert_eq!(looked_twice(&bad, &bad, &[]), (true, 2, 0));
        assert_eq!(looked_twice(&bad, GOOD, &["BUG: x"]), (true, 2, 0));
        assert_eq!(looked_twice(GOOD, GOOD, &[]), (false, 0, 0));
    }

    #[test]
    fn fatal_and_many_failures_get_no_second_look() {
        let wrong = GOOD.replace(
            "share ok 1 a",
            "share # [7] x.c:1: page 3 is not 4\nout share # FATAL: what a process sees is wrong\n\
            out share not ok 1 a (guards invariant 2)",
        );
        assert_eq!(looked_twice(&wrong, GOOD, &[]), (false, 1, 0));
        // only the line itself counts, not the source that a note repeats
        let harmless = GOOD.replace(
            "share ok 1 a",
            "share # it must be that page_is(p, 1)\nout share not ok 1 a",
        );
        assert_eq!(looked_twice(&harmless, GOOD, &[]), (true, 0, 1));
        let hangs = GOOD.replace("end share exit=0", "end share timeout");
        assert_eq!(looked_twice(&hangs, GOOD, &[]), (false, 1, 0));
        let killed = GOOD.replace("end share exit=0", "end share signal=11");
        assert_eq!(looked_twice(&killed, GOOD, &[]), (false, 1, 0));
        let dirty = GOOD
            .replace("share ok", "share not ok")
            .replace("taint 0", "taint 512");
        assert_eq!(looked_twice(&dirty, GOOD, &[]), (false, 2, 0));
        let many = GOOD.replace(
            "1..1\nout share ok 1 a",
            "1..4\nout share not ok 1 a\n\
            out share not ok 2 b\nout share not ok 3 c\nout share not ok 4 d",
        );
        assert_eq!(looked_twice(&many, GOOD, &[]), (false, 4, 0));
    }

    const GOOD: &str = "ready\nbegin share\nout share 1..1\nout share ok 1 a\nend share exit=0\n\
        begin swap\nout swap 1..1\nout swap ok 1 b\nend swap exit=0\ntaint 0\ndone\n";

    #[test]
    fn a_good_guest_fails_nothing() {
        assert!(failed(&outcome(GOOD, End::Done, &[])).is_empty());
    }

    #[test]
    fn a_dirty_log_and_a_tainted_kernel_fail() {
        let dirty = outcome(GOOD, End::Done, &["BUG: Bad rss-counter state"]);
        assert_eq!(failed(&dirty), ["the kernel's log is clean"]);
        let tainted = outcome(&GOOD.replace("taint 0", "taint 512"), End::Done, &[]);
        assert_eq!(failed(&tainted), ["the kernel's log is clean"]);
    }

    #[test]
    fn kunit_marks_the_kernel_and_that_is_fine() {
        let marked = outcome(&GOOD.replace("taint 0", "taint 262144"), End::Done, &[]);
        assert!(failed(&marked).is_empty());
        let worse = outcome(&GOOD.replace("taint 0", "taint 262656"), End::Done, &[]);
        assert_eq!(failed(&worse), ["the kernel's log is clean"]);
    }

    #[test]
    fn programs_that_wait_for_other_processors_are_not_audited() {
        let names = ["tlb", "tlb_group", "race_fork", "share"];
        assert_eq!(names.map(waits), [true, false, true, false]);
    }

    #[test]
    fn programs_are_told_the_mode() {
        let short = steps(&["kunit", "share", "fuzz"], "always", &How::default());
        assert_eq!(short[0].command, "kunit");
        assert_eq!(short[1].command, "share -q -m always");
        assert!(short[2].command.ends_with("--tap --mode always"));
        let how = How {
            full: true,
            tlb_group: true,
            ..How::default()
        };
        let full = steps(&["share", "fuzz"], "always", &how);
        assert_eq!(
            full[0].command,
            "cohort-exec --tlb --leave-ids share -m always -g"
        );
        assert!(full[1].command.ends_with("--tap --mode always"));
    }

    #[test]
    fn a_guest_that_panics_fails_the_tests_it_did_not_reach() {
        let text = GOOD.split("begin swap").next().unwrap();
        let names = failed(&outcome(text, End::Panic("oops".into()), &["Kernel panic"]));
        assert_eq!(
            names,
            [
                "swap runs",
                "the guest runs to its end",
                "the kernel's log is clean"
            ]
        );
    }
}
