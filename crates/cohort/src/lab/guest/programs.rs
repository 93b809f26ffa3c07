// SPDX-License-Identifier: GPL-2.0-or-later
//! The programs that go into a guest: its init, the workloads, the kernel's selftests.

use crate::lab::Lab;
use crate::lab::arch::{self, Arch};
use crate::lab::host::files;
use crate::lab::host::hash::Hasher;
use crate::lab::host::process::{output, run_or_fail};
use crate::lab::kernel::build::{self, Config};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the selftests are in the kernel's tree.
pub const SELFTESTS: &str = "tools/testing/selftests/cohort";

/// The bit of the kernel's taint mask that KUnit sets when it ran, which is not a complaint.
pub const TAINT_TEST: u64 = 1 << 18;

/// A file for the initramfs.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is in the guest.
    pub guest_path: String,
    /// Where it is here.
    pub file: PathBuf,
    /// Its mode.
    pub mode: u32,
}

impl Program {
    /// The last part of its path: its name as a command.
    pub fn name(&self) -> &str {
        self.guest_path.rsplit('/').next().unwrap_or_default()
    }
}

/// Builds the guest's init from all of `guest/init/*.c`.
pub fn init(lab: &Lab) -> Result<PathBuf> {
    init_for(lab, arch::LAB)
}

/// Builds the init of guests with another processor.
pub fn init_for(lab: &Lab, arch: Arch) -> Result<PathBuf> {
    let sources = files::with_suffix(&lab.path("guest/init"), ".c")?;
    if sources.is_empty() {
        bail!(
            "there is no guest/init/*.c in {}: the checkout is incomplete",
            lab.root.display()
        );
    }
    let target = lab.out(&format!("{}/init", arch.dir()));
    compile_for(arch, lab, &sources, &target, Link::Static)?;
    Ok(target)
}

/// The shell scripts of the directory `from`, for the directory `to` of a guest.
pub fn scripts(lab: &Lab, from: &str, to: &str) -> Result<Vec<Program>> {
    Ok(files::with_suffix(&lab.path(from), ".sh")?
        .into_iter()
        .map(|file| Program {
            guest_path: format!(
                "{to}/{}",
                file.file_name().unwrap_or_default().to_string_lossy()
            ),
            mode: 0o755,
            file,
        })
        .collect())
}

/// Where the workloads are. Each folder with C files is one program, with these exceptions.
const WORKLOADS: &str = "guest/workloads";

/// The folder of [`WORKLOADS`] that is linked to each of them.
const LIBRARY: &str = "lib";

/// The end of the name of a folder whose program is linked dynamically.
const DYNAMIC: &str = ".dyn";

/// Builds every workload and lists them with the files beside them.
pub fn workloads(lab: &Lab) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for folder in workload_folders(lab)? {
        programs.push(workload_for(lab, arch::LAB, &folder)?);
    }
    programs.extend(data_files(lab)?);
    Ok(programs)
}

/// What the scripts among the data files start.
const OF_SCRIPTS: &[&str] = &["apart", "cohort-exec", "lab-mark"];

/// As [`workloads`], for another architecture: those alone that `words` or scripts name, since
/// not all are for every one.
pub fn workloads_for(lab: &Lab, arch: Arch, words: &BTreeSet<&str>) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for folder in workload_folders(lab)? {
        let name = folder.strip_suffix(DYNAMIC).unwrap_or(&folder);
        if words.contains(name) || OF_SCRIPTS.contains(&name) {
            programs.push(workload_for(lab, arch, &folder)?);
        }
    }
    programs.extend(data_files(lab)?);
    Ok(programs)
}

