// SPDX-License-Identifier: GPL-2.0-or-later
//! `[group]`: global entries for the code of a cohort's processes, and what keeps others from them.

use crate::os::{COHORT, Os, RO, RW, context};
use translation::{
    AccessKind, Counters, Identity, Invalidation, Machine, Model, Sink, SparseMemory,
};

const CODE: u64 = 0x40_0000_0000;
/// A table of its own for each, in another 2 MB.
const PRIVATE: u64 = CODE + (1 << 21);
const NO_EXECUTE: u64 = 1 << 63;
/// Members of cohort 7 (the last has an own table in place of the shared one), one of cohort 8, and
/// the address space of kernel threads.
const MEMBERS: [usize; 2] = [0, 1];
const APART: usize = 2;
const OTHER: usize = 3;
const KERNEL: usize = 4;

struct Guest {
    os: Os,
    machine: Machine<SparseMemory>,
    roots: Vec<u64>,
}

/// Two pages of code and one of data in the shared table.
fn guest(model: &str) -> Guest {
    let mut os = Os::new();
    let roots: Vec<u64> = (0..5).map(|_| os.table()).collect();
    for page in 0..3 {
        let data = if page == 2 { NO_EXECUTE } else { 0 };
        let (at, frame) = (page * 4096, 0x7000_0000 + page * 4096);
        os.map(roots[0], CODE + at, frame, RO | data);
        os.map(roots[APART], CODE + at, frame, RO | data);
    }
    os.map(roots[OTHER], CODE, 0x9000_0000, RO);
    os.share(roots[0], roots[1], CODE, COHORT);
    for (number, &root) in roots.iter().enumerate() {
        os.map(root, PRIVATE, 0xa000_0000 + number as u64 * 4096, RW);
    }
    let model = Model::builtin(model).unwrap();
    let mut machine = Machine::new(&model, 2, os.memory.clone()).unwrap();
    for (number, &root) in roots.iter().enumerate().take(KERNEL) {
        let cohort = if number == OTHER { 8 } else { 7 };
        machine.set_identity(
            root,
            Identity {
                process: number as u32 + 1,
                cohort,
            },
        );
    }
    Guest { os, machine, roots }
}

impl Guest {
    fn run(&mut self, process: usize) {
        self.machine.set_context(0, context(self.roots[process]));
    }

    fn fetch(&mut self, vaddr: u64, paddr: u64) {
        self.machine
            .access(0, AccessKind::Fetch, vaddr, Some(paddr), 4);
    }

    fn counters(&self) -> Counters {
        self.machine.counters(0)
    }
}

const ALL: [&str; 5] = [
    "zen4-group-all",
    "zen4-group",
    "zen4-group-overlay",
    "baseline-group-all",
    "baseline-group-overlay",
];

#[test]
fn members_hit_what_a_member_brought_in_and_data_is_each_ones_own() {
    for model in ALL {
        let mut guest = guest(model);
        for process in MEMBERS {
            guest.run(process);
            guest.fetch(CODE, 0x7000_0000);
            guest
                .machine
                .access(0, AccessKind::Read, CODE + 8192, Some(0x7000_2000), 4);
        }
        let counters = guest.counters();
        // The code is walked for once, the data by each.
        assert_eq!(
            (counters.walk.walks, counters.walk.fetch_walks),
            (3, 1),
            "{model}"
        );
        let group = counters.mechanisms.group;
        assert_eq!(
            (group.fills, group.first_hits, group.changes),
            (1, 1, 0),
            "{model}"
        );
        assert_eq!(
            (group.refusals, group.violations, counters.stale),
            (0, 0, 0),
            "{model}"
        );
    }
}

#[test]
fn without_a_mark_or_a_cohort_nothing_is_global() {
    let mut guest = guest("zen4-group-all");
    guest.run(APART);
    guest.fetch(CODE, 0x7000_0000);
    guest.run(0);
    guest.fetch(PRIVATE, 0xa000_0000);
    assert_eq!(guest.counters().mechanisms.group.fills, 0);
    // The same tables without a cohort.
    let root = guest.roots[0];
    guest.machine.set_identity(
        root,
        Identity {
            process: 1,
            cohort: 0,
        },
    );
    guest.fetch(CODE, 0x7000_0000);
    assert_eq!(guest.counters().mechanisms.group.fills, 0);
}

#[test]
fn a_switch_out_of_the_group_drops_all_or_the_groups_entries_and_takes_its_time() {
    for (name, all) in [("zen4-group-all", true), ("zen4-group", false)] {
        let mut guest = guest(name);
        guest.run(0);
        guest.fetch(CODE, 0x7000_0000);
        guest.fetch(PRIVATE, 0xa000_0000);
        let before = guest.machine.now(0);
        guest.run(OTHER);
        let leave = Model::builtin(name)
            .unwrap()
            .mechanisms
            .group
            .unwrap()
            .leave_cycles;
        let took = guest.machine.now(0) - before;
        assert_eq!(took, leave * guest.machine.ticks_per_cycle(), "{name}");
        let counters = guest.counters();
        let group = counters.mechanisms.group;
        // Each page is in two levels.
        let dropped = if all { 4 } else { 2 };
        assert_eq!((group.changes, group.dropped), (1, dropped), "{name}");
        assert_eq!(counters.switched_out, dropped, "{name}");
        // The other reaches its own page, and nobody needs to leave when it ends its turn.
        guest.fetch(CODE, 0x9000_0000);
        guest.run(0);
        guest.fetch(PRIVATE, 0xa000_0000);
        let counters = guest.counters();
        assert_eq!(counters.mechanisms.group.changes, 1, "{name}");
        assert_eq!(counters.walk.walks, if all { 4 } else { 3 }, "{name}");
        assert_eq!(counters.mechanisms.group.violations, 0, "{name}");
    }
}

