// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters by process and cohort, faults, requests, the region of interest, invalidations.

use crate::os::{GLOBAL, Os, RO, RW, context};
use translation::Fault;
use translation::tlbi::{Drop, Tables};
use translation::{
    AccessKind, Context, Identity, Invalidation, Machine, Mark, Model, Sink, SparseMemory,
};

const VADDR: u64 = 0x40_0000_0000;

/// Two address spaces with four pages each; page 3 is global.
fn machine(model: &str, cores: usize) -> (Machine<SparseMemory>, [u64; 2]) {
    let mut os = Os::new();
    let roots = [0; 2].map(|_| os.table());
    for (number, &root) in roots.iter().enumerate() {
        for page in 0..4 {
            let flags = if page == 3 { RW | GLOBAL } else { RW };
            let frame = if page == 3 {
                3
            } else {
                page + 4 * number as u64
            };
            os.map(root, VADDR + page * 4096, 0x100_0000 + frame * 4096, flags);
        }
    }
    let machine = Machine::new(&Model::builtin(model).unwrap(), cores, os.memory).unwrap();
    (machine, roots)
}

fn touch(machine: &mut Machine<SparseMemory>, core: usize, page: u64) {
    machine
        .attempt(core, AccessKind::Read, VADDR + page * 4096)
        .unwrap();
}

#[test]
fn a_process_is_counted_on_every_core_it_runs_on() {
    let (mut machine, roots) = machine("baseline", 2);
    for (process, &root) in (10..).zip(&roots) {
        machine.set_identity(root, Identity { process, cohort: 0 });
    }
    let run = |machine: &mut Machine<SparseMemory>, core: usize, root: u64, count: u64| {
        machine.set_context(core, context(root));
        machine.instructions(core, count);
    };
    run(&mut machine, 0, roots[0], 100);
    assert_eq!((machine.process(0), machine.process(1)), (10, 0));
    assert_eq!(machine.process_counters(10).instructions, 100);
    // It moves; another takes its core, and takes turns with it on its new one.
    run(&mut machine, 1, roots[0], 20);
    run(&mut machine, 0, roots[1], 3_000);
    run(&mut machine, 1, roots[1], 4_000);
    run(&mut machine, 1, roots[0], 5);
    let counters = machine.process_counters(10);
    assert_eq!(counters.instructions, 125);
    assert!(counters.ticks >= 125 && counters.ticks < 3_000);
    assert_eq!(machine.process_counters(11).instructions, 7_000);
    assert_eq!(machine.process_counters(12).instructions, 0);
}

#[test]
fn processes_and_cohorts_add_up_to_the_cores() {
    let (mut machine, roots) = machine("baseline", 2);
    machine.set_identity(
        roots[0],
        Identity {
            process: 10,
            cohort: 1,
        },
    );
    machine.set_identity(
        roots[1],
        Identity {
            process: 11,
            cohort: 1,
        },
    );
    for turn in 0..20usize {
        let core = turn % 2;
        machine.set_context(core, context(roots[turn / 2 % 2]));
        machine.instructions(core, 100 + turn as u64);
        touch(&mut machine, core, turn as u64 % 4);
    }
    let report = machine.report();
    let instructions: u64 = (0..20).map(|turn| 100 + turn).sum();
    assert_eq!(report.total.instructions, instructions);
    let sum = |pick: fn(&translation::report::Summary) -> u64| {
        let cores: u64 = report.cores.iter().map(pick).sum();
        let processes: u64 = report.processes.iter().map(|p| pick(&p.summary)).sum();
        assert_eq!(
            (cores, processes),
            (pick(&report.total), pick(&report.total))
        );
    };
    sum(|s| s.instructions);
    sum(|s| s.reads);
    sum(|s| s.walks);
    sum(|s| s.counters.ticks);
    sum(|s| s.context_switches);
    assert_eq!(report.processes.len(), 2);
    assert_eq!((report.cohorts.len(), report.cohorts[0].processes), (1, 2));
    assert_eq!(report.cohorts[0].summary.instructions, instructions);
    // It is JSON, without surprises.
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["processes"][0]["process"], 10);
    assert_eq!(json["total"]["instructions"], instructions);
}

