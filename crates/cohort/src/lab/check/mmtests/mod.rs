// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab mmtests`: the kernel's own tests, on the stock kernel and on one that shares page
//! tables at every fork, with the verdicts of both side by side.

mod compile;
mod list;
mod verdict;

use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::check::tally::Tally;

use crate::lab::experiment::results;
use crate::lab::guest::job::Step;
use crate::lab::guest::programs;
use crate::lab::guest::programs::Program;
use crate::lab::guest::protocol::StepReport;
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Spec, version_of};
use crate::lab::host::files;
use crate::lab::host::hash::Hasher;
use crate::lab::kernel::build::{self, Config, Kernel};
use crate::output;
use crate::show;
use anyhow::{Context, Result, bail};
use compile::Goal;
use list::{List, TestProgram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use verdict::{Answer, Class, Row, Run, compare, read};

/// Megabytes: the tests reserve 256 MB of huge pages, and fill what they take for a lot.
const MEMORY: u64 = 2_048;
/// Processors, for races.
const CPUS: u32 = 2;
/// Seconds that the tests of one guest may take in all, by their limits.
const BATCH_SECONDS: u64 = 7_200;
/// Host seconds for a guest to boot and to end, beside its tests.
const BOOT_LIMIT: u64 = 400;
/// The last step of a guest, which tells how much was shared in it.
const COUNT: &str = "tables-shared";
/// The row of what the kernels said themselves.
const KERNEL: &str = "kernel";
/// Changes when a field of the results changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// `bench` compares the pristine kernel with ours; `debug`, of which there is no pristine
    /// one, the same image with cohort=never and with cohort=always.
    #[arg(long, value_enum, default_value_t = Config::Bench)]
    config: Config,
    /// The architecture of the kernels and their guests.
    #[arg(long, value_name = "NAME", default_value = LAB.name)]
    arch: Arch,
    /// A kernel image to use as ours, instead of a built one.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// A kernel image to use as the stock one, instead of a built one.
    #[arg(long, value_name = "FILE")]
    stock: Option<PathBuf>,
    /// Only tests whose names, or suites, hold this.
    #[arg(long)]
    filter: Option<String>,
    /// Only the tests of the short run, on one image: with cohort=never and with cohort=always.
    #[arg(long)]
    short: bool,
    /// How often a test is run on both kernels until its verdicts are called different.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    runs: u32,
    /// More words for the command line of our kernel, such as `cohort_join=user`.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Show only what is not equal.
    #[arg(long)]
    brief: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// One of the two kernels.
struct Side {
    name: &'static str,
    image: PathBuf,
    /// None for an image that was built elsewhere.
    kernel: Option<Kernel>,
    cmdline: String,
}

/// The results of all runs of one side.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Found {
    /// Runs by test.
    runs: BTreeMap<String, Vec<Run>>,
    /// The complaints of the kernel.
    complaints: Vec<String>,
    /// Page tables that were shared, by `/proc/vmstat`.
    shared: u64,
    /// Guests that were booted.
    guests: u32,
}

/// The work of a run so far. It is kept after each guest, so that a run which was interrupted
/// goes on where it stopped.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    /// Hash of all that the verdicts depend on.
    key: String,
    /// Of all its parts.
    seconds: u64,
    /// Stock, then ours.
    found: [Found; 2],
}

/// The content of `out/results/mmtests-CONFIG.json`, or `mmtests-ARCH-CONFIG.json`.
#[derive(Debug, Serialize)]
struct Results {
    schema_version: u32,
    date: String,
    arch: Arch,
    qemu: String,
    seconds: u64,
    stock: SideResults,
    cohort: SideResults,
    counts: BTreeMap<Class, usize>,
    cases: Vec<Row>,
}

/// One kernel in the results.
#[derive(Debug, Serialize)]
struct SideResults {
    image: PathBuf,
    kernel: Option<Kernel>,
    cmdline: String,
    guests: u32,
    tables_shared: u64,
    complaints: Vec<String>,
}

/// All that a guest needs.
struct Bench<'a> {
    lab: &'a Lab,
    list: &'a List,
    arch: Arch,
    machine: Machine<'static>,
    init: PathBuf,
    programs: Vec<Program>,
    rootfs: PathBuf,
}

