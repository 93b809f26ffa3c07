// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan`: what sharing address translations would save on this machine.

mod args;
mod benchmark;
pub mod cell;
mod compared;
mod consistency;
mod cost;
mod diff;
mod export;
mod fork_time;
mod html;
mod metrics;
mod paper;
pub mod part;
mod render;
mod report;
mod section;
pub mod select;
mod table;
mod take;
mod verdict;
pub mod watch;

pub use args::Args;

use crate::output::{self, note, print};
use crate::show::columns;
use anyhow::{Context, Result, bail};
use args::{Command, Output, Select};
use cohort_snapshot::Paths;
use cohort_snapshot::count::content::Content;
use cohort_snapshot::count::group;
use cohort_snapshot::model::{Frames, Sampling, Snapshot};
use cohort_snapshot::read::{capture, process};
use cost::Round;
use fork_time::ForkTime;
use render::render;
use report::Report;
use section::{Boundary, ContentReport};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use take::{NoneRead, missed, paths, set_up, take};

/// Page frames could not be seen, or processors not be sampled (EX_NOPERM of sysexits.h).
pub const EXIT_HIDDEN: u8 = 77;

/// Runs `cohort scan`.
pub fn main(mut args: Args) -> Result<ExitCode> {
    if let (Some(_), Output::Html | Output::Openmetrics) = (args.looking.watch, args.show.output) {
        let text = "the forms html and openmetrics are of one scan, without --watch\n";
        clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text).exit();
    }
    // A live screen has no room for progress.
    args.reading.quiet = args.looking.watch.is_some();
    match args.command {
        Some(Command::Capture(args)) => {
            let (file, select, reading) = (args.file, args.select, args.reading);
            set_up(&reading)?;
            let snapshot = take(&select, &reading)?;
            save(&snapshot, &file)?;
            let hidden = rights(snapshot.frames, snapshot.sampling.as_ref());
            Ok(match hidden || missed(&select, &snapshot.skipped) {
                true => ExitCode::from(EXIT_HIDDEN),
                false => ExitCode::SUCCESS,
            })
        }
        Some(Command::Diff {
            before,
            after,
            by,
            rows,
            json,
        }) => {
            let report = |file: &Path| -> Result<Report> {
                let snapshot = load(file)?;
                let groups = group::groups(&snapshot, by.into(), &select::user_name);
                Ok(Report::new(&snapshot, &groups, by.into()))
            };
            let diff = diff::diff(&report(&before)?, &report(&after)?);
            print(match json {
                true => serde_json::to_string_pretty(&diff)? + "\n",
                false => diff.text(rows, usize::from(columns())),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::ForkTime(args)) => fork_time::main(&args),
        Some(Command::Benchmark(args)) => benchmark::main(&args),
        None => look(&args),
    }
}

/// Writes a capture; `-` is the standard output.
fn save(snapshot: &Snapshot, file: &Path) -> Result<()> {
    let processes = cell::plural(snapshot.processes.len(), "process", "processes");
    if file == Path::new("-") {
        let output = output::open()?;
        if output.is_terminal() {
            bail!("a capture is not text: give a file, or send the standard output to a program");
        }
        let written = capture::write_to(snapshot, std::io::BufWriter::new(output.lock()));
        written.context("cannot write the capture to the standard output")?;
        note!("{processes} of {}", snapshot.host);
        return Ok(());
    }
    // A write beyond the limit of a file's size then fails, and leaves no half of a capture behind.
    // SAFETY: no memory is involved, and this process becomes no other program.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    capture::save(snapshot, file)?;
    let size = std::fs::metadata(file).map_or(0, |facts| facts.len());
    note!(
        "{processes} of {} in {}; show them with `cohort scan --from {}`",
        snapshot.host,
        cell::size(size),
        file.display()
    );
    Ok(())
}

/// Reads a capture; `-` is the standard input.
fn load(file: &Path) -> Result<Snapshot> {
    if file != Path::new("-") {
        return Ok(capture::load(file)?);
    }
    let input = std::io::stdin();
    if input.is_terminal() {
        bail!("the standard input is a terminal: give a file, or `cohort scan capture - | ...`");
    }
    Ok(capture::read_from(input.lock(), "the standard input")?)
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
        let round = Round::begin();
        let mut snapshot = load(file)?;
        take::filter(&mut snapshot, &args.select)?;
        let mut report = analyse(&snapshot, args)?;
        report.cost = Some(round.end(pages(&snapshot)));
        print(render(&report, show, None)?)?;
        return Ok(verdict_of(&report, &args.select));
    }
    match args.looking.watch {
        None => {
            let report = once(args, None)?;
            print(render(&report, show, None)?)?;
            Ok(verdict_of(&report, &args.select))
        }
        Some(every) => watch::watch(args, every),
    }
}

