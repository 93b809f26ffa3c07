// SPDX-License-Identifier: GPL-2.0-or-later
//! ARMv7's, by yaxpeax-arm, as [`super::arm64`] does.
//!
//! A block with an instruction of two bytes, or at an address that four does not divide, is Thumb;
//! one without is taken for ARM, which is wrong for Thumb code of long instructions only. A
//! conditional instruction also reads what it writes. Coprocessor and vector instructions wait for
//! all.

use super::{Bytes, UNKNOWN};
use translation::Op;
use translation::code::Registers;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv7::{
    ConditionCode, InstDecoder, Instruction, Opcode, Operand, Reg, RegShift, RegShiftStyle,
};

const SP: Registers = 1 << 13;
const LINK: Registers = 1 << 14;
const PC: Registers = 1 << 15;
const FLAGS: Registers = 1 << 63;

pub fn decode(block: &[Bytes]) -> Vec<Op> {
    let thumb = |bytes: &Bytes| bytes.size == 2 || bytes.vaddr % 4 != 0;
    let thumb = block.iter().any(thumb);
    let decoder = match thumb {
        true => InstDecoder::default_thumb(),
        false => InstDecoder::default(),
    };
    let one = |bytes: &Bytes| {
        if !thumb && pair_past_pc(bytes.get()) {
            return UNKNOWN;
        }
        let decoded = decoder.decode(&mut U8Reader::new(bytes.get()));
        decoded.map_or(UNKNOWN, |instruction| op(&instruction))
    };
    block.iter().map(one).collect()
}

/// LDRD or STRD whose first register is PC, which has no successor: no instruction, but Thumb code
/// that is taken for ARM may look like it. The decoder panics at it.
fn pair_past_pc(bytes: &[u8]) -> bool {
    let word = bytes.try_into().map_or(0, u32::from_le_bytes);
    word & 0x0e10_f0d0 == 0x0000_f0d0
}

fn bit(register: Reg) -> Registers {
    // The program counter is known.
    (1 << register.number()) & !PC
}

fn shifted(shift: RegShift) -> Registers {
    match shift.into_shift() {
        RegShiftStyle::RegImm(shift) => bit(shift.shiftee()),
        RegShiftStyle::RegReg(shift) => bit(shift.shiftee()) | bit(shift.shifter()),
    }
}

/// Registers of an operand, and those of an address.
fn registers(operand: &Operand) -> (Registers, Registers) {
    match *operand {
        Operand::Reg(register) => (bit(register), 0),
        // The base of a multiple load or store.
        Operand::RegWBack(register, _) => (0, bit(register)),
        Operand::RegList(list) => (Registers::from(list) & !PC, 0),
        Operand::RegShift(shift) => (shifted(shift), 0),
        Operand::RegDeref(base)
        | Operand::RegDerefPostindexOffset(base, ..)
        | Operand::RegDerefPreindexOffset(base, ..) => (0, bit(base)),
        Operand::RegDerefPostindexRegShift(base, shift, ..)
        | Operand::RegDerefPreindexRegShift(base, shift, ..) => (0, bit(base) | shifted(shift)),
        Operand::RegDerefPostindexReg(base, index, ..)
        | Operand::RegDerefPreindexReg(base, index, ..) => (0, bit(base) | bit(index)),
        _ => (0, 0),
    }
}

