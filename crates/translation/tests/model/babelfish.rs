// SPDX-License-Identifier: GPL-2.0-or-later
//! MaskPages: who gets which bit, and what the 33rd writer does (ISCA'20 section III-A, Appendix).

use crate::os::{COHORT, Os, RO, RW, context};
use translation::{AccessKind, Identity, Machine, Model, Sink, SparseMemory};

const VADDR: u64 = 0x40_0000_0000;

/// `processes` of one cohort that share a table marked as the cohort kernel does.
fn group(processes: usize) -> (Os, Machine<SparseMemory>, Vec<u64>) {
    let mut os = Os::new();
    let roots: Vec<u64> = (0..processes).map(|_| os.table()).collect();
    for page in 0..8 {
        os.map(roots[0], VADDR + page * 4096, 0x7000_0000 + page * 4096, RO);
    }
    for &root in &roots[1..] {
        os.share(roots[0], root, VADDR, COHORT);
    }
    let model = Model::builtin("babelfish-isca20").unwrap();
    let mut machine = Machine::new(&model, 2, os.memory.clone()).unwrap();
    for (number, &root) in roots.iter().enumerate() {
        machine.set_identity(
            root,
            Identity {
                process: number as u32 + 1,
                cohort: 7,
            },
        );
    }
    (os, machine, roots)
}

fn read(machine: &mut Machine<SparseMemory>, core: usize, root: u64, page: u64) -> u64 {
    machine.set_context(core, context(root));
    machine
        .attempt(core, AccessKind::Read, VADDR + page * 4096)
        .unwrap()
}

/// A process gets its own table with its own copy of a page.
fn write(os: &mut Os, machine: &mut Machine<SparseMemory>, root: u64, page: u64, frame: u64) {
    let own = os.table();
    for page in 0..8 {
        os.memory
            .write_u64(own + page * 8, (0x7000_0000 + page * 4096) | RO);
    }
    os.memory.write_u64(own + page * 8, frame | RW);
    let pmd = os.slot(root, VADDR, 21);
    os.memory.write_u64(pmd, own | RW);
    *machine.memory_mut() = os.memory.clone();
}

#[test]
fn only_the_entry_of_the_page_is_invalidated_on_all_cores() {
    let (mut os, mut machine, roots) = group(3);
    for core in 0..2 {
        for page in 0..8 {
            read(&mut machine, core, roots[0], page);
        }
    }
    write(&mut os, &mut machine, roots[1], 2, 0x9000_0000);
    machine.private_copy(roots[1], VADDR + 2 * 4096);
    for core in 0..2 {
        let l2 = machine.census()[core]
            .tlb
            .iter()
            .find(|tlb| tlb.level == 2)
            .cloned()
            .unwrap();
        assert_eq!(l2.entries, 7, "the other seven can safely remain");
    }
    assert_eq!(read(&mut machine, 0, roots[1], 2), 0x9000_0000);
    assert_eq!(read(&mut machine, 0, roots[2], 2), 0x7000_2000);
    assert_eq!(machine.report().total.mechanisms.babelfish.pids_listed, 1);
}

#[test]
fn without_a_word_from_the_kernel_private_copies_are_found_out() {
    let (mut os, mut machine, roots) = group(3);
    read(&mut machine, 0, roots[0], 2);
    write(&mut os, &mut machine, roots[1], 2, 0x9000_0000);
    // The shared entry is in the TLB and would match; what the guest used says otherwise.
    machine.set_context(0, context(roots[1]));
    machine.access(0, AccessKind::Read, VADDR + 0x2000, Some(0x9000_0000), 4);
    let fish = machine.report().total.mechanisms.babelfish;
    assert_eq!((fish.private_refusals, fish.pids_listed), (1, 1));
    let counters = machine.counters(0);
    assert_eq!((counters.stale, counters.unexplained), (0, 0));
    // From now on its bit is known: the next shared entry of this table carries it.
    read(&mut machine, 0, roots[2], 3);
    let before = machine.report().total.mechanisms.babelfish;
    machine.set_context(0, context(roots[1]));
    machine.access(0, AccessKind::Read, VADDR + 0x3000, Some(0x7000_3000), 4);
    let after = machine.report().total.mechanisms.babelfish;
    assert_eq!(after.private_refusals - before.private_refusals, 1);
    assert_eq!(after.long_accesses - before.long_accesses, 1);
}

