// SPDX-License-Identifier: GPL-2.0-or-later
//! Sweeps beyond one machine: the list of jobs for a scheduler that is already there.
//!
//! A job replays one trace under one configuration and writes a part, as `cohort lab sweep` does
//! with a single configuration. `cohort lab sweep --merge` puts the parts together.

use crate::lab::host::files;
use crate::variation::Configuration;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scheduler {
    /// An array of Slurm's: `sbatch DIR/jobs.sbatch`.
    Slurm,
    /// A file for Snakemake: `snakemake --cores all -s DIR/Snakefile`.
    Snakemake,
}

/// The commands, below a job list's directory.
const LIST: &str = "jobs.txt";
/// Tasks of a Slurm array at most: sites that set no MaxArraySize refuse numbers above this.
const TASKS: usize = 1_000;

/// The part that job `number` writes; they count from 1.
fn part(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("part-{number:04}.json"))
}

/// The parts that the list of jobs below `dir` names, whether they are there or not; none without
/// a list.
pub fn parts(dir: &Path) -> Result<Vec<PathBuf>> {
    let list = dir.join(LIST);
    if !list.is_file() {
        return Ok(Vec::new());
    }
    let jobs = files::read(&list)?.lines().count();
    Ok((1..=jobs).map(|number| part(dir, number)).collect())
}

