// SPDX-License-Identifier: GPL-2.0-or-later
//! Traces: what was recorded comes back, and what is not a trace is refused.

use crate::os::context;
use crate::properties::{CORES, Dice, Kind, World, address};
use translation::trace::{
    Header, Reader, Recorder, TraceError, VERSION, replay, replay_interleaved,
};
use translation::{
    AccessKind, Invalidation, Machine, Mark, Member, Model, Op, Segment, Sink, SparseMemory,
};

/// Two sinks at once.
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

macro_rules! both {
    ($($name:ident($($arg:ident: $kind:ty),*);)*) => {
        impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
            $(fn $name(&mut self, $($arg: $kind),*) {
                self.0.$name($($arg),*);
                self.1.$name($($arg),*);
            })*
        }
    };
}

both! {
    instructions(core: usize, count: u64);
    define(block: u32, code: &[Op]);
    execute(core: usize, block: u32);
    at(core: usize, instruction: u32);
    access(core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32);
    fault(core: usize, kind: AccessKind, vaddr: u64);
    fault_done(core: usize);
    set_context(core: usize, context: translation::Context);
    set_identity(root: u64, identity: translation::Identity);
    set_segments(root: u64, segments: &[Segment]);
    set_member(core: usize, member: &Member);
    private_copy(root: u64, vaddr: u64);
    retire(root: u64);
    invalidate(core: usize, what: Invalidation);
    mark(core: usize, mark: Mark);
}

fn header() -> Header {
    let page_tables = "x86-64".to_owned();
    Header {
        cores: CORES,
        page_tables,
        about: "a test, \"quoted\"\n".to_owned(),
    }
}

/// Blocks of code of a run.
const BLOCKS: usize = 9;

fn block(dice: &mut Dice) -> Vec<Op> {
    let set = |dice: &mut Dice| match dice.below(4) {
        0 => 0,
        1 => 1 << 63 | 1 << dice.below(64),
        _ => 1 << dice.below(8),
    };
    let op = |dice: &mut Dice| Op {
        address: set(dice),
        reads: set(dice),
        writes: set(dice),
        loads: dice.below(2) == 0,
        stores: dice.below(3) == 0,
    };
    (0..1 + dice.below(12)).map(|_| op(dice)).collect()
}

/// The loads of a block's instructions one after the other, as a program makes them.
fn in_order(sink: &mut impl Sink, core: usize, block: &[Op], vaddr: u64) {
    for (number, op) in block.iter().enumerate() {
        if op.loads {
            sink.at(core, number as u32);
            sink.access(core, AccessKind::Read, vaddr & !7, None, 8);
        }
    }
}

/// A run of a small kernel, given to a sink; every event occurs.
fn drive(sink: &mut impl Sink, world: &mut World, steps: usize) {
    world.boot(sink);
    let mut dice = Dice(99);
    let mut blocks = vec![Vec::new(); BLOCKS];
    for step in 0..steps {
        let core = dice.below(CORES);
        let number = dice.below(BLOCKS);
        if step < BLOCKS || step % 5_000 == 0 {
            let number = if step < BLOCKS { step } else { number };
            blocks[number] = block(&mut dice);
            sink.define(number as u32, &blocks[number]);
        }
        let coded = step >= BLOCKS && dice.below(2) == 0;
        match coded {
            true => sink.execute(core, number as u32),
            false => sink.instructions(core, [1, 3, 64, 65, 100_000][dice.below(5)]),
        }
        if dice.below(5) == 0 {
            world.running[core] = dice.below(8);
            sink.set_context(core, context(world.roots[world.running[core]]));
        }
        let process = world.running[core];
        let (region, page) = (dice.below(3), dice.below(6));
        let vaddr = address(region, page) + dice.below(4000) as u64;
        let (frame, present, writable) = world.truth(process, vaddr);
        if !present {
            sink.fault(core, AccessKind::Read, vaddr);
            world.fault_in(process, region, page);
            sink.instructions(core, 900);
            sink.fault_done(core);
        } else if !writable && dice.below(50) == 0 {
            sink.fault(core, AccessKind::Write, vaddr);
            world.copy_on_write(sink, process, region, page);
            sink.fault_done(core);
        } else {
            let kind = match dice.below(4) {
                0 => AccessKind::Fetch,
                1 if writable => AccessKind::Write,
                _ => AccessKind::Read,
            };
            let size = [1, 2, 4, 8, 16, 64, 24, 77][dice.below(8)];
            let paddr = (dice.below(10) > 0).then_some(frame | vaddr & 0xfff);
            if coded && kind != AccessKind::Fetch && dice.below(10) > 0 {
                // Any instruction, whatever its block says of it; the number behind the last is none.
                sink.at(core, dice.below(blocks[number].len() + 1) as u32);
            }
            sink.access(core, kind, vaddr, paddr, size);
            if coded && kind != AccessKind::Fetch {
                in_order(sink, core, &blocks[number], vaddr);
            }
        }
        match step % 1000 {
            100 => sink.mark(
                core,
                Mark::RequestBegin {
                    id: step as u64 / 1000,
                },
            ),
            900 => sink.mark(
                core,
                Mark::RequestEnd {
                    id: step as u64 / 1000,
                },
            ),
            500 if step == 500 => sink.mark(core, Mark::Start),
            600 => sink.invalidate(core, Invalidation::Page { vaddr }),
            700 => sink.invalidate(core, Invalidation::AllButGlobal),
            750 => sink.invalidate(core, Invalidation::SharedPage { vaddr, cohort: 1 }),
            800 => sink.retire(world.roots[7]),
            _ => {}
        }
    }
    sink.mark(0, Mark::Stop);
}

