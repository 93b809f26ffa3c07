// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan`: what sharing address translations would save on this machine.

mod answer;
mod args;
mod report;
mod select;
mod table;

pub use args::Args;

use anyhow::{Context, Result, bail};
use args::{Output, Reading, Select, Show};
use cohort_snapshot::model::{Frames, Snapshot};
use cohort_snapshot::scan::{self, Options};
use cohort_snapshot::{Paths, group, process};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Cost, Report};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

/// Page frames could not be seen (EX_NOPERM of sysexits.h).
pub const EXIT_HIDDEN: u8 = 77;

/// Runs `cohort scan`.
pub fn main(args: Args) -> Result<ExitCode> {
    if args.show.columns.iter().any(|name| name == "help") {
        print!("{}", table::help());
        return Ok(ExitCode::SUCCESS);
    }
    // A mistyped column should not cost a scan.
    table::columns(&args.show)?;
    table::column(&args.show.sort)?;
    if let Some(threads) = args.reading.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads as usize)
            .build_global()
            .context("cannot start the threads")?;
    }
    let started = Instant::now();
    let snapshot = take(&args.select, &args.reading)?;
    let mut report = analyse(&snapshot, &args.show)?;
    if args.reading.check || snapshot.frames == Frames::Hidden {
        report.consistency.pss_over_kernel = pss_over_kernel(&snapshot, &paths(&args.reading));
    }
    report.cost = Some(cost(started, &snapshot));
    print(&render(&report, &args.show)?)?;
    Ok(verdict(&snapshot))
}

fn paths(reading: &Reading) -> Paths {
    reading
        .proc
        .as_ref()
        .map_or_else(Paths::default, Paths::new)
}

/// Scans what is selected.
fn take(select: &Select, reading: &Reading) -> Result<Snapshot> {
    if reading.nice > 0 {
        // SAFETY: changes this process's priority only.
        unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, reading.nice) };
    }
    let uids = select.uids()?;
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
        select: &|identities| select.wanted(identities, &uids),
        rate: reading.rate.map(|rate| rate as f64),
        progress: &|done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        },
    });
    bar.finish_and_clear();
    let snapshot = snapshot?;
    let selected: Vec<_> = snapshot
        .skipped
        .iter()
        .filter(|skip| select.pid.contains(&skip.pid))
        .collect();
    if snapshot.processes.is_empty() {
        let why = match selected.first() {
            Some(skip) => format!(": process {} {}", skip.pid, reason(&skip.reason)),
            None if select.all() => match snapshot.skipped.len() {
                0 => String::new(),
                count => format!(
                    ": all {count} refused or vanished; run it as root, or give the program \
                     CAP_SYS_PTRACE and CAP_SYS_ADMIN"
                ),
            },
            None => ": none matches what was selected".into(),
        };
        bail!("no process was read{why}");
    }
    Ok(snapshot)
}

fn reason(reason: &process::Reason) -> String {
    match reason {
        process::Reason::Vanished => "vanished".into(),
        process::Reason::Refused => "may not be read: run it as root".into(),
        process::Reason::SharesMemoryOf(pid) => format!("shares the memory of {pid}"),
        process::Reason::Unreadable(why) => format!("could not be read: {why}"),
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
        pages: snapshot
            .processes
            .iter()
            .map(|process| process.pages())
            .sum(),
        threads: rayon::current_num_threads(),
    }
}

fn render(report: &Report, show: &Show) -> Result<String> {
    let output = if show.json { Output::Json } else { show.output };
    Ok(match output {
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Table => {
            let mut text = table::groups(report, show)?;
            text.push('\n');
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
            crate::lab::show::number(cost.pages as f64),
            cost.seconds,
            cost.cpu_seconds,
            table::size(cost.peak_bytes)
        ));
    }
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

/// Writes to the standard output; whoever closes it early has had enough.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the output"),
    }
}

fn verdict(snapshot: &Snapshot) -> ExitCode {
    match snapshot.frames {
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
