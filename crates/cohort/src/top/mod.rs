// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort top`: what processes share now, on a machine with Cohort's kernel.
//!
//! It does not stop anything while it reads, so a frame is not of one instant.

mod frame;
mod text;

use crate::output::{note, offer};
use crate::run::{EXIT_NO_COHORT, setting};
use crate::scan::watch::drawn_over;
use crate::show::{columns, height};
use anyhow::Result;
use cohort_snapshot::Paths;
use frame::{Frame, Modes, Reading};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Rows of a table unless --lines says more.
const ROWS: usize = 20;

/// The definitions of the figures.
const FIGURES: &str = "\
Figures, of each process or summed over the processes of a row. A table is a last-level page table.

shared: tables that have other users now (SharedTables of /proc/PID/cohort).

owned: those of them that are charged to the process (OwnedTables). A shared table has one owner.

saved: shared less owned, that is the tables that there would be besides if each process had its own.

tables: shared tables of a group or a cohort, each counted once: the sum of owned.

open: tables that others of the process's group may join, whether or not they have (OpenTables).

PMD: tables one level up that have other users (SharedPmdTables). Tables below them are in shared.

borrowed: memory that shared tables of other owners map for the process (BorrowedAnon, BorrowedFile \
and BorrowedShmem). Sums count it once for each process.

cohort: processes that were forked from one another. group: processes that need not be. A process in \
a group is counted there, and not in its cohort.

Events are those since the frame before, in the first frame those since boot (/proc/vmstat): tables \
shared at fork, once for each child; tables that faults joined; tables unshared, that is copied \
because of a fault, a new mapping, an unmapped part or another change; tables left without a copy; \
entries that faults filled in shared tables, for all their users.";

/// Arguments of `cohort top`.
#[derive(clap::Args)]
#[command(after_long_help = FIGURES)]
pub struct Args {
    /// Seconds between two frames.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    interval: f64,
    /// Stop after this many frames. Without it, a terminal gets frames until ^C, and a file or pipe
    /// one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// At most this many rows per table; 20 unless given, with --json all. A terminal gets no more
    /// than it has room for.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    lines: Option<u32>,
    /// Show only this table.
    #[arg(short, long, value_enum)]
    by: Option<By>,
    /// One JSON object per frame and line, with a schema_version.
    #[arg(long)]
    json: bool,
    /// Read DIR/proc and DIR/sys.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// A process.
    Process,
    /// A group, or a cohort of processes that are in no group.
    Group,
}

impl Args {
    fn shows(&self, table: By) -> bool {
        self.by.is_none_or(|by| by == table)
    }

    /// Most rows per table.
    fn rows(&self) -> usize {
        match self.lines {
            Some(lines) => lines as usize,
            None if self.json => usize::MAX,
            None => ROWS,
        }
    }
}

/// Shows frame after frame.
pub fn main(args: &Args) -> Result<ExitCode> {
    let paths = Paths::new(args.root.join("proc"));
    let terminal = std::io::stdout().is_terminal();
    let count = args.count.unwrap_or(if terminal { u64::MAX } else { 1 });
    let mut before: Option<Reading> = None;
    for round in 1..=count {
        let modes = Modes {
            fork: setting(&args.root, "enabled"),
            join: setting(&args.root, "join"),
        };
        let reading = Reading::new(&paths)?;
        if modes.fork.is_none() && reading.events.is_empty() {
            note!(
                "cohort: this kernel has no Cohort, so no processes share page tables; `cohort \
                 scan` predicts what sharing would save here. `cohort lab deb` builds packages of \
                 Cohort's kernel for this machine, `cohort lab shell` boots it in a guest"
            );
            return Ok(ExitCode::from(EXIT_NO_COHORT));
        }
        let frame = Frame::new(&reading, before.as_ref(), modes);
        let shown = show(frame, args, terminal)?;
        let again = offer(match (terminal && !args.json, round) {
            (true, _) => drawn_over(&shown, round),
            (false, 2..) if !args.json => format!("\n{shown}"),
            (false, _) => shown,
        })?;
        if !again {
            break;
        }
        // From when events were read, so that they are never those of less than an interval.
        let due = reading.at + Duration::from_secs_f64(args.interval);
        before = Some(reading);
        if round < count {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The frame in the form that was asked for.
fn show(mut frame: Frame, args: &Args, terminal: bool) -> Result<String> {
    let rows = args.rows();
    if args.json {
        frame.keep(args.shows(By::Group), args.shows(By::Process), rows);
        return Ok(serde_json::to_string(&frame)? + "\n");
    }
    let tables = (args.shows(By::Group), args.shows(By::Process));
    let text = |rows| text::frame(&frame, tables, rows, usize::from(columns()));
    // The last line is the cursor's.
    match height().filter(|_| terminal) {
        Some(height) => Ok(fit(
            text,
            rows,
            usize::from(height).saturating_sub(1).max(1),
        )),
        None => Ok(text(rows)),
    }
}

/// The text with as many rows per table as fit into `height` lines, `rows` at most.
fn fit(text: impl Fn(usize) -> String, rows: usize, height: usize) -> String {
    let lines = |text: &str| text.lines().count();
    let mut shown = text(rows.min(height));
    for rows in (1..rows.min(height)).rev() {
        if lines(&shown) <= height {
            break;
        }
        shown = text(rows);
    }
    let kept = shown.lines().take(height);
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// A time that makes sense.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.1 to 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_as_many_rows_as_fit() {
        let text = |rows: usize| format!("head\n{}", "row\n".repeat(rows));
        for (rows, height, lines) in [(20, 100, 21), (20, 10, 10), (20, 2, 2), (1, 1, 1)] {
            let shown = fit(text, rows, height);
            assert_eq!(shown.lines().count(), lines, "{rows} {height}");
        }
    }

    #[test]
    fn intervals_are_at_least_a_tenth_of_a_second() {
        assert_eq!(seconds("0.1"), Ok(0.1));
        for wrong in ["0.09", "-1", "0", "nan", "inf", "86401", "soon", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
