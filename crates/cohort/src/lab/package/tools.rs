// SPDX-License-Identifier: GPL-2.0-or-later
//! The package `cohort`: what `make install` installs, with the control files of packaging/debian.

use crate::lab::Lab;
use crate::lab::host::files;
use crate::lab::host::process::{output, run_or_fail};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scripts that dpkg runs.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Builds the package of this program.
pub fn build(lab: &Lab) -> Result<PathBuf> {
    let dir = lab.out(super::DIR);
    let stage = dir.join("cohort.stage");
    files::remove(&stage)?;
    files::make_dir(&stage)?;
    install(lab, &stage)?;
    let log = lab.log("deb-cohort");
    let program = stage.join("usr/bin/cohort");
    let run = |command: &mut Command| {
        run_or_fail(command, &log, "the package cohort did not build", |_| ())
    };
    run(Command::new("strip").arg("--strip-unneeded").arg(&program))?;
    for page in files::with_suffix(&stage.join("usr/share/man/man1"), ".1")? {
        // Without name and time: the same pages give the same package.
        run(Command::new("gzip").arg("-9n").arg(page))?;
    }
    let debian = lab.path("packaging/debian");
    let copy = |name: &str, to: &str, mode| {
        files::write_mode(
            &stage.join(to),
            files::read(&debian.join(name))?.as_bytes(),
            mode,
        )
    };
    copy("copyright", "usr/share/doc/cohort/copyright", 0o644)?;
    for script in SCRIPTS {
        copy(script, &format!("DEBIAN/{script}"), 0o755)?;
    }
    let version = super::version(lab);
    let arch = output(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = arch.trim();
    let control = files::read(&debian.join("control"))?
        .replace("@VERSION@", &version)
        .replace("@ARCH@", arch)
        .replace("@SIZE@", &kilobytes(&stage)?.to_string())
        .replace("@DEPENDS@", &depends(&dir, &program)?);
    files::write(&stage.join("DEBIAN/control"), control.as_bytes())?;
    for old in packages(&dir)? {
        files::remove(&old)?;
    }
    let package = dir.join(format!("cohort_{version}_{arch}.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&stage)
        .arg(&package))?;
    files::remove(&stage)?;
    Ok(package)
}

/// The packages of earlier builds.
fn packages(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = files::with_suffix(dir, ".deb")?;
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("cohort_")
    });
    Ok(found)
}

/// `make install` of this program.
fn install(lab: &Lab, stage: &Path) -> Result<()> {
    let own = std::env::current_exe().context("cannot tell this program's file")?;
    run_or_fail(
        Command::new("sh")
            // A package's files can be read by all, whoever builds it.
            .args(["-c", "umask 022 && exec make install \"$@\"", "sh"])
            .arg("PREFIX=/usr")
            .arg(format!("DESTDIR={}", stage.display()))
            .arg(format!("COHORT={}", own.display()))
            .current_dir(&lab.root)
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL"),
        &lab.log("install"),
        "make install failed",
        |_| (),
    )
}

fn kilobytes(dir: &Path) -> Result<u64> {
    let sizes = files::walk(dir)?.into_iter().map(|file| {
        let size = file.metadata().map(|meta| meta.len().div_ceil(1024));
        size.with_context(|| format!("cannot read {}", file.display()))
    });
    sizes.sum()
}

/// The packages with the libraries that the program is linked with, in the oldest versions that
/// have what it uses.
fn depends(dir: &Path, program: &Path) -> Result<String> {
    // dpkg-shlibdeps works in a directory with a source package's control file.
    let work = dir.join("shlibs");
    files::write(
        &work.join("debian/control"),
        b"Source: cohort\n\nPackage: cohort\nArchitecture: any\n",
    )?;
    let found = output(
        Command::new("dpkg-shlibdeps")
            .arg("-O")
            .arg(program)
            .current_dir(&work),
    )
    .context("`cohort lab setup` installs dpkg-dev")?;
    files::remove(&work)?;
    match found.trim().strip_prefix("shlibs:Depends=") {
        Some(packages) => Ok(packages.into()),
        None => bail!(
            "dpkg-shlibdeps names no package that {} needs",
            program.display()
        ),
    }
}
