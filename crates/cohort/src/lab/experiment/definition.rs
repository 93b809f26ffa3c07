// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments: one TOML file per table or figure of a paper, checked completely when it is read.

use crate::lab::Lab;
use crate::lab::arch::{self, Arch};
use crate::lab::experiment::compare::{PaperLine, Plot};
use crate::lab::experiment::expr::Expr;
use crate::lab::experiment::matrix;
use crate::lab::experiment::papers::Papers;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::Regions;
use crate::lab::host::files;
use crate::lab::kernel::build::Config;
use crate::show::{Kind, X};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// With icount, waits for the disk advance guest time in jumps: multiply step limits by this. The
/// host's clock still ends the guest.
const LEAPS: u64 = 100;

/// The fewest runs of an experiment whose figures differ between runs.
const RUNS: u32 = 5;

/// An experiment as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The file's name.
    pub name: String,
    /// One line.
    pub title: String,
    /// The comparison, its method, and the differences from the paper.
    pub about: String,
    /// The items of the papers that it reproduces.
    #[serde(default)]
    pub paper: Vec<String>,
    /// The machine.
    pub guest: Guest,
    /// The part of each command that the translation model counts.
    #[serde(default)]
    pub regions: Regions,
    /// How many times all is run; see [`Experiment::runs`].
    runs: Option<u32>,
    /// The compared commands and kernels.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// The aims.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// Plots and tables.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// The machine of an experiment.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Its architecture.
    #[serde(default = "lab_arch", skip_serializing_if = "is_lab_arch")]
    pub arch: Arch,
    /// MB.
    pub memory: u64,
    /// Processors.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Count instructions.
    #[serde(default)]
    pub icount: bool,
    /// The recipe of the root file system.
    pub rootfs: Option<String>,
    /// Host seconds for one boot.
    pub timeout: u64,
    /// A boot for each variant, so that each finds what the first finds; else the variants of a
    /// kernel share one.
    #[serde(default)]
    pub fresh: bool,
    /// More words for the kernel's command line.
    #[serde(default)]
    pub cmdline: String,
    /// This program is in the guest as /lab/bin/cohort; its libraries come from `rootfs`.
    #[serde(default)]
    pub cohort: bool,
}

/// One thing that is compared.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The kernel that it needs.
    #[serde(default = "bench")]
    pub kernel: Config,
    /// The translation model that it runs under, whatever the command line says: a built-in's name.
    pub model: Option<String>,
    /// Commands before it.
    #[serde(default)]
    pub setup: Vec<String>,
    /// The command that is measured.
    pub command: String,
    /// The same with less to do, for runs under a translation model of the command line and for
    /// recording, where the plain one takes too long.
    #[serde(default, skip_serializing)]
    pub model_command: Option<String>,
    /// How many times.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Seconds of guest time for one command.
    pub timeout: Option<u64>,
    /// More words for its kernel's command line, after the guest's; needs [`Guest::fresh`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cmdline: String,
    /// MB per second of host time that its guest can read from the disk. Needs [`Guest::fresh`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_limit: Option<u64>,
}

impl Variant {
    /// The step of this name is one of the command's own rounds.
    pub fn measures(&self, step: &str) -> bool {
        let number = step
            .strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('.'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    }
}

/// A figure with an aim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// The expression that it is.
    pub measured: String,
    /// The value in the paper.
    pub paper: Option<PaperRef>,
    pub aim: Aim,
    /// It stands for the experiment in the README.
    #[serde(default)]
    pub headline: bool,
    /// How it stands in the summary's plots; without this it does not.
    pub plot: Option<Plot>,
}

/// The paper's figure: by id, or itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PaperRef {
    /// The figure.
    Number(f64),
    /// ITEM/VALUE in `papers/figures.toml`.
    Id(String),
}

/// A bound on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aim {
    /// The comparison.
    pub op: Op,
    /// The bound.
    pub value: f64,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Op {
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// More than.
    #[serde(rename = ">")]
    More,
    /// Less than.
    #[serde(rename = "<")]
    Less,
    /// Exactly.
    #[serde(rename = "==")]
    Equal,
    /// Within a twentieth of it, for predicted values.
    #[serde(rename = "~")]
    Near,
}

impl Aim {
    /// The figure meets it.
    pub fn met(&self, measured: f64) -> bool {
        match self.op {
            Op::AtLeast => measured >= self.value,
            Op::AtMost => measured <= self.value,
            Op::More => measured > self.value,
            Op::Less => measured < self.value,
            Op::Equal => measured == self.value,
            Op::Near => (measured - self.value).abs() <= self.value.abs() / 20.0,
        }
    }

    /// The aim that [`Aim::text`] wrote; none of another text.
    pub fn parse(text: &str) -> Option<Self> {
        let (op, value) = text.split_once(' ')?;
        Some(Aim {
            op: serde_json::from_value(op.into()).ok()?,
            value: value.parse().ok()?,
        })
    }

