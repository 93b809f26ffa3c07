// SPDX-License-Identifier: GPL-2.0-or-later
//! Running experiments: boots their guests and makes figures of what they print.

use crate::lab::Lab;
use crate::lab::experiment::definition::{Experiment, Figure, Guest, PaperRef, Variant};
use crate::lab::experiment::expr::{Expr, Figures};
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::results::{
    CheckResult, Results, SCHEMA_VERSION, VariantInfo, VariantResult, json, save, utc,
};
use crate::lab::guest::plugin::{self, Check, Plugin, Task};
use crate::lab::guest::programs;
use crate::lab::guest::protocol;
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Outcome, Spec, qemu_version};
use crate::lab::kernel::build;
use crate::show::{FigureResult, Kind, SeriesResult, X};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What guests run under.
#[derive(Debug, Default)]
pub struct Under {
    /// The translation model, for variants that name none.
    pub model: Option<String>,
    /// Every translation is compared with QEMU's.
    pub check: bool,
}

/// What the guest of an experiment has: the workloads, and this program if it asks for it.
pub fn programs_of(lab: &Lab, guest: &Guest) -> Result<Vec<programs::Program>> {
    let mut programs = programs::workloads(lab)?;
    if guest.cohort {
        programs.push(programs::cohort()?);
    }
    Ok(programs)
}

/// Runs an experiment: builds what it needs, boots each of its kernels, writes the results.
/// The sentences that come with them are about guests that did not get to their end.
pub fn run(
    lab: &Lab,
    experiment: &Experiment,
    papers: &Papers,
    under: &Under,
) -> Result<(Results, Vec<String>)> {
    let start = SystemTime::now();
    let qemu = qemu_version()?;
    let mut kernels = Vec::new();
    for config in experiment.kernels() {
        kernels.push(build::build(lab, config)?);
    }
    let init = programs::init(lab)?;
    let programs = programs_of(lab, &experiment.guest)?;
    let rootfs = match &experiment.guest.rootfs {
        Some(name) => Some(rootfs::image(lab, name)?),
        None => None,
    };
    let mut variants = Vec::new();
    let mut problems = Vec::new();
    let mut broken = Vec::new();
    let mut translations: Option<Check> = None;
    for boot in experiment.boots() {
        let kernel = kernels
            .iter()
            .find(|kernel| kernel.config == boot.kernel)
            .context("a boot with a kernel that the experiment does not name")?;
        let guest = &experiment.guest;
        let mut steps = boot.steps;
        let mut marked = Vec::new();
        let plugin = match boot.model.or(under.model.as_deref()) {
            Some(model) => {
                let measured = |name: &str| boot.variants.iter().any(|v| v.measures(name));
                (steps, marked) = plugin::mark(&steps, measured, experiment.regions);
                let mut plugin = Plugin::new(&kernel.image, Task::Model(model.into()))?;
                // Checked is all that happens, from the boot's first instruction on.
                plugin.check = under.check;
                plugin.whole = under.check;
                Some(plugin)
            }
            None => None,
        };
        let name = match (&under.model, boot.model) {
            (Some(_), None) => format!("{}@model", boot.name),
            _ => boot.name,
        };
        let mut outcome = Spec {
            name: name.clone(),
            machine: Machine::lab(),
            kernel: &kernel.image,
            memory: guest.memory,
            cpus: guest.cpus,
            // The model's order of things must not depend on this machine's speed.
            icount: guest.icount || plugin.is_some(),
            rootfs: rootfs.as_deref(),
            read_limit: boot.read_limit,
            cmdline: boot.cmdline,
            init: &init,
            programs: &programs,
            steps,
            plugin: plugin.as_ref(),
            limit: match &plugin {
                Some(plugin) => guest.timeout * plugin.slower(),
                None => guest.timeout,
            },
        }
        .run(lab)?;
        if plugin.is_some() {
            let output = plugin::Output::read(&lab.out(&format!("run/{name}")))?;
            broken.extend(output.give(&marked, &mut outcome).err());
            if let Some(check) = output.check {
                let sum = translations.get_or_insert_default();
                sum.add(check);
                broken.extend(check.problem(&lab.out(&format!("run/{name}/qemu.log"))));
            }
        }
        broken.extend(outcome.problem());
        problems.extend(outcome.complaints.iter().cloned());
        let results = boot.variants.into_iter();
        variants.extend(results.map(|variant| variant_result(variant, &outcome)));
    }
    // As they stand in the file, whatever kernel they needed.
    let position = |name: &str| experiment.variants.iter().position(|v| v.name == name);
    variants.sort_by_key(|result| position(&result.variant.name));
    let figures = Collected {
        modelled: under.model.is_some() || experiment.variants.iter().any(|v| v.model.is_some()),
        variants: &variants,
        papers,
    };
    let results = Results {
        schema_version: SCHEMA_VERSION,
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        paper: experiment.paper.clone(),
        date: utc(start),
        seconds: start.elapsed().map_or(0, |time| time.as_secs()),
        kernels,
        qemu,
        model: under.model.clone(),
        translations,
        guest: experiment.guest.clone(),
        checks: checks(experiment, &figures),
        figures: experiment
            .figures
            .iter()
            .filter(|figure| {
                figures.modelled || !figure.series.iter().any(|series| is_models(&series.y))
            })
            .map(|figure| figure_result(figure, &figures))
            .chain(model_figure(&variants, under.model.as_deref()))
            .collect(),
        variants,
        problems: broken.iter().cloned().chain(problems).collect(),
    };
    save(lab, &results.name(), &json(&results)?)?;
    Ok((results, broken))
}

