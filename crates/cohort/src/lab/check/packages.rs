// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab check-packages`: builds the Debian packages, installs and removes them in a clean root
//! of each Debian that they are for, and boots the kernel's package.

use crate::lab::Lab;
use crate::lab::check::tally::Tally;
use crate::lab::host::apt;
use crate::lab::host::files;
use crate::lab::host::process::{Event, output, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::build::{self, Config};
use crate::lab::package::{kernel, tools};
use crate::output::say;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The releases that packages are for. One built on a release needs its C library: it is for that
/// release and later ones.
const RELEASES: &[(u32, &str)] = &[(12, "bookworm"), (13, "trixie")];
/// What a guest says whose kernel has Cohort.
const WORKS: &str = "cohort works";

/// What to check.
#[derive(clap::Args)]
pub struct Options {
    /// The kernel's configuration; default: that of the lab's kernel `bench`, which takes minutes
    /// where a distribution's takes hours.
    #[arg(long, value_name = "FILE")]
    kernel_config: Option<PathBuf>,
    /// Check the package of the host tools alone.
    #[arg(long, conflicts_with = "kernel_config")]
    no_kernel: bool,
}

/// Runs the check.
pub fn run(lab: &Lab, options: &Options) -> Result<Tally> {
    let mut packages = vec![tools::build(lab)?];
    if !options.no_kernel {
        packages.extend(kernel::build(lab, &configuration(lab, options)?)?);
    }
    let mut tally = Tally::new();
    let own = apt::release(Path::new("/"))?;
    for (_, suite) in RELEASES.iter().filter(|(number, _)| *number >= own.number) {
        let result = install(lab, &own.codename, suite, &packages);
        count(&mut tally, &format!("packages in {suite}"), result)?;
    }
    let image = packages
        .iter()
        .find(|path| kernel::is(path, "linux-image-"));
    if let Some(image) = image {
        count(&mut tally, "the kernel's package boots", boot(lab, image))?;
    }
    say!("{tally}")?;
    Ok(tally)
}

fn configuration(lab: &Lab, options: &Options) -> Result<String> {
    if options.kernel_config.is_some() {
        return Ok(kernel::configuration(options.kernel_config.as_deref())?.1);
    }
    build::build(lab, Config::Bench)?;
    files::read(&lab.out("build/bench/.config"))
}

fn count(tally: &mut Tally, name: &str, result: Result<String>) -> Result<()> {
    match result {
        Ok(said) => {
            tally.passed += 1;
            say!("{name}: {said}")
        }
        Err(error) => {
            let error = format!("{error:#}");
            say!("{name}: failed: {error}")?;
            tally.fail(name, &[error]);
            Ok(())
        }
    }
}

/// Installs and removes the packages in a new root of `suite`, which is gone then.
fn install(lab: &Lab, host: &str, suite: &str, packages: &[PathBuf]) -> Result<String> {
    let dir = lab.out("packages/check");
    files::remove(&dir)?;
    files::make_dir(&dir)?;
    for package in packages {
        let name = package.file_name().unwrap_or_default();
        std::fs::copy(package, dir.join(name))
            .with_context(|| format!("cannot copy {}", package.display()))?;
    }
    let entries = apt::entries(Path::new("/"))?;
    let sources = apt::guest_sources(&entries, host, suite, false).join("\n") + "\n";
    let list = lab.out("packages/check.list");
    files::write(&list, sources.as_bytes())?;
    let script = lab.path("packaging/debian/check.sh");
    let mut progress = Progress::new(&format!("packages in {suite}"), "s", Some(60));
    let mut said = String::new();
    run_or_fail(
        Command::new("mmdebstrap")
            .args(["--mode=root", "--variant=minbase", "--format=null"])
            .arg("--aptopt=Acquire::Retries \"3\"")
            .arg(format!(
                "--customize-hook=copy-in {} {} /",
                dir.display(),
                script.display()
            ))
            .arg("--customize-hook=mv \"$1/check\" \"$1/packages\"")
            .arg("--customize-hook=chroot \"$1\" /bin/sh /check.sh")
            .arg(suite)
            .arg("-")
            .arg(&list),
        &lab.log(&format!("packages-{suite}")),
        &format!("the packages are not right in {suite}"),
        |event| match event {
            Event::Line(line) if line.starts_with("installed, tried") => said = line.into(),
            Event::Line(_) => {}
            Event::Tick => progress.tick_seconds(),
        },
    )?;
    progress.finish(&format!("packages in {suite} are checked"));
    files::remove(&dir)?;
    Ok(said)
}

/// Boots the kernel's package and starts a zygote on it.
fn boot(lab: &Lab, image: &Path) -> Result<String> {
    let own = std::env::current_exe().context("cannot tell this program's file")?;
    let said = output(
        Command::new(own)
            .args(["lab", "--root"])
            .arg(&lab.root)
            .args(["shell", "--timeout", "300", "--kernel"])
            .arg(image)
            .arg("--")
            .arg(format!("uname -r; cohort run -- echo {WORKS}")),
    )?;
    let lines: Vec<&str> = said.lines().collect();
    match lines[..] {
        [release, WORKS] if release.ends_with("-cohort") => Ok(format!("Linux {release}")),
        _ => anyhow::bail!("the guest said {said:?}"),
    }
}
