// SPDX-License-Identifier: GPL-2.0-or-later
//! Cycles beside ChampSim's on the same instructions: `cargo run --release -p translation --example
//! peer_cycles`. With a folder as argument it also writes the streams there as ChampSim reads them.
//!
//! ChampSim's cycles are of commit 2ff2501 with the same structures (`MACHINE` below; its other queues as it
//! ships them), one core, no warm-up, and its page walker mended: as shipped each leaf entry has a page of its
//! own, and a hit in the page-walk cache reads one entry twice.
//!
//! Each stream is made here from a fixed seed. A load or store is followed by three instructions
//! that depend on nothing. Code has sixteen instructions a line, two of them loads.

use std::collections::HashMap;
use std::io::Write;
use translation::{AccessKind, Context, Machine, Model, Op, Sink, SparseMemory};

/// ChampSim's structures, as far as a description names them.
const MACHINE: &str = r#"
name = "champsim"
about = "the structures that ChampSim was given"
base = "baseline"
sources = "given to ChampSim"
core = { clock_mhz = 2000, issue_width = 2, rob = 128, walkers = 8, fetch_ahead = 128, stores = 72 }
walk_cache = { tag = "virtual", entries = 16, ways = 4, cycles = 1 }

[cache]
walker_enters = "l1d"
last = { kb = 2048, ways = 16, cycles = 32, mshrs = 128 }

[memory]
refresh_ns = 3906
"#;

const ACCESSES: usize = 100_000;
const DATA: u64 = 0x7f00_0000_0000;
const CODE: u64 = 0x5555_5555_4000;

/// One instruction of a stream.
#[derive(Clone, Copy, Default)]
struct Instruction {
    ip: u64,
    load: Option<u64>,
    store: Option<u64>,
    /// Registers from 1; 0 is none.
    from: u8,
    to: u8,
}

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    fn shuffled(&mut self, count: u64) -> Vec<u64> {
        let mut list: Vec<u64> = (0..count).collect();
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u64 + 1) as usize);
        }
        list
    }
}

/// Things that are asked for as Zipf's law says: the n-th as often as 1/n^s.
struct Zipf {
    sums: Vec<f64>,
    names: Vec<u64>,
}

impl Zipf {
    fn new(dice: &mut Dice, count: u64, s: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|n| {
            sum += (n as f64).powf(-s);
            sum
        });
        Self {
            sums: sums.collect(),
            names: dice.shuffled(count),
        }
    }

    fn draw(&self, dice: &mut Dice) -> u64 {
        let last = self.sums.last().copied().unwrap_or_default();
        let at = dice.next() as f64 / (1u64 << 53) as f64 * last;
        let place = self.sums.partition_point(|&sum| sum < at);
        self.names[place.min(self.names.len() - 1)]
    }
}

/// Accesses, each with three instructions behind it.
fn data(addresses: impl Iterator<Item = (u64, bool)>, chained: bool) -> Vec<Instruction> {
    let mut list = Vec::new();
    for (vaddr, store) in addresses {
        let register = u8::from(chained);
        list.push(Instruction {
            ip: CODE,
            load: (!store).then_some(vaddr),
            store: store.then_some(vaddr),
            from: register,
            to: register,
        });
        for number in 1..4 {
            list.push(Instruction {
                ip: CODE + number * 4,
                ..Instruction::default()
            });
        }
    }
    list
}

fn streams() -> Vec<(&'static str, Vec<Instruction>)> {
    let loads = |list: Vec<u64>| list.into_iter().map(|at| (DATA + at, false));
    let mut dice = Dice(20_240_607);
    let order = dice.shuffled((8 << 20) / 64);
    let chase: Vec<u64> = order[..ACCESSES].iter().map(|node| node * 64).collect();
    let random: Vec<u64> = (0..ACCESSES).map(|_| dice.below(64 << 20) & !7).collect();
    let strided: Vec<u64> = (0..ACCESSES as u64).map(|n| n * 64 % (3 << 20)).collect();
    let small: Vec<u64> = chase.iter().map(|at| at % (16 << 10)).collect();
    let pages = Zipf::new(&mut dice, 32_768, 0.9);
    let page = |dice: &mut Dice, pages: &Zipf| pages.draw(dice) * 4096 + dice.below(512) * 8;
    let zipf: Vec<u64> = (0..ACCESSES).map(|_| page(&mut dice, &pages)).collect();
    let pages = Zipf::new(&mut dice, 4_096, 0.8);
    let stores: Vec<(u64, bool)> = (0..ACCESSES)
        .map(|_| (DATA + page(&mut dice, &pages), dice.below(10) < 3))
        .collect();
    let (functions, pages) = (
        Zipf::new(&mut dice, 600, 1.0),
        Zipf::new(&mut dice, 8_192, 0.9),
    );
    let mut code = Vec::new();
    for _ in 0..3_125 {
        let function = CODE + functions.draw(&mut dice) * (4096 + 192);
        for number in 0..128 {
            let loads = number % 16 == 2 || number % 16 == 9;
            code.push(Instruction {
                ip: function + number * 4,
                load: loads.then(|| DATA + page(&mut dice, &pages)),
                ..Instruction::default()
            });
        }
    }
    vec![
        ("chase, 8 MB", data(loads(chase.clone()), true)),
        ("the same, independent", data(loads(chase), false)),
        ("chase, 16 KB", data(loads(small), true)),
        ("random, 64 MB", data(loads(random), false)),
        ("strided, 64 bytes", data(loads(strided), false)),
        ("zipf", data(loads(zipf.clone()), false)),
        ("zipf, dependent", data(loads(zipf), true)),
        ("30 % stores", data(stores.into_iter(), false)),
        ("code and data", code),
    ]
}

