// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab check-native`: the programs of `superpage-stride` and `superpage-apps` on this machine
//! itself, with base pages and with its huge pages. How much faster huge pages are on real hardware
//! is put beside what the translation model says; only ratios are comparable.

use crate::lab::Lab;
use crate::lab::arch;
use crate::lab::experiment::definition;
use crate::lab::experiment::kept::processor;
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::results::{self, Results};
use crate::lab::guest::programs;
use crate::lab::guest::protocol::{Metric, metrics};
use crate::lab::host::files;
use crate::lab::host::process;
use crate::lab::host::progress::Progress;
use crate::output;
use crate::run::chosen;
use crate::show;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whether this machine gives huge pages to programs that ask for them.
const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// The model of a current server core, of which the experiments have figures.
const MODEL: &str = "zen4";
const STRIDE: &str = "superpage-stride";
const APPS: &str = "superpage-apps";
/// Heaps of these sizes are strided over: so many steps of so many MB.
const STEPS: usize = 8;
const STEP_MB: usize = 4;
/// The experiment's step, in KB.
const MODEL_STEP_KB: usize = 128;
/// Reads of each heap, and how many times a guest's work the programs do: long enough for a
/// clock to measure.
const READS: u32 = 4_000_000;
const TIMES: &str = "4";
/// The exit status of `superpage_apps.py` if a program is not installed.
const NOT_THERE: i32 = 4;
/// Huge pages must leave at most one in this many of a region's page faults.
const FEWER_FAULTS: f64 = 64.0;
/// Changes when a field of the results changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How often each program runs with either kind of pages, in turn; its shortest run counts.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// The content of `out/results/check-native.json`.
#[derive(Debug, Serialize)]
struct Found {
    schema_version: u32,
    date: String,
    /// As `/proc/cpuinfo` names it.
    processor: String,
    /// The machine's switch for huge pages.
    switch: String,
    rounds: u32,
    /// The model that it is compared with.
    model: &'static str,
    /// By size of the heap in MB.
    strides: Vec<Ratio>,
    /// By program.
    programs: Vec<Ratio>,
    /// Programs that the machine does not have.
    not_there: Vec<String>,
}

/// One comparison.
#[derive(Debug, Serialize, PartialEq)]
struct Ratio {
    name: String,
    /// With base pages: ticks of the processor's clock a read, or seconds of processor time.
    base: f64,
    /// With huge pages.
    huge: f64,
    /// Page faults of the programs; writing the heap, of a stride.
    base_faults: f64,
    huge_faults: f64,
    /// The model's cycles with huge pages for each with base pages, where it has run.
    model: Option<f64>,
}

impl Ratio {
    fn native(&self) -> f64 {
        self.huge / self.base
    }
}

/// Pages of one kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Base,
    Huge,
}

