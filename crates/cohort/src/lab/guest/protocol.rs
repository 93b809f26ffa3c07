// SPDX-License-Identifier: GPL-2.0-or-later
//! The report that the guest writes to its virtio port, and what programs print in it.

use std::collections::BTreeMap;
use std::fmt;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It took longer than it may.
    Timeout,
    /// The guest ended before the step did.
    Unfinished,
}

impl Ending {
    /// It exited with status 0.
    pub fn success(self) -> bool {
        self == Ending::Exit(0)
    }

    /// It is a test that has skipped all of its cases (KSFT_SKIP of kselftest.h).
    pub fn skipped(self) -> bool {
        self == Ending::Exit(4)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exit(status) => write!(f, "it exited with status {status}"),
            Ending::Signal(number) => write!(f, "signal {number} ended it"),
            Ending::Timeout => write!(f, "it took longer than its time limit"),
            Ending::Unfinished => write!(f, "the guest ended before it did"),
        }
    }
}

/// A step as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// Its name in the job.
    pub name: String,
    /// The lines that it printed.
    pub lines: Vec<String>,
    /// How it ended.
    pub ending: Ending,
}

/// Everything that a guest reported so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// The guest's init runs.
    pub ready: bool,
    /// The steps that began, in order.
    pub steps: Vec<StepReport>,
    /// The kernel's taint mask at the end.
    pub taint: Option<u64>,
    /// All steps ran and the guest was about to power off.
    pub done: bool,
    /// Lines that are not of the protocol.
    pub strange: Vec<String>,
}

impl Report {
    /// Takes one line of the report.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end_matches('\r');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let taken = match word {
            "ready" => {
                self.ready = true;
                true
            }
            "begin" if !rest.is_empty() => {
                self.steps.push(StepReport {
                    name: rest.to_string(),
                    lines: Vec::new(),
                    ending: Ending::Unfinished,
                });
                true
            }
            "out" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                self.step(name)
                    .map(|step| step.lines.push(text.to_string()))
                    .is_some()
            }
            "end" => match rest.split_once(' ') {
                Some((name, how)) => match (self.step(name), ending(how)) {
                    (Some(step), Some(ending)) => {
                        step.ending = ending;
                        true
                    }
                    _ => false,
                },
                None => false,
            },
            "taint" => {
                self.taint = rest.parse().ok();
                self.taint.is_some()
            }
            "done" => {
                self.done = true;
                true
            }
            _ => false,
        };
        if !taken && !line.is_empty() {
            self.strange.push(line.to_string());
        }
    }

    /// The step of that name, if it began.
    pub fn find(&self, name: &str) -> Option<&StepReport> {
        self.steps.iter().find(|step| step.name == name)
    }

    fn step(&mut self, name: &str) -> Option<&mut StepReport> {
        self.steps.iter_mut().rev().find(|step| step.name == name)
    }
}

fn ending(text: &str) -> Option<Ending> {
    if text == "timeout" {
        return Some(Ending::Timeout);
    }
    let (kind, number) = text.split_once('=')?;
    let number = number.parse().ok()?;
    match kind {
        "exit" => Some(Ending::Exit(number)),
        "signal" => Some(Ending::Signal(number)),
        _ => None,
    }
}

/// The values of one metric, in the order they were printed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Metric {
    /// The unit as printed.
    pub unit: String,
    /// The values.
    pub values: Vec<f64>,
}

/// Adds the `metric NAME VALUE UNIT` lines of a step's output to `into`; a malformed one is
/// returned as an error in words.
pub fn metrics(lines: &[String], into: &mut BTreeMap<String, Metric>) -> Result<(), String> {
    for line in lines {
        let Some(rest) = line.strip_prefix("metric ") else {
            continue;
        };
        let mut words = rest.split_whitespace();
        let (name, value) = match (words.next(), words.next().map(str::parse::<f64>)) {
            (Some(name), Some(Ok(value))) if value.is_finite() => (name, value),
            _ => return Err(format!("`{line}` is not `metric NAME VALUE UNIT`")),
        };
        let unit = words.collect::<Vec<_>>().join(" ");
        into.entry(name.to_string())
            .or_insert_with(|| Metric {
                unit,
                values: Vec::new(),
            })
            .values
            .push(value);
    }
    Ok(())
}

/// One test of a TAP stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The question it asks.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The diagnostic lines just before the verdict, which say why a test failed.
    pub notes: Vec<String>,
}

/// A note that begins so: the failure is one of the kernel, not of a busy host.
pub const FATAL: &str = "# FATAL";

impl Test {
    /// Whether it failed in a way that gets no second run.
    pub fn fatal(&self) -> bool {
        self.verdict == Verdict::Fail && self.notes.iter().any(|note| note.starts_with(FATAL))
    }
}

/// A test's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// The test could not run here.
    Skip,
}

