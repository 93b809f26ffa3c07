// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::code::Op;
use crate::event::AccessKind::{self, Fetch, Read, Write};
use crate::time::{Clock, Shape, Stalls};

/// Times of a hit and of a cycle are small beside those of misses.
const SHAPE: Shape = Shape {
    cycle: 2,
    rob: 8,
    fetch_ahead: 0,
    stores: 4,
    mshrs: [4, 4],
    walkers: 1,
    l1_hit: 4,
    dependences: true,
};

fn clock(rob: u64, mshrs: usize, walkers: usize) -> Clock {
    Clock::new(Shape {
        rob,
        mshrs: [mshrs; 2],
        walkers,
        ..SHAPE
    })
}

/// An access to a page and line of its own.
fn access(clock: &mut Clock, kind: AccessKind, translation: u64, cache: u64) {
    clock.begin(kind, u64::MAX);
    let (claim, wait) = clock.claim(kind, translation);
    if cache > 0 {
        clock.take(kind, claim, cache, u64::MAX);
    }
    let cache = if cache > 0 { wait + cache } else { 0 };
    match kind {
        Fetch => clock.fetch(translation, cache),
        _ => clock.data(translation, cache, kind == Read),
    }
}

/// Loads its second register from the address in its first.
fn load(from: u32, to: u32) -> Op {
    Op {
        address: 1 << from,
        writes: 1 << to,
        loads: true,
        ..Op::default()
    }
}

fn store(address: u32, data: u32) -> Op {
    Op {
        address: 1 << address,
        reads: 1 << data,
        stores: true,
        ..Op::default()
    }
}

fn alu(from: u32, to: u32) -> Op {
    Op {
        reads: 1 << from,
        writes: 1 << to,
        ..Op::default()
    }
}

/// The ticks that instructions take whose loads all take so long.
fn ticks(block: &[Op], latency: u64, mshrs: usize) -> u64 {
    let mut clock = clock(128, mshrs, 1);
    clock.enter();
    for (number, op) in block.iter().enumerate() {
        if op.accesses() {
            clock.at(block, number);
            access(&mut clock, if op.loads { Read } else { Write }, 0, latency);
        }
    }
    clock.execute(block, block.len());
    clock.drain();
    clock.now
}

#[test]
fn an_instruction_is_a_tick() {
    let mut clock = clock(8, 4, 1);
    clock.advance(5);
    clock.advance(7);
    assert_eq!((clock.now, clock.instructions), (12, 12));
}

#[test]
fn a_load_is_felt_from_where_the_reorder_buffer_is_full() {
    // GIVEN a buffer of 8 WHEN a load takes 100 THEN 8 instructions pass and 92 ticks are lost.
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Read, 0, 100);
    clock.advance(20);
    assert_eq!(clock.now, 100 + 12);
    assert_eq!(clock.stalls().data_cache, 92);
}

#[test]
fn a_short_load_is_hidden() {
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Read, 0, 6);
    clock.advance(20);
    assert_eq!((clock.now, clock.stalls().data_cache), (20, 0));
}

#[test]
fn two_loads_in_the_buffer_overlap() {
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Read, 0, 100);
    clock.advance(2);
    access(&mut clock, Read, 0, 100);
    clock.advance(30);
    // The second is done at 102 and full at 10 instructions: 2 more ticks from 100 + 2.
    assert_eq!(clock.now, 102 + 22);
}

#[test]
fn a_chain_of_loads_takes_the_sum_and_independent_ones_the_longest() {
    // GIVEN 100 loads of 300 ticks, each the address of the next, and the same without registers in
    // common, of which 16 fit into the MSHRs.
    let chain: Vec<Op> = vec![load(1, 1); 100];
    let apart: Vec<Op> = vec![load(2, 1); 100];
    let (chain, apart) = (ticks(&chain, 300, 16), ticks(&apart, 300, 16));
    assert_eq!(chain, 100 * 300 + 1);
    // Seven rounds of 300.
    assert!((7 * 300..7 * 300 + 50).contains(&apart), "{apart}");
    assert!(ticks(&vec![load(2, 1); 100], 300, 128) < 300 + 128);
}

