// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a session on an architecture that only this file knows.

use super::*;
use crate::arch::op::{Exact, Op, Operand, Pages, Reach, Scope, SystemRegister, Tags};
use crate::arch::{FaultEntry, Flushes, Linux, UserMode, Walk};
use crate::block::Site;
use crate::ram::Layout;
use crate::regions::Counting;
use std::cell::Cell;
use std::rc::Rc;
use translation::audit::Habits;
use translation::format::Format;
use translation::tlbi::{Drop, Tables};
use translation::{Context, Member, abi};

static ROOT: SystemRegister = SystemRegister {
    name: "root",
    write: |mmu, value| {
        mmu.context.root = value;
        mmu.context.paging = true;
        None
    },
};

/// The root of the kernel's half.
static HIGH: SystemRegister = SystemRegister {
    name: "high",
    write: |mmu, value| {
        mmu.context.root_high = value;
        None
    },
};

static MADE_UP: Arch = DESCRIPTION;
/// The same, without a known kernel.
static UNKNOWN_KERNEL: Arch = Arch {
    linux: None,
    ..DESCRIPTION
};

/// The same with the tables of x86-64, and with a root that drops all when it is written.
static AUDITED: Arch = Arch {
    page_tables: "x86-64",
    flushes: Some(Flushes {
        written: |_, _, _| Some(Drop::ALL),
        fault_drops: true,
        address: u64::MAX,
        habits: Habits {
            young: |_, _| None,
            group: 0,
            last: u64::MAX,
        },
    }),
    ..DESCRIPTION
};

/// The tables of the kernel in [`ISOLATED`], and those that it sets for user mode.
const KERNEL_TABLES: u64 = 0x7000;
const USER_TABLES: u64 = 0x6000;

/// The same as [`AUDITED`], with a kernel whose memory only [`KERNEL_TABLES`] have, at the lowest 24
/// bits of its addresses.
static ISOLATED: Arch = Arch {
    page_tables: AUDITED.page_tables,
    flushes: Some(Flushes {
        written: |_, _, _| None,
        fault_drops: false,
        address: u64::MAX,
        habits: Habits {
            young: |_, _| None,
            group: 0,
            last: u64::MAX,
        },
    }),
    walk: |context, vaddr, _| Walk {
        entries: Vec::new(),
        paddr: (context.root_high == KERNEL_TABLES).then_some(vaddr & 0xff_ffff),
    },
    ..DESCRIPTION
};

const DESCRIPTION: Arch = Arch {
    name: "made-up",
    general: &["a", "b"],
    pc: "pc",
    stack: "stack",
    mark_argument: 1,
    word: 8,
    system: &["mode", "area"],
    user_mode: UserMode {
        register: "mode",
        mask: 6,
        value: 4,
    },
    linux: Some(Linux {
        area: "area",
        kernel_area: "area",
        current: "running",
        faults: &[FaultEntry {
            symbol: "fault",
            read: |cpu| (AccessKind::Write, cpu.named("at")),
        }],
        taken_off: 16,
    }),
    flushes: None,
    page_tables: "made-up",
    // Physical is virtual plus a megabyte.
    walk: |_, vaddr, _| Walk {
        entries: Vec::new(),
        paddr: Some(vaddr + 0x10_0000),
    },
    layout: Layout {
        base: 0,
        low: u64::MAX,
        high: 0,
    },
    kernel: 1 << 40,
    decode: |bytes| match *bytes {
        [1, from] => Some(Op::Write { to: &ROOT, from }),
        [6, from] => Some(Op::Write { to: &HIGH, from }),
        [2, register] => Some(Op::Invalidate {
            scope: Scope::Exact,
            reach: Reach::Machine,
            exact: Exact {
                tags: Tags::Every,
                pages: Pages::At(Operand::Page {
                    register,
                    shift: 0,
                    mask: !0xfff,
                }),
                tables: Tables::Above,
                reach: Reach::Machine,
            },
        }),
        [3] => Some(Op::Return),
        [4, code] => Some(Op::Mark(code.into())),
        [5] => Some(Op::Halt),
        [6] => Some(Op::UnknownFlush(6)),
        _ => None,
    },
    registers: |block| vec![Instruction::default(); block.len()],
};

