// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab profile`: the instructions of an experiment's variants by kernel function.
//!
//! The plugin counts them, with vmlinux's symbols and its own idea of who called whom; the guest
//! runs unchanged. So the same sources give the same profile.

mod flame;
mod tree;

use crate::lab::Lab;
use crate::lab::experiment::definition::{Experiment, Variant};
use crate::lab::experiment::results::{json, utc};
use crate::lab::experiment::run;
use crate::lab::guest::plugin::{self, Plugin, Task};
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::guest::{programs, rootfs};
use crate::lab::host::files;
use crate::lab::kernel::build;
use crate::show;
use anyhow::{Context, Result, bail};
use askama::Template;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;
use tree::{Calls, Cost};

/// Changes when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// What to profile.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A name that `cohort lab list` prints.
    #[arg(add = crate::lab::experiment::complete::experiments())]
    pub experiment: String,
    /// Only this variant; give it twice for two side by side. Default: all.
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Count only what this kernel function does, with all that it calls, and divide by the number
    /// of its calls (for a fork: kernel_clone).
    #[arg(long, value_name = "FUNCTION")]
    pub under: Option<String>,
    /// The number of functions in the table.
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub top: usize,
    /// Run the shorter commands that experiments have for translation models.
    #[arg(long)]
    pub brief: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// The content of `out/profile/NAME.json`.
#[derive(Debug, Serialize)]
pub struct Profile {
    schema_version: u32,
    experiment: String,
    date: String,
    /// The function that all is under.
    under: Option<String>,
    variants: Vec<Profiled>,
}

/// One variant's.
#[derive(Debug, Serialize)]
struct Profiled {
    name: String,
    command: String,
    kernel: String,
    /// What the numbers are to be divided by: calls of `under`, or 1.
    calls: u64,
    /// Instructions outside the kernel; 0 with `under`.
    user: u64,
    /// Instructions in the kernel.
    instructions: u64,
    /// By name.
    functions: BTreeMap<String, Function>,
    /// Instructions of each path of calls, outermost function first, as flame graph tools take them.
    stacks: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Function {
    own: u64,
    total: u64,
    calls: u64,
}

#[derive(Template)]
#[template(path = "profile.html")]
struct Page<'a> {
    profile: &'a Profile,
    scope: String,
    graphs: Vec<(String, String)>,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// What was written, and the table or the JSON.
#[derive(Debug)]
pub struct Written {
    pub text: String,
    pub files: Vec<PathBuf>,
}

/// Boots a guest per variant and profiles its command.
pub fn profile(lab: &Lab, experiment: Experiment, options: &Options) -> Result<Written> {
    let experiment = match options.brief {
        true => experiment.modelled(),
        false => experiment,
    };
    let variants = chosen(&experiment, &options.variant)?;
    plugin::ready(&Task::Profile)?;
    let mut profiled = Vec::new();
    let mut all = Vec::new();
    for variant in variants {
        let (kernel, calls) = boot(lab, &experiment, variant)?;
        let calls = match &options.under {
            None => calls,
            Some(function) => under(calls, function, &variant.name)?,
        };
        profiled.push(of_variant(
            variant,
            kernel,
            options.under.as_deref(),
            &calls,
        ));
        all.push(calls);
    }
    let profile = Profile {
        schema_version: SCHEMA_VERSION,
        experiment: experiment.name.clone(),
        date: utc(SystemTime::now()),
        under: options.under.clone(),
        variants: profiled,
    };
    write(lab, &profile, &all, options)
}

/// The variants with these names, in their order; all if there are none.
fn chosen<'a>(experiment: &'a Experiment, names: &[String]) -> Result<Vec<&'a Variant>> {
    if names.is_empty() {
        return Ok(experiment.variants.iter().collect());
    }
    let find = |name: &String| {
        let found = experiment.variants.iter().find(|v| v.name == *name);
        found.with_context(|| {
            let all: Vec<_> = experiment
                .variants
                .iter()
                .map(|v| v.name.as_str())
                .collect();
            format!(
                "{} has no variant {name}; it has {}",
                experiment.name,
                all.join(", ")
            )
        })
    };
    names.iter().map(find).collect()
}

fn under(calls: Calls, function: &str, variant: &str) -> Result<Calls> {
    let under = calls.under(function);
    if under.paths.is_empty() {
        bail!(
            "the kernel did not run {function} in the variant {variant}: without --under the table \
             has the names of those that it ran (one may be part of its caller)"
        );
    }
    Ok(under)
}

