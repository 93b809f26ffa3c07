// SPDX-License-Identifier: GPL-2.0-or-later
//! ISCA'20 section III-C and Figure 7: containers A (core 0), B (core 1) and C (core 0) access
//! VPN0, one after the other, for the first time.

use crate::os::{Os, RW, context};
use translation::Fault;
use translation::{AccessKind, Counters, Identity, Machine, Model, Sink, SparseMemory};

const VADDR: u64 = 0x7f00_1234_5000;
const PPN0: u64 = 0x4000_0000;
const CORE: [usize; 3] = [0, 1, 0];

/// What one access did, counted.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    faults: u64,
    l1_misses: u64,
    l2_hits: u64,
    shared_hits: u64,
    walks: u64,
    walk_cache_hits: u64,
    references: u64,
    l2_cache_misses: u64,
    l3_hits: u64,
    l3_misses: u64,
    memory_reads: u64,
}

fn seen(new: &Counters, old: &Counters, faults: u64) -> Seen {
    let size = |c: &Counters, level: usize| c.tlb[level][1][0];
    Seen {
        faults,
        l1_misses: size(new, 0).misses - size(old, 0).misses,
        l2_hits: size(new, 1).hits - size(old, 1).hits,
        shared_hits: size(new, 1).shared_hits - size(old, 1).shared_hits,
        walks: new.walk.walks - old.walk.walks,
        walk_cache_hits: new.walk.cached.iter().sum::<u64>() - old.walk.cached.iter().sum::<u64>(),
        references: new.walk.references.iter().sum::<u64>()
            - old.walk.references.iter().sum::<u64>(),
        l2_cache_misses: new.cache[2].walk_misses - old.cache[2].walk_misses,
        l3_hits: new.cache[3].walk_hits - old.cache[3].walk_hits,
        l3_misses: new.cache[3].walk_misses - old.cache[3].walk_misses,
        memory_reads: new.memory.reads - old.memory.reads,
    }
}

struct Example {
    os: Os,
    machine: Machine<SparseMemory>,
    roots: [u64; 3],
    /// The table that holds the pte_t of each container.
    ptes: [u64; 3],
}

impl Example {
    /// PPN0 is in memory but not present in any pte_t; nothing is in any walk cache.
    fn new(model: &Model, share: bool) -> Self {
        let mut os = Os::new();
        let roots = [0; 3].map(|_| os.table());
        let first = os.slot(roots[0], VADDR, 12);
        let ptes = if share {
            // "Container B reuses the page-table entries of container A at any level except at the
            // PGD level": the PGD entries point to one PUD table.
            let pud = os.slot(roots[0], VADDR, 39);
            let entry = translation::GuestMemory::read_u64(&os.memory, pud).unwrap();
            for &root in &roots[1..] {
                let slot = os.slot(root, VADDR, 39);
                os.memory.write_u64(slot, entry);
            }
            [first; 3]
        } else {
            [
                first,
                os.slot(roots[1], VADDR, 12),
                os.slot(roots[2], VADDR, 12),
            ]
        };
        let mut machine = Machine::new(model, 2, os.memory.clone()).unwrap();
        for (number, &root) in roots.iter().enumerate() {
            machine.set_identity(
                root,
                Identity {
                    process: number as u32 + 1,
                    cohort: 1,
                },
            );
        }
        Self {
            os,
            machine,
            roots,
            ptes,
        }
    }

    /// A container runs and accesses VPN0, as the hardware and the kernel do it.
    fn access(&mut self, container: usize) -> Seen {
        let core = CORE[container];
        self.machine
            .set_context(core, context(self.roots[container]));
        let old = self.machine.counters(core);
        let mut faults = 0;
        loop {
            match self.machine.attempt(core, AccessKind::Read, VADDR) {
                Ok(paddr) => {
                    assert_eq!(paddr, PPN0);
                    break;
                }
                Err(fault) => {
                    assert_eq!(fault, Fault::NotPresent);
                    faults += 1;
                    // The minor fault: the entry is marked present.
                    self.os.memory.write_u64(self.ptes[container], PPN0 | RW);
                    *self.machine.memory_mut() = self.os.memory.clone();
                }
            }
        }
        seen(&self.machine.counters(core), &old, faults)
    }
}

/// "A's page table is updated and a translation is loaded": four references that miss the L2 and
/// the L3, a minor fault, and the access again, for which the tables are at hand.
fn full_walk() -> Seen {
    Seen {
        faults: 1,
        l1_misses: 2,
        l2_hits: 0,
        shared_hits: 0,
        walks: 2,
        walk_cache_hits: 3,
        references: 4 + 1,
        l2_cache_misses: 4,
        l3_hits: 0,
        l3_misses: 4,
        // Four entries, and the data itself.
        memory_reads: 5,
    }
}

#[test]
fn conventional_containers_each_walk_and_fault() {
    let mut example = Example::new(&Model::builtin("baseline").unwrap(), false);
    assert_eq!(example.access(0), full_walk());
    // B and C: "the hardware and OS follow exactly the same process as for A"; only the data of
    // PPN0 is in a cache by then.
    let again = Seen {
        memory_reads: 4,
        ..full_walk()
    };
    assert_eq!(example.access(1), again);
    assert_eq!(example.access(2), again);
}

fn babelfish(name: &str) {
    // The paper's kernel: O in bit 10 and ORPC in bit 9 of the pmd_t, both clear here.
    let text = Model::builtin_text("babelfish-isca20").unwrap();
    assert!(text.contains("owned = [\"9=0\"]"));
    let bits = format!(
        "name = \"{name}\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"{name}\"\n\
         [babelfish]\nowned = [\"10=1\"]\nor_pc = [\"9=1\"]\n"
    );
    let mut example = Example::new(&Model::parse("figure 7", &bits).unwrap(), true);
    // "Container A's access follows the same translation steps as in the conventional one."
    assert_eq!(example.access(0), full_walk());
    // B, on another core: misses in the TLBs and in the PWC; "the multiple requests issued to the
    // cache hierarchy miss in the local L2 but hit in the shared L3 (except for the PGD access)";
    // no page fault.
    assert_eq!(
        example.access(1),
        Seen {
            faults: 0,
            l1_misses: 1,
            l2_hits: 0,
            shared_hits: 0,
            walks: 1,
            walk_cache_hits: 0,
            references: 4,
            l2_cache_misses: 4,
            l3_hits: 3,
            l3_misses: 1,
            memory_reads: 1,
        }
    );
    // C, on A's core: "it hits in the TLB because it can reuse the TLB translation that container A
    // brought into the TLB".
    let c = example.access(2);
    if name.ends_with("sw") {
        // With ASLR-SW in the L1 TLB already.
        assert_eq!((c.l1_misses, c.walks, c.references, c.faults), (0, 0, 0, 0));
        let counters = example.machine.counters(0);
        assert_eq!(counters.tlb[0][1][0].shared_hits, 1);
    } else {
        assert_eq!((c.l1_misses, c.l2_hits, c.shared_hits), (1, 1, 1));
        assert_eq!(
            (c.walks, c.references, c.faults, c.memory_reads),
            (0, 0, 0, 0)
        );
    }
}

#[test]
fn babelfish_containers_share_tables_and_entries_with_aslr_hw() {
    babelfish("babelfish-isca20");
}

#[test]
fn babelfish_containers_share_tables_and_entries_with_aslr_sw() {
    babelfish("babelfish-isca20-aslr-sw");
}
