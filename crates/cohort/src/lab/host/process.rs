// SPDX-License-Identifier: GPL-2.0-or-later
//! Running other programs: their output goes to a log, and they end when we end.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The longest time between two events, so that progress is redrawn while a program is silent.
const TICK: Duration = Duration::from_millis(200);

/// An act of a program since the last event.
pub enum Event<'a> {
    /// It printed a line.
    Line(&'a str),
    /// It printed nothing.
    Tick,
}

/// Sends `signal` to the child when this process ends in any way: an orphaned guest or compiler
/// would hold locks and cores.
pub fn end_with_us(command: &mut Command, signal: libc::c_int) -> &mut Command {
    // SAFETY: between fork and exec the closure only calls prctl, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0);
            Ok(())
        })
    }
}

/// Starts a command. The error names the program and the command that installs it.
pub fn spawn(command: &mut Command) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .spawn()
        .with_context(|| format!("cannot start {name}: `cohort lab setup` installs it"))
}

/// Runs a command with its output in `log`; calls `each` for every line, and every [`TICK`] without
/// one.
pub fn run_logged(
    command: &mut Command,
    log: &Path,
    mut each: impl FnMut(Event<'_>),
) -> Result<ExitStatus> {
    let mut file = create_log(log)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SIGTERM, not SIGKILL: make then removes its half-written target.
    end_with_us(command, libc::SIGTERM);
    let mut child = spawn(command)?;
    let (sender, lines) = mpsc::channel();
    let streams: [Box<dyn std::io::Read + Send>; 2] = [
        Box::new(child.stdout.take().expect("stdout is piped")),
        Box::new(child.stderr.take().expect("stderr is piped")),
    ];
    for stream in streams {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                writeln!(file, "{line}")
                    .with_context(|| format!("cannot write {}", log.display()))?;
                each(Event::Line(&line));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => each(Event::Tick),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    child.wait().context("cannot wait for a program")
}

/// As [`run_logged`], but fails if the command does; the error begins with `what`.
pub fn run_or_fail(
    command: &mut Command,
    log: &Path,
    what: &str,
    each: impl FnMut(Event<'_>),
) -> Result<()> {
    let status = run_logged(command, log, each)?;
    if !status.success() {
        let text = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        bail!(
            "{what} ({status}): {}; {}the full log is {}",
            last_words(&text),
            cure(&text).unwrap_or_default(),
            log.display()
        );
    }
    Ok(())
}

/// Advice for a failure whose cause is the machine: a full disk or no network.
fn cure(log: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| log.contains(word));
    if says(&["No space left on device", "Disk quota exceeded"]) {
        Some("free some disk space, then run the same command again to continue; ")
    } else if says(&[
        "Could not resolve",
        "Could not connect",
        "Temporary failure resolving",
        "Failed to fetch",
        "Unable to connect",
    ]) {
        Some(
            "check the network and the package sources in /etc/apt, then run the same command \
             again; ",
        )
    } else {
        None
    }
}

/// Runs a command and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn create_log(log: &Path) -> Result<File> {
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    File::create(log).with_context(|| format!("cannot create {}", log.display()))
}

/// The line of a log that most likely gives the reason: the first error, else the last line.
fn last_words(log: &str) -> String {
    let error = log.lines().find(|line| {
        let line = line.to_lowercase();
        ["error:", "no space left"]
            .iter()
            .any(|word| line.contains(word))
            || line.starts_with("e: ")
    });
    let line = error.or_else(|| log.lines().rfind(|line| !line.trim().is_empty()));
    line.unwrap_or("it printed nothing").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_logged_and_seen_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("logs/a.log");
        let mut lines = Vec::new();
        let status = run_logged(
            Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"]),
            &log,
            |event| {
                if let Event::Line(line) = event {
                    lines.push(line.to_string());
                }
            },
        )
        .unwrap();
        assert_eq!(status.code(), Some(3));
        lines.sort();
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(std::fs::read_to_string(&log).unwrap().len(), 8);
    }

    #[test]
    fn a_failure_names_its_reason_and_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.log");
        let error = run_or_fail(
            Command::new("sh").args(["-c", "echo mm/x.c:3: error: no; echo make: failed; exit 2"]),
            &log,
            "the kernel did not build",
            |_| (),
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("the kernel did not build") && error.contains("mm/x.c:3"),
            "{error}"
        );
        assert!(error.contains("a.log"), "{error}");
    }

    #[test]
    fn a_full_disk_and_a_dead_network_come_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        for (says, word) in [
            (
                "tar: a: Cannot write: No space left on device",
                "disk space",
            ),
            ("E: Could not resolve 'one.example'", "network"),
        ] {
            let error = run_or_fail(
                Command::new("sh").args(["-c", &format!("echo \"{says}\"; exit 1")]),
                &dir.path().join("a.log"),
                "it failed",
                |_| (),
            )
            .unwrap_err()
            .to_string();
            assert!(error.contains(says) && error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = run_logged(
            &mut Command::new("no-such-program-here"),
            &dir.path().join("a.log"),
            |_| (),
        )
        .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("no-such-program-here") && text.contains("lab setup"),
            "{text}"
        );
    }
}
