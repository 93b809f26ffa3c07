// SPDX-License-Identifier: GPL-2.0-or-later
//! All architectures, one line per file.

use super::{Arch, arm, arm64, x86};
use anyhow::{Context, Result};

static ALL: &[&Arch] = &[&x86::ARCH, &arm64::ARCH, &arm::ARCH];

/// The architecture of QEMU's target `name`.
pub fn find(name: &str) -> Result<&'static Arch> {
    let found = ALL.iter().copied().find(|arch| arch.name == name);
    found.with_context(|| {
        let names: Vec<_> = ALL.iter().map(|arch| arch.name).collect();
        format!(
            "QEMU's target {name} is not supported; {} are",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_is_complete() {
        for arch in ALL {
            assert_eq!(find(arch.name).unwrap().name, arch.name);
            assert!(arch.general.len() >= 16, "{}", arch.name);
            assert!(usize::from(arch.mark_argument) < arch.general.len());
            // Every model can walk this guest's tables.
            for model in translation::Model::builtin_names() {
                let model = translation::Model::builtin(model).unwrap();
                let taken = model.with_page_tables(arch.page_tables);
                assert!(taken.is_ok(), "{}: {:?}", arch.name, taken.err());
            }
            // Registers that are read by name must be among those looked up.
            assert!(arch.system.contains(&arch.user_mode.register));
            if let Some(linux) = &arch.linux {
                assert!(arch.system.contains(&linux.area));
                assert!(arch.system.contains(&linux.kernel_area));
                assert!(arch.word == 4 || arch.word == 8, "{}", linux.current);
            }
            let mut names: Vec<_> = arch.general.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), arch.general.len(), "{}", arch.name);
        }
        let error = find("sparc").unwrap_err().to_string();
        assert!(error.contains("x86_64, aarch64, arm"), "{error}");
    }
}