/// Runs the tests on both kernels; false when a verdict differs and should not.
pub fn mmtests(lab: &Lab, options: &Options) -> Result<Tally> {
    let mut start = Instant::now();
    let list = list::load(lab)?;
    let chosen = choose(&list, options)?;
    let &Options { arch, config, .. } = options;
    let machine = Machine::of(arch)?;
    let sides = sides(lab, options)?;
    let rootfs = rootfs::image(lab, arch.rootfs_tests)?;
    let goal = Goal {
        arch,
        config,
        rootfs: &rootfs,
    };
    let bench = Bench {
        lab,
        list: &list,
        arch,
        machine,
        init: programs::init_for(lab, arch)?,
        programs: compile::programs(lab, &goal, &chosen)?,
        rootfs,
    };
    let name = format!("mmtests-{}", config.name(arch));
    let kept = lab.out(&format!("run/{name}.progress"));
    let mut progress = Progress::load(&kept, bench.key(&sides, &chosen)?);
    let mut again = chosen.clone();
    for run in 1..=options.runs {
        for batch in batches(&again) {
            for (number, side) in sides.iter().enumerate() {
                let left = progress.found[number].missing(batch, run);
                if left.is_empty() {
                    continue;
                }
                bench.run(side, &left, &mut progress.found[number])?;
                progress.seconds += start.elapsed().as_secs();
                start = Instant::now();
                progress.save(&kept)?;
            }
        }
        again.retain(|test| {
            rows(&list, test, &progress.found)
                .iter()
                .any(|row| row.class == Class::Differs)
        });
        if again.is_empty() {
            break;
        }
        if run < options.runs {
            let names: Vec<&str> = again.iter().map(|test| test.name.as_str()).collect();
            eprintln!("verdicts differ, once more on both: {}", names.join(", "));
            eprintln!("what they said is in {}", lab.out("run").display());
        }
    }
    files::remove(&kept)?;
    let found = progress.found;
    let mut cases: Vec<Row> = chosen
        .iter()
        .flat_map(|test| rows(&list, test, &found))
        .collect();
    cases.push(log_row(&found));
    let mut counts = BTreeMap::new();
    for row in &cases {
        *counts.entry(row.class).or_default() += 1;
    }
    let [stock, cohort] = found;
    if cohort.shared == 0 {
        bail!(
            "no page table was shared in the guests with {}: nothing was compared",
            sides[1].cmdline
        );
    }
    let [stock_side, cohort_side] = sides;
    let results = Results {
        schema_version: SCHEMA_VERSION,
        date: results::utc(std::time::SystemTime::now()),
        arch,
        qemu: format!("{} {}", arch.qemu, version_of(arch.qemu)?),
        seconds: progress.seconds,
        stock: stock_side.results(stock),
        cohort: cohort_side.results(cohort),
        counts,
        cases,
    };
    let json = results::json(&results)?;
    let whole = !options.short && options.filter.is_none();
    let plain = options.append.is_empty() && options.kernel.is_none() && options.stock.is_none();
    if whole && plain {
        results::save(lab, &name, &json)?;
    }
    if options.json {
        output::print(json)?;
    } else {
        output::print(table(&results, options.brief))?;
    }
    let mut tally = Tally::new();
    for row in &results.cases {
        match row.class {
            Class::Differs => tally.fail(format!("{} {}", row.test, row.case), &[]),
            _ => tally.passed += 1,
        }
    }
    Ok(tally)
}

/// The tests that the options leave.
fn choose(list: &List, options: &Options) -> Result<Vec<TestProgram>> {
    let word = options.filter.as_deref().unwrap_or_default();
    let chosen: Vec<TestProgram> = list
        .tests
        .iter()
        .filter(|test| test.is_for(options.arch))
        .filter(|test| test.short || !options.short)
        .filter(|test| test.name.contains(word) || test.suite.contains(word))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let there_are = list.tests.iter().filter(|test| test.is_for(options.arch));
        let names: Vec<&str> = there_are.map(|test| test.name.as_str()).collect();
        bail!(
            "no test's name holds `{word}`; for {} there are: {}",
            options.arch,
            names.join(", ")
        );
    }
    Ok(chosen)
}

/// The kernels that are compared.
fn sides(lab: &Lab, options: &Options) -> Result<[Side; 2]> {
    let side = |name, config, cmdline: &str, given: &Option<PathBuf>| -> Result<Side> {
        let (image, kernel) = build::image_for(lab, options.arch, config, given.as_deref())?;
        Ok(Side {
            name,
            image,
            kernel,
            cmdline: cmdline.trim_end().into(),
        })
    };
    let (stock, config, cmdline) = match options.config {
        Config::Pristine => {
            bail!("--config names our kernel: `bench` is compared with the pristine one")
        }
        // That `never` is the stock kernel is the long run's to find: this one builds one kernel.
        Config::Bench if options.short => (Config::Bench, Config::Bench, "cohort=never"),
        Config::Bench => (Config::Pristine, Config::Bench, ""),
        Config::Debug | Config::Stretch => (options.config, options.config, "cohort=never"),
    };
    Ok([
        side("stock", stock, cmdline, &options.stock)?,
        side(
            "cohort",
            config,
            &format!("cohort=always {}", options.append),
            &options.kernel,
        )?,
    ])
}

