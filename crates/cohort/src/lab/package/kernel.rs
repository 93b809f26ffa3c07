// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's packages: the patched source with the configuration of a machine, built by the
//! kernel's own `bindeb-pkg`.

use crate::lab::Lab;
use crate::lab::host::files;
use crate::lab::host::process::{Event, output, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::{build, kconfig, source};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is added to a machine's configuration, in `kernel/config`.
const FRAGMENTS: &[&str] = &["cohort", "package"];
/// Files of Debian's own build that its configuration names and nobody else has.
const KEYS: &[&str] = &[
    "CONFIG_SYSTEM_TRUSTED_KEYS",
    "CONFIG_SYSTEM_REVOCATION_KEYS",
];
/// The build's directory, below `out`.
const BUILD: &str = "build/package";

/// The configuration to build with: `named`, or that of the running kernel.
pub fn configuration(named: Option<&Path>) -> Result<(PathBuf, String)> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => {
            let release = output(Command::new("uname").arg("-r"))?;
            PathBuf::from(format!("/boot/config-{}", release.trim()))
        }
    };
    let cure = "name a kernel configuration with --kernel-config FILE (make deb \
                KERNEL_CONFIG=FILE), or build only the host tools with --no-kernel";
    if named.is_none() && !path.exists() {
        bail!(
            "the running kernel has no configuration {}: {cure}",
            path.display()
        );
    }
    let text = files::read(&path)?;
    if !text.lines().any(|line| line.starts_with("CONFIG_")) {
        bail!("{} has no line CONFIG_…=…: {cure}", path.display());
    }
    Ok((path, text))
}

/// Builds the kernel's packages with a configuration's text.
pub fn build(lab: &Lab, text: &str) -> Result<Vec<PathBuf>> {
    let _lock = files::Lock::take(&lab.out("kbuild.lock"), "the kernel build")?;
    let version = source::pristine(lab)?;
    source::cohort(lab, &version)?;
    configure(lab, text)?;
    let parent = lab.out("build");
    forget(&parent)?;
    let mut progress = Progress::new("building the kernel's packages", "files", None);
    run_or_fail(
        make(lab)
            .args(["V=0", "bindeb-pkg"])
            .env(
                "KDEB_PKGVERSION",
                format!("{version}-{}", super::version(lab)),
            )
            .env("KDEB_CHANGELOG_DIST", "unstable"),
        &lab.log("deb-kernel"),
        "the kernel's packages did not build",
        |event| match event {
            Event::Line(line) => {
                let kind = line.split_whitespace().next().unwrap_or_default();
                if line.starts_with("  ") && matches!(kind, "CC" | "AS" | "HOSTCC") {
                    progress.step();
                }
            }
            Event::Tick => progress.tick(),
        },
    )?;
    progress.finish("built the kernel's packages");
    let dir = lab.out(super::DIR);
    files::make_dir(&dir)?;
    forget(&dir)?;
    let mut packages = Vec::new();
    for made in with_end(&parent, ".deb")? {
        // In the place of the machine's own C headers, which are newer or older than this kernel, it
        // would help nobody.
        if is(&made, "linux-libc-dev_") {
            continue;
        }
        let package = dir.join(made.file_name().unwrap_or_default());
        std::fs::rename(&made, &package)
            .with_context(|| format!("cannot create {}", package.display()))?;
        packages.push(package);
    }
    forget(&parent)?;
    if !packages.iter().any(|path| is(path, "linux-image-")) {
        bail!(
            "bindeb-pkg made no linux-image: see {}",
            lab.log("deb-kernel").display()
        );
    }
    Ok(packages)
}

/// What a build of the kernel's packages leaves in a directory, of one kind.
fn with_end(dir: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = files::with_suffix(dir, end)?;
    found.retain(|path| is(path, "linux-"));
    Ok(found)
}

/// Removes packages and what else a build leaves beside them.
fn forget(dir: &Path) -> Result<()> {
    for end in [".deb", ".changes", ".buildinfo"] {
        for old in with_end(dir, end)? {
            files::remove(&old)?;
        }
    }
    Ok(())
}

/// A file's name begins so.
pub fn is(path: &Path, begin: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(begin)
}

fn make(lab: &Lab) -> Command {
    build::make_in(lab, "linux/cohort", BUILD)
}

fn configure(lab: &Lab, text: &str) -> Result<()> {
    let fragments = FRAGMENTS.iter().map(|name| {
        let name = format!("kernel/config/{name}.config");
        let text = files::read(&lab.path(&name))?;
        Ok((name, text))
    });
    let fragments = fragments.collect::<Result<Vec<_>>>()?;
    let config = lab.out(BUILD).join(".config");
    files::write(&config, merged(text, &fragments).as_bytes())?;
    run_or_fail(
        make(lab).arg("olddefconfig"),
        &lab.log("config-package"),
        "the kernel could not be configured",
        |_| (),
    )?;
    kconfig::check(
        &kconfig::parse_fragments(&fragments)?,
        &files::read(&config)?,
    )
}

/// A machine's configuration with the fragments behind it: the last line of a symbol counts.
fn merged(text: &str, fragments: &[(String, String)]) -> String {
    let mut merged = String::new();
    for line in text.lines() {
        match line.split_once('=') {
            Some((symbol, _)) if KEYS.contains(&symbol) => merged += &format!("{symbol}=\"\""),
            _ => merged += line,
        }
        merged.push('\n');
    }
    for (_, text) in fragments {
        merged += text;
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_configuration_is_told_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("config-1");
        let error = format!("{:#}", configuration(Some(&named)).unwrap_err());
        assert!(error.contains("config-1"), "{error}");
        files::write(&named, b"# nothing\n").unwrap();
        let error = configuration(Some(&named)).unwrap_err().to_string();
        for word in ["config-1", "--kernel-config", "--no-kernel"] {
            assert!(error.contains(word), "{error}");
        }
        files::write(&named, b"CONFIG_A=y\n").unwrap();
        assert_eq!(configuration(Some(&named)).unwrap().1, "CONFIG_A=y\n");
    }

    #[test]
    fn the_fragments_come_last_and_keys_of_the_distribution_go() {
        let text = "CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/a.pem\"\nCONFIG_A=y\n";
        let fragments = [("x".to_string(), "# CONFIG_A is not set\n".to_string())];
        assert_eq!(
            merged(text, &fragments),
            "CONFIG_SYSTEM_TRUSTED_KEYS=\"\"\nCONFIG_A=y\n# CONFIG_A is not set\n"
        );
    }
}
