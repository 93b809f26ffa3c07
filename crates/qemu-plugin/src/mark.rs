// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks: no-operation instructions by which a program in the guest reports where it is.
//! `guest/workloads/lib/mark.h` has the guest's side. Those for BabelFish's TLBs come from the kernel
//! alone: its `include/uapi/linux/cohort_babelfish.h` has them.
//!
//! Each architecture has its own encoding of a mark's code and a register for its argument.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Counting begins; the argument names the region.
    Start,
    /// Counting ends.
    Stop,
    /// A request begins on this core; the argument names it.
    Begin,
    /// The request ends.
    End,
    /// The model follows the guest from here on without counting, to fill caches and TLBs.
    Warm,
    /// What follows belongs to the step that the argument names.
    Step,
    /// The current process belongs to the cohort that the argument names.
    Cohort,
    /// From the kernel: what this core runs, as the physical address of a `struct cohort_bf_space`, 0
    /// for nothing that shares.
    Space,
    /// From the kernel: this core drops shared entries of the argument's pages.
    SharedPages,
    /// From the kernel: this core drops all shared entries of the CCID.
    Ccid,
}

const MARKS: &[(u16, Mark)] = &[
    (1, Mark::Start),
    (2, Mark::Stop),
    (3, Mark::Begin),
    (4, Mark::End),
    (5, Mark::Cohort),
    (6, Mark::Warm),
    (7, Mark::Step),
    (8, Mark::Space),
    (9, Mark::SharedPages),
    (10, Mark::Ccid),
];

/// Codes below this are marks.
pub const CODES: u32 = 16;

impl Mark {
    pub fn from_code(code: u16) -> Option<Self> {
        MARKS.iter().find(|mark| mark.0 == code).map(|mark| mark.1)
    }

    /// True if a program may not use it: it counts only in the kernel's half of the addresses.
    pub fn is_of_the_kernel(self) -> bool {
        matches!(self, Mark::Space | Mark::SharedPages | Mark::Ccid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_meaning() {
        for &(code, mark) in MARKS {
            assert_eq!(Mark::from_code(code), Some(mark));
        }
        assert_eq!(Mark::from_code(0), None);
        assert_eq!(Mark::from_code(15), None);
    }

    #[test]
    fn the_header_for_guests_has_the_same_codes() {
        let header = include_str!("../../../guest/workloads/lib/mark.h");
        for (name, mark) in [
            ("START", Mark::Start),
            ("STOP", Mark::Stop),
            ("BEGIN", Mark::Begin),
            ("END", Mark::End),
            ("COHORT", Mark::Cohort),
            ("WARM", Mark::Warm),
            ("STEP", Mark::Step),
        ] {
            let line = header
                .lines()
                .find_map(|line| line.strip_prefix(&format!("#define MARK_{name} ")))
                .unwrap_or_else(|| panic!("mark.h has no MARK_{name}"));
            let code = line.trim().parse().unwrap();
            assert_eq!(Mark::from_code(code), Some(mark), "{name}");
        }
        assert!(header.contains("0x434f0000"));
    }
}