/// Tests in groups, a guest each, so that an interruption costs no more than one of them.
fn batches(tests: &[TestProgram]) -> impl Iterator<Item = &[TestProgram]> {
    let mut seconds = 0;
    tests.chunk_by(move |test, next| {
        seconds += test.timeout;
        let fits = seconds + next.timeout <= BATCH_SECONDS;
        if !fits {
            seconds = 0;
        }
        fits
    })
}

impl Found {
    /// The tests of a group that were not run so often.
    fn missing(&self, batch: &[TestProgram], run: u32) -> Vec<TestProgram> {
        let times = |test: &TestProgram| self.runs.get(&test.name).map_or(0, Vec::len);
        batch
            .iter()
            .filter(|test| times(test) < run as usize)
            .cloned()
            .collect()
    }
}

impl Progress {
    /// The results that an interrupted run of the same has left, if any.
    fn load(file: &Path, key: String) -> Self {
        let kept = std::fs::read(file)
            .ok()
            .and_then(|text| serde_json::from_slice::<Self>(&text).ok())
            .filter(|kept| kept.key == key);
        match kept {
            Some(kept) => {
                eprintln!(
                    "going on with a run that was interrupted: {} tests are done on the stock \
                     kernel, {} on ours (remove {} to begin anew)",
                    kept.found[0].runs.len(),
                    kept.found[1].runs.len(),
                    file.display()
                );
                kept
            }
            None => Progress {
                key,
                seconds: 0,
                found: Default::default(),
            },
        }
    }

    fn save(&self, file: &Path) -> Result<()> {
        let json = serde_json::to_vec(self).context("the progress is no JSON")?;
        files::write(file, &json)
    }
}

impl Side {
    fn results(self, found: Found) -> SideResults {
        SideResults {
            image: self.image,
            kernel: self.kernel,
            cmdline: self.cmdline,
            guests: found.guests,
            tables_shared: found.shared,
            complaints: found.complaints,
        }
    }
}

impl SideResults {
    fn describe(&self) -> String {
        match &self.kernel {
            Some(kernel) => kernel.describe(),
            None => self.image.display().to_string(),
        }
    }
}

impl Bench<'_> {
    /// The hash of all that the verdicts of these tests depend on.
    fn key(&self, sides: &[Side; 2], chosen: &[TestProgram]) -> Result<String> {
        let mut key = Hasher::new();
        for side in sides {
            key.path(&side.image)?
                .part("cmdline", side.cmdline.as_bytes());
        }
        key.path(&self.lab.path(list::DIR))?
            .path(&self.init)?
            .part("rootfs", self.rootfs.as_os_str().as_encoded_bytes());
        for program in &self.programs {
            key.path(&program.file)?;
        }
        for test in chosen {
            key.part("test", test.name.as_bytes());
        }
        Ok(key.finish())
    }

    /// Runs each test once. A guest that does not survive one costs that test alone: the next
    /// guest goes on behind it.
    fn run(&self, side: &Side, tests: &[TestProgram], found: &mut Found) -> Result<()> {
        let mut left = tests;
        while !left.is_empty() {
            let seconds: u64 = left.iter().map(|test| test.timeout).sum();
            let outcome = Spec {
                name: run_name(self.arch, side.name),
                machine: self.machine,
                kernel: &side.image,
                memory: MEMORY,
                cpus: CPUS,
                icount: false,
                rootfs: Some(&self.rootfs),
                read_limit: None,
                cmdline: format!("numa=fake=2 {}", side.cmdline),
                init: &self.init,
                programs: &self.programs,
                steps: steps(left),
                plugin: None,
                limit: seconds + BOOT_LIMIT,
            }
            .run(self.lab)?;
            found.guests += 1;
            found
                .complaints
                .extend(outcome.complaints.iter().map(|line| without_time(line)));
            let reports = &outcome.report.steps;
            for report in reports {
                if let Some(test) = left.iter().find(|test| test.name == report.name) {
                    let run = read(self.list, test, report);
                    let runs = found.runs.entry(test.name.clone()).or_default();
                    if failed(&run) {
                        let guest = run_name(self.arch, side.name);
                        let said = format!("run/{guest}.{}.{}.txt", test.name, runs.len() + 1);
                        keep_output(&self.lab.out(&said), report)?;
                    }
                    runs.push(run);
                } else if report.name == COUNT {
                    found.shared += count(report);
                }
            }
            let begun = left
                .iter()
                .take_while(|test| reports.iter().any(|report| report.name == test.name))
                .count();
            if begun == 0 {
                bail!(
                    "no test began: {}",
                    outcome
                        .problem()
                        .unwrap_or_else(|| format!("see {}", outcome.console.display()))
                );
            }
            if let Some(problem) = outcome.problem() {
                eprintln!("{}: {problem}", left[begun - 1].name);
                let run = run_name(self.arch, side.name);
                keep_console(self.lab, &outcome.console, &run, &left[begun - 1].name)?;
            }
            left = &left[begun..];
        }
        Ok(())
    }
}

