// SPDX-License-Identifier: GPL-2.0-or-later
//! x86-64's, by iced-x86.
//!
//! - Reads and writes of all operands, those that are not written in the instruction among them, are
//!   the library's. A register that is written in part (8 or 16 bits), or only if a condition
//!   holds, is read too.
//! - `push`, `pop`, `call` and `ret` do not write RSP for the model, and string instructions not
//!   RSI, RDI and RCX: processors follow the first in the front end, and the others do not need
//!   what is loaded. So the rounds of a repeated instruction overlap.
//! - `xchg`, `xadd` and `cmpxchg` write both operands when all that they read is there.
//! - Flags are one register, x87 and MMX another, all other registers (control, debug, bounds) a
//!   third; segments and RIP are taken to be known.

use super::{Bytes, UNKNOWN};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic,
    OpAccess, OpKind, Register,
};
use translation::Op;
use translation::code::Registers;

const RCX: Registers = 1 << 1;
const RSP: Registers = 1 << 4;
const RSI: Registers = 1 << 6;
const RDI: Registers = 1 << 7;
const X87: Registers = 1 << 56;
const OTHER: Registers = 1 << 57;
const FLAGS: Registers = 1 << 63;

pub fn decode(block: &[Bytes]) -> Vec<Op> {
    let mut factory = InstructionInfoFactory::new();
    let one = |bytes: &Bytes| {
        let mut decoder = Decoder::with_ip(64, bytes.get(), bytes.vaddr, DecoderOptions::NONE);
        let instruction = decoder.decode();
        match instruction.is_invalid() {
            true => UNKNOWN,
            false => op(&instruction, &mut factory),
        }
    };
    block.iter().map(one).collect()
}