#[test]
fn a_chain_through_an_instruction_takes_its_cycle_too() {
    // GIVEN load, add, load, add ... WHEN each needs the one before THEN each add costs a cycle.
    let chain: Vec<Op> = (0..100).map(|n| [load(1, 2), alu(2, 1)][n % 2]).collect();
    assert_eq!(ticks(&chain, 300, 16), 50 * (300 + SHAPE.cycle) + 1);
    // An instruction that overwrites the register cuts the chain.
    let cut: Vec<Op> = (0..100).map(|n| [load(1, 2), alu(9, 1)][n % 2]).collect();
    assert!(ticks(&cut, 300, 64) < 300 + 128);
}

#[test]
fn a_load_that_does_not_need_the_miss_before_it_overlaps() {
    // GIVEN a chain of ten, and beside each a load of its own address.
    let alone = ticks(&[load(1, 1); 10], 300, 16);
    let beside: Vec<Op> = (0..20).map(|n| [load(1, 1), load(2, 3)][n % 2]).collect();
    assert_eq!(ticks(&beside, 300, 16), alone);
    // Behind the chain in the program, but not in time.
    let block = [load(1, 1), load(1, 1), load(2, 3)];
    let mut clock = clock(128, 16, 1);
    clock.enter();
    let mut starts = Vec::new();
    for number in 0..3 {
        clock.at(&block, number);
        access(&mut clock, Read, 0, 300);
        starts.push(clock.start());
    }
    assert_eq!(starts, [1, 301, 3]);
}

#[test]
fn loads_that_hit_are_a_chain_too() {
    let block = [load(1, 1); 100];
    let mut clock = clock(128, 16, 1);
    clock.enter();
    for number in 0..block.len() {
        clock.at(&block, number);
    }
    clock.execute(&block, block.len());
    clock.drain();
    assert_eq!(clock.now, 100 * SHAPE.l1_hit + 1);
    assert!(clock.stalls().dependence > 0);
    assert_eq!(clock.stalls().data_cache, 0);
}

#[test]
fn a_store_stalls_nothing_and_waits_for_address_and_data() {
    // GIVEN stores that miss, fewer than the store buffer has entries.
    let stores = [store(1, 2); 4];
    assert_eq!(ticks(&stores, 300, 16), 4);
    // One more waits for the first, whose line comes at 301.
    assert_eq!(ticks(&[store(1, 2); 5], 300, 16), 301);
    // GIVEN a store of loaded data THEN it is not done before.
    let block = [load(1, 2), store(3, 2)];
    assert_eq!(ticks(&block, 300, 16), 301 + SHAPE.cycle);
    // GIVEN a store whose address is loaded THEN it begins when that is there.
    let mut clock = clock(128, 16, 1);
    let block = [load(1, 2), store(2, 3)];
    clock.enter();
    clock.at(&block, 0);
    access(&mut clock, Read, 0, 300);
    clock.at(&block, 1);
    access(&mut clock, Write, 0, 0);
    assert_eq!(clock.start(), 301);
}

#[test]
fn a_load_from_where_late_data_is_stored_waits_for_it() {
    // GIVEN a missing load whose value goes over the stack to the next load's address.
    let block = [load(1, 2), store(3, 2), load(3, 4), load(4, 5)];
    for (at, begins) in [(0x1000, 301), (0x2000, 3 + SHAPE.l1_hit)] {
        let mut clock = clock(128, 16, 1);
        clock.enter();
        clock.at(&block, 0);
        access(&mut clock, Read, 0, 300);
        clock.at(&block, 1);
        clock.stored(&block, 0x1000);
        clock.at(&block, 2);
        assert!(clock.unsettled());
        clock.hit(at, 0);
        clock.at(&block, 3);
        access(&mut clock, Read, 0, 300);
        assert_eq!(clock.start(), begins);
    }
}

#[test]
fn a_hit_on_a_line_under_way_waits_for_it() {
    let block = [load(1, 2), load(1, 3), load(3, 4)];
    let mut clock = clock(128, 16, 1);
    clock.enter();
    clock.at(&block, 0);
    clock.begin(Read, 0x1000);
    let (claim, _) = clock.claim(Read, 0);
    clock.take(Read, claim, 300, 64);
    clock.data(0, 300, true);
    clock.at(&block, 1);
    clock.hit(0x1008, 64);
    clock.at(&block, 2);
    access(&mut clock, Read, 0, 300);
    assert_eq!(clock.start(), 301);
}

#[test]
fn what_is_hidden_hides_translation_first() {
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Read, 30, 50);
    clock.advance(8);
    let stalls = clock.stalls();
    assert_eq!((stalls.data_translation, stalls.data_cache), (22, 50));
}

