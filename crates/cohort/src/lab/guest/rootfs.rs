// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's root file systems: Debian packages in an ext4 image, made once per recipe.

use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::guest::setup;
use crate::lab::host::apt;
use crate::lab::host::files;
use crate::lab::host::hash::{Hasher, short};
use crate::lab::host::process::{Event, run_or_fail};
use crate::lab::host::progress::Progress;
use anyhow::{Context, Result, bail};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Change this when this file makes another image from the same recipe.
const METHOD: &[u8] = b"2";

/// Where the recipes are.
const RECIPES: &str = "guest/rootfs";

/// A recipe, `guest/rootfs/NAME.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The file's name.
    pub name: String,
    /// A Debian codename, or `host` for this machine's own.
    pub suite: String,
    /// The architecture; by default this machine's. Packages of another are unpacked but not
    /// set up, because its programs cannot run here.
    pub arch: Option<Arch>,
    /// The packages.
    pub packages: Vec<String>,
    /// Why it is there.
    pub reason: String,
    /// The image's size in MB; by default what the packages take and a quarter more.
    pub size: Option<u64>,
    /// Commands for the shell in the new root, before it is packed; for another architecture,
    /// for this machine's shell with the new root as its working directory.
    #[serde(default)]
    pub setup: Vec<String>,
}

/// The names of all recipes.
pub fn names(lab: &Lab) -> Result<Vec<String>> {
    Ok(files::with_suffix(&lab.path(RECIPES), ".toml")?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect())
}

/// What a shell completes: the names of the checkout's recipes. It shows no error, so that no
/// checkout means no names.
pub fn complete() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = Lab::find(None).and_then(|lab| names(&lab));
        let names = names.unwrap_or_default().into_iter();
        names.map(CompletionCandidate::new).collect()
    })
}

/// Reads the recipe NAME; the error lists those that there are.
pub fn recipe(lab: &Lab, name: &str) -> Result<Recipe> {
    let path = lab.path(&format!("{RECIPES}/{name}.toml"));
    if !path.exists() {
        bail!(
            "there is no root file system `{name}`; there are: {}",
            names(lab)?.join(", ")
        );
    }
    let recipe: Recipe = toml::from_str(&files::read(&path)?)
        .with_context(|| format!("{} is not a recipe", path.display()))?;
    if recipe.name != name || recipe.reason.is_empty() {
        bail!(
            "{} needs its own name and a reason: it says `{}` and `{}`",
            path.display(),
            recipe.name,
            recipe.reason
        );
    }
    Ok(recipe)
}

/// The image of the recipe NAME, made unless it is there already.
pub fn image(lab: &Lab, name: &str) -> Result<PathBuf> {
    let recipe = recipe(lab, name)?;
    let release = apt::release(Path::new("/"))?;
    let suite = match recipe.suite.as_str() {
        "host" => release.codename.clone(),
        suite => suite.to_string(),
    };
    let hash = Hasher::new()
        .part("method", METHOD)
        .part("suite", suite.as_bytes())
        .path(&lab.path(&format!("guest/rootfs/{name}.toml")))?
        .finish();
    let image = lab.out(&format!("rootfs/{name}-{}.ext4", short(&hash)));
    let _lock = files::Lock::take(&lab.out("rootfs/lock"), "the root file system")?;
    if image.exists() {
        return Ok(image);
    }
    if !rustix::process::geteuid().is_root() {
        bail!("only root can make the root file system `{name}` the first time: run this as root");
    }
    let tree = lab.out(&format!("rootfs/{name}.tree"));
    let entries = apt::entries(Path::new("/"))?;
    let make = |security| {
        let sources = apt::guest_sources(&entries, &release.codename, &suite, security);
        debootstrap(lab, name, &recipe, &suite, &tree, &sources)
    };
    if let Err(error) = make(true) {
        // The security suite's index did not always match its signature, and the
        // guest has no network: it needs no updates.
        eprintln!("{error:#}; trying once more without the security suite");
        make(false)?;
    }
    pack(lab, name, &recipe, &tree, &image)?;
    remove_tree(&tree, &files::read(Path::new("/proc/self/mounts"))?)?;
    forget_older(lab, name, &image)?;
    Ok(image)
}

