// SPDX-License-Identifier: GPL-2.0-or-later
//! What the scan itself takes.

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

impl Cost {
    /// What this process has used so far, since `started` for the seconds.
    pub fn so_far(started: Instant, pages: u64) -> Cost {
        // SAFETY: all zeros is a valid rusage, which the call then fills.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Cost {
            seconds: started.elapsed().as_secs_f64(),
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            peak_bytes: usage.ru_maxrss as u64 * 1024,
            pages,
            threads: rayon::current_num_threads(),
        }
    }
}
