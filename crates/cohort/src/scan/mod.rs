// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan`: what sharing address translations would save on this machine.

mod answer;
mod args;
mod benchmark;
mod details;
mod diff;
mod export;
mod html;
mod report;
mod sections;
mod select;
mod table;

pub use args::Args;

use crate::output::print;
use anyhow::{Context, Result, bail};
use args::{Command, Output, Reading, Select, Show};
use cohort_snapshot::count::content::Content;
use cohort_snapshot::count::entries::Watched;
use cohort_snapshot::model::process::{Reason, Skipped};
use cohort_snapshot::model::{Frames, Sampling, Snapshot};
use cohort_snapshot::read::capture;
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, count::group, read::process};
use indicatif::{ProgressBar, ProgressStyle};
use report::{ContentReport, Cost, Report};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
                answer::plural(snapshot.processes.len(), "process", "processes"),
                snapshot.host,
                table::size(size),
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
        print(table::help())?;
        return Ok(ExitCode::SUCCESS);
    }
    set_up(&args.reading)?;
    if let Some(file) = &args.looking.from {
        let started = Instant::now();
        let snapshot = capture::load(file)?;
        let mut report = analyse(&snapshot, show)?;
        report.cost = Some(cost(started, &snapshot));
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
        report.cost = Some(cost_of(started, &report));
        print(render(&report, &args.show, watching)?)?;
        return Ok(verdict_of(report.frames, report.sampling.as_ref()));
    }
    report.cost = Some(cost(started, &snapshot));
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

/// Threads and niceness.
fn set_up(reading: &Reading) -> Result<()> {
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

fn paths(reading: &Reading) -> Paths {
    reading
        .proc
        .as_ref()
        .map_or_else(Paths::default, Paths::new)
}

/// Scans what is selected.
fn take(select: &Select, reading: &Reading) -> Result<Snapshot> {
    let uids = select.uids()?;
    let known = Mutex::new(HashSet::new());
    let matched = AtomicBool::new(false);
    let bar = ProgressBar::hidden();
    if std::io::stderr().is_terminal() {
        bar.set_style(
            ProgressStyle::with_template("scanning {bar:24} {pos}/{len} processes {elapsed}")
                .expect("a fixed template is valid"),
        );
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(5));
    }
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
        let why = match selected.first() {
            Some(skip) => format!(": process {} {}", skip.pid, reason(&skip.reason)),
            None if select.all() => match snapshot.skipped.len() {
                0 => format!(": there is none in {}", paths(reading).proc().display()),
                count => format!(
                    ": all {count} refused or vanished; run it as root, or give the program \
                     CAP_SYS_PTRACE and CAP_SYS_ADMIN"
                ),
            },
            None => ": none matches what was selected".into(),
        };
        bail!("no process was read{why}");
    }
    if let (Some(mapping), false) = (&select.mapping, matched.into_inner()) {
        bail!("--mapping {mapping} matches no region of what was selected");
    }
    for skip in selected {
        eprintln!("cohort: process {} {}", skip.pid, reason(&skip.reason));
    }
    if !select.all() {
        // Who had no name yet was not selected either, unless by number.
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

fn cost(started: Instant, snapshot: &Snapshot) -> Cost {
    let pages = snapshot
        .processes
        .iter()
        .map(|process| process.pages())
        .sum();
    measure(started, pages)
}

/// As `cost`, when the snapshot is gone.
fn cost_of(started: Instant, report: &Report) -> Cost {
    measure(started, report.total.entries.total)
}

/// What this process has used so far.
fn measure(started: Instant, pages: u64) -> Cost {
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

/// The output; `watching` puts an object of JSON on one line.
fn render(report: &Report, show: &Show, watching: bool) -> Result<String> {
    let output = if show.json { Output::Json } else { show.output };
    Ok(match output {
        Output::Json if watching => serde_json::to_string(report)? + "\n",
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Csv => export::csv(report, show)?,
        Output::Openmetrics => export::openmetrics(report),
        Output::Html => html::page(report, show)?,
        Output::Table => {
            let mut text = table::groups(report, show)?;
            text.push('\n');
            if show.details || report.content.is_some() {
                for part in details::parts(report, &report.total) {
                    text.push_str(&part.text());
                    text.push('\n');
                }
            }
            text.push_str(&notes(report));
            text.push_str(&wrap(&report.answer));
            text
        }
    })
}

fn notes(report: &Report) -> String {
    let mut text = String::new();
    if let Some(cost) = &report.cost {
        text.push_str(&format!(
            "Read {} pages in {:.2} s: {:.2} s of processor time, {} of memory at most.\n",
            crate::show::number(cost.pages as f64),
            cost.seconds,
            cost.cpu_seconds,
            table::size(cost.peak_bytes)
        ));
    }
    text.push_str(match report.total.entries.active.map(|active| active.by) {
        Some(Watched::Frames) => {
            "Active entries: known frame by frame, from the kernel's idle page tracking.\n"
        }
        Some(Watched::Regions) => {
            "Active entries: known region by region, as no idle page tracking is to be had here.\n"
        }
        None => "",
    });
    if let Some(ratio) = report.consistency.pss_over_kernel {
        text.push_str(&format!(
            "Proportional set size: {:.2} % of what the kernel's smaps says.\n",
            100.0 * ratio
        ));
    }
    text
}

/// Breaks a sentence into lines of at most 100 columns.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_string());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
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