fn workload_folders(lab: &Lab) -> Result<Vec<String>> {
    let dir = lab.path(WORKLOADS);
    let mut folders = Vec::new();
    if dir.is_dir() {
        let entries =
            std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != LIBRARY && !files::with_suffix(&entry.path(), ".c")?.is_empty() {
                folders.push(name);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

/// Builds the workload of one folder.
pub fn workload_for(lab: &Lab, arch: Arch, folder: &str) -> Result<Program> {
    let (name, link) = match folder.strip_suffix(DYNAMIC) {
        Some(name) => (name, Link::Dynamic),
        None => (folder, Link::Static),
    };
    let target = lab.out(&format!("{}/bin/{name}", arch.dir()));
    let dir = lab.path(WORKLOADS);
    let mut sources = files::with_suffix(&dir.join(folder), ".c")?;
    sources.extend(files::with_suffix(&dir.join(LIBRARY), ".c")?);
    compile_for(arch, lab, &sources, &target, link)?;
    Ok(Program {
        guest_path: format!("/lab/bin/{name}"),
        file: target,
        mode: 0o755,
    })
}

/// The files beside the workloads, which are copied as they are.
pub fn data_files(lab: &Lab) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let data = lab.path("guest/workloads/files");
    if data.is_dir() {
        for file in files::walk(&data)? {
            let path = file.strip_prefix(&data).unwrap_or(&file).display();
            let mode = file
                .metadata()
                .with_context(|| format!("cannot read {}", file.display()))?
                .permissions()
                .mode();
            programs.push(Program {
                guest_path: format!("/lab/files/{path}"),
                mode: mode & 0o777,
                file,
            });
        }
    }
    Ok(programs)
}

/// This program itself, for guests whose root file system has the libraries of this machine.
pub fn cohort() -> Result<Program> {
    Ok(Program {
        guest_path: "/lab/bin/cohort".into(),
        file: std::env::current_exe().context("cannot tell this program's file")?,
        mode: 0o755,
    })
}

/// This program for another kind of processor, linked statically; and for this machine's, itself.
pub fn cohort_for(lab: &Lab, arch: Arch) -> Result<Program> {
    let Some(rust) = arch.rust else {
        return cohort();
    };
    let target = lab.out(&format!("{}/target", arch.dir()));
    let variable = |name: &str| {
        let triple = rust.replace('-', "_").to_uppercase();
        format!("CARGO_TARGET_{triple}_{name}")
    };
    run_or_fail(
        Command::new("cargo")
            .args(["build", "--release", "--locked", "--package", "cohort"])
            .args(["--target", rust, "--target-dir"])
            .arg(&target)
            .current_dir(&lab.root)
            .env(variable("LINKER"), arch.gcc)
            .env(variable("RUSTFLAGS"), "-C target-feature=+crt-static"),
        &lab.log(&format!("cargo-{arch}")),
        &format!(
            "cohort did not build for {arch}: has Rust its standard library (`rustup target add \
             {rust}`)?"
        ),
        |_| (),
    )?;
    Ok(Program {
        guest_path: "/lab/bin/cohort".into(),
        file: target.join(rust).join("release/cohort"),
        mode: 0o755,
    })
}

/// Builds the program that prints what KUnit found at boot.
pub fn kunit(lab: &Lab, arch: Arch) -> Result<Program> {
    let source = lab.path("crates/cohort/guest/kunit.c");
    let target = lab.out(&format!("{}/bin/kunit", arch.dir()));
    compile_for(arch, lab, &[source], &target, Link::Static)?;
    Ok(Program {
        guest_path: "/lab/bin/kunit".into(),
        file: target,
        mode: 0o755,
    })
}

/// Where a guest has the fuzzer's regression tests.
pub const REGRESSIONS: &str = "/lab/regressions";

/// Builds the fuzzer of memory management from all of `guest/fuzz/*.c`.
pub fn fuzz(lab: &Lab, arch: Arch) -> Result<Program> {
    let target = lab.out(&format!("{}/bin/fuzz", arch.dir()));
    let sources = files::with_suffix(&lab.path("guest/fuzz"), ".c")?;
    compile_for(arch, lab, &sources, &target, Link::Static)?;
    Ok(Program {
        guest_path: "/lab/bin/fuzz".into(),
        file: target,
        mode: 0o755,
    })
}

/// The fuzzer's regression tests, which `fuzz --replay-all` finds in [`REGRESSIONS`].
pub fn regressions(lab: &Lab) -> Result<Vec<Program>> {
    files::with_suffix(&lab.path("guest/fuzz/regressions"), ".fuzz")?
        .into_iter()
        .map(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            Ok(Program {
                guest_path: format!("{REGRESSIONS}/{name}"),
                file: file.clone(),
                mode: 0o644,
            })
        })
        .collect()
}

/// Builds the selftests with the kernel's own rules, against its own headers.
pub fn selftests(lab: &Lab, arch: Arch, config: Config) -> Result<Vec<Program>> {
    let dir = lab.out(config.tree()).join(SELFTESTS);
    if !dir.join("Makefile").exists() {
        bail!(
            "the kernel tree has no {SELFTESTS}/Makefile: kernel/overlay of this checkout is \
             incomplete"
        );
    }
    let target = lab.out(&format!("{}/selftests", arch.dir()));
    let stamp = lab.out(&format!("{}/selftests.stamp", arch.dir()));
    let mut hash = Hasher::new();
    hash.path(&lab.path("kernel/overlay"))?;
    let hash = hash.finish();
    if !std::fs::read_to_string(&stamp).is_ok_and(|old| old == hash) {
        let _lock = files::Lock::take(&lab.out("kbuild.lock"), "the kernel build")?;
        files::remove(&target)?;
        files::make_dir(&target)?;
        let headers = build::headers(lab, arch, config)?;
        run_or_fail(
            &mut make_selftests(arch, &lab.out(config.tree()), &headers, &target)?,
            &lab.log(&format!("selftests-{arch}")),
            "the selftests did not build",
            |_| (),
        )?;
        files::write(&stamp, hash.as_bytes())?;
    }
    built_selftests(&target)
}

/// `make` for the selftests of the kernel's tree `tree`, with its headers, into `target`.
pub fn make_selftests(arch: Arch, tree: &Path, headers: &Path, target: &Path) -> Result<Command> {
    let build = arch.build()?;
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(tree.join(SELFTESTS))
        .arg(format!("OUTPUT={}", target.display()))
        .arg(format!("KHDR_INCLUDES=-isystem {}", headers.display()))
        .arg(format!("ARCH={}", build.make))
        .arg(format!("CROSS_COMPILE={}", build.cross))
        // The guest has no libraries; their Makefile adds to what it finds here.
        .env("LDFLAGS", "-static")
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    Ok(make)
}

/// The programs that [`make_selftests`] left in `target`.
pub fn built_selftests(target: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for file in files::walk(target)? {
        let mode = file.metadata().map(|meta| meta.permissions().mode());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if mode.is_ok_and(|mode| mode & 0o111 != 0) && !name.contains('.') {
            programs.push(Program {
                guest_path: format!("/lab/bin/{name}"),
                mode: 0o755,
                file: file.clone(),
            });
        }
    }
    if programs.is_empty() {
        bail!("{SELFTESTS} built no program: its Makefile names none in TEST_GEN_PROGS");
    }
    Ok(programs)
}

#[derive(Clone, Copy)]
enum Link {
    Static,
    Dynamic,
}

impl Link {
    /// The compiler's arguments before and after the sources.
    fn arguments(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Link::Static => (&["-O2", "-Wall", "-pthread", "-static"], &[]),
            // Libraries that the program loads find those of its symbols that are visible.
            Link::Dynamic => (
                &[
                    "-O2",
                    "-Wall",
                    "-pthread",
                    "-rdynamic",
                    "-fvisibility=hidden",
                ],
                &["-ldl"],
            ),
        }
    }
}

