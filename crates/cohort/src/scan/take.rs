// SPDX-License-Identifier: GPL-2.0-or-later
//! Takes a snapshot of the processes that are selected.

use super::args::{Reading, Select};
use anyhow::{Context, Result, bail};
use cohort_snapshot::Paths;
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::process::{Reason, Skipped};
use cohort_snapshot::read::scan::{self, Options};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads and niceness.
pub fn set_up(reading: &Reading) -> Result<()> {
    if reading.nice > 0 {
        // SAFETY: changes this process's priority only.
        unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, reading.nice) };
    }
    if let Some(threads) = reading.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads as usize)
            .build_global()
            .context("cannot start the threads")?;
    }
    Ok(())
}

pub fn paths(reading: &Reading) -> Paths {
    reading
        .proc
        .as_ref()
        .map_or_else(Paths::default, Paths::new)
}

/// How far the scan is, on a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::hidden();
    if std::io::stderr().is_terminal() {
        bar.set_style(
            ProgressStyle::with_template("scanning {bar:24} {pos}/{len} processes {elapsed}")
                .expect("a fixed template is valid"),
        );
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(5));
    }
    bar
}

/// Scans what is selected.
pub fn take(select: &Select, reading: &Reading) -> Result<Snapshot> {
    let uids = select.uids()?;
    let known = Mutex::new(HashSet::new());
    let matched = AtomicBool::new(false);
    let bar = progress();
    let snapshot = scan::scan(&Options {
        paths: paths(reading),
        page: cohort_snapshot::page_size(),
        // A tree is found from the parents of all.
        only: (!select.pid.is_empty() && select.tree.is_empty()).then_some(&select.pid[..]),
        select: &|identities| {
            if let Ok(mut known) = known.lock() {
                known.extend(identities.iter().map(|identity| identity.pid));
            }
            select.wanted(identities, &uids)
        },
        region: &|backing, _| {
            let mapping = select.mapping.as_ref();
            let matches = mapping.is_none_or(|mapping| mapping.is_match(&backing.path));
            matched.fetch_or(matches, Ordering::Relaxed);
            matches
        },
        interval: reading.interval.unwrap_or(0.0),
        samples: reading.samples.unwrap_or(0.0),
        rate: reading.rate.map(|rate| rate as f64),
        progress: &|done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        },
    });
    bar.finish_and_clear();
    let mut snapshot = snapshot?;
    for pid in select.pid.iter().chain(&select.tree) {
        if !known.lock().is_ok_and(|known| known.contains(pid))
            && snapshot.skipped.iter().all(|skip| skip.pid != *pid)
        {
            snapshot.skipped.push(Skipped {
                pid: *pid,
                name: String::new(),
                reason: Reason::Vanished,
            });
        }
    }
    let asked = |pid: i32| select.pid.contains(&pid) || select.tree.contains(&pid);
    let selected: Vec<_> = snapshot
        .skipped
        .iter()
        .filter(|skip| asked(skip.pid))
        .collect();
    if snapshot.processes.is_empty() {
        bail!(
            "no process was read{}",
            why_none(select, reading, &snapshot, selected.first())
        );
    }
    if let (Some(mapping), false) = (&select.mapping, matched.into_inner()) {
        bail!("--mapping {mapping} matches no region of what was selected");
    }
    for skip in selected {
        eprintln!("cohort: process {} {}", skip.pid, reason(&skip.reason));
    }
    if !select.all() {
        // A process without a name yet is selected only by its number.
        let named = |skip: &Skipped| !skip.name.is_empty();
        snapshot
            .skipped
            .retain(|skip| named(skip) || asked(skip.pid));
    }
    Ok(snapshot)
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Vanished => "is not there (any more), or is a thread".into(),
        Reason::Refused => "may not be read: run it as root".into(),
        Reason::SharesMemoryOf(pid) => format!("shares the memory of {pid}"),
        Reason::Unreadable(why) => format!("could not be read: {why}"),
    }
}

/// `first` is a process that was asked for by number and not read.
fn why_none(
    select: &Select,
    reading: &Reading,
    snapshot: &Snapshot,
    first: Option<&&Skipped>,
) -> String {
    match first {
        Some(skip) => format!(": process {} {}", skip.pid, reason(&skip.reason)),
        None if select.all() => match snapshot.skipped.len() {
            0 => format!(": there is none in {}", paths(reading).proc().display()),
            count => format!(
                ": all {count} refused or vanished; run it as root, or give the program \
                     CAP_SYS_PTRACE and CAP_SYS_ADMIN"
            ),
        },
        None => ": none matches what was selected".into(),
    }
}
