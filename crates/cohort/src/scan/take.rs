// SPDX-License-Identifier: GPL-2.0-or-later
//! Takes a snapshot of the processes that are selected.

use super::args::{Reading, Select};
use crate::output::note;
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
use std::time::{Duration, Instant};

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

/// A scan that is over before this shows no progress.
const PATIENCE: Duration = Duration::from_millis(300);

/// How far the scan is, on a terminal.
struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: AtomicBool,
}

impl Progress {
    fn begin(shown: bool) -> Progress {
        let bar = ProgressBar::hidden();
        bar.set_style(
            ProgressStyle::with_template("scanning {bar:24} {pos}/{len} processes {elapsed}")
                .expect("a fixed template is valid"),
        );
        Progress {
            bar,
            started: Instant::now(),
            shown: AtomicBool::new(!shown || !std::io::stderr().is_terminal()),
        }
    }

    fn at(&self, done: usize, total: usize) {
        if self.started.elapsed() >= PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar
                .set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(5));
        }
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }
}

/// Leaves the processes of a capture that are selected.
pub fn filter(snapshot: &mut Snapshot, select: &Select) -> Result<()> {
    if select.all() {
        return Ok(());
    }
    let each = snapshot.processes.iter();
    let identities: Vec<_> = each.map(|process| process.identity.clone()).collect();
    snapshot.retain(&select.wanted(&identities, &select.uids()?));
    if snapshot.processes.is_empty() {
        bail!("no process of the capture matches what was selected");
    }
    snapshot.skipped.retain(|skip| asked(select, skip.pid));
    let known = identities.iter().map(|identity| identity.pid).collect();
    name_absent(snapshot, select, &known, |_| Reason::Vanished);
    say_skipped(snapshot, select);
    Ok(())
}

/// Whether a process was asked for by its number.
fn asked(select: &Select, pid: i32) -> bool {
    select.pid.contains(&pid) || select.tree.contains(&pid)
}

/// Whether a process that was asked for by its number was not read.
pub fn missed(select: &Select, skipped: &[Skipped]) -> bool {
    skipped
        .iter()
        .any(|skip| asked(select, skip.pid) && !matches!(skip.reason, Reason::SharesMemoryOf(_)))
}

/// Names those that were asked for by number and of which nothing is `known`.
fn name_absent(
    snapshot: &mut Snapshot,
    select: &Select,
    known: &HashSet<i32>,
    why: impl Fn(i32) -> Reason,
) {
    for &pid in select.pid.iter().chain(&select.tree) {
        if !known.contains(&pid) && snapshot.skipped.iter().all(|skip| skip.pid != pid) {
            snapshot.skipped.push(Skipped {
                pid,
                name: String::new(),
                reason: why(pid),
            });
        }
    }
}

/// Says why processes that were asked for by number are not in the snapshot.
fn say_skipped(snapshot: &Snapshot, select: &Select) {
    let skipped = snapshot.skipped.iter();
    for skip in skipped.filter(|skip| asked(select, skip.pid)) {
        note!("cohort: process {} {}", skip.pid, reason(&skip.reason));
    }
}

/// There is no snapshot, as no process was read.
#[derive(Debug)]
pub struct NoneRead(String);

impl std::error::Error for NoneRead {}

impl std::fmt::Display for NoneRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no process was read{}", self.0)
    }
}

/// Scans what is selected.
pub fn take(select: &Select, reading: &Reading) -> Result<Snapshot> {
    let uids = select.uids()?;
    let known = Mutex::new(HashSet::new());
    let matched = AtomicBool::new(false);
    let progress = Progress::begin(!reading.quiet);
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
        progress: &|done, total| progress.at(done, total),
    });
    progress.bar.finish_and_clear();
    let mut snapshot = snapshot?;
    snapshot.regions_left_out = select.mapping.is_some();
    let known = known.into_inner().unwrap_or_default();
    name_absent(&mut snapshot, select, &known, |pid| {
        scan::absence(&paths(reading), pid)
    });
    if snapshot.processes.is_empty() {
        bail!(NoneRead(why_none(select, reading, &snapshot)));
    }
    if let (Some(mapping), false) = (&select.mapping, matched.into_inner()) {
        bail!("--mapping {mapping} matches no region of what was selected");
    }
    say_skipped(&snapshot, select);
    if !select.all() {
        // A process without a name yet is selected only by its number.
        let named = |skip: &Skipped| !skip.name.is_empty();
        snapshot
            .skipped
            .retain(|skip| named(skip) || asked(select, skip.pid));
    }
    Ok(snapshot)
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Vanished => "is not there (any more), or is a thread".into(),
        Reason::Refused => {
            // SAFETY: no memory is involved.
            let root = unsafe { libc::geteuid() } == 0;
            let cure = match root {
                true => "this root lacks CAP_SYS_PTRACE, or is of another user namespace",
                false => "run it as root",
            };
            format!("may not be read: {cure}")
        }
        Reason::SharesMemoryOf(pid) => format!("shares the memory of {pid}"),
        Reason::Unreadable(why) => format!("could not be read: {why}"),
        Reason::Ended => "has ended, and its parent has not waited for it yet (a zombie)".into(),
        Reason::Kernel => "is a kernel thread, which has no memory of its own".into(),
        Reason::Own => "is this scan itself, which leaves itself out".into(),
    }
}

fn why_none(select: &Select, reading: &Reading, snapshot: &Snapshot) -> String {
    let mut skipped = snapshot.skipped.iter();
    match skipped.find(|skip| asked(select, skip.pid)) {
        Some(skip) => format!(": process {} {}", skip.pid, reason(&skip.reason)),
        None if select.all() => match snapshot.skipped.len() {
            0 => format!(
                ": there is none in {} that this user sees; run it as root, as that may be \
                     mounted with hidepid",
                paths(reading).proc().display()
            ),
            count => format!(
                ": all {count} refused or vanished; run it as root, or give the program \
                     CAP_SYS_PTRACE and CAP_SYS_ADMIN"
            ),
        },
        None => ": none matches what was selected".into(),
    }
}
