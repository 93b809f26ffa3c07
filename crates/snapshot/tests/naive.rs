// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up machines, counted by the crate and by the plainest program that can be written.

use cohort_snapshot::entries::{self, Counts, Entries};
use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::scan::{self, Options};
use cohort_snapshot::word::raw;
use cohort_snapshot::{Paths, page_size};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn scan(root: &Path) -> Snapshot {
    scan::scan(&Options {
        paths: Paths::new(root),
        select: &|identities| vec![true; identities.len()],
        rate: None,
        progress: &|_, _| {},
    })
    .unwrap()
}

fn count_all(snapshot: &Snapshot) -> Counts {
    entries::count(snapshot, &(0..snapshot.processes.len()).collect::<Vec<_>>())
}

const SLOTS: u64 = 512;

/// Page, entry and permissions.
type Table<'a> = Vec<(u64, u64, &'a str)>;

/// Entries as (page, frame, perms) in sets and maps, tables as maps of them.
fn naive(processes: &[FakeProcess]) -> (Entries, u64, u64, u64) {
    let mut times: BTreeMap<(u64, u64, &str), u64> = BTreeMap::new();
    let mut tables: Vec<BTreeMap<u64, Table>> = Vec::new();
    let each = |process: &FakeProcess, visit: &mut dyn FnMut(u64, u64, usize)| {
        for (number, region) in process.regions.iter().enumerate() {
            for (place, entry) in region.entries.iter().enumerate() {
                if entry & (raw::PRESENT | raw::SWAP) != 0 {
                    visit(region.start + place as u64, *entry, number);
                }
            }
        }
    };
    for process in processes {
        let mut own: BTreeMap<u64, Table> = BTreeMap::new();
        each(process, &mut |page, entry, number| {
            let perms = process.regions[number].perms.as_str();
            own.entry(page / SLOTS)
                .or_default()
                .push((page, entry, perms));
            if entry & (raw::SWAP | raw::EXCLUSIVE) == 0 {
                *times.entry((page, entry & raw::FRAME, perms)).or_default() += 1;
            }
        });
        tables.push(own);
    }
    let mut counts = Entries::default();
    for process in processes {
        each(process, &mut |page, entry, number| {
            let perms = process.regions[number].perms.as_str();
            if entry & raw::SWAP != 0 {
                counts.swapped += 1;
            } else if entry & raw::EXCLUSIVE == 0 && times[&(page, entry & raw::FRAME, perms)] > 1 {
                counts.shareable += 1;
            } else {
                counts.unshareable += 1;
            }
        });
    }
    let distinct = times.values().filter(|times| **times > 1).count() as u64;
    let mut identical = 0;
    let mut different = BTreeSet::new();
    for (place, own) in tables.iter().enumerate() {
        for (index, table) in own {
            different.insert((index, table));
            identical += u64::from(
                tables
                    .iter()
                    .enumerate()
                    .any(|(other, tables)| other != place && tables.get(index) == Some(table)),
            );
        }
    }
    (counts, distinct, identical, different.len() as u64)
}

