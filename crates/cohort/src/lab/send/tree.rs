// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel tree that gets one patch after the other, and is built, checked with sparse and booted.

use super::sparse::{self, Warnings};
use super::{Repository, failure, said};
use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::guest::programs::{self, Program};
use crate::lab::host::files;
use crate::lab::host::process::output;
use crate::lab::kernel::build::{self, Config};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is built after each patch: all C files that a hook touches and the configuration has, and
/// all that includes what they declare.
const BUILT: &[&str] = &[
    "mm/",
    "kernel/fork.o",
    "kernel/exit.o",
    "kernel/sys.o",
    "kernel/cred.o",
    "kernel/nsproxy.o",
    "kernel/events/",
    "kernel/cgroup/",
    "kernel/time/",
    "fs/binfmt_elf.o",
    "fs/exec.o",
    "fs/userfaultfd.o",
    "fs/proc/",
    "lib/maple_tree.o",
];
/// The same of an architecture, by its name for `make`.
const BUILT_OF: &[(&str, &[&str])] = &[
    ("x86_64", &["arch/x86/mm/", "arch/x86/entry/vdso/vma.o"]),
    ("arm64", &["arch/arm64/mm/", "arch/arm64/kernel/"]),
    ("arm", &["arch/arm/mm/", "arch/arm/kernel/"]),
];
/// The same for each build, or `make` would compile all again.
const FLAGS: &str = "KCFLAGS=-Werror";
/// The source, below `out`.
const SOURCE: &str = "series/linux";
/// How the line begins that `make` prints for each file that sparse is to check.
const CHECKS: &str = "  CHECK ";

/// What was asked for, or why there is none: lines.
pub type Answer<T> = std::result::Result<T, Vec<String>>;

/// A kernel that can be booted, with its selftests.
pub struct Bootable {
    pub image: PathBuf,
    pub selftests: Vec<Program>,
}

/// The tree of an architecture, and the directory that it is built in.
pub struct Tree<'a> {
    lab: &'a Lab,
    pub arch: Arch,
    source: PathBuf,
    out: PathBuf,
}

impl<'a> Tree<'a> {
    /// A copy of the stock kernel.
    pub fn new(lab: &'a Lab, arch: Arch) -> Result<Self> {
        let source = lab.out(SOURCE);
        files::make_dir(&source)?;
        output(
            Command::new("rsync")
                .args(["--archive", "--checksum", "--delete"])
                .arg(format!("{}/", lab.out("linux/pristine").display()))
                .arg(format!("{}/", source.display())),
        )?;
        let out = lab.out(&built_in(arch));
        files::make_dir(&out)?;
        Ok(Tree {
            lab,
            arch,
            source,
            out,
        })
    }

    fn make(&self) -> Result<Command> {
        let target = self.arch.build()?;
        let dir = built_in(self.arch);
        let mut make = build::make_with(self.lab, target.make, target.cross, SOURCE, &dir);
        make.arg(FLAGS);
        Ok(make)
    }

    /// Builds the changed directories of what the repository holds now; returns why they do not
    /// build.
    pub fn build(&self, repository: &Repository) -> Result<Vec<String>> {
        let name = self.arch.build()?.make;
        let own = BUILT_OF.iter().filter(|(of, _)| *of == name);
        let all: Vec<&str> = BUILT
            .iter()
            .chain(own.flat_map(|(_, paths)| *paths))
            .copied()
            .collect();
        self.build_targets(repository, &all)
    }

    fn build_targets(&self, repository: &Repository, targets: &[&str]) -> Result<Vec<String>> {
        let _lock = files::Lock::take(&self.lab.out("kbuild.lock"), "the kernel build")?;
        output(
            Command::new("rsync")
                .args(["--recursive", "--perms", "--checksum", "--exclude=/.git"])
                .arg(format!("{}/", repository.0.display()))
                .arg(format!("{}/", self.source.display())),
        )?;
        let wrong = self.configure()?;
        if !wrong.is_empty() {
            return Ok(wrong);
        }
        failure(self.make()?.args(targets), self.lab)
    }

    /// Configures it as the `bench` kernel.
    fn configure(&self) -> Result<Vec<String>> {
        // An option that is not there yet is passed over.
        let all: String = build::fragments_for(self.lab, self.arch, Config::Bench)?
            .iter()
            .map(|(_, text)| text.as_str())
            .collect();
        let wanted = self.out.join("lab.config");
        files::write(&wanted, all.as_bytes())?;
        let mut configure = self.make()?;
        configure
            .arg("allnoconfig")
            .env("KCONFIG_ALLCONFIG", &wanted);
        failure(&mut configure, self.lab)
    }

