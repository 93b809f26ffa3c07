// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests that the guest marks: those under way, and how long those took that are done.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::HashMap;

/// Latencies of requests, in cycles.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// Requests that ended in the region of interest.
    pub count: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Smallest.
    pub min: u64,
    /// Median; this and the other percentiles to three digits.
    pub p50: u64,
    /// 95th percentile, the tail of ISCA'20.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Ends without a begin.
    pub unmatched: u64,
    /// Counts by power of two: `(up to, requests)`, empty classes before the first left out.
    pub histogram: Vec<(u64, u64)>,
}

/// The moment of a mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    core: usize,
    /// By the core's clock.
    local: u64,
    /// By the clock that is farthest: the cores' run apart by up to a time slice of the source.
    latest: u64,
}

impl When {
    /// A mark on `core`, whose clock shows `local`; no other was seen beyond `latest`.
    pub fn of(core: usize, local: u64, latest: u64) -> Self {
        Self {
            core,
            local,
            latest: latest.max(local),
        }
    }

    /// Ticks since an earlier mark. Between two cores they are to within a time slice, and a clock
    /// that lags behind does not make them none.
    fn since(self, began: Self) -> u64 {
        match self.core == began.core {
            true => self.local.saturating_sub(began.local),
            false => self.latest - began.latest.min(self.latest),
        }
    }
}

/// Requests under way and done.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    open: HashMap<u64, When>,
    done: Histogram<u64>,
    sum: u128,
    unmatched: u64,
}

impl Default for Requests {
    fn default() -> Self {
        let done = Histogram::new(3).expect("three digits are allowed");
        Self {
            open: HashMap::new(),
            done,
            sum: 0,
            unmatched: 0,
        }
    }
}

impl Requests {
    /// Forgets what is done; what is under way goes on.
    pub fn clear(&mut self) {
        self.done.reset();
        self.sum = 0;
        self.unmatched = 0;
    }

    /// A request begins, or begins anew.
    pub fn begin(&mut self, id: u64, now: When) {
        self.open.insert(id, now);
    }

    /// A request ends. `counts`: inside the region of interest.
    pub fn end(&mut self, id: u64, now: When, ticks_per_cycle: u64, counts: bool) {
        match self.open.remove(&id) {
            Some(began) if counts => {
                let cycles = now.since(began) / ticks_per_cycle;
                self.done.saturating_record(cycles);
                self.sum += u128::from(cycles);
            }
            Some(_) => {}
            None => self.unmatched += u64::from(counts),
        }
    }

    pub fn latencies(&self) -> Latencies {
        if self.done.is_empty() {
            return Latencies {
                unmatched: self.unmatched,
                ..Latencies::default()
            };
        }
        Latencies {
            count: self.done.len(),
            mean: self.sum as f64 / self.done.len() as f64,
            min: self.done.min(),
            p50: self.done.value_at_quantile(0.50),
            p95: self.done.value_at_quantile(0.95),
            p99: self.done.value_at_quantile(0.99),
            max: self.done.max(),
            unmatched: self.unmatched,
            histogram: self
                .done
                .iter_log(1, 2.0)
                .map(|class| {
                    (
                        class.value_iterated_to(),
                        class.count_since_last_iteration(),
                    )
                })
                .skip_while(|&(_, count)| count == 0)
                .collect(),
        }
    }
}
