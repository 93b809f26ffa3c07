// SPDX-License-Identifier: GPL-2.0-or-later
//! The commands of `cohort lab`.

use super::Lab;
use super::arch::Arch;
use super::check::{
    arm64, fuzz, mmtests, native, scan_kernels, selftests, soak, stages, tally::Tally,
};
use super::experiment::{
    definition, kept, made_from, papers, print, report, results, run as experiment,
};
use super::guest::{plugin, programs, rootfs, run as guest, setup};
use super::host::files;
use super::kernel::build::{self, Config};
use super::trace::{bench, sweep};
use crate::output::{self, say};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `cohort lab`.
#[derive(clap::Args)]
pub struct Args {
    /// The checkout; by default the one around the working directory or this program.
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
    /// Also write how many tests passed and failed, as JSON: `test`, `soak` and `mmtests`.
    #[arg(long, value_name = "FILE", global = true)]
    tally: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check the machine and install the packages that are missing.
    Setup {
        /// Also what guests of this architecture need, as `scan-kernels` and `check-model` boot.
        #[arg(long, value_name = "NAME")]
        arch: Vec<Arch>,
    },
    /// Build a kernel.
    Build {
        /// What it is for.
        #[arg(long, value_enum, default_value_t = Config::Bench)]
        config: Config,
        /// Debian's source unchanged, to compare with; the same as `--config pristine`.
        #[arg(long, conflicts_with = "config")]
        pristine: bool,
    },
    /// Make a root file system for the guest.
    Rootfs {
        /// A recipe of guest/rootfs.
        name: String,
    },
    /// Boot a guest with a shell on this terminal.
    Shell {
        /// The kernel.
        #[arg(long, value_enum, default_value_t = Config::Bench)]
        config: Config,
        /// The root file system.
        #[arg(long, default_value = "base")]
        rootfs: String,
        /// Memory in MB.
        #[arg(long, default_value_t = 2048)]
        memory: u64,
        /// More words for the kernel's command line.
        #[arg(long, default_value = "")]
        cmdline: String,
    },
    /// Run the kernel's selftests in a guest; fails when one fails.
    Test {
        /// The kernel.
        #[arg(long, value_enum, default_value_t = Config::Debug)]
        config: Config,
        /// Only the test programs whose names hold this.
        #[arg(long)]
        filter: Option<String>,
        /// All cases of the test programs, not the short run of each (`-q`); six times the time
        /// limits.
        #[arg(long)]
        full: bool,
    },
    /// Random memory operations in guests that share page tables, each checked by an oracle;
    /// what fails is shortened and written to out/fuzz.
    Fuzz(fuzz::Options),
    /// Run the kernel's own tests on the stock kernel and on ours, and compare the verdicts.
    Mmtests(mmtests::Options),
    /// Run `cohort scan` on Debian's own kernels, old ones and those of arm64, and check what it
    /// counts; fails when a count differs.
    ScanKernels {
        /// Only the kernels of guest/scan-kernels.toml whose names hold this.
        #[arg(long)]
        filter: Option<String>,
    },
    /// Every test, stage by stage, with a table of their times: what `make test` runs.
    Stages {
        /// Instead, all cases and hours of load: `make test-long`.
        #[arg(long)]
        long: bool,
    },
    /// Put load on a kernel that shares page tables, in too little memory, and see that its log
    /// is clean and no memory lost.
    Soak(soak::Options),
    /// Run experiments and write their results.
    Run {
        /// Names of `cohort lab list`.
        #[arg(required = true, value_name = "EXPERIMENT")]
        experiments: Vec<String>,
        /// Run the guests under this translation model: a built-in's name or a TOML file.
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// Compare every translation with QEMU's; slow, and a difference is a failure.
        #[arg(long)]
        check: bool,
        /// Also write results/NAME.json for the repository, unless something went wrong. A complete
        /// run of the same sources that is there already is not run again.
        #[arg(long)]
        keep: bool,
        /// Run everything this many times; fewer than the experiment says cannot be kept.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        runs: Option<u32>,
    },
    /// Record what an experiment's guests access, to be replayed under any model.
    Record(bench::RecordArgs),
    /// Replay a trace under a model and print its counters as JSON.
    Replay(sweep::ReplayArgs),
    /// Replay traces under many models and variations of them, on all cores.
    Sweep(sweep::SweepArgs),
    /// Boot one of Debian's own kernels, of arm64 unless another is named, and compare every
    /// translation of the model with QEMU's; a difference is a failure.
    CheckModel {
        /// A kernel of guest/scan-kernels.toml with pages of 4 KB.
        #[arg(default_value = arm64::KERNEL)]
        kernel: String,
    },
    /// Run the programs of superpage-stride and superpage-apps on this machine itself, with base
    /// pages and with huge ones: a check on the model, by ratio.
    CheckNative(native::Options),
    /// Measure how fast the translation model is, beside the bare emulator.
    BenchModel(bench::BenchArgs),
    /// List the experiments, what came of them last, and which kept results are old.
    List,
    /// Write docs/results.md and the README's table from the kept results (results/*.json), and
    /// out/report.html from the last ones.
    Report {
        /// Write nothing; fail if docs/results.md or the README differs from the kept results.
        #[arg(long)]
        check: bool,
    },
    /// Remove everything that the lab built; results stay unless --all.
    Clean {
        /// Results too.
        #[arg(long)]
        all: bool,
    },
}

