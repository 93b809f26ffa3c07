// SPDX-License-Identifier: GPL-2.0-or-later
//! Time and memory that the scan itself takes.

use serde::Serialize;
use std::time::Instant;

#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Most memory that was in use.
    pub peak_bytes: u64,
    /// Pages in memory or swap that were found.
    pub pages: u64,
    pub threads: usize,
}

/// A scan that has begun.
pub struct Round {
    started: Instant,
    cpu_seconds: f64,
}

impl Round {
    pub fn begin() -> Round {
        Round {
            started: Instant::now(),
            cpu_seconds: usage().0,
        }
    }

    /// The cost since it began.
    pub fn end(&self, pages: u64) -> Cost {
        let (cpu_seconds, peak_bytes) = usage();
        Cost {
            seconds: self.started.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds - self.cpu_seconds,
            peak_bytes,
            pages,
            threads: rayon::current_num_threads(),
        }
    }
}

/// Processor seconds of this process so far, and the most memory that it used.
fn usage() -> (f64, u64) {
    // SAFETY: all zeros is a valid rusage, which the call then fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    (cpu_seconds, usage.ru_maxrss as u64 * 1024)
}