/// Entries of a core's L2 TLBs.
fn held(machine: &Machine<SparseMemory>, core: usize) -> u64 {
    let census = machine.census();
    let second = census[core].tlb.iter().filter(|tlb| tlb.level == 2);
    second.map(|tlb| tlb.entries).sum()
}

#[test]
fn every_copy_on_write_drops_the_shared_entry_not_only_the_first_of_a_range() {
    let (mut os, mut machine, roots) = group(3);
    for page in 0..8 {
        read(&mut machine, 0, roots[0], page);
        read(&mut machine, 1, roots[2], page);
    }
    let mut left = 8;
    for (page, frame) in [(2, 0x9000_0000), (3, 0x9000_1000), (5, 0x9000_2000)] {
        machine.set_context(0, context(roots[1]));
        machine.fault(0, AccessKind::Write, VADDR + page * 4096);
        write(&mut os, &mut machine, roots[1], page, frame);
        machine.fault_done(0);
        left -= 1;
        assert_eq!(held(&machine, 1), left, "page {page}");
        // Another process brings it in again.
        read(&mut machine, 1, roots[0], page);
        left += 1;
        assert_eq!(held(&machine, 1), left);
    }
    assert_eq!(machine.report().total.mechanisms.babelfish.pids_listed, 1);
    // A read brings no copy, and neither does a store of who shares the table still.
    for (root, kind) in [(roots[1], AccessKind::Read), (roots[2], AccessKind::Write)] {
        machine.set_context(0, context(root));
        machine.fault(0, kind, VADDR + 4096);
        machine.fault_done(0);
        assert_eq!(held(&machine, 1), left);
    }
}

#[test]
fn the_33rd_writer_ends_sharing_in_the_range() {
    let (mut os, mut machine, roots) = group(40);
    for (number, &root) in roots[1..34].iter().enumerate() {
        read(&mut machine, 0, roots[0], 5);
        let own_frame = 0x9000_0000 + number as u64 * 4096;
        write(&mut os, &mut machine, root, 5, own_frame);
        machine.private_copy(root, VADDR + 0x5000);
        assert_eq!(read(&mut machine, 0, root, 5), own_frame);
        let fish = machine.report().total.mechanisms.babelfish;
        assert_eq!(
            fish.overflows,
            u64::from(number == 32),
            "writer {}",
            number + 1
        );
        assert_eq!(fish.pids_listed, (number as u64 + 1).min(32));
    }
    // Nobody shares any more: the 35th process brings an entry of its own in, and so does the 36th.
    for &root in &roots[34..38] {
        let before = machine.report().total;
        assert_eq!(read(&mut machine, 0, root, 5), 0x7000_5000);
        let after = machine.report().total;
        assert_eq!(after.walks - before.walks, 1);
        assert_eq!(after.tlb_sum(2, "data").1, before.tlb_sum(2, "data").1);
    }
}

#[test]
fn a_process_that_is_gone_gives_its_bit_back() {
    let (mut os, mut machine, roots) = group(40);
    read(&mut machine, 0, roots[0], 5);
    for &root in &roots[1..39] {
        write(&mut os, &mut machine, root, 5, 0x9000_0000);
        machine.private_copy(root, VADDR + 0x5000);
        machine.retire(root);
    }
    let fish = machine.report().total.mechanisms.babelfish;
    assert_eq!((fish.overflows, fish.pids_listed), (0, 38));
}

#[test]
fn processes_without_a_cohort_share_nothing() {
    let (_, mut machine, roots) = group(3);
    for &root in &roots {
        machine.set_identity(
            root,
            Identity {
                process: 0,
                cohort: 0,
            },
        );
    }
    for &root in &roots {
        read(&mut machine, 0, root, 1);
    }
    assert_eq!(machine.report().total.walks, 3);
}