/// The commands, one per job, and the parts that they write.
fn jobs(
    program: &Path,
    traces: &[PathBuf],
    configurations: &[Configuration],
    dir: &Path,
) -> Vec<(String, PathBuf)> {
    let mut list = Vec::new();
    for trace in traces {
        for configuration in configurations {
            let part = part(dir, list.len() + 1);
            let mut words = vec![
                program.display().to_string(),
                "lab".into(),
                "sweep".into(),
                trace.display().to_string(),
                "--model".into(),
                configuration.model.clone(),
            ];
            for (key, value) in &configuration.set {
                words.extend(["--vary".into(), format!("{key}={value}")]);
            }
            words.extend(["--json".into(), part.display().to_string()]);
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            list.push((words.join(" "), part));
        }
    }
    list
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=@+:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Writes the list below `dir`; returns the command that starts it.
pub fn write(
    scheduler: Scheduler,
    traces: &[PathBuf],
    configurations: &[Configuration],
    dir: &Path,
) -> Result<String> {
    let program = std::env::current_exe()?;
    let dir = std::path::absolute(dir)?;
    let list = jobs(&program, traces, configurations, &dir);
    if list.is_empty() {
        bail!("there is no job: name a trace and a model");
    }
    if scheduler == Scheduler::Snakemake && dir.to_string_lossy().contains(['{', '}']) {
        bail!(
            "{}: Snakemake takes what is in braces for a wildcard",
            dir.display()
        );
    }
    let commands: String = list
        .iter()
        .map(|(command, _)| format!("{command}\n"))
        .collect();
    files::write(&dir.join(LIST), commands.as_bytes())?;
    let merge = format!(
        "{} lab sweep --merge {}",
        quoted(&program.display().to_string()),
        quoted(&dir.display().to_string())
    );
    Ok(match scheduler {
        Scheduler::Slurm => {
            let file = dir.join("jobs.sbatch");
            let jobs = list.len();
            let text = format!(
                "#!/bin/sh\n\
                 #SBATCH --job-name=cohort-sweep\n\
                 #SBATCH --array=1-{}\n\
                 #SBATCH --cpus-per-task=1\n\
                 # Line N of jobs.txt is job N. Task N does the jobs N, N + {TASKS} and so on, as an\n\
                 # array has no more tasks. When all are done: {merge}\n\
                 job=${{SLURM_ARRAY_TASK_ID:?start this with sbatch}}\n\
                 status=0\n\
                 while [ \"$job\" -le {jobs} ]; do\n    \
                 # One that fails does not keep the others from their turn.\n    \
                 command=$(sed -n \"${{job}}p\" {}) && eval \"$command\" || status=1\n    \
                 job=$((job + {TASKS}))\n\
                 done\n\
                 exit $status\n",
                jobs.min(TASKS),
                quoted(&dir.join(LIST).display().to_string()),
            );
            files::write(&file, text.as_bytes())?;
            format!("sbatch {}", quoted(&file.display().to_string()))
        }
        Scheduler::Snakemake => {
            let file = dir.join("Snakefile");
            let python = |text: &str| serde_json::Value::from(text).to_string();
            let jobs: String = list
                .iter()
                .map(|(command, part)| {
                    let part = python(&part.display().to_string());
                    format!("    {part}: {},\n", python(command))
                })
                .collect();
            let text = format!(
                "# Each part is one job. When all are there: {merge}\n\
                 JOBS = {{\n{jobs}}}\n\n\
                 rule all:\n    input: list(JOBS)\n\n\
                 rule part:\n    output: {}\n    params: command=lambda wildcards, output: \
                 JOBS[str(output[0])]\n    shell: \"{{params.command}}\"\n",
                python(&format!("{}/part-{{number}}.json", dir.display())),
            );
            files::write(&file, text.as_bytes())?;
            format!(
                "snakemake --cores all -s {}",
                quoted(&file.display().to_string())
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variation::all;
    use std::process::Command;

    fn two() -> Vec<Configuration> {
        all(&["baseline".into()], &["core.rob=64,128".parse().unwrap()])
    }

    #[test]
    fn a_job_is_a_command_that_the_shell_reads_as_it_was_meant() {
        let traces = [PathBuf::from("/t/it's a.trace")];
        let list = jobs(Path::new("/bin/echo"), &traces, &two(), Path::new("/d"));
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].1, Path::new("/d/part-0002.json"));
        let output = Command::new("sh")
            .arg("-c")
            .arg(&list[1].0)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "lab sweep /t/it's a.trace --model baseline --vary core.rob=128 --json \
             /d/part-0002.json\n"
        );
    }

    #[test]
    fn the_array_has_a_line_for_each_number() {
        let dir = tempfile::tempdir().unwrap();
        let traces = [PathBuf::from("/t/a.trace")];
        let command = write(Scheduler::Slurm, &traces, &two(), dir.path()).unwrap();
        assert!(command.starts_with("sbatch "));
        let script = std::fs::read_to_string(dir.path().join("jobs.sbatch")).unwrap();
        assert!(script.contains("#SBATCH --array=1-2\n"), "{script}");
        let lines = std::fs::read_to_string(dir.path().join("jobs.txt")).unwrap();
        assert_eq!(lines.lines().count(), 2);
        let (good, text) = task(dir.path(), "echo", 2);
        assert!(
            good && text.contains("core.rob=128") && text.contains("part-0002"),
            "{text}"
        );
    }

    /// A task of an array, with another program in the list's lines.
    fn task(dir: &Path, program: &str, number: usize) -> (bool, String) {
        let own = std::env::current_exe().unwrap().display().to_string();
        let list = dir.join("jobs.txt");
        let lines = std::fs::read_to_string(&list).unwrap();
        std::fs::write(&list, lines.replace(&own, program)).unwrap();
        let output = Command::new("sh")
            .arg(dir.join("jobs.sbatch"))
            .env("SLURM_ARRAY_TASK_ID", number.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    }

    #[test]
    fn an_array_has_no_more_tasks_than_slurm_takes_and_they_do_all_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let values: Vec<_> = (1..=2_003).map(|n| n.to_string()).collect();
        let vary = format!("core.rob={}", values.join(","));
        let configurations = all(&["baseline".into()], &[vary.parse().unwrap()]);
        let traces = [PathBuf::from("/t/a.trace")];
        write(Scheduler::Slurm, &traces, &configurations, dir.path()).unwrap();
        let script = std::fs::read_to_string(dir.path().join("jobs.sbatch")).unwrap();
        assert!(script.contains("#SBATCH --array=1-1000\n"), "{script}");
        for (number, jobs) in [
            (3, vec!["0003", "1003", "2003"]),
            (4, vec!["0004", "1004"]),
            (1_000, vec!["1000", "2000"]),
        ] {
            let (good, text) = task(dir.path(), "echo", number);
            let ends: Vec<_> = text
                .lines()
                .map(|line| &line[line.len() - "0003.json".len()..line.len() - ".json".len()])
                .collect();
            assert!(good && ends == jobs, "{number}: {text}");
        }
        // A job that fails makes its task fail, but the task goes on with the others.
        let list = dir.path().join("jobs.txt");
        let lines = std::fs::read_to_string(&list).unwrap();
        std::fs::write(&list, lines.replacen("echo", "false", 3)).unwrap();
        let (good, text) = task(dir.path(), "echo", 3);
        assert!(!good && text.lines().count() == 2, "{text}");
        // Without the list it fails too.
        std::fs::remove_file(&list).unwrap();
        let sh = Command::new("sh")
            .arg(dir.path().join("jobs.sbatch"))
            .env("SLURM_ARRAY_TASK_ID", "3")
            .output()
            .unwrap();
        assert!(!sh.status.success());
    }

    #[test]
    fn the_snakefile_names_every_part_and_its_command() {
        let dir = tempfile::tempdir().unwrap();
        let traces = [PathBuf::from("/t/a.trace"), PathBuf::from("/t/b.trace")];
        write(Scheduler::Snakemake, &traces, &two(), dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("Snakefile")).unwrap();
        let dir = std::path::absolute(dir.path()).unwrap();
        let commands = std::fs::read_to_string(dir.join("jobs.txt")).unwrap();
        let commands: Vec<&str> = commands.lines().collect();
        assert_eq!(commands.len(), 4);
        // JOBS is a dictionary of Python's, each line of it a pair that JSON reads, too.
        let (head, rules) = text.split_once("\n}\n\n").unwrap();
        let jobs = head.split_once("JOBS = {\n").unwrap().1;
        let pair = |line: &str| -> (String, String) {
            let line = line.trim().strip_suffix(',').unwrap();
            let map: serde_json::Map<_, _> = serde_json::from_str(&format!("{{{line}}}")).unwrap();
            let (part, command) = map.iter().next().unwrap();
            (part.clone(), command.as_str().unwrap().to_owned())
        };
        let jobs: Vec<_> = jobs.lines().map(pair).collect();
        let expected = (1..=4).map(|n| part(&dir, n).display().to_string());
        let expected: Vec<_> = expected
            .zip(commands.iter().map(|c| c.to_string()))
            .collect();
        assert_eq!(jobs, expected);
        // Two rules: all parts, and how one of them is made, whose pattern is every part's name.
        let rules: Vec<&str> = rules.split("rule ").filter(|r| !r.is_empty()).collect();
        assert_eq!(rules[0], "all:\n    input: list(JOBS)\n\n");
        let of = |name: &str| {
            let mut lines = rules[1].lines().map(str::trim);
            lines.find_map(|line| line.strip_prefix(name)).unwrap()
        };
        assert!(rules[1].starts_with("part:\n") && rules.len() == 2);
        let pattern: String = serde_json::from_str(of("output: ")).unwrap();
        let (before, after) = pattern.split_once("{number}").unwrap();
        for (part, command) in &jobs {
            assert!(part.starts_with(before) && part.ends_with(after), "{part}");
            assert!(command.ends_with(&format!("--json {part}")), "{command}");
        }
        assert_eq!(of("shell: "), "\"{params.command}\"");
        let wanted = "command=lambda wildcards, output: JOBS[str(output[0])]";
        assert_eq!(of("params: "), wanted);
        let dir = tempfile::tempdir().unwrap();
        assert!(write(Scheduler::Slurm, &[], &two(), dir.path()).is_err());
        let braces = dir.path().join("{a}");
        assert!(write(Scheduler::Snakemake, &traces, &two(), &braces).is_err());
        assert!(write(Scheduler::Slurm, &traces, &two(), &braces).is_ok());
    }
}