fn record(kind: Kind, steps: usize) -> Vec<u8> {
    let mut world = World::new(kind);
    let mut recorder = Recorder::new(&header(), world.memory.clone(), Vec::new()).unwrap();
    drive(&mut recorder, &mut world, steps);
    recorder.finish().unwrap()
}

#[test]
fn a_replay_gives_the_figures_of_the_run() {
    for kind in [Kind::Paper, Kind::Cohort, Kind::Stock] {
        for name in ["babelfish-isca20", "baseline", "zen4"] {
            let model = Model::builtin(name).unwrap();
            let mut world = World::new(kind);
            let mut machine = Machine::new(&model, CORES, world.memory.clone()).unwrap();
            let memory = world.memory.clone();
            let mut recorder = Recorder::new(&header(), memory, Vec::new()).unwrap();
            drive(&mut Both(&mut machine, &mut recorder), &mut world, 40_000);
            let trace = recorder.finish().unwrap();
            let mut again = Machine::new(&model, CORES, SparseMemory::new()).unwrap();
            let reader = Reader::new(trace.as_slice()).unwrap();
            assert_eq!(reader.header(), &header());
            let accesses = replay(reader, &mut again).unwrap();
            let report = machine.report();
            assert_eq!(again.report(), report, "{kind:?} {name}");
            assert_eq!(report.total.unexplained, 0);
            assert!(accesses > 30_000 && report.requests.count > 30);
        }
    }
}

/// A sink that only counts calls.
#[derive(Default)]
struct Calls(u64);

macro_rules! calls {
    ($($name:ident($($kind:ty),*);)*) => {
        impl Sink for Calls {
            $(fn $name(&mut self, $(_: $kind),*) {
                self.0 += 1;
            })*
        }
    };
}

calls! {
    instructions(usize, u64);
    define(u32, &[Op]);
    execute(usize, u32);
    at(usize, u32);
    access(usize, AccessKind, u64, Option<u64>, u32);
    fault(usize, AccessKind, u64);
    fault_done(usize);
    set_context(usize, translation::Context);
    set_identity(u64, translation::Identity);
    set_segments(u64, &[Segment]);
    set_member(usize, &Member);
    private_copy(u64, u64);
    retire(u64);
    invalidate(usize, Invalidation);
    mark(usize, Mark);
}

fn play(bytes: &[u8]) -> Result<u64, TraceError> {
    Reader::new(bytes)?.play(&mut Calls::default(), |_, _, _| {})
}

#[test]
fn a_truncated_trace_is_refused_wherever_it_is_cut() {
    let trace = record(Kind::Cohort, 300);
    play(&trace).unwrap();
    for length in 0..trace.len() {
        let error = play(&trace[..length]).expect_err("it was cut");
        match length {
            0..8 => assert!(matches!(error, TraceError::Foreign), "{length}: {error}"),
            _ => assert!(
                matches!(error, TraceError::Truncated { at, .. } if at == length as u64),
                "{length}: {error}"
            ),
        }
    }
    // Cut between two blocks, a longer one.
    let long = record(Kind::Cohort, 100_000);
    let length = long.len() - 16;
    assert!(matches!(
        play(&long[..length]),
        Err(TraceError::Truncated { at, .. }) if at == length as u64
    ));
}