#[test]
fn only_the_region_of_interest_is_reported_once_there_is_one() {
    let (mut machine, roots) = machine("baseline", 1);
    machine.set_context(0, context(roots[0]));
    machine.instructions(0, 1000);
    touch(&mut machine, 0, 0);
    assert_eq!(machine.report().total.instructions, 1000);
    machine.mark(0, Mark::Start);
    machine.instructions(0, 30);
    touch(&mut machine, 0, 0);
    let during = machine.report();
    assert_eq!((during.total.instructions, during.total.walks), (30, 0));
    machine.mark(0, Mark::Stop);
    machine.instructions(0, 5000);
    machine.mark(0, Mark::Start);
    machine.instructions(0, 4);
    machine.mark(0, Mark::Stop);
    machine.instructions(0, 9);
    let report = machine.report();
    assert!(report.region_of_interest);
    assert_eq!(report.total.instructions, 34);
    assert_eq!(
        report
            .processes
            .iter()
            .map(|p| p.summary.instructions)
            .sum::<u64>(),
        34
    );
}

#[test]
fn latencies_are_those_of_the_requests_in_the_region() {
    let (mut machine, _) = machine("baseline", 2);
    machine.mark(0, Mark::RequestBegin { id: 99 });
    machine.mark(0, Mark::RequestEnd { id: 99 });
    machine.mark(0, Mark::Start);
    for id in 1..=100 {
        machine.mark(0, Mark::RequestBegin { id });
        // Two instructions are a cycle.
        machine.instructions(0, 2 * id);
        machine.mark(0, Mark::RequestEnd { id });
    }
    machine.mark(0, Mark::RequestEnd { id: 7777 });
    let requests = machine.report().requests;
    assert_eq!((requests.count, requests.unmatched), (100, 1));
    assert_eq!((requests.min, requests.max), (1, 100));
    assert_eq!((requests.p50, requests.p95, requests.p99), (50, 95, 99));
    assert_eq!(requests.mean, 50.5);
    let all: u64 = requests.histogram.iter().map(|(_, count)| count).sum();
    assert_eq!(all, 100);
    assert!(
        requests.histogram.contains(&(63, 32)),
        "{:?}",
        requests.histogram
    );
}

#[test]
fn a_request_that_ends_on_a_core_whose_clock_lags_has_a_latency() {
    // GIVEN core 0 at 1,000 cycles WHEN a request begins there, another core is at 1,600 meanwhile,
    // and it ends on core 1, which has just begun THEN it took 600 cycles, not none.
    let (mut machine, _) = machine("baseline", 3);
    machine.instructions(0, 2_000);
    machine.mark(0, Mark::RequestBegin { id: 1 });
    machine.instructions(2, 3_200);
    machine.instructions(1, 20);
    machine.mark(1, Mark::RequestEnd { id: 1 });
    let requests = machine.report().requests;
    assert_eq!((requests.min, requests.max), (600, 600));
}

#[test]
fn a_fault_is_counted_by_its_cause_and_its_handling_by_instructions() {
    let mut os = Os::new();
    let root = os.table();
    os.map(root, VADDR, 0x5000, RO);
    let mut machine = Machine::new(&Model::builtin("baseline").unwrap(), 1, os.memory).unwrap();
    machine.set_context(0, context(root));
    machine.instructions(0, 50);
    machine.fault(0, AccessKind::Read, VADDR + 0x1000);
    machine.instructions(0, 200);
    // One inside the other.
    machine.fault(0, AccessKind::Write, VADDR);
    machine.instructions(0, 300);
    machine.fault_done(0);
    machine.instructions(0, 40);
    machine.fault_done(0);
    machine.instructions(0, 60);
    machine.fault(0, AccessKind::Read, VADDR);
    machine.fault_done(0);
    // An end too many changes nothing.
    machine.fault_done(0);
    let faults = machine.counters(0).faults;
    assert_eq!(
        (faults.not_present, faults.protection, faults.spurious),
        (1, 1, 1)
    );
    assert_eq!(faults.by_kind, [0, 2, 1]);
    assert_eq!(faults.instructions, 540);
    assert!(faults.ticks >= 540);
}