#[test]
fn a_store_waits_for_its_translation_only() {
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Write, 30, 500);
    clock.advance(8);
    assert_eq!(clock.now, 30);
    assert_eq!(clock.stalls().data_translation, 22);
}

#[test]
fn when_all_mshrs_are_taken_a_miss_waits_for_the_first_and_the_core_goes_on() {
    let mut clock = clock(1000, 2, 1);
    for _ in 0..3 {
        access(&mut clock, Read, 0, 100);
        clock.advance(10);
    }
    assert_eq!(clock.now, 30);
    // The third begins when the first comes back.
    clock.drain();
    assert_eq!(clock.now, 200);
}

#[test]
fn a_fetch_is_felt_whole_and_in_order_so_is_a_load() {
    let mut clock = clock(8, 4, 1);
    access(&mut clock, Fetch, 10, 40);
    assert_eq!((clock.now, clock.stalls().fetch_translation), (50, 10));
    assert_eq!(clock.stalls().fetch_cache, 40);
    let mut in_order = self::clock(0, 4, 1);
    access(&mut in_order, Read, 5, 40);
    assert_eq!(in_order.now, 45);
}

#[test]
fn a_fetch_runs_ahead_by_the_room_there_is() {
    let ahead = |fetch_ahead| {
        let mut clock = Clock::new(Shape {
            fetch_ahead,
            ..SHAPE
        });
        clock.advance(100);
        access(&mut clock, Fetch, 0, 40);
        clock.now
    };
    assert_eq!((ahead(0), ahead(16), ahead(64)), (140, 124, 100));
    // Behind a load's stall, what there is room for has been fetched meanwhile.
    let mut clock = Clock::new(Shape {
        fetch_ahead: 16,
        ..SHAPE
    });
    clock.advance(100);
    access(&mut clock, Read, 0, 500);
    clock.advance(10);
    assert_eq!(clock.now, 602);
    access(&mut clock, Fetch, 0, 40);
    assert_eq!(clock.now, 602);
    // Two misses in the window overlap.
    clock.advance(100);
    access(&mut clock, Fetch, 0, 40);
    clock.advance(4);
    access(&mut clock, Fetch, 0, 40);
    assert_eq!(clock.now, 702 + 24 + 4);
}

/// One tick of waiting at a time, with a list of all instructions that are not retired.
struct Naive {
    shape: Shape,
    now: u64,
    instructions: u64,
    /// By instruction: what number it has, when its translation begins and ends, when it is done.
    under_way: Vec<[u64; 4]>,
    /// When each register that is taken becomes free.
    mshrs: [Vec<u64>; 2],
    store_buffer: Vec<u64>,
    stalls: Stalls,
}

impl Naive {
    fn instruction(&mut self) {
        self.instructions += 1;
        self.now += 1;
        self.wait_for_full();
    }

    /// Waits for those behind which the buffer is full.
    fn wait_for_full(&mut self) {
        while (self.under_way.first())
            .is_some_and(|one| one[0] + self.shape.rob <= self.instructions)
        {
            self.wait_for_oldest();
        }
    }

    fn wait_for_oldest(&mut self) {
        let [_, begins, translated, done] = self.under_way.remove(0);
        while self.now < done {
            match (self.now < begins, self.now < translated) {
                (true, _) => self.stalls.dependence += 1,
                (_, true) => self.stalls.data_translation += 1,
                _ => self.stalls.data_cache += 1,
            }
            self.now += 1;
        }
    }

    /// When the first of so many places is free.
    fn place(places: &mut [u64], from: u64, took: u64) -> u64 {
        let first = places.iter_mut().min().unwrap();
        let begins = from.max(*first);
        *first = begins + took;
        begins
    }

    fn fetch(&mut self, translation: u64, cache: u64) {
        let mut there = self.now + translation;
        if cache > 0 {
            there = Self::place(&mut self.mshrs[0], there, cache) + cache;
        }
        let translated = self.now + translation;
        while self.now < there {
            match self.now < translated {
                true => self.stalls.fetch_translation += 1,
                false => self.stalls.fetch_cache += 1,
            }
            self.now += 1;
        }
    }

    fn data(&mut self, translation: u64, cache: u64, load: bool) {
        let translated = self.now + translation;
        let mut there = translated;
        if cache > 0 {
            there = Self::place(&mut self.mshrs[1], translated, cache) + cache;
        }
        let done = if load { there } else { translated };
        self.under_way
            .push([self.instructions, self.now, translated, done]);
        self.wait_for_full();
        if !load && cache > 0 {
            // It is in the buffer before anything else is issued.
            let first = self.store_buffer.iter_mut().min().unwrap();
            while self.now < *first {
                self.stalls.data_cache += 1;
                self.now += 1;
            }
            *first = there.max(self.now);
        }
    }
}