/// The name of a side's guests.
fn run_name(arch: Arch, side: &str) -> String {
    format!("mmtests-{}{side}", arch.mark())
}

/// True if something failed in a run.
fn failed(run: &[(String, Answer)]) -> bool {
    run.iter()
        .any(|(_, answer)| matches!(answer, Answer::Fail(_)))
}

/// What a test printed, for who wants to know why it failed: a second run may not say it again.
fn keep_output(file: &Path, report: &StepReport) -> Result<()> {
    let mut text = report.lines.join("\n");
    text.push('\n');
    files::write(file, text.as_bytes())
}

/// The console of a guest that did not survive a test, where the next guest does not write.
fn keep_console(lab: &Lab, console: &Path, run: &str, test: &str) -> Result<()> {
    let kept = lab.out(&format!("run/{run}.{test}.log"));
    std::fs::copy(console, &kept)
        .with_context(|| format!("cannot copy {} to {}", console.display(), kept.display()))?;
    Ok(())
}

/// The job: the tests, and last what was shared in all of them.
fn steps(tests: &[TestProgram]) -> Vec<Step> {
    let mut steps: Vec<Step> = tests
        .iter()
        .map(|test| {
            Step::new(
                test.name.clone(),
                test.timeout,
                format!(
                    "exec sh /lab/kernel-tests/step.sh {} {} '{}'",
                    test.suite,
                    test.hugepages,
                    test.command()
                ),
            )
        })
        .collect();
    steps.push(Step::new(
        COUNT,
        60,
        "grep '^cohort_ptp_shared ' /proc/vmstat || true",
    ));
    steps
}

/// The counter that [`COUNT`] printed; none on a kernel without it.
fn count(report: &StepReport) -> u64 {
    report
        .lines
        .iter()
        .find_map(|line| line.strip_prefix("cohort_ptp_shared ")?.trim().parse().ok())
        .unwrap_or(0)
}

/// A line of the kernel's log without its time, so that two guests' can be compared.
fn without_time(line: &str) -> String {
    match line.split_once("] ") {
        Some((time, rest)) if time.starts_with('[') => rest.to_string(),
        _ => line.to_string(),
    }
}

/// All cases of one test so far.
fn rows(list: &List, test: &TestProgram, found: &[Found; 2]) -> Vec<Row> {
    let of = |found: &Found| found.runs.get(&test.name).cloned().unwrap_or_default();
    compare(&test.name, &of(&found[0]), &of(&found[1]), &list.expected)
}

/// The messages of the kernels, as one more case: ours may not complain where the other does not.
fn log_row(found: &[Found; 2]) -> Row {
    let answer = |found: &Found| match found.complaints.first() {
        None => Answer::Pass,
        Some(line) => Answer::Fail(line.clone()),
    };
    let (stock, cohort) = (answer(&found[0]), answer(&found[1]));
    let class = if cohort == Answer::Pass || cohort == stock {
        Class::Equal
    } else {
        Class::Differs
    };
    Row {
        test: KERNEL.into(),
        case: "the log is clean".into(),
        stock: vec![stock],
        cohort: vec![cohort],
        class,
        reason: None,
    }
}

/// The answers of several runs in few letters.
fn answers(answers: &[Answer]) -> String {
    let mut words: Vec<String> = answers.iter().map(Answer::to_string).collect();
    words.dedup();
    words.join(", ")
}

