// SPDX-License-Identifier: GPL-2.0-or-later
//! Main memory: channels, ranks and banks, each bank with one open row.

use crate::counters::MemoryCounters;

/// Timing and geometry; times in ticks of the core's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels.
    pub channels: u64,
    /// Banks of all ranks and channels.
    pub banks: u64,
    /// Lines of a row.
    pub row_lines: u64,
    /// The row is open: read it.
    pub hit: u64,
    /// No row is open: open it, read it.
    pub closed: u64,
    /// Another row is open: close that, open this, read it.
    pub conflict: u64,
    /// A refresh closes all rows so often; 0 for never.
    pub refresh: u64,
    /// How long the data takes on its channel's bus; the bank takes its next command meanwhile.
    pub burst: u64,
}

impl Geometry {
    /// Longer than a queue of four conflicts is nobody waited for (see [`Dram::access`]).
    fn patience(&self) -> u64 {
        4 * (self.conflict + self.burst)
    }

    /// The longest that an access can take.
    pub fn longest(&self) -> u64 {
        2 * self.patience() + self.conflict + self.burst
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    /// The open row plus one; 0 for none.
    row: u64,
    /// The refresh after which it was opened.
    opened: u64,
    /// It is free from `gap` to `from`, busy from there to `until`, then free: accesses do not begin
    /// in the order of the program (see `pool.rs`).
    gap: u64,
    from: u64,
    until: u64,
}

impl Bank {
    /// Takes the bank for so long from `now` on, or from when it is free; returns when it has ended.
    #[inline]
    fn take(&mut self, now: u64, time: u64, patience: u64) -> u64 {
        let in_gap = self.gap.max(now);
        if in_gap + time <= self.from && in_gap - now <= patience {
            self.gap = in_gap + time;
            return self.gap;
        }
        let wait = self.until.saturating_sub(now);
        let wait = if wait > patience { 0 } else { wait };
        if now + wait >= self.until {
            self.gap = self.until;
        }
        self.from = now + wait;
        self.until = self.from + time;
        self.until
    }
}

/// Transfers of a bus that are remembered.
const TRANSFERS: usize = 1024;

/// The data bus of a channel. Accesses do not come in the order of their times, so it knows of each
/// stretch of time, no longer than a transfer, the one that begins there.
#[derive(Clone, Debug)]
struct Bus {
    /// By the number of the stretch: when the transfer begins, plus one; 0 for none.
    begins: Vec<u64>,
    burst: u64,
    /// The length of a stretch as a power of two: a transfer touches three at most.
    shift: u32,
}

impl Bus {
    fn new(burst: u64) -> Self {
        Self {
            begins: vec![0; TRANSFERS],
            burst,
            shift: burst.max(1).ilog2(),
        }
    }

    /// Takes the bus for a transfer from the first time on, at or after `from`, at which it is free
    /// for it; returns that time, or `from`, nothing taken, if there is none within `patience`.
    #[inline]
    fn take(&mut self, from: u64, patience: u64) -> u64 {
        if self.burst == 0 {
            return from;
        }
        let mut begin = from;
        while begin <= from + patience {
            let stretch = begin >> self.shift;
            let near = stretch.saturating_sub(2)..=stretch + 2;
            let mut others = near.filter_map(|stretch| self.begins_in(stretch));
            let overlaps = |other: &u64| *other < begin + self.burst && begin < other + self.burst;
            match others.find(overlaps) {
                Some(other) => begin = other + self.burst,
                None => {
                    self.begins[stretch as usize % TRANSFERS] = begin + 1;
                    return begin;
                }
            }
        }
        from
    }

    /// When the transfer begins that begins in a stretch, if one does.
    #[inline(always)]
    fn begins_in(&self, stretch: u64) -> Option<u64> {
        let begins = self.begins[stretch as usize % TRANSFERS].checked_sub(1)?;
        (begins >> self.shift == stretch).then_some(begins)
    }
}

/// The banks and their open rows. The page policy is open: a row stays open until another is asked
/// of its bank. Of refresh there is only that it closes the rows.
#[derive(Clone, Debug)]
pub struct Dram {
    geometry: Geometry,
    banks: Vec<Bank>,
    /// By channel.
    buses: Vec<Bus>,
}

impl Dram {
    /// All rows closed.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            banks: vec![Bank::default(); geometry.banks as usize],
            buses: vec![Bus::new(geometry.burst); geometry.channels as usize],
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
        let refreshes = now.checked_div(g.refresh).unwrap_or(0);
        if bank.opened != refreshes {
            (bank.opened, bank.row) = (refreshes, 0);
        }
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
        let read = bank.take(now, time, g.patience());
        let bus = &mut self.buses[(line & (g.channels - 1)) as usize];
        bus.take(read, g.patience()) - now + g.burst
    }
}
