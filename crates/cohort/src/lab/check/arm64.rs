// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab check-model`: a kernel as Debian ships it boots under the plugin, from its first
//! instruction on, then processes fork, write and end; every translation of the model is compared
//! with QEMU's. This tests the page tables of another processor than the lab's on a real kernel.

use crate::lab::Lab;
use crate::lab::check::scan_kernels;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::{Output, Plugin, Task};
use crate::lab::guest::programs;
use crate::lab::guest::run::{Machine, Spec};
use crate::output::say;
use anyhow::{Result, bail};

/// The kernel if none is named.
pub const KERNEL: &str = "6.12-arm64";
/// The model: ARM's, whose TLB tells address spaces apart by their numbers.
const MODEL: &str = "cortex-a9";
/// The command that runs when the kernel is up.
const COMMAND: &str = "fork-cost --sizes 1m --rounds 3 --child-writes 8";
/// Guest seconds for it, and host seconds for all: each access is walked twice.
const STEP_LIMIT: u64 = 600;
const LIMIT: u64 = 7_200;
/// A boot has more translations than this.
const ENOUGH: u64 = 10_000_000;

/// Boots the kernel of guest/scan-kernels.toml that is named so; true if no translation differed.
pub fn run(lab: &Lab, name: &str) -> Result<bool> {
    // A kernel's name ends in the size of its pages where that is not 4 KB.
    if name.ends_with('k') {
        bail!("{name}: only pages of 4 KB can be checked");
    }
    let kernel = scan_kernels::kernel(lab, name)?;
    let mut programs = vec![programs::workload_for(lab, kernel.arch, "fork-cost")?];
    programs.extend(kernel.modules);
    let mut plugin = Plugin::nameless(Task::Model(MODEL.into()))?;
    plugin.check = true;
    plugin.whole = true;
    let run = format!("check-model-{name}");
    let outcome = Spec {
        machine: Machine::pci(kernel.arch, &kernel.cpu),
        name: run.clone(),
        kernel: &kernel.image,
        memory: 1024,
        cpus: 2,
        icount: true,
        rootfs: None,
        read_limit: None,
        cmdline: String::new(),
        init: &programs::init_for(lab, kernel.arch)?,
        programs: &programs,
        steps: vec![Step::new("forks", STEP_LIMIT, COMMAND)],
        plugin: Some(&plugin),
        limit: LIMIT,
    }
    .run(lab)?;
    say!("{name}: Linux {} on {}", kernel.version, kernel.cpu)?;
    let mut problems: Vec<String> = outcome.problem().into_iter().collect();
    problems.extend(outcome.complaints);
    for step in outcome.report.steps.iter().filter(|s| !s.ending.success()) {
        problems.push(format!("{}: {}", step.name, step.ending));
        problems.extend(step.lines.iter().rev().take(3).cloned());
    }
    let dir = lab.out(&format!("run/{run}"));
    // A guest that was ended has written none.
    if let Ok(output) = Output::read(&dir) {
        let check = output.check.unwrap_or_default();
        say!(
            "  {} instructions, {} translations compared, {} of them by the model's own walks",
            output.instructions,
            check.checked,
            check.model_checked
        )?;
        if check.checked.min(check.model_checked) < ENOUGH {
            problems.push("that is too little to be a boot".into());
        }
        problems.extend(check.problem(&dir.join("qemu.log")));
    } else if problems.is_empty() {
        problems.push("the plugin has written nothing".into());
    }
    for problem in &problems {
        say!("  {problem}")?;
    }
    say!(
        "  {}",
        if problems.is_empty() {
            "passed"
        } else {
            "failed"
        }
    )?;
    Ok(problems.is_empty())
}
