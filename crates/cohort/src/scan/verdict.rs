// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether to act: the gains in units people have, held against thresholds.

use super::cell::{plural, size};
use super::compared::Compared;
use super::fork_time::ForkTime;
use super::report::Report;
use super::section::GroupReport;
use crate::show::number;
use serde::Serialize;

/// Shares of the machine's memory, in percent: worth it, and perhaps.
const MEMORY: [f64; 2] = [1.0, 0.1];
/// Seconds that a fork would be shorter. A pause of 10 ms is seen by whoever waits for the process.
const FORK: [f64; 2] = [0.010, 0.0005];
/// Faults per second: at about a microsecond each, 1 % and 0.1 % of a processor.
const FAULTS: [f64; 2] = [10_000.0, 1_000.0];
/// How full larger pages must be to count as a gain, in percent.
const FULL: f64 = 75.0;

/// The answer in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Worth {
    /// Too little could be compared to say.
    #[default]
    Unknown,
    No,
    Perhaps,
    #[serde(rename = "worth-it")]
    Yes,
}

impl Worth {
    pub fn label(self) -> &'static str {
        match self {
            Worth::Unknown => "not known",
            Worth::No => "no",
            Worth::Perhaps => "perhaps",
            Worth::Yes => "worth it",
        }
    }

    fn of(value: f64, [worth, perhaps]: [f64; 2]) -> Worth {
        match value {
            value if value >= worth => Worth::Yes,
            value if value >= perhaps => Worth::Perhaps,
            _ => Worth::No,
        }
    }
}

/// Larger pages in the regions that they would fill well.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Larger {
    pub page_bytes: u64,
    /// Entries of all regions now.
    pub entries: u64,
    pub entries_saved: u64,
    /// Memory that they would take beyond what is used.
    pub wasted_bytes: u64,
}

/// The gains, and the verdict on them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    pub worth: Worth,
    /// The savings are lower bounds.
    pub at_least: bool,
    /// Memory of page tables that sharing would save in all groups.
    pub saved_bytes: u64,
    /// In percent of the machine's memory, where that is known.
    pub saved_percent: Option<f64>,
    /// A stock fork of the group that would save most, measured on this machine.
    pub fork: Option<ForkTime>,
    /// Page faults that sharing would have spared the processes so far.
    pub faults_saved: u64,
    /// Page faults per second that it would spare, from the rate in the interval.
    pub faults_per_second: Option<f64>,
    /// Memory that merging equal pages would free, where contents were read.
    pub merging_bytes: Option<u64>,
    pub merging_percent: Option<f64>,
    pub larger_pages: Option<Larger>,
    /// What to do next.
    pub next: String,
}

/// The group of several processes that would save most, if any would save anything.
pub fn best(groups: &[GroupReport]) -> Option<&GroupReport> {
    let several = groups.iter().filter(|group| group.processes > 1);
    let gain = |group: &&GroupReport| (group.ptps.saved_bytes, group.fork.faults_saved);
    several
        .max_by_key(gain)
        .filter(|group| gain(group) > (0, 0))
}

impl Verdict {
    /// From a report whose contents, if they were asked for, are there.
    pub fn new(report: &Report, fork: Option<ForkTime>) -> Verdict {
        let saved_bytes = report
            .groups
            .iter()
            .map(|group| group.ptps.saved_bytes)
            .sum();
        let percent = |bytes: u64| {
            let memory = report.memory_bytes.filter(|bytes| *bytes > 0)?;
            Some(100.0 * bytes as f64 / memory as f64)
        };
        let merging_bytes = report
            .total
            .merging
            .as_ref()
            .and_then(|found| found.freed_bytes);
        let compared = &report.compared;
        let mut verdict = Verdict {
            at_least: compared.frames_hidden
                || compared.program_hidden > 0
                || !compared.parents_left_out.is_empty(),
            saved_bytes,
            saved_percent: percent(saved_bytes),
            fork,
            faults_saved: report
                .groups
                .iter()
                .map(|group| group.fork.faults_saved)
                .sum(),
            faults_per_second: faults_per_second(&report.groups),
            merging_bytes,
            merging_percent: merging_bytes.and_then(percent),
            larger_pages: larger(report),
            ..Verdict::default()
        };
        verdict.worth = verdict.judge(compared);
        verdict.next = verdict.next(report);
        verdict
    }