fn debootstrap(
    lab: &Lab,
    name: &str,
    recipe: &Recipe,
    suite: &str,
    tree: &Path,
    sources: &[String],
) -> Result<()> {
    if sources.is_empty() {
        bail!(
            "this machine's /etc/apt names no package source of its own release, which the \
             guest's would be derived from"
        );
    }
    let list = lab.out(&format!("rootfs/{name}.list"));
    files::write(&list, (sources.join("\n") + "\n").as_bytes())?;
    remove_tree(tree, &files::read(Path::new("/proc/self/mounts"))?)?;
    let mut progress = Progress::new(
        &format!("making the root file system {name}"),
        "s",
        Some(25 + 2 * recipe.packages.len() as u64),
    );
    // In a mount namespace of its own: whatever ends it, no /proc or /dev stays mounted in a
    // tree that the next run removes.
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", propagation(), "mmdebstrap"])
        .args(["--mode=root", "--format=directory"])
        .args(match recipe.arch {
            None => vec!["--variant=minbase".to_string()],
            Some(arch) => vec![
                "--variant=extract".to_string(),
                // /lib is /usr/lib, as where packages are configured.
                "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr".to_string(),
                format!("--architectures={}", arch.debian),
            ],
        })
        .arg(format!("--include={}", recipe.packages.join(",")))
        .arg("--aptopt=Acquire::Retries \"3\"")
        .arg("--aptopt=Apt::Install-Recommends \"false\"")
        // A guest reads none of these, and they are a third of the image. The manual's empty
        // directories stay, as openjdk's set-up makes a link there.
        .arg("--dpkgopt=path-exclude=/usr/share/man/*/*")
        .arg("--dpkgopt=path-exclude=/usr/share/doc/*")
        .arg("--dpkgopt=path-exclude=/usr/share/locale/*");
    let shell = match recipe.arch {
        None => "--customize-hook=chroot \"$1\" /bin/sh",
        // The last of the hooks there is the one after the packages are unpacked.
        Some(_) => "--extract-hook=cd \"$1\" && /bin/sh",
    };
    for line in &recipe.setup {
        command.arg(format!("{shell} -ec '{}'", line.replace('\'', "'\\''")));
    }
    run_or_fail(
        command.arg(suite).arg(tree).arg(&list),
        &lab.log(&format!("rootfs-{name}")),
        &format!("the root file system {name} could not be made"),
        |event| {
            if let Event::Tick = event {
                progress.tick_seconds();
            }
        },
    )?;
    progress.finish(&format!("made the root file system {name}"));
    Ok(())
}

fn pack(lab: &Lab, name: &str, recipe: &Recipe, tree: &Path, image: &Path) -> Result<()> {
    let size = match recipe.size {
        Some(size) => size,
        None => {
            let used = crate::lab::host::process::output(
                Command::new("du")
                    .args(["--summarize", "--block-size=1M"])
                    .arg(tree),
            )?;
            let used: u64 = used
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .context("du printed no size")?;
            used + used / 4 + 64
        }
    };
    let free = setup::free_bytes(&lab.root)?;
    if free < size << 20 {
        bail!(
            "the image of {name} needs {size} MB and {} has {} MB free: free some space and run \
             the same command again",
            lab.root.display(),
            free >> 20
        );
    }
    let new = files::sibling(image, ".new");
    files::remove(&new)?;
    run_or_fail(
        Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-F", "-L", "cohort", "-m", "0"])
            // Writes of a guest are thrown away: there is nothing to recover.
            .args(["-O", "^has_journal,^metadata_csum", "-d"])
            .arg(tree)
            .arg(&new)
            .arg(format!("{size}M")),
        &lab.log(&format!("mke2fs-{name}")),
        &format!("the image of {name} could not be made"),
        |_| (),
    )?;
    std::fs::rename(&new, image).with_context(|| format!("cannot create {}", image.display()))
}