#[test]
fn a_damaged_trace_is_refused_whatever_bit_is_wrong() {
    let trace = record(Kind::Cohort, 60);
    for byte in 0..trace.len() {
        for bit in [0, 3, 7] {
            let mut bad = trace.clone();
            bad[byte] ^= 1 << bit;
            assert!(play(&bad).is_err(), "byte {byte}, bit {bit}");
        }
    }
    let mut longer = trace.clone();
    longer.push(0);
    let error = play(&longer).unwrap_err().to_string();
    assert!(error.contains("something follows its end"), "{error}");
}

#[test]
fn a_foreign_file_and_another_version_are_named() {
    let error = play(b"\x7fELF and more than eight bytes")
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a trace"), "{error}");
    let mut newer = record(Kind::Cohort, 10);
    newer[8] = VERSION as u8 + 1;
    let error = play(&newer).unwrap_err().to_string();
    assert!(
        error.contains("version 4") && error.contains("record it anew"),
        "{error}"
    );
}

#[test]
fn a_trace_for_another_machine_is_refused() {
    let trace = record(Kind::Cohort, 10);
    let refused = |model: &str, cores: usize| {
        let model = Model::builtin(model).unwrap();
        let mut machine = Machine::new(&model, cores, SparseMemory::new()).unwrap();
        replay(Reader::new(trace.as_slice()).unwrap(), &mut machine)
            .unwrap_err()
            .to_string()
    };
    assert!(refused("cortex-a9", CORES).contains("armv7-short"));
    assert!(refused("baseline", CORES - 1).contains("3 cores"));
    let mut other = header();
    other.page_tables = "vax".to_owned();
    let error = Recorder::new(&other, SparseMemory::new(), Vec::new())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("vax"), "{error}");
}

#[test]
fn a_disk_that_is_full_is_reported_at_the_end() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut world = World::new(Kind::Stock);
    let mut recorder = Recorder::new(&header(), world.memory.clone(), Full(500)).unwrap();
    drive(&mut recorder, &mut world, 200_000);
    assert!(recorder.error().is_some());
    assert!(matches!(recorder.finish(), Err(TraceError::Io(_))));
}

/// A trace of two cores without paging: each in turn reads its own lines, many at a time.
fn slices(turns: u64, lines: u64) -> Vec<u8> {
    let header = Header {
        cores: 2,
        page_tables: "x86-64".to_owned(),
        about: String::new(),
    };
    let mut recorder = Recorder::new(&header, SparseMemory::new(), Vec::new()).unwrap();
    for turn in 0..turns {
        let core = (turn % 2) as usize;
        for line in 0..lines {
            let paddr = ((core as u64) << 30) | (line * 64);
            recorder.instructions(core, 10);
            recorder.access(core, AccessKind::Read, paddr, Some(paddr), 8);
        }
    }
    recorder.finish().unwrap()
}

#[test]
fn finely_mixed_cores_do_the_same_work_in_another_order() {
    // A shared cache of 1,024 lines, with room for both cores' 400: what is in it does not depend on
    // the turns.
    let text = "name = \"small\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\n[cache]\n\
                l1d = { kb = 4, ways = 2 }\nl2 = { kb = 8, ways = 2 }\nlast = { kb = 64, ways = 16 }\n";
    let model = Model::parse("small", text).unwrap();
    let counted = |trace: &[u8], quantum: Option<u64>| {
        let mut machine = Machine::new(&model, 2, SparseMemory::new()).unwrap();
        let reader = Reader::new(trace).unwrap();
        let accesses = match quantum {
            None => replay(reader, &mut machine).unwrap(),
            Some(quantum) => replay_interleaved(reader, &mut machine, quantum).unwrap(),
        };
        let report = machine.report().total.counters;
        (accesses, report)
    };
    let trace = slices(20, 400);
    let (accesses, coarse) = counted(&trace, None);
    for quantum in [1, 7, 1000] {
        let (mixed_accesses, mixed) = counted(&trace, Some(quantum));
        assert_eq!(mixed_accesses, accesses);
        assert_eq!(mixed.instructions, coarse.instructions);
        assert_eq!((mixed.reads, mixed.unexplained), (coarse.reads, 0));
        // Each core's own caches see its own events in its own order.
        assert_eq!(mixed.cache[1].misses, coarse.cache[1].misses);
        assert_eq!(mixed.cache[3].misses, 800, "all lines of both, once");
    }
    // One core alone is not changed by any quantum.
    let alone = slices(1, 700);
    let (_, plain) = counted(&alone, None);
    assert_eq!(counted(&alone, Some(3)).1, plain);
}

