// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the scan beside a plain read of the same bytes of pagemap, on processes of its own.

use super::cell::size;
use super::cost::Round;
use super::report::{Report, SCHEMA_VERSION};
use crate::output::print;
use crate::show::number;
use anyhow::{Context, Result, bail};
use cohort_snapshot::count::group::{self, By};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::read::pagemap::{CHUNK, Pagemap};
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, page_size};
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of `cohort scan benchmark`.
#[derive(clap::Args)]
pub struct Args {
    /// Processes to fork.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// Memory that each has, in MB.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    megabytes: u64,
    /// Percent of it that each writes, to have pages of its own.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    private: u64,
    /// Times to measure; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Figures {
    schema_version: u32,
    processes: u32,
    pages: u64,
    /// Processor time of reading the same pagemap bytes and dropping them.
    plain_seconds: f64,
    /// Processor time of the scan with its analysis, on one thread.
    scan_seconds: f64,
    ratio: f64,
    pages_per_second_per_core: f64,
    bytes_per_page: f64,
}

/// Children that end with this.
struct Load(Vec<libc::pid_t>);

impl Drop for Load {
    fn drop(&mut self) {
        for pid in &self.0 {
            // SAFETY: children of ours that nobody has waited for.
            unsafe {
                libc::kill(*pid, libc::SIGKILL);
                libc::waitpid(*pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// Runs the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let load = fork(args)?;
    // One thread, so that processor time is that of a core.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .context("cannot start the thread")?;
    let mut best: Option<Figures> = None;
    // Before the first scan: what one leaves with the allocator the next takes up again.
    let before = memory("VmRSS:")?;
    for _ in 0..args.rounds {
        // The first read would find caches cold that the second finds warm.
        let regions = regions(&take(&load)?);
        let plain = timed(|| plain(&regions))?.1;
        forget_peak();
        let (pages, scan) = timed(|| {
            let snapshot = take(&load)?;
            let groups = group::groups(&snapshot, By::Tree, &|uid| uid.to_string());
            Ok(Report::new(&snapshot, &groups, By::Tree)
                .total
                .entries
                .total)
        })?;
        let used = memory("VmHWM:")?.saturating_sub(before);
        let figures = Figures {
            schema_version: SCHEMA_VERSION,
            processes: args.processes,
            pages,
            plain_seconds: plain,
            scan_seconds: scan,
            ratio: scan / plain,
            pages_per_second_per_core: pages as f64 / scan,
            bytes_per_page: used as f64 / pages.max(1) as f64,
        };
        if best
            .as_ref()
            .is_none_or(|best| figures.scan_seconds < best.scan_seconds)
        {
            best = Some(figures);
        }
    }
    drop(load);
    let Some(best) = best else {
        bail!("nothing was measured")
    };
    print(match args.json {
        true => serde_json::to_string_pretty(&best)? + "\n",
        false => text(args, &best),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Args, best: &Figures) -> String {
    format!(
        "{} processes with {} MB, {} % of it their own: {} pages\n\
         plain read of pagemap  {:8.3} s of processor time\n\
         scan and analysis      {:8.3} s, {:.2} times as much; {} pages a second a core\n\
         memory                 {} bytes a mapped page\n",
        number(f64::from(args.processes)),
        number(args.megabytes as f64),
        args.private,
        number(best.pages as f64),
        best.plain_seconds,
        best.scan_seconds,
        best.ratio,
        number(best.pages_per_second_per_core.round()),
        number((best.bytes_per_page * 10.0).round() / 10.0),
    )
}

fn fork(args: &Args) -> Result<Load> {
    let bytes = args.megabytes << 20;
    let own = bytes * args.private / 100;
    let wanted = bytes + own * u64::from(args.processes);
    let free = available()?;
    // Page tables of each child come on top: eight bytes a page.
    let wanted = wanted + bytes / (page_size() / 8) * u64::from(args.processes);
    if wanted > free / 10 * 9 {
        bail!(
            "this load takes {}, and {} are free: ask for fewer --processes, --megabytes or \
             --private",
            size(wanted),
            size(free)
        );
    }
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error()).context("cannot map the load's memory");
    }
    // Small pages are what there is to count.
    // SAFETY: the mapping from above.
    unsafe { libc::madvise(memory, bytes as usize, libc::MADV_NOHUGEPAGE) };
    let touch = |bytes: u64| {
        for at in (0..bytes).step_by(page_size() as usize) {
            // SAFETY: inside the mapping from above.
            unsafe { memory.cast::<u8>().add(at as usize).write_volatile(1) };
        }
    };
    touch(bytes);
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot make a pipe");
    }
    let mut load = Load(Vec::new());
    for _ in 0..args.processes {
        // SAFETY: there is one thread yet; the child touches memory and makes system calls.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: plain system calls; the child ends with its parent.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    touch(own);
                    libc::write(ends[1], b"x".as_ptr().cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
            }
            -1 => return Err(std::io::Error::last_os_error()).context("cannot fork the load"),
            pid => load.0.push(pid),
        }
    }
    // SAFETY: both ends are ours; the mapping is not used by this process any more. A child that
    // dies early closes its end, and the last one makes the read return 0.
    unsafe {
        libc::close(ends[1]);
        libc::munmap(memory, bytes as usize);
        let mut byte = 0u8;
        for _ in 0..args.processes {
            if libc::read(ends[0], (&raw mut byte).cast(), 1) != 1 {
                bail!("a process of the load died before it was ready");
            }
        }
        libc::close(ends[0]);
    }
    Ok(load)
}

fn take(load: &Load) -> Result<Snapshot> {
    Ok(scan::scan(&Options {
        only: Some(&load.0),
        ..Options::all(Paths::default())
    })?)
}

/// Process and pages of every region.
fn regions(snapshot: &Snapshot) -> Vec<(i32, u64, u64)> {
    let each = snapshot.processes.iter();
    each.flat_map(|process| {
        let pid = process.identity.pid;
        process
            .regions
            .iter()
            .map(move |region| (pid, region.start, region.end))
    })
    .collect()
}

fn plain(regions: &[(i32, u64, u64)]) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    for process in regions.chunk_by(|a, b| a.0 == b.0) {
        let pagemap = Pagemap::open(&Paths::default(), process[0].0)
            .context("cannot open the pagemap of a process of the load")?;
        for (_, start, end) in process {
            let mut page = *start;
            while page < *end {
                let wanted = CHUNK.min((end - page) as usize);
                let got = pagemap.read(page, &mut buffer[..wanted])?;
                if got == 0 {
                    break;
                }
                std::hint::black_box(&buffer);
                page += got as u64;
            }
        }
    }
    Ok(())
}

/// What `work` returns, and the processor time that it took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let round = Round::begin();
    let result = work()?;
    Ok((result, round.end(0).cpu_seconds))
}

/// A value of our own status, in bytes.
fn memory(key: &str) -> Result<u64> {
    value("/proc/self/status", key)
}

fn available() -> Result<u64> {
    value("/proc/meminfo", "MemAvailable:")
}

fn value(file: &str, key: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix(key)?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .map(|kilobytes: u64| kilobytes * 1024)
        .with_context(|| format!("{file} has no {key}"))
}

/// Lets the peak of memory begin at what is in use now.
fn forget_peak() {
    // Fails on no kernel that is supported; the figure would only be larger.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
