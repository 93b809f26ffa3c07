// SPDX-License-Identifier: GPL-2.0-or-later
//! OLS'02 Figure 4: a word of every sixteenth base page of a heap is read, a line further in each.
//! On the paper's Pentium 4, whose page-table entries have 4 bytes, the L1D holds everything up to a
//! heap of 4 MB in pages of 4 KB and of 8 MB in pages of 4 MB, and nothing from 6 and 10 MB on.

use translation::{AccessKind, Context, Machine, Model, Sink, SparseMemory};

const HEAP: u64 = 0x4000_0000;
/// Of the largest heap.
const MOST_KB: u64 = 32 * 1024;

/// Page tables of IA-32 without PAE; the heap lies in memory as in the address space.
fn memory(large: bool) -> SparseMemory {
    let mut memory = SparseMemory::new();
    for table in 0..8u64 {
        let entry = match large {
            true => (0x800_0000 + (table << 22)) | 0x87,
            false => (0x1_0000 + (table << 12)) | 7,
        };
        memory.write_u32(0x1000 + ((HEAP >> 22) + table) * 4, entry as u32);
    }
    if !large {
        for page in 0..MOST_KB / 4 {
            let entry = (0x800_0000 + page * 4096) | 7;
            memory.write_u32(0x1_0000 + page * 4, entry as u32);
        }
    }
    memory
}

/// Hits and misses of the L1D in a pass over a heap that was passed over before.
fn pass(heap_kb: u64, large: bool) -> (u64, u64) {
    let model = Model::builtin("pentium4").unwrap();
    assert_eq!(model.page_tables, "x86-32");
    let mut machine = Machine::new(&model, 1, memory(large)).unwrap();
    let context = Context {
        paging: true,
        root: 0x1000,
        ..Context::default()
    };
    machine.set_context(0, context);
    let mut counted = (0, 0);
    for round in 0..3 {
        let before = machine.counters(0).cache[1];
        for word in 0..heap_kb / 64 {
            let vaddr = HEAP + word * 16 * 4096 + word % 64 * 64;
            machine.instructions(0, 1);
            machine.access(0, AccessKind::Read, vaddr, None, 4);
        }
        let after = machine.counters(0).cache[1];
        if round == 2 {
            counted = (after.hits - before.hits, after.misses - before.misses);
        }
    }
    assert_eq!(machine.counters(0).unexplained, 0);
    counted
}

/// The largest heap that is held, and the smallest of which nothing is, in MB.
fn inflections(large: bool) -> (f64, f64) {
    // In the paper's steps of 128 KB.
    let heaps = || (1..=MOST_KB / 128).map(|step| step * 128);
    let held = heaps().take_while(|&heap| pass(heap, large).1 == 0).last();
    let lost = heaps().find(|&heap| pass(heap, large).0 == 0);
    let megabytes = |kb: Option<u64>| kb.unwrap() as f64 / 1024.0;
    (megabytes(held), megabytes(lost))
}

#[test]
fn the_four_inflections_of_figure_4_are_where_the_paper_has_them() {
    assert_eq!(inflections(false), (4.0, 6.0));
    assert_eq!(inflections(true), (8.0, 10.0));
}