#[test]
fn handling_that_sleeps_is_not_charged_with_others() {
    let (mut machine, roots) = machine("baseline", 2);
    machine.set_context(0, context(roots[0]));
    machine.fault(0, AccessKind::Read, VADDR + 0x9000);
    machine.instructions(0, 100);
    machine.set_context(0, context(roots[1]));
    machine.instructions(0, 7000);
    // It wakes up on the other core.
    machine.set_context(1, context(roots[0]));
    machine.instructions(1, 11);
    machine.fault_done(1);
    machine.instructions(1, 500);
    assert_eq!(machine.report().total.fault_details.instructions, 111);
}

#[test]
fn invalidations_drop_what_they_name_and_no_more() {
    let (mut machine, roots) = machine("baseline", 1);
    let fill = |machine: &mut Machine<SparseMemory>| {
        for root in roots {
            machine.set_context(0, context(root));
            (0..4).for_each(|page| touch(machine, 0, page));
        }
        machine.set_context(0, context(roots[0]));
    };
    let held = |machine: &Machine<SparseMemory>| {
        machine.census()[0]
            .tlb
            .iter()
            .find(|tlb| tlb.level == 2)
            .unwrap()
            .entries
    };
    for (what, left) in [
        // Seven: three of each, and one that is global.
        (Invalidation::Page { vaddr: VADDR }, 6),
        (
            Invalidation::Page {
                vaddr: VADDR + 0x3000,
            },
            6,
        ),
        (
            Invalidation::PageAllSpaces {
                vaddr: VADDR + 0x1fff,
            },
            5,
        ),
        (Invalidation::AddressSpace { root: roots[1] }, 4),
        (Invalidation::AddressSpace { root: 0xdead_0000 }, 7),
        (Invalidation::AllButGlobal, 1),
        (Invalidation::All, 0),
        (
            Invalidation::SharedPage {
                vaddr: VADDR,
                cohort: 1,
            },
            7,
        ),
    ] {
        machine.invalidate(0, Invalidation::All);
        fill(&mut machine);
        assert_eq!(held(&machine), 7);
        machine.invalidate(0, what);
        assert_eq!(held(&machine), left, "{what:?}");
    }
    fill(&mut machine);
    machine.retire(roots[0]);
    assert!(held(&machine) <= 4);
    // A root that becomes another process's loses its entries, too.
    fill(&mut machine);
    machine.set_identity(
        roots[1],
        Identity {
            process: 5,
            cohort: 0,
        },
    );
    fill(&mut machine);
    let before = machine.counters(0).walk.walks;
    machine.set_identity(
        roots[1],
        Identity {
            process: 6,
            cohort: 0,
        },
    );
    fill(&mut machine);
    assert_eq!(machine.counters(0).walk.walks - before, 3);
}

