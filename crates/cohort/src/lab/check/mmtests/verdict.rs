// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdicts of the kernel's own tests, and how those of two kernels compare.

use crate::lab::check::mmtests::list::{Expected, Format, List, TestProgram};
use crate::lab::guest::protocol::{Ending, StepReport, Verdict, tap};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The case that stands for a program as a whole.
const WHOLE: &str = "(ends)";
/// The exit status of a test that cannot run (kselftest.h).
const SKIP: i32 = 4;

/// The answer of one case in one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It holds.
    Pass,
    /// It does not; with how the program ended, if that is the case.
    Fail(String),
    /// It could not run.
    Skip,
    /// The program did not come to it.
    Absent,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Pass => f.write_str("ok"),
            Answer::Fail(how) if how.is_empty() => f.write_str("FAIL"),
            Answer::Fail(how) => write!(f, "FAIL ({how})"),
            Answer::Skip => f.write_str("skip"),
            Answer::Absent => f.write_str("none"),
        }
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Answer::Pass,
            Verdict::Fail => Answer::Fail(String::new()),
            Verdict::Skip => Answer::Skip,
        }
    }
}

/// All answers of one run of one program, in order.
pub type Run = Vec<(String, Answer)>;

/// Reads what a program printed and how it ended. Two cases of one name are told apart by a
/// number, and numbers that differ from run to run (addresses, times) are left out of names.
pub fn read(list: &List, test: &TestProgram, step: &StepReport) -> Run {
    let cases: Run = match test.format.as_str() {
        "exit" => Vec::new(),
        "tap" => tap(step)
            .into_iter()
            .map(|test| (test.name, test.verdict.into()))
            .collect(),
        name => lines(&list.formats[name], &step.lines),
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut run: Run = cases
        .into_iter()
        .map(|(name, answer)| {
            let name = steady(&name, test.varies.as_ref());
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = match *count {
                1 => name,
                number => format!("{name} [{number}]"),
            };
            (name, answer)
        })
        .collect();
    run.push((
        WHOLE.into(),
        match step.ending {
            Ending::Exit(0) => Answer::Pass,
            Ending::Exit(SKIP) => Answer::Skip,
            Ending::Exit(status) => Answer::Fail(format!("status {status}")),
            Ending::Signal(number) => Answer::Fail(format!("signal {number}")),
            Ending::Timeout => Answer::Fail("too slow".into()),
            Ending::Unfinished => Answer::Fail("the guest ended".into()),
        },
    ));
    run
}

/// Reads the verdicts of a program with a format of its own.
fn lines(format: &Format, lines: &[String]) -> Run {
    let mut section = String::new();
    let mut run = Vec::new();
    for line in lines {
        if let Some(found) = format.section.as_ref().and_then(|it| it.captures(line)) {
            section = found
                .name("name")
                .map_or(String::new(), |name| format!("{}: ", name.as_str()));
        } else if let Some(found) = format.case.captures(line) {
            let answer = match &found["verdict"] {
                word if word == format.pass => Answer::Pass,
                word if word == format.skip => Answer::Skip,
                _ => Answer::Fail(String::new()),
            };
            run.push((format!("{section}{}", &found["name"]), answer));
        }
    }
    run
}

/// A name without addresses, and without what the list says varies.
fn steady(name: &str, varies: Option<&Regex>) -> String {
    let name = match varies {
        Some(varies) => varies.replace_all(name, "…"),
        None => name.into(),
    };
    let mut text = String::new();
    for word in name.split_whitespace() {
        if !text.is_empty() {
            text.push(' ');
        }
        let bare = word.trim_matches(|c: char| "()[],:".contains(c));
        match bare.strip_prefix("0x") {
            Some(digits)
                if digits.len() >= 6 && digits.chars().all(|digit| digit.is_ascii_hexdigit()) =>
            {
                text.push_str("0x…");
            }
            _ => text.push_str(word),
        }
    }
    text
}

/// How a case compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// One answer, the same on both.
    Equal,
    /// The stock kernel's answers vary, and ours gives none that stock does not.
    Flaky,
    /// Different, and the list says why this is right.
    Expected,
    /// Different.
    Differs,
}

