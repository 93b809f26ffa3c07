// SPDX-License-Identifier: GPL-2.0-or-later
//! The commands of `cohort lab`.

use super::Lab;
use super::arch::{Arch, LAB};
use super::check::{
    arm64, audit, fuzz, groups, mmtests, mutate, native, objects, packages, scan_kernels,
    selftests, soak, stages, tally::Tally,
};
use super::experiment::{
    complete, definition, kept, made_from, map, papers, print, report, results, run as experiment,
};
use super::guest::{plugin, rootfs, setup, shell};
use super::host::files;
use super::kernel::build::{self, Config};
use super::package;
use super::profile;
use super::send;
use super::trace::{bench, sweep};
use crate::output::{self, say};
use crate::variation::Bounds;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// The checkout; default: the one around the working directory or this program.
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The options of a command that runs many tests.
#[derive(clap::Args)]
struct Counted<Options: clap::Args> {
    #[command(flatten)]
    options: Options,
    /// Also write how many tests passed and failed, as JSON.
    #[arg(long, value_name = "FILE")]
    tally: Option<PathBuf>,
}

/// The options of `test`.
#[derive(clap::Args)]
struct Test {
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Debug)]
    config: Config,
    /// Run only test programs whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Run all cases of each test program instead of the short run (`-q`), with six times the time
    /// limits.
    #[arg(long)]
    full: bool,
    /// Run each program in every mode, as --full and --filter do; without these, programs that
    /// hardly depend on the mode run in one.
    #[arg(long)]
    every_mode: bool,
    /// More words for the guests' kernel command line, such as `cohort_protect=pte`.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Let each program lead a group of processes that share TLB entries (32-bit ARM).
    #[arg(long)]
    tlb_group: bool,
    /// The architecture of the kernel and its guest.
    #[arg(long, value_name = "NAME", default_value = LAB.name)]
    arch: Arch,
    #[command(flatten)]
    watch: audit::Watch,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check the machine and install the packages that are missing.
    Setup {
        /// Also install what kernels and guests of this architecture need.
        #[arg(long, value_name = "NAME")]
        arch: Vec<Arch>,
    },
    /// Build a kernel.
    Build {
        /// The purpose of the kernel.
        #[arg(long, value_enum, default_value_t = Config::Bench)]
        config: Config,
        /// Build Debian's source unchanged, to compare with; the same as `--config pristine`.
        #[arg(long, conflicts_with = "config")]
        pristine: bool,
        /// The architecture of the kernel and its guest.
        #[arg(long, value_name = "NAME", default_value = LAB.name)]
        arch: Arch,
    },
    /// Make a root file system for the guest.
    Rootfs {
        /// A recipe in guest/rootfs, without `.toml`.
        #[arg(add = rootfs::complete())]
        name: String,
    },
    /// Boot a guest with a shell on this terminal, or run a command in one.
    Shell(shell::Options),
    /// Build Debian packages of the host tools and of the kernel, in out/deb.
    Deb {
        /// The kernel's configuration; default: the running kernel's, of /boot.
        #[arg(long, value_name = "FILE")]
        kernel_config: Option<PathBuf>,
        /// Build the package of the host tools alone.
        #[arg(long, conflicts_with = "kernel_config")]
        no_kernel: bool,
    },
    /// Run the selftests of the kernel series in a guest; fail if one fails.
    Test(Counted<Test>),
    /// Run random memory operations in guests that share page tables and check each against an
    /// oracle; shorten what fails and write it to out/fuzz.
    Fuzz(fuzz::Options),
    /// Run the kernel's own tests on the stock kernel and on ours, and compare the verdicts.
    Mmtests(Counted<mmtests::Options>),
    /// Run `cohort scan` on Debian's own kernels, old ones and arm64's included; fail if a count
    /// differs.
    ScanKernels {
        /// Boot only kernels of guest/scan-kernels.toml whose name contains this.
        #[arg(long)]
        filter: Option<String>,
    },
    /// Start containers (crun, podman), services and programs in groups in a guest; fail if those of
    /// one label do not share tables, or others do.
    CheckGroups(Counted<groups::Options>),
    /// Let one function of the kernel do nothing, one after the other, and run the test that must fail
    /// then; fail if one does not.
    Mutate(Counted<mutate::Options>),
    /// Boot a kernel under a plugin that keeps what a processor's TLBs could hold; fail if the kernel
    /// leaves out a TLB flush.
    Audit(audit::Options),
    /// Write the patches that would be sent, in series with cover letters, and check that git takes
    /// them; on request also that each series builds and passes its tests without the later ones.
    Series(Counted<send::Options>),
    /// Run every test, stage by stage, and print a table of their times: what `make test` runs.
    Stages {
        /// Run all cases and hours of load: what `make test-long` runs.
        #[arg(long)]
        long: bool,
    },
    /// Load a kernel that shares page tables, in too little memory; fail if it complains in its
    /// log or loses memory.
    Soak(Counted<soak::Options>),
    /// Run experiments and write their results.
    Run {
        /// Names that `cohort lab list` prints.
        #[arg(required = true, value_name = "EXPERIMENT", add = complete::experiments())]
        experiments: Vec<String>,
        /// Run what the experiments are on guests of this architecture: NAME-ARCH.
        #[arg(long, value_name = "ARCH", default_value = "amd64")]
        arch: Arch,
        /// Run the guests under this translation model: the name of a built-in or a TOML file.
        #[arg(long, value_name = "NAME", add = complete::models())]
        model: Option<String>,
        /// Compare every translation with QEMU's (slow); fail if one differs.
        #[arg(long)]
        check: bool,
        /// The readings of the model that run beside it and bound its figures.
        #[arg(long, value_enum, value_name = "WHICH", default_value = "dependences")]
        bounds: Bounds,
        /// Also write results/NAME.json for the repository, unless something failed. If the last run
        /// is complete and of the same sources, keep it without running again.
        #[arg(long)]
        keep: bool,
        /// Run everything this many times; results of fewer runs than the experiment asks for cannot
        /// be kept.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        runs: Option<u32>,
    },
    /// Count the instructions of an experiment by kernel function: a table, JSON and a page with
    /// flame graphs, variants side by side.
    Profile(profile::Options),
    /// Record the memory accesses of an experiment's guests, to replay under any model.
    Record(bench::RecordArgs),
    /// Replay a trace under a model and print its counters as JSON.
    Replay(sweep::ReplayArgs),
    /// Replay traces under many models and variants of models, on all cores.
    Sweep(sweep::SweepArgs),
    /// Boot one of Debian's own kernels (default: arm64) and compare every translation of the
    /// model with QEMU's; fail if one differs.
    CheckModel {
        /// A kernel of guest/scan-kernels.toml with pages of 4 KB.
        #[arg(default_value = arm64::KERNEL)]
        kernel: String,
    },
    /// Run the programs of superpage-stride and superpage-apps on this machine, with base pages
    /// and with huge pages, and compare the ratios with the model's.
    CheckNative(native::Options),
    /// Build the Debian packages, install and remove them in clean roots of Debian 12 and 13, and boot
    /// the kernel's; fail if one of these fails.
    CheckPackages(Counted<packages::Options>),
    /// Compile what the series changes, with its options off, for six kernels; fail if an object is
    /// not the stock kernel's.
    CheckObjects(Counted<objects::Options>),
    /// Measure the speed of the translation model against QEMU without it.
    BenchModel(bench::BenchArgs),
    /// List the experiments, their last and kept results, and which of these are old.
    List {
        /// List the papers' tables, figures and claims instead: the experiment that reproduces each,
        /// the paper's figure and ours of the kept results, and what came of it.
        #[arg(long)]
        papers: bool,
        /// With --papers: as JSON.
        #[arg(long, requires = "papers")]
        json: bool,
    },
    /// Write docs/results.md and the README's picture from the kept results (results/*.json), and
    /// pages with plots from the last runs: out/report.html. What has not run here is shown there by
    /// its kept result.
    Report {
        /// Write nothing; fail if docs/results.md or the README differs from the kept results.
        #[arg(long)]
        check: bool,
    },
    /// Remove all of out/ except out/results.
    Clean {
        /// Remove results too.
        #[arg(long)]
        all: bool,
    },
}

