// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan` from its command line to its output, on processes that the tests start.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn cohort(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cohort"))
        .args(args)
        .output()
        .unwrap()
}

/// The exit statuses of a scan that ran: all is known, or frames are hidden from this user.
fn ran(output: &Output) -> bool {
    let code = output.status.code();
    assert!(
        code == Some(0) || code == Some(77),
        "{code:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    code == Some(0)
}

fn json(args: &[&str]) -> (Value, bool) {
    let output = cohort(args);
    let all = ran(&output);
    (serde_json::from_slice(&output.stdout).unwrap(), all)
}

/// A process that waits, or works, until it is dropped or its test dies.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Process {
        // SAFETY: one system call, which is safe to make between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Process(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    /// A shell that runs `script`, once that has printed a line.
    fn shell(script: &str) -> Process {
        let mut process = Process::start(
            Command::new("sh")
                .args(["-c", script])
                .stdout(Stdio::piped()),
        );
        let mut line = String::new();
        let output = process.0.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        process
    }

    /// The same process, once it waits: after it has said that it is ready it touches more memory.
    fn asleep(self) -> Process {
        let stat = format!("/proc/{}/stat", self.pid());
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        self
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleeper() -> Process {
    Process::shell("echo ready; read -r line").asleep()
}

/// A shell that forks over and over. A fork flushes its TLB entries, so that the CPU sets the
/// accessed bits again: a loop within a few pages may never miss in the TLB.
fn busy() -> Process {
    Process::shell("echo ready; while :; do (:); done")
}

#[test]
fn a_scan_is_one_object_with_a_version_whose_sums_add_up() {
    let process = sleeper();
    let (report, _) = json(&["scan", "--json", "--pid", &process.pid()]);
    assert!(report["schema_version"].is_u64());
    assert_eq!(report["total"]["pids"], serde_json::json!([process.0.id()]));
    let entries = &report["total"]["entries"];
    let sum: u64 = ["shareable", "unshareable", "huge", "swapped", "unknown"]
        .iter()
        .map(|class| entries[class].as_u64().unwrap())
        .sum();
    assert!(sum > 0 && entries["total"] == sum);
    let contents = report["total"]["contents"].as_object().unwrap();
    assert_eq!(
        contents.values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        sum
    );
}

#[test]
fn a_rate_bounds_the_pages_read_in_a_second() {
    let process = sleeper();
    let pid = process.pid();
    let (plain, _) = json(&["scan", "--json", "--pid", &pid]);
    let begin = Instant::now();
    let (report, _) = json(&["scan", "--json", "--pid", &pid, "--rate", "1000"]);
    // Every region is read whole, so at least what was found at a thousand a second.
    let pages = plain["total"]["entries"]["total"].as_f64().unwrap();
    assert!(begin.elapsed().as_secs_f64() > pages / 1000.0 * 0.9);
    assert_eq!(report["total"]["entries"], plain["total"]["entries"]);
}

#[test]
fn a_nice_scan_is_nice() {
    let process = sleeper();
    let mut scan = Process::start(
        Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["scan", "--json", "--nice", "7", "--rate", "10", "--pid"])
            .arg(process.pid())
            .stdout(Stdio::null()),
    );
    // Held back to ten pages a second, it is there for longer than this takes.
    let stat = format!("/proc/{}/stat", scan.0.id());
    let nice = || -> Option<String> {
        let text = std::fs::read_to_string(&stat).ok()?;
        let rest = text.rsplit_once(')')?.1;
        Some(rest.split_whitespace().nth(16)?.to_string())
    };
    while nice().as_deref() != Some("7") {
        assert!(
            scan.0.try_wait().unwrap().is_none(),
            "it ended without being nice"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn watching_scans_as_often_as_asked() {
    let process = sleeper();
    let output = cohort(&[
        "scan",
        "--json",
        "--pid",
        &process.pid(),
        "--watch",
        "0.1",
        "--count",
        "3",
    ]);
    ran(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    let reports: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), 3);
    for report in &reports[1..] {
        assert_eq!(report["total"]["entries"], reports[0]["total"]["entries"]);
    }
}

#[test]
fn watching_goes_on_when_its_processes_end() {
    let proc = made_up(false);
    let mut scan = Process::start(
        Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["scan", "--watch", "0.2", "-p", "60", "--proc"])
            .arg(proc.path())
            .stdout(Stdio::piped()),
    );
    let mut lines = BufReader::new(scan.0.stdout.take().unwrap()).lines();
    let mut until = |words: &str| lines.any(|line| line.unwrap().contains(words));
    assert!(until("Verdict: "));
    let (there, gone) = (proc.path().join("60"), proc.path().join("gone"));
    std::fs::rename(&there, &gone).unwrap();
    assert!(until("Now no process was read"));
    std::fs::rename(&gone, &there).unwrap();
    assert!(until("Verdict: "));
}

#[test]
fn watching_ends_when_its_reader_is_gone() {
    let process = sleeper();
    let mut scan = Process::start(
        Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["scan", "--json", "--watch", "0.1", "--pid", &process.pid()])
            .stdout(Stdio::piped()),
    );
    let mut line = String::new();
    let output = scan.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while scan.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "it goes on without a reader");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// 170 KB of text in a shell's memory, the same and at the same places of pages in every process.
fn holder() -> Process {
    Process::shell("text=$(seq 1 30000); echo ready; read -r line").asleep()
}

#[test]
fn equal_contents_are_found_and_stay_so() {
    let (one, two) = (holder(), holder());
    let pids = format!("{},{}", one.pid(), two.pid());
    let args = [
        "scan",
        "--json",
        "--content",
        "--rounds",
        "2",
        "--gap",
        "0.1",
        "--pid",
        &pids,
    ];
    let output = cohort(&args);
    if !ran(&output) {
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains("contents were not looked at"), "{words}");
        eprintln!("not run: page frames are hidden from this user");
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = &report["content"]["last"];
    // 41 whole pages in each.
    assert!(last["equal"].as_u64().unwrap() >= 80, "{last}");
    assert_eq!(report["content"]["stability"].as_array().unwrap().len(), 1);
    // The same figures a group, and as a table for other programs.
    let merging = &report["total"]["merging"];
    assert_eq!(merging["equal"], last["equal"]);
    let args = [
        "scan",
        "--content",
        "-o",
        "csv",
        "-c",
        "merge-read,merge-equal",
    ];
    let output = cohort(&[&args[..], &["--by", "process", "--pid", &pids]].concat());
    assert!(ran(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<u64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter().all(|row| row[1] >= 40 && row[1] <= row[0]),
        "{text}"
    );
}

#[test]
fn an_interval_tells_used_entries_from_idle_ones() {
    // Memory of its own, which nobody uses. (Pages of files count as used whoever does.)
    let idle = holder();
    let busy = busy();
    let (report, _) = json(&[
        "scan",
        "--json",
        "--by",
        "process",
        "--interval",
        "0.5",
        "--pid",
        &format!("{},{}", busy.pid(), idle.pid()),
    ]);
    let entries = |pid: u32| {
        let groups = report["groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["pids"][0] == pid).unwrap();
        let count = |value: &Value| value.as_f64().unwrap();
        let entries = &group["entries"];
        (count(&entries["total"]), count(&entries["active"]["total"]))
    };
    let (total, active) = entries(idle.0.id());
    // The text is 168,894 bytes. Whatever its alignment, 40 pages hold nothing else.
    assert!(active <= total - 40.0, "idle: {active} of {total}");
    let (total, active) = entries(busy.0.id());
    assert!(0.0 < active && active <= total, "busy: {active} of {total}");
}

#[test]
fn samples_find_a_busy_process_or_say_why_not() {
    let busy = busy();
    let output = cohort(&["scan", "--json", "--samples", "1", "--pid", &busy.pid()]);
    let all = ran(&output);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    if let Some(why) = report["sampling"]["clock"]["Err"].as_str() {
        assert!(!all && String::from_utf8_lossy(&output.stderr).contains(why));
        assert!(why.contains("perf"), "{why}");
        return;
    }
    let sampled = &report["total"]["code"]["sampled"];
    let program = sampled["instructions"]["program"].as_f64().unwrap();
    let libraries = sampled["instructions"]["loaded"].as_f64().unwrap();
    assert!(program + libraries > 0.0, "{sampled}");
    assert!(sampled["pages"]["program"].as_f64().unwrap() <= program);
}

#[test]
fn a_capture_shows_what_the_scan_did() {
    let dir = tempfile::tempdir().unwrap();
    let process = sleeper();
    let file = dir.path().join("capture");
    let file = file.to_str().unwrap();
    let pid = process.pid();
    ran(&cohort(&["scan", "capture", file, "--pid", &pid]));
    let (scanned, _) = json(&["scan", "--json", "--pid", &pid]);
    let (loaded, _) = json(&["scan", "--json", "--from", file]);
    for part in ["entries", "contents", "ptps", "fork", "larger_pages"] {
        assert_eq!(loaded["total"][part], scanned["total"][part], "{part}");
    }
    let diff = cohort(&["scan", "diff", file, file, "--json"]);
    assert_eq!(diff.status.code(), Some(0));
    // Of another format, or none: refused in a sentence that names the file.
    std::fs::write(file, "COHORT-SCAN 0\n").unwrap();
    let refused = cohort(&["scan", "--from", file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains(file));
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let process = sleeper();
    let pids = format!("999999999,{}", process.pid());
    for option in ["--pid", "--tree"] {
        // Of those that are there, all is told; of the other, that it was not read.
        let output = cohort(&["scan", "--json", option, &pids]);
        assert_eq!(output.status.code(), Some(77));
        assert!(String::from_utf8_lossy(&output.stderr).contains("999999999"));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["consistency"]["read"], 1);
        assert_eq!(report["consistency"]["skipped"][0]["pid"], 999_999_999);
        let output = cohort(&["scan", option, "999999999"]);
        assert_eq!(output.status.code(), Some(1));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains("process 999999999 is not there"), "{words}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("capture");
    let file = file.to_str().unwrap();
    let proc = made_up(false);
    let proc = proc.path().to_str().unwrap();
    for args in [
        &["scan", "capture", file, "--proc", proc][..],
        &["scan", "--from", file],
    ] {
        assert_eq!(cohort(args).status.code(), Some(0));
        let output = cohort(&[args, &["-p", "50,60,70"]].concat());
        assert_eq!(output.status.code(), Some(77), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("process 70 is not there"));
        // All again, for the next.
        cohort(&["scan", "capture", file, "--proc", proc]);
    }
}

#[test]
fn a_process_without_memory_is_told_apart() {
    let process = sleeper();
    let mut zombie = Process::start(&mut Command::new("true"));
    let stat = format!("/proc/{}/stat", zombie.pid());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let pids = format!("{},{}", process.pid(), zombie.pid());
    let output = cohort(&["scan", "--json", "-p", &pids]);
    assert_eq!(output.status.code(), Some(77));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("(a zombie)"), "{words}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["consistency"]["ended"], 1);
    assert_eq!(report["consistency"]["vanished"], 0);
    zombie.0.wait().unwrap();
    // The number that the scan has itself.
    let scan = "exec \"$0\" scan -p $$";
    let output = Command::new("sh")
        .args(["-c", scan, env!("CARGO_BIN_EXE_cohort")])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("is this scan itself"), "{words}");
}

#[test]
fn an_empty_proc_names_hidepid() {
    let dir = tempfile::tempdir().unwrap();
    let output = cohort(&["scan", "--proc", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hidepid"));
}

#[test]
fn a_capture_takes_the_place_of_plain_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let process = sleeper();
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let name = fifo.to_str().unwrap();
    let output = cohort(&["scan", "capture", name, "--pid", &process.pid()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a plain file"));
    use std::os::unix::fs::FileTypeExt;
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_capture_leaves_all_other_files_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (dir, proc) = (tempfile::tempdir().unwrap(), made_up(false));
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let capture = |file: &str| {
        let proc = proc.path().to_str().unwrap();
        cohort(&["scan", "capture", &at(file), "--proc", proc])
    };
    let names = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    std::fs::write(at("other"), "mine").unwrap();
    symlink(at("other"), at("file.part")).unwrap();
    assert!(capture("file").status.success());
    assert_eq!(std::fs::read(at("other")).unwrap(), b"mine");
    let facts = std::fs::symlink_metadata(at("file")).unwrap();
    assert!(facts.is_file());
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    // Through a link, to the file that it leads to.
    std::fs::write(at("target"), "old").unwrap();
    symlink("target", at("link")).unwrap();
    assert!(capture("link").status.success());
    assert!(std::fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert!(
        std::fs::read(at("target"))
            .unwrap()
            .starts_with(b"COHORT-SCAN")
    );
    let before = names();
    symlink("nowhere", at("lost")).unwrap();
    assert_eq!(capture("lost").status.code(), Some(1));
    std::fs::remove_file(at("lost")).unwrap();
    // Where files may have no bytes.
    let ran = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""])
        .args([
            env!("CARGO_BIN_EXE_cohort"),
            "scan",
            "capture",
            &at("large"),
            "--proc",
        ])
        .arg(proc.path())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert_eq!(names(), before);
}

#[test]
fn a_capture_that_is_interrupted_leaves_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "older").unwrap();
    let process = sleeper();
    let mut capture = Command::new(env!("CARGO_BIN_EXE_cohort"));
    capture
        .args(["scan", "capture", "--interval", "60", "-p", &process.pid()])
        .arg(&file)
        .stderr(Stdio::null());
    // Reset SIGINT: a shell that runs the tests in the background ignores it, and children inherit that.
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe {
        capture.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut capture = capture.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(capture.try_wait().unwrap().is_none(), "it does not wait");
    // SAFETY: no memory is involved, and the process is this test's.
    let sent = unsafe { libc::kill(capture.id() as libc::pid_t, libc::SIGINT) };
    assert_eq!(sent, 0);
    assert!(!capture.wait().unwrap().success());
    assert_eq!(std::fs::read(&file).unwrap(), b"older");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn every_form_is_what_it_says() {
    let process = sleeper();
    let pid = process.pid();
    let form = |args: &[&str]| {
        let output = cohort(&[&["scan", "--pid", &pid], args].concat());
        ran(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    for args in [
        &["-d"][..],
        &["-t", "-k", "-r"],
        &["-c", "group,ptps,left", "-s", "ptps"],
        &["--joins"],
        &[
            "--joins",
            "-d",
            "-c",
            "group,joins,places-left",
            "-s",
            "joins",
        ],
    ] {
        let table = form(args);
        let wide = table.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None);
        assert!(table.contains("\nVerdict: ") && table.contains("\nNext: "));
    }
    // One process overlaps with none.
    assert_eq!(
        form(&["-o", "csv", "-c", "overlap%,procs"]),
        "overlap%,procs\r\n,1\r\n"
    );
    let csv = form(&["-o", "csv"]);
    let columns = |line: &str| line.split(',').count();
    let mut lines = csv.lines();
    let heading = columns(lines.next().unwrap());
    assert!(heading > 20 && lines.all(|line| columns(line) == heading));
    let metrics = form(&["-o", "openmetrics"]);
    assert!(metrics.ends_with("# EOF\n"));
    let page = form(&["-o", "html"]);
    assert!(page.contains("<svg") && !page.contains("http://") && !page.contains("<script src"));
}

#[test]
fn a_command_line_that_is_wrong_is_refused() {
    for (args, code) in [
        (&["scan", "-c", "nonsense"][..], 2),
        (&["scan", "--rate", "0"], 2),
        (&["scan", "--interval", "-1"], 2),
        (&["scan", "--samples", "nan"], 2),
        (&["scan", "--from", "x", "--interval", "1"], 2),
        (&["scan", "--from", "x", "--rounds", "5"], 2),
        (&["scan", "--from", "x", "--gap", "9"], 2),
        (&["scan", "--from", "x", "--count", "3"], 2),
        (&["scan", "--watch", "1", "-o", "html"], 2),
        (&["scan", "--watch", "1", "-o", "openmetrics"], 2),
        (&["run", "--order", "1", "true"], 2),
        (&["run", "--file", "64K,copy", "true"], 2),
        (&["scan", "--boundary", "512"], 2),
        (&["scan", "--joins", "--boundary", "0"], 2),
        (&["scan", "--pid", "999999999"], 1),
    ] {
        let output = cohort(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    for args in [
        &["man"][..],
        &["man", "scan"],
        &["completions", "bash"],
        &["scan", "-c", "help"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", output.status);
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_mapping_that_nobody_has_is_an_error() {
    let process = sleeper();
    let pid = process.pid();
    let output = cohort(&["scan", "--pid", &pid, "--mapping", "^/nowhere/"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("--mapping ^/nowhere/ matches no region"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
    ran(&cohort(&["scan", "--pid", &pid, "--mapping", "libc"]));
}

/// A tree like /proc: a parent, two children of it by fork, and a program of another name.
fn made_up(hide_programs: bool) -> tempfile::TempDir {
    use cohort_snapshot::fake::{FakeProcess, FakeRegion, write_frames, write_process};
    use cohort_snapshot::model::word::raw;
    let dir = tempfile::tempdir().unwrap();
    for (pid, ppid, uid, exe) in [
        (50, 1, 0, "/bin/z"),
        (51, 50, 7, "/bin/z"),
        (52, 50, 7, "/bin/z"),
        (60, 1, 0, "/bin/y"),
    ] {
        let region = |start: u64, perms: &str, inode, entries| FakeRegion {
            start,
            end: start + 8,
            perms: perms.into(),
            inode,
            path: if inode > 0 { exe.into() } else { String::new() },
            entries,
            ..FakeRegion::default()
        };
        let process = FakeProcess {
            pid,
            ppid,
            uid,
            name: exe[5..].into(),
            exe: exe.into(),
            regions: vec![
                region(1 << 20, "r-xp", 9, vec![raw::PRESENT | raw::FILE | 4]),
                region(1 << 21, "r--p", 0, vec![raw::PRESENT | 9]),
            ],
            ..FakeProcess::default()
        };
        write_process(dir.path(), &process).unwrap();
        if hide_programs {
            std::fs::remove_file(dir.path().join(format!("{pid}/exe"))).unwrap();
        }
    }
    if !hide_programs {
        write_frames(dir.path(), &[(0, 2); 64]).unwrap();
    }
    dir
}

#[test]
fn nothing_to_gain_is_said_only_where_all_was_compared() {
    let (seen, hidden) = (made_up(false), made_up(true));
    for (hide, args, status, words) in [
        // The parent and its children share tables.
        (false, &[][..], 0, "z --test"),
        (false, &["-p", "50,60"], 0, "Nothing to gain"),
        (false, &["-p", "60"], 77, "one process was read"),
        (false, &["-u", "7"], 77, "the parent (process 50)"),
        (false, &["-p", "51"], 77, "cohort scan --tree 50"),
        (false, &["-b", "process"], 77, "--by process"),
        (false, &["--mapping", "^/bin"], 77, "--mapping leaves out"),
        (true, &[], 77, "/proc/PID/exe"),
    ] {
        let proc = if hide { &hidden } else { &seen };
        let args = [&["scan", "--proc", proc.path().to_str().unwrap()], args].concat();
        let output = cohort(&args);
        let text = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {text} {said}"
        );
        assert!(text.contains(words), "{args:?}: {text}");
        assert_eq!(
            said.contains("nothing could be compared"),
            status == 77,
            "{args:?}: {said}"
        );
    }
}

#[test]
fn no_path_that_a_process_maps_keeps_it_from_being_read() {
    let proc = made_up(false);
    let maps = proc.path().join("60/maps");
    let text = std::fs::read_to_string(&maps).unwrap();
    std::fs::write(&maps, text.replace("/bin/y", "/SYSV0000000é")).unwrap();
    let output = cohort(&["scan", "--json", "--proc", proc.path().to_str().unwrap()]);
    assert!(output.stderr.is_empty(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["consistency"]["read"], 4);
}

#[test]
fn a_root_without_ptrace_compares_or_says_why_not() {
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not run: only root can drop the capability");
        return;
    }
    // A shell that forks another without an exec.
    let process = Process::shell("exec 3<&0; (echo ready; read -r line <&3)& wait");
    let tree = process.pid();
    let (with, all) = json(&["scan", "--json", "--tree", &tree]);
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"])
        .arg(env!("CARGO_BIN_EXE_cohort"))
        .args(["scan", "--json", "--tree", &tree])
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => {
            let without: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(all);
            assert_eq!(without["groups"][0]["pids"], with["groups"][0]["pids"]);
            assert_eq!(without["groups"][0]["ptps"], with["groups"][0]["ptps"]);
        }
        Some(77) | Some(1) => assert!(!output.stderr.is_empty()),
        other => panic!("{other:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn captures_go_through_pipes_and_take_filters() {
    let proc = made_up(false);
    let proc = proc.path().to_str().unwrap();
    let capture = cohort(&["scan", "capture", "-", "--proc", proc]);
    assert_eq!(capture.status.code(), Some(0));
    let from = |args: &[&str], bytes: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["scan", "--from", "-"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::Write;
        let mut input = child.stdin.take().unwrap();
        let _ = input.write_all(bytes);
        drop(input);
        child.wait_with_output().unwrap()
    };
    for (args, status, processes) in [
        (&["--json"][..], 0, 4),
        (&["--json", "--tree", "50"], 0, 3),
        (&["--json", "-e", "/z$", "-u", "7"], 77, 2),
        (&["--json", "-p", "50,51"], 0, 2),
    ] {
        let output = from(args, &capture.stdout);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["total"]["processes"], processes, "{args:?}");
    }
    let output = from(&["-m", "nobody"], &capture.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process of the capture"));
    let output = from(&[], b"nonsense that is no capture at all");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the standard input is not a capture")
    );
}

#[test]
fn a_service_that_was_started_anew_is_the_same_group() {
    use cohort_snapshot::fake::{FakeProcess, FakeRegion, write_process};
    let dir = tempfile::tempdir().unwrap();
    let capture = |pid: i32, name: &str| {
        let proc = tempfile::tempdir().unwrap();
        let process = FakeProcess {
            pid,
            ppid: 1,
            name: "z".into(),
            exe: "/bin/z".into(),
            regions: vec![FakeRegion {
                start: 1 << 20,
                end: (1 << 20) + 8,
                perms: "rw-p".into(),
                entries: vec![1 << 63; pid as usize / 50],
                ..FakeRegion::default()
            }],
            ..FakeProcess::default()
        };
        write_process(proc.path(), &process).unwrap();
        let file = dir.path().join(name).to_str().unwrap().to_string();
        ran(&cohort(&[
            "scan",
            "capture",
            &file,
            "--proc",
            proc.path().to_str().unwrap(),
        ]));
        file
    };
    let (before, after) = (capture(50, "before"), capture(100, "after"));
    let (diff, _) = json(&["scan", "diff", "--json", &before, &after]);
    let groups = diff["groups"].as_object().unwrap();
    assert_eq!(groups.keys().collect::<Vec<_>>(), ["z --test"]);
}

#[test]
fn an_output_that_is_full_is_named() {
    let process = sleeper();
    let pid = process.pid();
    for args in [
        &["scan", "-p", &pid][..],
        &["--help"],
        &["--version"],
        &["lab", "list"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(args)
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.contains("cannot write to the standard output"),
            "{args:?}: {said}"
        );
        assert!(
            !said.contains("goes on where it stopped"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn a_closed_output_is_an_error() {
    let proc = made_up(false);
    let proc = proc.path().to_str().unwrap();
    for args in [
        &["scan", "--proc", proc][..],
        &["scan", "capture", "-", "--proc", proc],
        &["man"],
        &["--help"],
    ] {
        let output = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_cohort")])
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.contains("cannot write to the standard output"),
            "{args:?}: {said}"
        );
    }
    assert!(cohort(&["man"]).status.success());
}

#[test]
fn a_message_that_cannot_be_written_stops_nothing() {
    let proc = made_up(false);
    let proc = proc.path().to_str().unwrap();
    for (args, statuses) in [
        (&["scan", "--proc", proc, "-p", "60"][..], &[77][..]),
        (&["scan", "-p", "999999999"], &[1]),
        (&["top", "--root", "/nowhere"], &[1]),
        // Without Cohort in the kernel, or with it.
        (&["run", "--", "true"], &[69, 0]),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let status = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(full.unwrap())
            .status()
            .unwrap();
        assert!(
            statuses.contains(&status.code().unwrap()),
            "{args:?}: {status}"
        );
    }
}

#[test]
fn the_verdict_is_in_the_json_with_a_measured_fork() {
    let process = Process::shell("exec 3<&0; (echo ready; read -r line <&3)& wait");
    let (report, _) = json(&["scan", "--json", "--tree", &process.pid()]);
    let verdict = &report["verdict"];
    assert!(
        verdict["worth"].is_string() && verdict["next"].is_string(),
        "{verdict}"
    );
    assert!(report["memory_bytes"].as_u64().unwrap() > 1 << 20);
    if verdict["saved_bytes"].as_u64() > Some(0) {
        let fork = &verdict["fork"];
        let (all, copy) = (fork["seconds"].as_f64(), fork["copy_seconds"].as_f64());
        assert!(all > Some(0.0) && copy <= all, "{fork}");
    }
}
