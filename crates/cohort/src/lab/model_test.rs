// SPDX-License-Identifier: GPL-2.0-or-later
//! A test of `cohort lab test`: in a guest with two processors, every translation of the model is
//! the one that QEMU made.

use super::build::Kernel;
use super::guest::Spec;
use super::job::Step;
use super::model::{Output, Plugin, Task};
use super::protocol::{Test, Verdict};
use super::{Lab, programs};
use anyhow::Result;

/// Its name, which `--filter` chooses by.
pub const NAME: &str = "model-translations";
/// Host seconds.
const LIMIT: u64 = 600;
/// Fewer comparisons than this are no test.
const ENOUGH: u64 = 1_000_000;

/// Boots the kernel under the plugin, which checks from the first mark on: while processes fork,
/// write and end.
pub fn test(lab: &Lab, kernel: &Kernel) -> Result<Test> {
    let mut plugin = Plugin::new(&kernel.image, Task::Model("babelfish-isca20".into()))?;
    plugin.check = true;
    let spec = Spec {
        name: NAME.into(),
        kernel: &kernel.image,
        memory: 1_024,
        cpus: 2,
        icount: true,
        rootfs: None,
        cmdline: "cohort=always".into(),
        init: &programs::init(lab)?,
        programs: &programs::workloads(lab)?,
        steps: vec![Step::new(
            "forks",
            LIMIT,
            "lab-mark start -- fork-cost --zygote --sizes 1m --rounds 3 --child-writes 8",
        )],
        plugin: Some(&plugin),
        limit: LIMIT,
    };
    let outcome = spec.run(lab)?;
    let mut notes: Vec<String> = outcome.problem().into_iter().collect();
    for step in outcome.report.steps.iter().filter(|s| !s.ending.success()) {
        notes.push(format!("{}: {}", step.name, step.ending));
        notes.extend(step.lines.iter().rev().take(3).cloned());
    }
    if notes.is_empty() {
        let dir = lab.out(&format!("run/{NAME}"));
        match Output::read(&dir)?.check {
            Some(check) if check.checked < ENOUGH || check.model_checked < ENOUGH => {
                notes.push(format!("too little was compared: {check:?}"));
            }
            Some(check) => notes.extend(check.problem(&dir.join("qemu.log"))),
            None => notes.push("nothing was compared".into()),
        }
    }
    Ok(Test {
        name: NAME.into(),
        verdict: if notes.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Fail
        },
        notes,
    })
}
