// SPDX-License-Identifier: GPL-2.0-or-later
//! Getting the machine ready: the packages, and enough disk to work in.

use crate::lab::Lab;
use crate::lab::arch::{self, Arch};
use crate::lab::guest::run;
use crate::lab::host::apt;
use crate::lab::host::files;
use crate::lab::host::process::{output, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::source;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Disk space that the trees, three builds, the root file systems and the cache take together.
const NEEDED: u64 = 10_000_000_000;

/// The packages, each with its reason.
const PACKAGES: &[(&str, &str)] = &[
    (
        "bc",
        "the kernel's build computes its time constants with it",
    ),
    ("bison", "the kernel's configuration parser"),
    (
        "cpio",
        "the kernel's headers and its package are copied with it",
    ),
    ("ccache", "a second build finds what the first compiled"),
    (
        "chromium-headless-shell",
        "a test looks with it whether the report's pages can be read",
    ),
    (
        "debhelper",
        "the kernel's own rules for Debian packages use it",
    ),
    (
        "debian-archive-keyring",
        "the guest's packages are signed with these keys",
    ),
    ("dpkg-dev", "builds packages, and finds what they depend on"),
    ("e2fsprogs", "mke2fs makes the guest's root file system"),
    ("flex", "the kernel's configuration scanner"),
    ("gcc", "compiles the kernel and the guest's programs"),
    ("kmod", "a kernel package lists its modules' dependencies"),
    ("libc6-dev", "the guest's programs are linked with it"),
    (
        "libcap-dev",
        "the kernel's own tests change capabilities with it",
    ),
    ("libelf-dev", "objtool reads object files"),
    (
        "libnuma-dev",
        "the kernel's own tests move pages between nodes with it",
    ),
    (
        "libpopt-dev",
        "the kernel's own test of message queues reads its arguments with it",
    ),
    (
        "liburing-dev",
        "the kernel's own tests register buffers with it",
    ),
    (
        "libssl-dev",
        "kernels configured as a distribution's handle certificates with it",
    ),
    ("make", "builds the kernel"),
    ("mmdebstrap", "makes the guest's root file system"),
    ("openssl", "such kernels make a key to sign their modules"),
    ("patch", "applies the hooks"),
    ("perl", "some of the kernel's sources are generated"),
    (
        "rsync",
        "copies the kernel's source, and its headers for the selftests",
    ),
    (
        "valgrind",
        "a test holds the model's caches against cachegrind's",
    ),
    ("xz-utils", "the kernel's source is packed with it"),
    (
        "zstd",
        "packs a kernel or its modules if a configuration asks for it",
    ),
    (source::SOURCE_PACKAGE, "the kernel's source"),
];

/// Checks the machine and installs what is missing; with `more`, also for guests of these
/// architectures.
pub fn setup(lab: &Lab, more: &[Arch]) -> Result<()> {
    let release = apt::release(Path::new("/"))?;
    // `out` may be a disk of its own.
    let disk = match lab.root.join("out") {
        out if out.exists() => out,
        _ => lab.root.clone(),
    };
    let free = free_bytes(&disk)?;
    // Parts that are built already need no further space.
    if free < NEEDED && !lab.out("linux/cohort").exists() {
        bail!(
            "the lab needs {} GB of disk and {} has {} GB free: free some space, or put the \
             checkout on a larger disk",
            NEEDED / 1_000_000_000,
            disk.display(),
            free / 1_000_000_000
        );
    }
    let archs = || std::iter::once(arch::LAB).chain(more.iter().copied());
    let mut missing: Vec<&str> = PACKAGES
        .iter()
        .chain(archs().flat_map(|arch| arch.packages))
        .map(|(name, _)| *name)
        .filter(|name| !installed(name))
        .collect();
    // Architectures that differ in their kernel alone need the same.
    missing.sort_unstable();
    missing.dedup();
    let emulators: Vec<&str> = archs()
        .filter(|arch| !qemu_is_new_enough(*arch))
        .map(|arch| arch.qemu_package)
        .collect();
    let qemu = emulators.is_empty();
    if missing.is_empty() && qemu {
        eprintln!("all packages are there");
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "packages are missing ({}) and only root can install them: run `cohort lab setup` as \
             root once",
            missing
                .iter()
                .copied()
                .chain(emulators)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let entries = apt::entries(Path::new("/"))?;
    let backports = format!("{}-backports", release.codename);
    let add = match (qemu, release.number) {
        (false, 12) => apt::backports(&entries, &release.codename)?,
        _ => None,
    };
    if let Some(text) = add {
        let file = Path::new("/etc/apt/sources.list.d/cohort-backports.sources");
        files::write(file, text.as_bytes())?;
        eprintln!(
            "added {backports} to the package sources ({})",
            file.display()
        );
    }
    apt_get(lab, "update", &["update"], 20)?;
    install(lab, &missing)?;
    if !qemu {
        let mut args = vec!["install", "--yes", "--no-install-recommends"];
        if release.number == 12 {
            args.extend(["--target-release", &backports]);
        }
        args.extend(&emulators);
        apt_get(lab, "install-qemu", &args, 60)?;
        for arch in archs() {
            let package = arch.qemu_package;
            if emulators.contains(&package) && !qemu_is_new_enough(arch) {
                bail!(
                    "{package} is installed in version {} and the lab needs {} or newer: is \
                     {backports} among the package sources, and not pinned down?",
                    run::version_of(arch.qemu).unwrap_or_else(|_| "unknown".into()),
                    run::QEMU_MAJOR
                );
            }
        }
    }
    Ok(())
}

/// Installs those of these packages that are missing, for the command that alone needs them.
pub fn install_missing(lab: &Lab, packages: &[&str], command: &str) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "packages are missing ({}) and only root can install them: run `{command}` as root \
             once",
            missing.join(", ")
        );
    }
    apt_get(lab, "update", &["update"], 20)?;
    install(lab, &missing)
}

