// SPDX-License-Identifier: GPL-2.0-or-later
//! ISCA'20 Figure 8, the flow of a TLB access, step by step, with the bits of Figure 5a in the
//! page tables and the access times of Table I.

use crate::os::{GLOBAL, OR_PC, OWNED, Os, RO, RW, context};
use translation::Fault;
use translation::{
    AccessKind, Counters, Identity, Invalidation, Machine, Model, Sink, SparseMemory,
};

const VADDR: u64 = 0x40_0000_3000;
/// A page that all processes have, beside the shared tables.
const ELSEWHERE: u64 = 0x7f_0000_0000;
const SHARED: u64 = 0x7000_0000;
const OWN: u64 = 0x7100_0000;

/// ASLR-HW, so that all checks are made in the L2 TLB, with the paper's own bits. An L1 TLB has one
/// entry, so that what was not the last access goes to the L2. Fetches do not run ahead, so that their
/// time is felt.
fn model() -> Model {
    let tlb = |level: u32, side: &str, entries: u32, ways: &str, cycles: u32| {
        format!(
            "[[tlb]]\nlevel = {level}\nside = \"{side}\"\npages = [\"4K\"]\n\
             entries = {entries}\nways = {ways}\ncycles = {cycles}\n"
        )
    };
    let text = format!(
        "name = \"figure8\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"babelfish-isca20\"\n{}{}{}\
         [core]\nfetch_ahead = 0\n[babelfish]\nowned = [\"10=1\"]\nor_pc = [\"9=1\"]\n",
        tlb(1, "fetch", 1, "1", 1),
        tlb(1, "data", 1, "1", 1),
        tlb(2, "both", 1536, "12", 10),
    );
    Model::parse("figure8", &text).unwrap()
}

/// Processes P0, P1, P2 of one cohort that share the table around VADDR; P3 is in another cohort.
struct Group {
    os: Os,
    machine: Machine<SparseMemory>,
    roots: [u64; 4],
}

impl Group {
    fn new(flags: u64) -> Self {
        let mut os = Os::new();
        let roots = [0; 4].map(|_| os.table());
        os.map(roots[0], VADDR, SHARED, flags);
        os.share(roots[0], roots[1], VADDR, 0);
        os.share(roots[0], roots[2], VADDR, 0);
        os.map(roots[3], VADDR, OWN, flags);
        for root in roots {
            os.map(root, ELSEWHERE, 0x7200_0000, RO | GLOBAL);
        }
        let mut machine = Machine::new(&model(), 1, os.memory.clone()).unwrap();
        for (number, &root) in roots.iter().enumerate() {
            let cohort = if number == 3 { 2 } else { 1 };
            machine.set_identity(
                root,
                Identity {
                    process: number as u32 + 1,
                    cohort,
                },
            );
        }
        Self { os, machine, roots }
    }

    fn sync(&mut self) {
        *self.machine.memory_mut() = self.os.memory.clone();
    }

    /// An access that the L1 TLB does not settle, and the counters before and after.
    fn access(
        &mut self,
        process: usize,
        kind: AccessKind,
    ) -> (Result<u64, Fault>, Counters, Counters) {
        self.machine.set_context(0, context(self.roots[process]));
        // The L1's one entry is of this page then. In the L2 it is global, and nobody's.
        let side = match kind {
            AccessKind::Fetch => AccessKind::Fetch,
            AccessKind::Read | AccessKind::Write => AccessKind::Read,
        };
        self.machine.attempt(0, side, ELSEWHERE).unwrap();
        let old = self.machine.counters(0);
        let result = self.machine.attempt(0, kind, VADDR);
        let new = self.machine.counters(0);
        let l1 = usize::from(kind != AccessKind::Fetch);
        assert_eq!(new.tlb[0][l1][0].hits, old.tlb[0][l1][0].hits);
        (result, old, new)
    }