/// Runs one variant; returns its kernel in words and what the plugin counted.
fn boot(lab: &Lab, experiment: &Experiment, variant: &Variant) -> Result<(String, Calls)> {
    let kernel = build::build_for(lab, experiment.guest.arch, variant.kernel)?;
    let guest = &experiment.guest;
    let image = match &guest.rootfs {
        Some(name) => Some(rootfs::image(lab, name)?),
        None => None,
    };
    let measured = |step: &str| variant.measures(step);
    let (steps, marked) = plugin::mark(&experiment.steps(variant), measured, experiment.regions);
    let plugin = Plugin::new(&kernel.symbols, Task::Profile)?;
    let name = format!("{}-{}@profile", experiment.name, variant.name);
    let outcome = Spec {
        name: name.clone(),
        machine: Machine::of(guest.arch)?,
        kernel: &kernel.image,
        memory: guest.memory,
        cpus: guest.cpus,
        icount: true,
        rootfs: image.as_deref(),
        read_limit: None,
        cmdline: experiment.cmdline(variant),
        init: &programs::init_for(lab, guest.arch)?,
        programs: &run::programs_of(lab, experiment)?,
        steps,
        plugin: Some(&plugin),
        limit: guest.timeout * plugin.slower(),
    }
    .run(lab)?;
    if let Some(problem) = outcome.problem() {
        bail!("{problem}");
    }
    if let Some(step) = outcome.report.steps.iter().find(|s| !s.ending.success()) {
        bail!("{}: {}", step.name, step.ending);
    }
    let file = tree::read(&lab.out(&format!("run/{name}/{}", plugin::PROFILE)))?;
    let calls = file
        .calls(|step| (1..=marked.len() as u64).contains(&step))
        .context("the plugin saw no region: it begins with the mark start and ends with stop")?;
    Ok((kernel.describe(), calls))
}

fn of_variant(variant: &Variant, kernel: String, under: Option<&str>, calls: &Calls) -> Profiled {
    let of = |cost: Cost| Function {
        own: cost.own,
        total: cost.total,
        calls: cost.calls,
    };
    let functions: BTreeMap<String, Function> = calls
        .functions()
        .into_iter()
        .map(|(name, cost)| (name.to_string(), of(cost)))
        .collect();
    Profiled {
        name: variant.name.clone(),
        command: variant.command.clone(),
        kernel,
        calls: match under {
            // A region may begin within a call.
            Some(function) => functions[function].calls.max(1),
            None => 1,
        },
        user: calls.user,
        instructions: calls.kernel(),
        functions,
        stacks: calls
            .paths
            .iter()
            .filter(|(_, (instructions, _))| *instructions > 0)
            .map(|(path, (instructions, _))| (path.join(";"), *instructions))
            .collect(),
    }
}

impl Profiled {
    fn per_call(&self, value: u64) -> f64 {
        value as f64 / self.calls as f64
    }
}

/// The scope of all numbers, in words.
fn scope(profile: &Profile) -> String {
    match &profile.under {
        Some(function) => format!(", in {function} and what it calls, per call of it"),
        None => ", all of each variant's command".into(),
    }
}

/// The table: the functions that take most in any variant, by what they take themselves.
fn table(profile: &Profile, top: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let variants = &profile.variants;
    let of = |variant: &Profiled, name: &str| variant.functions.get(name).copied();
    let own = |variant: &Profiled, name: &str| {
        variant.per_call(of(variant, name).unwrap_or_default().own)
    };
    let most = |name: &str| variants.iter().map(|v| own(v, name)).fold(0.0, f64::max);
    let mut names: Vec<&str> = variants
        .iter()
        .flat_map(|variant| variant.functions.keys().map(String::as_str))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));

    let both = variants.len() == 2;
    let mut heading = vec!["function".to_string()];
    for variant in variants {
        heading.push(variant.name.clone());
    }
    heading.extend(both.then(|| "difference".to_string()));
    for variant in variants {
        heading.push(format!("{}: with callees", variant.name));
    }
    for variant in variants {
        heading.push(format!("{}: calls", variant.name));
    }
    let difference = |first: f64, second: f64| show::number((second - first).round());
    let mut rows = vec![all_row(variants, both)];
    for name in names.into_iter().filter(|name| most(name) > 0.0).take(top) {
        let mut row = vec![name.to_string()];
        let found: Vec<_> = variants.iter().map(|v| (v, of(v, name))).collect();
        let rounded = |value: f64| show::number(value.round());
        for (variant, function) in &found {
            row.push(function.map_or("-".into(), |f| rounded(variant.per_call(f.own))));
        }
        if both {
            row.push(difference(own(&variants[0], name), own(&variants[1], name)));
        }
        for (variant, function) in &found {
            row.push(function.map_or("-".into(), |f| rounded(variant.per_call(f.total))));
        }
        for (variant, function) in &found {
            row.push(function.map_or("-".into(), |f| show::number(variant.per_call(f.calls))));
        }
        rows.push(row);
    }
    (heading, rows)
}

/// The first row: all functions.
fn all_row(variants: &[Profiled], both: bool) -> Vec<String> {
    let all = |variant: &Profiled| variant.per_call(variant.instructions).round();
    let mut row = vec!["all".to_string()];
    row.extend(variants.iter().map(|v| show::number(all(v))));
    row.extend(both.then(|| show::number(all(&variants[1]) - all(&variants[0]))));
    row.resize(row.len() + 2 * variants.len(), String::new());
    row
}

