// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::time::{Clock, Stalls};

#[test]
fn an_instruction_is_a_tick() {
    let mut clock = Clock::new(8, 4, 1);
    clock.advance(5);
    clock.advance(7);
    assert_eq!((clock.now, clock.instructions), (12, 12));
}

#[test]
fn a_load_is_felt_from_where_the_reorder_buffer_is_full() {
    // GIVEN a buffer of 8 WHEN a load takes 100 THEN 8 instructions pass and 92 ticks are lost.
    let mut clock = Clock::new(8, 4, 1);
    clock.data(0, 100, true);
    clock.advance(20);
    assert_eq!(clock.now, 100 + 12);
    assert_eq!(clock.stalls().data_cache, 92);
}

#[test]
fn a_short_load_is_hidden() {
    let mut clock = Clock::new(8, 4, 1);
    clock.data(0, 6, true);
    clock.advance(20);
    assert_eq!((clock.now, clock.stalls().data_cache), (20, 0));
}

#[test]
fn two_loads_in_the_buffer_overlap() {
    let mut clock = Clock::new(8, 4, 1);
    clock.data(0, 100, true);
    clock.advance(2);
    clock.data(0, 100, true);
    clock.advance(30);
    // The second is done at 102 and full at 10 instructions: 2 more ticks from 100 + 2.
    assert_eq!(clock.now, 102 + 22);
}

#[test]
fn what_is_hidden_hides_translation_first() {
    let mut clock = Clock::new(8, 4, 1);
    clock.data(30, 50, true);
    clock.advance(8);
    let stalls = clock.stalls();
    assert_eq!((stalls.data_translation, stalls.data_cache), (22, 50));
}

#[test]
fn a_store_waits_for_its_translation_only() {
    let mut clock = Clock::new(8, 4, 1);
    clock.data(30, 500, false);
    clock.advance(8);
    assert_eq!(clock.now, 30);
    assert_eq!(clock.stalls().data_translation, 22);
}

#[test]
fn when_all_mshrs_are_taken_the_first_is_waited_for() {
    let mut clock = Clock::new(1000, 2, 1);
    clock.data(0, 100, true);
    clock.advance(10);
    clock.data(0, 100, true);
    clock.advance(10);
    // 20 now; the first comes back at 100.
    clock.data(0, 100, true);
    assert_eq!((clock.now, clock.stalls().data_cache), (100, 80));
}

#[test]
fn a_fetch_is_felt_whole_and_in_order_so_is_a_load() {
    let mut clock = Clock::new(8, 4, 1);
    clock.fetch(10, 40);
    assert_eq!((clock.now, clock.stalls().fetch_translation), (50, 10));
    assert_eq!(clock.stalls().fetch_cache, 40);
    let mut in_order = Clock::new(0, 4, 1);
    in_order.data(5, 40, true);
    assert_eq!(in_order.now, 45);
}

/// One instruction and one tick of waiting at a time, with a plain list of loads.
struct Naive {
    rob: u64,
    mshrs: usize,
    now: u64,
    instructions: u64,
    loads: Vec<Load>,
    /// When each register that is taken becomes free.
    taken: Vec<u64>,
    stalls: Stalls,
}

struct Load {
    full_at: u64,
    /// The translation is there, and then the line.
    translated: u64,
    done: u64,
}

impl Naive {
    fn instruction(&mut self) {
        self.instructions += 1;
        self.now += 1;
        self.wait_for_full();
    }

    /// Waits for the loads behind which the buffer is full.
    fn wait_for_full(&mut self) {
        while (self.loads.first()).is_some_and(|load| load.full_at <= self.instructions) {
            self.wait_for_oldest();
        }
    }

    fn wait_for_oldest(&mut self) {
        let load = self.loads.remove(0);
        while self.now < load.done {
            match self.now < load.translated {
                true => self.stalls.data_translation += 1,
                false => self.stalls.data_cache += 1,
            }
            self.now += 1;
        }
    }

    fn fetch(&mut self, translation: u64, cache: u64) {
        for _ in 0..translation {
            self.now += 1;
            self.stalls.fetch_translation += 1;
        }
        for _ in 0..cache {
            self.now += 1;
            self.stalls.fetch_cache += 1;
        }
    }

