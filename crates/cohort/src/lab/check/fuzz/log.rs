// SPDX-License-Identifier: GPL-2.0-or-later
//! What the fuzzer in the guest prints, and the list of commands that it ran.

use crate::lab::guest::protocol::{self, Ending, Metric, StepReport};
use crate::lab::guest::run::{End, Outcome};
use std::collections::BTreeMap;
use std::fmt;

/// Commands that are handed out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The words after `round`: how they run, and which process is killed meanwhile.
    pub how: String,
    /// One command per line, as the fuzzer prints and reads them.
    pub commands: Vec<String>,
}

/// The commands of a run in order, which `fuzz --replay` reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// How workers start and who joins tables, as the words after `exec`; absent if they are
    /// forked alone.
    pub exec: Option<String>,
    /// The rounds.
    pub rounds: Vec<Round>,
}

impl Script {
    /// The commands that `fuzz --log` printed.
    pub fn from_log(lines: &[String]) -> Self {
        Self::parse(
            lines
                .iter()
                .filter_map(|line| line.strip_prefix("> "))
                .map(str::to_string),
        )
    }

    /// The commands in a file for `--replay`.
    pub fn from_file(text: &str) -> Self {
        Self::parse(
            text.lines()
                .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
                .map(str::to_string),
        )
    }

    fn parse(lines: impl Iterator<Item = String>) -> Self {
        let mut script = Script::default();
        for line in lines {
            if let Some(words) = line.strip_prefix("exec ") {
                script.exec = Some(words.to_string());
            } else if let Some(how) = line.strip_prefix("round ") {
                script.rounds.push(Round {
                    how: how.to_string(),
                    commands: Vec::new(),
                });
            } else if let Some(round) = script.rounds.last_mut() {
                round.commands.push(line);
            }
        }
        script
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.rounds.iter().map(|round| round.commands.len()).sum()
    }

    /// The commands for whose number `keep` is true, in the rounds they were in.
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Script {
        let mut number = 0;
        let mut rounds = Vec::new();
        for round in &self.rounds {
            let commands: Vec<String> = round
                .commands
                .iter()
                .filter(|_| {
                    number += 1;
                    keep(number - 1)
                })
                .cloned()
                .collect();
            if !commands.is_empty() {
                rounds.push(Round {
                    how: round.how.clone(),
                    commands,
                });
            }
        }
        Script {
            exec: self.exec.clone(),
            rounds,
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = &self.exec {
            writeln!(f, "exec {words}")?;
        }
        for round in &self.rounds {
            writeln!(f, "round {}", round.how)?;
            for command in &round.commands {
                writeln!(f, "{command}")?;
            }
        }
        Ok(())
    }
}

/// The kind of mistake that a run ended with: shortening must not turn one into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process saw what it must not, or the accounts disagree.
    Oracle,
    /// The kernel complained, or panicked.
    Kernel,
    /// The guest, or a process in it, hung.
    Hang,
}

/// A mistake, with where it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    /// In words.
    pub message: String,
    /// The seed of the run.
    pub seed: Option<u64>,
    /// The episode that was running.
    pub episode: Option<u32>,
}

/// The failure of one step of a guest, if it failed. Complaints and the guest's end are
/// taken to be of its last step.
pub fn failure(outcome: &Outcome, step: &StepReport, last: bool) -> Option<Failure> {
    let (mut seed, mut episode, mut words) = (None, None, None);
    for line in &step.lines {
        if let Some(rest) = line.strip_prefix("# seed ") {
            let mut parts = rest.split_whitespace();
            seed = parts.next().and_then(|word| word.parse().ok());
            episode = parts.nth(1).and_then(|word| word.parse().ok());
        } else if let Some(rest) = line.strip_prefix("# FAIL ") {
            words = Some(rest.split_once(": ").map_or(rest, |(_, what)| what));
        } else if let Some(rest) = line.strip_prefix("# fuzz: ") {
            words = Some(rest);
        }
    }
    let make = |kind, message: String| {
        Some(Failure {
            kind,
            message,
            seed,
            episode,
        })
    };
    if let Some(words) = words {
        let kind = match words.ends_with(" hangs") {
            true => Kind::Hang,
            false => Kind::Oracle,
        };
        return make(kind, words.to_string());
    }
    if last {
        if let Some(first) = outcome.complaints.first() {
            return make(Kind::Kernel, strip_time(first).to_string());
        }
        match &outcome.end {
            End::Done => {}
            End::Hung(_) => return make(Kind::Hang, outcome.problem().unwrap_or_default()),
            _ => return make(Kind::Kernel, outcome.problem().unwrap_or_default()),
        }
    }
    match step.ending {
        Ending::Exit(0) => None,
        Ending::Timeout => make(Kind::Hang, step.ending.to_string()),
        other => make(Kind::Oracle, other.to_string()),
    }
}

/// A line of the kernel's log without its time.
fn strip_time(line: &str) -> &str {
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, words)) => words.trim(),
        None => line,
    }
}