/// Compiles sources to one program unless it was made from the same files and arguments.
fn compile_for(
    arch: Arch,
    lab: &Lab,
    sources: &[PathBuf],
    target: &Path,
    link: Link,
) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let stamp = files::sibling(target, ".stamp");
    if target.exists() {
        let old = std::fs::read_to_string(&stamp).unwrap_or_default();
        let files = old.lines().skip(1).map(PathBuf::from);
        if old == stamp_text(arch, sources, link, files)? {
            return Ok(());
        }
    }
    if let Some(dir) = target.parent() {
        files::make_dir(dir)?;
    }
    let (before, after) = link.arguments();
    let mut gcc = Command::new(arch.gcc);
    gcc.args(arch.cflags).args(before).arg("-o").arg(target);
    gcc.args(sources).args(after);
    run_or_fail(
        &mut gcc,
        &lab.log(&format!("gcc-{name}")),
        &format!("the guest program {name} did not build"),
        |_| (),
    )?;
    let mut gcc = Command::new(arch.gcc);
    let rules = output(gcc.args(arch.cflags).args(before).arg("-MM").args(sources))?;
    let stamp_text = stamp_text(arch, sources, link, included(&rules).into_iter())?;
    files::write(&stamp, stamp_text.as_bytes())
}

/// A stamp: one line with the hash of all that a program is made from, then a line for each of
/// `files`, which are the sources and what they include.
fn stamp_text(
    arch: Arch,
    sources: &[PathBuf],
    link: Link,
    files: impl Iterator<Item = PathBuf>,
) -> Result<String> {
    let mut hash = Hasher::new();
    hash.part("compiler", arch.gcc.as_bytes());
    let (before, after) = link.arguments();
    for argument in arch.cflags.iter().chain(before).chain(after) {
        hash.part("argument", argument.as_bytes());
    }
    for source in sources {
        hash.part("source", source.as_os_str().as_encoded_bytes());
    }
    let mut lines = String::new();
    for file in files {
        hash.path(&file)?;
        lines.push_str(&format!("{}\n", file.display()));
    }
    Ok(format!("{}\n{lines}", hash.finish()))
}