/// Reads the TAP of one test program. What makes a stream incomplete (no plan, fewer tests
/// than planned, a bad exit status without a failed test) is a failed test of its own, so
/// that a program which dies early cannot look like one that passed.
pub fn tap(step: &StepReport) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    let mut plan = None;
    let mut notes = Vec::new();
    let mut skip_all = None;
    for line in &step.lines {
        if let Some(count) = line.strip_prefix("1..") {
            let (count, comment) = count.split_once('#').unwrap_or((count, ""));
            plan = count.trim().parse::<usize>().ok();
            if plan == Some(0) {
                skip_all = Some(comment.trim().to_string());
            }
        } else if let Some(test) = tap_line(line) {
            tests.push(Test {
                notes: std::mem::take(&mut notes),
                ..test
            });
        } else {
            if line.starts_with("ok ") || line.starts_with("not ok ") {
                notes.clear();
            }
            notes.push(line.clone());
        }
    }
    let failed = tests.iter().any(|test| test.verdict == Verdict::Fail);
    let skipped = step.ending.skipped() || skip_all.is_some();
    let problem = match (step.ending, plan) {
        _ if skipped && tests.is_empty() => {
            tests.push(Test {
                name: step.name.clone(),
                verdict: Verdict::Skip,
                notes: notes.clone(),
            });
            None
        }
        (Ending::Exit(status), _) if status != 0 && status != 4 && !failed => {
            Some(format!("{} and no test failed", step.ending))
        }
        (Ending::Exit(_), None) => Some("it printed no plan (1..N)".into()),
        (Ending::Exit(_), Some(plan)) if plan != tests.len() => {
            Some(format!("{} of {plan} tests reported", tests.len()))
        }
        (Ending::Exit(_), Some(_)) => None,
        (ending, _) => Some(ending.to_string()),
    };
    if let Some(problem) = problem {
        let last = notes.len().saturating_sub(10);
        let mut notes = notes.split_off(last);
        notes.push(format!("{FATAL}: {problem}"));
        tests.push(Test {
            name: format!("{} runs to its end: {problem}", step.name),
            verdict: Verdict::Fail,
            notes,
        });
    }
    tests
}

/// Reads what KUnit keeps of its suites: the cases are one level in, each suite's own line
/// repeats them. Parameters of a case, one level further, are part of it.
pub fn kunit(step: &StepReport) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut notes = Vec::new();
    for line in &step.lines {
        match line
            .strip_prefix("    ")
            .map(|inner| (inner, tap_line(inner)))
        {
            Some((_, Some(test))) => {
                let mut notes = std::mem::take(&mut notes);
                if test.verdict == Verdict::Fail {
                    notes.push(format!("{FATAL}: a KUnit test fails"));
                }
                tests.push(Test {
                    name: format!("KUnit: {}", test.name),
                    notes,
                    ..test
                });
            }
            Some((inner, None)) => notes.push(inner.to_string()),
            None => {}
        }
    }
    if tests.is_empty() || !step.ending.success() {
        tests.push(Test {
            name: format!("KUnit tells its results: {}", step.ending),
            verdict: Verdict::Fail,
            notes: step
                .lines
                .iter()
                .cloned()
                .chain([format!("{FATAL}: KUnit has no results")])
                .collect(),
        });
    }
    tests
}