/// The sums of what the fuzzer measured in all steps of a guest.
pub fn totals(steps: &[StepReport]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for step in steps {
        let mut found: BTreeMap<String, Metric> = BTreeMap::new();
        if protocol::metrics(&step.lines, &mut found).is_err() || found.is_empty() {
            // It was ended early: use the last figures that it printed.
            let said = step.lines.iter().rev().find_map(|line| {
                line.strip_prefix("# ")?
                    .split_once(" operations, ")?
                    .0
                    .parse::<f64>()
                    .ok()
            });
            *sums.entry("operations".into()).or_default() += said.unwrap_or(0.0);
        }
        for (name, metric) in found {
            let sum = sums.entry(name).or_default();
            for value in metric.values {
                *sum += value;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn step(ending: Ending, text: &str) -> StepReport {
        StepReport {
            name: "fuzz".into(),
            lines: text.lines().map(String::from).collect(),
            ending,
        }
    }

    fn outcome(end: End, complaints: &[&str]) -> Outcome {
        Outcome {
            report: Default::default(),
            end,
            complaints: complaints.iter().map(|line| line.to_string()).collect(),
            console: PathBuf::from("console.log"),
        }
    }

    const LOG: &str = "# seed 3 episode 1\n> round serial -1\n> 0 MAP 0 512 0 0 3\n> 0 FORK 0 0 1 0 0\n\
                       > round race 2\n> 1 WRITE 0 4 1 15 0\n";

    #[test]
    fn a_script_survives_log_and_file() {
        let lines: Vec<String> = LOG.lines().map(String::from).collect();
        let script = Script::from_log(&lines);
        assert_eq!(script.len(), 3);
        assert_eq!(script.rounds[1].how, "race 2");
        assert_eq!(
            Script::from_file(&format!("# note\n\n{script}")).to_string(),
            script.to_string()
        );
    }

    #[test]
    fn a_part_of_a_script_keeps_its_rounds_and_drops_empty_ones() {
        let lines: Vec<String> = LOG.lines().map(String::from).collect();
        let script = Script::from_log(&lines);
        let part = script.only(|number| number == 2);
        assert_eq!(part.to_string(), "round race 2\n1 WRITE 0 4 1 15 0\n");
        assert_eq!(script.only(|_| true), script);
    }

    #[test]
    fn a_script_keeps_how_its_workers_start() {
        let log = format!("> exec random user\n{LOG}");
        let lines: Vec<String> = log.lines().map(String::from).collect();
        let script = Script::from_log(&lines);
        assert_eq!(script.len(), 3);
        let part = script.only(|number| number == 2).to_string();
        assert_eq!(part, "exec random user\nround race 2\n1 WRITE 0 4 1 15 0\n");
        assert_eq!(Script::from_file(&part).to_string(), part);
    }

    #[test]
    fn a_clean_step_has_no_failure() {
        let clean = step(Ending::Exit(0), LOG);
        assert_eq!(failure(&outcome(End::Done, &[]), &clean, true), None);
    }

    #[test]
    fn the_oracles_words_come_with_seed_and_episode() {
        let text = "# seed 3 episode 7\n# FAIL seed 3 episode 7 operation 12: 4 CHECK 1 1 0 0 0: the \
                    page 1 holds x\n";
        let found = failure(
            &outcome(End::Done, &[]),
            &step(Ending::Exit(1), text),
            false,
        )
        .unwrap();
        assert_eq!(found.kind, Kind::Oracle);
        assert_eq!(found.message, "4 CHECK 1 1 0 0 0: the page 1 holds x");
        assert_eq!((found.seed, found.episode), (Some(3), Some(7)));
    }

    #[test]
    fn a_panic_is_the_last_steps_and_of_the_episode_it_was_at() {
        let guest = outcome(
            End::Panic("kernel: panic_on_warn set ...".into()),
            &["[  12.000] WARNING: CPU: 0 PID: 9 at mm/cohort/core.c:1"],
        );
        let at = step(Ending::Unfinished, "# seed 5 episode 2\n");
        let found = failure(&guest, &at, true).unwrap();
        assert_eq!(found.kind, Kind::Kernel);
        assert!(found.message.starts_with("WARNING: CPU"), "{found:?}");
        assert_eq!(found.episode, Some(2));
        assert_eq!(failure(&guest, &step(Ending::Exit(0), ""), false), None);
    }

    #[test]
    fn a_guest_that_hangs_and_a_process_that_hangs_are_hangs() {
        let guest = outcome(End::Hung("of 9 s in the step fuzz".into()), &[]);
        let found = failure(&guest, &step(Ending::Unfinished, ""), true).unwrap();
        assert_eq!(found.kind, Kind::Hang);
        let text = "# FAIL seed 1 episode 1 operation 9: process 3 hangs\n";
        let found = failure(
            &outcome(End::Done, &[]),
            &step(Ending::Exit(1), text),
            false,
        )
        .unwrap();
        assert_eq!(found.kind, Kind::Hang);
    }

    #[test]
    fn operations_are_summed_also_of_a_step_that_was_ended() {
        let done = step(
            Ending::Exit(0),
            "metric operations 100 operations\nmetric forks 3 forks\n",
        );
        let ended = step(
            Ending::Unfinished,
            "# 40 operations, 1 episodes, 10 s\n# seed 1 episode 2\n",
        );
        let sums = totals(&[done, ended]);
        assert_eq!(sums["operations"], 140.0);
        assert_eq!(sums["forks"], 3.0);
    }
}