/// One case on both kernels.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The test's name.
    pub test: String,
    /// The case's.
    pub case: String,
    /// Answers of the stock kernel, a run each.
    pub stock: Vec<Answer>,
    /// Answers of ours.
    pub cohort: Vec<Answer>,
    /// What to think of them.
    pub class: Class,
    /// Why a difference is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Compares all runs of one program on both kernels, case by case.
pub fn compare(test: &str, stock: &[Run], cohort: &[Run], expected: &[Expected]) -> Vec<Row> {
    let mut names: Vec<&str> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (name, _) in stock.iter().chain(cohort).flatten() {
        if known.insert(name.as_str()) {
            names.push(name);
        }
    }
    // The whole goes last, also where a first run broke off before cases of a later one.
    names.sort_by_key(|name| *name == WHOLE);
    let answers = |runs: &[Run], case: &str| -> Vec<Answer> {
        runs.iter()
            .map(|run| {
                run.iter()
                    .find(|(name, _)| name == case)
                    .map_or(Answer::Absent, |(_, answer)| answer.clone())
            })
            .collect()
    };
    names
        .into_iter()
        .map(|case| {
            let (stock, cohort) = (answers(stock, case), answers(cohort, case));
            let reason = expected
                .iter()
                .find(|it| it.test == test && it.case.is_match(case))
                .map(|it| it.reason.clone());
            let class = match (classify(&stock, &cohort), &reason) {
                (Class::Differs, Some(_)) => Class::Expected,
                (class, _) => class,
            };
            Row {
                test: test.into(),
                case: case.into(),
                stock,
                cohort,
                class,
                reason: reason.filter(|_| class == Class::Expected),
            }
        })
        .collect()
}