#[test]
fn a_flush_by_the_hardwares_tag_drops_what_it_names_and_no_more() {
    let page = |number: u64| VADDR + number * 4096;
    let range = |tag, first, last| Drop {
        tag,
        range: Some((page(first), page(last) + 0xfff)),
        ..Drop::ALL
    };
    // The first address space has the tag 11, the second 12. The global page is nobody's.
    let forms = [
        (Drop::tag(11), 4),
        (Drop::tag(12), 4),
        (Drop::tag(9), 7),
        (Drop::page(12, page(0)), 6),
        (Drop::page(9, page(0)), 7),
        (Drop::page(9, page(3)), 6),
        (range(None, 1, 1), 5),
        (range(Some(11), 1, 2), 5),
        (range(Some(11), 2, 9), 5),
        (range(Some(9), 0, 9), 6),
        (range(None, 0, 3), 0),
        (range(None, 4, 9), 7),
        (Drop::BUT_GLOBAL, 1),
        (Drop::ALL, 0),
    ];
    let (machine, roots) = machine("baseline", 2);
    for tag in ["hardware", "address-space", "none"] {
        let text = format!(
            "name = \"x\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\ntag = {tag:?}\n"
        );
        let model = Model::parse("x", &text).unwrap();
        for (what, left) in forms {
            for tables in [Tables::All, Tables::Above, Tables::Kept] {
                let mut machine = Machine::new(&model, 2, machine.memory().clone()).unwrap();
                for core in 0..2 {
                    for (root, asid) in roots.into_iter().zip(11..) {
                        let own = Context {
                            asid,
                            ..context(root)
                        };
                        machine.set_context(core, own);
                        (0..4).for_each(|page| touch(&mut machine, core, page));
                    }
                }
                let held = |machine: &Machine<SparseMemory>, core: usize| {
                    let census = &machine.census()[core];
                    let level = census.tlb.iter().find(|tlb| tlb.level == 2);
                    level.unwrap().entries
                };
                let before = [held(&machine, 0), held(&machine, 1)];
                machine.invalidate(0, Invalidation::Exact(Drop { tables, ..what }));
                if tag == "none" {
                    // The switch has dropped the first one's.
                    assert!(held(&machine, 0) <= left, "{what:?}");
                } else {
                    assert_eq!(before, [7, 7]);
                    assert_eq!(held(&machine, 0), left, "{tag}: {what:?}");
                }
                // A form for one core is for no other.
                assert_eq!(held(&machine, 1), before[1]);
            }
        }
    }
}

#[test]
fn tables_of_no_process_are_no_switch() {
    let (mut machine, roots) = machine("baseline", 1);
    let run = |machine: &mut Machine<SparseMemory>, root: u64, asid: u16| {
        machine.set_context(
            0,
            Context {
                asid,
                root_high: 0x5000,
                ..context(root)
            },
        );
        machine.counters(0).context_switches
    };
    machine.set_identity(
        roots[0],
        Identity {
            process: 10,
            cohort: 0,
        },
    );
    assert_eq!(run(&mut machine, roots[0], 11), 1);
    // GIVEN the kernel has no user space WHEN it comes back to the same one THEN nothing has changed.
    assert_eq!(run(&mut machine, 0x5000, 11), 1);
    assert_eq!(run(&mut machine, 0x5000, 0), 1);
    assert_eq!(machine.process(0), 10);
    assert_eq!(run(&mut machine, roots[0], 11), 1);
    // WHEN it goes on to another THEN that is one switch, of three writes.
    assert_eq!(run(&mut machine, 0x5000, 11), 1);
    assert_eq!(run(&mut machine, 0x5000, 12), 1);
    assert_eq!(run(&mut machine, roots[1], 12), 2);
    assert_eq!(machine.process(0), 0);
    // Another tag alone is a switch, another TTBR1 alone is not.
    assert_eq!(run(&mut machine, roots[1], 13), 3);
    machine.set_context(
        0,
        Context {
            asid: 13,
            root_high: 0x6000,
            ..context(roots[1])
        },
    );
    assert_eq!(machine.counters(0).context_switches, 3);
}

#[test]
fn without_tags_a_switch_drops_all_but_global_entries() {
    let (mut machine, roots) = machine("baseline", 1);
    let text = "name = \"x\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\ntag = \"none\"\n";
    let model = Model::parse("x", text).unwrap();
    let mut untagged = Machine::new(&model, 1, machine.memory().clone()).unwrap();
    for turn in 0..6 {
        for machine in [&mut machine, &mut untagged] {
            machine.set_context(0, context(roots[turn % 2]));
            (0..4).for_each(|page| touch(machine, 0, page));
        }
    }
    assert_eq!(machine.counters(0).walk.walks, 7);
    assert_eq!(untagged.counters(0).walk.walks, 4 + 5 * 3);
}

