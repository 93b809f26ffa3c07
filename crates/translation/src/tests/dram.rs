// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::counters::MemoryCounters;
use crate::dram::{Dram, Geometry};

const G: Geometry = Geometry {
    channels: 4,
    banks: 4,
    row_lines: 8,
    hit: 10,
    closed: 24,
    conflict: 38,
    refresh: 0,
    burst: 4,
};

#[test]
fn a_row_is_opened_hit_and_replaced() {
    let mut dram = Dram::new(G);
    let mut counters = MemoryCounters::default();
    let mut access = |line, now| dram.access(line, now, false, &mut counters);
    // GIVEN all rows closed WHEN line 0 is read THEN its row is opened.
    assert_eq!(access(0, 0), 24 + 4);
    // Line 4 is the next of the same bank, in the same row.
    assert_eq!(access(4, 1000), 10 + 4);
    // Line 1 is in the next bank.
    assert_eq!(access(1, 1000), 24 + 4);
    // Four banks of rows of eight lines: line 32 is in bank 0, the second row.
    assert_eq!(access(32, 2000), 38 + 4);
    assert_eq!((counters.reads, counters.row_opens), (4, 2));
    assert_eq!((counters.row_hits, counters.row_conflicts), (1, 1));
}

#[test]
fn a_busy_bank_is_waited_for() {
    let mut dram = Dram::new(G);
    let mut counters = MemoryCounters::default();
    dram.access(0, 100, false, &mut counters);
    // It is busy from 100 for 24; at 110 there are 14 left.
    assert_eq!(dram.access(4, 110, false, &mut counters), 14 + 10 + 4);
    // Another bank is not.
    assert_eq!(dram.access(1, 110, false, &mut counters), 24 + 4);
}

#[test]
fn banks_of_a_channel_share_its_bus() {
    let mut dram = Dram::new(Geometry { channels: 1, ..G });
    let mut counters = MemoryCounters::default();
    let mut access = |line, now| dram.access(line, now, false, &mut counters);
    assert_eq!(access(0, 100), 24 + 4);
    // The next bank is as soon ready, the bus 4 ticks later, and 8 for the third.
    assert_eq!(access(1, 100), 24 + 4 + 4);
    assert_eq!(access(2, 100), 24 + 8 + 4);
    // One that asks later but is at the bus before them (another clock) does not wait for them: 4
    // ticks are enough, 3 are not.
    assert_eq!(access(3, 96), 24 + 4);
    let mut dram = Dram::new(Geometry { channels: 1, ..G });
    let mut access = |line, now| dram.access(line, now, false, &mut counters);
    assert_eq!(access(0, 100), 24 + 4);
    assert_eq!(access(3, 97), 24 + 4 + 7);
}

#[test]
fn a_refresh_closes_the_rows() {
    let mut dram = Dram::new(Geometry { refresh: 1000, ..G });
    let mut counters = MemoryCounters::default();
    let mut access = |line, now| dram.access(line, now, false, &mut counters);
    assert_eq!(access(0, 500), 24 + 4);
    assert_eq!(access(4, 900), 10 + 4);
    assert_eq!(access(4, 1000), 24 + 4);
    assert_eq!(access(32, 3000), 24 + 4);
}

#[test]
fn random_accesses_agree_with_a_table_of_rows() {
    for channels in [1, 2, 4] {
        agree_with_a_table_of_rows(channels);
    }
}

fn agree_with_a_table_of_rows(channels: u64) {
    const STEPS: u64 = 1_000_000;
    let mut dram = Dram::new(Geometry { channels, ..G });
    // The last transfers of each channel.
    let mut buses = vec![[0u64; 64]; channels as usize];
    let mut counters = MemoryCounters::default();
    let mut open: [Option<u64>; 4] = [None; 4];
    let mut busy = [0u64; 4];
    let mut dice = Dice::new(7);
    let mut now = 0;
    for _ in 0..STEPS {
        now += dice.below(30);
        let line = dice.below(4 * 8 * 5);
        let bank = line as usize % 4;
        let row = line / 32;
        let time = match open[bank] {
            Some(open) if open == row => 10,
            Some(_) => 38,
            None => 24,
        };
        let wait = busy[bank].saturating_sub(now);
        let wait = if wait > 4 * 42 { 0 } else { wait };
        let mut begin = now + wait + time;
        let bus = &mut buses[(line % channels) as usize];
        while let Some(other) = bus.iter().find(|other| begin.abs_diff(**other) < 4) {
            begin = other + 4;
        }
        bus.rotate_left(1);
        bus[63] = begin;
        assert_eq!(
            dram.access(line, now, dice.below(2) == 0, &mut counters),
            begin + 4 - now
        );
        open[bank] = Some(row);
        busy[bank] = now + wait + time;
    }
    assert_eq!(counters.reads + counters.writes, STEPS);
    let kinds = counters.row_hits + counters.row_opens + counters.row_conflicts;
    assert_eq!(kinds, STEPS);
}
