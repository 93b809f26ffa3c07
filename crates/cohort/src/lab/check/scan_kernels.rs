// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan` on kernels as Debian ships them: old ones, and those of another processor. They
//! are fetched from where this machine gets its own packages, and boot with their own modules.

use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::guest::job::Step;
use crate::lab::guest::packaged::{modules, only};
use crate::lab::guest::programs::{self, Program};
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::host::apt;
use crate::lab::host::files;
use crate::lab::host::process::{output, run_or_fail};
use crate::output::say;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Host seconds for a guest, and guest seconds for a step.
const LIMIT: u64 = 1800;
const STEP_LIMIT: u64 = 800;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    steps: Vec<(String, String)>,
    kernel: Vec<Packaged>,
}

/// A kernel of guest/scan-kernels.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packaged {
    name: String,
    reason: String,
    arch: Arch,
    suite: String,
    package: String,
    cpu: String,
    rootfs: String,
}

/// Boots each kernel whose name holds `filter`; true if all steps passed on all.
pub fn run(lab: &Lab, filter: Option<&str>) -> Result<bool> {
    let list = list(lab)?;
    let wanted = |kernel: &&Packaged| filter.is_none_or(|word| kernel.name.contains(word));
    let kernels: Vec<&Packaged> = list.kernel.iter().filter(wanted).collect();
    if kernels.is_empty() {
        let names: Vec<_> = list.kernel.iter().map(|kernel| &*kernel.name).collect();
        bail!("no such kernel; there are: {}", names.join(", "));
    }
    let mut passed = true;
    for kernel in kernels {
        passed &= kernel.try_scan(lab, &list.steps)?;
    }
    Ok(passed)
}

fn list(lab: &Lab) -> Result<List> {
    let path = lab.path("guest/scan-kernels.toml");
    let list: List = toml::from_str(&files::read(&path)?)
        .with_context(|| format!("{} is not a list of kernels", path.display()))?;
    if let Some(kernel) = list.kernel.iter().find(|kernel| kernel.reason.is_empty()) {
        bail!("{}: {} has no reason", path.display(), kernel.name);
    }
    Ok(list)
}

/// One of the kernels, as it boots.
pub struct Debian {
    /// Its processor's kind.
    pub arch: Arch,
    /// Its processor, by QEMU's name.
    pub cpu: String,
    /// Its image.
    pub image: PathBuf,
    /// Its version.
    pub version: String,
    /// Files that it needs in the initramfs.
    pub modules: Vec<Program>,
}

/// The kernel of that name, fetched unless it is there.
pub fn kernel(lab: &Lab, name: &str) -> Result<Debian> {
    let list = list(lab)?;
    let names: Vec<_> = list.kernel.iter().map(|kernel| &*kernel.name).collect();
    match list.kernel.iter().find(|kernel| kernel.name == name) {
        Some(kernel) => kernel.ready(lab),
        None => bail!("there is no kernel {name}; there are: {}", names.join(", ")),
    }
}

impl Packaged {
    fn ready(&self, lab: &Lab) -> Result<Debian> {
        let tree = self.unpacked(lab)?;
        let image = only(&files::walk(&tree.join("boot"))?, "vmlinuz-")?;
        let version = image.file_name().unwrap_or_default().to_string_lossy();
        let version = version.trim_start_matches("vmlinuz-").to_string();
        Ok(Debian {
            arch: self.arch,
            cpu: self.cpu.clone(),
            image,
            version,
            modules: modules(&tree, &lab.out(&format!("packages/{}.modules", self.name)))?,
        })
    }

    fn try_scan(&self, lab: &Lab, steps: &[(String, String)]) -> Result<bool> {
        let kernel = self.ready(lab)?;
        let version = kernel.version;
        let init = programs::init_for(lab, self.arch)?;
        let mut programs = programs::data_files(lab)?;
        programs.push(programs::cohort_for(lab, self.arch)?);
        programs.extend(kernel.modules);
        let rootfs = rootfs::image(lab, &self.rootfs)?;
        let steps = steps
            .iter()
            .map(|(name, command)| Step::new(name, STEP_LIMIT, command))
            .collect();
        let outcome = Spec {
            machine: Machine::pci(self.arch, &self.cpu),
            name: format!("scan-{}", self.name),
            kernel: &kernel.image,
            memory: 1024,
            cpus: 1,
            icount: false,
            rootfs: Some(&rootfs),
            read_limit: None,
            cmdline: String::new(),
            init: &init,
            programs: &programs,
            steps,
            plugin: None,
            limit: LIMIT,
        }
        .run(lab)?;
        let mut passed = outcome.problem().is_none();
        say!("{}: Linux {version} on {}", self.name, self.cpu)?;
        for step in &outcome.report.steps {
            for line in &step.lines {
                say!("  {line}")?;
            }
            passed &= step.ending.success();
            say!("  {}: {}", step.name, step.ending)?;
        }
        for problem in outcome.problem().iter().chain(&outcome.complaints) {
            passed = false;
            say!("  {problem}")?;
        }
        say!("  {}", if passed { "passed" } else { "failed" })?;
        Ok(passed)
    }

