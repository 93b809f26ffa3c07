// SPDX-License-Identifier: GPL-2.0-or-later
//! Builds the kernel's own tests from the tree and with its headers.
//!
//! They are linked dynamically, as programs are, against the C library of the guest's root file
//! system, which is of this machine's Debian release; the few libraries that are not in it are
//! linked statically. Those of another architecture, which this machine does not have, are copied
//! from the root file system.

use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::check::mmtests::list::{DIR, TestProgram};
use crate::lab::guest::programs::{self, Program};
use crate::lab::host::files;
use crate::lab::host::hash::Hasher;
use crate::lab::host::process::{output, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::build::{self, Config};
use crate::lab::kernel::source;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the suites are in the kernel's tree.
const SELFTESTS: &str = "tools/testing/selftests";
/// Change this when this file builds other programs from the same tree.
const METHOD: &[u8] = b"2";
/// Libraries that some tests are linked with and the guest does not have.
const LIBRARIES: &[&str] = &["cap", "numa", "popt", "uring"];
/// Where a root file system of another architecture has them, with their headers.
const STATIC: &str = "static";
/// khugepaged.c of 6.12 uses this number without including its header.
const FLAGS: &str = "-DKSFT_SKIP=4";

/// What the suites are built for.
pub struct Goal<'a> {
    pub arch: Arch,
    /// The kernel's, whose headers they are built with.
    pub config: Config,
    /// The image of the guest's root file system.
    pub rootfs: &'a Path,
}

/// Builds the suites of `tests` unless that is done, and lists all files for the guest.
pub fn programs(lab: &Lab, goal: &Goal, tests: &[TestProgram]) -> Result<Vec<Program>> {
    let suites: BTreeSet<&str> = tests.iter().map(|test| test.suite.as_str()).collect();
    let target = lab.out(&format!("{}/kernel-tests", goal.arch.dir()));
    build_all(lab, goal, &suites, &target)?;
    let mut programs = programs::scripts(lab, DIR, "/lab/kernel-tests")?;
    for suite in suites {
        programs.extend(built(&target.join(suite), suite)?);
    }
    for test in tests {
        for program in test.programs() {
            let path = format!("/lab/kernel-tests/{}/{program}", test.suite);
            if !programs.iter().any(|known| known.guest_path == path) {
                bail!(
                    "the test {} needs {program}, which the suite {} did not build; the log is {}",
                    test.name,
                    test.suite,
                    log(lab, goal.arch, &test.suite).display()
                );
            }
        }
    }
    Ok(programs)
}

fn log(lab: &Lab, arch: Arch, suite: &str) -> PathBuf {
    lab.log(&format!("kernel-tests-{}{suite}", arch.mark()))
}