fn variant_result(variant: &Variant, outcome: &Outcome) -> VariantResult {
    let mut metrics = BTreeMap::new();
    let mut why = None;
    let setups = (1..=variant.setup.len()).map(|n| format!("{}.setup-{n}", variant.name));
    let rounds = (1..=variant.rounds).map(|n| format!("{}.{n}", variant.name));
    for name in setups.chain(rounds) {
        let failure = match outcome.report.find(&name) {
            None => Some(
                outcome
                    .problem()
                    .unwrap_or_else(|| format!("the guest did not run the step {name}")),
            ),
            Some(step) if !step.ending.success() => {
                let last = step
                    .lines
                    .iter()
                    .rfind(|line| !line.starts_with("metric ") && !line.trim().is_empty());
                Some(match last {
                    Some(line) => format!("{name}: {} ({})", step.ending, line.trim()),
                    None => format!("{name}: {}", step.ending),
                })
            }
            Some(step) => protocol::metrics(&step.lines, &mut metrics)
                .err()
                .map(|error| format!("{name}: {error}")),
        };
        why = why.or(failure);
    }
    VariantResult {
        variant: VariantInfo {
            name: variant.name.clone(),
            kernel: variant.kernel,
            command: variant.command.clone(),
            setup: variant.setup.clone(),
        },
        why,
        metrics,
    }
}

/// The figures that the variants printed, and the papers'.
struct Collected<'a> {
    modelled: bool,
    variants: &'a [VariantResult],
    papers: &'a Papers,
}

impl Figures for Collected<'_> {
    fn values(&self, variant: &str, metric: &str) -> Result<Vec<f64>, String> {
        let result = self
            .variants
            .iter()
            .find(|result| result.variant.name == variant)
            .ok_or_else(|| format!("there is no variant {variant}"))?;
        // Half of a variant's rounds are not its figures.
        if let Some(why) = &result.why {
            return Err(format!("{variant} failed: {why}"));
        }
        result
            .metrics
            .get(metric)
            .map(|metric| metric.values.clone())
            .ok_or_else(|| format!("{variant} printed no metric {metric}"))
    }

    fn paper(&self, id: &str) -> Result<f64, String> {
        self.papers
            .get(id)
            .flatten()
            .ok_or_else(|| format!("the paper gives no number for {id}"))
    }
}