/// Regions at a few addresses, so that processes meet, with few frames, so that they agree.
fn regions() -> impl Strategy<Value = Vec<FakeRegion>> {
    let perms = prop::sample::select(vec!["r-xp", "rw-p", "rw-s", "r--p"]);
    let entry = prop_oneof![
        3 => Just(0u64),
        6 => (1u64..4).prop_map(|frame| raw::PRESENT | frame),
        2 => (4u64..6).prop_map(|frame| raw::PRESENT | raw::FILE | frame),
        1 => (10u64..12).prop_map(|frame| raw::PRESENT | raw::EXCLUSIVE | frame),
        1 => (0u64..3).prop_map(|place| raw::SWAP | place << 5),
    ];
    let region = (perms, prop::collection::vec(entry, 1..40), 0u64..3);
    prop::collection::vec(region, 1..5).prop_map(|parts| {
        let mut start = 0x55_5000_01f0;
        parts
            .into_iter()
            .map(|(perms, entries, gap)| {
                start += gap * 300;
                let end = start + 40;
                let region = FakeRegion {
                    start,
                    end,
                    perms: perms.into(),
                    inode: 7,
                    path: "/lib/x.so".into(),
                    entries,
                    ..FakeRegion::default()
                };
                start = end;
                region
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn counts_are_those_of_a_naive_program(all in prop::collection::vec(regions(), 1..7)) {
        // Made for tables of 512 entries.
        if page_size() != 4096 { return Ok(()); }
        let processes: Vec<FakeProcess> = all
            .into_iter()
            .enumerate()
            .map(|(place, regions)| FakeProcess {
                pid: 100 + place as i32,
                ppid: 1,
                name: "x".into(),
                exe: "/bin/x".into(),
                regions,
                ..FakeProcess::default()
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        for process in &processes {
            fake::write_process(dir.path(), process).unwrap();
        }
        fake::write_frames(dir.path(), &[(0, 1); 16]).unwrap();
        let snapshot = scan(dir.path());
        // Two processes with equal pages that are mapped once are one address space.
        prop_assume!(snapshot.skipped.is_empty());
        let counts = count_all(&snapshot);
        let (entries, distinct, identical, different) = naive(&processes);
        prop_assert_eq!(counts.entries, entries);
        prop_assert_eq!(counts.distinct, distinct);
        prop_assert_eq!(counts.ptps.identical, identical);
        prop_assert_eq!(counts.ptps.distinct, different);
        // Every entry in exactly one class, and in exactly one kind of content.
        prop_assert_eq!(counts.contents.total(), counts.entries.total());
        let regions: u64 = snapshot.processes.iter().map(|process| process.pages()).sum();
        prop_assert_eq!(regions, counts.entries.total());
    }
}

#[test]
fn a_huge_page_is_one_entry() {
    let entries: Vec<u64> = (0..SLOTS)
        .map(|n| raw::PRESENT | raw::EXCLUSIVE | (1024 + n))
        .collect();
    for (huge_bytes, huge, small) in [(2 << 20, 1, 0), (0, 0, SLOTS)] {
        let dir = tempfile::tempdir().unwrap();
        fake::write_process(
            dir.path(),
            &FakeProcess {
                pid: 7,
                name: "x".into(),
                regions: vec![FakeRegion {
                    start: 4 * SLOTS,
                    end: 5 * SLOTS,
                    perms: "rw-p".into(),
                    entries: entries.clone(),
                    huge_bytes,
                    ..FakeRegion::default()
                }],
                ..FakeProcess::default()
            },
        )
        .unwrap();
        fake::write_frames(dir.path(), &[(0, 1)]).unwrap();
        let snapshot = scan(dir.path());
        let counts = count_all(&snapshot);
        assert_eq!(
            (counts.entries.huge, counts.entries.unshareable),
            (huge, small)
        );
        assert_eq!(counts.resident, SLOTS);
        assert_eq!(counts.ptps.tables, small.min(1));
        assert_eq!(snapshot.processes[0].fork_copies, huge + small);
    }
}

#[test]
fn hidden_frames_leave_files_comparable_and_the_rest_unknown() {
    let file = FakeRegion {
        start: 1000,
        end: 1003,
        perms: "r-xp".into(),
        inode: 9,
        path: "/lib/y.so".into(),
        entries: vec![raw::PRESENT | raw::FILE; 3],
        ..FakeRegion::default()
    };
    let anonymous = FakeRegion {
        start: 2000,
        end: 2002,
        perms: "rw-p".into(),
        entries: vec![raw::PRESENT, raw::PRESENT | raw::EXCLUSIVE],
        ..FakeRegion::default()
    };
    let dir = tempfile::tempdir().unwrap();
    for pid in [5, 6] {
        let process = FakeProcess {
            pid,
            name: "y".into(),
            regions: vec![file.clone(), anonymous.clone()],
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    let snapshot = scan(dir.path());
    assert_eq!(snapshot.frames, cohort_snapshot::model::Frames::Hidden);
    let counts = count_all(&snapshot);
    assert_eq!(
        counts.entries,
        Entries {
            shareable: 6,
            unshareable: 2,
            huge: 0,
            swapped: 0,
            unknown: 2
        }
    );
    assert_eq!(counts.distinct, 3);
}

#[test]
fn what_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fake::write_frames(dir.path(), &[]).unwrap();
    for pid in [5, 6, 7] {
        let process = FakeProcess {
            pid,
            name: "z".into(),
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    std::fs::remove_file(dir.path().join("5/pagemap")).unwrap();
    std::fs::write(dir.path().join("6/stat"), "6 (z").unwrap();
    std::fs::write(dir.path().join("7/maps"), "garbage\n").unwrap();
    let snapshot = scan(dir.path());
    let pids: Vec<i32> = snapshot.skipped.iter().map(|skip| skip.pid).collect();
    assert_eq!((pids, snapshot.processes.len()), (vec![5, 6, 7], 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_files_are_no_panic(
        file in prop::sample::select(vec!["stat", "status", "maps", "smaps", "cgroup", "pagemap", "cmdline"]),
        at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let region = FakeRegion {
            start: 16, end: 48, perms: "rw-p".into(), entries: vec![raw::PRESENT | 3; 20],
            ..FakeRegion::default()
        };
        let process = FakeProcess { pid: 9, name: "q".into(), regions: vec![region], ..FakeProcess::default() };
        fake::write_process(dir.path(), &process).unwrap();
        fake::write_frames(dir.path(), &[(0, 2); 8]).unwrap();
        let path = dir.path().join("9").join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        std::fs::write(&path, bytes).unwrap();
        let snapshot = scan(dir.path());
        let counts = count_all(&snapshot);
        prop_assert_eq!(counts.contents.total(), counts.entries.total());
    }
}
