// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of `cohort lab test` in a guest with two processors: every translation of the model is the
//! the same as QEMU's, and a trace of a run is replayed without an access that its tables do not
//! explain, alike each time, unless it is cut off.

use crate::lab::Lab;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::{Output, Plugin, Task};
use crate::lab::guest::programs;
use crate::lab::guest::protocol::{Test, Verdict};
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::host::files;
use crate::lab::kernel::build::Kernel;
use crate::lab::trace::sweep;
use crate::variation::Configuration;
use anyhow::Result;

/// Compares every translation.
const TRANSLATIONS: &str = "model-translations";
/// Records and replays.
const TRACE: &str = "model-trace";
/// The tests' names, which `--filter` chooses by.
pub const NAMES: [&str; 2] = [TRANSLATIONS, TRACE];
/// The model.
const MODEL: &str = "babelfish-isca20";
/// Host seconds.
const LIMIT: u64 = 600;
/// With fewer comparisons than this, nothing was tested.
const ENOUGH: u64 = 1_000_000;

/// Runs the tests of these names.
pub fn tests(lab: &Lab, kernel: &Kernel, names: &[&str]) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    if names.contains(&TRANSLATIONS) {
        tests.push(verdict(TRANSLATIONS, translations(lab, kernel)?));
    }
    if names.contains(&TRACE) {
        tests.push(verdict(TRACE, trace(lab, kernel)?));
    }
    Ok(tests)
}

fn verdict(name: &str, notes: Vec<String>) -> Test {
    let verdict = match notes.is_empty() {
        true => Verdict::Pass,
        false => Verdict::Fail,
    };
    Test {
        name: name.into(),
        verdict,
        notes,
    }
}

/// Boots the kernel under the plugin, which looks from the first mark on: while processes fork,
/// write and end. The notes say what went wrong.
fn boot(lab: &Lab, kernel: &Kernel, name: &str, plugin: &Plugin) -> Result<Vec<String>> {
    let spec = Spec {
        machine: Machine::lab(),
        name: name.into(),
        kernel: &kernel.image,
        memory: 1_024,
        cpus: 2,
        icount: true,
        rootfs: None,
        read_limit: None,
        cmdline: "cohort=always".into(),
        init: &programs::init(lab)?,
        programs: &programs::workloads(lab)?,
        steps: vec![Step::new(
            "forks",
            LIMIT,
            "lab-mark start -- fork-cost --zygote --sizes 1m --rounds 3 --child-writes 8",
        )],
        plugin: Some(plugin),
        limit: LIMIT,
    };
    let outcome = spec.run(lab)?;
    let mut notes: Vec<String> = outcome.problem().into_iter().collect();
    for step in outcome.report.steps.iter().filter(|s| !s.ending.success()) {
        notes.push(format!("{}: {}", step.name, step.ending));
        notes.extend(step.lines.iter().rev().take(3).cloned());
    }
    Ok(notes)
}

fn translations(lab: &Lab, kernel: &Kernel) -> Result<Vec<String>> {
    let mut plugin = Plugin::new(&kernel.symbols, Task::Model(MODEL.into()))?;
    plugin.check = true;
    let mut notes = boot(lab, kernel, TRANSLATIONS, &plugin)?;
    if notes.is_empty() {
        let dir = lab.out(&format!("run/{TRANSLATIONS}"));
        match Output::read(&dir)?.check {
            Some(check) if check.checked < ENOUGH || check.model_checked < ENOUGH => {
                notes.push(format!("too little was compared: {check:?}"));
            }
            Some(check) => notes.extend(check.problem(&dir.join("qemu.log"))),
            None => notes.push("nothing was compared".into()),
        }
    }
    Ok(notes)
}

fn trace(lab: &Lab, kernel: &Kernel) -> Result<Vec<String>> {
    let file = lab.out(&format!("traces/{TRACE}.trace"));
    files::make_dir(&lab.out("traces"))?;
    let plugin = Plugin::new(&kernel.symbols, Task::Record(file.clone()))?;
    let mut notes = boot(lab, kernel, TRACE, &plugin)?;
    if notes.is_empty() {
        let configuration = Configuration {
            model: MODEL.into(),
            set: Vec::new(),
        };
        let (first, _, accesses) = sweep::played(&file, &configuration, None)?;
        if accesses < ENOUGH {
            notes.push(format!("the trace has only {accesses} accesses"));
        }
        let unexplained = first.report().total.counters.unexplained;
        if unexplained > 0 {
            notes.push(format!(
                "{unexplained} of {accesses} accesses reach another page than the trace's tables say"
            ));
        }
        let (second, _, _) = sweep::played(&file, &configuration, None)?;
        if first.report() != second.report() {
            notes.push("two replays of one trace differ".into());
        }
        let bytes = std::fs::metadata(&file).map_or(0, |meta| meta.len());
        let cut = std::fs::OpenOptions::new().write(true).open(&file)?;
        cut.set_len(bytes.saturating_sub(1))?;
        if sweep::played(&file, &configuration, None).is_ok() {
            notes.push("a trace without its last byte was replayed".into());
        }
        files::remove(&file)?;
    }
    Ok(notes)
}
