// SPDX-License-Identifier: GPL-2.0-or-later
//! The two source trees: `pristine` as Debian ships it, `cohort` with overlay and hooks.
//!
//! The hooks are applied to copies of the files they touch, and only what differs is written
//! into the tree. A file that did not change keeps its time, so that `make` rebuilds no more
//! than it must, and a tree that was left half-written is completed by the next run.

use crate::lab::Lab;
use crate::lab::host::files;
use crate::lab::host::hash::Hasher;
use crate::lab::host::process::{Event, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::series;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's package puts the source, and the package's name.
pub const TARBALL: &str = "/usr/src/linux-source-6.12.tar.xz";
/// The package that holds the kernel's source.
pub const SOURCE_PACKAGE: &str = "linux-source-6.12";
/// Files in that tarball, to show how far unpacking is.
const TARBALL_FILES: u64 = 92_000;

/// Identifies a packed source without reading it.
pub fn identity(lab: &Lab) -> Result<String> {
    let tarball = &lab.tarball;
    let meta = tarball.metadata().with_context(|| {
        format!(
            "no kernel source at {}: `cohort lab setup` installs the package {SOURCE_PACKAGE}",
            tarball.display()
        )
    })?;
    Ok(format!("{} {}\n", meta.len(), meta.mtime()))
}

/// The stock source of the machine's package is unpacked.
pub fn is_unpacked(lab: &Lab) -> bool {
    let stamp = std::fs::read_to_string(lab.out("linux/pristine.stamp"));
    identity(lab).is_ok_and(|now| stamp.is_ok_and(|old| old == now))
}

/// Unpacks the stock source unless it is there already; returns its version.
pub fn pristine(lab: &Lab) -> Result<String> {
    let tarball = &lab.tarball;
    let tree = lab.out("linux/pristine");
    let stamp = lab.out("linux/pristine.stamp");
    let now = identity(lab)?;
    if !is_unpacked(lab) {
        let new = lab.out("linux/pristine.new");
        files::remove(&new)?;
        files::make_dir(&new)?;
        let mut progress = Progress::new("unpacking the kernel", "files", Some(TARBALL_FILES));
        run_or_fail(
            Command::new("tar")
                .args(["--extract", "--verbose", "--strip-components=1", "--file"])
                .arg(tarball)
                .arg("--directory")
                .arg(&new),
            &lab.log("unpack"),
            "the kernel's source did not unpack",
            |event| match event {
                Event::Line(_) => progress.step(),
                Event::Tick => progress.tick(),
            },
        )?;
        progress.finish("unpacked the kernel's source");
        replace_tree(lab, &new, &tree)?;
        files::write(&stamp, now.as_bytes())?;
    }
    version(&tree)
}

/// Puts `new` in the place of `tree`, keeping the times of files that are the same.
fn replace_tree(lab: &Lab, new: &Path, tree: &Path) -> Result<()> {
    if !tree.exists() {
        return std::fs::rename(new, tree)
            .with_context(|| format!("cannot create {}", tree.display()));
    }
    mirror(lab, new, tree)?;
    files::remove(new)
}

fn mirror(lab: &Lab, from: &Path, to: &Path) -> Result<()> {
    files::make_dir(to)?;
    run_or_fail(
        Command::new("rsync")
            .args(["--archive", "--checksum", "--delete"])
            .arg(format!("{}/", from.display()))
            .arg(format!("{}/", to.display())),
        &lab.log("mirror"),
        "the kernel's source could not be copied",
        |_| (),
    )
}

/// The version in a kernel's Makefile.
pub fn version(tree: &Path) -> Result<String> {
    let path = tree.join("Makefile");
    let makefile = files::read(&path)?;
    let field = |name: &str| {
        makefile
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='))
            .map(|value| value.trim().to_string())
            .with_context(|| format!("{} has no {name}: not a kernel's source", path.display()))
    };
    Ok(format!(
        "{}.{}.{}{}",
        field("VERSION")?,
        field("PATCHLEVEL")?,
        field("SUBLEVEL")?,
        field("EXTRAVERSION")?
    ))
}

/// The hash of overlay and hooks: what makes a kernel ours.
pub fn change_hash(lab: &Lab) -> Result<String> {
    let mut hasher = Hasher::new();
    hasher.path(&lab.path("kernel/overlay"))?;
    for patch in series::read_series(&lab.path("kernel/hooks"))? {
        hasher.path(&patch)?;
    }
    Ok(hasher.finish())
}

/// Makes `out/linux/cohort` the stock source plus overlay and hooks. Tells how many files
/// were written.
pub fn cohort(lab: &Lab, version: &str) -> Result<usize> {
    tree(lab, "cohort", |staging| {
        stage(lab, &lab.out("linux/pristine"), staging, version)
    })
}

/// Makes `out/linux/fixed` the stock source plus some of the hooks. Returns how many files were
/// written.
pub fn fixed(lab: &Lab, version: &str, hooks: &[&str]) -> Result<usize> {
    let hooks: Vec<_> = hooks
        .iter()
        .map(|hook| lab.path("kernel/hooks").join(hook))
        .collect();
    tree(lab, "fixed", |staging| {
        let mut ours = BTreeSet::new();
        stage_hooks(
            &hooks,
            &lab.out("linux/pristine"),
            staging,
            version,
            &mut ours,
        )?;
        Ok(ours)
    })
}

/// Makes `out/linux/NAME` the stock source with the files that `stage` builds in a folder.
fn tree(
    lab: &Lab,
    name: &str,
    stage: impl FnOnce(&Path) -> Result<BTreeSet<String>>,
) -> Result<usize> {
    let pristine = lab.out("linux/pristine");
    let tree = lab.out(&format!("linux/{name}"));
    let origin = lab.out(&format!("linux/{name}.origin"));
    let from = files::read(&lab.out("linux/pristine.stamp"))?;
    let manifest = lab.out(&format!("linux/{name}.files"));
    if !tree.exists() || !std::fs::read_to_string(&origin).is_ok_and(|old| old == from) {
        let progress = Progress::new("copying the kernel's source", "", None);
        mirror(lab, &pristine, &tree)?;
        files::remove(&manifest)?;
        files::write(&origin, from.as_bytes())?;
        progress.finish("copied the kernel's source");
    }

    let staging = lab.out("linux/staging");
    files::remove(&staging)?;
    files::make_dir(&staging)?;
    let ours = stage(&staging)?;

    let before: BTreeSet<String> = std::fs::read_to_string(&manifest)
        .unwrap_or_default()
        .lines()
        .map(String::from)
        .collect();
    // Written before the tree is, so that a run that is stopped half-way is undone too.
    let all: Vec<&str> = before.union(&ours).map(String::as_str).collect();
    files::write(&manifest, all.join("\n").as_bytes())?;

    let mut written = 0;
    for path in &ours {
        written += usize::from(copy(&staging.join(path), &tree.join(path))?);
    }
    for path in before.difference(&ours) {
        let stock = pristine.join(path);
        if stock.exists() {
            written += usize::from(copy(&stock, &tree.join(path))?);
        } else {
            files::remove(&tree.join(path))?;
            written += 1;
        }
    }
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    files::write(&manifest, ours.join("\n").as_bytes())?;
    files::remove(&staging)?;
    Ok(written)
}

/// Builds the changed files in `staging` and returns their paths in the tree.
pub fn stage(
    lab: &Lab,
    pristine: &Path,
    staging: &Path,
    version: &str,
) -> Result<BTreeSet<String>> {
    files::make_dir(staging)?;
    let mut ours = BTreeSet::new();
    let hooks = series::read_series(&lab.path("kernel/hooks"))?;
    stage_hooks(&hooks, pristine, staging, version, &mut ours)?;
    let overlay = lab.path("kernel/overlay");
    if overlay.is_dir() {
        for file in files::walk(&overlay)? {
            let path = file.strip_prefix(&overlay).unwrap_or(&file);
            if pristine.join(path).exists() {
                bail!(
                    "{} is there in the stock kernel: the overlay holds new files only, a change \
                     to an existing one is a hook",
                    file.display()
                );
            }
            copy(&file, &staging.join(path))?;
            ours.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(ours)
}

/// Applies hooks to copies of the files that they touch, and adds the paths of these to `ours`.
fn stage_hooks(
    hooks: &[PathBuf],
    pristine: &Path,
    staging: &Path,
    version: &str,
    ours: &mut BTreeSet<String>,
) -> Result<()> {
    for patch in hooks {
        for touched in series::touched(&files::read(patch)?) {
            let stock = pristine.join(&touched.path);
            if !touched.new && !stock.exists() {
                bail!(
                    "{} changes {}, which Linux {version} does not have: refresh the patch \
                     against this version",
                    patch.display(),
                    touched.path
                );
            }
            if stock.exists() && !ours.contains(&touched.path) {
                copy(&stock, &staging.join(&touched.path))?;
            }
            ours.insert(touched.path);
        }
        series::apply(patch, staging, version)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<bool> {
    let content = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let mode = from
        .metadata()
        .with_context(|| format!("cannot read {}", from.display()))?
        .permissions()
        .mode();
    files::write_if_changed(to, &content, mode & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    const HOOK: &str = "mm: call cohort\n\n--- a/mm/memory.c\n+++ b/mm/memory.c\n\
        @@ -1,3 +1,4 @@\n one\n+hook\n two\n three\n";

    /// A lab with a kernel of three files as its tarball.
    fn fake() -> (tempfile::TempDir, Lab) {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab {
            root: dir.path().join("repo"),
            tarball: dir.path().join("linux.tar.xz"),
        };
        let source = dir.path().join("linux-source");
        files::write(
            &source.join("Makefile"),
            b"VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 7\nEXTRAVERSION =\n",
        )
        .unwrap();
        files::write(&source.join("mm/memory.c"), b"one\ntwo\nthree\n").unwrap();
        files::write(&source.join("mm/rmap.c"), b"rmap\n").unwrap();
        let status = Command::new("tar")
            .args(["--create", "--xz", "--file"])
            .arg(&lab.tarball)
            .arg("--directory")
            .arg(dir.path())
            .arg("linux-source")
            .status()
            .unwrap();
        assert!(status.success());
        files::write(
            &lab.path("kernel/overlay/mm/cohort/core.c"),
            b"/* ours */\n",
        )
        .unwrap();
        files::write(&lab.path("kernel/hooks/0001-mm.patch"), HOOK.as_bytes()).unwrap();
        files::write(&lab.path("kernel/hooks/series"), b"0001-mm.patch\n").unwrap();
        (dir, lab)
    }

    fn make(lab: &Lab) -> Result<usize> {
        let version = pristine(lab)?;
        cohort(lab, &version)
    }

    fn age(path: &Path) -> SystemTime {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        std::fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        old
    }

    #[test]
    fn overlay_and_hooks_are_in_the_cohort_tree_and_not_in_the_pristine_one() {
        let (_dir, lab) = fake();
        assert_eq!(make(&lab).unwrap(), 2);
        let read = |path: &str| files::read(&lab.out(path)).unwrap();
        assert_eq!(read("linux/cohort/mm/memory.c"), "one\nhook\ntwo\nthree\n");
        assert_eq!(read("linux/pristine/mm/memory.c"), "one\ntwo\nthree\n");
        assert_eq!(read("linux/cohort/mm/cohort/core.c"), "/* ours */\n");
        assert!(!lab.out("linux/pristine/mm/cohort").exists());
        assert_eq!(version(&lab.out("linux/pristine")).unwrap(), "6.12.7");
    }

    #[test]
    fn the_fixed_tree_has_the_named_hooks_alone_and_names_one_that_is_missing() {
        let (_dir, lab) = fake();
        let version = pristine(&lab).unwrap();
        let read = || files::read(&lab.out("linux/fixed/mm/memory.c")).unwrap();
        assert_eq!(fixed(&lab, &version, &["0001-mm.patch"]).unwrap(), 1);
        assert_eq!(read(), "one\nhook\ntwo\nthree\n");
        assert!(!lab.out("linux/fixed/mm/cohort").exists());
        // A failure leaves the tree as it was.
        let error = fixed(&lab, &version, &["0002-gone.patch"]).unwrap_err();
        assert!(
            format!("{error:#}").contains("0002-gone.patch"),
            "{error:#}"
        );
        assert_eq!(read(), "one\nhook\ntwo\nthree\n");
        assert_eq!(fixed(&lab, &version, &[]).unwrap(), 1);
        assert_eq!(read(), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_second_run_writes_nothing_and_a_change_writes_only_its_file() {
        let (_dir, lab) = fake();
        make(&lab).unwrap();
        let kept = lab.out("linux/cohort/mm/memory.c");
        let old = age(&kept);
        assert_eq!(make(&lab).unwrap(), 0);
        files::write(&lab.path("kernel/overlay/mm/cohort/core.c"), b"/* new */\n").unwrap();
        assert_eq!(make(&lab).unwrap(), 1);
        assert_eq!(kept.metadata().unwrap().modified().unwrap(), old);
    }

    #[test]
    fn what_is_taken_out_of_overlay_and_hooks_is_undone() {
        let (_dir, lab) = fake();
        make(&lab).unwrap();
        files::remove(&lab.path("kernel/overlay")).unwrap();
        files::write(&lab.path("kernel/hooks/series"), b"").unwrap();
        make(&lab).unwrap();
        assert!(!lab.out("linux/cohort/mm/cohort/core.c").exists());
        assert_eq!(
            files::read(&lab.out("linux/cohort/mm/memory.c")).unwrap(),
            "one\ntwo\nthree\n"
        );
    }

    #[test]
    fn a_hook_that_does_not_apply_leaves_the_tree_as_it_was() {
        let (_dir, lab) = fake();
        make(&lab).unwrap();
        let bad = HOOK.replace(" two", " 2");
        files::write(&lab.path("kernel/hooks/0001-mm.patch"), bad.as_bytes()).unwrap();
        let error = make(&lab).unwrap_err().to_string();
        assert!(
            error.contains("0001-mm.patch") && error.contains("mm/memory.c"),
            "{error}"
        );
        assert_eq!(
            files::read(&lab.out("linux/cohort/mm/memory.c")).unwrap(),
            "one\nhook\ntwo\nthree\n"
        );
    }

    #[test]
    fn a_hook_for_a_file_that_is_gone_and_an_overlay_over_stock_are_errors() {
        let (_dir, lab) = fake();
        let gone = HOOK.replace("mm/memory.c", "mm/gone.c");
        files::write(&lab.path("kernel/hooks/0001-mm.patch"), gone.as_bytes()).unwrap();
        let error = make(&lab).unwrap_err().to_string();
        assert!(
            error.contains("mm/gone.c") && error.contains("6.12.7"),
            "{error}"
        );
        files::write(&lab.path("kernel/hooks/0001-mm.patch"), HOOK.as_bytes()).unwrap();
        files::write(&lab.path("kernel/overlay/mm/rmap.c"), b"mine\n").unwrap();
        let error = make(&lab).unwrap_err().to_string();
        assert!(
            error.contains("rmap.c") && error.contains("hook"),
            "{error}"
        );
    }

    #[test]
    fn without_a_source_package_the_error_says_what_to_do() {
        let (_dir, mut lab) = fake();
        lab.tarball = lab.root.join("none.tar.xz");
        let error = format!("{:#}", pristine(&lab).unwrap_err());
        assert!(
            error.contains("none.tar.xz") && error.contains("lab setup"),
            "{error}"
        );
    }

    #[test]
    fn the_change_hash_follows_overlay_and_listed_hooks() {
        let (_dir, lab) = fake();
        let first = change_hash(&lab).unwrap();
        files::write(&lab.path("kernel/hooks/9999-unlisted.patch"), b"x").unwrap();
        assert_eq!(first, change_hash(&lab).unwrap());
        files::write(&lab.path("kernel/overlay/mm/cohort/core.c"), b"/* new */\n").unwrap();
        assert_ne!(first, change_hash(&lab).unwrap());
    }
}