/// Runs everything, and prints it beside the model's.
pub fn run(lab: &Lab, options: &Options) -> Result<()> {
    let switch = switch(&files::read(Path::new(SWITCH)).with_context(
        || "this machine's kernel has no transparent huge pages: there is nothing to compare",
    )?)?;
    let stride = programs::workload_for(lab, arch::LAB, "stride")?;
    let names = programs_of(lab)?;
    let dir = lab.out("run/check-native");
    files::make_dir(&dir)?;
    let script = lab.path("guest/workloads/files/superpage_apps.py");
    let total = u64::from(options.rounds) * 2 * (1 + names.len() as u64);
    let mut progress = Progress::new("native", "runs", Some(total));

    let mut strides = Samples::default();
    let mut apps: BTreeMap<&str, Samples> = BTreeMap::new();
    let mut not_there = Vec::new();
    for _ in 0..options.rounds {
        for pages in [Pages::Base, Pages::Huge] {
            let step = format!("{STEP_MB}M");
            let max = format!("{}M", STEP_MB * STEPS);
            let kind = if pages == Pages::Huge { "1" } else { "0" };
            let mut command = Command::new(&stride.file);
            command.args(["--native", kind, "--step", &step, "--max", &max]);
            command.args(["--accesses", &READS.to_string()]);
            let found = measure(&mut command)?.context("stride is not there")?;
            strides.add(pages, &found, "ticks")?;
            progress.step();
        }
        strides.huge_pages_came()?;
        for name in &names {
            for pages in [Pages::Base, Pages::Huge] {
                progress.note(name);
                progress.step();
                if not_there.contains(name) {
                    continue;
                }
                let mut command = Command::new("python3");
                command.arg(&script).arg("--dir").arg(&dir);
                command.args(["--native", TIMES, name]);
                with_pages(&mut command, pages);
                match measure(&mut command)? {
                    Some(found) => {
                        let samples = apps.entry(name).or_default();
                        samples.add(pages, &found, "seconds")?;
                    }
                    None => not_there.push(name.clone()),
                }
            }
        }
    }
    progress.finish("ran the programs natively");

    let stride_results = results::last(lab, STRIDE)?;
    let app_results = results::last(lab, APPS)?;
    let found = Found {
        schema_version: SCHEMA_VERSION,
        date: results::utc(std::time::SystemTime::now()),
        processor: processor(&files::read(Path::new("/proc/cpuinfo")).unwrap_or_default()),
        switch,
        rounds: options.rounds,
        model: MODEL,
        strides: (0..STEPS)
            .map(|step| {
                let mb = (step + 1) * STEP_MB;
                let at = mb * 1024 / MODEL_STEP_KB - 1;
                let variants = (format!("{MODEL}-stock"), format!("{MODEL}-thp"));
                let mut ratio = strides.ratio(format!("{mb} MB"), step);
                ratio.base /= f64::from(READS);
                ratio.huge /= f64::from(READS);
                ratio.model = of_model(&stride_results, None, &variants, at);
                ratio
            })
            .collect(),
        programs: names
            .iter()
            .filter_map(|name| {
                let variants = (format!("{name}-stock"), format!("{name}-thp"));
                let mut ratio = apps.get(name.as_str())?.ratio(name.clone(), 0);
                ratio.model = of_model(&app_results, Some(MODEL), &variants, 0);
                Some(ratio)
            })
            .collect(),
        not_there,
    };
    let json = results::json(&found)?;
    results::save(lab, "check-native", &json)?;
    if options.json {
        output::print(json)?;
    } else {
        output::print(tables(&found))?;
    }
    Ok(())
}

/// The word in brackets; an error if it is `never`.
fn switch(text: &str) -> Result<String> {
    match chosen(text) {
        Some(word @ ("always" | "madvise")) => Ok(word.into()),
        _ => bail!(
            "huge pages are off on this machine ({SWITCH} says `{}`): root can write `madvise` \
             there; nothing was run",
            text.trim()
        ),
    }
}

/// The programs of the experiment, in its order.
fn programs_of(lab: &Lab) -> Result<Vec<String>> {
    let experiment = definition::load(lab, APPS, &Papers::of(lab)?)?;
    let variants = experiment.variants.iter();
    Ok(variants
        .filter_map(|variant| Some(variant.name.strip_suffix("-stock")?.to_string()))
        .collect())
}

