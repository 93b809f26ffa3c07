// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan`: what sharing address translations would save on this machine.

mod answer;
mod args;
mod benchmark;
mod cell;
mod consistency;
mod cost;
mod diff;
mod export;
mod html;
mod metrics;
mod part;
mod render;
mod report;
mod section;
mod select;
mod table;
mod take;

pub use args::Args;

use crate::output::print;
use anyhow::Result;
use args::{Command, Show};
use cohort_snapshot::Paths;
use cohort_snapshot::count::content::Content;
use cohort_snapshot::count::group;
use cohort_snapshot::model::{Frames, Sampling, Snapshot};
use cohort_snapshot::read::{capture, process};
use cost::Cost;
use render::render;
use report::Report;
use section::ContentReport;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use take::{paths, set_up, take};

/// Page frames could not be seen, or processors not be sampled (EX_NOPERM of sysexits.h).
pub const EXIT_HIDDEN: u8 = 77;

/// Runs `cohort scan`.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        Some(Command::Capture(args)) => {
            let (file, select, reading) = (args.file, args.select, args.reading);
            set_up(&reading)?;
            let snapshot = take(&select, &reading)?;
            capture::save(&snapshot, &file)?;
            let size = std::fs::metadata(&file).map_or(0, |facts| facts.len());
            eprintln!(
                "{} of {} in {}; show them with `cohort scan --from {}`",
                cell::plural(snapshot.processes.len(), "process", "processes"),
                snapshot.host,
                cell::size(size),
                file.display()
            );
            Ok(verdict(&snapshot))
        }
        Some(Command::Diff {
            before,
            after,
            by,
            rows,
            json,
        }) => {
            let report = |file: &Path| -> Result<Report> {
                let snapshot = capture::load(file)?;
                let groups = group::groups(&snapshot, by.into(), &select::user_name);
                Ok(Report::new(&snapshot, &groups))
            };
            let diff = diff::diff(&report(&before)?, &report(&after)?);
            print(match json {
                true => serde_json::to_string_pretty(&diff)? + "\n",
                false => diff.text(rows),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Benchmark(args)) => benchmark::main(&args),
        None => look(&args),
    }
}

/// Scans, or reads a capture, and shows what is in it.
fn look(args: &Args) -> Result<ExitCode> {
    let show = &args.show;
    if show.columns.iter().any(|name| name == "help") {
        print(section::help())?;
        return Ok(ExitCode::SUCCESS);
    }
    set_up(&args.reading)?;
    if let Some(file) = &args.looking.from {
        let started = Instant::now();
        let snapshot = capture::load(file)?;
        let mut report = analyse(&snapshot, show)?;
        report.cost = Some(Cost::so_far(started, pages(&snapshot)));
        print(render(&report, show, false)?)?;
        return Ok(verdict(&snapshot));
    }
    let Some(every) = args.looking.watch else {
        return once(args, false);
    };
    let mut code = ExitCode::SUCCESS;
    for round in 1.. {
        let due = Instant::now() + Duration::from_secs_f64(every);
        if std::io::stdout().is_terminal() {
            print("\x1b[H\x1b[2J")?;
        }
        code = once(args, true)?;
        if args.looking.count.is_some_and(|count| round >= count) {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(code)
}

/// One scan.
fn once(args: &Args, watching: bool) -> Result<ExitCode> {
    let started = Instant::now();
    let snapshot = take(&args.select, &args.reading)?;
    let mut report = analyse(&snapshot, &args.show)?;
    let pages = pages(&snapshot);
    let paths = paths(&args.reading);
    if args.reading.check {
        report.consistency.pss_over_kernel = pss_over_kernel(&snapshot, &paths);
    }
    let hidden = snapshot.frames == Frames::Hidden;
    if args.looking.content && hidden {
        eprintln!(
            "cohort: contents were not looked at, as copies cannot be told from pages that are \
             shared already; run it as root"
        );
    }
    if args.looking.content && !hidden {
        report.add_content(contents(snapshot, args, &paths)?);
        // By what is known only now, if that was asked for.
        table::sort(&mut report.groups, &args.show)?;
        report.cost = Some(Cost::so_far(started, pages));
        print(render(&report, &args.show, watching)?)?;
        return Ok(verdict_of(report.frames, report.sampling.as_ref()));
    }
    report.cost = Some(Cost::so_far(started, pages));
    print(render(&report, &args.show, watching)?)?;
    Ok(verdict(&snapshot))
}

/// Looks at contents as often as asked, each time at a fresh snapshot.
fn contents(first: Snapshot, args: &Args, paths: &Paths) -> Result<ContentReport> {
    let mut found = ContentReport {
        last: Content::read(&first, paths),
        ..ContentReport::default()
    };
    drop(first);
    for _ in 1..args.looking.rounds {
        std::thread::sleep(Duration::from_secs_f64(args.looking.gap));
        let next = Content::read(&take(&args.select, &args.reading)?, paths);
        found.stability.push(found.last.stability(&next));
        found.last = next;
    }
    found.similarity = found.last.similarity();
    Ok(found)
}

fn analyse(snapshot: &Snapshot, show: &Show) -> Result<Report> {
    let groups = group::groups(snapshot, show.by.into(), &select::user_name);
    let mut report = Report::new(snapshot, &groups);
    table::sort(&mut report.groups, show)?;
    Ok(report)
}

/// Our proportional set size over that of smaps_rollup, of processes that are still there.
fn pss_over_kernel(snapshot: &Snapshot, paths: &Paths) -> Option<f64> {
    let (mut ours, mut kernels) = (0.0, 0.0);
    for process in &snapshot.processes {
        let Ok(values) = process::rollup(paths, process.identity.pid) else {
            continue;
        };
        let Some(pss) = values.get("Pss") else {
            continue;
        };
        kernels += *pss as f64;
        ours += process
            .tables
            .iter()
            .map(|table| snapshot.stats(table.id).proportional as f64)
            .sum::<f64>()
            * snapshot.page as f64
            / 4096.0;
    }
    (kernels > 0.0).then(|| ours / kernels)
}

/// Pages in memory or swap, those of huge pages each for itself.
fn pages(snapshot: &Snapshot) -> u64 {
    snapshot
        .processes
        .iter()
        .map(|process| process.pages())
        .sum()
}

fn verdict(snapshot: &Snapshot) -> ExitCode {
    verdict_of(snapshot.frames, snapshot.sampling.as_ref())
}

fn verdict_of(frames: Frames, sampling: Option<&Sampling>) -> ExitCode {
    let unsampled = sampling.and_then(|sampling| sampling.clock.as_ref().err());
    if let Some(why) = unsampled {
        eprintln!("cohort: {why}");
    }
    match frames {
        Frames::Visible if unsampled.is_some() => ExitCode::from(EXIT_HIDDEN),
        Frames::Visible => ExitCode::SUCCESS,
        Frames::NumbersOnly => {
            eprintln!(
                "cohort: /proc/kpageflags and kpagecount may not be read, so zero and merged pages \
                 and proportional sizes are not known; run it as root"
            );
            ExitCode::from(EXIT_HIDDEN)
        }
        Frames::Hidden => {
            eprintln!(
                "cohort: page frames are hidden, so anonymous pages of different processes cannot \
                 be compared; run it as root on the host, or give the program CAP_SYS_ADMIN and \
                 CAP_SYS_PTRACE"
            );
            ExitCode::from(EXIT_HIDDEN)
        }
    }
}
