// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort scan --joins` on processes that were started separately and map a file at known
//! addresses: every figure is known.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Nothing else is mapped there.
const BASE: u64 = 0x0600_0000_0000;
/// Entries of a table.
const SLOTS: u64 = 512;
const PAGE: u64 = 4096;
/// Tells this program to map and wait instead of testing.
const PART: &str = "COHORT_TEST_MAPPINGS";

/// A private mapping of the file. In pages; `present` are counted from its beginning.
struct Mapping {
    /// From [`BASE`] on.
    at: u64,
    pages: u64,
    offset: u64,
    write: bool,
    present: Range<u64>,
    /// A page that is written.
    written: Option<u64>,
}

/// A mapping of a whole table that is only read.
fn whole(at: u64, offset: u64, present: Range<u64>) -> Mapping {
    Mapping {
        at,
        pages: SLOTS,
        offset,
        write: false,
        present,
        written: None,
    }
}

impl Mapping {
    fn text(&self) -> String {
        let written = self.written.unwrap_or(u64::MAX);
        let numbers = [
            self.at,
            self.pages,
            self.offset,
            u64::from(self.write),
            self.present.start,
            self.present.end,
            written,
        ];
        numbers.map(|number| number.to_string()).join(",")
    }

    fn parse(text: &str) -> Mapping {
        let numbers: Vec<u64> = text.split(',').map(|word| word.parse().unwrap()).collect();
        Mapping {
            at: numbers[0],
            pages: numbers[1],
            offset: numbers[2],
            write: numbers[3] != 0,
            present: numbers[4]..numbers[5],
            written: (numbers[6] != u64::MAX).then_some(numbers[6]),
        }
    }

    fn make(&self, file: &File) {
        let (at, length) = (BASE + self.at * PAGE, (self.pages * PAGE) as usize);
        let write = if self.write { libc::PROT_WRITE } else { 0 };
        // SAFETY: nothing is mapped there, or the call fails; all that follows stays inside.
        unsafe {
            let memory = libc::mmap(
                at as *mut _,
                length,
                libc::PROT_READ | write,
                libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE,
                file.as_raw_fd(),
                (self.offset * PAGE) as libc::off_t,
            );
            assert_eq!(memory as u64, at, "{}", std::io::Error::last_os_error());
            // One entry per page even where the file system has folios of 2 MB.
            libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
            let page = |number: u64| memory.cast::<u8>().add((number * PAGE) as usize);
            for number in 0..self.pages {
                page(number).read_volatile();
            }
            // A fault maps what is around it: take away what is not wanted.
            let wanted = &self.present;
            for (from, to) in [(0, wanted.start), (wanted.end, self.pages)] {
                if from < to {
                    let bytes = ((to - from) * PAGE) as usize;
                    assert_eq!(
                        libc::madvise(page(from).cast(), bytes, libc::MADV_DONTNEED),
                        0
                    );
                }
            }
            if let Some(written) = self.written {
                page(written).write_volatile(1);
            }
        }
    }
}

