// SPDX-License-Identifier: GPL-2.0-or-later
//! Main memory: channels, ranks and banks, each bank with one open row.

use crate::counters::MemoryCounters;

/// Timing and geometry; times in ticks of the core's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels, ranks of a channel, banks of a rank: powers of two.
    pub banks: u64,
    /// Lines of a row.
    pub row_lines: u64,
    /// The row is open: read it.
    pub hit: u64,
    /// No row is open: open it, read it.
    pub closed: u64,
    /// Another row is open: close that, open this, read it.
    pub conflict: u64,
    /// How long the data takes on the bus; the bank takes its next command meanwhile.
    pub burst: u64,
}

impl Geometry {
    /// Longer than a queue of four conflicts is nobody waited for (see [`Dram::access`]).
    fn patience(&self) -> u64 {
        4 * (self.conflict + self.burst)
    }

    /// The longest that an access can take.
    pub fn longest(&self) -> u64 {
        self.patience() + self.conflict + self.burst
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    /// The open row plus one; 0 for none.
    row: u64,
    busy_until: u64,
}

/// The banks and their open rows. The page policy is open: a row stays open until another is asked
/// of its bank. Refresh is left out.
#[derive(Clone, Debug)]
pub struct Dram {
    geometry: Geometry,
    banks: Vec<Bank>,
}

impl Dram {
    /// All rows closed.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            banks: vec![Bank::default(); geometry.banks as usize],
        }
    }

    /// Reads (or writes back) a line at tick `now` of the core that asks: how many ticks until the
    /// data is there. Consecutive lines go to different banks, so the low bits of the line's number
    /// choose channel, rank and bank; the rest is column and row.
    ///
    /// The clocks of two cores differ by up to a time slice of the source. A bank that another
    /// core's clock calls busy for longer than a queue of four conflicts takes is only *its*
    /// future, and is not waited for.
    pub fn access(
        &mut self,
        line: u64,
        now: u64,
        write: bool,
        counters: &mut MemoryCounters,
    ) -> u64 {
        let g = self.geometry;
        let bank = &mut self.banks[(line & (g.banks - 1)) as usize];
        let row = line / g.banks / g.row_lines + 1;
        let time = if bank.row == row {
            counters.row_hits += 1;
            g.hit
        } else if bank.row == 0 {
            counters.row_opens += 1;
            g.closed
        } else {
            counters.row_conflicts += 1;
            g.conflict
        };
        bank.row = row;
        if write {
            counters.writes += 1;
        } else {
            counters.reads += 1;
        }
        let wait = bank.busy_until.saturating_sub(now);
        let wait = if wait > g.patience() { 0 } else { wait };
        bank.busy_until = now + wait + time;
        wait + time + g.burst
    }
}