    /// The aim in a table.
    pub fn text(&self) -> String {
        let op = match self.op {
            Op::AtLeast => ">=",
            Op::AtMost => "<=",
            Op::More => ">",
            Op::Less => "<",
            Op::Equal => "==",
            Op::Near => "~",
        };
        format!("{op} {}", self.value)
    }
}

/// A table or a plot.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its title.
    pub title: String,
    pub kind: Kind,
    /// The meaning of the rows, the groups or the axis.
    #[serde(default)]
    pub x_label: String,
    /// The meaning of the values.
    #[serde(default)]
    pub y_label: String,
    /// Logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Rows, groups or points.
    pub x: Vec<X>,
    /// Columns, bars or lines.
    pub series: Vec<Series>,
    /// What the paper says of its values, drawn as lines. They decide no figure.
    #[serde(default)]
    pub paper: Vec<PaperLine>,
}

/// A column, the bars of one colour, or a line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// The expression, with {x} for the row, group or point.
    pub y: String,
}

impl Series {
    /// The expression for one x.
    pub fn at(&self, x: &X) -> Result<Expr, String> {
        Expr::parse(&self.y.replace("{x}", &x.text()))
    }
}

fn one() -> u32 {
    1
}

fn lab_arch() -> Arch {
    arch::LAB
}

/// Results say it if it is another.
fn is_lab_arch(arch: &Arch) -> bool {
    *arch == arch::LAB
}

fn bench() -> Config {
    Config::Bench
}

/// The names of all experiments, sorted.
pub fn names(lab: &Lab) -> Result<Vec<String>> {
    Ok(files::with_suffix(&lab.path("experiments"), ".toml")?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect())
}

/// Reads an experiment and checks all of it.
pub fn load(lab: &Lab, name: &str, papers: &Papers) -> Result<Experiment> {
    let path = lab.path(&format!("experiments/{name}.toml"));
    if !path.is_file() {
        bail!(
            "there is no experiment `{name}`; `cohort lab list` shows those that there are: {}",
            names(lab)?.join(", ")
        );
    }
    Ok(read(lab, name, papers, &mut Vec::new())?.1)
}

/// An experiment's file as a table, and the experiment that it is. With `like = "NAME"` all that it
/// does not say is said by that experiment, which may itself be like another: a key of a table
/// each, but lists as a whole. `seen` are the experiments that led to it.
fn read(
    lab: &Lab,
    name: &str,
    papers: &Papers,
    seen: &mut Vec<String>,
) -> Result<(Table, Experiment)> {
    let path = lab.path(&format!("experiments/{name}.toml"));
    let failed = || format!("{} is not an experiment", path.display());
    let text = files::read(&path)?;
    let mut table: Table = toml::from_str(&text).with_context(failed)?;
    let like = table.remove("like");
    if let Some(like) = &like {
        let like = like.as_str().context("`like` is not a name");
        let like = like.with_context(failed)?;
        seen.push(name.to_string());
        if seen.iter().any(|before| before == like) {
            bail!("{} is like `{like}`, which is like it", path.display());
        }
        if !lab.path(&format!("experiments/{like}.toml")).is_file() {
            bail!(
                "{} is like `{like}`, and there is no such experiment",
                path.display()
            );
        }
        // All of the other's mistakes are found here, as those of its own file.
        let (mut merged, _) = read(lab, like, papers, seen)?;
        merge(&mut merged, table);
        table = merged;
    }
    let experiment: Experiment = matrix::expand(table.clone())
        .and_then(|written_out| match (written_out, like) {
            // The text alone has lines that a mistake can be said to be in.
            (None, None) => Ok(toml::from_str(&text)?),
            (None, Some(_)) => Ok(table.clone().try_into()?),
            (Some(file), _) => Ok(file.try_into()?),
        })
        .with_context(failed)?;
    experiment
        .validate(name, papers)
        .with_context(|| format!("{} has a mistake", path.display()))?;
    Ok((table, experiment))
}