/// Not a test of its own: what the processes do that the tests start.
#[test]
fn maps_what_it_is_told() {
    let Ok(text) = std::env::var(PART) else {
        return;
    };
    let (path, mappings) = text.split_once('|').unwrap();
    let file = File::open(path).unwrap();
    for mapping in mappings.split(';') {
        Mapping::parse(mapping).make(&file);
    }
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A process that has its mappings until it is dropped.
struct Process(Child);

impl Process {
    fn start(path: &Path, mappings: &[Mapping]) -> Process {
        let texts: Vec<String> = mappings.iter().map(Mapping::text).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "maps_what_it_is_told", "--nocapture"])
            .env(PART, format!("{}|{}", path.display(), texts.join(";")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let ready = output.lines().any(|line| line.unwrap() == "ready");
        assert!(ready, "a process could not map what it should");
        Process(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The figures of all `processes`, as far as they map `path`.
fn scan(processes: &[Process], path: &Path, more: &[&str]) -> String {
    let pids: Vec<String> = processes
        .iter()
        .map(|process| process.0.id().to_string())
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_cohort"))
        .args([
            "scan",
            "--joins",
            "-b",
            "machine",
            "-p",
            &pids.join(","),
            "--mapping",
        ])
        .arg(format!("^{}$", regex::escape(path.to_str().unwrap())))
        .args(more)
        .output()
        .unwrap();
    let code = output.status.code();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code == Some(0) || code == Some(77), "{code:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_of_separate_processes_are_counted_exactly() {
    if cohort_snapshot::page_size() != PAGE {
        eprintln!("not run: made for pages of 4 KB");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; (4 * SLOTS * PAGE) as usize]).unwrap();
    let parts = |at: u64| {
        let (first, second) = (whole(at, 0, 0..20), whole(at + 200, 200, 0..10));
        let (first, second) = (
            Mapping {
                pages: 200,
                ..first
            },
            Mapping {
                pages: SLOTS - 200,
                write: true,
                ..second
            },
        );
        [first, second]
    };
    let private = || Mapping {
        write: true,
        written: Some(300),
        ..whole(48 * SLOTS, 2 * SLOTS, 0..30)
    };
    let each: [&[Mapping]; 8] = [
        &[whole(0, SLOTS, 0..100)],
        // At the same address.
        &[whole(0, SLOTS, 50..200)],
        // At a congruent one.
        &[whole(8 * SLOTS, SLOTS, 0..10)],
        // At one that is not.
        &[whole(16 * SLOTS + 1, SLOTS, 0..100)],
        // Two mappings of the file cover the table.
        &parts(32 * SLOTS),
        &parts(40 * SLOTS),
        // With a private page.
        &[private()],
        &[private()],
    ];
    let processes: Vec<Process> = each
        .iter()
        .map(|mappings| Process::start(&path, mappings))
        .collect();
    let report: Value = serde_json::from_str(&scan(&processes, &path, &["--json"])).unwrap();
    let joins = &report["total"]["joins"];
    for (field, expected) in [
        ("families", 8),
        ("tables", 8),
        ("file_tables", 8),
        ("clean", 6),
        ("mixed", 2),
        ("entries", 100 + 150 + 10 + 100 + 30 + 30 + 30 + 30),
        // 60 by one mapping, 30 of the two parts, and 30 beside private pages.
        ("mixed_found", 120),
    ] {
        assert_eq!(joins[field], expected, "{field} of {joins}");
    }
    let shared = |tables: u64, saved: u64, found: u64| json!({"tables": tables, "saved": saved, "forked": 0, "found": found});
    // The first two have 250 entries, of which 200 are different; the third has none of its own.
    assert_eq!(joins["same_address"], shared(1, 1, 50));
    assert_eq!(joins["one_mapping"], shared(1, 2, 60));
    assert_eq!(joins["one_file"], shared(2, 3, 90));
    assert_eq!(joins["pieces"], shared(2, 3, 90));
    let pieces = &joins["clean_pieces"];
    assert_eq!((&pieces["one"], &pieces["up_to_4"]), (&json!(4), &json!(2)));
    assert_eq!(joins["mixed_pieces"]["one"], 2);
    // The same as columns, and in words.
    let columns =
        "file-ptps,clean-ptps,mixed-ptps,clean-pieces,join-address,join-mapping,join-file,joins";
    let csv = scan(&processes, &path, &["-o", "csv", "-c", columns]);
    assert_eq!(csv.lines().nth(1), Some("8,6,2,2,1,2,3,3"));
    let text = scan(&processes, &path, &[]).replace('\n', " ");
    assert!(
        text.contains("3 tables (12 KB) would not be needed"),
        "{text}"
    );
    assert!(text.contains("Joins: upper bounds"), "{text}");
}

/// A tree like /proc: two containers with two processes each, and a process outside. All map a file
/// that fills a table, at other addresses; the containers' map another file as well.
fn containers() -> tempfile::TempDir {
    use cohort_snapshot::fake::{FakeProcess, FakeRegion, write_frames, write_process};
    use cohort_snapshot::model::word::raw;
    let dir = tempfile::tempdir().unwrap();
    let process = |pid: i32, cgroup: &str, inodes: &[u64]| {
        let regions = inodes.iter().map(|&inode| {
            let start = (pid as u64 * 16 + inode) * SLOTS;
            FakeRegion {
                start,
                end: start + SLOTS,
                perms: "r--s".into(),
                inode,
                path: format!("/data/{inode}"),
                entries: vec![raw::PRESENT | raw::FILE | inode],
                ..FakeRegion::default()
            }
        });
        let process = FakeProcess {
            pid,
            ppid: 1,
            name: "z".into(),
            exe: "/bin/z".into(),
            cgroup: cgroup.into(),
            regions: regions.collect(),
            ..FakeProcess::default()
        };
        write_process(dir.path(), &process).unwrap();
    };
    for (pid, cgroup) in [(50, "/web"), (51, "/web"), (60, "/shop"), (61, "/shop")] {
        process(pid, cgroup, &[7, 8]);
    }
    process(70, "/user", &[7]);
    write_frames(dir.path(), &[(0, 2); 64]).unwrap();
    dir
}

#[test]
fn containers_are_told_what_they_have_in_common() {
    if cohort_snapshot::page_size() != PAGE {
        eprintln!("not run: made for pages of 4 KB");
        return;
    }
    let proc = containers();
    let output = Command::new(env!("CARGO_BIN_EXE_cohort"))
        .args(["scan", "--joins", "--json", "-b", "cgroup", "--proc"])
        .arg(proc.path())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Each container saves a table of each file within; all nine tables could be two.
    let groups = report["groups"].as_array().unwrap();
    for (name, saved) in [("/web", 2), ("/shop", 2), ("/user", 0)] {
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        assert_eq!(group["joins"]["pieces"]["saved"], saved, "{name}");
    }
    assert_eq!(report["total"]["joins"]["pieces"]["saved"], 7);
    let between = &report["joins"];
    assert_eq!(between["between"], 3);
    let pairs = between["pairs"].as_array().unwrap();
    let pair = |one: &str, other: &str| {
        let both = [json!([one, other]), json!([other, one])];
        let mut pairs = pairs.iter();
        let found = pairs.find(|pair| both.contains(&pair["groups"])).unwrap();
        found["tables"].as_u64().unwrap()
    };
    assert_eq!(pairs.len(), 3);
    assert_eq!((pair("/web", "/shop"), pair("/web", "/user")), (2, 1));
    let files = json!([
        {"path": "/data/7", "groups": 3, "saved": 2, "placed": 0},
        {"path": "/data/8", "groups": 2, "saved": 1, "placed": 0},
    ]);
    assert_eq!(between["files"], files);
}