/// A model's figure; without a model there is none to show.
fn is_models(expression: &str) -> bool {
    expression.contains(&format!(":{}", plugin::PREFIX))
}

/// Columns of [`model_figure`]: a label, the metric, and whether it is in a thousand instructions.
const MODEL_COLUMNS: [(&str, &str, bool); 7] = [
    ("million instructions", "instructions", false),
    ("cycles", "cycles", true),
    ("L1 I stall", "icache-stall-cycles", true),
    ("TLB stall", "tlb-stall-cycles", true),
    ("L1 TLB misses", "l1-tlb-misses", true),
    ("last TLB misses", "walks", true),
    ("walk cycles", "walk-cycles", true),
];

/// What every experiment shows under a model that the command line named: the same columns for
/// each variant, over all its regions.
fn model_figure(variants: &[VariantResult], model: Option<&str>) -> Option<FigureResult> {
    let model = model?;
    let sum = |result: &VariantResult, names: &[&str]| -> Option<f64> {
        let mut sum = 0.0;
        for name in names {
            let metric = result.metrics.get(&format!("{}{name}", plugin::PREFIX))?;
            sum += metric.values.iter().sum::<f64>();
        }
        result.why.is_none().then_some(sum)
    };
    let series = MODEL_COLUMNS.map(|(label, metric, rate)| {
        let names: &[&str] = match metric {
            "tlb-stall-cycles" => &["itlb-stall-cycles", "dtlb-stall-cycles"],
            "l1-tlb-misses" => &["l1-tlb-fetch-misses", "l1-tlb-data-misses"],
            metric => &[metric],
        };
        let of = |result: &VariantResult| {
            let instructions = sum(result, &["instructions"])?;
            let value = sum(result, names)?;
            Some(match rate {
                true if instructions > 0.0 => 1_000.0 * value / instructions,
                true => return None,
                false => value / 1e6,
            })
        };
        SeriesResult {
            label: label.into(),
            unit: String::new(),
            values: variants.iter().map(of).collect(),
        }
    });
    Some(FigureResult {
        title: format!("Under {model}, in 1,000 instructions"),
        kind: Kind::Table,
        x_label: "variant".into(),
        y_label: String::new(),
        log: false,
        x: variants
            .iter()
            .map(|result| X::Text(result.variant.name.clone()))
            .collect(),
        series: series.into(),
    })
}

fn checks(experiment: &Experiment, figures: &Collected<'_>) -> Vec<CheckResult> {
    experiment
        .checks
        .iter()
        .filter(|check| figures.modelled || !is_models(&check.measured))
        .map(|check| {
            let measured = Expr::parse(&check.measured).and_then(|expr| expr.evaluate(figures));
            CheckResult {
                name: check.name.clone(),
                unit: check.unit.clone(),
                paper: match &check.paper {
                    Some(PaperRef::Number(number)) => Some(*number),
                    Some(PaperRef::Id(id)) => figures.papers.get(id).flatten(),
                    None => None,
                },
                measured: measured.as_ref().ok().copied(),
                aim: check.aim.text(),
                pass: measured
                    .as_ref()
                    .is_ok_and(|&measured| check.aim.met(measured)),
                of_model: is_models(&check.measured),
                why: measured.err(),
            }
        })
        .collect()
}