fn merge(into: &mut Table, own: Table) {
    for (key, value) in own {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(own)) => merge(into, own),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

impl Experiment {
    fn validate(&self, file: &str, papers: &Papers) -> Result<()> {
        if self.name != file {
            bail!("its name is `{}` and its file's `{file}`", self.name);
        }
        // Under a model one thread runs all processors in turn.
        let modelled = self.variants.iter().all(|variant| variant.model.is_some());
        if self.guest.icount && self.guest.cpus != 1 && !modelled {
            bail!("counting instructions needs `cpus = 1`");
        }
        if self.runs.is_some_and(|runs| runs == 0) {
            bail!("`runs` must be at least 1");
        }
        if !self.repeats_itself() && self.runs() < RUNS {
            bail!("without `icount` figures differ between runs: `runs` must be at least {RUNS}");
        }
        if self.guest.cohort && self.guest.rootfs.is_none() {
            bail!("`cohort = true` needs a `rootfs`, which has the program's libraries");
        }
        if self.variants.is_empty() {
            bail!("it has no [[variant]]");
        }
        for (number, variant) in self.variants.iter().enumerate() {
            let name = &variant.name;
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(plain) {
                bail!("the variant's name `{name}` may hold a-z, 0-9 and - only");
            }
            if self.variants[..number].iter().any(|v| v.name == *name) {
                bail!("two variants are named {name}");
            }
            if let Some(model) = &variant.model {
                translation::Model::builtin(model)
                    .with_context(|| format!("the variant {name}"))?;
            }
            if variant.rounds == 0 {
                bail!("the variant {name} has no rounds");
            }
            let own = !variant.cmdline.is_empty() || variant.read_limit.is_some();
            if own && !self.guest.fresh {
                bail!("the variant {name} needs a boot of its own: `fresh = true`");
            }
            if variant.read_limit.is_some() && (self.guest.rootfs.is_none() || self.guest.icount) {
                bail!("`read_limit` of {name} needs a `rootfs`, and no `icount`");
            }
        }
        for id in &self.paper {
            papers.require(id)?;
        }
        if self.checks.iter().filter(|check| check.headline).count() > 1 {
            bail!("only one check may be the `headline`");
        }
        for check in &self.checks {
            if let Some(PaperRef::Id(id)) = &check.paper {
                papers
                    .require(id)
                    .with_context(|| format!("the check `{}`", check.name))?;
            }
            Expr::parse(&check.measured)
                .and_then(|expr| self.known(&expr, papers))
                .map_err(anyhow::Error::msg)
                .with_context(|| format!("the check `{}`", check.name))?;
        }
        for figure in &self.figures {
            if figure.kind == Kind::Box && figure.series.len() != 5 {
                bail!(
                    "the figure `{}` is a box and needs five series: min, lower, median, upper \
                     and max",
                    figure.title
                );
            }
            for line in &figure.paper {
                line.validate(figure)
                    .and_then(|expr| self.known(&expr, papers))
                    .map_err(anyhow::Error::msg)
                    .with_context(|| format!("the paper's value in `{}`", figure.title))?;
            }
            for x in &figure.x {
                if figure.kind == Kind::Line && matches!(x, X::Text(_)) {
                    bail!(
                        "the figure `{}` is a line and needs numbers as x",
                        figure.title
                    );
                }
                for series in &figure.series {
                    series
                        .at(x)
                        .and_then(|expr| self.known(&expr, papers))
                        .map_err(anyhow::Error::msg)
                        .with_context(|| {
                            format!("the figure `{}`, series `{}`", figure.title, series.label)
                        })?;
                }
            }
        }
        // The job's format has its own rules; better now than after a build.
        for boot in self.boots() {
            crate::lab::guest::job::write(&boot.steps)?;
        }
        let modelled = self.variants.iter().filter_map(|variant| {
            let command = variant.model_command.as_ref()?;
            Some(Step::new(&variant.name, 1, command))
        });
        crate::lab::guest::job::write(&modelled.collect::<Vec<_>>())?;
        Ok(())
    }

    /// The experiment as it runs under a translation model of the command line: with the commands
    /// of [`Variant::model_command`], and each variant in a boot of its own, since what a model
    /// holds would pass from one to the next. Time is the guest's own, as the model's order of
    /// things must not depend on this machine's speed.
    pub fn modelled(mut self) -> Self {
        self.guest.fresh = true;
        self.guest.icount = true;
        self.runs = None;
        for variant in &mut self.variants {
            if let Some(command) = variant.model_command.take() {
                variant.command = command;
            }
        }
        self
    }

    /// Refuses a run that would not be what the command line says: variants that name their model
    /// run under no other, and without a model there is nothing to check.
    pub fn accepts(&self, model: Option<&str>, check: bool) -> Result<()> {
        let named = self.variants.iter().filter_map(|v| v.model.as_deref());
        let named: BTreeSet<_> = named.collect();
        let all = self.variants.iter().all(|v| v.model.is_some());
        if let Some(model) = model
            && !named.is_empty()
        {
            let named = named.into_iter().collect::<Vec<_>>().join(" and ");
            bail!(
                "{} compares {named}, which its variants name: run it without `--model {model}`",
                self.name
            );
        }
        if let Some(variant) = self.variants.iter().find(|v| v.read_limit.is_some())
            && model.is_some()
        {
            bail!(
                "{} limits the speed of its guest's disk (`read_limit` of {}), and under a model no \
                 time passes while the guest waits for that: run it without --model",
                self.name,
                variant.name
            );
        }
        if check && model.is_none() && !all {
            bail!(
                "`--check` compares the translations of a model with QEMU's, and {} runs without \
                 one: name it with --model",
                self.name
            );
        }
        Ok(())
    }

    fn known(&self, expr: &Expr, papers: &Papers) -> Result<(), String> {
        let mut wrong = None;
        let mut unknown_paper = None;
        expr.names(
            &mut |name| {
                if !self.variants.iter().any(|variant| variant.name == name) {
                    wrong = Some(format!("there is no variant `{name}`"));
                }
            },
            &mut |id| {
                if papers.get(id).is_none() {
                    unknown_paper = Some(format!("papers/figures.toml has no `{id}`"));
                }
            },
        );
        wrong.or(unknown_paper).map_or(Ok(()), Err)
    }

    /// How many times all of its guests are booted: once where instructions are counted, as the
    /// figures are then the same every time, else [`RUNS`] times unless it says more.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(match self.repeats_itself() {
            true => 1,
            false => RUNS,
        })
    }

    /// Every run gives the same figures.
    fn repeats_itself(&self) -> bool {
        self.guest.icount || self.variants.iter().all(|variant| variant.model.is_some())
    }

    /// The words of its commands.
    pub fn words(&self) -> BTreeSet<&str> {
        let commands = self.variants.iter().flat_map(|variant| {
            let more = variant.setup.iter().chain(&variant.model_command);
            more.chain([&variant.command])
        });
        commands.flat_map(|text| text.split_whitespace()).collect()
    }

    /// The kernels that it boots, each once.
    pub fn kernels(&self) -> Vec<Config> {
        let mut found = Vec::new();
        for variant in &self.variants {
            if !found.contains(&variant.kernel) {
                found.push(variant.kernel);
            }
        }
        found
    }

    /// The guests that it boots, one after the other.
    pub fn boots(&self) -> Vec<Boot<'_>> {
        let mut groups: Vec<Vec<&Variant>> = Vec::new();
        for variant in &self.variants {
            let same = |other: &&Variant| {
                other.kernel == variant.kernel && other.model == variant.model && !self.guest.fresh
            };
            match groups.iter_mut().find(|group| group.iter().all(same)) {
                Some(group) => group.push(variant),
                None => groups.push(vec![variant]),
            }
        }
        groups
            .into_iter()
            .map(|variants| Boot {
                name: match (variants[0], self.guest.fresh, &variants[0].model) {
                    (variant, true, _) => format!("{}-{}", self.name, variant.name),
                    (variant, _, None) => format!("{}-{}", self.name, variant.kernel),
                    (variant, _, Some(model)) => {
                        format!("{}-{}-{model}", self.name, variant.kernel)
                    }
                },
                kernel: variants[0].kernel,
                model: variants[0].model.as_deref(),
                cmdline: self.cmdline(variants[0]),
                read_limit: variants[0].read_limit,
                steps: variants.iter().flat_map(|v| self.steps(v)).collect(),
                variants,
            })
            .collect()
    }

    /// The words that a variant's kernel finds on its command line.
    pub fn cmdline(&self, variant: &Variant) -> String {
        format!("{} {}", self.guest.cmdline, variant.cmdline)
    }

    /// Set-up and rounds of a variant.
    pub fn steps(&self, variant: &Variant) -> Vec<Step> {
        // With `icount` an idle guest's clock jumps to its next timer at once, so by minutes while
        // the host reads a block: a program that needs 12 s took 3,096 s with a disk limited to
        // 1 MB/s.
        let leaps = self.guest.icount && self.guest.rootfs.is_some();
        let timeout = variant.timeout.unwrap_or(self.guest.timeout) * if leaps { LEAPS } else { 1 };
        let setup = variant.setup.iter().zip(1..).map(|(command, number)| {
            Step::new(format!("{}.setup-{number}", variant.name), timeout, command)
        });
        let rounds = (1..=variant.rounds).map(|round| {
            Step::new(
                format!("{}.{round}", variant.name),
                timeout,
                &variant.command,
            )
        });
        setup.chain(rounds).collect()
    }
}

/// One boot of a guest: what runs in it.
#[derive(Debug)]
pub struct Boot<'a> {
    /// The run's name, a directory below `out/run`.
    pub name: String,
    /// The kernel.
    pub kernel: Config,
    /// The translation model that the variants name.
    pub model: Option<&'a str>,
    /// Words for the kernel's command line.
    pub cmdline: String,
    /// MB that it can read from the disk in a second.
    pub read_limit: Option<u64>,
    /// The variants that it is to give figures of.
    pub variants: Vec<&'a Variant>,
    /// The job.
    pub steps: Vec<Step>,
}

#[cfg(test)]
pub mod tests;
