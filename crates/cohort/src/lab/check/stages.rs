// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab stages`: every test, stage by stage, each timed; what `make test` and
//! `make test-long` run.
//!
//! A stage that passed does not run again on exactly the same sources: its stamp is a hash of all
//! that it is made from. A fresh checkout has no stamps.

use super::tally::Tally;
use crate::lab::Lab;
use crate::lab::host::files;
use crate::lab::host::hash::Hasher;
use crate::lab::host::process::{Event, output, run_logged};
use crate::output::say;
use crate::show;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// How a stage says what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The stage is one test: its exit status.
    Status,
    /// `cargo test`: libtest's line for each test program.
    Libtest,
    /// A command of the lab: a tally.
    Tally,
}

/// One stage.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    counts: Counts,
    /// A program and its arguments; `cohort` is this program.
    command: &'static [&'static str],
    /// The files of the checkout that its verdict depends on; none for a stage that always runs.
    made_from: &'static [&'static str],
}

const RUST: &[&str] = &["crates", "Cargo.toml", "Cargo.lock"];
/// The tests of the crates read these too.
const HOST: &[&str] = &[
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "docs",
    "experiments",
    "guest",
    "kernel",
    "packaging",
    "papers",
    "results",
    "scripts",
    "Makefile",
    "README.md",
];
/// Sources of the packages.
const PACKAGE: &[&str] = &["crates", "Cargo.lock", "Makefile", "kernel", "packaging"];
/// Sources of the guests, and of the lab that judges them.
const GUEST: &[&str] = &[
    "crates/cohort/src/lab",
    "crates/cohort/guest",
    "crates/translation",
    "crates/qemu-plugin",
    "Cargo.lock",
    "guest",
    "kernel",
];

/// The same with all of the command line, which runs in the guest.
const RUST_AND_GUEST: &[&str] = &["crates", "Cargo.lock", "guest", "kernel"];