#[test]
fn random_programs_agree_with_one_instruction_at_a_time() {
    for (seed, rob, mshrs, most) in [
        (1, 16, 4, 12),
        (2, 128, 16, 12),
        (3, 1, 1, 12),
        (4, 40, 2, 12),
        (5, 0, 2, 12),
    ] {
        let mut clock = clock(rob, mshrs, 1);
        let mut naive = Naive {
            shape: Shape { rob, ..SHAPE },
            now: 0,
            instructions: 0,
            under_way: Vec::new(),
            mshrs: [vec![0; mshrs], vec![0; mshrs]],
            store_buffer: vec![0; SHAPE.stores],
            stalls: Stalls::default(),
        };
        let mut dice = Dice::new(seed);
        for step in 0..400_000 {
            let count = dice.below(most);
            clock.advance(count);
            for _ in 0..count {
                naive.instruction();
            }
            // Misses behind translations of several lengths would not begin in order, which these
            // lists of places do not know (`pool.rs` does).
            let cache = dice.below(3) * 70;
            let translation = if cache > 0 { 20 } else { dice.below(3) * 20 };
            match dice.below(1000) {
                0..250 => {
                    let load = dice.below(3) != 0;
                    access(
                        &mut clock,
                        if load { Read } else { Write },
                        translation,
                        cache,
                    );
                    naive.data(translation, cache, load);
                }
                250..300 => {
                    access(&mut clock, Fetch, translation, cache);
                    naive.fetch(translation, cache);
                }
                300 => {
                    clock.drain();
                    while !naive.under_way.is_empty() {
                        naive.wait_for_oldest();
                    }
                }
                _ => {}
            }
            assert_eq!(
                (clock.now, clock.instructions, clock.stalls()),
                (naive.now, naive.instructions, naive.stalls),
                "{step}"
            );
        }
        let stalls = clock.stalls();
        let data = stalls.data_cache + stalls.data_translation + stalls.dependence;
        let fetch = stalls.fetch_cache + stalls.fetch_translation;
        assert_eq!(clock.now, clock.instructions + data + fetch);
        // All of it happened.
        assert!(stalls.data_translation > 0 && stalls.data_cache > 0);
        assert!(stalls.fetch_translation > 0 && stalls.fetch_cache > 0);
    }
}

/// The same with registers: every instruction is kept until the end, with when it was issued, when it
/// was executed, and when it retired.
#[test]
fn random_blocks_agree_with_each_instruction_by_itself() {
    for (seed, rob) in [(1, 16), (2, 128), (3, 48)] {
        // As many MSHRs as there are misses, for whom waits is tested above.
        let mut clock = clock(rob, 4096, 1);
        let mut dice = Dice::new(seed);
        let mut there = [0u64; 8];
        let mut retired: Vec<u64> = Vec::new();
        let mut issued = 0;
        for step in 0..20_000 {
            let register = |dice: &mut Dice| 1u64 << dice.below(8);
            let block: Vec<Op> = (0..1 + dice.below(9))
                .map(|_| Op {
                    address: register(&mut dice),
                    reads: [0, register(&mut dice)][dice.below(2) as usize],
                    writes: register(&mut dice) | register(&mut dice),
                    loads: dice.below(3) == 0,
                    stores: false,
                })
                .collect();
            clock.enter();
            for (number, op) in block.iter().enumerate() {
                // A tick after the one before, and not before it has an entry in the buffer.
                let full = retired.len().checked_sub(rob as usize);
                issued = (issued + 1).max(full.map_or(0, |number| retired[number]));
                let all = |set: u64| {
                    let of = there.iter().enumerate();
                    let of = of.filter(|(number, _)| set >> number & 1 == 1);
                    of.map(|(_, &time)| time).max().unwrap_or(0).max(issued)
                };
                let mut done = all(op.address | op.reads) + SHAPE.cycle;
                if op.loads {
                    let took = [0, 0, 30, 300][dice.below(4) as usize];
                    clock.at(&block, number);
                    let loaded = match took {
                        0 => SHAPE.l1_hit,
                        _ => {
                            access(&mut clock, Read, 0, took);
                            took
                        }
                    };
                    done = done.max(all(op.address) + loaded);
                }
                for (number, time) in there.iter_mut().enumerate() {
                    if op.writes >> number & 1 == 1 {
                        *time = done;
                    }
                }
                let before = retired.last().copied().unwrap_or(0);
                retired.push(done.max(before));
            }
            clock.execute(&block, block.len());
            assert_eq!(clock.now, issued, "{step}");
            assert_eq!(clock.instructions as usize, retired.len());
        }
        assert!(clock.stalls().dependence > 0 && clock.stalls().data_cache > 0);
        assert_eq!(
            clock.now,
            clock.instructions + clock.stalls().dependence + clock.stalls().data_cache
        );
    }
}

