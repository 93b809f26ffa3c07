// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples of the processors: which instructions the processes ran (EuroSys'16, section 2.3.1).
//!
//! The kernel notes now and then, on every processor, which process runs and where it is
//! (`perf_event_open`). By the processor's own counter of cycles, or where there is none, as in
//! most virtual machines, by a timer.

use super::paths::page_size;
use crate::model::samples::{Clock, Process};
use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Samples a second and processor: not in step with anything that happens a round number of times.
const HERTZ: u64 = 997;
/// Bytes of a processor's buffer: more than what comes between two looks.
const BUFFER: usize = 256 << 10;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Addresses from here on are the kernel's, on all machines of 64 bits.
const KERNEL: u64 = 1 << 63;

/// Why nothing was sampled.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel does not let us.
    #[error(
        "the processors may not be sampled ({source}): run it as root, or give the program \
         CAP_PERFMON, or set /proc/sys/kernel/perf_event_paranoid to 0"
    )]
    Refused {
        /// The system's error.
        source: io::Error,
    },
    /// There is no such thing here.
    #[error("the processors cannot be sampled: this kernel has no perf events ({source})")]
    Missing {
        /// The system's error.
        source: io::Error,
    },
    /// Something else.
    #[error("sampling the processors failed")]
    Failed {
        /// The system's error.
        source: io::Error,
    },
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Error::Refused { source },
            Some(libc::ENOSYS) => Error::Missing { source },
            _ => Error::Failed { source },
        }
    }
}

/// The result of sampling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// The clock that decided when a sample was taken.
    pub clock: Clock,
    /// Samples that the kernel had no room for.
    pub lost: u64,
    /// By process.
    pub processes: BTreeMap<i32, Process>,
}

impl Samples {
    /// Samples all processors for a while.
    pub fn take(duration: Duration) -> Result<Samples, Error> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
        let processors = ranges(&online);
        let (clock, mut samplers) = match open(&processors, Clock::Cycles) {
            Ok(samplers) => (Clock::Cycles, samplers),
            // No counter, or none that can interrupt.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                (Clock::Timer, open(&processors, Clock::Timer)?)
            }
            Err(error) => return Err(error.into()),
        };
        let mut samples = Samples {
            clock,
            lost: 0,
            processes: BTreeMap::new(),
        };
        for sampler in &mut samplers {
            sampler.enable()?;
        }
        let start = Instant::now();
        loop {
            let rest = duration.saturating_sub(start.elapsed());
            std::thread::sleep(rest.min(LOOK));
            for sampler in &mut samplers {
                samples.drain(sampler);
            }
            if rest.is_zero() {
                return Ok(samples);
            }
        }
    }

    fn drain(&mut self, sampler: &mut Sampler) {
        while let Some(record) = sampler.next_record() {
            match record.parse_record() {
                Ok(Record::Sample(sample)) => {
                    if let (Some(pid), Some(address)) = (sample.pid(), sample.ip()) {
                        self.add(pid as i32, address);
                    }
                }
                Ok(Record::Lost(lost)) => self.lost += lost.lost,
                // Others were not asked for.
                _ => {}
            }
        }
    }

    fn add(&mut self, pid: i32, address: u64) {
        // 0 is a processor that is idle.
        if pid == 0 {
            return;
        }
        let process = self.processes.entry(pid).or_default();
        if address >= KERNEL {
            process.kernel += 1;
        } else {
            *process.pages.entry(address / page_size()).or_default() += 1;
        }
    }
}

fn open(processors: &[usize], clock: Clock) -> io::Result<Vec<Sampler>> {
    processors
        .iter()
        .map(|&processor| {
            let mut builder = match clock {
                Clock::Cycles => Builder::new(Hardware::CPU_CYCLES),
                Clock::Timer => Builder::new(Software::CPU_CLOCK),
            };
            builder
                .any_pid()
                .one_cpu(processor)
                .include_kernel()
                .exclude_idle(true)
                .sample(SampleFlag::IP)
                .sample(SampleFlag::TID)
                .sample_frequency(HERTZ)
                .build()?
                .sampled(BUFFER)
        })
        .collect()
}

/// The numbers of a list like `0-3,8`.
fn ranges(text: &str) -> Vec<usize> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_understood() {
        assert_eq!(ranges("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(ranges("0\n"), [0]);
        assert_eq!(ranges("\n"), [0usize; 0]);
    }

    #[test]
    fn addresses_are_told_apart() {
        let mut samples = Samples {
            clock: Clock::Timer,
            lost: 0,
            processes: BTreeMap::new(),
        };
        let page = page_size();
        for address in [5 * page, 5 * page + 8, 9 * page, KERNEL | 77] {
            samples.add(7, address);
        }
        samples.add(0, KERNEL | 1);
        let found = &samples.processes[&7];
        assert_eq!((found.kernel, found.pages.len()), (1, 2));
        assert_eq!(found.pages[&5], 2);
        assert_eq!(samples.processes.len(), 1);
    }

    #[test]
    fn a_busy_process_is_found_where_it_may_be_looked_for() {
        let busy = std::thread::spawn(|| {
            let end = Instant::now() + Duration::from_secs(1);
            let mut sum = 0u64;
            while Instant::now() < end {
                sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
            }
        });
        match Samples::take(Duration::from_millis(700)) {
            Ok(samples) => {
                let own = &samples.processes[&(std::process::id() as i32)];
                assert!(own.pages.values().sum::<u64>() > 0);
            }
            Err(error @ (Error::Refused { .. } | Error::Missing { .. })) => {
                eprintln!("not run: {error}");
            }
            Err(error) => panic!("{error}: {error:?}"),
        }
        busy.join().unwrap();
    }
}