fn bit(register: Register) -> Registers {
    let full = register.full_register();
    let number = full.number() as u32;
    if full.is_gpr() {
        1 << number
    } else if full.is_vector_register() {
        1 << (16 + number)
    } else if full.is_k() {
        1 << (48 + number)
    } else if full.is_st() || full.is_mm() {
        X87
    } else if full.is_segment_register() || full.is_ip() || full == Register::None {
        0
    } else {
        OTHER
    }
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite};
    matches!(
        access,
        Read | CondRead | ReadWrite | ReadCondWrite | CondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

fn op(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Op {
    let info = factory.info_options(instruction, InstructionInfoOptions::NONE);
    let mut op = Op::default();
    for memory in info.used_memory() {
        let access = memory.access();
        let (loads, stores) = (
            reads(access) && access != OpAccess::CondWrite,
            writes(access),
        );
        if loads || stores {
            op.address |= bit(memory.base()) | bit(memory.index());
        }
        op.loads |= loads;
        op.stores |= stores;
    }
    for used in info.used_registers() {
        let register = used.register();
        let set = bit(register);
        let part = register.is_gpr8() || register.is_gpr16();
        if reads(used.access()) || (writes(used.access()) && part) {
            op.reads |= set;
        }
        if writes(used.access()) {
            op.writes |= set;
        }
    }
    // What is only an address is not data; what is an operand beside that is.
    op.reads &= !op.address;
    for number in 0..instruction.op_count() {
        let register = instruction.op_kind(number) == OpKind::Register;
        if register && reads(info.op_access(number)) {
            op.reads |= bit(instruction.op_register(number));
        }
    }
    if instruction.rflags_read() != 0 {
        op.reads |= FLAGS;
    }
    if instruction.rflags_modified() != 0 {
        op.writes |= FLAGS;
    }
    if instruction.is_string_instruction() {
        op.writes &= !(RCX | RSI | RDI);
    }
    use Mnemonic::{Call, Pop, Popfq, Push, Pushfq, Ret};
    let folded = matches!(
        instruction.mnemonic(),
        Call | Pop | Popfq | Push | Pushfq | Ret
    );
    if folded && instruction.op0_register() != Register::RSP {
        op.writes &= !RSP;
    }
    op
}

#[cfg(test)]
mod tests {
    use super::super::tests::sets;
    use super::decode;

    /// Bytes as an assembler makes them, and what they do.
    #[test]
    fn instructions_read_and_write_what_the_manual_says() {
        let none: &[u32] = &[];
        let flags = 63;
        for (bytes, address, reads, writes, loads, stores) in [
            // mov rax, [rbx + rcx*8 + 16]
            (
                &[0x48, 0x8b, 0x44, 0xcb, 0x10][..],
                &[1, 3][..],
                none,
                &[0][..],
                true,
                false,
            ),
            // mov [rdi], rax
            (&[0x48, 0x89, 0x07], &[7], &[0], none, false, true),
            // mov [rax], rax
            (&[0x48, 0x89, 0x00], &[0], &[0], none, false, true),
            // add rax, rbx
            (
                &[0x48, 0x01, 0xd8],
                none,
                &[0, 3],
                &[0, flags],
                false,
                false,
            ),
            // add [rdx], eax
            (&[0x01, 0x02], &[2], &[0], &[flags], true, true),
            // lea rax, [rdi + rsi]
            (&[0x48, 0x8d, 0x04, 0x37], none, &[6, 7], &[0], false, false),
            // xor eax, eax: depends on nothing
            (&[0x31, 0xc0], none, none, &[0, flags], false, false),
            // mov al, [rsi]: the rest of RAX stays
            (&[0x8a, 0x06], &[6], &[0], &[0], true, false),
            // movzx eax, byte [rsi]
            (&[0x0f, 0xb6, 0x06], &[6], none, &[0], true, false),
            // cmp rax, 1; je
            (
                &[0x48, 0x83, 0xf8, 0x01],
                none,
                &[0],
                &[flags],
                false,
                false,
            ),
            (&[0x74, 0x10], none, &[flags], none, false, false),
            // cmove rax, rbx
            (
                &[0x48, 0x0f, 0x44, 0xc3],
                none,
                &[0, 3, flags],
                &[0],
                false,
                false,
            ),
            // push rbp; pop rbp: RSP gives the address and is not written
            (&[0x55], &[4], &[5], none, false, true),
            (&[0x5d], &[4], none, &[5], true, false),
            // call; ret
            (&[0xe8, 0, 0, 0, 0], &[4], none, none, false, true),
            (&[0xc3], &[4], none, none, true, false),
            // sub rsp, 32
            (
                &[0x48, 0x83, 0xec, 0x20],
                none,
                &[4],
                &[4, flags],
                false,
                false,
            ),
            // xchg [rdi], rax
            (&[0x48, 0x87, 0x07], &[7], &[0], &[0], true, true),
            // xchg rax, rbx
            (&[0x48, 0x93], none, &[0, 3], &[0, 3], false, false),
            // lock cmpxchg [rdi], rcx
            (
                &[0xf0, 0x48, 0x0f, 0xb1, 0x0f],
                &[7],
                &[0, 1],
                &[0, flags],
                true,
                true,
            ),
            // mul rbx: RDX and RAX
            (
                &[0x48, 0xf7, 0xe3],
                none,
                &[0, 3],
                &[0, 2, flags],
                false,
                false,
            ),
            // movaps xmm1, [rax]; addps xmm1, xmm2
            (&[0x0f, 0x28, 0x08], &[0], none, &[17], true, false),
            (&[0x0f, 0x58, 0xca], none, &[17, 18], &[17], false, false),
            // vmovdqu ymm0, [rdi]
            (&[0xc5, 0xfe, 0x6f, 0x07], &[7], none, &[16], true, false),
            // mov rax, gs:[0]: the segment is known
            (
                &[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
                none,
                none,
                &[0],
                true,
                false,
            ),
            // mov rax, [rip + 16]
            (
                &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0],
                none,
                none,
                &[0],
                true,
                false,
            ),
            // nop [rax]
            (&[0x0f, 0x1f, 0x00], none, none, none, false, false),
        ] {
            let found = sets(decode, bytes);
            let (mut found_reads, wanted) = (found.1.clone(), reads.to_vec());
            // Unused address registers of a no-operation do not matter.
            if bytes.starts_with(&[0x0f, 0x1f]) {
                found_reads.clear();
            }
            let found = (found.0, found_reads, found.2, found.3, found.4);
            let wanted = (address.to_vec(), wanted, writes.to_vec(), loads, stores);
            assert_eq!(found, wanted, "{bytes:x?}");
        }
    }

    #[test]
    fn rounds_of_a_string_instruction_do_not_wait_for_each_others_loads() {
        // rep movsb; lodsq writes RAX
        let (address, _, writes, loads, stores) = sets(decode, &[0xf3, 0xa4]);
        assert_eq!((address, loads, stores), (vec![6, 7], true, true));
        assert!(
            !writes.iter().any(|bit| [1, 6, 7].contains(bit)),
            "{writes:?}"
        );
        assert_eq!(sets(decode, &[0x48, 0xad]).2, [0]);
    }

    #[test]
    fn what_is_no_instruction_waits_for_all() {
        let (address, reads, writes, ..) = sets(decode, &[0x06]);
        assert_eq!([address.len(), reads.len(), writes.len()], [64; 3]);
    }
}