/// Tests in guests, which are counted.
const fn tests(name: &'static str, command: &'static [&'static str]) -> Stage {
    Stage {
        name,
        counts: Counts::Tally,
        command,
        made_from: GUEST,
    }
}

/// Counted tests of one of the lab's commands on another architecture.
macro_rules! on {
    ($arch:literal, $name:literal, $command:literal $(, $word:literal)*) => {
        tests(
            concat!($arch, ": ", $name),
            &["cohort", "lab", $command, "--arch", $arch $(, $word)*],
        )
    };
}

/// The fuzzer on another architecture, for an hour.
macro_rules! fuzz {
    ($arch:literal) => {
        whole(
            concat!($arch, ": fuzz, one hour"),
            &["cohort", "lab", "fuzz", "--arch", $arch, "--minutes", "60"],
        )
    };
}

/// A guest, which passes or fails as a whole.
const fn whole(name: &'static str, command: &'static [&'static str]) -> Stage {
    Stage {
        name,
        counts: Counts::Status,
        command,
        made_from: GUEST,
    }
}

/// An audit of a 32-bit ARM kernel in which a function does nothing, and returns a value if it has one;
/// the guest runs a command.
macro_rules! planted {
    ($name:literal, $function:literal, $command:expr $(, $returns:literal)?) => {
        whole(
            $name,
            &[
                "cohort", "lab", "audit", "--arch", "armv7", "--without", $function,
                $("--returns", $returns,)?
                "--", $command,
            ],
        )
    };
}

/// Processes that share TLB entries, and others on the same processor.
const TLB_GROUP: &str = "tlb_group -q -m always";

/// The stages of `make test`. The host tools are built before: this program is one of them.
const SHORT: &[Stage] = &[
    Stage {
        name: "set-up",
        counts: Counts::Status,
        command: &["cohort", "lab", "setup"],
        made_from: &[],
    },
    Stage {
        name: "formatting",
        counts: Counts::Status,
        command: &["cargo", "fmt", "--check"],
        made_from: RUST,
    },
    LINTS,
    Stage {
        name: "host",
        counts: Counts::Libtest,
        command: &["cargo", "test", "--locked", "--no-fail-fast"],
        made_from: HOST,
    },
    Stage {
        name: "package",
        counts: Counts::Status,
        command: &["cohort", "lab", "deb", "--no-kernel"],
        made_from: PACKAGE,
    },
    DEBUG_KERNEL,
    tests("guest", &["cohort", "lab", "test"]),
    // Load, and too little memory for it, on the debug kernel.
    tests(
        "soak",
        &["cohort", "lab", "soak", "--minutes", "1", "--no-leaks"],
    ),
    // The kernel's own tests, a short choice of them, on one image that shares never and always.
    tests(
        "mmtests",
        &["cohort", "lab", "mmtests", "--short", "--brief"],
    ),
    ARM64_SET_UP,
    // A boot, and what every other test there rests on: who shares which table.
    on!(
        "arm64",
        "guest, sharing",
        "test",
        "--config",
        "bench",
        "--filter",
        "share"
    ),
];

/// The stages of `make test-long`: all cases, and hours of load.
const LONG: &[Stage] = &[
    DEBUG_KERNEL,
    tests(
        "guest, every mode",
        &["cohort", "lab", "test", "--every-mode"],
    ),
    // Every program of one user is in a group, as every fork shares in the mode `always`.
    tests(
        "guest, all join",
        &["cohort", "lab", "test", "--append", "cohort_join=user"],
    ),
    tests(
        "guest, protected by entries",
        &["cohort", "lab", "test", "--append", "cohort_protect=pte"],
    ),
    tests(
        "guest, all cases",
        &["cohort", "lab", "test", "--full", "--config", "bench"],
    ),
    tests(
        "soak, one hour",
        &["cohort", "lab", "soak", "--minutes", "60"],
    ),
    tests(
        "soak, all join",
        &[
            "cohort",
            "lab",
            "soak",
            "--minutes",
            "60",
            "--append",
            "cohort_join=user",
        ],
    ),
    tests("mmtests, all", &["cohort", "lab", "mmtests", "--brief"]),
    tests(
        "mmtests, all join",
        &[
            "cohort",
            "lab",
            "mmtests",
            "--brief",
            "--append",
            "cohort_join=user",
        ],
    ),
    tests(
        "mmtests, protected by entries",
        &[
            "cohort",
            "lab",
            "mmtests",
            "--brief",
            "--append",
            "cohort_protect=pte",
        ],
    ),
    // Containers and services as people start them.
    Stage {
        name: "groups",
        counts: Counts::Tally,
        command: &["cohort", "lab", "check-groups"],
        made_from: RUST_AND_GUEST,
    },
    whole(
        "fuzz, one hour",
        &["cohort", "lab", "fuzz", "--minutes", "60"],
    ),
    whole(
        "fuzz, protected by entries",
        &[
            "cohort",
            "lab",
            "fuzz",
            "--minutes",
            "30",
            "--append",
            "cohort_protect=pte",
        ],
    ),
    // Workers that were not forked from one another join tables as programs of one user.
    whole(
        "fuzz, started by exec",
        &[
            "cohort",
            "lab",
            "fuzz",
            "--minutes",
            "30",
            "--exec",
            "random",
            "--join",
            "user",
        ],
    ),
    // Each test fails on a kernel in which the function that it guards does nothing.
    tests("mutations", &["cohort", "lab", "mutate"]),
    // No kernel leaves out a TLB flush, but for the one that is made to.
    whole("flushes", &["cohort", "lab", "audit"]),
    whole(
        "flushes, stock kernel",
        &["cohort", "lab", "audit", "--config", "pristine"],
    ),
    whole(
        "flushes, one left out",
        &["cohort", "lab", "audit", "--without", "flush_tlb_mm_range"],
    ),
    whole(
        "flushes, of a shared table left out",
        &[
            "cohort",
            "lab",
            "audit",
            "--without",
            "__cohort_flush",
            "--",
            "reclaim_page -q -m always",
        ],
    ),
    // No process finds another's translation in BabelFish's TLBs, but where no processor drops any,
    // or the kernel reports no change of a table.
    whole(
        "shared TLB entries",
        &["cohort", "lab", "audit", "--babelfish", "--load"],
    ),
    whole(
        "shared TLB entries, none dropped",
        &[
            "cohort",
            "lab",
            "audit",
            "--babelfish",
            "--without",
            "drop_on_cpu",
        ],
    ),
    whole(
        "shared TLB entries, no change reported",
        &[
            "cohort",
            "lab",
            "audit",
            "--babelfish",
            "--without",
            "__cohort_bf_flush",
        ],
    ),
    Stage {
        name: "packages",
        counts: Counts::Tally,
        command: &["cohort", "lab", "check-packages"],
        made_from: PACKAGE,
    },
    ARM64_SET_UP,
    on!("arm64", "guest", "test"),
    on!(
        "arm64",
        "guest, protected by entries",
        "test",
        "--config",
        "bench",
        "--append",
        "cohort_protect=pte"
    ),
    // The kernel has page tables of its own while a process runs.
    on!(
        "arm64",
        "guest, KPTI",
        "test",
        "--config",
        "bench",
        "--append",
        "kpti=on"
    ),
    on!("arm64", "soak, one hour", "soak", "--minutes", "60"),
    on!("arm64", "mmtests, all", "mmtests", "--brief"),
    fuzz!("arm64"),
    on!("arm64-a72", "guest", "test", "--config", "bench"),
    on!("arm64-39", "guest", "test", "--config", "bench"),
    on!("arm64-39", "mutations", "mutate"),
    on!("arm64-16k", "guest", "test", "--config", "bench"),
    whole(
        "arm64: flushes",
        &["cohort", "lab", "audit", "--arch", "arm64"],
    ),
    Stage {
        name: "armv7: set-up",
        counts: Counts::Status,
        command: &["cohort", "lab", "setup", "--arch", "armv7"],
        made_from: &[],
    },
    on!("armv7", "guest", "test", "--config", "bench"),
    on!("armv7-nopan", "guest", "test", "--config", "bench"),
    on!("armv7-lpae", "guest", "test", "--config", "bench"),
    // A boot on the paper's processor.
    on!(
        "armv7-a9",
        "guest, sharing",
        "test",
        "--config",
        "bench",
        "--filter",
        "share"
    ),
    on!("armv7", "soak, one hour", "soak", "--minutes", "60"),
    on!("armv7", "mmtests, all", "mmtests", "--brief"),
    fuzz!("armv7"),
    on!(
        "armv7",
        "guest, shared TLB entries",
        "test",
        "--config",
        "bench",
        "--tlb-group"
    ),
    on!("armv7", "mutations", "mutate"),
    whole(
        "armv7: flushes",
        &["cohort", "lab", "audit", "--arch", "armv7"],
    ),
    planted!(
        "armv7: flushes, one left out",
        "flush_tlb_range",
        "fork-cost --zygote --sizes 1m --rounds 3 --child-writes 8"
    ),
    // Shared TLB entries: each of these lets somebody use an entry that is not theirs.
    planted!(
        "armv7: entries for all, changed",
        "flush_tlb_range",
        TLB_GROUP
    ),
    planted!(
        "armv7: entries for all, at an end",
        "__cohort_tlb_own",
        TLB_GROUP
    ),
    planted!(
        "armv7: entries for all, domains stay",
        "__cohort_tlb_switch",
        TLB_GROUP
    ),
    planted!(
        "armv7: entries for all, open",
        "__cohort_tlb_domain",
        TLB_GROUP,
        "0"
    ),
    planted!(
        "armv7: entries for all, others near",
        "cohort_tlb_do_claim",
        TLB_GROUP
    ),
    // What would be sent: git takes it, checkpatch likes it, each patch builds. Sparse finds nothing
    // new at the end of each series, and its tests pass there without the later ones. For each
    // series' architecture: so after the set-up of these.
    tests(
        "series",
        &[
            "cohort",
            "lab",
            "series",
            "out/sent",
            "--checkpatch",
            "--build",
            "patch",
            "--sparse",
            "--test",
        ],
    ),
    tests(
        "objects with the options off",
        &["cohort", "lab", "check-objects"],
    ),
    Stage {
        name: "Debian's kernels",
        counts: Counts::Status,
        command: &["cohort", "lab", "scan-kernels"],
        made_from: GUEST,
    },
];

const LINTS: Stage = Stage {
    name: "lints",
    counts: Counts::Status,
    command: &[
        "cargo",
        "clippy",
        "--locked",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ],
    made_from: RUST,
};

const ARM64_SET_UP: Stage = Stage {
    name: "arm64: set-up",
    counts: Counts::Status,
    command: &["cohort", "lab", "setup", "--arch", "arm64"],
    made_from: &[],
};

const DEBUG_KERNEL: Stage = Stage {
    name: "debug kernel",
    counts: Counts::Status,
    command: &["cohort", "lab", "build", "--config", "debug"],
    made_from: &[],
};

/// A stage's result.
struct Done {
    name: &'static str,
    tally: Tally,
    seconds: u64,
    unchanged: bool,
}

/// Runs the stages one after the other, also after a failure, and prints a table of them and
/// the sum; true if nothing failed.
pub fn run(lab: &Lab, long: bool) -> Result<bool> {
    let mut done = Vec::new();
    for stage in if long { LONG } else { SHORT } {
        say!("== {}", stage.name)?;
        let result = stage.run(lab)?;
        let time = clock(result.seconds);
        let again = if result.unchanged { ", unchanged" } else { "" };
        say!("== {}: {} in {time}{again}", stage.name, result.tally)?;
        done.push(result);
    }
    let (text, good) = summary(&done);
    crate::output::print(text)?;
    Ok(good)
}

/// The table, the failures and, last, the sum of all.
fn summary(done: &[Done]) -> (String, bool) {
    let mut sum = Tally::new();
    let mut rows = Vec::new();
    for stage in done {
        sum.add(&stage.tally);
        rows.push(vec![
            stage.name.to_string(),
            stage.tally.to_string(),
            match stage.unchanged {
                true => "unchanged".into(),
                false => clock(stage.seconds),
            },
        ]);
    }
    let seconds = done.iter().map(|stage| stage.seconds).sum();
    rows.push(vec!["all".into(), sum.to_string(), clock(seconds)]);
    let heading = ["stage", "tests", "time"].map(String::from).to_vec();
    let mut text = show::plain(heading, rows);
    if !sum.good() {
        text.push_str("== failed; more of it is in out/logs/test-*.log\n");
        for stage in done.iter().filter(|stage| !stage.tally.good()) {
            for line in stage.tally.failures.iter().take(40) {
                let line: String = line.chars().take(300).collect();
                text.push_str(&format!("{}: {line}\n", stage.name));
            }
        }
    }
    text.push_str(&format!("{sum}\n"));
    let good = sum.good();
    (text, good)
}

/// Minutes and seconds.
fn clock(seconds: u64) -> String {
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

impl Stage {
    fn run(&self, lab: &Lab) -> Result<Done> {
        let start = Instant::now();
        let stamp = self.stamp(lab)?;
        let kept = lab.out(&format!("stages/{}.json", self.file()));
        let stamp_file = kept.with_extension("stamp");
        if let Some(stamp) = &stamp
            && std::fs::read_to_string(&stamp_file).is_ok_and(|old| old == *stamp)
            && let Ok(tally) = Tally::read(&kept)
        {
            return Ok(self.done(tally, start, true));
        }
        files::remove(&stamp_file)?;
        files::remove(&kept)?;
        let tally = self.execute(lab, &kept)?;
        if let (Some(stamp), true) = (&stamp, tally.good()) {
            tally.write(&kept)?;
            files::write(&stamp_file, stamp.as_bytes())?;
        }
        Ok(self.done(tally, start, false))
    }

    fn done(&self, tally: Tally, start: Instant, unchanged: bool) -> Done {
        Done {
            name: self.name,
            tally,
            seconds: start.elapsed().as_secs(),
            unchanged,
        }
    }

    fn file(&self) -> String {
        self.name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect()
    }

    /// The hash of what the stage is made from, the compilers and the emulator among it.
    fn stamp(&self, lab: &Lab) -> Result<Option<String>> {
        if self.made_from.is_empty() {
            return Ok(None);
        }
        let mut hash = Hasher::new();
        for part in self.command.iter().chain(self.made_from) {
            hash.part(part, &[]);
        }
        for tool in ["rustc", "gcc", crate::lab::arch::LAB.qemu] {
            let version = output(Command::new(tool).arg("--version")).unwrap_or_default();
            hash.part(tool, version.as_bytes());
        }
        let source = std::fs::metadata(&lab.tarball).and_then(|file| file.modified());
        hash.part("source", format!("{source:?}").as_bytes());
        for path in self.made_from {
            hash.path(&lab.path(path))?;
        }
        Ok(Some(hash.finish()))
    }

    fn execute(&self, lab: &Lab, kept: &std::path::Path) -> Result<Tally> {
        let own = std::env::current_exe().context("cannot tell this program's file")?;
        let program = match self.command[0] {
            "cohort" => own,
            other => PathBuf::from(other),
        };
        let mut command = Command::new(program);
        command.args(&self.command[1..]).current_dir(&lab.root);
        if self.counts == Counts::Tally {
            command.arg("--tally").arg(kept);
        }
        let log = lab.log(&format!("test-{}", self.file()));
        let mut lines = Vec::new();
        let status = run_logged(&mut command, &log, |event| {
            if let Event::Line(line) = event {
                // If the reader of the output is gone, the tests still go on.
                say!("{line}").ok();
                lines.push(line.to_string());
            }
        });
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                let mut tally = Tally::new();
                tally.fail(self.name, &[format!("{error:#}")]);
                return Ok(tally);
            }
        };
        // Debian's own new Rust comes without clippy: neither passed nor failed.
        let absent = lines.iter().any(|line| line.contains("no such command"));
        Ok(self.verdict(status.code(), absent, &lines, Tally::read(kept).ok()))
    }

    /// The result of a stage that ended with `code`.
    fn verdict(
        &self,
        code: Option<i32>,
        absent: bool,
        lines: &[String],
        written: Option<Tally>,
    ) -> Tally {
        let good = code == Some(0);
        let mut tally = match self.counts {
            Counts::Status => {
                let mut tally = Tally::new();
                if good {
                    tally.passed = 1;
                } else if absent && self.command[0] == "cargo" {
                    tally.skipped = 1;
                }
                tally
            }
            Counts::Libtest => libtest(lines),
            Counts::Tally => match written {
                Some(written) => written,
                None => Tally::new(),
            },
        };
        let nothing = tally.passed + tally.failed + tally.skipped == 0;
        if !good && tally.failed == 0 && tally.skipped == 0 || nothing {
            let last = lines.iter().rev().filter(|line| !line.trim().is_empty());
            let mut notes: Vec<String> = last.take(3).cloned().collect();
            notes.reverse();
            let how = match (good, code) {
                (true, _) => "it ran no test".to_string(),
                (_, Some(code)) => format!("exit status {code}"),
                (_, None) => "a signal ended it".into(),
            };
            tally.fail(format!("{}: {how}", self.name), &notes);
        }
        tally
    }
}

/// Adds up what libtest prints, whose JSON is not stable: `test result: ok. 3 passed; 0 failed;
/// 1 ignored; …` for each program, and `test NAME ... FAILED`.
fn libtest(lines: &[String]) -> Tally {
    let mut tally = Tally::new();
    for line in lines {
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            tally.failures.push(name.to_string());
        }
        if line.contains("panicked at ") {
            tally.failures.push(line.clone());
        }
        let Some(counts) = line.strip_prefix("test result: ") else {
            continue;
        };
        for part in counts.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(word)) =
                (words.next().map(str::parse::<usize>), words.next())
            else {
                continue;
            };
            match word {
                "passed" => tally.passed += number,
                "failed" => tally.failed += number,
                "ignored" => tally.skipped += number,
                _ => {}
            }
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(counts: Counts, command: &'static [&'static str]) -> Stage {
        Stage {
            name: "a stage",
            counts,
            command,
            made_from: &["kernel"],
        }
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(String::from).collect()
    }

    #[test]
    fn a_stage_that_counts_nothing_or_dies_is_a_failure() {
        let tests = stage(Counts::Tally, &["cohort"]);
        assert_eq!(tests.verdict(Some(0), false, &[], None).failed, 1);
        assert_eq!(tests.verdict(None, false, &[], None).failed, 1);
        let mut written = Tally::new();
        written.passed = 3;
        let dead = tests.verdict(Some(1), false, &lines("a\nwhy\n"), Some(written.clone()));
        assert_eq!((dead.passed, dead.failed), (3, 1));
        assert!(dead.failures.iter().any(|line| line.contains("why")));
        assert!(tests.verdict(Some(0), false, &[], Some(written)).good());
        let one = stage(Counts::Status, &["cargo"]);
        assert_eq!(one.verdict(Some(0), false, &[], None).passed, 1);
        assert_eq!(one.verdict(Some(101), false, &[], None).failed, 1);
        assert_eq!(one.verdict(Some(101), true, &[], None).skipped, 1);
    }

    #[test]
    fn libtests_counts_are_added_up() {
        let text = "test a ... ok\ntest b ... FAILED\n\
            test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = libtest(&lines(text));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (6, 1, 2));
        assert_eq!(tally.failures, ["b"]);
    }

    #[test]
    fn a_stage_is_not_run_again_on_what_it_passed_on() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.path("kernel/a.c"), b"one").unwrap();
        let passes = stage(Counts::Status, &["true"]);
        assert!(!passes.run(&lab).unwrap().unchanged);
        let again = passes.run(&lab).unwrap();
        assert!(again.unchanged && again.tally.passed == 1);
        files::write(&lab.path("kernel/a.c"), b"two").unwrap();
        assert!(!passes.run(&lab).unwrap().unchanged);
        // A failed stage runs again.
        let fails = stage(Counts::Status, &["false"]);
        for _ in 0..2 {
            let result = fails.run(&lab).unwrap();
            assert!(!result.unchanged && result.tally.failed == 1);
        }
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let of = |name, passed, failed| {
            let mut tally = Tally::new();
            tally.passed = passed;
            (0..failed).for_each(|_| tally.fail("x", &[]));
            Done {
                name,
                tally,
                seconds: 61,
                unchanged: false,
            }
        };
        let (text, good) = summary(&[of("host", 3, 0), of("guest", 4, 1)]);
        assert!(!good && text.ends_with("\n7 passed, 1 failed\n"), "{text}");
        assert!(
            text.contains("2 min 02 s") && text.contains("guest: x"),
            "{text}"
        );
    }

    #[test]
    fn stages_have_names_and_logs_of_their_own() {
        for stages in [SHORT, LONG] {
            let mut names: Vec<_> = stages.iter().map(Stage::file).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), stages.len());
        }
    }
}