/// A chain of loads through memory, or loads of their own addresses, on pages 0 to 511.
fn chase(sink: &mut impl Sink, chained: bool) {
    let code = [Op {
        address: 1 << u32::from(chained),
        writes: 1 << 1,
        loads: true,
        ..Op::default()
    }];
    sink.set_context(0, context(0x1000));
    sink.define(5, &code);
    for number in 0..2_000u64 {
        let vaddr = (number * 0x1_2345 * 64) & 0x1f_ffff;
        sink.execute(0, 5);
        sink.at(0, 0);
        sink.access(0, AccessKind::Read, vaddr, Some(0x40_0000 + vaddr), 8);
    }
    sink.instructions(0, 1_000);
}

#[test]
fn a_trace_carries_the_registers_and_one_without_them_is_still_read() {
    let mut memory = SparseMemory::new();
    memory.write_u64(0x1000, 0x2000 | 7);
    memory.write_u64(0x2000, 0x3000 | 7);
    memory.write_u64(0x3000, 0x40_0000 | 0x87);
    let model = Model::builtin("baseline").unwrap();
    let replayed = |trace: &[u8]| {
        let mut machine = Machine::new(&model, CORES, SparseMemory::new()).unwrap();
        replay(Reader::new(trace).unwrap(), &mut machine).unwrap();
        machine.counters(0)
    };
    let of = |chained: bool| {
        let mut machine = Machine::new(&model, CORES, memory.clone()).unwrap();
        let mut recorder = Recorder::new(&header(), memory.clone(), Vec::new()).unwrap();
        chase(&mut Both(&mut machine, &mut recorder), chained);
        let trace = recorder.finish().unwrap();
        assert_eq!(replayed(&trace), machine.counters(0));
        (machine.counters(0), trace.len())
    };
    let (chained, size) = of(true);
    let (apart, _) = of(false);
    assert!(chained.ticks > 5 * apart.ticks, "{chained:?} {apart:?}");
    // GIVEN a trace of version 1, which has no blocks THEN it is read, and nothing waits for a result.
    let mut recorder = Recorder::new(&header(), memory.clone(), Vec::new()).unwrap();
    recorder.set_context(0, context(0x1000));
    for number in 0..2_000u64 {
        let vaddr = (number * 0x1_2345 * 64) & 0x1f_ffff;
        recorder.instructions(0, 1);
        recorder.access(0, AccessKind::Read, vaddr, Some(0x40_0000 + vaddr), 8);
    }
    recorder.instructions(0, 1_000);
    let mut old = recorder.finish().unwrap();
    assert_eq!(old[8], VERSION as u8);
    // The code is there once, its number costs a byte more than the count, and whose access it is
    // costs nothing.
    assert!(size < old.len() + 3_000, "{size} {}", old.len());
    old[8] = 1;
    let end = 14 + u32::from_le_bytes(old[10..14].try_into().unwrap()) as usize;
    let checksum = crc32fast::hash(&old[14..end]);
    old[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    let old = replayed(&old);
    assert_eq!((old.reads, old.tlb), (chained.reads, chained.tlb));
    assert_eq!(old.dependence_stall, 0);
    assert!(old.ticks <= apart.ticks + apart.ticks / 20);
}

#[test]
fn cycles_lie_between_those_of_the_two_bounds_on_dependences() {
    let mut memory = SparseMemory::new();
    memory.write_u64(0x1000, 0x2000 | 7);
    memory.write_u64(0x2000, 0x3000 | 7);
    memory.write_u64(0x3000, 0x40_0000 | 0x87);
    let of = |change: &str, chained: bool| {
        let text = format!(
            "name = \"a\"\nabout = \"a\"\nbase = \"baseline\"\nsources = \"a test\"\n[core]\n{change}\n"
        );
        let model = Model::parse("a", &text).unwrap();
        let mut machine = Machine::new(&model, CORES, memory.clone()).unwrap();
        chase(&mut machine, chained);
        machine.counters(0)
    };
    let (as_is, waiting) = (of("", true), of("rob = 0", true));
    let free = of("dependences = false", true);
    // WHEN nothing waits for a register THEN a chain costs what loads of their own addresses cost.
    assert_eq!(free.ticks, of("", false).ticks);
    assert_eq!(free.dependence_stall, 0);
    // WHEN every miss waits THEN registers matter next to nothing: only a hit's time is left.
    assert!(waiting.ticks - of("rob = 0", false).ticks < waiting.ticks / 100);
    assert!(free.ticks < as_is.ticks && as_is.ticks <= waiting.ticks + waiting.ticks / 20);
    // What is counted is the same.
    assert_eq!(
        (free.instructions, free.reads, free.tlb),
        (as_is.instructions, as_is.reads, as_is.tlb)
    );
    assert_eq!((free.cache, waiting.cache), (as_is.cache, as_is.cache));
}
