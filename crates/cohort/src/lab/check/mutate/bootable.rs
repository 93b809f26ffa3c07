// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel's files as a guest needs them, and copies of them in which a function does nothing.

use super::image;
use crate::lab::arch::{Arch, Raw};
use crate::lab::host::files;
use crate::lab::kernel::build::Kernel;
use anyhow::{Context, Result, bail};
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

    /// Somebody's own kernel, of which `vmlinux` has the symbols. Where that cannot be booted, the image
    /// that the kernel's build has made with it is.
    ///
    /// # Errors
    /// One of the two is not there.
    pub fn given(arch: Arch, vmlinux: &Path) -> Result<Self> {
        if !vmlinux.is_file() {
            bail!("there is no kernel image {}", vmlinux.display());
        }
        let build = arch.build()?;
        if build.raw.is_none() {
            return Ok(Self::of(vmlinux));
        }
        let image = vmlinux.with_file_name(build.image);
        if !image.is_file() {
            bail!(
                "there is no {}, which {arch} boots: name vmlinux in the directory that it was built in",
                image.display()
            );
        }
        Ok(Self {
            image,
            symbols: vmlinux.to_path_buf(),
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::arch::LAB;

    #[test]
    fn a_kernel_of_ones_own_is_vmlinux_and_what_boots_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let vmlinux = dir.path().join("vmlinux");
        let given = |arch: &str| Bootable::given(arch.parse().unwrap(), &vmlinux);
        let refused = given(LAB.name).unwrap_err().to_string();
        assert!(refused.contains("no kernel image"), "{refused}");
        files::write(&vmlinux, b"").unwrap();
        assert_eq!(given(LAB.name).unwrap().image, vmlinux);
        for (arch, image) in [
            ("arm64", "arch/arm64/boot/Image"),
            ("armv7", "arch/arm/boot/zImage"),
        ] {
            let refused = given(arch).unwrap_err().to_string();
            assert!(refused.contains(image), "{refused}");
            files::write(&dir.path().join(image), b"").unwrap();
            let found = given(arch).unwrap();
            assert_eq!(found.image, dir.path().join(image));
            assert_eq!(found.symbols, vmlinux);
        }
    }
}