/// Builds those suites that are not built yet.
fn build_all(lab: &Lab, goal: &Goal, suites: &BTreeSet<&str>, target: &Path) -> Result<()> {
    let &Goal { arch, config, .. } = goal;
    let kernel = arch.build()?;
    let tree = lab.out(config.tree());
    let compiler = output(Command::new(arch.gcc).arg("--version")).with_context(|| {
        format!("no C compiler for {arch}: `cohort lab setup --arch {arch}` installs it")
    })?;
    let mut stale = Vec::new();
    for suite in suites {
        if !tree.join(SELFTESTS).join(suite).join("Makefile").exists() {
            bail!(
                "the kernel's tree has no {SELFTESTS}/{suite}: the list in {DIR} is for another \
                 kernel"
            );
        }
        let hash = Hasher::new()
            .part("method", METHOD)
            .part("source", source::identity(lab)?.as_bytes())
            .part("compiler", compiler.as_bytes())
            .part("arch", arch.name.as_bytes())
            .part("rootfs", goal.rootfs.as_os_str().as_encoded_bytes())
            .part("suite", suite.as_bytes())
            .finish();
        let stamp = target.join(format!("{suite}.stamp"));
        if !std::fs::read_to_string(&stamp).is_ok_and(|old| old == hash) {
            stale.push((*suite, stamp, hash));
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    let _lock = files::Lock::take(&lab.out("kbuild.lock"), "the kernel build")?;
    let headers = build::headers(lab, arch, config)?;
    let (libraries, include) = match arch == LAB {
        true => (libraries(target)?, None),
        false => {
            let (libraries, include) = copied_libraries(goal.rootfs, target)?;
            (libraries, Some(include))
        }
    };
    let copy = copy_of_tree(&tree, target)?;
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for (suite, stamp, hash) in stale {
        let mut progress = Progress::new(
            &format!("building the kernel's own tests of {suite}"),
            "lines",
            None,
        );
        let built = target.join(suite);
        files::remove(&built)?;
        files::make_dir(&built)?;
        let mut make = Command::new("make");
        if let Some(include) = &include {
            // Not an option: mm/check_config.sh knows the compiler's name alone.
            make.env("C_INCLUDE_PATH", include);
        }
        run_or_fail(
            make.arg("-C")
                .arg(copy.join(SELFTESTS).join(suite))
                .arg(format!("-j{jobs}"))
                .arg(format!("ARCH={}", kernel.make))
                .arg(format!("CROSS_COMPILE={}", kernel.cross))
                .arg(format!("OUTPUT={}", built.display()))
                .arg(format!("KHDR_INCLUDES=-isystem {}", headers.display()))
                .arg(format!("EXTRA_CFLAGS={FLAGS}"))
                // Their Makefiles add to what they find here.
                .env("LDFLAGS", format!("-L{}", libraries.display()))
                .env_remove("CFLAGS")
                .env_remove("MAKEFLAGS")
                .env_remove("MAKELEVEL"),
            &log(lab, arch, suite),
            &format!("the kernel's own tests of {suite} did not build for {arch}"),
            |_| progress.step(),
        )?;
        progress.finish(&format!("the kernel's own tests of {suite} are built"));
        files::write(&stamp, hash.as_bytes())?;
    }
    files::remove(&copy)
}

/// A directory with the static libraries alone: the linker takes the first that it finds.
fn libraries(target: &Path) -> Result<PathBuf> {
    let dir = target.join("lib");
    files::remove(&dir)?;
    files::make_dir(&dir)?;
    for library in LIBRARIES {
        let name = format!("lib{library}.a");
        let path = output(Command::new("gcc").arg(format!("-print-file-name={name}")))?;
        let path = Path::new(path.trim());
        if !path.is_absolute() {
            bail!("there is no {name}: `cohort lab setup` installs it (lib{library}-dev)");
        }
        link(path, &dir.join(name))?;
    }
    Ok(dir)
}

/// The static libraries of another architecture and their headers: two directories that are copied
/// from the root file system's image.
fn copied_libraries(image: &Path, target: &Path) -> Result<(PathBuf, PathBuf)> {
    let dir = target.join(STATIC);
    files::remove(&dir)?;
    files::make_dir(target)?;
    // debugfs exits with 0 even if there is no such directory.
    output(
        Command::new("debugfs")
            .arg("-R")
            .arg(format!("rdump /{STATIC} {}", target.display()))
            .arg(image),
    )?;
    let libraries = dir.join("lib");
    for library in LIBRARIES {
        let name = format!("lib{library}.a");
        if !libraries.join(&name).is_file() {
            bail!(
                "{} has no /{STATIC}/lib/{name}: its recipe in guest/rootfs must put it there",
                image.display()
            );
        }
    }
    Ok((libraries, dir.join("include")))
}

/// The tree with its selftests copied and all else linked: mm's Makefile writes beside its
/// sources, and the tree is to stay as it was unpacked.
fn copy_of_tree(tree: &Path, target: &Path) -> Result<PathBuf> {
    let copy = target.join("tree");
    files::remove(&copy)?;
    let mut from = tree.to_path_buf();
    let mut to = copy.clone();
    for part in SELFTESTS.split('/') {
        files::make_dir(&to)?;
        link_entries(&from, &to, part)?;
        from.push(part);
        to.push(part);
    }
    let status = Command::new("cp")
        .arg("-a")
        .arg(&from)
        .arg(&to)
        .status()
        .context("cannot start cp")?;
    if !status.success() {
        bail!("cannot copy {} to {}", from.display(), to.display());
    }
    Ok(copy)
}

/// Links all entries of `from` but one into `to`.
fn link_entries(from: &Path, to: &Path, but: &str) -> Result<()> {
    let entries =
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        if entry.file_name() != but {
            link(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> Result<()> {
    symlink(from, to).with_context(|| format!("cannot link {}", to.display()))
}

/// All executable files of a built suite, which are its programs.
fn built(dir: &Path, suite: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for file in files::walk(dir)? {
        let mode = file.metadata().map(|meta| meta.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o111 != 0) {
            let path = file.strip_prefix(dir).unwrap_or(&file).display();
            programs.push(Program {
                guest_path: format!("/lab/kernel-tests/{suite}/{path}"),
                mode: 0o755,
                file: file.clone(),
            });
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copied_tree_is_the_tree_and_can_be_written_without_changing_it() {
        let (_dir, lab) = Lab::fake();
        let tree = lab.out("linux/pristine");
        let file = format!("{SELFTESTS}/mm/cow.c");
        for (name, text) in [(file.as_str(), "1"), ("mm/gup.c", "2"), ("tools/x.h", "3")] {
            files::write(&tree.join(name), text.as_bytes()).unwrap();
        }
        let copy = copy_of_tree(&tree, &lab.out("guest/kernel-tests")).unwrap();
        for (name, text) in [(file.as_str(), "1"), ("mm/gup.c", "2"), ("tools/x.h", "3")] {
            assert_eq!(files::read(&copy.join(name)).unwrap(), text, "{name}");
        }
        files::write(&copy.join(SELFTESTS).join("mm/new"), b"").unwrap();
        assert!(!tree.join(SELFTESTS).join("mm/new").exists());
    }

    #[test]
    fn an_image_without_a_library_is_named_with_its_recipe() {
        let (_dir, lab) = Lab::fake();
        let tree = lab.out("tree");
        files::write(&tree.join("static/lib/libcap.a"), b"").unwrap();
        files::write(&tree.join("static/include/popt.h"), b"1").unwrap();
        let image = lab.out("rootfs.ext4");
        let made = Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-d"])
            .arg(&tree)
            .arg(&image)
            .arg("2M")
            .status();
        assert!(made.unwrap().success());
        let target = lab.out("guest/arm64/kernel-tests");
        let error = copied_libraries(&image, &target).unwrap_err().to_string();
        assert!(
            error.contains("rootfs.ext4") && error.contains("libnuma.a"),
            "{error}"
        );
        let header = target.join("static/include/popt.h");
        assert_eq!(files::read(&header).unwrap(), "1");
    }

    #[test]
    fn only_executable_files_are_programs() {
        let (_dir, lab) = Lab::fake();
        let dir = lab.out("guest/kernel-tests/futex");
        files::write_mode(&dir.join("functional/wait"), b"x", 0o755).unwrap();
        files::write(&dir.join("wait.d"), b"x").unwrap();
        let programs = built(&dir, "futex").unwrap();
        let paths: Vec<_> = programs.iter().map(|p| p.guest_path.as_str()).collect();
        assert_eq!(paths, ["/lab/kernel-tests/futex/functional/wait"]);
    }
}
