// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort top` on a made-up `/proc` and `/sys`: every figure is worked out by hand.

use cohort_snapshot::fake::{FakeProcess, write_process};
use cohort_snapshot::page_size;
use serde_json::{Value, json};
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const VMSTAT: &str = "pgfault 99\ncohort_ptp_shared 1040\ncohort_ptp_unshared_fault 5\n\
    cohort_ptp_unshared_map 2\ncohort_ptp_unshared_unmap 1\ncohort_ptp_unshared_change 0\n\
    cohort_ptp_left 30\ncohort_fault_filled 12345\ncohort_ptp_opened 6\ncohort_ptp_joined 4\n";

fn top(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
    command.args(["top", "--root"]).arg(root).args(args);
    command
}

fn run(root: &Path, args: &[&str]) -> Output {
    top(root, args).output().unwrap()
}

/// What is printed, of a run that succeeds and complains about nothing.
fn printed(root: &Path, args: &[&str]) -> String {
    let output = run(root, args);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaint.is_empty(),
        "{complaint}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What is in `/proc/PID/cohort`.
#[derive(Clone, Copy, Default)]
struct Tables {
    cohort: u64,
    group: (u64, &'static str),
    shared: u64,
    owned: u64,
    open: u64,
    pmd: u64,
    /// Anonymous memory, files, shared memory and swap, in kB.
    borrowed: [u64; 4],
}

impl Tables {
    /// With the lines of a kernel that has groups, or without.
    fn text(&self, groups: bool) -> String {
        let (number, name) = self.group;
        let [anon, file, shmem, swap] = self.borrowed;
        let (mut group, mut open) = Default::default();
        if groups {
            group = format!("Group:\t{number}\nGroupName:\t{name}\n");
            open = format!("OpenTables:\t{}\n", self.open);
        }
        format!(
            "Cohort:\t{}\nZygote:\t1\nKeepExec:\t0\nKeepIds:\t0\n{group}SharedTables:\t{}\n\
             OwnedTables:\t{}\n{open}SharedPmdTables:\t{}\nBorrowedAnon:\t{anon} kB\n\
             BorrowedFile:\t{file} kB\nBorrowedShmem:\t{shmem} kB\nBorrowedSwap:\t{swap} kB\n",
            self.cohort, self.shared, self.owned, self.pmd
        )
    }
}

/// An nginx with two children in a cohort: all share eight tables of the parent, the children
/// besides one that the parent has left. Two node in a group share four. Others share nothing.
fn machine(groups: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    let settings = dir.path().join("sys/kernel/mm/cohort");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("enabled"), "always [optin] never\n").unwrap();
    if groups {
        fs::write(settings.join("join"), "never [group] user\n").unwrap();
    }
    let nginx = |shared, owned, borrowed| Tables {
        cohort: 12,
        shared,
        owned,
        borrowed,
        ..Tables::default()
    };
    let node = |owned, open, borrowed| Tables {
        group: (3, "web"),
        shared: 4,
        owned,
        open,
        pmd: 1,
        borrowed,
        ..Tables::default()
    };
    let mut processes = vec![
        (100, "nginx", nginx(8, 8, [0; 4])),
        (101, "nginx", nginx(9, 1, [400, 100, 0, 8])),
        (102, "nginx", nginx(9, 0, [420, 100, 0, 8])),
        (300, "cron", Tables::default()),
    ];
    if groups {
        processes.push((200, "node", node(4, 6, [0; 4])));
        processes.push((201, "node", node(0, 4, [0, 3000, 72, 0])));
    }
    for (pid, name, tables) in processes {
        let process = FakeProcess {
            pid,
            ppid: 1,
            uid: if name == "node" { 4_242_424 } else { 0 },
            name: name.into(),
            exe: format!("/usr/sbin/{name}"),
            ..FakeProcess::default()
        };
        write_process(&proc, &process).unwrap();
        let file = proc.join(pid.to_string()).join("cohort");
        fs::write(file, tables.text(groups)).unwrap();
    }
    // A kernel thread has no memory, and a process that ends while it is read no files.
    for pid in ["2", "400", "600"] {
        fs::create_dir(proc.join(pid)).unwrap();
    }
    fs::write(proc.join("2/cohort"), "").unwrap();
    let ended = nginx(50, 0, [0; 4]).text(groups);
    fs::write(proc.join("600/cohort"), ended).unwrap();
    fs::write(proc.join("vmstat"), VMSTAT).unwrap();
    dir
}

fn frame(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_frame_for_people_has_the_figures_and_fits_100_columns() {
    if page_size() != 4096 {
        eprintln!("tables have another size here: not tried");
        return;
    }
    let machine = machine(true);
    let text = printed(machine.path(), &[]);
    let wanted = "\
Modes: fork optin, join group. In cohorts or groups: 5 processes, 5 of them with shared tables.
Now: 13 shared tables with 34 uses; saved: 21 tables, 84 KB.
Since boot: 1,040 tables shared at fork, 4 joined, 8 unshared (fault 5, map 2, unmap 1, change 0),
30 left, 12,345 entries filled.

group or cohort   processes cohorts tables saved saved kB PMD borrowed kB
nginx (cohort 12)         3       1      9    17       68   0       1,020
web (group 3)             2       0      4     4       16   2       3,072

PID user    group cohort shared owned saved open PMD borrowed kB command
102 root    -         12      9     0     9    0   0         520 /usr/sbin/nginx --test
101 root    -         12      9     1     8    0   0         500 /usr/sbin/nginx --test
201 4242424 web        -      4     0     4    4   1       3,072 /usr/sbin/node --test
100 root    -         12      8     8     0    0   0           0 /usr/sbin/nginx --test
200 4242424 web        -      4     4     0    6   1           0 /usr/sbin/node --test
";
    assert_eq!(text, wanted, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_frame_is_one_object_on_a_line() {
    let machine = machine(true);
    let text = printed(machine.path(), &["--json"]);
    assert_eq!(text.lines().count(), 1);
    let frame = frame(&text);
    let page = page_size();
    assert_eq!(frame["schema_version"], 1);
    assert_eq!(frame["modes"], json!({"fork": "optin", "join": "group"}));
    assert_eq!(frame["seconds"], Value::Null);
    assert_eq!(frame["events"]["cohort_ptp_shared"], 1040);
    assert_eq!(frame["events"].as_object().unwrap().len(), 9);
    assert_eq!(frame["unreadable"], 0);
    assert_eq!(
        frame["total"],
        json!({
            "processes": 5, "sharing": 5, "cohorts": 1, "tables": 13, "shared": 34, "saved": 21,
            "saved_bytes": 21 * page, "pmd": 2, "borrowed_bytes": 4092 << 10,
            "borrowed_swap_bytes": 16 << 10,
        })
    );
    assert_eq!(
        frame["groups"],
        json!([
            {
                "group": null, "cohort": 12, "name": "nginx", "processes": 3, "sharing": 3,
                "cohorts": 1, "tables": 9, "shared": 26, "saved": 17, "saved_bytes": 17 * page,
                "pmd": 0, "borrowed_bytes": 1020 << 10, "borrowed_swap_bytes": 16 << 10,
            },
            {
                "group": 3, "cohort": null, "name": "web", "processes": 2, "sharing": 2,
                "cohorts": 0, "tables": 4, "shared": 8, "saved": 4, "saved_bytes": 4 * page,
                "pmd": 2, "borrowed_bytes": 3072 << 10, "borrowed_swap_bytes": 0,
            },
        ])
    );
    let processes = frame["processes"].as_array().unwrap();
    let pids: Vec<&Value> = processes.iter().map(|process| &process["pid"]).collect();
    // By tables saved: 9, 8, 4, 0, 0. Of the last two, the nginx shares more.
    assert_eq!(pids, [102, 101, 201, 100, 200]);
    assert_eq!(
        processes[2],
        json!({
            "pid": 201, "user": "4242424", "name": "node", "command": "/usr/sbin/node --test",
            "cohort": 0, "zygote": true, "group": 3, "group_name": "web", "shared": 4,
            "owned": 0, "saved": 4, "saved_bytes": 4 * page, "open": 4, "pmd": 1,
            "borrowed_bytes": 3072 << 10, "borrowed_swap_bytes": 0,
        })
    );
}

#[test]
fn an_older_kernel_has_no_groups() {
    let machine = machine(false);
    let found = frame(&printed(machine.path(), &["--json"]));
    assert_eq!(found["modes"], json!({"fork": "optin", "join": null}));
    assert_eq!(found["total"]["saved"], 17);
    assert_eq!(found["processes"][0]["group"], Value::Null);
    assert_eq!(found["processes"][0]["open"], Value::Null);
    let text = printed(machine.path(), &[]);
    assert!(text.contains("join not in this kernel"), "{text}");
    assert!(!text.contains("open"), "{text}");
}

#[test]
fn options_choose_tables_and_rows() {
    let machine = machine(true);
    let of = |args: &[&str]| printed(machine.path(), args);
    let groups = of(&["--by", "group"]);
    assert!(groups.contains("web (group 3)") && !groups.contains("PID"));
    let processes = of(&["--by", "process", "--lines", "2"]);
    assert!(!processes.contains("(group 3)"), "{processes}");
    assert!(processes.contains("and 3 processes more"), "{processes}");
    let found = frame(&of(&["--json", "--by", "process", "--lines", "2"]));
    assert_eq!(found["groups"], json!([]));
    assert_eq!(found["processes"].as_array().unwrap().len(), 2);
    // The total is that of all.
    assert_eq!(found["total"]["processes"], 5);
}

#[test]
fn processes_that_cannot_be_read_are_counted_and_named_once() {
    let machine = machine(true);
    for pid in ["700", "701"] {
        // Reading a directory fails for root as well.
        fs::create_dir_all(machine.path().join("proc").join(pid).join("cohort")).unwrap();
    }
    let text = printed(machine.path(), &[]);
    let said = "2 processes could not be read";
    assert_eq!(text.matches(said).count(), 1, "{text}");
    let found = frame(&printed(machine.path(), &["--json"]));
    assert_eq!(
        (&found["unreadable"], &found["total"]["saved"]),
        (&json!(2), &json!(21))
    );
    // Rights are not what is missing.
    assert!(
        !text.contains("run as root") && !text.contains("CAP_"),
        "{text}"
    );
    assert_eq!(found["refused"], 0);
    assert!(found["why"].is_string());
}

/// Ends a process that a failed test leaves behind.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_frame_has_what_happened_since_the_first() {
    let machine = machine(true);
    let vmstat = machine.path().join("proc/vmstat");
    fs::remove_file(&vmstat).unwrap();
    // Whoever reads a pipe waits for what is written, however slow this machine is.
    let path = CString::new(vmstat.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let args = ["--json", "--count", "2", "--interval", "0.1"];
    let mut child = Ended(
        top(machine.path(), &args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    fs::write(&vmstat, VMSTAT).unwrap();
    let first = frame(&lines.next().unwrap().unwrap());
    let later = VMSTAT.replace("1040", "1052").replace("left 30", "left 32");
    fs::write(&vmstat, later.replace("12345", "13579")).unwrap();
    let second = frame(&lines.next().unwrap().unwrap());
    assert!(lines.next().is_none());
    assert!(child.0.wait().unwrap().success());
    assert_eq!(first["events"]["cohort_ptp_left"], 30);
    assert!(second["seconds"].as_f64().unwrap() >= 0.1);
    for (event, more) in [
        ("cohort_ptp_shared", 12),
        ("cohort_ptp_left", 2),
        ("cohort_fault_filled", 1234),
        ("cohort_ptp_joined", 0),
    ] {
        assert_eq!(second["events"][event], more, "{event}");
    }
}

#[test]
fn a_reader_that_has_had_enough_ends_it() {
    let machine = machine(true);
    let mut child = Ended(
        top(machine.path(), &["--count", "1000000", "--interval", "0.1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    drop(child.0.stdout.take());
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_kernel_without_cohort_is_said_with_what_to_do() {
    let machine = machine(true);
    fs::remove_dir_all(machine.path().join("sys")).unwrap();
    fs::write(machine.path().join("proc/vmstat"), "pgfault 99\n").unwrap();
    for args in [&[][..], &["--json"]] {
        let output = run(machine.path(), args);
        assert_eq!(output.status.code(), Some(69));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("this kernel has no Cohort"), "{text}");
        assert!(text.contains("cohort lab deb"), "{text}");
    }
    fs::remove_dir_all(machine.path().join("proc")).unwrap();
    let output = run(machine.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("cannot read") && text.contains("vmstat"),
        "{text}"
    );
}

#[test]
fn wrong_options_are_refused() {
    let machine = machine(true);
    for (args, said) in [
        (&["--interval", "0.05"][..], "from 0.1 to 86400"),
        (&["--interval", "soon"], "from 0.1 to 86400"),
        (&["--count", "0"], "0 is not in"),
        (&["--lines", "0"], "0 is not in"),
        (&["--by", "cgroup"], "possible values: process, group"),
        (&["extra"], "unexpected argument"),
    ] {
        let output = run(machine.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{args:?}: {text}");
    }
}