#[test]
fn a_translation_that_the_guest_has_changed_is_stale() {
    let (mut machine, roots) = machine("baseline", 1);
    machine.set_context(0, context(roots[0]));
    touch(&mut machine, 0, 0);
    // The kernel moved the page, and its flush was not seen.
    let mut os = Os::new();
    os.memory = machine.memory().clone();
    os.map(roots[0], VADDR, 0x700_0000, RW);
    *machine.memory_mut() = os.memory;
    machine.access(0, AccessKind::Read, VADDR, Some(0x700_0000), 4);
    let counters = machine.counters(0);
    assert_eq!(
        (counters.stale, counters.unexplained, counters.walk.walks),
        (2, 0, 2)
    );
    // Tables and access that disagree: counted, kept for a look, and no TLB is filled.
    machine.access(0, AccessKind::Read, VADDR + 0x1000, Some(0x666_0000), 4);
    assert_eq!(machine.counters(0).unexplained, 1);
    assert_eq!(machine.mismatches().len(), 1);
    assert_eq!(
        machine.attempt(0, AccessKind::Read, VADDR + 0x1000),
        Ok(0x100_1000)
    );
}

#[test]
fn every_access_is_compared_when_asked_for() {
    let (mut machine, roots) = machine("baseline", 1);
    machine.check_every_access(true);
    machine.set_context(0, context(roots[0]));
    for _ in 0..5 {
        machine.access(0, AccessKind::Read, VADDR, Some(0x100_0000), 4);
    }
    assert_eq!((machine.checked(), machine.mismatches().len()), (5, 0));
}

#[test]
fn rights_are_checked_for_the_mode_that_runs() {
    let mut os = Os::new();
    let root = os.table();
    os.map(root, VADDR, 0x5000, RO);
    os.map(root, VADDR + 0x1000, 0x6000, 3); // supervisor only
    os.map(root, VADDR + 0x2000, 0x7000, RW | 1 << 63); // no execution
    let mut machine = Machine::new(&Model::builtin("baseline").unwrap(), 1, os.memory).unwrap();
    let mut with = |privilege, kind, page: u64| {
        machine.set_context(
            0,
            Context {
                privilege,
                ..context(root)
            },
        );
        machine.attempt(0, kind, VADDR + page * 0x1000).is_ok()
    };
    use translation::Privilege::{Kernel, User};
    for round in 0..2 {
        assert!(with(User, AccessKind::Read, 0), "round {round}");
        assert!(!with(User, AccessKind::Write, 0));
        assert!(!with(Kernel, AccessKind::Write, 0));
        assert!(with(Kernel, AccessKind::Write, 1));
        assert!(!with(User, AccessKind::Read, 1));
        assert!(with(User, AccessKind::Write, 2));
        assert!(!with(User, AccessKind::Fetch, 2));
        assert!(with(User, AccessKind::Fetch, 0));
    }
    assert_eq!(
        machine.attempt(0, AccessKind::Fetch, VADDR + 0x2000),
        Err(Fault::Protection)
    );
}

#[test]
fn more_address_spaces_than_tags_are_numbered_again() {
    let mut os = Os::new();
    let shared = os.table();
    os.map(shared, VADDR, 0x5000, RW);
    let entry = translation::GuestMemory::read_u64(&os.memory, shared + (VADDR >> 39) * 8).unwrap();
    for number in 0..5000u64 {
        os.memory
            .write_u64(0x8000_0000 + number * 0x1000 + (VADDR >> 39) * 8, entry);
    }
    let mut machine = Machine::new(&Model::builtin("baseline").unwrap(), 2, os.memory).unwrap();
    for number in 0..5000u64 {
        machine.set_context(0, context(0x8000_0000 + number * 0x1000));
        assert_eq!(machine.attempt(0, AccessKind::Read, VADDR), Ok(0x5000));
    }
    assert_eq!(machine.counters(0).walk.walks, 5000);
}

#[test]
fn a_core_that_was_idle_catches_up() {
    let (mut machine, _) = machine("baseline", 2);
    machine.instructions(0, 10_000_000);
    machine.instructions(1, 10);
    assert_eq!(machine.now(1), 10_000_010);
    assert_eq!(machine.counters(1).ticks, 10, "idle time is not counted");
}