    fn data(&mut self, translation: u64, cache: u64, load: bool) {
        if cache > 0 {
            self.taken.retain(|&free| free > self.now);
            while self.taken.len() == self.mshrs {
                self.now += 1;
                self.stalls.data_cache += 1;
                self.taken.retain(|&free| free > self.now);
            }
            self.taken.push(self.now + translation + cache);
        }
        let translated = self.now + translation;
        let done = translated + if load { cache } else { 0 };
        if done > self.now {
            // So many are remembered and no more.
            if self.loads.len() == 256 {
                self.wait_for_oldest();
            }
            let full_at = self.instructions + self.rob;
            self.loads.push(Load {
                full_at,
                translated,
                done,
            });
            self.wait_for_full();
        }
    }
}

#[test]
fn random_programs_agree_with_one_instruction_at_a_time() {
    // The last runs so few instructions between its loads that more are under way than the queue
    // holds.
    for (seed, rob, mshrs, most) in [
        (1, 16, 4, 12),
        (2, 128, 16, 12),
        (3, 1, 1, 12),
        (4, 40, 2, 12),
        (5, 0, 2, 12),
        (6, 4000, 64, 2),
    ] {
        let mut clock = Clock::new(rob, mshrs, 1);
        let mut naive = Naive {
            rob,
            mshrs,
            now: 0,
            instructions: 0,
            loads: Vec::new(),
            taken: Vec::new(),
            stalls: Stalls::default(),
        };
        let mut dice = Dice::new(seed);
        let mut longest = 0;
        for step in 0..400_000 {
            let count = dice.below(most);
            clock.advance(count);
            for _ in 0..count {
                naive.instruction();
            }
            let (translation, cache) = (dice.below(3) * 20, dice.below(3) * 70);
            match dice.below(1000) {
                0..250 => {
                    let load = dice.below(3) != 0;
                    clock.data(translation, cache, load);
                    naive.data(translation, cache, load);
                }
                250..300 => {
                    clock.fetch(translation, cache);
                    naive.fetch(translation, cache);
                }
                300 => {
                    clock.drain();
                    while !naive.loads.is_empty() {
                        naive.wait_for_oldest();
                    }
                }
                _ => {}
            }
            longest = longest.max(naive.loads.len());
            assert_eq!(
                (clock.now, clock.instructions, clock.stalls()),
                (naive.now, naive.instructions, naive.stalls),
                "{step}"
            );
        }
        let stalls = clock.stalls();
        let data = stalls.data_cache + stalls.data_translation;
        let fetch = stalls.fetch_cache + stalls.fetch_translation;
        assert_eq!(clock.now, clock.instructions + data + fetch);
        // All of it happened.
        assert!(stalls.data_translation > 0 && stalls.data_cache > 0);
        assert!(stalls.fetch_translation > 0 && stalls.fetch_cache > 0);
        assert_eq!(longest == 256, rob == 4000, "{longest}");
    }
}

#[test]
fn walks_wait_for_the_walker_that_is_free_first() {
    // GIVEN two walkers WHEN three walks are wanted at 0, of 100, 60 and 10 ticks THEN the third
    // begins at 60, and a fourth at 70.
    let mut clock = Clock::new(8, 4, 2);
    for (took, waited) in [(100, 0), (60, 0), (10, 60)] {
        assert_eq!(clock.walker_wait(0), waited);
        clock.walker_taken(waited + took);
    }
    assert_eq!(clock.walker_wait(0), 70);
    assert_eq!(clock.walker_wait(65), 5);
    clock.advance(70);
    assert_eq!(clock.walker_wait(0), 0);
}

/// Against a simulation of one tick after the other, in which a walk that has come takes any walker
/// that is idle, and one that has not waits in line.
#[test]
fn random_walks_agree_with_walkers_tick_by_tick() {
    for walkers in [1, 2, 6] {
        let mut clock = Clock::new(8, 4, walkers);
        let mut dice = Dice::new(walkers as u64);
        let mut busy = vec![0u64; walkers];
        let mut waited = 0;
        for step in 0..200_000 {
            let pause = dice.below(40);
            clock.advance(pause);
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
            assert_eq!(clock.walker_wait(0), begins, "{step}");
            clock.walker_taken(begins + took);
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