    /// P1 writes to the CoW page: its own table, O set in its pmd_t, ORPC in the others'.
    fn copy_for_p1(&mut self) {
        let pmd = self.os.slot(self.roots[1], VADDR, 21);
        let own = self.os.table();
        self.os.memory.write_u64(pmd, own | RW | OWNED);
        self.os.map(self.roots[1], VADDR, OWN, RW);
        for process in [0, 2] {
            self.os.change(self.roots[process], VADDR, 21, OR_PC, 0);
        }
        self.sync();
        self.machine.private_copy(self.roots[1], VADDR);
    }
}

fn l2(counters: &Counters) -> translation::counters::TlbCounters {
    counters.tlb[1][1][0]
}

#[test]
fn step_1_no_way_matches_and_a_walk_begins() {
    let mut group = Group::new(RO);
    group.access(0, AccessKind::Read).0.unwrap();
    // Another CCID does not match the entry.
    let (result, old, new) = group.access(3, AccessKind::Read);
    assert_eq!(result, Ok(OWN));
    assert_eq!(l2(&new).misses - l2(&old).misses, 1);
    assert_eq!(new.walk.walks - old.walk.walks, 1);
}

#[test]
fn step_4_a_shared_entry_hits_for_every_process_of_the_group() {
    let mut group = Group::new(RO);
    group.access(0, AccessKind::Read).0.unwrap();
    for process in [1, 2] {
        let (result, old, new) = group.access(process, AccessKind::Read);
        assert_eq!(result, Ok(SHARED));
        assert_eq!(l2(&new).shared_hits - l2(&old).shared_hits, 1);
        assert_eq!(new.walk.walks, old.walk.walks);
        // ORPC is clear: the short access time, 10 cycles.
        assert_eq!(
            new.mechanisms.babelfish.long_accesses,
            old.mechanisms.babelfish.long_accesses
        );
    }
}

#[test]
fn steps_2_and_9_an_owned_entry_hits_only_its_pcid() {
    let mut group = Group::new(RO);
    // The table is owned in all three processes: three copies of the entry.
    for process in 0..3 {
        group.os.change(group.roots[process], VADDR, 21, OWNED, 0);
    }
    group.sync();
    for process in 0..3 {
        let (result, old, new) = group.access(process, AccessKind::Read);
        assert_eq!(result, Ok(SHARED));
        assert_eq!(new.walk.walks - old.walk.walks, 1, "process {process}");
        let refused =
            new.mechanisms.babelfish.owned_refusals - old.mechanisms.babelfish.owned_refusals;
        assert_eq!(refused, process as u64, "each way that matches is checked");
    }
    let census = group.machine.census();
    let l2 = census[0].tlb.iter().find(|tlb| tlb.level == 2).unwrap();
    // The fourth is the page elsewhere.
    assert_eq!((l2.entries, l2.duplicates_in_cohorts), (4, 2));
    // From step 9 on to rights and a hit: each finds its own entry in the L2, behind those of the
    // processes before it.
    for process in 0..3 {
        let (result, old, new) = group.access(process, AccessKind::Read);
        assert_eq!(result, Ok(SHARED));
        assert_eq!(new.walk.walks, old.walk.walks, "process {process}");
        let (old_l2, new_l2) = (self::l2(&old), self::l2(&new));
        assert_eq!(new_l2.hits - old_l2.hits, 1);
        assert_eq!(new_l2.shared_hits, old_l2.shared_hits);
        let refused =
            new.mechanisms.babelfish.owned_refusals - old.mechanisms.babelfish.owned_refusals;
        assert_eq!(refused, process as u64);
        // An owned entry has no PC bitmask to be read.
        assert_eq!(
            new.mechanisms.babelfish.long_accesses,
            old.mechanisms.babelfish.long_accesses
        );
    }
}