fn install(lab: &Lab, packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(packages);
    apt_get(lab, "install", &args, 60 + 5 * packages.len() as u64)
}

fn apt_get(lab: &Lab, name: &str, args: &[&str], expected: u64) -> Result<()> {
    let mut progress = Progress::new(&format!("apt-get {}", args[0]), "s", Some(expected));
    run_or_fail(
        Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3"])
            // Without this option, a list that cannot be fetched is a warning only, and a package
            // is missing later.
            .args(["-o", "APT::Update::Error-Mode=any"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive"),
        &lab.log(&format!("apt-{name}")),
        &format!("apt-get {} failed", args[0]),
        |_| progress.tick_seconds(),
    )?;
    progress.finish(&format!("apt-get {} is done", args[0]));
    Ok(())
}

fn installed(package: &str) -> bool {
    output(Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]))
        .is_ok_and(|status| status == "installed")
}

fn qemu_is_new_enough(arch: Arch) -> bool {
    run::version_of(arch.qemu)
        .ok()
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok())
        .is_some_and(|major| major >= run::QEMU_MAJOR)
}

/// Bytes that are free on the disk of `path` for whoever runs this.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let space = rustix::fs::statvfs(path)
        .with_context(|| format!("cannot read the free space of {}", path.display()))?;
    Ok(space.f_bavail * space.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_and_a_path_that_is_not_there_is_named() {
        assert!(free_bytes(Path::new("/")).unwrap() > 0);
        let error = format!("{:#}", free_bytes(Path::new("/no/such")).unwrap_err());
        assert!(error.contains("/no/such"), "{error}");
    }

    #[test]
    fn every_package_is_named_once_with_a_reason() {
        for arch in Arch::all() {
            let all: Vec<_> = PACKAGES.iter().chain(arch.packages).collect();
            for (number, (name, reason)) in all.iter().enumerate() {
                assert!(!reason.is_empty(), "{arch}: {name}");
                assert!(
                    all[..number].iter().all(|(other, _)| other != name),
                    "{arch}: {name}"
                );
            }
        }
    }
}
