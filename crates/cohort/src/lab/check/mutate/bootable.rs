// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel's files as a guest needs them, and copies of them in which a function does nothing.

use super::image;
use crate::lab::arch::{Arch, Raw};
use crate::lab::host::files;
use crate::lab::kernel::build::Kernel;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A kernel as QEMU takes it, and with its symbols: one file or two.
#[derive(Debug)]
pub struct Bootable {
    pub image: PathBuf,
    pub symbols: PathBuf,
}

impl Bootable {
    /// A kernel that is one file.
    pub fn of(vmlinux: &Path) -> Self {
        Self {
            image: vmlinux.to_path_buf(),
            symbols: vmlinux.to_path_buf(),
        }
    }

    /// What the lab has built.
    pub fn built(kernel: &Kernel) -> Self {
        Self {
            image: kernel.image.clone(),
            symbols: kernel.symbols.clone(),
        }
    }

    /// A copy in the folder `dir`, in which `function` returns `value` at once, or nothing.
    ///
    /// # Errors
    /// The kernel has no such function, or its return would not fit (see [`image::without`]).
    pub fn without(
        &self,
        arch: Arch,
        function: &str,
        value: Option<i32>,
        dir: &Path,
    ) -> Result<Self> {
        let read = |file: &Path| {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let whole = read(&self.symbols)?;
        let symbols = dir.join("vmlinux");
        files::write(&symbols, &image::without(&whole, function, value)?)?;
        let Some(Raw { image: raw, lead }) = &arch.build()?.raw else {
            return Ok(Self::of(&symbols));
        };
        let built = self.symbols.parent().unwrap_or(Path::new("."));
        let mut code = read(&built.join(raw))?;
        let edits = image::edits(&whole, function, value)?;
        image::apply(&mut code, image::address(&whole, "_text")?, &edits)?;
        if let Some((bytes, jump)) = *lead {
            let mut before = vec![0; bytes];
            before[..4].copy_from_slice(&jump.to_le_bytes());
            code.splice(0..0, before);
        }
        let image = dir.join("image");
        files::write(&image, &code)?;
        Ok(Self { image, symbols })
    }

    /// Removes the files of a copy.
    pub fn remove(self) -> Result<()> {
        if self.image != self.symbols {
            files::remove(&self.image)?;
        }
        files::remove(&self.symbols)
    }
}
