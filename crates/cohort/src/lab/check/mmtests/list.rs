// SPDX-License-Identifier: GPL-2.0-or-later
//! The list of the kernel's own tests, `guest/kernel-tests/tests.toml`.

use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use regex::Regex;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where the list and the guest's scripts are.
pub const DIR: &str = "guest/kernel-tests";
/// Guest seconds for a test that names no other limit.
const TIMEOUT: u64 = 300;

/// The whole list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The output of programs that print no TAP, by name.
    #[serde(default)]
    pub formats: BTreeMap<String, Format>,
    /// The tests, in the order they run.
    #[serde(rename = "test")]
    pub tests: Vec<TestProgram>,
    /// Differences that are right, each with its reason.
    #[serde(rename = "expected", default)]
    pub expected: Vec<Expected>,
}

/// How one program's lines report its verdicts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// Begins a section, whose name is put before all that follow.
    #[serde(default, deserialize_with = "maybe_regex")]
    pub section: Option<Regex>,
    /// A verdict, with the groups `name` and `verdict`.
    #[serde(deserialize_with = "a_regex")]
    pub case: Regex,
    /// The verdict's word for a test that holds.
    pub pass: String,
    /// And for one that could not be asked. Every other word is a failure.
    pub skip: String,
}

/// One program with its arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestProgram {
    /// One word.
    pub name: String,
    /// A directory of `tools/testing/selftests`.
    pub suite: String,
    /// For the guest's shell, in that directory; `./NAME` without it.
    command: Option<String>,
    /// The architectures that its program is built for, by the kernel's names; all without it.
    arch: Option<Vec<String>>,
    /// `tap`, `exit` or one of [`List::formats`].
    #[serde(default = "tap")]
    pub format: String,
    /// Guest seconds.
    #[serde(default = "timeout")]
    pub timeout: u64,
    /// Huge pages that are reserved before it starts.
    #[serde(default)]
    pub hugepages: u32,
    /// The part of its cases' names that differs from run to run.
    #[serde(default, deserialize_with = "maybe_regex")]
    pub varies: Option<Regex>,
    /// Part of the short run.
    #[serde(default)]
    pub short: bool,
}

/// Verdicts that may differ, and why that is right.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The test's name.
    pub test: String,
    /// The cases, as a regular expression.
    #[serde(deserialize_with = "a_regex")]
    pub case: Regex,
    /// Why.
    pub reason: String,
}

fn tap() -> String {
    "tap".into()
}

fn timeout() -> u64 {
    TIMEOUT
}

fn a_regex<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&text).map_err(serde::de::Error::custom)
}

fn maybe_regex<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    a_regex(from).map(Some)
}

impl TestProgram {
    /// For the guest's shell, in the suite's directory.
    pub fn command(&self) -> String {
        match &self.command {
            Some(command) => command.clone(),
            None => format!("./{}", self.name),
        }
    }

    /// Whether its program is built for `arch`.
    pub fn is_for(&self, arch: Arch) -> bool {
        let Some(names) = &self.arch else {
            return true;
        };
        let build = arch.kernel.as_ref();
        build.is_some_and(|build| names.iter().any(|name| name == build.make))
    }

    /// The programs of the suite that the command starts: its words with a `./` or a directory
    /// of the suite in front.
    pub fn programs(&self) -> Vec<String> {
        self.command()
            .split([' ', ';'])
            .filter_map(|word| {
                word.strip_prefix("./")
                    .or_else(|| word.starts_with("functional/").then_some(word))
            })
            .map(String::from)
            .collect()
    }
}

/// Reads and checks the list.
pub fn load(lab: &Lab) -> Result<List> {
    let path = lab.path(DIR).join("tests.toml");
    let list = parse(&files::read(&path)?);
    list.with_context(|| format!("{} is not a list of tests", path.display()))
}