/// The memory holds the running task and nothing else.
#[derive(Default)]
struct Registers {
    general: [Cell<u64>; 2],
    stack: Cell<u64>,
}

impl Cpu for Rc<Registers> {
    fn general(&self, number: u8) -> u64 {
        self.general[usize::from(number)].get()
    }

    fn named(&self, name: &str) -> u64 {
        match name {
            "pc" => 0x5000,
            "stack" => self.stack.get(),
            // User mode: the bits of the mask 6 are 4.
            "mode" => 5,
            "area" => 0x100_0000,
            "at" => 0x7008,
            _ => panic!("{name} is not listed"),
        }
    }

    fn memory(&self, vaddr: u64, to: &mut [u8]) -> bool {
        let word: u64 = match vaddr {
            // The pointer to the task; pid and tgid; comm.
            0x100_0010 => 0x200_0000,
            0x200_0038 => 300 << 32 | 301,
            0x200_0080 => u64::from_le_bytes(*b"tester\0\0"),
            _ => return false,
        };
        to.fill(0);
        to[..8].copy_from_slice(&word.to_le_bytes());
        true
    }
}

/// A core whose memory QEMU does not read by address, as that of ARM while user code runs.
struct Unreadable(Rc<Registers>);

impl Cpu for Unreadable {
    fn general(&self, number: u8) -> u64 {
        self.0.general(number)
    }

    fn named(&self, name: &str) -> u64 {
        self.0.named(name)
    }

