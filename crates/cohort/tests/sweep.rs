// SPDX-License-Identifier: GPL-2.0-or-later
//! A sweep as jobs of a scheduler: the lists are run as the scheduler would run them, and what their
//! parts come to is what the same sweep gives on this machine alone. All of it is done outside of a
//! checkout, as it is where the schedulers are.

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
    program: PathBuf,
    traces: Vec<PathBuf>,
}

impl Sweep {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The program looks for a checkout around itself, too. It is copied by another process: one
        // that is open for writing is not run, and tests beside this one inherit what is open.
        let program = dir.path().join("cohort");
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_cohort")).arg(&program);
        assert!(copy.status().unwrap().success());
        // The shell, Python and the schedulers each have their own idea of such names.
        let traces: Vec<_> = ["plain.trace", "it's {a} trace.trace"]
            .map(|name| dir.path().join(name))
            .into();
        for (trace, seed) in traces.iter().zip(1..) {
            trace::record(trace, 5_000 * seed, 37 * seed, 400);
        }
        Sweep {
            dir,
            program,
            traces,
        }
    }

    fn lab(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("lab").current_dir(self.dir.path());
        command
    }

    fn cohort(&self, args: &[&str]) -> Output {
        self.lab().arg("sweep").args(args).output().unwrap()
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

/// Slurm copies the script away and starts the copy, once a task.
fn task(script: &Path, number: usize) -> Output {
    let spool = tempfile::tempdir().unwrap();
    let copy = spool.path().join("slurm_script");
    fs::copy(script, &copy).unwrap();
    Command::new("sh")
        .arg(&copy)
        .current_dir(spool.path())
        .env("SLURM_ARRAY_TASK_ID", number.to_string())
        .output()
        .unwrap()
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
    // In any order.
    for number in (1..=JOBS).rev() {
        let merge = sweep.cohort(&["--merge", dir.to_str().unwrap()]);
        assert!(!merge.status.success(), "{number} jobs have not run");
        good(&task(&script, number));
    }
    sweep.compare(&dir);
}

#[test]
fn a_model_beside_the_user_is_found_by_jobs_that_start_elsewhere() {
    let sweep = Sweep::new();
    let text =
        "name = \"mine\"\nabout = \"a test\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\n";
    fs::write(sweep.dir.path().join("mine.toml"), text).unwrap();
    for (model, dir) in [("./mine.toml", "dot"), ("mine.toml", "bare")] {
        let args = ["plain.trace", "--model", model];
        good(&sweep.cohort(&[&args[..], &["--jobs", "slurm", "--dir", dir]].concat()));
        let dir = sweep.dir.path().join(dir);
        good(&task(&dir.join("jobs.sbatch"), 1));
        let table = good(&sweep.cohort(&["--merge", dir.to_str().unwrap()]));
        assert!(table.contains("mine.toml"), "{table}");
    }
}

#[test]
fn replaying_needs_no_checkout() {
    let sweep = Sweep::new();
    let errors = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // There is no checkout here: commands that need one say so.
    let list = sweep.lab().arg("list").output().unwrap();
    assert!(
        errors(&list).contains("no checkout of Cohort"),
        "{}",
        errors(&list)
    );
    let replay = ["replay", "plain.trace", "--model", "baseline"];
    let report = good(&sweep.lab().args(replay).output().unwrap());
    assert!(report.starts_with('{'), "{report}");
    let table = good(&sweep.cohort(&["plain.trace", "--model", "baseline"]));
    assert!(table.contains("the least cycles"), "{table}");
    // Nothing is written where nobody asked for it.
    assert_eq!(fs::read_dir(sweep.dir.path()).unwrap().count(), 3);
}

#[test]
fn a_mistyped_metric_is_found_before_anything_is_replayed() {
    let sweep = Sweep::new();
    // To replay this one would be an error, too, which comes last.
    let cut = fs::read(&sweep.traces[0]).unwrap();
    fs::write(&sweep.traces[0], &cut[..cut.len() - 3]).unwrap();
    let errors = |show: &str| {
        let output = sweep.cohort(&["plain.trace", "--model", "baseline", "--show", show]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let mistyped = errors("cycles,walk-cycle");
    assert!(
        mistyped.contains("`walk-cycle`; near it are walk-cycles"),
        "{mistyped}"
    );
    let right = errors("cycles,walk-cycles");
    let length = format!("ends at byte {},", cut.len() - 3);
    assert!(right.contains(&length), "{right}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let sweep = Sweep::new();
    let trace = sweep.traces[0].to_str().unwrap();
    for command in ["replay", "sweep"] {
        // The pipe is closed before the first line comes.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sweep
            .lab()
            .args([command, trace, "--model", "baseline"])
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
