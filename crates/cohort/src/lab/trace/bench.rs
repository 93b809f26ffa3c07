// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab record` and `cohort lab bench-model`: guests whose accesses become a trace, and how
//! fast the model is beside the bare emulator.

use crate::lab::Lab;
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::run;
use crate::lab::experiment::{complete, definition};
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::{self, Output, Plugin, Regions, Task};
use crate::lab::guest::programs;
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::host::files;
use crate::lab::kernel::build::{self, Config, Kernel};
use crate::lab::trace::sweep;
use crate::output::{self, say};
use crate::show;
use crate::variation::Configuration;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Instant;

/// Guest and host seconds for the benchmark's guests.
const LIMIT: u64 = 1_800;
/// Processors of the benchmark's guest.
const CPUS: u32 = 8;
/// What they do: a real program on each processor, with its libraries' start-up.
const COMMAND: &str = "for cpu in 1 2 3 4 5 6 7 8; do python3 -c 'import json, re, zlib; \
    d = [json.dumps({str(i): i}) for i in range(3000)]; \
    print(zlib.crc32(re.sub(\"1\", \"2\", \"\".join(d)).encode()))' & done; wait";

/// Arguments of `cohort lab record`.
#[derive(clap::Args)]
pub struct RecordArgs {
    /// A name of `cohort lab list`.
    #[arg(add = complete::experiments())]
    experiment: String,
    /// Only this variant.
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

/// Arguments of `cohort lab bench-model`.
#[derive(clap::Args)]
pub struct BenchArgs {
    /// A built-in model's name or a TOML file.
    #[arg(long, value_name = "NAME", default_value = "babelfish-isca20", add = complete::models())]
    model: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Records the variants of an experiment; returns the traces.
pub fn record(lab: &Lab, args: &RecordArgs) -> Result<Vec<PathBuf>> {
    let papers = Papers::of(lab)?;
    let experiment = definition::load(lab, &args.experiment, &papers)?.modelled();
    let variants: Vec<_> = experiment
        .variants
        .iter()
        .filter(|v| args.variant.as_ref().is_none_or(|name| v.name == *name))
        .collect();
    if variants.is_empty() {
        let names: Vec<_> = experiment
            .variants
            .iter()
            .map(|v| v.name.as_str())
            .collect();
        bail!(
            "{} has no variant {}; it has {}",
            experiment.name,
            args.variant.as_deref().unwrap_or_default(),
            names.join(", ")
        );
    }
    plugin::ready(&Task::Record(PathBuf::new()))?;
    let arch = experiment.guest.arch;
    let init = programs::init_for(lab, arch)?;
    let programs = run::programs_of(lab, &experiment)?;
    let image = match &experiment.guest.rootfs {
        Some(name) => Some(rootfs::image(lab, name)?),
        None => None,
    };
    let mut traces = Vec::new();
    for variant in variants {
        let kernel = build::build_for(lab, arch, variant.kernel)?;
        let name = format!("{}-{}", experiment.name, variant.name);
        let trace = lab.out(&format!("traces/{name}.trace"));
        let part = files::sibling(&trace, ".part");
        files::make_dir(&lab.out("traces"))?;
        let measured = |step: &str| variant.measures(step);
        let (steps, _) = plugin::mark(&experiment.steps(variant), measured, experiment.regions);
        let mut plugin = Plugin::new(&kernel.symbols, Task::Record(part.clone()))?;
        plugin.about = about(&experiment.name, &variant.name, &kernel);
        let outcome = Spec {
            name: format!("{name}@record"),
            machine: Machine::of(arch)?,
            kernel: &kernel.image,
            memory: experiment.guest.memory,
            cpus: experiment.guest.cpus,
            icount: true,
            rootfs: image.as_deref(),
            read_limit: None,
            cmdline: experiment.cmdline(variant),
            init: &init,
            programs: &programs,
            steps,
            plugin: Some(&plugin),
            limit: experiment.guest.timeout * plugin.slower(),
        }
        .run(lab)?;
        if let Some(problem) = outcome.problem() {
            bail!("{problem}");
        }
        if let Some(step) = outcome.report.steps.iter().find(|s| !s.ending.success()) {
            bail!("{}: {}", step.name, step.ending);
        }
        // Whole or not at all: the recorder has written its end.
        std::fs::rename(&part, &trace)
            .with_context(|| format!("cannot rename {}", part.display()))?;
        traces.push(trace);
    }
    Ok(traces)
}

/// The name that the trace of a variant has in it.
fn about(experiment: &str, variant: &str, kernel: &Kernel) -> String {
    format!("{experiment}, {variant}, Linux {}", kernel.describe())
}

/// A speed: how much in how many seconds of processor time.
struct Speed {
    what: String,
    amount: f64,
    unit: &'static str,
    cpu: f64,
    wall: f64,
}

/// Processor seconds of this process's children that have ended, and of its own.
fn cpu_seconds() -> (f64, f64) {
    let of = |who| {
        // SAFETY: the structure is written by the call, all zeros is one of its values.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    (of(libc::RUSAGE_CHILDREN), of(libc::RUSAGE_SELF))
}

/// Boots the same guest bare, under the model and under the recorder, and replays the trace.
pub fn bench(lab: &Lab, args: &BenchArgs) -> Result<()> {
    plugin::ready(&Task::Model(args.model.clone()))?;
    let kernel = build::build(lab, Config::Bench)?;
    let init = programs::init(lab)?;
    let programs = programs::workloads(lab)?;
    let image = rootfs::image(lab, "base")?;
    let dir = lab.out("run/bench-model");
    let trace = lab.out("traces/bench-model.trace");
    files::make_dir(&lab.out("traces"))?;
    let configuration = Configuration {
        model: args.model.clone(),
        set: Vec::new(),
    };

    let boot = |task: Option<Task>| -> Result<(f64, f64, u64)> {
        let mut plugin = match task {
            Some(task) => Some(Plugin::new(&kernel.symbols, task)?),
            None => None,
        };
        if let Some(plugin) = &mut plugin {
            // The model works through the whole boot; a trace is of the programs alone.
            plugin.whole = matches!(plugin.task, Task::Model(_));
            plugin.about = format!("bench-model, Linux {}", kernel.describe());
        }
        let step = [Step::new("load.1", LIMIT, COMMAND)];
        let (steps, _) = plugin::mark(&step, |_| true, Regions::Command);
        let spec = Spec {
            name: "bench-model".into(),
            machine: Machine::lab(),
            kernel: &kernel.image,
            memory: 1_024,
            cpus: CPUS,
            icount: true,
            rootfs: Some(&image),
            read_limit: None,
            cmdline: String::new(),
            init: &init,
            programs: &programs,
            steps,
            plugin: plugin.as_ref(),
            limit: LIMIT,
        };
        let (before, start) = (cpu_seconds().0, Instant::now());
        let outcome = spec.run(lab)?;
        let cpu = cpu_seconds().0 - before;
        let wall = start.elapsed().as_secs_f64();
        if let Some(problem) = outcome.problem() {
            bail!("{problem}");
        }
        if let Some(step) = outcome.report.steps.iter().find(|s| !s.ending.success()) {
            bail!("{}: {}", step.name, step.ending);
        }
        let instructions = match &plugin {
            Some(_) => Output::read(&dir)?.instructions,
            None => 0,
        };
        Ok((cpu, wall, instructions))
    };
    let mut speeds = Vec::new();
    let guest = |what: &str, (cpu, wall, amount): (f64, f64, u64)| Speed {
        what: what.into(),
        amount: amount as f64,
        unit: "instructions",
        cpu,
        wall,
    };
    let under = boot(Some(Task::Model(args.model.clone())))?;
    // The guest does the same within a fraction of a per cent: the bare emulator counts nothing.
    let bare = boot(None)?;
    speeds.push(guest("bare QEMU", (bare.0, bare.1, under.2)));
    let count = boot(Some(Task::Count))?;
    speeds.push(guest("QEMU, accesses counted only", count));
    speeds.push(guest(&format!("QEMU with {}", args.model), under));
    let recorded = boot(Some(Task::Record(trace.clone())))?;
    speeds.push(guest("QEMU, recording the programs", recorded));
    let (before, start) = (cpu_seconds().1, Instant::now());
    let (_, _, accesses) = sweep::played(&trace, &configuration, None)?;
    speeds.push(Speed {
        what: format!("replay with {}", args.model),
        amount: accesses as f64,
        unit: "accesses",
        cpu: cpu_seconds().1 - before,
        wall: start.elapsed().as_secs_f64(),
    });
    let size = std::fs::metadata(&trace).map_or(0, |meta| meta.len());
    if args.json {
        say!("{}", json(&speeds, size, accesses)?)?;
    } else {
        output::print(table(&speeds, size, accesses))?;
    }
    Ok(())
}

fn json(speeds: &[Speed], size: u64, accesses: u64) -> Result<String> {
    let list: Vec<_> = speeds
        .iter()
        .map(|speed| {
            serde_json::json!({
                "what": speed.what,
                "amount": speed.amount,
                "unit": speed.unit,
                "cpu_seconds": speed.cpu,
                "wall_seconds": speed.wall,
                "per_cpu_second": speed.amount / speed.cpu.max(1e-9),
            })
        })
        .collect();
    let all = serde_json::json!({
        "schema_version": 1, "cpus": CPUS, "speeds": list,
        "trace_bytes": size, "trace_accesses": accesses,
    });
    serde_json::to_string_pretty(&all).context("speeds that JSON cannot hold")
}

fn table(speeds: &[Speed], size: u64, accesses: u64) -> String {
    let heading = [
        "what",
        "million",
        "of",
        "CPU seconds",
        "seconds",
        "million a CPU second",
    ];
    let rows = speeds.iter().map(|speed| {
        vec![
            speed.what.clone(),
            show::number((speed.amount / 1e5).round() / 10.0),
            speed.unit.into(),
            show::number(speed.cpu),
            show::number(speed.wall),
            show::number(speed.amount / 1e6 / speed.cpu.max(1e-9)),
        ]
    });
    let mut text = show::plain(heading.map(String::from).to_vec(), rows.collect());
    text.push_str(&format!(
        "{CPUS} virtual CPUs on one core; the trace has {:.2} bytes an access.\n",
        size as f64 / accesses.max(1) as f64
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_of_processor_time() {
        let speeds = [Speed {
            what: "bare QEMU".into(),
            amount: 300e6,
            unit: "instructions",
            cpu: 2.0,
            wall: 10.0,
        }];
        let text = table(&speeds, 50, 100);
        assert!(
            text.contains("150") && text.contains("0.50 bytes"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        let parsed: serde_json::Value =
            serde_json::from_str(&json(&speeds, 50, 100).unwrap()).unwrap();
        assert_eq!(parsed["speeds"][0]["per_cpu_second"], 150e6);
    }

    #[test]
    fn a_trace_says_what_it_is_of() {
        let mut kernel = Kernel {
            config: Config::Bench,
            version: "6.12.117".into(),
            change: Some("0123456789abcdef".into()),
            config_hash: String::new(),
            compiler: String::new(),
            image: PathBuf::new(),
            symbols: PathBuf::new(),
        };
        assert_eq!(
            about("app-launch", "cohort-2mb", &kernel),
            "app-launch, cohort-2mb, Linux 6.12.117 (bench, change 0123456789ab)"
        );
        (kernel.config, kernel.change) = (Config::Pristine, None);
        assert_eq!(
            about("app-launch", "stock", &kernel),
            "app-launch, stock, Linux 6.12.117 (pristine)"
        );
    }

    #[test]
    fn processor_time_is_counted() {
        let before = cpu_seconds().1;
        let mut sum = 0u64;
        while cpu_seconds().1 <= before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_seconds().1 > before);
    }
}
