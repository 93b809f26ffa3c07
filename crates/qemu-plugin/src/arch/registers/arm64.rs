// SPDX-License-Identifier: GPL-2.0-or-later
//! AArch64's, by yaxpeax-arm.
//!
//! The library gives operands, not what is done with them. By the rule of the architecture the first is
//! written and the others are read, but in stores, compares and branches, which read all. Where an
//! instruction also reads what it writes (MOVK, accumulating vector instructions), or is an atomic
//! operation on memory, its registers are taken to be read and written: more dependent than they may
//! be, never less. Addressing with write-back does not write the base for the model. V30 and V31
//! are one register.

use super::{Bytes, UNKNOWN};
use translation::Op;
use translation::code::Registers;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Operand};

const LINK: Registers = 1 << 30;
const SP: u16 = 31;
const FLAGS: Registers = 1 << 63;

pub fn decode(block: &[Bytes]) -> Vec<Op> {
    let decoder = InstDecoder::default();
    let one = |bytes: &Bytes| {
        let decoded = decoder.decode(&mut U8Reader::new(bytes.get()));
        decoded.map_or(UNKNOWN, |instruction| op(&instruction))
    };
    block.iter().map(one).collect()
}

/// A general register; number 31 is the zero register.
fn general(number: u16) -> Registers {
    match number {
        0..=30 => 1 << number,
        _ => 0,
    }
}

/// The same; number 31 is the stack pointer.
fn or_sp(number: u16) -> Registers {
    1 << number.min(SP)
}

fn vector(first: u16, count: u8) -> Registers {
    (0..u16::from(count))
        .map(|number| 1 << (32 + ((first + number) % 32).min(30)))
        .fold(0, |set, bit: Registers| set | bit)
}

/// Registers of an operand, and those of an address.
fn registers(operand: &Operand) -> (Registers, Registers) {
    match *operand {
        Operand::Register(_, number) | Operand::RegShift(_, _, _, number) => (general(number), 0),
        Operand::RegisterPair(_, number) => (general(number) | general(number + 1), 0),
        Operand::RegisterOrSP(_, number) => (or_sp(number), 0),
        Operand::SIMDRegister(_, number)
        | Operand::SIMDRegisterElements(_, number, _)
        | Operand::SIMDRegisterElementsLane(_, number, _, _)
        | Operand::SIMDRegisterElementsMultipleLane(_, number, _, _, _) => (vector(number, 1), 0),
        Operand::SIMDRegisterGroup(_, first, _, count)
        | Operand::SIMDRegisterGroupLane(first, _, count, _) => (vector(first, count), 0),
        Operand::RegRegOffset(base, index, ..) => (0, or_sp(base) | general(index)),
        Operand::RegPreIndex(base, ..) | Operand::RegPostIndex(base, _) => (0, or_sp(base)),
        Operand::RegPostIndexReg(base, index) => (0, or_sp(base) | general(index)),
        _ => (0, 0),
    }
}

/// Instructions that write no register that they name.
const READ_ALL: &[&str] = &[
    "CBZ", "CBNZ", "TBZ", "TBNZ", "B", "Bcc", "BCcc", "BL", "MSR", "SYS", "CCMP", "CCMN", "FCMP",
    "FCMPE", "FCCMP", "FCCMPE", "PRFM", "PRFUM", "RMIF", "SETF8", "SETF16",
];
/// Beginnings of the names of those that read what they write.
const KEEP: &[&str] = &[
    "MOVK", "BFM", "INS", "MLA", "MLS", "SMLA", "SMLS", "UMLA", "UMLS", "SQDML", "SQRDML", "FML",
    "FCMLA", "SABA", "UABA", "SADALP", "UADALP", "SRI", "SLI", "SSRA", "USRA", "SRSRA", "URSRA",
    "BSL", "BIT", "BIF", "TBX", "SHA", "AES", "SM3", "SM4", "UDOT", "SDOT", "SUQADD", "USQADD",
    "ORR", "BIC",
];
/// Beginnings of the names of atomic operations on memory.
const ATOMIC: &[&str] = &[
    "CAS", "SWP", "LDADD", "LDCLR", "LDEOR", "LDSET", "LDSMAX", "LDSMIN", "LDUMAX", "LDUMIN",
];

