// SPDX-License-Identifier: GPL-2.0-or-later
//! Holds a scan to a rate, and counts what it reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts pages that are read and, with a limit, sleeps so that no more are read a second.
pub struct Pace {
    limit: Option<f64>,
    start: Instant,
    done: AtomicU64,
}

impl Pace {
    /// At most `limit` pages a second, over all threads.
    pub fn new(limit: Option<f64>) -> Pace {
        Pace {
            limit,
            start: Instant::now(),
            done: AtomicU64::new(0),
        }
    }

    /// `pages` more have been read: sleeps when that was too fast.
    pub fn done(&self, pages: u64) {
        let done = self.done.fetch_add(pages, Ordering::Relaxed) + pages;
        if let Some(limit) = self.limit {
            let due = Duration::from_secs_f64(done as f64 / limit);
            if let Some(early) = due.checked_sub(self.start.elapsed()) {
                std::thread::sleep(early);
            }
        }
    }
}