fn parse(text: &str) -> Result<List> {
    let list: List = toml::from_str(text)?;
    let mut names = BTreeSet::new();
    let known: BTreeSet<&str> = Arch::all()
        .filter_map(|arch| Some(arch.facts().kernel.as_ref()?.make))
        .collect();
    for test in &list.tests {
        let name = &test.name;
        if name.is_empty() || name.contains(char::is_whitespace) || !names.insert(name.as_str()) {
            bail!("a test's name must be one word that no other has: `{name}`");
        }
        if !matches!(test.format.as_str(), "tap" | "exit")
            && !list.formats.contains_key(&test.format)
        {
            bail!("test {name}: there is no format `{}`", test.format);
        }
        if test.programs().is_empty() {
            bail!("test {name}: its command starts no program of the suite (./PROGRAM)");
        }
        for word in test.arch.iter().flatten() {
            if !known.contains(word.as_str()) {
                let known: Vec<&str> = known.iter().copied().collect();
                bail!(
                    "test {name}: the lab builds no kernel with ARCH={word}; `arch` may name: {}",
                    known.join(", ")
                );
            }
        }
        if test.command().contains(['\n', '\'']) {
            bail!("test {name}: its command must be one line without single quotes");
        }
    }
    for (name, format) in &list.formats {
        for group in ["name", "verdict"] {
            if !format.case.capture_names().flatten().any(|it| it == group) {
                bail!("format {name}: its `case` has no group `{group}`");
            }
        }
    }
    for expected in &list.expected {
        if !names.contains(expected.test.as_str()) || expected.reason.trim().is_empty() {
            bail!(
                "an expected difference needs a test of the list and a reason: `{}`",
                expected.test
            );
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[test]]\nname = 'cow'\nsuite = 'mm'\n";

    #[test]
    fn the_list_of_the_checkout_is_good() {
        let text = include_str!("../../../../../../guest/kernel-tests/tests.toml");
        let list = parse(text).unwrap();
        for suite in ["mm", "futex", "mqueue", "proc", "clone3", "pidfd", "cgroup"] {
            assert!(list.tests.iter().any(|test| test.suite == suite), "{suite}");
        }
        assert!(list.tests.iter().any(|test| test.short));
    }

    #[test]
    fn a_test_is_its_program_unless_it_says_otherwise() {
        let list = parse(GOOD).unwrap();
        assert_eq!(list.tests[0].command(), "./cow");
        assert_eq!(list.tests[0].programs(), ["cow"]);
        assert_eq!(
            (list.tests[0].format.as_str(), list.tests[0].timeout),
            ("tap", TIMEOUT)
        );
        let other = "[[test]]\nname = 'a'\nsuite = 'mm'\ncommand = 'echo 1 >/x; exec ./b -c'\n";
        assert_eq!(parse(other).unwrap().tests[0].programs(), ["b"]);
    }

    #[test]
    fn a_test_is_for_the_architectures_that_it_names_and_else_for_all() {
        let list = parse(&format!(
            "{GOOD}[[test]]\nname = 'keys'\nsuite = 'mm'\narch = ['arm64', 'x86_64']\n"
        ))
        .unwrap();
        let is_for = |test: usize, arch: &str| list.tests[test].is_for(arch.parse().unwrap());
        assert!(is_for(0, "amd64") && is_for(0, "armv7"));
        assert!(is_for(1, "amd64") && is_for(1, "arm64") && is_for(1, "arm64-39"));
        assert!(!is_for(1, "armv7") && !is_for(1, "armv7-lpae"));
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_name() {
        let cases = [
            (format!("{GOOD}{GOOD}"), "`cow`"),
            (format!("{GOOD}format = 'x'\n"), "no format `x`"),
            (format!("{GOOD}arch = ['m68k']\n"), "ARCH=m68k"),
            (format!("{GOOD}command = 'true'\n"), "starts no program"),
            (format!("{GOOD}command = \"./a '\"\n"), "single quotes"),
            (
                format!("{GOOD}[[expected]]\ntest = 'b'\ncase = 'x'\nreason = 'y'\n"),
                "`b`",
            ),
            (
                format!("{GOOD}[[expected]]\ntest = 'cow'\ncase = 'x'\nreason = ' '\n"),
                "reason",
            ),
            (
                format!("{GOOD}[formats.f]\ncase = '(?<name>.)'\npass = 'p'\nskip = 's'\n"),
                "`verdict`",
            ),
            (
                format!("{GOOD}[[expected]]\ntest = 'cow'\ncase = '('\nreason = 'y'\n"),
                "regex",
            ),
        ];
        for (text, word) in cases {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(word), "{error} has no {word}");
        }
    }
}