/// How a new mount namespace keeps its mounts to itself. In a chroot, where `/` is no mount of
/// its own, that cannot be asked for, and the namespace is as private as the one around it.
fn propagation() -> &'static str {
    let private = crate::lab::host::process::output(Command::new("unshare").args([
        "--mount",
        "--propagation",
        "private",
        "true",
    ]));
    if private.is_ok() {
        "private"
    } else {
        "unchanged"
    }
}

/// Removes a root file system's tree, unless something is mounted in it: what is behind /proc
/// and /dev is not ours.
fn remove_tree(tree: &Path, mounts: &str) -> Result<()> {
    let inside = format!("{}/", tree.display());
    let mount = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .find(|point| point.starts_with(&inside));
    if let Some(point) = mount {
        bail!("{point} is mounted in a tree that has to be removed: unmount it (umount {point})");
    }
    files::remove(tree)
}

/// Removes images of older versions of the recipe.
fn forget_older(lab: &Lab, name: &str, image: &Path) -> Result<()> {
    for old in files::with_suffix(&lab.out("rootfs"), ".ext4")? {
        let file = old.file_name().unwrap_or_default().to_string_lossy();
        let same = file
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| rest.len() == 12 + ".ext4".len());
        if same && old != image {
            files::remove(&old)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake() -> (tempfile::TempDir, Lab) {
        let (dir, lab) = Lab::fake();
        files::write(
            &lab.path("guest/rootfs/base.toml"),
            b"name = \"base\"\nsuite = \"host\"\npackages = [\"apache2\"]\nreason = \"a server\"\n",
        )
        .unwrap();
        (dir, lab)
    }

    #[test]
    fn a_recipe_is_read_and_a_missing_one_lists_the_others() {
        let (_dir, lab) = fake();
        assert_eq!(recipe(&lab, "base").unwrap().packages, ["apache2"]);
        let error = recipe(&lab, "none").unwrap_err().to_string();
        assert!(
            error.contains("`none`") && error.contains("base"),
            "{error}"
        );
    }

    #[test]
    fn a_malformed_recipe_is_named_with_the_field() {
        let (_dir, lab) = fake();
        files::write(&lab.path("guest/rootfs/bad.toml"), b"suit = \"host\"\n").unwrap();
        let error = format!("{:#}", recipe(&lab, "bad").unwrap_err());
        assert!(
            error.contains("bad.toml") && error.contains("suit"),
            "{error}"
        );
    }

    #[test]
    fn a_tree_with_something_mounted_in_it_is_not_removed() {
        let (_dir, lab) = fake();
        let tree = lab.out("rootfs/base.tree");
        files::make_dir(&tree.join("proc")).unwrap();
        let mounts = format!(
            "/dev/a / ext4 rw 0 0\nproc {}/proc proc rw 0 0\n",
            tree.display()
        );
        let error = remove_tree(&tree, &mounts).unwrap_err().to_string();
        assert!(error.contains("umount") && tree.exists(), "{error}");
        remove_tree(&tree, "/dev/a / ext4 rw 0 0\n").unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn only_older_images_of_the_same_recipe_are_removed() {
        let (_dir, lab) = fake();
        let image = |name: &str| lab.out(&format!("rootfs/{name}.ext4"));
        for name in [
            "base-aaaaaaaaaaaa",
            "base-bbbbbbbbbbbb",
            "base-more-cccccccccccc",
        ] {
            files::write(&image(name), b"").unwrap();
        }
        forget_older(&lab, "base", &image("base-bbbbbbbbbbbb")).unwrap();
        assert!(!image("base-aaaaaaaaaaaa").exists());
        assert!(image("base-bbbbbbbbbbbb").exists());
        assert!(image("base-more-cccccccccccc").exists());
    }
}
