// SPDX-License-Identifier: GPL-2.0-or-later
//! The lab: builds the kernels, boots them under QEMU, tests and measures them.
//!
//! All output is below `out/`. A file or directory there is complete or absent, and is reused
//! while the sources that it was made from are the same.

mod arch;
mod check;
mod cli;
mod experiment;
mod guest;
mod host;
mod kernel;
mod package;
mod profile;
mod send;
mod trace;

pub use cli::{Args, main};

use anyhow::{Context, Result, bail};
use kernel::source;
use std::path::{Path, PathBuf};

/// What a program that was installed says without one.
const NO_CHECKOUT: &str = "no checkout of Cohort is around this directory or this program, and the \
     lab needs its kernel patches, guest programs and experiments: run this in one, or name it with \
     --root DIR. Without a checkout there are `cohort run`, `cohort scan`, `cohort top`, \
     `cohort lab replay` and `cohort lab sweep`";

/// A checkout of the project and the kernel's packed source.
#[derive(Debug, Clone)]
pub struct Lab {
    pub root: PathBuf,
    /// The tarball of Debian's `linux-source` package.
    pub tarball: PathBuf,
}

impl Lab {
    /// The lab of the checkout `root`. Without one: of the checkout around the working directory,
    /// else around this program.
    pub fn find(root: Option<PathBuf>) -> Result<Self> {
        let root = match root {
            Some(root) => root,
            None => {
                let here = std::env::current_dir().context("cannot read the working directory")?;
                let program = std::env::current_exe().unwrap_or_default();
                here.ancestors()
                    .chain(program.ancestors())
                    .find(|dir| is_checkout(dir))
                    .map(Path::to_path_buf)
                    .context(NO_CHECKOUT)?
            }
        };
        if !is_checkout(&root) {
            bail!(
                "{} is not a checkout of Cohort: it has no kernel/config",
                root.display()
            );
        }
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot read {}", root.display()))?;
        // make splits names at spaces, mmdebstrap at colons, QEMU's options at commas.
        if root.to_string_lossy().contains([' ', ':', ',']) {
            bail!(
                "the checkout's path {} has a space, a colon or a comma, which breaks kernel builds: \
                 move it",
                root.display()
            );
        }
        Ok(Lab {
            root,
            tarball: PathBuf::from(source::TARBALL),
        })
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn out(&self, path: &str) -> PathBuf {
        self.root.join("out").join(path)
    }

    /// `out/logs/NAME.log`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.out(&format!("logs/{name}.log"))
    }

    /// An empty checkout for a test, removed with the directory.
    #[cfg(test)]
    fn fake() -> (tempfile::TempDir, Self) {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab {
            root: dir.path().to_path_buf(),
            tarball: PathBuf::from("none"),
        };
        (dir, lab)
    }
}

fn is_checkout(dir: &Path) -> bool {
    dir.join("kernel/config").is_dir() && dir.join("Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_a_checkout_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = Lab::find(Some(dir.path().to_path_buf())).unwrap_err();
        assert!(error.to_string().contains("kernel/config"), "{error}");
    }

    #[test]
    fn a_path_that_kernel_builds_do_not_take_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("my checkout");
        host::files::write(&root.join("Cargo.toml"), b"").unwrap();
        host::files::make_dir(&root.join("kernel/config")).unwrap();
        let error = Lab::find(Some(root)).unwrap_err().to_string();
        assert!(error.contains("space"), "{error}");
    }
}