    /// What sparse says of the C files among `touched` that the configuration has. Builds them
    /// before: a file has an object then, or is not checked.
    pub fn sparse(
        &self,
        repository: &Repository,
        touched: &BTreeSet<String>,
    ) -> Result<Answer<Warnings>> {
        let wrong = self.build(repository)?;
        if !wrong.is_empty() {
            return Ok(Err(wrong));
        }
        let mut sources = sparse::sources(touched);
        // An object may be left of a patch that is not applied yet.
        sources.retain(|source| {
            self.source.join(source).exists() && self.out.join(object(source)).exists()
        });
        if sources.is_empty() {
            // Without a target `make` would check the whole kernel.
            return Ok(Ok(Warnings::default()));
        }
        let _lock = files::Lock::take(&self.lab.out("kbuild.lock"), "the kernel build")?;
        let mut make = self.make()?;
        make.arg("C=2")
            .args(sources.iter().map(|source| object(source)));
        let (status, lines) = said(&mut make, self.lab)?;
        let is_checked = |source: &&str| {
            let end = format!("/{source}");
            let mut checks = lines.iter().filter(|line| line.starts_with(CHECKS));
            checks.any(|line| line.ends_with(&end))
        };
        // Silence would pass for a file without warnings.
        let missed = sources.iter().copied().find(|source| !is_checked(source));
        if !status.success() || missed.is_some() {
            return Ok(Err(vec![format!(
                "sparse did not check {} ({status}); the full log is {}",
                missed.unwrap_or("all files"),
                self.lab.log("series").display()
            )]));
        }
        let lines = lines.iter().map(String::as_str);
        Ok(Ok(Warnings::parse(lines, &self.real_source()?)))
    }

    /// The source's path as the kernel's build prints it.
    fn real_source(&self) -> Result<String> {
        let path = self.source.canonicalize().context("the tree is gone")?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// The kernel and the selftests of what the repository holds now.
    pub fn bootable(&self, repository: &Repository) -> Result<Answer<Bootable>> {
        let build = self.arch.build()?;
        for target in [build.target, "headers"] {
            let wrong = self.build_targets(repository, &[target])?;
            if !wrong.is_empty() {
                return Ok(Err(wrong));
            }
        }
        let programs = self.lab.out(&format!("series/selftests-{}", self.arch));
        // Those of the series before may not be among them.
        files::remove(&programs)?;
        files::make_dir(&programs)?;
        let headers = self.out.join("usr/include");
        let mut make = programs::make_selftests(self.arch, &self.source, &headers, &programs)?;
        let wrong = failure(&mut make, self.lab)?;
        if !wrong.is_empty() {
            return Ok(Err(wrong));
        }
        Ok(Ok(Bootable {
            image: self.out.join(build.image),
            selftests: programs::built_selftests(&programs)?,
        }))
    }
}

/// Where the tree is built for an architecture, below `out`.
fn built_in(arch: Arch) -> String {
    format!("series/build-{arch}")
}

/// The object of a C file.
fn object(source: &str) -> PathBuf {
    Path::new(source).with_extension("o")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::kernel::series::{read_series, touched};

    /// C files that the `bench` configuration does not have.
    const ABSENT: &[&str] = &["arch/x86/platform/efi/efi_64.c", "kernel/tsacct.c"];

    #[test]
    fn make_needs_no_tree_but_the_series_own() {
        let (_dir, lab) = Lab::fake();
        let arch = crate::lab::arch::LAB;
        let (source, out) = (lab.out(SOURCE), lab.out(&built_in(arch)));
        files::make_dir(&source).unwrap();
        files::make_dir(&out).unwrap();
        let tree = Tree {
            lab: &lab,
            arch,
            source,
            out,
        };
        let failed = output(tree.make().unwrap().arg("all")).unwrap_err();
        // The tree is empty.
        let text = format!("{failed:#}");
        assert!(text.contains("No rule to make target"), "{text}");
    }

    #[test]
    fn every_c_file_that_a_hook_touches_is_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let targets = || {
            let own = BUILT_OF.iter().flat_map(|(_, paths)| *paths);
            BUILT.iter().chain(own)
        };
        for hook in read_series(&root.join("kernel/hooks")).unwrap() {
            let files = touched(&files::read(&hook).unwrap());
            let paths: BTreeSet<String> = files.into_iter().map(|file| file.path).collect();
            for source in sparse::sources(&paths) {
                let object = object(source).to_string_lossy().into_owned();
                let is_built = targets().any(|target| match target.ends_with('/') {
                    true => object.starts_with(target),
                    false => object == *target,
                });
                assert!(is_built || ABSENT.contains(&source), "{source}");
            }
        }
    }
}
