// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab check-groups`: containers, services and programs as people start them share tables in
//! a guest. The scripts are in `guest/groups`; each is a program that prints TAP.

use crate::lab::Lab;
use crate::lab::check::selftests;
use crate::lab::check::tally::Tally;
use crate::lab::guest::job::Step;
use crate::lab::guest::programs;
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::host::files;
use crate::lab::kernel::build::{self, Config};
use crate::output::say;
use anyhow::{Result, bail};

/// The root file system, which has the runtimes.
const ROOTFS: &str = "containers";
/// The scripts, and where they are in the guest.
const SCRIPTS: &str = "guest/groups";
const IN_GUEST: &str = "/lab/groups";
/// What the scripts source.
const COMMON: &str = "common";
/// Guest seconds for one script; a debug kernel under emulation is slow, and podman is large.
const STEP_LIMIT: u64 = 1_200;
/// Host seconds for a boot with all scripts.
const GUEST_LIMIT: u64 = 3_600;

/// What to check.
#[derive(clap::Args)]
pub struct Options {
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Debug)]
    config: Config,
    /// Run only scripts whose name contains this: crun, podman, run, services.
    #[arg(long)]
    filter: Option<String>,
}

/// Runs the scripts one after the other, each in a guest of its own.
pub fn run(lab: &Lab, options: &Options) -> Result<Tally> {
    if options.config == Config::Pristine {
        bail!("a pristine kernel has no groups: use --config debug or bench");
    }
    let names = names(lab, options.filter.as_deref())?;
    let kernel = build::build(lab, options.config)?;
    let init = programs::init(lab)?;
    let mut all = programs::workloads(lab)?;
    all.extend(programs::scripts(lab, SCRIPTS, IN_GUEST)?);
    all.push(programs::cohort()?);
    let rootfs = rootfs::image(lab, ROOTFS)?;
    let mut tally = Tally::new();
    for name in names {
        let steps = vec![Step::new(
            &name,
            STEP_LIMIT,
            format!("sh {IN_GUEST}/{name}.sh"),
        )];
        let outcome = Spec {
            name: format!("groups-{}-{name}", options.config),
            machine: Machine::lab(),
            kernel: &kernel.image,
            memory: 2_048,
            cpus: 2,
            icount: false,
            rootfs: Some(&rootfs),
            read_limit: None,
            cmdline: String::new(),
            init: &init,
            programs: &all,
            steps: steps.clone(),
            plugin: None,
            limit: GUEST_LIMIT,
        }
        .run(lab)?;
        for (_, test) in selftests::verdicts(&outcome, &steps) {
            selftests::count(&mut tally, &name, &test);
            selftests::print(&name, &test)?;
        }
    }
    say!("{tally}")?;
    Ok(tally)
}

/// The scripts whose names hold `filter`.
fn names(lab: &Lab, filter: Option<&str>) -> Result<Vec<String>> {
    let mut names: Vec<String> = files::with_suffix(&lab.path(SCRIPTS), ".sh")?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .filter(|name| name != COMMON)
        .collect();
    let all = names.join(", ");
    names.retain(|name| filter.is_none_or(|filter| name.contains(filter)));
    if names.is_empty() {
        bail!("no script's name holds that; there are: {all}");
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_scripts_of_this_checkout_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lab = Lab::find(Some(root)).unwrap();
        assert_eq!(names(&lab, None).unwrap().len(), 4);
        assert_eq!(names(&lab, Some("pod")).unwrap(), ["podman"]);
        let error = names(&lab, Some("docker")).unwrap_err().to_string();
        assert!(error.contains("podman"), "{error}");
    }
}