/// Runs a subcommand.
pub fn main(args: Args) -> Result<ExitCode> {
    let lab = match &args.command {
        // Traces are replayed anywhere: whoever has them need not have the checkout.
        Command::Replay(args) => return sweep::replay(args).map(|()| ExitCode::SUCCESS),
        Command::Sweep(args) => return sweep::sweep(args).map(|()| ExitCode::SUCCESS),
        _ => Lab::find(args.root)?,
    };
    if !matches!(args.command, Command::Shell { .. }) {
        // Children end with us, and what is half-written has another name until it is whole.
        ctrlc::set_handler(|| {
            eprintln!("\ncohort: interrupted; the same command goes on where it stopped");
            std::process::exit(130);
        })
        .context("cannot set up ^C")?;
    }
    match args.command {
        Command::Setup { arch } => setup::setup(&lab, &arch)?,
        Command::Build { config, pristine } => {
            let config = if pristine { Config::Pristine } else { config };
            let kernel = build::build(&lab, config)?;
            say!("Linux {}: {}", kernel.describe(), kernel.image.display())?;
        }
        Command::Rootfs { name } => say!("{}", rootfs::image(&lab, &name)?.display())?,
        Command::Shell {
            config,
            rootfs,
            memory,
            cmdline,
        } => shell(&lab, config, &rootfs, memory, &cmdline)?,
        Command::Test {
            config,
            filter,
            full,
        } => {
            let tally = selftests::test(&lab, config, filter.as_deref(), full)?;
            say!("{tally}")?;
            return counted(&tally, args.tally.as_deref());
        }
        Command::Fuzz(options) => {
            if !fuzz::fuzz(&lab, &options)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Mmtests(options) => {
            let tally = mmtests::mmtests(&lab, &options)?;
            return counted(&tally, args.tally.as_deref());
        }
        Command::ScanKernels { filter } => {
            if !scan_kernels::run(&lab, filter.as_deref())? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Stages { long } => {
            if !stages::run(&lab, long)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Soak(options) => {
            let tally = soak::soak(&lab, &options)?;
            return counted(&tally, args.tally.as_deref());
        }
        Command::Run {
            experiments,
            model,
            check,
            keep,
            runs,
        } => {
            let under = experiment::Under { model, check, runs };
            run(&lab, &experiments, &under, keep)?;
        }
        Command::Record(args) => {
            for trace in bench::record(&lab, &args)? {
                say!("{}", trace.display())?;
            }
        }
        Command::Replay(_) | Command::Sweep(_) => unreachable!("they need no checkout"),
        Command::CheckModel { kernel } => {
            if !arm64::run(&lab, &kernel)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::CheckNative(options) => native::run(&lab, &options)?,
        Command::BenchModel(args) => bench::bench(&lab, &args)?,
        Command::List => list(&lab)?,
        Command::Report { check: true } => report::check(&lab)?,
        Command::Report { check: false } => {
            for file in report::report(&lab)? {
                say!("{}", file.display())?;
            }
        }
        Command::Clean { all } => clean(&lab, all)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a tally where it is asked for; a failed test is a failure of the command.
fn counted(tally: &Tally, file: Option<&Path>) -> Result<ExitCode> {
    if let Some(file) = file {
        tally.write(file)?;
    }
    Ok(match tally.good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn run(lab: &Lab, names: &[String], under: &experiment::Under, keep: bool) -> Result<()> {
    let papers = papers::Papers::of(lab)?;
    // All are read before the first is run, and their models: a mistyped name should not cost an
    // hour.
    let experiments = names
        .iter()
        .map(|name| {
            let experiment = definition::load(lab, name, &papers)?;
            experiment.accepts(under.model.as_deref(), under.check)?;
            let named = experiment.variants.iter().filter_map(|v| v.model.as_ref());
            for model in under.model.iter().chain(named) {
                plugin::ready(&plugin::Task::Model(model.clone()))?;
            }
            let experiment = match under.model {
                Some(_) => experiment.modelled(),
                None => experiment,
            };
            let runs = under.runs.unwrap_or(experiment.runs());
            if keep && runs < experiment.runs() {
                bail!(
                    "{name} has {} runs, and with --runs {runs} its results cannot be kept",
                    experiment.runs()
                );
            }
            Ok(experiment)
        })
        .collect::<Result<Vec<_>>>()?;
    each(&experiments, |experiment| {
        run_one(lab, experiment, &papers, under, keep)
    })
}

/// Does all of `experiments`, also after one has failed; the error names those that did.
fn each(
    experiments: &[definition::Experiment],
    mut act: impl FnMut(&definition::Experiment) -> Result<()>,
) -> Result<()> {
    let mut failed = Vec::new();
    for experiment in experiments {
        if let Err(error) = act(experiment) {
            eprintln!("{} failed: {error:#}", experiment.name);
            failed.push(format!("{}: {error:#}", experiment.name));
        }
    }
    if !failed.is_empty() {
        bail!(
            "{} of {} experiments failed: {}",
            failed.len(),
            experiments.len(),
            failed.join("; ")
        );
    }
    Ok(())
}

fn run_one(
    lab: &Lab,
    experiment: &definition::Experiment,
    papers: &papers::Papers,
    under: &experiment::Under,
    keep: bool,
) -> Result<()> {
    let model = under.model.as_deref();
    let file = results::file(lab, &experiment.name, model);
    if keep && let Some(results) = complete(lab, experiment, papers, under)? {
        let kept = kept::keep(lab, &results, experiment)?;
        say!(
            "{} is of these sources; kept as {}",
            file.display(),
            kept.display()
        )?;
        return Ok(());
    }
    let (results, problems) = experiment::run(lab, experiment, papers, under)?;
    output::print(print::results(&results))?;
    say!("The figures are in {}.", file.display())?;
    if keep {
        let kept = kept::keep(lab, &results, experiment)?;
        say!(
            "Kept as {}; `cohort lab report` puts it into the tables.",
            kept.display()
        )?;
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok(())
}

/// The last results, if they are of the sources as they are and fit to be kept.
fn complete(
    lab: &Lab,
    experiment: &definition::Experiment,
    papers: &papers::Papers,
    under: &experiment::Under,
) -> Result<Option<results::Results>> {
    let model = under.model.as_deref();
    let now = made_from::MadeFrom::of(lab, experiment, papers, model)?;
    // Results of another version of the lab do not count.
    let last = results::last(lab, &experiment.name).unwrap_or_default();
    let mut last = last.into_iter().filter(|results| {
        results.model == under.model
            && results.made_from == now
            && results.runs.len() >= under.runs.unwrap_or_default() as usize
            && results.translations.is_some() == under.check
    });
    Ok(last.find(|results| kept::refusal(results, experiment).is_none()))
}

fn list(lab: &Lab) -> Result<()> {
    let papers = papers::Papers::of(lab)?;
    let kept = kept::all(lab)?;
    let mut rows = Vec::new();
    for name in definition::names(lab)? {
        let title = definition::load(lab, &name, &papers)?.title;
        let outcome =
            |date: &str, checks: &[_], model: Option<&str>, made_from: &_, change: Option<&str>| {
                let old = kept::old(lab, &papers, (&name, model), made_from, change)?;
                Ok::<_, anyhow::Error>(print::Outcome::new(date, checks, old))
            };
        let mut found = Vec::new();
        match results::last(lab, &name) {
            Ok(last) => {
                for it in last {
                    let (model, change) = (it.model.as_deref(), it.change());
                    let last = outcome(&it.date, &it.checks, model, &it.made_from, change)?;
                    let last = print::Last::Ran(last);
                    found.push(print::Row::new(it.name(), &title, last));
                }
            }
            Err(error) => {
                let last = print::Last::Unreadable(error.to_string());
                found.push(print::Row::new(name.clone(), &title, last));
            }
        }
        for it in kept.iter().filter(|kept| kept.experiment == name) {
            let (model, change) = (it.model.as_deref(), it.change());
            let outcome = outcome(&it.date, &it.checks, model, &it.made_from, change)?;
            match found.iter_mut().find(|row| row.name == it.name()) {
                Some(row) => row.kept = Some(outcome),
                None => {
                    let mut row = print::Row::new(it.name(), &title, print::Last::Never);
                    row.kept = Some(outcome);
                    found.push(row);
                }
            }
        }
        if found.is_empty() {
            found.push(print::Row::new(name, &title, print::Last::Never));
        }
        rows.append(&mut found);
    }
    say!("{}", print::list(&rows))?;
    Ok(())
}

fn shell(lab: &Lab, config: Config, rootfs: &str, memory: u64, cmdline: &str) -> Result<()> {
    let kernel = build::build(lab, config)?;
    let init = programs::init(lab)?;
    let mut programs = programs::workloads(lab)?;
    if config != Config::Pristine {
        programs.extend(programs::selftests(lab, config)?);
    }
    programs.push(programs::cohort()?);
    let image = rootfs::image(lab, rootfs)?;
    eprintln!("^A x ends the guest, as does leaving the shell; the programs are in /lab/bin");
    guest::Spec {
        name: "shell".into(),
        machine: guest::Machine::lab(),
        kernel: &kernel.image,
        memory,
        cpus: 2,
        icount: false,
        rootfs: Some(&image),
        read_limit: None,
        cmdline: format!("lab.shell quiet {cmdline}"),
        init: &init,
        programs: &programs,
        steps: Vec::new(),
        plugin: None,
        limit: 0,
    }
    .shell(lab)
}

fn clean(lab: &Lab, all: bool) -> Result<()> {
    let out = lab.root.join("out");
    if all {
        return files::remove(&out);
    }
    for part in [
        "linux", "build", "guest", "rootfs", "run", "boots", "traces", "logs",
    ] {
        files::remove(&out.join(part))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_that_fails_does_not_keep_the_next_from_running() {
        let experiment = |name: &str| -> definition::Experiment {
            let text = definition::tests::GOOD.replacen("demo", name, 1);
            toml::from_str(&text).unwrap()
        };
        let mut ran = Vec::new();
        let all = ["a", "b", "c"].map(experiment);
        let error = each(&all, |experiment| {
            ran.push(experiment.name.clone());
            match experiment.name.as_str() {
                "b" => bail!("the guest hung"),
                _ => Ok(()),
            }
        })
        .unwrap_err();
        assert_eq!(ran, ["a", "b", "c"]);
        assert_eq!(
            error.to_string(),
            "1 of 3 experiments failed: b: the guest hung"
        );
    }

    #[test]
    fn clean_keeps_results_unless_all_is_asked_for() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.out("results/a.json"), b"{}").unwrap();
        files::write(&lab.out("build/bench/vmlinux"), b"").unwrap();
        clean(&lab, false).unwrap();
        assert!(lab.out("results/a.json").exists() && !lab.out("build").exists());
        clean(&lab, true).unwrap();
        assert!(!lab.root.join("out").exists());
    }
}
