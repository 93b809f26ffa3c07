// SPDX-License-Identifier: GPL-2.0-or-later
//! What differs between the machines that QEMU emulates, as data.

pub(crate) mod arm;
pub(crate) mod arm64;
pub mod op;
mod words;
pub(crate) mod x86;

use crate::ram::Layout;
use op::Op;

/// A machine.
#[derive(Debug)]
pub struct Target {
    /// QEMU's name.
    pub name: &'static str,
    /// QEMU's names of the general registers, by their number in instructions.
    pub general: &'static [&'static str],
    /// The program counter.
    pub pc: &'static str,
    /// The stack pointer.
    pub stack: &'static str,
    /// The number of the general register with a mark's argument.
    pub mark_argument: u8,
    /// Other registers that are read.
    pub system: &'static [&'static str],
    /// The register that tells user mode, which of its bits do, and what they are then.
    pub user_mode: (&'static str, u64, u64),
    /// The register that holds the processor's own area of the kernel while user code runs.
    pub kernel_area: Option<&'static str>,
    /// The page tables' format, as models name it.
    pub page_tables: &'static str,
    /// Where the machine has its memory.
    pub layout: Layout,
    /// From here on addresses are the kernel's.
    pub kernel: u64,
    /// What an instruction means.
    pub decode: fn(&[u8]) -> Option<Op>,
}

/// A walk: what it read, and the physical address if it got there.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    /// Addresses and values of the entries, from the root on.
    pub entries: Vec<(u64, u64)>,
    /// The result.
    pub paddr: Option<u64>,
}

/// All of them.
pub const TARGETS: &[Target] = &[x86::X86_64, arm64::AARCH64, arm::ARM];

/// The machine that QEMU calls `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The names of all of them.
pub fn names() -> String {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_whole() {
        for target in TARGETS {
            assert_eq!(find(target.name).map(|t| t.name), Some(target.name));
            assert!(target.general.len() >= 16, "{}", target.name);
            assert!(usize::from(target.mark_argument) < target.general.len());
            // Any machine takes this guest's tables.
            for model in translation::Model::builtin_names() {
                let model = translation::Model::builtin(model).unwrap();
                let taken = model.with_page_tables(target.page_tables);
                assert!(taken.is_ok(), "{}: {:?}", target.name, taken.err());
            }
            // What is read by name must be among what is looked up.
            for name in [Some(target.user_mode.0), target.kernel_area] {
                assert!(name.is_none_or(|name| target.system.contains(&name)));
            }
            let mut names: Vec<_> = target.general.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), target.general.len(), "{}", target.name);
        }
        assert!(find("sparc").is_none());
        assert_eq!(names(), "x86_64, aarch64, arm");
    }
}