    /// What sharing page tables is worth.
    fn of_sharing(&self) -> Worth {
        let gains = [
            self.saved_percent.map(|percent| Worth::of(percent, MEMORY)),
            self.fork.map(|fork| Worth::of(fork.copy_seconds, FORK)),
            self.faults_per_second.map(|rate| Worth::of(rate, FAULTS)),
        ];
        gains.into_iter().flatten().max().unwrap_or(Worth::No)
    }

    /// What merging equal pages is worth.
    fn of_merging(&self) -> Worth {
        self.merging_percent
            .map_or(Worth::No, |percent| Worth::of(percent, MEMORY))
    }

    fn judge(&self, compared: &Compared) -> Worth {
        // How much faster fewer entries make a program, no snapshot shows.
        let larger = self.larger_pages.map_or(Worth::No, |_| Worth::Perhaps);
        let best = self.of_sharing().max(self.of_merging()).max(larger);
        let unsure = self.nothing() && compared.missing().is_some() || compared.frames_hidden;
        match best {
            Worth::No if unsure => Worth::Unknown,
            best => best,
        }
    }

    /// Whether sharing would save nothing that was seen.
    pub fn nothing(&self) -> bool {
        self.saved_bytes == 0 && self.faults_saved == 0
    }

    fn next(&self, report: &Report) -> String {
        if let Some(missing) = self.missing(report) {
            return format!("run {}", missing.instead);
        }
        match self.worth {
            Worth::Unknown => "run it as root on the host, which sees page frames".into(),
            Worth::No if report.content.is_none() => {
                "nothing; `cohort scan --content` shows what merging equal pages would free".into()
            }
            Worth::No => "nothing".into(),
            worth if self.of_sharing() == worth => with_our_kernel("cohort run -- COMMAND"),
            worth if self.of_merging() == worth => {
                "start the service with `cohort run --merge -- COMMAND`; this needs Linux 6.4 or \
                 later"
                    .into()
            }
            Worth::Perhaps | Worth::Yes => {
                let bytes = self.larger_pages.map_or(0, |larger| larger.page_bytes);
                with_our_kernel(&format!("cohort run --order {}K -- COMMAND", bytes >> 10))
            }
        }
    }

    fn missing(&self, report: &Report) -> Option<super::compared::Missing> {
        report.compared.missing().filter(|_| self.nothing())
    }

    /// The sentences of the answer.
    pub fn answer(&self, report: &Report) -> String {
        let mut sentences = vec![self.sharing(report)];
        if let Some(fork) = self.fork {
            let spared = match milliseconds(fork.copy_seconds).as_str() {
                "0 ms" => String::new(),
                spared => format!(", of which sharing spares up to {spared}"),
            };
            sentences.push(format!(
                "A fork that copies {} entries takes {} on this machine{spared}.",
                number(fork.entries as f64),
                milliseconds(fork.seconds),
            ));
        }
        match self.faults_per_second {
            Some(rate) if rate >= 1.0 => {
                sentences.push(format!(
                    "About {} faults per second fewer.",
                    number(rate.round())
                ));
            }
            _ if self.faults_saved > 0 => sentences.push(format!(
                "Its processes would have been spared {} page faults since they started.",
                number(self.faults_saved as f64)
            )),
            _ => {}
        }
        if let Some(bytes) = self.merging_bytes {
            sentences.push(format!(
                "Merging equal pages would free {}{}.",
                size(bytes),
                share(self.merging_percent)
            ));
        }
        sentences.extend(report.total.join_sentence(report.page_bytes));
        if let Some(larger) = self.larger_pages {
            sentences.push(format!(
                "Pages of {} would spare {:.0} % of the {} entries for {} more memory.",
                size(larger.page_bytes),
                100.0 * larger.entries_saved as f64 / larger.entries.max(1) as f64,
                number(larger.entries as f64),
                size(larger.wasted_bytes)
            ));
        }
        sentences.join(" ")
    }