/// ChampSim's cycles on each.
const CHAMPSIM: [u64; 9] = [
    13_001_348, 888_689, 627_080, 932_527, 590_065, 802_211, 11_543_354, 726_091, 591_047,
];

/// Page tables for whatever is touched, frames in no order.
struct Pages {
    memory: SparseMemory,
    frames: Vec<u64>,
    mapped: HashMap<u64, u64>,
}

impl Pages {
    fn new() -> Self {
        Self {
            memory: SparseMemory::new(),
            frames: Dice(7).shuffled(1 << 20),
            mapped: HashMap::new(),
        }
    }

    fn frame(&mut self) -> u64 {
        (self.frames.pop().unwrap_or_default() + 256) << 12
    }

    fn map(&mut self, root: u64, vaddr: u64) -> u64 {
        use translation::GuestMemory;
        if let Some(&frame) = self.mapped.get(&(vaddr >> 12)) {
            return frame | vaddr & 0xfff;
        }
        let mut table = root;
        for shift in [39, 30, 21, 12] {
            let entry = table + (vaddr >> shift & 511) * 8;
            let mut value = self.memory.read_u64(entry).unwrap_or_default();
            if value == 0 {
                value = self.frame() | 7;
                self.memory.write_u64(entry, value);
            }
            table = value & !0xfff;
        }
        self.mapped.insert(vaddr >> 12, table);
        table | vaddr & 0xfff
    }
}

/// Our cycles in units of ChampSim's, by stream.
pub fn ratios() -> Result<Vec<(&'static str, f64)>, Box<dyn std::error::Error>> {
    let streams = streams().into_iter().zip(CHAMPSIM);
    let ratio = |((name, stream), theirs): ((_, Vec<_>), _)| {
        Ok((name, run(&stream)? as f64 / theirs as f64))
    };
    streams.map(ratio).collect()
}

/// Our cycles.
fn run(stream: &[Instruction]) -> Result<u64, Box<dyn std::error::Error>> {
    let mut pages = Pages::new();
    let root = pages.frame();
    let at: Vec<[Option<u64>; 2]> = stream
        .iter()
        .map(|one| {
            let data = one.load.or(one.store);
            [Some(one.ip), data].map(|at| at.map(|vaddr| pages.map(root, vaddr)))
        })
        .collect();
    let mut machine = Machine::new(&Model::parse("champsim", MACHINE)?, 1, pages.memory)?;
    machine.set_context(
        0,
        Context {
            paging: true,
            root,
            ..Context::default()
        },
    );
    // A block is what follows in one line; each that is different gets a number.
    let mut numbers: HashMap<Vec<Op>, u32> = HashMap::new();
    let mut first = 0;
    while first < stream.len() {
        let line = stream[first].ip >> 6;
        let more = stream[first + 1..].iter().zip(&stream[first..]);
        let count = 1 + more
            .take_while(|(one, before)| one.ip >> 6 == line && one.ip == before.ip + 4)
            .count();
        let part = &stream[first..first + count];
        let code: Vec<Op> = part
            .iter()
            .map(|one| {
                let bit = |register: u8| (1u64 << register) & !1;
                let accesses = one.load.or(one.store).is_some();
                Op {
                    address: if accesses { bit(one.from) } else { 0 },
                    reads: if accesses { 0 } else { bit(one.from) },
                    writes: bit(one.to),
                    loads: one.load.is_some(),
                    stores: one.store.is_some(),
                }
            })
            .collect();
        let next = numbers.len() as u32;
        let number = *numbers.entry(code.clone()).or_insert(next);
        if number == next {
            machine.define(number, &code);
        }
        machine.execute(0, number);
        let (ip, size) = (part[0].ip, count as u32 * 4);
        machine.access(0, AccessKind::Fetch, ip, at[first][0], size);
        for (number, one) in part.iter().enumerate() {
            let kind = match one.store {
                Some(_) => AccessKind::Write,
                None => AccessKind::Read,
            };
            if let Some(vaddr) = one.load.or(one.store) {
                machine.at(0, number as u32);
                machine.access(0, kind, vaddr, at[first + number][1], 8);
            }
        }
        first += count;
    }
    machine.instructions(0, 1_000);
    let report = machine.report();
    if std::env::var_os("REPORT").is_some() {
        println!("{:#?}", report.total);
    }
    Ok(report.total.cycles)
}

/// The stream in ChampSim's form: 64 bytes an instruction.
fn write(path: &std::path::Path, stream: &[Instruction]) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    for one in stream {
        // Its registers 6, 25 and 26 have meanings.
        let register = |number: u8| if number == 0 { 0 } else { number + 1 };
        out.write_all(&one.ip.to_le_bytes())?;
        out.write_all(&[0, 0, register(one.to), 0, register(one.from), 0, 0, 0])?;
        for vaddr in [one.store, None, one.load, None, None, None] {
            out.write_all(&vaddr.unwrap_or(0).to_le_bytes())?;
        }
    }
    out.flush()
}

/// Prints the figures.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1);
    println!(
        "{:<24} {:>12} {:>12} {:>12} {:>8}",
        "stream", "instructions", "ChampSim", "here", "ratio"
    );
    for (number, (name, stream)) in streams().into_iter().enumerate() {
        if let Some(folder) = &folder {
            let file = format!("{number}.champsimtrace");
            write(&std::path::Path::new(folder).join(file), &stream)?;
        }
        let (theirs, ours) = (CHAMPSIM[number], run(&stream)?);
        println!(
            "{name:<24} {:>12} {theirs:>12} {ours:>12} {:>8.3}",
            stream.len(),
            ours as f64 / theirs as f64
        );
    }
    Ok(())
}
