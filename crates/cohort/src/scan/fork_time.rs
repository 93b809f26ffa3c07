// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures a fork of this machine's kernel, of a process with a given number of pages.
//!
//! A program of its own forks: the scan's own memory would be copied too.

use crate::output::print;
use anyhow::{Context, Result, bail};
use cohort_snapshot::page_size;
use serde::{Deserialize, Serialize};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The most memory that is touched; the time of a larger fork is in proportion.
const BOUND: u64 = 256 << 20;
/// Forks, of which the fastest counts: others were interrupted.
const ROUNDS: u32 = 5;

/// Arguments of the hidden subcommand.
#[derive(clap::Args)]
pub struct Args {
    /// Pages to touch before the fork.
    #[arg(long)]
    pages: u64,
}

/// How long a fork takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ForkTime {
    /// Entries that it copies.
    pub entries: u64,
    /// The fork.
    pub seconds: f64,
    /// Of that, what copying the entries takes.
    pub copy_seconds: f64,
}

/// Runs the subcommand: prints the times as JSON.
pub fn main(args: &Args) -> Result<ExitCode> {
    let bytes = (args.pages * page_size()) as usize;
    let empty = fork()?;
    if bytes > 0 {
        touch(bytes)?;
    }
    let seconds = fork()?;
    let time = ForkTime {
        entries: args.pages,
        seconds,
        copy_seconds: (seconds - empty).max(0.0),
    };
    print(serde_json::to_string(&time)? + "\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to every page of a new mapping, which stays.
fn touch(bytes: usize) -> Result<()> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error()).context("cannot map memory to fork");
    }
    // SAFETY: the mapping from above. Entries of small pages are what a fork copies.
    unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
    for at in (0..bytes).step_by(page_size() as usize) {
        // SAFETY: inside the mapping from above.
        unsafe { memory.cast::<u8>().add(at).write_volatile(1) };
    }
    Ok(())
}

/// The fastest of several forks, in seconds.
fn fork() -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        // SAFETY: this process has one thread; the child ends at once.
        let child = unsafe { libc::fork() };
        let seconds = started.elapsed().as_secs_f64();
        match child {
            // SAFETY: ends the child without running what the parent has registered.
            0 => unsafe { libc::_exit(0) },
            -1 => return Err(std::io::Error::last_os_error()).context("cannot fork"),
            // SAFETY: a child of ours that nobody has waited for.
            child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
        };
        best = best.min(seconds);
    }
    Ok(best)
}

/// Measures a fork that copies `entries`. None where that cannot be, or memory is short.
pub fn measure(entries: u64, available: Option<u64>) -> Option<ForkTime> {
    let room = available.map_or(0, |bytes| bytes / 8).min(BOUND) / page_size();
    let pages = entries.min(room);
    if pages == 0 {
        return None;
    }
    let time = run(pages).ok()?;
    let factor = entries as f64 / pages as f64;
    let copy_seconds = time.copy_seconds * factor;
    Some(ForkTime {
        entries,
        seconds: time.seconds - time.copy_seconds + copy_seconds,
        copy_seconds,
    })
}

fn run(pages: u64) -> Result<ForkTime> {
    let output = Command::new("/proc/self/exe")
        .args(["scan", "fork-time", "--pages", &pages.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("measuring a fork failed");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