    fn sharing(&self, report: &Report) -> String {
        if let Some(missing) = self.missing(report) {
            // Joins are compared whoever was forked from whom.
            let what = match report.joins {
                None => "Nothing could be compared",
                Some(_) => "What forks would share could not be compared",
            };
            return format!("{what}: {}.", missing.why);
        }
        if self.nothing() && !self.at_least {
            return match report.compared.groups {
                0 => "Nothing to gain from sharing page tables: no process was forked from \
                      another that was read, without an exec."
                    .into(),
                _ => "Nothing to gain from sharing page tables: no process would use a table of \
                      another."
                    .into(),
            };
        }
        if self.saved_bytes == 0 {
            let known = if self.at_least {
                "is known to"
            } else {
                "would"
            };
            return format!(
                "No memory of page tables {known} be saved if Cohort's kernel forked these \
                 processes."
            );
        }
        let mut text = format!(
            "{}{} of page tables{} would not be needed if Cohort's kernel forked these processes",
            if self.at_least { "At least " } else { "" },
            size(self.saved_bytes),
            share(self.saved_percent)
        );
        if let Some(best) = best(&report.groups) {
            text.push_str(&format!(
                ", {} of that in {} ({})",
                size(best.ptps.saved_bytes),
                super::cell::shorten(&best.label, 60),
                plural(best.processes, "process", "processes")
            ));
            if best.ptps.touched_bytes > best.ptps.saved_bytes {
                text.push_str(&format!(
                    ", or {} if its first process touches its memory before it forks",
                    size(best.ptps.touched_bytes)
                ));
            }
        }
        text + "."
    }
}

/// The next step where Cohort's kernel has what brings the gain.
fn with_our_kernel(command: &str) -> String {
    format!(
        "this needs Cohort's kernel, a patched Linux 6.12: build it and try it in a guest with \
         `cohort lab`, then start the service with `{command}`"
    )
}

