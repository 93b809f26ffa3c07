// SPDX-License-Identifier: GPL-2.0-or-later
//! The lab: builds the kernels, boots them under QEMU, tests and measures them.
//!
//! Everything that it makes is below `out/`, is there whole or not at all, and is reused as
//! long as what it was made from is the same.

mod arch;
mod check;
mod cli;
mod experiment;
mod guest;
mod host;
mod kernel;
mod trace;

pub use cli::{Args, main};

use anyhow::{Context, Result, bail};
use kernel::source;
use std::path::{Path, PathBuf};

/// A checkout of the project, and where the machine keeps the kernel's source.
#[derive(Debug, Clone)]
pub struct Lab {
    /// The checkout.
    pub root: PathBuf,
    /// The kernel's packed source.
    pub tarball: PathBuf,
}

impl Lab {
    /// The lab of the checkout `root`, or of the one that is found.
    pub fn find(root: Option<PathBuf>) -> Result<Self> {
        let root = match root {
            Some(root) => root,
            None => {
                let here = std::env::current_dir().context("cannot tell the working directory")?;
                let program = std::env::current_exe().unwrap_or_default();
                here.ancestors()
                    .chain(program.ancestors())
                    .find(|dir| is_checkout(dir))
                    .map(Path::to_path_buf)
                    .context(
                        "no checkout of Cohort here: run this in one, or name it with --root",
                    )?
            }
        };
        if !is_checkout(&root) {
            bail!(
                "{} is no checkout of Cohort: it has no kernel/config",
                root.display()
            );
        }
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot read {}", root.display()))?;
        // make takes a name with a space for two, and mmdebstrap one with a colon.
        if root.to_string_lossy().contains([' ', ':', ',']) {
            bail!(
                "the checkout's path {} holds a space, a colon or a comma, which kernel builds do \
                 not take: move it",
                root.display()
            );
        }
        Ok(Lab {
            root,
            tarball: PathBuf::from(source::TARBALL),
        })
    }

    /// A path in the checkout.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A path below `out/`.
    pub fn out(&self, path: &str) -> PathBuf {
        self.root.join("out").join(path)
    }

    /// The log of a step.
    pub fn log(&self, name: &str) -> PathBuf {
        self.out(&format!("logs/{name}.log"))
    }

    /// An empty checkout for a test, which goes with the directory.
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
    fn a_directory_that_is_no_checkout_is_refused_by_name() {
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