/// Ours may answer what the stock kernel does, and nothing else. A case that varies on ours
/// alone differs: that is what a race looks like.
fn classify(stock: &[Answer], cohort: &[Answer]) -> Class {
    let steady = stock.windows(2).all(|pair| pair[0] == pair[1]);
    let within = cohort.iter().all(|answer| stock.contains(answer));
    match (steady, within) {
        (true, true) => Class::Equal,
        (false, true) => Class::Flaky,
        (_, false) => Class::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{Absent, Fail, Pass, Skip};

    fn list() -> List {
        toml::from_str(
            "[formats.uffd]\ncase = '^Testing (?<name>.+)\\.\\.\\. (?<verdict>\\w+)'\n\
             pass = 'done'\nskip = 'skipped'\n\
             [formats.kh]\nsection = '^Run test: (?<name>.+)'\n\
             case = '^(?<name>.+)\\.\\.\\. (?<verdict>\\w+)'\npass = 'OK'\nskip = 'Skip'\n\
             [[test]]\nname = 'u'\nsuite = 'mm'\nformat = 'uffd'\n\
             [[test]]\nname = 'k'\nsuite = 'mm'\nformat = 'kh'\n\
             [[test]]\nname = 't'\nsuite = 'mm'\nvaries = 'count \\d+'\n\
             [[test]]\nname = 'e'\nsuite = 'mm'\nformat = 'exit'\n",
        )
        .unwrap()
    }

    fn run(number: usize, ending: Ending, text: &str) -> Run {
        let list = list();
        let step = StepReport {
            name: list.tests[number].name.clone(),
            lines: text.lines().map(String::from).collect(),
            ending,
        };
        read(&list, &list.tests[number], &step)
    }

    fn fail() -> Answer {
        Fail(String::new())
    }

    #[test]
    fn programs_of_their_own_format_are_understood() {
        let uffd = "Testing move on anon... done\nTesting pin... skipped [reason: no]\n\
            noise\nTesting wp... failed [reason: x]\n";
        assert_eq!(
            run(0, Ending::Exit(1), uffd),
            [
                ("move on anon".to_string(), Pass),
                ("pin".into(), Skip),
                ("wp".into(), fail()),
                (WHOLE.into(), Fail("status 1".into()))
            ]
        );
        let text = "Run test: full (a)\nCollapse... OK\nRun test: empty\nCollapse... Fail\n";
        assert_eq!(
            run(1, Ending::Signal(9), text),
            [
                ("full (a): Collapse".to_string(), Pass),
                ("empty: Collapse".into(), fail()),
                (WHOLE.into(), Fail("signal 9".into()))
            ]
        );
    }

    #[test]
    fn tap_keeps_names_apart_and_forgets_addresses() {
        let text =
            "1..3\nok 1 a at 0x7f0012345000\nok 2 a at 0x7f0098765000\nnot ok 3 b 0x10 count 17\n";
        assert_eq!(
            run(2, Ending::Exit(1), text),
            [
                ("a at 0x…".to_string(), Pass),
                ("a at 0x… [2]".into(), Pass),
                ("b 0x10 …".into(), fail()),
                (WHOLE.into(), Fail("status 1".into()))
            ]
        );
    }

    #[test]
    fn a_status_alone_is_a_verdict() {
        for (ending, answer) in [
            (Ending::Exit(0), Pass),
            (Ending::Exit(4), Skip),
            (Ending::Timeout, Fail("too slow".into())),
            (Ending::Unfinished, Fail("the guest ended".into())),
        ] {
            assert_eq!(run(3, ending, "chatter\n"), [(WHOLE.to_string(), answer)]);
        }
    }

    #[test]
    fn only_what_stock_answers_too_is_no_difference() {
        let cases = [
            (vec![Pass], vec![Pass], Class::Equal),
            (vec![fail(), fail()], vec![fail(), fail()], Class::Equal),
            (vec![Pass], vec![fail()], Class::Differs),
            (vec![fail()], vec![Pass], Class::Differs),
            (vec![Pass], vec![Absent], Class::Differs),
            (vec![Pass, fail()], vec![fail(), fail()], Class::Flaky),
            (vec![Pass, Pass], vec![fail(), Pass], Class::Differs),
            (vec![Pass, fail()], vec![Skip, Pass], Class::Differs),
            (
                vec![Fail("status 1".into())],
                vec![Fail("signal 11".into())],
                Class::Differs,
            ),
        ];
        for (stock, cohort, class) in cases {
            assert_eq!(classify(&stock, &cohort), class, "{stock:?} {cohort:?}");
        }
    }

    #[test]
    fn every_case_of_any_run_is_a_row_and_a_reason_excuses_only_its_own() {
        let first = vec![("a".to_string(), Pass), (WHOLE.to_string(), Pass)];
        let second = vec![
            ("a".to_string(), fail()),
            ("b".to_string(), Pass),
            (WHOLE.to_string(), Pass),
        ];
        let expected: Vec<Expected> = toml::from_str::<BTreeMap<String, Vec<Expected>>>(
            "expected = [{ test = 't', case = '^a$', reason = 'why' }]",
        )
        .unwrap()
        .remove("expected")
        .unwrap();
        let rows = compare("t", std::slice::from_ref(&first), &[second], &expected);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.case.as_str(), row.class))
            .collect();
        assert_eq!(
            found,
            [
                ("a", Class::Expected),
                ("b", Class::Differs),
                (WHOLE, Class::Equal)
            ]
        );
        assert_eq!(rows[0].reason.as_deref(), Some("why"));
        assert_eq!(rows[1].stock, [Absent]);
        assert!(
            compare(
                "u",
                std::slice::from_ref(&first),
                std::slice::from_ref(&first),
                &expected
            )
            .iter()
            .all(|row| row.class == Class::Equal)
        );
    }
}