/// The files in the make rules that `gcc -MM` prints, each once.
fn included(rules: &str) -> BTreeSet<PathBuf> {
    rules
        .replace("\\\n", " ")
        // A space in a name has a backslash.
        .replace("\\ ", "\0")
        .split_whitespace()
        .filter(|word| !word.ends_with(':'))
        .map(|word| PathBuf::from(word.replace('\0', " ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(lab: &Lab, path: &str, content: &str) {
        files::write(&lab.path(path), content.as_bytes()).unwrap();
    }

    fn status(program: &Program) -> Option<i32> {
        Command::new(&program.file).status().unwrap().code()
    }

    fn made(program: &Program) -> std::time::SystemTime {
        program.file.metadata().unwrap().modified().unwrap()
    }

    #[test]
    fn a_folder_is_a_program_linked_with_the_library_and_built_once() {
        let (_dir, lab) = Lab::fake();
        write(&lab, "guest/workloads/lib/value.c", "int value = 3;\n");
        write(
            &lab,
            "guest/workloads/one/main.c",
            "int other(void);\nint main(void) { return other(); }\n",
        );
        write(
            &lab,
            "guest/workloads/one/other.c",
            "extern int value;\nint other(void) { return value; }\n",
        );
        write(&lab, "guest/workloads/files/a.conf", "x");
        let programs = workloads(&lab).unwrap();
        let paths: Vec<_> = programs.iter().map(|p| p.guest_path.as_str()).collect();
        assert_eq!(paths, ["/lab/bin/one", "/lab/files/a.conf"]);
        assert_eq!(status(&programs[0]), Some(3));
        let first = made(&programs[0]);
        workloads(&lab).unwrap();
        assert_eq!(first, made(&programs[0]));
        write(&lab, "guest/workloads/lib/value.c", "int value = 4;\n");
        workloads(&lab).unwrap();
        assert_eq!(status(&programs[0]), Some(4));
    }

    #[test]
    fn a_program_is_built_again_when_any_header_that_it_includes_changes() {
        let (_dir, lab) = Lab::fake();
        write(
            &lab,
            "guest/workloads/one/one.c",
            "#include \"../lib/a b.h\"\nint main(void) { return VALUE; }\n",
        );
        write(
            &lab,
            "guest/workloads/lib/a b.h",
            "#include \"../../../kernel/overlay/value.h\"\n",
        );
        let header = "kernel/overlay/value.h";
        write(&lab, header, "#define VALUE 3\n");
        let programs = workloads(&lab).unwrap();
        assert_eq!(status(&programs[0]), Some(3));
        write(&lab, header, "#define VALUE 4\n");
        workloads(&lab).unwrap();
        assert_eq!(status(&programs[0]), Some(4));
        // A program whose header is gone is built again.
        std::fs::remove_file(lab.path(header)).unwrap();
        assert!(workloads(&lab).is_err());
    }

    #[test]
    fn a_program_that_does_not_compile_is_named_with_its_log() {
        let (_dir, lab) = Lab::fake();
        write(&lab, "guest/workloads/bad/bad.c", "int main(void) { x }\n");
        let error = workloads(&lab).unwrap_err().to_string();
        assert!(
            error.contains("program bad") && error.contains("gcc-bad.log"),
            "{error}"
        );
    }

    #[test]
    fn without_init_the_error_says_so() {
        let (_dir, lab) = Lab::fake();
        assert!(init(&lab).unwrap_err().to_string().contains("guest/init"));
    }
}