#[test]
fn blocks_without_dependences_may_be_issued_at_once() {
    // GIVEN instructions that read and write nothing WHEN a clock that knows it and one that does
    // not execute the same blocks with the same misses THEN both always show the same time.
    for (seed, rob) in [(1, 0), (2, 1), (3, 2), (4, 16), (5, 128)] {
        let shape = Shape { rob, ..SHAPE };
        let mut clocks = [true, false].map(|dependences| {
            Clock::new(Shape {
                dependences,
                ..shape
            })
        });
        let mut dice = Dice::new(seed);
        for step in 0..50_000 {
            let block = vec![Op::default(); 1 + dice.below(12) as usize];
            let mut accesses = Vec::new();
            for number in 0..block.len() {
                if dice.below(3) == 0 {
                    let kind = if dice.below(3) == 0 { Write } else { Read };
                    accesses.push((number, kind, dice.below(2) * 20, dice.below(3) * 150));
                }
            }
            for clock in &mut clocks {
                clock.enter();
                for &(number, kind, translation, cache) in &accesses {
                    clock.at(&block, number);
                    if cache > 0 || translation > 0 {
                        access(clock, kind, translation, cache);
                    }
                }
                clock.execute(&block, block.len());
            }
            let [slow, quick] = &clocks;
            assert_eq!(
                (slow.now, slow.instructions, slow.stalls()),
                (quick.now, quick.instructions, quick.stalls()),
                "{step}"
            );
        }
        assert!(clocks[0].stalls().data_cache > 0);
    }
}

#[test]
fn walks_wait_for_the_walker_that_is_free_first() {
    // GIVEN two walkers WHEN three walks are wanted at 0, of 100, 60 and 10 ticks THEN the third
    // begins at 60, and a fourth at 70.
    let mut clock = clock(8, 4, 2);
    clock.begin(Read, 0);
    for (took, waited) in [(100, 0), (60, 0), (10, 60)] {
        let (walker, wait) = clock.walker(0);
        assert_eq!(wait, waited);
        clock.walker_taken(walker, took, Read, u64::MAX);
    }
    assert_eq!(clock.walker(0).1, 70);
    assert_eq!(clock.walker(65).1, 5);
    clock.advance(70);
    clock.begin(Read, 0);
    assert_eq!(clock.walker(0).1, 0);
}

/// Against a simulation of one tick after the other, in which a walk that has come takes any walker
/// that is idle, and one that has not waits in line.
#[test]
fn random_walks_agree_with_walkers_tick_by_tick() {
    for walkers in [1, 2, 6] {
        let mut clock = clock(8, 4, walkers);
        let mut dice = Dice::new(walkers as u64);
        let mut busy = vec![0u64; walkers];
        let mut waited = 0;
        for step in 0..200_000 {
            let pause = dice.below(40);
            clock.advance(pause);
            clock.begin(Read, 0);
            for left in &mut busy {
                *left = left.saturating_sub(pause);
            }
            let (took, mut begins) = (1 + dice.below(150), 0);
            let mut ahead = busy.clone();
            while !ahead.contains(&0) {
                begins += 1;
                for left in &mut ahead {
                    *left -= 1;
                }
            }
            let (walker, wait) = clock.walker(0);
            assert_eq!(wait, begins, "{step}");
            clock.walker_taken(walker, took, Read, u64::MAX);
            let idle = ahead.iter().position(|&left| left == 0).unwrap();
            busy[idle] = begins + took;
            waited += u64::from(begins > 0);
            // What waits too long is let go now and then: more is asked than one walker does.
            if step % 100 == 0 {
                clock.advance(100_000);
                busy.fill(0);
            }
        }
        assert!(waited > 1_000 && waited < 200_000);
    }
}
