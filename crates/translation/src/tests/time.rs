// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::time::Clock;

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

/// One instruction at a time, with a plain list of loads.
struct Naive {
    now: u64,
    instructions: u64,
    loads: Vec<(u64, u64)>,
    mshrs: Vec<u64>,
}

#[test]
fn random_programs_agree_with_one_instruction_at_a_time() {
    for (seed, rob, mshrs) in [(1, 16, 4), (2, 128, 16), (3, 1, 1), (4, 40, 2)] {
        let mut clock = Clock::new(rob, mshrs, 1);
        let (now, instructions) = (0, 0);
        let mut naive = Naive {
            now,
            instructions,
            loads: Vec::new(),
            mshrs: Vec::new(),
        };
        let mut dice = Dice::new(seed);
        for step in 0..400_000 {
            let count = dice.below(12);
            clock.advance(count);
            for _ in 0..count {
                naive.instructions += 1;
                naive.now += 1;
                while let Some(&(full_at, done)) = naive.loads.first() {
                    if full_at > naive.instructions {
                        break;
                    }
                    naive.now = naive.now.max(done);
                    naive.loads.remove(0);
                }
            }
            if dice.below(4) == 0 {
                let (translation, cache) = (dice.below(3) * 20, dice.below(3) * 70);
                let load = dice.below(3) != 0;
                clock.data(translation, cache, load);
                if cache > 0 {
                    naive.mshrs.retain(|&free| free > naive.now);
                    if naive.mshrs.len() == mshrs {
                        naive.mshrs.sort_unstable();
                        naive.now = naive.mshrs.remove(0);
                    }
                    naive.mshrs.push(naive.now + translation + cache);
                }
                let felt = translation + if load { cache } else { 0 };
                if felt > 0 {
                    naive
                        .loads
                        .push((naive.instructions + rob, naive.now + felt));
                }
            }
            assert_eq!(
                (clock.now, clock.instructions),
                (naive.now, naive.instructions),
                "{step}"
            );
        }
        let stalls = clock.stalls();
        let stalled = stalls.data_cache + stalls.data_translation;
        assert_eq!(clock.now, clock.instructions + stalled);
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