#[test]
fn step_3_a_process_with_a_private_copy_misses_the_shared_entry() {
    let mut group = Group::new(RO);
    group.access(0, AccessKind::Read).0.unwrap();
    group.copy_for_p1();
    // The shared entry was invalidated: its PC bitmask is stale. P2 brings the new one in, with
    // the MaskPage, as ORPC is set.
    let (result, old, new) = group.access(2, AccessKind::Read);
    assert_eq!(result, Ok(SHARED));
    assert_eq!(new.walk.walks - old.walk.walks, 1);
    assert_eq!(
        new.mechanisms.babelfish.mask_pages - old.mechanisms.babelfish.mask_pages,
        1
    );
    // P1: O is clear, ORPC is set, its bit is set: a miss, and its own entry by a walk. O is set
    // there, so the bitmask is not loaded.
    let (result, old, new) = group.access(1, AccessKind::Write);
    assert_eq!(result, Ok(OWN));
    assert_eq!(
        new.mechanisms.babelfish.private_refusals - old.mechanisms.babelfish.private_refusals,
        1
    );
    assert_eq!(
        new.mechanisms.babelfish.long_accesses - old.mechanisms.babelfish.long_accesses,
        1
    );
    assert_eq!(new.walk.walks - old.walk.walks, 1);
    assert_eq!(
        new.mechanisms.babelfish.mask_pages,
        old.mechanisms.babelfish.mask_pages
    );
    // P0, whose bit is clear, hits P2's entry; reading the bitmask takes the long time.
    let (result, old, new) = group.access(0, AccessKind::Read);
    assert_eq!(result, Ok(SHARED));
    assert_eq!(new.walk.walks, old.walk.walks);
    assert_eq!(l2(&new).shared_hits - l2(&old).shared_hits, 1);
    assert_eq!(
        new.mechanisms.babelfish.long_accesses - old.mechanisms.babelfish.long_accesses,
        1
    );
    assert_eq!(
        new.mechanisms.babelfish.private_refusals,
        old.mechanisms.babelfish.private_refusals
    );
}

#[test]
fn the_long_access_time_is_two_cycles_more() {
    // GIVEN two groups that differ only in ORPC WHEN another process hits the shared entry THEN the
    // one with ORPC takes 12 cycles for 10, after 1 for the L1 and 2 for the transformation.
    let time = |or_pc: bool| {
        let mut group = Group::new(RO);
        if or_pc {
            group.os.change(group.roots[0], VADDR, 21, OR_PC, 0);
            group.sync();
        }
        group.access(0, AccessKind::Fetch).0.unwrap();
        let (_, old, new) = group.access(2, AccessKind::Fetch);
        let hits = |counters: &Counters| counters.tlb[1][0][0].shared_hits;
        assert_eq!(hits(&new) - hits(&old), 1);
        (new.itlb_stall - old.itlb_stall) / group.machine.ticks_per_cycle()
    };
    assert_eq!(time(false), 1 + 2 + 10);
    assert_eq!(time(true), 1 + 2 + 12);
}

#[test]
fn steps_5_and_6_a_write_to_a_shared_read_only_page_is_a_cow_fault() {
    let mut group = Group::new(RO);
    group.access(0, AccessKind::Read).0.unwrap();
    let (result, old, new) = group.access(1, AccessKind::Write);
    assert_eq!(result, Err(Fault::CopyOnWrite));
    assert_eq!(
        new.walk.walks, old.walk.walks,
        "declared on the hit, without a walk"
    );
    // An owned page that may not be written is a plain protection fault: on the walk, and on a hit.
    group.os.change(group.roots[2], VADDR, 21, OWNED, 0);
    group.sync();
    group.machine.invalidate(0, Invalidation::All);
    let (result, old, new) = group.access(2, AccessKind::Write);
    assert_eq!(result, Err(Fault::Protection));
    assert_eq!(new.walk.walks - old.walk.walks, 1);
    group.access(2, AccessKind::Read).0.unwrap();
    let (result, old, new) = group.access(2, AccessKind::Write);
    assert_eq!(result, Err(Fault::Protection));
    assert_eq!(new.walk.walks, old.walk.walks);
}

#[test]
fn step_7_writable_shared_pages_are_written_by_all() {
    let mut group = Group::new(RW);
    group.access(0, AccessKind::Write).0.unwrap();
    let (result, old, new) = group.access(1, AccessKind::Write);
    assert_eq!(result, Ok(SHARED));
    assert_eq!(l2(&new).shared_hits - l2(&old).shared_hits, 1);
}