/// Runs a subcommand.
pub fn main(args: Args) -> Result<ExitCode> {
    let lab = match &args.command {
        // Traces can be replayed without a checkout.
        Command::Replay(args) => return sweep::replay(args).map(|()| ExitCode::SUCCESS),
        Command::Sweep(args) => return sweep::sweep(args).map(|()| ExitCode::SUCCESS),
        _ => Lab::find(args.root)?,
    };
    if !matches!(args.command, Command::Shell(_)) {
        // Exiting at once is safe: children end with us, and a file has another name until it is
        // complete.
        ctrlc::set_handler(|| {
            eprintln!("\ncohort: interrupted; run the same command again to continue");
            std::process::exit(130);
        })
        .context("cannot set up ^C")?;
    }
    match args.command {
        Command::Setup { arch } => setup::setup(&lab, &arch)?,
        Command::Build {
            config,
            pristine,
            arch,
        } => {
            let config = if pristine { Config::Pristine } else { config };
            let kernel = build::build_for(&lab, arch, config)?;
            say!("Linux {}: {}", kernel.describe(), kernel.image.display())?;
        }
        Command::Rootfs { name } => say!("{}", rootfs::image(&lab, &name)?.display())?,
        Command::Shell(options) => return shell::shell(&lab, &options),
        Command::Deb {
            kernel_config,
            no_kernel,
        } => deb(&lab, kernel_config.as_deref(), no_kernel)?,
        Command::Test(Counted { options, tally }) => {
            let how = selftests::How {
                filter: options.filter,
                full: options.full,
                every_mode: options.every_mode,
                append: options.append,
                tlb_group: options.tlb_group,
                watch: options.watch,
            };
            let count = selftests::test(&lab, options.arch, options.config, &how)?;
            say!("{count}")?;
            return counted(&count, tally.as_deref());
        }
        Command::Fuzz(options) => {
            if !fuzz::fuzz(&lab, &options)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Mmtests(Counted { options, tally }) => {
            return counted(&mmtests::mmtests(&lab, &options)?, tally.as_deref());
        }
        Command::ScanKernels { filter } => {
            if !scan_kernels::run(&lab, filter.as_deref())? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::CheckGroups(Counted { options, tally }) => {
            return counted(&groups::run(&lab, &options)?, tally.as_deref());
        }
        Command::Mutate(Counted { options, tally }) => {
            return counted(&mutate::mutate(&lab, &options)?, tally.as_deref());
        }
        Command::Audit(options) => {
            if !audit::audit(&lab, &options)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Series(Counted { options, tally }) => {
            let count = send::series(&lab, &options)?;
            say!("{count}")?;
            return counted(&count, tally.as_deref());
        }
        Command::Stages { long } => {
            if !stages::run(&lab, long)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Soak(Counted { options, tally }) => {
            return counted(&soak::soak(&lab, &options)?, tally.as_deref());
        }
        Command::Run {
            experiments,
            arch,
            model,
            check,
            bounds,
            keep,
            runs,
        } => {
            let experiments: Vec<String> = match arch == LAB {
                true => experiments,
                false => experiments
                    .iter()
                    .map(|name| format!("{name}-{arch}"))
                    .collect(),
            };
            let under = experiment::Under {
                model,
                check,
                bounds,
                runs,
            };
            run(&lab, &experiments, &under, keep)?;
        }
        Command::Profile(options) => {
            let papers = papers::Papers::of(&lab)?;
            let experiment = definition::load(&lab, &options.experiment, &papers)?;
            let written = profile::profile(&lab, experiment, &options)?;
            output::print(written.text)?;
            for file in written.files {
                eprintln!("{}", file.display());
            }
        }
        Command::Record(args) => {
            for trace in bench::record(&lab, &args)? {
                say!("{}", trace.display())?;
            }
        }
        Command::Replay(_) | Command::Sweep(_) => {
            unreachable!("handled before the checkout is searched for")
        }
        Command::CheckModel { kernel } => {
            if !arm64::run(&lab, &kernel)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::CheckNative(options) => native::run(&lab, &options)?,
        Command::CheckPackages(Counted { options, tally }) => {
            return counted(&packages::run(&lab, &options)?, tally.as_deref());
        }
        Command::CheckObjects(Counted { options, tally }) => {
            return counted(&objects::run(&lab, &options)?, tally.as_deref());
        }
        Command::BenchModel(args) => bench::bench(&lab, &args)?,
        Command::List {
            papers: false,
            json: _,
        } => list(&lab)?,
        Command::List { papers: true, json } => list_papers(&lab, json)?,
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

/// Writes the tally to `file` if --tally names one. The command fails if a test failed.
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
    // Read all experiments and models before the first run: a mistyped name must not show after an
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
                    "the results of {name} cannot be kept with --runs {runs}: it needs {} runs",
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

/// Calls `act` for all of `experiments`, also after one failed; the error names those that failed.
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
            "{} is from the same sources; kept as {}",
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

/// The last results, if they were made from the current sources and can be kept.
fn complete(
    lab: &Lab,
    experiment: &definition::Experiment,
    papers: &papers::Papers,
    under: &experiment::Under,
) -> Result<Option<results::Results>> {
    let model = under.model.as_deref();
    let now = made_from::MadeFrom::of(lab, experiment, papers, model)?;
    // Results of another version of the lab cannot be read: run again.
    let last = results::last(lab, &experiment.name).unwrap_or_default();
    let mut last = last.into_iter().filter(|results| {
        results.model == under.model
            && results.made_from == now
            && results.runs.len() >= under.runs.unwrap_or_default() as usize
            && results.translations.is_some() == under.check
            // Without a model there is nothing to bound.
            && (now.model.is_none() || results.bounds == under.bounds)
    });
    Ok(last.find(|results| kept::refusal(results, experiment).is_none()))
}

/// Prints the list; fails after that if a kept result is damaged.
fn list(lab: &Lab) -> Result<()> {
    let (text, damaged) = listed(lab)?;
    say!("{text}")?;
    if !damaged.is_empty() {
        bail!("kept results are damaged: {}", damaged.join(", "));
    }
    Ok(())
}

/// The list, and the names of kept results that are damaged.
fn listed(lab: &Lab) -> Result<(String, Vec<String>)> {
    let papers = papers::Papers::of(lab)?;
    let kept = kept::each(lab)?;
    let mut rows = Vec::new();
    for name in definition::names(lab)? {
        let title = definition::load(lab, &name, &papers)?.title;
        let outcome =
            |date: &str, checks: &[_], model: Option<&str>, made_from: &_, change: Option<&str>| {
                let old = kept::old(lab, &papers, (&name, model), made_from, change)?;
                let outcome = print::Outcome::new(date, checks, old);
                Ok::<_, anyhow::Error>(print::Found::Ran(outcome))
            };
        let mut found = Vec::new();
        match results::last(lab, &name) {
            Ok(last) => {
                for it in last {
                    let (model, change) = (it.model.as_deref(), it.change());
                    let last = outcome(&it.date, &it.checks, model, &it.made_from, change)?;
                    found.push(print::Row::new(it.name(), &title, last));
                }
            }
            Err(error) => {
                let last = print::Found::Unreadable(error.to_string());
                found.push(print::Row::new(name.clone(), &title, last));
            }
        }
        let own = |(title, _): &&(String, _)| results::experiment(title) == name;
        for (result, it) in kept.iter().filter(own) {
            let outcome = match it {
                Ok(it) => {
                    let (model, change) = (it.model.as_deref(), it.change());
                    outcome(&it.date, &it.checks, model, &it.made_from, change)?
                }
                Err(error) => print::Found::Unreadable(format!("{error:#}")),
            };
            match found.iter_mut().find(|row| row.name == *result) {
                Some(row) => row.kept = outcome,
                None => {
                    let never = print::Found::Never;
                    let mut row = print::Row::new(result.clone(), &title, never);
                    row.kept = outcome;
                    found.push(row);
                }
            }
        }
        if found.is_empty() {
            found.push(print::Row::new(name, &title, print::Found::Never));
        }
        rows.append(&mut found);
    }
    let damaged = kept.into_iter().filter(|(_, kept)| kept.is_err());
    let damaged = damaged.map(|(result, _)| result).collect();
    Ok((print::list(&rows), damaged))
}

fn list_papers(lab: &Lab, json: bool) -> Result<()> {
    let map = map::map(lab)?;
    if json {
        let text = serde_json::to_string_pretty(&map).context("JSON cannot hold the map")?;
        return say!("{text}");
    }
    output::print(map::text(&map, &papers::Papers::of(lab)?))
}

fn deb(lab: &Lab, config: Option<&Path>, no_kernel: bool) -> Result<()> {
    // What is not there is said before anything is built.
    let config = match no_kernel {
        true => None,
        false => Some(package::kernel::configuration(config)?),
    };
    say!("{}", package::tools::build(lab)?.display())?;
    if let Some((path, text)) = config {
        eprintln!("the kernel is configured as in {}", path.display());
        for package in package::kernel::build(lab, &text)? {
            say!("{}", package.display())?;
        }
    }
    Ok(())
}

fn clean(lab: &Lab, all: bool) -> Result<()> {
    let out = lab.root.join("out");
    if all {
        return files::remove(&out);
    }
    for part in files::entries(&out)? {
        if part != lab.out("results") {
            files::remove(&part)?;
        }
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
    fn only_a_command_that_counts_tests_takes_a_tally() {
        let takes = |words: &str| {
            let lab = <Args as clap::Args>::augment_args(clap::Command::new("lab"));
            let words = format!("lab {words} --tally file");
            lab.try_get_matches_from(words.split(' ')).is_ok()
        };
        for command in ["test --full", "soak", "mutate", "series sent"] {
            assert!(takes(command), "{command}");
        }
        for command in ["list", "report", "clean", "audit"] {
            assert!(!takes(command), "{command}");
        }
    }

    #[test]
    fn a_damaged_result_is_listed_beside_the_others() {
        let (_dir, lab) = made_from::tests::fake();
        let (text, damaged) = listed(&lab).unwrap();
        assert!(text.contains("never") && damaged.is_empty(), "{text}");
        files::write(&lab.path("results/demo.json"), b"{").unwrap();
        files::write(&lab.path("results/demo@zen4.json"), b"{").unwrap();
        let (text, damaged) = listed(&lab).unwrap();
        assert_eq!(damaged, ["demo", "demo@zen4"]);
        assert_eq!(text.matches("cannot be read, kept").count(), 2, "{text}");
        for command in ["run demo --keep`", "run demo --model zen4 --keep`"] {
            assert!(text.contains(command), "{text}");
        }
    }

    #[test]
    fn clean_keeps_results_unless_all_is_asked_for() {
        let (_dir, lab) = Lab::fake();
        files::write(&lab.out("results/a.json"), b"{}").unwrap();
        for path in ["build/bench/vmlinux", "mutate/image", "report.html"] {
            files::write(&lab.out(path), b"").unwrap();
        }
        clean(&lab, false).unwrap();
        assert!(lab.out("results/a.json").exists());
        assert_eq!(
            files::entries(&lab.root.join("out")).unwrap(),
            [lab.out("results")]
        );
        clean(&lab, true).unwrap();
        assert!(!lab.root.join("out").exists());
        clean(&lab, false).unwrap();
    }
}