#[test]
fn kernel_threads_and_members_leave_nothing_behind() {
    let mut guest = guest("zen4-group-all");
    guest.run(0);
    guest.fetch(CODE, 0x7000_0000);
    guest.run(KERNEL);
    guest.run(1);
    guest.fetch(CODE, 0x7000_0000);
    let group = guest.counters().mechanisms.group;
    assert_eq!((group.changes, group.dropped, group.first_hits), (0, 0, 1));
    // From the group to a kernel thread to another process: the entries are still there.
    guest.run(KERNEL);
    guest.run(OTHER);
    assert_eq!(guest.counters().mechanisms.group.changes, 1);
}

#[test]
fn a_process_that_is_known_late_is_another_one_from_then_on() {
    // The source learns who runs only when user code runs.
    let mut guest = guest("zen4-group-all");
    guest.run(0);
    guest.fetch(CODE, 0x7000_0000);
    guest.run(KERNEL);
    let root = guest.roots[KERNEL];
    guest.machine.set_identity(
        root,
        Identity {
            process: 9,
            cohort: 8,
        },
    );
    assert_eq!(guest.counters().mechanisms.group.changes, 1);
}

#[test]
fn behind_an_overlay_another_process_takes_a_fault_and_walks() {
    let mut guest = guest("zen4-group-overlay");
    guest.run(0);
    guest.fetch(CODE, 0x7000_0000);
    guest.fetch(CODE + 4096, 0x7000_1000);
    guest.run(OTHER);
    let counters = guest.counters();
    assert_eq!(
        (counters.mechanisms.group.changes, counters.switched_out),
        (1, 0)
    );
    guest.fetch(CODE, 0x9000_0000);
    let counters = guest.counters();
    assert_eq!(
        (counters.mechanisms.group.faults, counters.walk.walks),
        (1, 3)
    );
    // The handler drops the page from all levels, and no other page.
    assert_eq!(counters.invalidated, 2);
    guest.run(1);
    guest.fetch(CODE + 4096, 0x7000_1000);
    guest.fetch(CODE, 0x7000_0000);
    let counters = guest.counters();
    assert_eq!(
        (counters.mechanisms.group.first_hits, counters.walk.walks),
        (1, 4)
    );
}

#[test]
fn a_member_whose_tables_say_otherwise_does_not_use_the_entry() {
    for model in ALL {
        let mut guest = guest(model);
        guest.run(0);
        guest.fetch(CODE, 0x7000_0000);
        // The same translation in a table of its own: used. Nothing there: passed over, and it stays.
        guest.run(APART);
        guest.fetch(CODE, 0x7000_0000);
        guest.os.map(guest.roots[APART], CODE, 0, 0);
        *guest.machine.memory_mut() = guest.os.memory.clone();
        let root = guest.roots[APART];
        guest
            .machine
            .invalidate(0, Invalidation::AddressSpace { root });
        assert!(
            guest.machine.attempt(0, AccessKind::Fetch, CODE).is_err(),
            "{model}"
        );
        let group = guest.counters().mechanisms.group;
        // Once in each level.
        assert_eq!((group.first_hits, group.refusals), (1, 2), "{model}");
        // Another page: dropped.
        guest.os.map(guest.roots[APART], CODE, 0xb000_0000, RO);
        *guest.machine.memory_mut() = guest.os.memory.clone();
        assert_eq!(
            guest.machine.attempt(0, AccessKind::Fetch, CODE),
            Ok(0xb000_0000),
            "{model}"
        );
        guest.run(0);
        assert_eq!(
            guest.machine.attempt(0, AccessKind::Fetch, CODE),
            Ok(0x7000_0000),
            "{model}"
        );
    }
}

#[test]
fn one_address_is_dropped_for_all_and_one_address_space_is_not() {
    let mut guest = guest("zen4-group-all");
    guest.run(0);
    guest.fetch(CODE, 0x7000_0000);
    let root = guest.roots[0];
    guest
        .machine
        .invalidate(0, Invalidation::AddressSpace { root });
    assert_eq!(guest.counters().invalidated, 0);
    guest.run(1);
    guest
        .machine
        .invalidate(0, Invalidation::Page { vaddr: CODE });
    assert_eq!(guest.counters().invalidated, 2);
}

#[test]
fn a_bad_description_is_refused() {
    let with = |text: &str| {
        let head = "name = \"c\"\nabout = \"\"\nsources = \"a test\"\n";
        Model::parse("c", &format!("{head}{text}"))
            .unwrap_err()
            .to_string()
    };
    let part = "[group]\nglobal = \"cohort-code\"\nmarked = [\"9=1\"]\nleave_cycles = 1\n";
    for (text, says) in [
        (
            "base = \"zen4-group-all\"\n[group]\nfault_cycles = 3\n".to_owned(),
            "group.fault_cycles",
        ),
        (
            "base = \"zen4-group-all\"\n[group]\nleave = \"none\"\n".to_owned(),
            "group.fault_cycles",
        ),
        (
            "base = \"zen4-group-all\"\n[group]\nmarked = []\n".to_owned(),
            "group.marked",
        ),
        (
            "base = \"zen4-group-all\"\n[group]\nleave_cycles = 100001\n".to_owned(),
            "leave_cycles",
        ),
        (
            format!("base = \"cortex-a9\"\n{part}leave = \"all\"\n"),
            "group needs tag",
        ),
        (format!("base = \"zen4\"\n{part}leave = \"some\"\n"), "some"),
    ] {
        assert!(with(&text).contains(says), "{text}: {}", with(&text));
    }
}