/// A share of the machine's memory, in brackets.
fn share(percent: Option<f64>) -> String {
    match percent {
        None => String::new(),
        Some(percent) if percent < 0.01 => " (less than 0.01 % of the machine's memory)".into(),
        Some(percent) => format!(" ({percent:.2} % of the machine's memory)"),
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{} ms", number((seconds * 1e5).round() / 100.0))
}

/// The rate of faults in the interval times the part of all faults so far that sharing would have
/// spared.
fn faults_per_second(groups: &[GroupReport]) -> Option<f64> {
    let rates = groups.iter().filter_map(|group| {
        let rate = group.fork.faults_per_second?;
        let part = group.fork.faults_saved as f64 / group.fork.faults.max(1) as f64;
        Some(rate * part.min(1.0))
    });
    rates.reduce(|a, b| a + b)
}

/// Pages of 64 KB where they would be well filled, if that is a large part of the machine's memory.
fn larger(report: &Report) -> Option<Larger> {
    let mut larger = Larger::default();
    for fill in &report.total.larger_pages.0 {
        larger.entries += fill.small.pages;
        if fill.small.full_percent >= FULL && fill.small.bytes > report.page_bytes {
            larger.page_bytes = fill.small.bytes;
            larger.entries_saved += fill.small.entries_saved;
            larger.wasted_bytes += fill.small.wasted_bytes;
        }
    }
    let memory = report.memory_bytes? as f64;
    let covered = 100.0 * (larger.entries_saved * report.page_bytes) as f64 / memory;
    (covered >= MEMORY[0]).then_some(larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::report::tests::{content, report};

    #[test]
    fn the_answer_is_in_units_people_have() {
        let mut report = report();
        report.memory_bytes = Some(800_000);
        report.conclude(Some(ForkTime {
            entries: 1000,
            seconds: 0.0031,
            copy_seconds: 0.0025,
        }));
        let answer = &report.answer;
        for part in [
            "8.0 KB",
            "1.02 %",
            "x -y",
            "2 processes",
            "3.10 ms",
            "2.50 ms",
        ] {
            assert!(answer.contains(part), "no {part} in: {answer}");
        }
        assert_eq!(report.verdict.worth, Worth::Yes);
        assert!(report.verdict.next.contains("patched Linux"));
    }

    #[test]
    fn each_gain_can_decide() {
        let mut report = report();
        report.memory_bytes = Some(1 << 40);
        let worth = |report: &mut Report, fork| {
            report.conclude(fork);
            report.verdict.worth
        };
        assert_eq!(worth(&mut report, None), Worth::No);
        let fork = |copy_seconds| {
            Some(ForkTime {
                entries: 9,
                seconds: 0.1,
                copy_seconds,
            })
        };
        assert_eq!(worth(&mut report, fork(0.02)), Worth::Yes);
        assert_eq!(worth(&mut report, fork(0.001)), Worth::Perhaps);
        // Half of its faults so far would have been spared, and it takes 3,000 a second.
        report.groups[0].fork.faults = 20;
        report.groups[0].fork.faults_saved = 10;
        report.groups[0].fork.faults_per_second = Some(3_000.0);
        assert_eq!(worth(&mut report, None), Worth::Perhaps);
        assert_eq!(report.verdict.faults_per_second, Some(1_500.0));
        report.groups[0].fork.faults_per_second = None;
        report.memory_bytes = Some(1 << 20);
        assert_eq!(worth(&mut report, None), Worth::Perhaps);
        assert!(report.verdict.next.contains("`cohort run -- COMMAND`"));
        report.add_content(content());
        assert_eq!(worth(&mut report, None), Worth::Yes);
        assert!(
            report
                .verdict
                .next
                .contains("`cohort run --merge -- COMMAND`")
        );
        assert!(
            report.answer.contains("free 12 KB (1.17 %"),
            "{}",
            report.answer
        );
    }

    #[test]
    fn no_saving_of_memory_is_not_a_size() {
        let mut report = report();
        report.groups[0].ptps.saved_bytes = 0;
        report.groups[0].fork.faults_saved = 5;
        report.conclude(Some(ForkTime {
            entries: 248,
            seconds: 0.00004,
            copy_seconds: 0.000001,
        }));
        let answer = &report.answer;
        assert!(
            answer.starts_with("No memory of page tables would be saved"),
            "{answer}"
        );
        assert!(
            answer.contains("takes 0.0400 ms on this machine."),
            "{answer}"
        );
        report.compared.frames_hidden = true;
        report.conclude(None);
        let answer = &report.answer;
        assert!(
            answer.starts_with("No memory of page tables is known to be saved"),
            "{answer}"
        );
        assert!(!answer.contains("0 B"), "{answer}");
    }

    #[test]
    fn the_next_step_is_for_the_gain_that_decided() {
        let mut report = report();
        report.memory_bytes = Some(1 << 40);
        report.groups[0].fork.faults_saved = 1;
        report.conclude(None);
        report.verdict.larger_pages = Some(Larger {
            page_bytes: 64 << 10,
            ..Larger::default()
        });
        report.verdict.worth = report.verdict.judge(&report.compared);
        assert_eq!(report.verdict.worth, Worth::Perhaps);
        let next = report.verdict.next(&report);
        assert!(
            next.contains("`cohort run --order 64K -- COMMAND`"),
            "{next}"
        );
    }

    #[test]
    fn hidden_frames_give_a_lower_bound() {
        let mut report = report();
        report.compared.frames_hidden = true;
        report.conclude(None);
        assert!(
            report.answer.starts_with("At least 8.0 KB"),
            "{}",
            report.answer
        );
        assert_eq!(report.verdict.worth, Worth::Unknown);
    }

    #[test]
    fn nothing_to_gain_is_said_only_where_all_was_compared() {
        let mut report = report();
        report.groups[0].ptps.saved_bytes = 0;
        report.conclude(None);
        assert!(
            report.answer.starts_with("Nothing to gain"),
            "{}",
            report.answer
        );
        assert_eq!(report.verdict.worth, Worth::No);
        report.compared.parents_left_out.insert(77);
        report.conclude(None);
        assert!(report.answer.starts_with("Nothing could be compared"));
        assert!(
            report.verdict.next.contains("--tree 77"),
            "{}",
            report.verdict.next
        );
        assert_eq!(report.verdict.worth, Worth::Unknown);
        report.compared.parents_left_out.clear();
        report.compared.processes = 1;
        report.conclude(None);
        assert!(report.answer.contains("one process was read"));
        report.compared.processes = 2;
        report.compared.each_alone = true;
        report.conclude(None);
        assert!(report.answer.contains("--by process"));
        report.compared.each_alone = false;
        report.compared.program_hidden = 1;
        report.conclude(None);
        assert!(report.verdict.next.contains("CAP_SYS_PTRACE"));
    }
}