fn write(lab: &Lab, profile: &Profile, calls: &[Calls], options: &Options) -> Result<Written> {
    let (heading, rows) = table(profile, options.top);
    // One scale for all: the widest graph fills the page.
    let widest = profile
        .variants
        .iter()
        .map(|v| v.per_call(v.instructions))
        .fold(0.0, f64::max);
    let graphs = profile.variants.iter().zip(calls).map(|(variant, calls)| {
        let divisor = variant.calls as f64;
        let sum = show::number(variant.per_call(variant.instructions).round());
        (
            format!("{}: {sum} instructions", variant.name),
            flame::svg(calls, (widest * divisor) as u64, divisor),
        )
    });
    let page = Page {
        profile,
        scope: scope(profile),
        graphs: graphs.collect(),
        heading: heading.clone(),
        rows: rows.clone(),
    };
    let html = page.render().context("the profile's template failed")?;
    let data = json(profile)?;
    let base = lab.out(&format!("profile/{}", profile.experiment));
    let files = [
        (base.with_extension("json"), data.as_str()),
        (base.with_extension("html"), html.as_str()),
    ];
    for (file, content) in &files {
        files::write(file, content.as_bytes())?;
    }
    let text = match options.json {
        true => data.clone(),
        false => {
            let user = profile.variants.iter().filter(|v| v.user > 0).map(|v| {
                let user = show::number(v.user as f64);
                format!("{}: {user} more outside the kernel. ", v.name)
            });
            format!(
                "Instructions in the kernel{}.\n{}{}\n",
                scope(profile),
                show::plain(heading, rows),
                user.collect::<String>()
            )
        }
    };
    Ok(Written {
        text,
        files: files.into_iter().map(|(file, _)| file).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::kernel::build::Config;
    use tree::tests::calls;

    fn variant(name: &str) -> Variant {
        toml::from_str(&format!("name = \"{name}\"\ncommand = \"fork-cost\"\n")).unwrap()
    }

    fn profile_of(under: Option<&str>, all: &[Calls]) -> Profile {
        let names = ["stock", "cohort", "third"];
        let variants = names.iter().zip(all).map(|(name, calls)| {
            assert_eq!(variant(name).kernel, Config::Bench);
            of_variant(&variant(name), "6.12".into(), under, calls)
        });
        Profile {
            schema_version: SCHEMA_VERSION,
            experiment: "fork".into(),
            date: "today".into(),
            under: under.map(String::from),
            variants: variants.collect(),
        }
    }

    #[test]
    fn two_variants_stand_side_by_side_per_call() {
        let stock = calls(&[("fork", 40, 4), ("fork;copy", 4_000, 8)]);
        let ours = calls(&[("fork", 30, 2), ("fork;share", 10, 2)]);
        let (heading, rows) = table(&profile_of(Some("fork"), &[stock, ours]), 3);
        assert_eq!(heading[..4], ["function", "stock", "cohort", "difference"]);
        assert_eq!(rows[0][..4], ["all", "1,010", "20", "-990"]);
        assert_eq!(
            rows[1],
            ["copy", "1,000", "-", "-1,000", "1,000", "-", "2", "-"]
        );
        assert_eq!(rows[2], ["fork", "10", "15", "5", "1,010", "20", "1", "1"]);
        assert_eq!(rows[3], ["share", "-", "5", "5", "-", "5", "-", "1"]);
        let one = calls(&[("fork", 40, 4)]);
        let (heading, rows) = table(&profile_of(None, &[one]), 3);
        assert_eq!(heading.len(), 4);
        assert_eq!(rows[1], ["fork", "40", "40", "4"]);
    }

    #[test]
    fn the_files_and_the_table_have_the_same_numbers() {
        let (_dir, lab) = Lab::fake();
        let all = [calls(&[("fork", 40, 4)]), calls(&[("fork", 20, 4)])];
        let profile = profile_of(Some("fork"), &all);
        let mut options = Options {
            experiment: "fork".into(),
            variant: Vec::new(),
            under: Some("fork".into()),
            top: 5,
            brief: false,
            json: false,
        };
        let written = write(&lab, &profile, &all, &options).unwrap();
        assert!(written.text.contains("per call"), "{}", written.text);
        let html = files::read(&lab.out("profile/fork.html")).unwrap();
        // The first graph fills the width, the second half of it.
        assert!(html.contains("width=\"1200.0\"") && html.contains("width=\"600.0\""));
        options.json = true;
        let text = write(&lab, &profile, &all, &options).unwrap().text;
        assert_eq!(text, files::read(&lab.out("profile/fork.json")).unwrap());
        assert!(text.contains("\"own\": 40"), "{text}");
    }

    #[test]
    fn a_function_that_did_not_run_is_an_error_with_its_name() {
        let error = under(calls(&[("fork", 1, 1)]), "exit", "stock").unwrap_err();
        assert!(error.to_string().contains("exit"), "{error}");
    }
}
