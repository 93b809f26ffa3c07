// SPDX-License-Identifier: GPL-2.0-or-later
//! A sweep as jobs of a scheduler: the lists are run as the scheduler would run them, and what their
//! parts come to is what the same sweep gives on this machine alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "common/trace.rs"]
mod trace;

const MODELS: &[&str] = &[
    "--model",
    "baseline",
    "--model",
    "zen4",
    "--vary",
    "core.rob=64,128",
];
/// Two models with two sizes each, for each trace.
const JOBS: usize = 8;

struct Sweep {
    dir: tempfile::TempDir,
    traces: Vec<PathBuf>,
}

impl Sweep {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        checkout(dir.path());
        // The shell, Python and the schedulers each have their own idea of such names.
        let traces: Vec<_> = ["plain.trace", "it's {a} trace.trace"]
            .map(|name| dir.path().join(name))
            .into();
        for (trace, seed) in traces.iter().zip(1..) {
            trace::record(trace, 5_000 * seed, 37 * seed, 400);
        }
        Sweep { dir, traces }
    }

    fn cohort(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["lab", "sweep"])
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .unwrap()
    }

    /// Writes the list of jobs; returns its directory and the command that starts them.
    fn list(&self, scheduler: &str) -> (PathBuf, String) {
        let dir = self.dir.path().join(scheduler);
        let mut args: Vec<&str> = self.traces.iter().map(|t| t.to_str().unwrap()).collect();
        args.extend(MODELS);
        args.extend(["--jobs", scheduler, "--dir", dir.to_str().unwrap()]);
        (dir.clone(), good(&self.cohort(&args)))
    }

    /// The jobs' parts, merged, are the sweep of one machine.
    fn compare(&self, parts: &Path) {
        let mut args: Vec<&str> = self.traces.iter().map(|t| t.to_str().unwrap()).collect();
        args.extend(MODELS);
        args.extend(["--json", "alone.json"]);
        let alone = good(&self.cohort(&args));
        let merge = ["--merge", parts.to_str().unwrap(), "--json", "merged.json"];
        let merged = good(&self.cohort(&merge));
        assert_eq!(merged, alone);
        let json = |name: &str| fs::read_to_string(self.dir.path().join(name)).unwrap();
        assert_eq!(json("merged.json"), json("alone.json"));
        let sweep: serde_json::Value = serde_json::from_str(&json("merged.json")).unwrap();
        assert_eq!(sweep["rows"].as_array().unwrap().len(), JOBS);
    }
}

/// Lets the lab find its checkout here, wherever the program was built.
fn checkout(dir: &Path) {
    fs::create_dir_all(dir.join("kernel/config")).unwrap();
    fs::write(dir.join("Cargo.toml"), "").unwrap();
}

fn good(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_tasks_of_a_slurm_array_are_the_sweep() {
    let sweep = Sweep::new();
    let (dir, command) = sweep.list("slurm");
    let script = dir.join("jobs.sbatch");
    assert_eq!(command, format!("sbatch {}\n", script.display()));
    let text = fs::read_to_string(&script).unwrap();
    assert!(text.contains(&format!("#SBATCH --array=1-{JOBS}\n")));
    // Slurm copies the script away and starts the copy, once a task, in any order.
    let spool = tempfile::tempdir().unwrap();
    checkout(spool.path());
    let copy = spool.path().join("slurm_script");
    fs::copy(&script, &copy).unwrap();
    for task in (1..=JOBS).rev() {
        let merge = sweep.cohort(&["--merge", dir.to_str().unwrap()]);
        assert!(!merge.status.success(), "{task} jobs have not run");
        let output = Command::new("sh")
            .arg(&copy)
            .current_dir(spool.path())
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .output()
            .unwrap();
        good(&output);
    }
    sweep.compare(&dir);
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let sweep = Sweep::new();
    let trace = sweep.traces[0].to_str().unwrap();
    for command in ["replay", "sweep"] {
        // The pipe is closed before the first line comes.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["lab", command, trace, "--model", "baseline"])
            .current_dir(sweep.dir.path())
            .stdout(writer)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        assert!(errors.is_empty(), "{command}: {errors}");
    }
}

#[test]
#[ignore = "needs snakemake: SNAKEMAKE=PROGRAM cargo test -p cohort --test sweep -- --ignored"]
fn the_jobs_of_a_snakefile_are_the_sweep() {
    let program = std::env::var("SNAKEMAKE").unwrap_or("snakemake".into());
    let sweep = Sweep::new();
    let (dir, command) = sweep.list("snakemake");
    let (first, rest) = command.split_once(' ').unwrap();
    assert_eq!(first, "snakemake");
    // What was printed is what is run, but for the program's place.
    let output = Command::new("sh")
        .args(["-c", &format!("exec '{program}' {rest}")])
        .current_dir(sweep.dir.path())
        .output()
        .unwrap();
    good(&output);
    sweep.compare(&dir);
}