/// Without huge pages, whatever the switch; or with them for all that the C library allocates,
/// and where the switch is at `always` for everything.
fn with_pages(command: &mut Command, pages: Pages) {
    const TUNABLE: &str = "GLIBC_TUNABLES";
    if pages == Pages::Huge {
        command.env(TUNABLE, "glibc.malloc.hugetlb=1");
        return;
    }
    command.env_remove(TUNABLE);
    // SAFETY: between fork and exec the closure only makes one system call, which is
    // async-signal-safe and is given integers.
    unsafe {
        command.pre_exec(|| {
            let (on, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
            match libc::prctl(libc::PR_SET_THP_DISABLE, on, zero, zero, zero) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

/// The output of a program; `None` if the machine does not have it.
fn measure(command: &mut Command) -> Result<Option<BTreeMap<String, Metric>>> {
    let name = command.get_program().to_string_lossy().into_owned();
    process::end_with_us(command, libc::SIGTERM);
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if output.status.code() == Some(NOT_THERE) {
        return Ok(None);
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, said.trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let mut found = BTreeMap::new();
    metrics(&lines, &mut found).map_err(anyhow::Error::msg)?;
    Ok(Some(found))
}

/// The shortest run of each kind, value by value: what disturbs a run only makes it longer.
#[derive(Default)]
struct Samples {
    shortest: [Vec<f64>; 2],
    faults: [f64; 2],
}

impl Samples {
    fn add(&mut self, pages: Pages, found: &BTreeMap<String, Metric>, name: &str) -> Result<()> {
        let values = |names: &[&str]| {
            let metric = names.iter().find_map(|name| found.get(*name));
            metric
                .map(|metric| metric.values.clone())
                .filter(|values| !values.is_empty())
                .with_context(|| format!("a program printed no metric {}", names.join(" or ")))
        };
        let new = values(&[name])?;
        let shortest = &mut self.shortest[pages as usize];
        if shortest.is_empty() {
            *shortest = new;
        } else {
            for (old, new) in shortest.iter_mut().zip(new) {
                *old = old.min(new);
            }
        }
        self.faults[pages as usize] = values(&["init-faults", "faults"])?[0];
        Ok(())
    }

    /// An error if a program asked for huge pages and got none: then nothing can be compared.
    fn huge_pages_came(&self) -> Result<()> {
        let [base, huge] = self.faults;
        if huge * FEWER_FAULTS > base {
            bail!(
                "a heap that asked for huge pages had {huge} page faults, and {base} without: \
                 this machine gives none (is its memory fragmented?), so there is nothing to \
                 compare"
            );
        }
        Ok(())
    }

    fn ratio(&self, name: String, at: usize) -> Ratio {
        let [base, huge] = &self.shortest;
        Ratio {
            name,
            base: base.get(at).copied().unwrap_or(f64::NAN),
            huge: huge.get(at).copied().unwrap_or(f64::NAN),
            base_faults: self.faults[0],
            huge_faults: self.faults[1],
            model: None,
        }
    }
}

/// The model's cycles of one variant for each of another, from the experiment's last results
/// under the model (`None`: its variants name their own).
fn of_model(
    all: &[Results],
    model: Option<&str>,
    (base, huge): &(String, String),
    at: usize,
) -> Option<f64> {
    let named = |results: &&Results| match (&results.model, model) {
        (Some(ran), Some(model)) => Path::new(ran).file_stem().is_some_and(|stem| stem == model),
        (ran, model) => ran.is_none() && model.is_none(),
    };
    let results = all.iter().find(named)?;
    let cycles = |name: &str| {
        let mut variants = results.runs.first()?.variants.iter();
        let variant = variants.find(|result| result.variant.name == name)?;
        variant.metrics.get("model-cycles")?.values.get(at).copied()
    };
    Some(cycles(huge)? / cycles(base)?).filter(|ratio| ratio.is_finite())
}

fn tables(found: &Found) -> String {
    let rows = |ratios: &[Ratio]| -> Vec<Vec<String>> {
        ratios
            .iter()
            .map(|ratio| {
                vec![
                    ratio.name.clone(),
                    show::number(ratio.base),
                    show::number(ratio.huge),
                    show::number(ratio.base_faults),
                    show::number(ratio.huge_faults),
                    show::number(ratio.native()),
                    show::maybe(ratio.model),
                ]
            })
            .collect()
    };
    let heading = |what: &str, unit: &str| {
        vec![
            what.to_string(),
            format!("base pages ({unit})"),
            "huge pages".into(),
            "faults, base".into(),
            "huge".into(),
            "huge / base".into(),
            format!("{}: cycles", found.model),
        ]
    };
    let mut text = format!(
        "On {}, huge pages: {}, the shortest of {} runs each\n\n",
        found.processor, found.switch, found.rounds
    );
    text.push_str(&show::plain(
        heading("heap strided over", "ticks"),
        rows(&found.strides),
    ));
    text.push('\n');
    text.push_str(&show::plain(heading("program", "s"), rows(&found.programs)));
    for name in &found.not_there {
        text.push_str(&format!("{name} is not installed and was left out.\n"));
    }
    let lacks = |ratios: &[Ratio]| ratios.iter().any(|ratio| ratio.model.is_none());
    if lacks(&found.strides) {
        text.push_str(&format!(
            "The model's column needs `cohort lab run {STRIDE}`.\n"
        ));
    }
    if lacks(&found.programs) {
        text.push_str(&format!(
            "The model's column needs `cohort lab run {APPS} --model {}`.\n",
            found.model
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_the_word_in_brackets_and_never_is_refused() {
        assert_eq!(switch("always [madvise] never\n").unwrap(), "madvise");
        assert_eq!(switch("[always] madvise never\n").unwrap(), "always");
        for text in ["always madvise [never]\n", "", "nothing"] {
            let error = switch(text).unwrap_err().to_string();
            assert!(error.contains("root can write `madvise`"), "{error}");
        }
    }

    fn printed(text: &str) -> BTreeMap<String, Metric> {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let mut found = BTreeMap::new();
        metrics(&lines, &mut found).unwrap();
        found
    }

    #[test]
    fn the_shortest_run_of_each_kind_counts_value_by_value() {
        let mut samples = Samples::default();
        for (pages, text) in [
            (
                Pages::Base,
                "metric ticks 90 t\nmetric ticks 40 t\nmetric init-faults 64 faults",
            ),
            (
                Pages::Huge,
                "metric ticks 30 t\nmetric ticks 20 t\nmetric init-faults 1 faults",
            ),
            (
                Pages::Base,
                "metric ticks 60 t\nmetric ticks 50 t\nmetric init-faults 64 faults",
            ),
        ] {
            samples.add(pages, &printed(text), "ticks").unwrap();
        }
        let ratio = samples.ratio("a".into(), 0);
        assert_eq!((ratio.base, ratio.huge, ratio.native()), (60.0, 30.0, 0.5));
        assert_eq!(samples.ratio("b".into(), 1).native(), 0.5);
        assert_eq!((ratio.base_faults, ratio.huge_faults), (64.0, 1.0));
        samples.huge_pages_came().unwrap();
        let none = "metric ticks 1 t\nmetric init-faults 64 faults";
        samples.add(Pages::Huge, &printed(none), "ticks").unwrap();
        let error = samples.huge_pages_came().unwrap_err().to_string();
        assert!(error.contains("had 64 page faults"), "{error}");
        let error = samples.add(Pages::Base, &printed("metric faults 1 faults"), "seconds");
        assert!(error.unwrap_err().to_string().contains("seconds"));
    }

    #[test]
    fn a_program_runs_with_the_pages_it_is_to_have() {
        let disabled = |pages| {
            let mut command = Command::new("sh");
            command.args([
                "-c",
                "echo metric off $(sed -n 's/^THP_enabled:[^0-9]*//p' /proc/self/status) x; \
                 echo metric tuned ${#GLIBC_TUNABLES} x",
            ]);
            with_pages(&mut command, pages);
            let found = measure(&mut command).unwrap().unwrap();
            (found["off"].values[0], found["tuned"].values[0] > 0.0)
        };
        assert_eq!(disabled(Pages::Base), (0.0, false));
        // A kernel without huge pages says so for every process.
        let there = f64::from(u8::from(Path::new(SWITCH).exists()));
        assert_eq!(disabled(Pages::Huge), (there, true));
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_fails() {
        let ends = |script: &str| measure(Command::new("sh").args(["-c", script]));
        assert!(ends("exit 4").unwrap().is_none());
        let error = ends("echo why >&2; exit 1").unwrap_err().to_string();
        assert!(error.contains("why"), "{error}");
        let error = measure(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }

    #[test]
    fn the_table_fits_and_says_what_is_missing() {
        let ratio = |name: &str, model| Ratio {
            name: name.into(),
            base: 12_345.5,
            huge: 1_234.5,
            base_faults: 8192.0,
            huge_faults: 16.0,
            model,
        };
        let found = Found {
            schema_version: SCHEMA_VERSION,
            date: String::new(),
            processor: "AMD".into(),
            switch: "madvise".into(),
            rounds: 7,
            model: MODEL,
            strides: vec![ratio("4 MB", Some(0.17))],
            programs: vec![ratio("gzip", None)],
            not_there: vec!["sqlite".into()],
        };
        let text = tables(&found);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("0.10") && text.contains("0.17"), "{text}");
        assert!(text.contains("sqlite is not installed"), "{text}");
        assert!(text.contains("superpage-apps --model zen4"), "{text}");
        assert!(!text.contains("run superpage-stride"), "{text}");
    }
}