    /// The unpacked package, fetched unless it is there.
    fn unpacked(&self, lab: &Lab) -> Result<PathBuf> {
        let tree = lab.out(&format!("packages/{}", self.name));
        if tree.exists() {
            return Ok(tree);
        }
        let apt = lab.out(&format!("packages/apt-{}", self.name));
        files::remove(&apt)?;
        for dir in ["lists/partial", "cache/archives/partial", "parts"] {
            files::make_dir(&apt.join(dir))?;
        }
        let release = apt::release(Path::new("/"))?;
        let entries = apt::entries(Path::new("/"))?;
        // Without the security suite: what it had for a release that is no longer supported goes.
        let sources = apt::guest_sources(&entries, &release.codename, &self.suite, false);
        let sources: Vec<&String> = sources
            .iter()
            .filter(|line| !line.contains("-updates "))
            .collect();
        let [source] = sources[..] else {
            bail!("/etc/apt names not one package source of this machine's release");
        };
        files::write(&apt.join("sources.list"), format!("{source}\n").as_bytes())?;
        files::write(&apt.join("status"), b"")?;
        let log = lab.log(&format!("packages-{}", self.name));
        let failed = format!("the kernel {} could not be fetched", self.name);
        run_or_fail(
            self.apt("apt-get", &apt).arg("update"),
            &log,
            &failed,
            |_| (),
        )?;
        let found =
            output(
                self.apt("apt-cache", &apt)
                    .args(["--names-only", "search", &self.package]),
            )?;
        let name = newest(&found).with_context(|| {
            format!(
                "{} has no package {} for {}",
                self.suite, self.package, self.arch.debian
            )
        })?;
        run_or_fail(
            self.apt("apt-get", &apt)
                .args(["download", name])
                .current_dir(&apt),
            &log,
            &failed,
            |_| (),
        )?;
        let package = only(&files::with_suffix(&apt, ".deb")?, "linux-image-")?;
        let new = files::sibling(&tree, ".new");
        files::remove(&new)?;
        run_or_fail(
            Command::new("dpkg").arg("-x").arg(&package).arg(&new),
            &log,
            &failed,
            |_| (),
        )?;
        std::fs::rename(&new, &tree)
            .with_context(|| format!("cannot create {}", tree.display()))?;
        files::remove(&apt)?;
        Ok(tree)
    }

    /// A program of apt's that knows nothing of this machine's packages.
    fn apt(&self, program: &str, dir: &Path) -> Command {
        let mut command = Command::new(program);
        let dir = dir.display();
        for option in [
            format!("APT::Architecture={}", self.arch.debian),
            format!("APT::Architectures={}", self.arch.debian),
            "APT::Sandbox::User=root".into(),
            "APT::Update::Error-Mode=any".into(),
            "Acquire::Retries=3".into(),
            format!("Dir::State::lists={dir}/lists"),
            format!("Dir::State::status={dir}/status"),
            format!("Dir::Cache={dir}/cache"),
            format!("Dir::Etc::sourcelist={dir}/sources.list"),
            format!("Dir::Etc::sourceparts={dir}/parts"),
            "Dir::Etc::trusted=/usr/share/keyrings/debian-archive-keyring.gpg".into(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }
}

/// The package with the highest numbers in its name, of what `apt-cache search` says.
fn newest(found: &str) -> Option<&str> {
    let numbers = |name: &str| -> Vec<u64> {
        name.split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    found
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .max_by_key(|name| numbers(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_is_by_number() {
        let found = "linux-image-5.10.0-9-arm64 - Linux\nlinux-image-5.10.0-32-arm64 - Linux\n\
                     linux-image-5.10.0-30-arm64 - Linux\n";
        assert_eq!(newest(found), Some("linux-image-5.10.0-32-arm64"));
        assert_eq!(newest(""), None);
    }

    #[test]
    fn the_list_of_this_checkout_is_right() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lab = Lab::find(Some(root)).unwrap();
        for kernel in list(&lab).unwrap().kernel {
            let recipe = rootfs::recipe(&lab, &kernel.rootfs).unwrap();
            let arch = recipe.arch.unwrap_or(crate::lab::arch::LAB);
            assert_eq!(arch, kernel.arch, "{}", kernel.name);
        }
    }
}