    fn memory(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

fn session() -> (Session, Rc<Registers>) {
    let args = Args {
        check: true,
        ..Args::default()
    };
    let mut session = Session::new(args, &MADE_UP, 2).unwrap();
    let registers = Rc::new(Registers::default());
    session.cpu = Some(Box::new(registers.clone()));
    session.kernel = Some(Kernel {
        faults: vec![(0x9000, &MADE_UP.linux.as_ref().unwrap().faults[0])],
        current: 0x10,
        comm: 0x80,
        real_parent: 0x40,
        word: 8,
    });
    session.checker = Some(Checker::new(MADE_UP.walk, Ram::over(&[], MADE_UP.layout)));
    (session, registers)
}

/// Executes one instruction of the made-up architecture.
fn execute(session: &mut Session, vaddr: u64, bytes: &[u8]) {
    let what = session.event(vaddr, bytes).expect("it is watched");
    session.event_at(&Site {
        what,
        next: vaddr + bytes.len() as u64,
    });
}

#[test]
fn an_architecture_needs_nothing_but_its_own_description() {
    let (mut session, registers) = session();
    assert!(session.event(0, &[7]).is_none());

    // WHEN a root is written and the mark `warm` is passed THEN the core translates by that root.
    registers.general[0].set(0x4000);
    execute(&mut session, 0, &[1, 0]);
    execute(&mut session, 2, &[4, 6]);
    let context = Context {
        paging: true,
        root: 0x4000,
        ..Context::default()
    };
    assert_eq!(session.cores[0].mmu.context, context);
    assert!(session.active());

    // WHEN user code runs that was translated at another address THEN it is where the program
    // counter says, is checked by the architecture's walk, and its process is known.
    let mut block = session.block(0x3000, 0);
    block.paddr = Some(0x10_5000);
    session.fetch(&mut block);
    assert_eq!(block.vaddr, 0x5000);
    let verdict = session.checker.as_ref().unwrap().verdict(&(0, Vec::new()));
    assert_eq!((verdict.checked, verdict.wrong), (1, 0));
    let [process] = &session.processes.list()[..] else {
        panic!("{:?}", session.processes);
    };
    assert_eq!((process.process, process.name.as_str()), (300, "tester"));
    assert_eq!(session.cores[0].mmu.context.privilege, Privilege::User);

    // WHEN the fault's entry runs and a return takes its frame THEN it is over, and not before.
    run_kernel(&mut session);
    registers.stack.set(0x8000);
    execute(&mut session, 0x9000, &[7]);
    assert_eq!(session.output.page_faults, 1);
    registers.stack.set(0x8008);
    execute(&mut session, 0x9004, &[3]);
    assert_eq!(session.cores[0].faults, [0x8000]);
    registers.stack.set(0x8010);
    execute(&mut session, 0x9008, &[3]);
    assert!(session.cores[0].faults.is_empty());
}

#[test]
fn an_invalidation_of_user_pages_on_every_core_renews_every_space() {
    let (mut session, registers) = session();
    for root in [0x4000, 0x6000] {
        registers.general[0].set(root);
        execute(&mut session, 0, &[1, 0]);
    }
    let spaces = |session: &Session| [0, 1].map(|core| session.cores[core].space);
    let before = spaces(&session);
    // A kernel page: code in user space stays where it is.
    registers.general[1].set(MADE_UP.kernel);
    execute(&mut session, 2, &[2, 1]);
    assert_eq!(spaces(&session), before);
    registers.general[1].set(0x1000);
    execute(&mut session, 2, &[2, 1]);
    let after = spaces(&session);
    assert!(
        before
            .iter()
            .zip(after)
            .all(|(before, after)| *before != after)
    );
}

#[test]
fn tables_of_no_process_end_no_fault_and_are_no_new_process() {
    let (mut session, registers) = session();
    let write = |session: &mut Session, root: u64| {
        registers.general[0].set(root);
        execute(session, 0, &[1, 0]);
        (session.cores[0].ask, session.cores[0].faults.len())
    };
    session.cores[0].mmu.context.root_high = 0x7000;
    assert_eq!(write(&mut session, 0x4000), (true, 0));
    session.cores[0].ask = false;
    session.cores[0].faults.push(0x8000);
    assert_eq!(write(&mut session, 0x7000), (false, 1));
    assert_eq!(write(&mut session, 0x4000), (false, 1));
    assert_eq!(write(&mut session, 0x7000), (false, 1));
    assert_eq!(write(&mut session, 0x6000), (true, 0));
    // A flush for one core reaches that one.
    assert_eq!(session.reached(1, Reach::Core), 1..2);
    assert_eq!(session.reached(1, Reach::Machine), 0..2);
}

#[test]
fn a_kernel_is_refused_where_the_architecture_knows_none() {
    let args = || Args {
        kernel: Some("/nonexistent/vmlinux".into()),
        ..Args::default()
    };
    let Err(error) = Session::new(args(), &UNKNOWN_KERNEL, 1) else {
        panic!("it was taken");
    };
    assert!(error.to_string().contains("leave it out"), "{error}");
    let Err(error) = Session::new(args(), &MADE_UP, 1) else {
        panic!("it was taken");
    };
    assert!(error.to_string().contains("cannot read"), "{error}");
}

/// The words of tables from 0x1000 on, which map the page of the program counter at 0x8000.
fn tables() -> Vec<u64> {
    let mut words = vec![0; 0x9000 / 8];
    for table in 1..4 {
        words[table * 512] = (table as u64 + 1) << 12 | 7;
    }
    words[LEAF] = 0x8000 | 7;
    words
}

/// The word of the last table that maps the page.
const LEAF: usize = 4 * 512 + 5;
/// In the second function of `alphabet`.
const CODE: u64 = 0xffff_ffff_8100_2010;

/// A session that audits, in user code that has just been fetched.
fn audited(words: &[u64]) -> (Session, Rc<Registers>) {
    audited_by("x86-64", words)
}

/// The same with tables of this format.
fn audited_by(format: &str, words: &[u64]) -> (Session, Rc<Registers>) {
    let (mut session, registers) = session();
    session.checker = None;
    let ram = Ram::over(words, MADE_UP.layout);
    session.auditor = Some(Auditor::with(
        &AUDITED,
        AUDITED.flushes.as_ref().unwrap(),
        ram,
        Format::builtin(format).unwrap(),
        Some(crate::symbols::tests::alphabet(5)),
        2,
    ));
    registers.general[0].set(0x1000);
    execute(&mut session, CODE, &[1, 0]);
    execute(&mut session, CODE, &[4, 6]);
    run_user(&mut session);
    (session, registers)
}

fn run_user(session: &mut Session) {
    let mut block = session.block(0x3000, 0);
    block.instructions = 10;
    block.paddr = Some(0x8000);
    session.fetch(&mut block);
}

fn run_kernel(session: &mut Session) {
    let mut block = session.block(CODE, 0);
    block.instructions = 10;
    session.fetch(&mut block);
}

#[test]
fn a_page_that_is_taken_without_a_flush_is_found_when_its_task_returns() {
    let mut words = tables();
    let (mut session, _registers) = audited(&words);
    let verdict = |session: &Session| session.auditor.as_ref().unwrap().verdict();
    assert_eq!(verdict(&session).filled, 1);

    // GIVEN the kernel clears the entry WHEN it is still at work THEN nothing is wrong.
    run_kernel(&mut session);
    words[LEAF] = 0;
    session.access(0, MADE_UP.kernel, LEAF as u64 * 8, 8, true);
    run_kernel(&mut session);
    assert_eq!(
        (verdict(&session).changes, verdict(&session).audits),
        (1, 0)
    );

    // WHEN it returns THEN a flush is missing, and its place and the entry are named.
    run_user(&mut session);
    let found = verdict(&session);
    assert_eq!((found.audits, found.compared, found.missing), (1, 1, 1));
    let [finding] = &found.findings[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (finding.function.as_str(), finding.kind.as_str()),
        ("b", "page that is gone")
    );
    for words in [
        "core 0 in user mode (tester) holds for 0x5000, 4 KB, the page 0x8000",
        "(read, execute)",
        "the tables at 0x1000 give nothing",
        "changed in b+0x10 on core 0, 20 instructions ago",
    ] {
        assert!(finding.first.contains(words), "{}", finding.first);
    }
}

#[test]
fn an_entry_beside_one_of_another_size_is_reported_at_once() {
    // Of the user, accessed, not global.
    const BITS: u64 = 1 | 1 << 6 | 1 << 10 | 1 << 11;
    for flushed in [false, true] {
        let mut words = tables();
        words[LEAF] = 0x8000 | BITS | 2;
        let (mut session, _registers) = audited_by("armv8-4k", &words);
        // GIVEN the kernel puts a block in the place of a table WHEN it uses another page of it
        run_kernel(&mut session);
        let above = 3 * 512;
        words[above] = BITS;
        session.access(0, MADE_UP.kernel, above as u64 * 8, 8, true);
        if flushed {
            execute(&mut session, CODE, &[1, 0]);
        }
        session.access(0, 0x6000, 0x6000, 8, false);
        // THEN both entries and the place are named.
        let found = session.auditor.as_ref().unwrap().verdict();
        assert_eq!((found.filled, found.missing), (2, u64::from(!flushed)));
        if flushed {
            continue;
        }
        let finding = &found.findings[0];
        assert_eq!(
            (finding.function.as_str(), finding.kind.as_str()),
            ("b", "entry beside one of another size")
        );
        for words in [
            "core 0 in the kernel (tester) holds for 0x5000, 4 KB, the page 0x8000",
            "and beside it for 0x0, 2048 KB, the page 0x0 (read, write, execute)",
            "changed in b+0x10 on core 0, ",
            "that core has flushed nothing",
        ] {
            assert!(finding.first.contains(words), "{}", finding.first);
        }
    }
}

#[test]
fn a_spurious_fault_is_counted_for_its_place_and_its_task() {
    // GIVEN a page that may be read WHEN the kernel lets it be written, and it is
    let mut words = tables();
    words[LEAF] = 0x8000 | 0x65;
    let (mut session, _registers) = audited(&words);
    let write = |session: &mut Session| session.access(0, 0x5008, 0x8008, 8, true);
    run_kernel(&mut session);
    words[LEAF] = 0x8000 | 0x67;
    session.access(0, MADE_UP.kernel, LEAF as u64 * 8, 8, true);
    run_user(&mut session);
    write(&mut session);
    write(&mut session);
    // THEN a processor would have faulted once, for what that function did.
    let found = session.auditor.as_ref().unwrap().verdict();
    assert_eq!((found.spurious, found.missing), (1, 0));
    let [place] = &found.spurious_places[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (place.function.as_str(), place.task.as_str(), place.count),
        ("b", "tester", 1)
    );
}

#[test]
fn a_page_that_is_taken_with_a_flush_is_right() {
    for bytes in [&[1, 0][..], &[2, 1]] {
        let mut words = tables();
        let (mut session, registers) = audited(&words);
        registers.general[1].set(0x5000);
        run_kernel(&mut session);
        words[LEAF] = 0;
        session.access(0, MADE_UP.kernel, LEAF as u64 * 8, 8, true);
        execute(&mut session, CODE, bytes);
        words[LEAF] = 0x8000 | 7;
        run_user(&mut session);
        let found = session.auditor.as_ref().unwrap().verdict();
        assert_eq!((found.changes, found.missing, found.filled), (1, 0, 2));
    }
}

#[test]
fn a_task_is_known_in_user_mode_though_the_kernel_has_other_tables_there() {
    // GIVEN the running task at 0x200_0000, which the kernel's tables alone have
    let mut words = tables();
    words[0x10 / 8] = 0x200_0000;
    words[0x38 / 8] = 300 << 32 | 301;
    words[0x80 / 8] = u64::from_le_bytes(*b"tester\0\0");
    let ram = Ram::over(&words, MADE_UP.layout);
    let (mut session, registers) = session();
    session.checker = None;
    session.arch = &ISOLATED;
    session.cpu = Some(Box::new(Unreadable(registers.clone())));
    session.ram = Some(ram);
    session.auditor = Some(Auditor::with(
        &ISOLATED,
        ISOLATED.flushes.as_ref().unwrap(),
        ram,
        Format::builtin("x86-64").unwrap(),
        Some(crate::symbols::tests::alphabet(5)),
        2,
    ));
    let turn_to = |session: &mut Session, tables: u64| {
        registers.general[0].set(tables);
        execute(session, CODE, &[6, 0]);
    };
    registers.general[0].set(0x1000);
    execute(&mut session, CODE, &[1, 0]);
    execute(&mut session, CODE, &[4, 6]);

    // WHEN user code runs by the other tables THEN its process is known.
    turn_to(&mut session, KERNEL_TABLES);
    turn_to(&mut session, USER_TABLES);
    run_user(&mut session);
    assert_eq!(session.processes.list()[0].name, "tester");

    // WHEN the kernel clears an entry and returns THEN the task has returned: nothing is waited for.
    turn_to(&mut session, KERNEL_TABLES);
    run_kernel(&mut session);
    words[LEAF] = 0;
    session.access(0, MADE_UP.kernel, LEAF as u64 * 8, 8, true);
    turn_to(&mut session, USER_TABLES);
    run_user(&mut session);
    let found = session.auditor.as_ref().unwrap().verdict();
    assert_eq!((found.changes, found.missing), (1, 1));
    assert_eq!(session.cores[1].kernel_root, None);
}

#[test]
fn a_flush_that_is_not_known_is_counted_where_the_kernel_executes_it() {
    let words = tables();
    let (mut session, _registers) = audited(&words);
    execute(&mut session, 0x3000, &[6]);
    run_kernel(&mut session);
    execute(&mut session, CODE, &[6]);
    let found = session.auditor.as_ref().unwrap().verdict().unknown_flushes;
    assert_eq!(found, [("0x00000006".to_string(), 1)].into());
}

#[test]
fn an_audit_is_refused_where_the_architecture_has_no_rules_for_it() {
    let ram = Ram::over(&[], MADE_UP.layout);
    let Err(error) = Auditor::new(&MADE_UP, 1, ram, None) else {
        panic!("it was taken");
    };
    assert!(error.to_string().contains("made-up guests"), "{error}");
}

/// Words from 0x1000 on that [`tables`] leaves free: BabelFish's two processes of CCID 9, whose tables
/// at 0x1000 and 0x6000 lead to the same last one.
fn babelfish() -> Vec<u64> {
    let mut words = tables();
    let head = u64::from(abi::VERSION) << 32 | u64::from(abi::SPACE_MAGIC);
    for (number, at) in [0x200, 0x300].into_iter().enumerate() {
        let ids = (number as u64 + 1) << 32 | 9;
        words[at / 8..at / 8 + 3].copy_from_slice(&[head, ids, 0]);
    }
    words[0x6000 / 8] = words[0x1000 / 8];
    // Bit 10 of the entry above the leaf: the table is shared.
    words[0x3000 / 8] |= 1 << 10;
    words
}

#[test]
fn marks_of_the_kernel_are_obeyed_and_those_of_programs_are_not() {
    let words = babelfish();
    let ram = Ram::over(&words, MADE_UP.layout);
    let (_, registers) = session();
    let args = Args {
        model: Some("babelfish-kernel".into()),
        ..Args::default()
    };
    let mut session = Session::new(args, &AUDITED, 2).unwrap();
    session.cpu = Some(Box::new(registers.clone()));
    session.ram = Some(ram);
    session.engine.start(ram).unwrap();
    let mark = |session: &mut Session, at: u64, code: u8, argument: u64| {
        registers.general[1].set(argument);
        execute(session, at, &[4, code]);
    };
    let run = |session: &mut Session, root: u64, space: u64| {
        registers.general[0].set(root);
        execute(session, CODE, &[1, 0]);
        mark(session, CODE, 8, space);
        run_user(session);
    };
    let fish = |session: &Session| {
        let total = session.engine.report().unwrap().total;
        (total.walks, total.mechanisms.babelfish.shared_fills)
    };
    // GIVEN a mark before the run is active THEN it is not lost.
    mark(&mut session, CODE, 8, 0x200);
    assert_eq!(session.cores[0].member.pid, 1);
    execute(&mut session, CODE, &[4, 6]);
    run(&mut session, 0x1000, 0x200);
    assert_eq!(fish(&session), (1, 1));
    // WHEN the other process runs THEN it uses what the first one's walk has found.
    run(&mut session, 0x6000, 0x300);
    assert_eq!(fish(&session), (1, 1));
    // WHEN the kernel has entries dropped THEN they are, and not when a program tries.
    let user = 0x3000;
    for (at, code, argument, left) in [
        (user, 9, 9 << 52 | 0x5000, 1.0),
        (user, 10, 9, 1.0),
        (CODE, 9, 8 << 52 | 0x5000, 1.0),
        (CODE, 9, 9 << 52 | 0x6000, 1.0),
        (CODE, 9, 9 << 52 | 0x5000, 0.0),
        (CODE, 9, 9 << 52 | 0x4000 | 1, 0.0),
        (CODE, 10, 10, 1.0),
        (CODE, 10, 9, 0.0),
    ] {
        registers.general[1].set(0x5000);
        execute(&mut session, CODE, &[2, 1]);
        run(&mut session, 0x1000, 0x200);
        mark(&mut session, at, code, argument);
        let census = session.engine.census();
        let entries = census.iter().find(|metric| metric.name == "tlb-entries");
        assert_eq!(entries.unwrap().value, left, "mark {code}, {argument:#x}");
    }
    // A program that says what runs is not heard either.
    mark(&mut session, user, 8, 0x300);
    assert_eq!(session.cores[0].member.pid, 1);
    // WHEN a core halts THEN it is not at work in the kernel, until it wakes.
    run_kernel(&mut session);
    let privilege = |session: &Session| session.cores[0].mmu.context.privilege;
    assert_eq!(privilege(&session), Privilege::Kernel);
    execute(&mut session, CODE, &[5]);
    assert_eq!(privilege(&session), Privilege::Unknown);
    run_kernel(&mut session);
    assert_eq!(privilege(&session), Privilege::Kernel);
    // What is not a process of this format is an unknown mark, and shares nothing.
    assert_eq!(session.output.unknown_marks, 0);
    mark(&mut session, CODE, 8, 0x400);
    assert_eq!(session.output.unknown_marks, 1);
    assert_eq!(session.cores[0].member, Member::default());
}