fn figure_result(figure: &Figure, figures: &Collected<'_>) -> FigureResult {
    FigureResult {
        title: figure.title.clone(),
        kind: figure.kind,
        x_label: figure.x_label.clone(),
        y_label: figure.y_label.clone(),
        log: figure.log,
        x: figure.x.clone(),
        series: figure
            .series
            .iter()
            .map(|series| SeriesResult {
                label: series.label.clone(),
                unit: series.unit.clone(),
                values: figure
                    .x
                    .iter()
                    .map(|x| series.at(x).and_then(|expr| expr.evaluate(figures)).ok())
                    .collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::experiment::definition;
    use crate::lab::guest::protocol::Report;
    use crate::lab::guest::run::End;
    use std::path::PathBuf;

    fn evaluate(report: &str, end: End) -> (Vec<VariantResult>, Vec<CheckResult>, FigureResult) {
        let experiment: Experiment = toml::from_str(definition::tests::GOOD).unwrap();
        let mut parsed = Report::default();
        report.lines().for_each(|line| parsed.line(line));
        let outcome = Outcome {
            report: parsed,
            end,
            complaints: Vec::new(),
            console: PathBuf::from("console.log"),
        };
        let variants: Vec<_> = experiment
            .variants
            .iter()
            .map(|variant| variant_result(variant, &outcome))
            .collect();
        let papers = Papers::parse(definition::tests::PAPERS).unwrap();
        let figures = Collected {
            modelled: false,
            variants: &variants,
            papers: &papers,
        };
        let checks = checks(&experiment, &figures);
        let figure = figure_result(&experiment.figures[0], &figures);
        (variants, checks, figure)
    }

    const WHOLE: &str = "ready\nbegin stock.setup-1\nend stock.setup-1 exit=0\nbegin stock.1\n\
        out stock.1 metric fork 40 i\nend stock.1 exit=0\nbegin stock.2\n\
        out stock.2 metric fork 30 i\nend stock.2 exit=0\nbegin pure.1\n\
        out pure.1 metric fork 10 i\nend pure.1 exit=0\ntaint 0\ndone\n";

    #[test]
    fn figures_are_compared_with_paper_and_aim() {
        let (variants, checks, figure) = evaluate(WHOLE, End::Done);
        assert_eq!(variants[0].metrics["fork"].values, [40.0, 30.0]);
        assert_eq!(checks[0].measured, Some(3.0));
        assert_eq!(checks[0].paper, Some(2.1));
        assert!(checks[0].pass);
        assert_eq!(figure.series[0].values, [Some(30.0), Some(10.0)]);
    }

    #[test]
    fn a_variant_that_fails_has_no_figures_and_its_check_does_not_pass() {
        let text = WHOLE.replace(
            "end stock.2 exit=0",
            "out stock.2 no memory\nend stock.2 exit=1",
        );
        let (variants, checks, figure) = evaluate(&text, End::Done);
        let why = variants[0].why.as_deref().unwrap();
        assert!(
            why.contains("status 1") && why.contains("no memory"),
            "{why}"
        );
        assert_eq!(checks[0].measured, None);
        assert!(!checks[0].pass);
        assert!(checks[0].why.as_deref().unwrap().contains("stock failed"));
        assert_eq!(figure.series[0].values, [None, Some(10.0)]);
    }

    #[test]
    fn a_failed_setup_fails_its_variant() {
        let text = WHOLE.replace("end stock.setup-1 exit=0", "end stock.setup-1 exit=1");
        let (variants, checks, _) = evaluate(&text, End::Done);
        assert!(variants[0].why.as_deref().unwrap().contains("setup-1"));
        assert!(!checks[0].pass);
    }

    #[test]
    fn a_guest_that_panics_fails_what_it_did_not_run() {
        let report = WHOLE.split("begin pure.1").next().unwrap();
        let (variants, checks, _) = evaluate(report, End::Panic("sysrq".into()));
        assert!(variants[0].why.is_none());
        assert!(variants[1].why.as_deref().unwrap().contains("sysrq"));
        assert!(!checks[0].pass);
    }

    #[test]
    fn a_missing_metric_is_named() {
        let text = WHOLE.replace("pure.1 metric fork", "pure.1 metric forks");
        let (_, checks, _) = evaluate(&text, End::Done);
        assert!(
            checks[0]
                .why
                .as_deref()
                .unwrap()
                .contains("pure printed no metric fork")
        );
    }
}