fn op(instruction: &Instruction) -> Op {
    let name = format!("{:?}", instruction.opcode);
    let name = name.split('(').next().unwrap_or_default();
    let operands = instruction.operands.map(|operand| registers(&operand));
    let all = operands.iter().fold(0, |set, part| set | part.0);
    let others = operands[1..].iter().fold(0, |set, part| set | part.0);
    let mut op = Op {
        address: operands.iter().fold(0, |set, part| set | part.1),
        ..Op::default()
    };
    let long = matches!(name, "UMULL" | "UMLAL" | "SMULL" | "SMLAL" | "UMAAL");
    match instruction.opcode {
        Opcode::PUSH => (op.address, op.reads, op.stores) = (SP, all, true),
        Opcode::POP => (op.address, op.writes, op.loads) = (SP, all, true),
        _ if ["MCR", "MRC", "CDP", "LDC", "STC", "SRS", "RFE", "Invalid"]
            .iter()
            .any(|word| name.starts_with(word)) =>
        {
            return UNKNOWN;
        }
        _ if name.starts_with("SWP") => {
            (op.reads, op.writes) = (all, all);
            (op.loads, op.stores) = (true, true);
        }
        _ if op.address != 0 && name.starts_with("ST") => {
            op.stores = true;
            let exclusive = name.starts_with("STREX") || name.starts_with("STLEX");
            (op.reads, op.writes) = match exclusive {
                true => (others, operands[0].0),
                false => (all, 0),
            };
        }
        _ if op.address != 0 && name.starts_with("LD") => (op.writes, op.loads) = (all, true),
        _ if matches!(name, "PLD" | "PLI") => op.address = 0,
        _ if matches!(
            name,
            "TST"
                | "TEQ"
                | "CMP"
                | "CMN"
                | "B"
                | "BX"
                | "BXJ"
                | "CBZ"
                | "CBNZ"
                | "MSR"
                | "TBB"
                | "TBH"
        ) =>
        {
            op.reads = all;
        }
        Opcode::BL | Opcode::BLX => (op.reads, op.writes) = (all, LINK),
        // Both halves of the product, which some add to.
        _ if long => {
            (op.reads, op.writes) = (all, operands[0].0 | operands[1].0);
        }
        _ => {
            op.writes = operands[0].0;
            op.reads = match name {
                "MOVT" | "BFI" | "BFC" => all,
                // With two operands the first is one of the sum, too.
                _ if instruction.thumb()
                    && operands[2] == (0, 0)
                    && !matches!(name, "MOV" | "MVN") =>
                {
                    all
                }
                _ => others,
            };
        }
    }
    let compares = matches!(name, "TST" | "TEQ" | "CMP" | "CMN");
    if instruction.s() || compares || name == "MSR" {
        op.writes |= FLAGS;
    }
    let conditional = instruction.condition != ConditionCode::AL;
    if conditional || matches!(name, "ADC" | "SBC" | "RSC" | "RRX" | "SEL" | "MRS") {
        op.reads |= FLAGS;
    }
    if conditional {
        op.reads |= op.writes & !FLAGS;
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
                // ldr r0, [r1, #4]
                (0xe591_0004_u32, &[1][..], none, &[0][..], true, false),
                // ldr r0, [r1, r2, lsl #2]
                (0xe791_0102, &[1, 2], none, &[0], true, false),
                // str r0, [r1], #4
                (0xe481_0004, &[1], &[0], none, false, true),
                // add r0, r1, r2, lsl r3
                (0xe081_0312, none, &[1, 2, 3], &[0], false, false),
                // adds r0, r1, #1
                (0xe291_0001, none, &[1], &[0, flags], false, false),
                // cmp r0, r1; beq
                (0xe150_0001, none, &[0, 1], &[flags], false, false),
                (0x0a00_0000, none, &[flags], none, false, false),
                // moveq r0, r1
                (0x01a0_0001, none, &[0, 1, flags], &[0], false, false),
                // push {r4, lr}; pop {r4, pc}
                (0xe92d_4010, &[13], &[4, 14], none, false, true),
                (0xe8bd_8010, &[13], none, &[4], true, false),
                // ldm r0, {r1, r2}
                (0xe890_0006, &[0], none, &[1, 2], true, false),
                // bl
                (0xeb00_0000, none, none, &[14], false, false),
                // umull r0, r1, r2, r3: also reads what it writes, to be safe
                (0xe081_0392, none, &[0, 1, 2, 3], &[0, 1], false, false),
            ],
        );
    }

    #[test]
    fn what_is_no_instruction_is_unknown() {
        // ldrd pc, [r2], -r3; strd pc, [r6], #-0x94
        for word in [0x0002_f0d3u32, 0x6146_f9f4] {
            assert_eq!(word & 0x0e10_f0d0, 0xf0d0);
            assert!(sets(decode, &word.to_le_bytes()).0.len() > 13);
        }
    }

    #[test]
    fn thumb_is_known_by_its_size() {
        // ldr r0, [r1]; adds r0, r1, r2
        assert_eq!(
            sets(decode, &[0x08, 0x68]),
            (vec![1], vec![], vec![0], true, false)
        );
        assert_eq!(sets(decode, &[0x88, 0x18]).1, [1, 2]);
    }
}
