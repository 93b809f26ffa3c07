// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks: instructions that do nothing, by which a program in the guest tells the model where it
//! is. `guest/workloads/mark.h` is the other side.
//!
//! On x86-64 a mark is the 7-byte `nopl 0x434f00NN(%rax)`: a no-operation on every processor, from
//! user space too, which no compiler emits with that displacement. NN is the mark's code and RAX
//! holds its argument. On ARM it is a hint that the architecture leaves unallocated and says to be
//! a no-operation; R0 or X0 holds the argument.

/// A mark's meaning.
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
    /// The model follows from here on, without counting yet: caches and TLBs fill.
    Warm,
    /// What follows belongs to the step that the argument names.
    Step,
    /// The current process belongs to the cohort that the argument names.
    Cohort,
}

/// Codes and meanings.
const MARKS: &[(u16, Mark)] = &[
    (1, Mark::Start),
    (2, Mark::Stop),
    (3, Mark::Begin),
    (4, Mark::End),
    (5, Mark::Cohort),
    (6, Mark::Warm),
    (7, Mark::Step),
];

/// "CO", in the upper half of the displacement.
const X86_MAGIC: u32 = 0x434f;
/// HINT #0x60 and above.
const A64_HINT: u32 = 0xd503_201f | 0x60 << 5;
/// HINT #0x80 and above, executed always.
const A32_HINT: u32 = 0xe320_f080;
/// Codes below this are marks.
const CODES: u32 = 16;

impl Mark {
    /// The mark with this code, if there is one.
    pub fn from_code(code: u16) -> Option<Self> {
        MARKS.iter().find(|mark| mark.0 == code).map(|mark| mark.1)
    }
}

/// The code in an x86 mark's displacement.
pub fn from_x86(displacement: u32) -> Option<u16> {
    (displacement >> 16 == X86_MAGIC && displacement & 0xffff < CODES)
        .then_some(displacement as u16)
}

/// The code of an AArch64 mark.
pub fn from_a64(word: u32) -> Option<u16> {
    let code = word.wrapping_sub(A64_HINT) >> 5;
    (word & 0x1f == 0x1f && code < CODES).then_some(code as u16)
}

/// The code of an ARMv7 mark.
pub fn from_a32(word: u32) -> Option<u16> {
    let code = word.wrapping_sub(A32_HINT);
    (code < CODES).then_some(code as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{self, Op};

    #[test]
    fn marks_are_no_operations_with_a_number() {
        for &(code, mark) in MARKS {
            assert_eq!(Mark::from_code(code), Some(mark));
            let x86 = [0x0f, 0x1f, 0x80, code as u8, 0, 0x4f, 0x43];
            assert_eq!(decode::x86(&x86), Some(Op::Mark(code)));
            let a64 = A64_HINT | u32::from(code) << 5;
            assert_eq!(decode::a64(&a64.to_le_bytes()), Some(Op::Mark(code)));
            let a32 = A32_HINT | u32::from(code);
            assert_eq!(decode::a32(&a32.to_le_bytes()), Some(Op::Mark(code)));
        }
        assert_eq!(Mark::from_code(0), None);
        assert_eq!(Mark::from_code(15), None);
    }

    #[test]
    fn other_no_operations_are_no_marks() {
        // A compiler's long nop, another displacement, a code that is too large, yield, bti, dbg.
        assert_eq!(from_x86(0), None);
        assert_eq!(from_x86(0x434e_0001), None);
        assert_eq!(from_x86(0x434f_0010), None);
        assert_eq!(from_a64(0xd503_203f), None);
        assert_eq!(from_a64(0xd503_245f), None);
        assert_eq!(from_a32(0xe320_f0f5), None);
        assert_eq!(from_a32(0xe320_f000), None);
    }

    #[test]
    fn the_header_for_guests_has_the_same_codes() {
        let header = include_str!("../../../guest/workloads/mark.h");
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