/// One scan with its analysis. `fork` is measured already in all rounds of `--watch` but the first.
fn once(args: &Args, fork: Option<ForkTime>) -> Result<Report> {
    let round = Round::begin();
    let snapshot = take(&args.select, &args.reading)?;
    let mut report = analyse(&snapshot, args)?;
    let pages = pages(&snapshot);
    let paths = paths(&args.reading);
    if args.reading.check {
        report.consistency.pss_over_kernel = pss_over_kernel(&snapshot, &paths);
    }
    let hidden = snapshot.frames == Frames::Hidden;
    if args.looking.content && hidden {
        note!(
            "cohort: contents were not looked at, as copies cannot be told from pages that are \
             shared already; run it as root"
        );
    }
    if args.looking.content && !hidden {
        report.add_content(contents(snapshot, args, &paths)?);
        // By what is known only now, if that was asked for.
        table::sort(&mut report.groups, &args.show)?;
    }
    // A made-up tree is of no machine that could be measured.
    let entries = verdict::best(&report.groups).map(|group| group.fork.copied_by_parent);
    let measured = match (entries, paths.is_real()) {
        (Some(entries), true) => {
            fork.or_else(|| fork_time::measure(entries, process::available(&paths)))
        }
        _ => None,
    };
    report.conclude(measured);
    report.cost = Some(round.end(pages));
    Ok(report)
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
        let next = match take(&args.select, &args.reading) {
            Ok(snapshot) => Content::read(&snapshot, paths),
            Err(error) if error.is::<NoneRead>() => {
                note!("cohort: contents were not looked at again: {error}");
                break;
            }
            Err(error) => return Err(error),
        };
        found.stability.push(found.last.stability(&next));
        found.last = next;
    }
    found.similarity = found.last.similarity();
    Ok(found)
}

fn analyse(snapshot: &Snapshot, args: &Args) -> Result<Report> {
    let show = &args.show;
    let groups = group::groups(snapshot, show.by.into(), &select::user_name);
    let mut report = Report::new(snapshot, &groups, show.by.into());
    if args.looking.joins {
        let boundary = Boundary(args.looking.boundary);
        report.add_joins(snapshot, &groups, boundary, show.rows);
    }
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

/// The exit status of a scan, whose reason goes to the standard error.
fn verdict_of(report: &Report, select: &Select) -> ExitCode {
    let hidden = rights(report.frames, report.sampling.as_ref());
    match report.compared.missing() {
        // Contents are compared whatever the groups, and joins whoever the parents are.
        Some(missing)
            if report.verdict.nothing() && report.content.is_none() && report.joins.is_none() =>
        {
            note!(
                "cohort: nothing could be compared: {}; run {}",
                missing.why,
                missing.instead
            );
            ExitCode::from(EXIT_HIDDEN)
        }
        _ if hidden
            || report.compared.program_hidden > 0
            || missed(select, &report.consistency.skipped) =>
        {
            ExitCode::from(EXIT_HIDDEN)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Whether rights were missing, which go to the standard error.
fn rights(frames: Frames, sampling: Option<&Sampling>) -> bool {
    let unsampled = sampling.and_then(|sampling| sampling.clock.as_ref().err());
    if let Some(why) = unsampled {
        note!("cohort: {why}");
    }
    match frames {
        Frames::Visible => return unsampled.is_some(),
        Frames::NumbersOnly => note!(
            "cohort: /proc/kpageflags and kpagecount may not be read, so zero and merged pages \
             and proportional sizes are not known; run it as root"
        ),
        Frames::Hidden => note!(
            "cohort: page frames are hidden, so anonymous pages of different processes cannot be \
             compared; run it as root on the host, or give the program CAP_SYS_ADMIN and \
             CAP_SYS_PTRACE"
        ),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort_snapshot::fake::{FakeProcess, FakeRegion, write_process};

    #[test]
    fn contents_of_processes_that_end_meanwhile_are_kept() {
        #[derive(clap::Parser)]
        struct Scan {
            #[command(flatten)]
            args: Args,
        }
        let dir = tempfile::tempdir().unwrap();
        let region = FakeRegion {
            start: 1 << 20,
            end: (1 << 20) + 1,
            perms: "rw-p".into(),
            entries: vec![1 << 63],
            ..FakeRegion::default()
        };
        let process = FakeProcess {
            pid: 60,
            name: "y".into(),
            regions: vec![region],
            ..FakeProcess::default()
        };
        write_process(dir.path(), &process).unwrap();
        let proc = dir.path().to_str().unwrap();
        let words = "scan --content --rounds 3 --gap 0.01 --proc";
        let words = words.split(' ').chain([proc]);
        let args = <Scan as clap::Parser>::parse_from(words).args;
        let first = take(&args.select, &args.reading).unwrap();
        std::fs::remove_dir_all(dir.path().join("60")).unwrap();
        let found = contents(first, &args, &paths(&args.reading)).unwrap();
        assert!(found.stability.is_empty());
    }
}