/// Every verdict on a line, then a table of the programs, then what differs once more.
fn table(results: &Results, brief: bool) -> String {
    let mut text = String::new();
    let line = |row: &Row| {
        let mut line = format!(
            "{:<15} {:<15} {}: {}",
            answers(&row.stock),
            answers(&row.cohort),
            row.test,
            row.case
        );
        match row.class {
            Class::Equal => {}
            Class::Flaky => line.push_str("  (not steady on stock either)"),
            Class::Differs => line.push_str("  DIFFERS"),
            Class::Expected => {
                line.push_str(&format!(
                    "  ({})",
                    row.reason.as_deref().unwrap_or_default()
                ));
            }
        }
        line + "\n"
    };
    if !brief {
        text.push_str("stock           cohort          test: case\n");
        text.extend(results.cases.iter().map(line));
        text.push('\n');
    }
    let mut tests: Vec<(&str, [usize; 8])> = Vec::new();
    for row in &results.cases {
        if tests.last().is_none_or(|(name, _)| *name != row.test) {
            tests.push((&row.test, [0; 8]));
        }
        let counts = &mut tests.last_mut().expect("one was just put there").1;
        for (side, answers) in [&row.stock, &row.cohort].into_iter().enumerate() {
            let kind = match answers.last() {
                Some(Answer::Pass) => 0,
                Some(Answer::Fail(_)) => 1,
                _ => 2,
            };
            counts[side * 3 + kind] += 1;
        }
        counts[6] += usize::from(matches!(row.class, Class::Flaky | Class::Expected));
        counts[7] += usize::from(row.class == Class::Differs);
    }
    let heading = [
        "test",
        "stock: ok",
        "fail",
        "skip",
        "cohort: ok",
        "fail",
        "skip",
        "excused",
        "differ",
    ];
    text.push_str(&show::plain(
        heading.map(String::from).to_vec(),
        tests
            .iter()
            .map(|(name, counts)| {
                std::iter::once(name.to_string())
                    .chain(counts.iter().map(usize::to_string))
                    .collect()
            })
            .collect(),
    ));
    for (class, title) in [
        (Class::Flaky, "Not steady on the stock kernel either:"),
        (Class::Expected, "Different, and why that is right:"),
        (Class::Differs, "DIFFERENT:"),
    ] {
        let rows: Vec<&Row> = results
            .cases
            .iter()
            .filter(|row| row.class == class)
            .collect();
        if !rows.is_empty() {
            text.push_str(&format!("\n{title}\n"));
            text.extend(rows.into_iter().map(line));
        }
    }
    text.push_str(&format!(
        "\nstock: {}\nours: {} {}, {} page tables shared\n",
        results.stock.describe(),
        results.cohort.describe(),
        results.cohort.cmdline,
        results.cohort.tables_shared,
    ));
    let count = |class| results.counts.get(&class).copied().unwrap_or_default();
    // A verdict that is the same has passed, whichever it is.
    text.push_str(&format!(
        "{} verdicts equal, {} not steady on stock, {} different for a reason\n{} passed, {} failed\n",
        count(Class::Equal),
        count(Class::Flaky),
        count(Class::Expected),
        results.cases.len() - count(Class::Differs),
        count(Class::Differs),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, stock: Answer, cohort: Answer, class: Class) -> Row {
        Row {
            test: "cow".into(),
            case: case.into(),
            stock: vec![stock],
            cohort: vec![cohort],
            class,
            reason: (class == Class::Expected).then(|| "it counts differently".into()),
        }
    }

    fn results(cases: Vec<Row>) -> Results {
        let side = |cmdline: &str| SideResults {
            image: PathBuf::from("vmlinux"),
            kernel: None,
            cmdline: cmdline.into(),
            guests: 1,
            tables_shared: 7,
            complaints: Vec::new(),
        };
        let mut counts = BTreeMap::new();
        for row in &cases {
            *counts.entry(row.class).or_default() += 1;
        }
        Results {
            schema_version: SCHEMA_VERSION,
            date: String::new(),
            arch: LAB,
            qemu: String::new(),
            seconds: 1,
            stock: side(""),
            cohort: side("cohort=always"),
            counts,
            cases,
        }
    }

    fn fail() -> Answer {
        Answer::Fail(String::new())
    }

    #[test]
    fn every_verdict_is_listed_side_by_side_and_a_difference_again() {
        let results = results(vec![
            row("a", Answer::Pass, Answer::Pass, Class::Equal),
            row("b", Answer::Pass, fail(), Class::Differs),
            row("c", Answer::Pass, Answer::Skip, Class::Expected),
        ]);
        let text = table(&results, false);
        assert_eq!(text.matches("cow: a\n").count(), 1, "{text}");
        assert_eq!(text.matches("cow: b  DIFFERS").count(), 2, "{text}");
        assert_eq!(text.matches("it counts differently").count(), 2, "{text}");
        assert!(text.contains("7 page tables shared"), "{text}");
        assert!(text.ends_with("2 passed, 1 failed\n"), "{text}");
        let brief = table(&results, true);
        assert!(!brief.contains("cow: a") && brief.contains("cow: b  DIFFERS"));
        serde_json::to_string(&results).unwrap();
    }

    #[test]
    fn an_interrupted_run_goes_on_with_what_is_left_of_it() {
        let text = include_str!("../../../../../../guest/kernel-tests/tests.toml");
        let list: List = toml::from_str(text).unwrap();
        let groups: Vec<_> = batches(&list.tests).collect();
        assert!(groups.len() > 1);
        assert_eq!(groups.concat().len(), list.tests.len());
        for group in &groups {
            let seconds: u64 = group.iter().map(|test| test.timeout).sum();
            assert!(group.len() == 1 || seconds <= BATCH_SECONDS, "{seconds}");
        }

        let mut found = Found::default();
        let first = &groups[0][0].name;
        let run = vec![("a".to_string(), fail())];
        found.runs.insert(first.clone(), vec![run]);
        assert_eq!(found.missing(groups[0], 1).len(), groups[0].len() - 1);
        assert_eq!(found.missing(groups[0], 2).len(), groups[0].len());

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("progress");
        let mut progress = Progress::load(&file, "key".into());
        assert_eq!(progress.found[0], Found::default());
        progress.found[0] = found;
        progress.save(&file).unwrap();
        let same = Progress::load(&file, "key".into());
        assert_eq!(same.found, progress.found);
        let other = Progress::load(&file, "another".into());
        assert_eq!(other.found[0], Found::default());
        std::fs::write(&file, "no JSON").unwrap();
        assert_eq!(
            Progress::load(&file, "key".into()).found[0],
            Found::default()
        );
    }

    #[test]
    fn what_a_failed_test_said_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mmtests-cohort.cow.1.txt");
        let report = StepReport {
            name: "cow".into(),
            lines: vec!["ERROR: no".into(), "end".into()],
            ending: crate::lab::guest::protocol::Ending::Exit(1),
        };
        let run: Run = vec![("a".into(), Answer::Pass), ("b".into(), fail())];
        assert!(failed(&run) && !failed(&run[..1]));
        keep_output(&file, &report).unwrap();
        assert_eq!(files::read(&file).unwrap(), "ERROR: no\nend\n");
    }

    #[test]
    fn only_our_own_complaints_count() {
        let found = |line: Option<&str>| Found {
            complaints: line.into_iter().map(String::from).collect(),
            ..Found::default()
        };
        let class = |stock, cohort| log_row(&[found(stock), found(cohort)]).class;
        assert_eq!(class(None, None), Class::Equal);
        assert_eq!(class(Some("BUG: a"), None), Class::Equal);
        assert_eq!(class(Some("BUG: a"), Some("BUG: a")), Class::Equal);
        assert_eq!(class(None, Some("BUG: a")), Class::Differs);
        assert_eq!(class(Some("BUG: a"), Some("BUG: b")), Class::Differs);
        assert_eq!(without_time("[   12.5] BUG: a] b"), "BUG: a] b");
        assert_eq!(without_time("BUG: a] b"), "BUG: a] b");
    }

    #[test]
    fn the_job_is_one_the_guest_can_read_and_counts_at_its_end() {
        let text = include_str!("../../../../../../guest/kernel-tests/tests.toml");
        let list: List = toml::from_str(text).unwrap();
        let steps = steps(&list.tests);
        crate::lab::guest::job::write(&steps).unwrap();
        let cow = steps.iter().find(|step| step.name == "cow").unwrap();
        assert!(cow.command.ends_with(" mm 8 './cow'"), "{}", cow.command);
        assert_eq!(steps.last().unwrap().name, COUNT);
        let report = |lines: &[&str]| StepReport {
            name: COUNT.into(),
            lines: lines.iter().map(|line| line.to_string()).collect(),
            ending: crate::lab::guest::protocol::Ending::Exit(0),
        };
        assert_eq!(count(&report(&["cohort_ptp_shared 12"])), 12);
        assert_eq!(count(&report(&[])), 0);
    }
}