fn op(instruction: &Instruction) -> Op {
    // With the arguments that some have, as `LDADD(1)`.
    let name = format!("{:?}", instruction.opcode);
    let name = name.split('(').next().unwrap_or_default();
    let begins = |list: &[&str]| list.iter().any(|word| name.starts_with(word));
    let operands = instruction.operands.map(|operand| registers(&operand));
    let is_vector = operands[0].0 & !(u64::from(u32::MAX)) != 0;
    let all = operands.iter().fold(0, |set, part| set | part.0);
    let others = operands[1..].iter().fold(0, |set, part| set | part.0);
    let mut op = Op {
        address: operands.iter().fold(0, |set, part| set | part.1),
        ..Op::default()
    };
    let prefetch = name.starts_with("PRF");
    let accesses = op.address != 0 && !prefetch;
    if accesses && begins(ATOMIC) {
        (op.reads, op.writes) = (all, all);
        (op.loads, op.stores) = (true, true);
    } else if accesses && name.starts_with("ST") {
        op.stores = true;
        let exclusive = name.starts_with("STX") || name.starts_with("STLX");
        (op.reads, op.writes) = match exclusive {
            true => (others, operands[0].0),
            false => (all, 0),
        };
    } else if accesses {
        op.loads = true;
        op.writes = all;
        // One lane: the others stay.
        let lane = matches!(instruction.operands[0], Operand::SIMDRegisterGroupLane(..));
        op.reads = if lane { all } else { 0 };
    } else if prefetch {
        op.address = 0;
    } else if READ_ALL.contains(&name) || begins(&["BR", "BLR", "RET"]) {
        op.reads = all;
    } else {
        // From an address beside the program counter.
        op.loads = name.starts_with("LD");
        op.writes = operands[0].0;
        let keeps = begins(KEEP) && (is_vector || name == "MOVK" || name == "BFM");
        let upper_half = is_vector && name.ends_with('2');
        op.reads = if keeps || upper_half { all } else { others };
    }
    if matches!(name, "BL" | "BLR") {
        op.writes |= LINK;
    }
    if name == "RET" {
        op.reads |= if all == 0 { LINK } else { 0 };
    }
    let sets = [
        "ADCS", "SBCS", "ANDS", "BICS", "ADDS", "SUBS", "SUBPS", "CCMP", "CCMN", "FCMP", "FCMPE",
        "FCCMP", "FCCMPE", "SETF8", "SETF16", "RMIF", "MSR",
    ];
    let uses = [
        "ADC", "ADCS", "SBC", "SBCS", "CSEL", "CSNEG", "CSINC", "CSINV", "CCMP", "CCMN", "FCSEL",
        "FCCMP", "FCCMPE", "Bcc", "BCcc", "RMIF", "MRS",
    ];
    if sets.contains(&name) {
        op.writes |= FLAGS;
    }
    if uses.contains(&name) {
        op.reads |= FLAGS;
    }
    op
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_words, sets};
    use super::decode;

    #[test]
    fn instructions_read_and_write_what_the_manual_says() {
        let none: &[u32] = &[];
        let flags = 63;
        check_words(
            decode,
            &[
                // ldr x0, [x1]
                (0xf940_0020_u32, &[1][..], none, &[0][..], true, false),
                // ldr x0, [x1], #8: the base is not written for the model
                (0xf840_8420, &[1], none, &[0], true, false),
                // ldr x0, [x1, x2, lsl #3]
                (0xf862_7820, &[1, 2], none, &[0], true, false),
                // ldp x29, x30, [sp], #16
                (0xa8c1_7bfd, &[31], none, &[29, 30], true, false),
                // str x0, [x1, #8]
                (0xf900_0420, &[1], &[0], none, false, true),
                // stp x29, x30, [sp, #-16]!
                (0xa9bf_7bfd, &[31], &[29, 30], none, false, true),
                // str xzr, [x0]
                (0xf900_001f, &[0], none, none, false, true),
                // add x0, x1, x2
                (0x8b02_0020, none, &[1, 2], &[0], false, false),
                // add x0, sp, #16
                (0x9100_43e0, none, &[31], &[0], false, false),
                // subs xzr, x0, x1, that is cmp x0, x1
                (0xeb01_001f, none, &[0, 1], &[flags], false, false),
                // b.eq
                (0x5400_0040, none, &[flags], none, false, false),
                // cbz x3
                (0xb400_0043, none, &[3], none, false, false),
                // csel x0, x1, x2, eq
                (0x9a82_0020, none, &[1, 2, flags], &[0], false, false),
                // movk x0, #1, lsl #16; movz x0, #1
                (0xf2a0_0020, none, &[0], &[0], false, false),
                (0xd280_0020, none, none, &[0], false, false),
                // bl; ret
                (0x9400_0001, none, none, &[30], false, false),
                (0xd65f_03c0, none, &[30], none, false, false),
                // madd x0, x1, x2, x3
                (0x9b02_0c20, none, &[1, 2, 3], &[0], false, false),
                // stxr w2, x0, [x1]
                (0xc802_7c20, &[1], &[0], &[2], false, true),
                // ldadd x0, x2, [x1]: all of both
                (0xf820_0022, &[1], &[0, 2], &[0, 2], true, true),
                // ldr q1, [x0]; fadd v0.4s, v1.4s, v2.4s
                (0x3dc0_0001, &[0], none, &[33], true, false),
                (0x4e22_d420, none, &[33, 34], &[32], false, false),
                // fmla v0.4s, v1.4s, v2.4s adds to v0
                (0x4e22_cc20, none, &[32, 33, 34], &[32], false, false),
                // nop
                (0xd503_201f, none, none, none, false, false),
            ],
        );
    }

    #[test]
    fn what_is_no_instruction_waits_for_all() {
        assert_eq!(sets(decode, &[0xff; 4]).2.len(), 64);
    }
}