fn tap_line(line: &str) -> Option<Test> {
    let (ok, rest) = if let Some(rest) = line.strip_prefix("ok ") {
        (true, rest)
    } else {
        (false, line.strip_prefix("not ok ")?)
    };
    let rest = rest.trim_start();
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    if digits == 0 {
        return None;
    }
    let rest = rest[digits..].trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = rest.split_once('#').unwrap_or((rest, ""));
    let (directive, mut name) = (directive.trim_start(), name.trim());
    if name.is_empty() {
        // A case that skips itself gives the reason in the place of its name.
        name = directive;
    }
    let directive = directive.to_ascii_uppercase();
    let verdict = match (ok, directive) {
        (true, directive) if directive.starts_with("SKIP") => Verdict::Skip,
        (_, directive) if directive.starts_with("XFAIL") || directive.starts_with("TODO") => {
            Verdict::Skip
        }
        (true, _) => Verdict::Pass,
        (false, _) => Verdict::Fail,
    };
    Some(Test {
        name: name.to_string(),
        verdict,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report
    }

    fn step(ending: Ending, text: &str) -> StepReport {
        StepReport {
            name: "shares".into(),
            lines: text.lines().map(String::from).collect(),
            ending,
        }
    }

    #[test]
    fn a_whole_report_is_understood() {
        let report = report(
            "ready\nbegin a\nout a hello  world\nout a \nout a\nend a exit=0\nbegin b\n\
             end b signal=11\nbegin c\nend c timeout\ntaint 512\ndone\n",
        );
        assert!(report.ready && report.done);
        assert_eq!(report.taint, Some(512));
        let a = report.find("a").unwrap();
        assert_eq!(a.lines, ["hello  world", "", ""]);
        assert!(a.ending.success());
        assert_eq!(report.find("b").unwrap().ending, Ending::Signal(11));
        assert_eq!(report.find("c").unwrap().ending, Ending::Timeout);
        assert!(report.strange.is_empty());
    }

    #[test]
    fn a_guest_that_stops_leaves_its_step_unfinished_and_is_not_done() {
        let report = report("ready\nbegin a\nout a metric x 1 s\n");
        assert!(!report.done);
        assert_eq!(report.steps[0].ending, Ending::Unfinished);
        assert_eq!(report.taint, None);
    }

    #[test]
    fn lines_of_no_protocol_are_kept_apart() {
        let report = report("hello\nout nobody text\nend a exit=0\nbegin\ntaint x\n");
        assert_eq!(report.strange.len(), 5);
        assert!(report.steps.is_empty());
    }

    #[test]
    fn metrics_are_collected_over_rounds() {
        let lines: Vec<String> = [
            "metric fork 10 instructions",
            "chatter",
            "metric fork 12.5 instructions",
            "metric faults 3",
        ]
        .map(String::from)
        .to_vec();
        let mut found = BTreeMap::new();
        metrics(&lines, &mut found).unwrap();
        assert_eq!(found["fork"].values, [10.0, 12.5]);
        assert_eq!(found["fork"].unit, "instructions");
        assert_eq!(found["faults"].unit, "");
        for bad in ["metric fork", "metric fork ten s", "metric fork NaN s"] {
            assert!(metrics(&[bad.to_string()], &mut found).is_err(), "{bad}");
        }
    }

    #[test]
    fn tap_is_counted_with_skips_and_reasons() {
        let tests = tap(&step(
            Ending::Exit(1),
            "TAP version 13\n1..4\nok 1 child sees it\n# parent saw 3\nnot ok 2 - parent sees it\n\
             ok 3 # SKIP no swap\nnot ok 4 later # TODO\n",
        ));
        let verdicts: Vec<_> = tests.iter().map(|test| test.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Pass, Verdict::Fail, Verdict::Skip, Verdict::Skip]
        );
        assert_eq!(tests[1].name, "parent sees it");
        assert_eq!(tests[2].name, "SKIP no swap");
        assert_eq!(tests[1].notes, ["# parent saw 3"]);
    }

    #[test]
    fn a_stream_that_is_incomplete_is_a_failure() {
        let cases = [
            (Ending::Exit(0), "1..2\nok 1 a\n", "1 of 2"),
            (Ending::Exit(0), "ok 1 a\n", "no plan"),
            (Ending::Exit(0), "", "no plan"),
            (Ending::Exit(1), "1..1\nok 1 a\n", "status 1"),
            (Ending::Signal(11), "1..1\nok 1 a\n", "signal 11"),
            (Ending::Timeout, "1..2\nok 1 a\n", "time limit"),
            (Ending::Unfinished, "1..1\nok 1 a\n", "before it did"),
        ];
        for (ending, text, word) in cases {
            let tests = tap(&step(ending, text));
            let last = tests.last().unwrap();
            assert_eq!(last.verdict, Verdict::Fail, "{text}");
            assert!(last.name.contains(word), "{} has no {word}", last.name);
        }
    }

    #[test]
    fn a_program_that_skips_as_a_whole_is_one_skip() {
        for (ending, text) in [
            (Ending::Exit(4), "TAP version 13\n# no cohort\n"),
            (Ending::Exit(0), "1..0 # SKIP no cohort\n"),
        ] {
            let tests = tap(&step(ending, text));
            assert_eq!(tests.len(), 1);
            assert_eq!(tests[0].verdict, Verdict::Skip);
        }
    }

    #[test]
    fn kunit_counts_cases_and_not_suites_or_parameters() {
        let text = "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: cohort\n    1..2\n    \
            ok 1 range\n        ok 1 of 4\n    # range: EXPECTATION FAILED\n    not ok 2 hole\n\
            not ok 1 cohort\n";
        let tests = kunit(&step(Ending::Exit(0), text));
        let names: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["KUnit: range", "KUnit: hole"]);
        assert_eq!(tests[1].verdict, Verdict::Fail);
        assert!(
            tests[1].notes[1].contains("EXPECTATION"),
            "{:?}",
            tests[1].notes
        );
        for (ending, text) in [(Ending::Exit(0), ""), (Ending::Exit(1), text)] {
            let tests = kunit(&step(ending, text));
            assert_eq!(tests.last().unwrap().verdict, Verdict::Fail);
            assert!(tests.last().unwrap().name.contains("results"));
        }
    }

    #[test]
    fn a_nested_result_is_not_counted_twice() {
        let tests = tap(&step(
            Ending::Exit(0),
            "1..1\n    ok 1 inner\n    not ok 2 inner\nok 1 outer\n",
        ));
        assert_eq!(tests.len(), 1);
    }
}
