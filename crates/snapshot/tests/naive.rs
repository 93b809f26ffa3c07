// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up machines, counted by the crate and by the plainest program that can be written.

use cohort_snapshot::count::entries::{self, Counts, Entries};
use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::word::raw;
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{
    Paths,
    count::{code, group},
    page_size,
    read::capture,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The number of cases, unless `PROPTEST_CASES` gives another.
fn cases(usual: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(usual),
    }
}

fn scan(root: &Path) -> Snapshot {
    scan_of(root, page_size())
}

/// Of a machine with pages of so many bytes.
fn scan_of(root: &Path, page: u64) -> Snapshot {
    scan::scan(&Options {
        page,
        ..Options::all(Paths::new(root))
    })
    .unwrap()
}

fn count_all(snapshot: &Snapshot) -> Counts {
    entries::count(snapshot, &(0..snapshot.processes.len()).collect::<Vec<_>>())
}

/// Those of x86-64, and of arm64.
const PAGES: [u64; 3] = [4096, 16384, 65536];

/// Page, entry and permissions.
type Table<'a> = Vec<(u64, u64, &'a str)>;

/// Entries as (page, frame, perms) in sets and maps, tables as maps of them.
fn naive(processes: &[FakeProcess], slots: u64) -> (Entries, u64, u64, u64) {
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
            own.entry(page / slots)
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
fn regions(slots: u64) -> impl Strategy<Value = Vec<FakeRegion>> {
    let perms = prop::sample::select(vec!["r-xp", "rw-p", "rw-s", "r--p"]);
    let entry = prop_oneof![
        3 => Just(0u64),
        6 => (1u64..4).prop_map(|frame| raw::PRESENT | frame),
        2 => (4u64..6).prop_map(|frame| raw::PRESENT | raw::FILE | frame),
        1 => (10u64..12).prop_map(|frame| raw::PRESENT | raw::EXCLUSIVE | frame),
        1 => (0u64..3).prop_map(|place| raw::SWAP | place << 5),
    ];
    let region = (perms, prop::collection::vec(entry, 1..40), 0u64..3);
    prop::collection::vec(region, 1..5).prop_map(move |parts| {
        let mut start = 0x55_5000 * slots + slots - 16;
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
    #![proptest_config(cases(48))]
    #[test]
    fn counts_are_those_of_a_naive_program((page, all) in
        prop::sample::select(PAGES.to_vec()).prop_flat_map(|page| {
            (Just(page), prop::collection::vec(regions(page / 8), 1..7))
        })
    ) {
        let processes: Vec<FakeProcess> = all
            .into_iter()
            .enumerate()
            .map(|(place, regions)| FakeProcess {
                pid: 100 + place as i32,
                ppid: 1,
                name: "x".into(),
                exe: "/bin/x".into(),
                regions,
                page,
                ..FakeProcess::default()
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        for process in &processes {
            fake::write_process(dir.path(), process).unwrap();
        }
        fake::write_frames(dir.path(), &[(0, 1); 16]).unwrap();
        let snapshot = scan_of(dir.path(), page);
        // Two processes with equal pages that are mapped once are one address space.
        prop_assume!(snapshot.skipped.is_empty());
        let counts = count_all(&snapshot);
        let (entries, distinct, identical, different) = naive(&processes, page / 8);
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
    for (page, is) in PAGES
        .iter()
        .flat_map(|page| [(*page, true), (*page, false)])
    {
        let slots = page / 8;
        let (huge, small) = if is { (1, 0) } else { (0, slots) };
        let dir = tempfile::tempdir().unwrap();
        fake::write_process(
            dir.path(),
            &FakeProcess {
                pid: 7,
                name: "x".into(),
                regions: vec![FakeRegion {
                    start: 4 * slots,
                    end: 5 * slots,
                    perms: "rw-p".into(),
                    entries: (0..slots)
                        .map(|n| raw::PRESENT | raw::EXCLUSIVE | (2 * slots + n))
                        .collect(),
                    huge_bytes: huge * slots * page,
                    ..FakeRegion::default()
                }],
                page,
                ..FakeProcess::default()
            },
        )
        .unwrap();
        fake::write_frames(dir.path(), &[(0, 1)]).unwrap();
        let snapshot = scan_of(dir.path(), page);
        let counts = count_all(&snapshot);
        assert_eq!(
            (counts.entries.huge, counts.entries.unshareable),
            (huge, small)
        );
        assert_eq!(counts.resident, slots);
        assert_eq!(counts.ptps.tables, small.min(1));
        assert_eq!(snapshot.processes[0].fork_copies, huge + small);
        // A huge page needs no larger ones.
        let region = &snapshot.processes[0].regions[0];
        let windows = (region.small_windows.into(), region.large_windows.into());
        let in_table = |bytes: u64| small.min(1) * slots * page / bytes;
        assert_eq!(windows, (in_table(64 << 10), in_table(2 << 20)));
    }
}

#[test]
fn larger_pages_and_faults_are_windows_of_bytes() {
    for page in PAGES {
        // In 2 MB of a file one page of each 64 KB.
        let step = (64 << 10) / page;
        let region = FakeRegion {
            start: 3 * page / 8,
            end: 4 * page / 8,
            perms: "r--p".into(),
            inode: 8,
            path: "/lib/w.so".into(),
            entries: (0..(2 << 20) / page)
                .map(|place| match place % step {
                    0 => raw::PRESENT | raw::FILE | (1 + place),
                    _ => 0,
                })
                .collect(),
            ..FakeRegion::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let process = FakeProcess {
            pid: 7,
            name: "w".into(),
            regions: vec![region],
            page,
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
        fake::write_frames(dir.path(), &[(0, 1); 600]).unwrap();
        let snapshot = scan_of(dir.path(), page);
        let found = &snapshot.processes[0];
        let region = &found.regions[0];
        assert_eq!((region.small_windows, region.large_windows), (32, 1));
        let fill = &found.fill[0].1;
        assert_eq!(fill.small[(page >> 12) as usize], 32);
        assert_eq!(fill.large[((32 * page * 16) >> 21) as usize], 1);
        assert_eq!((found.fork_leaves, found.fork_faults), (32, 32));
        assert_eq!(count_all(&snapshot).ptps.tables, 1);
    }
}

#[test]
fn upper_tables_reach_as_far_as_pages_let_them() {
    for (page, tables) in PAGES.iter().flat_map(|page| [(*page, 32), (*page, 31)]) {
        let slots = page / 8;
        let dir = tempfile::tempdir().unwrap();
        for pid in [40, 41] {
            let code = FakeRegion {
                start: 1,
                end: 2,
                perms: "r--p".into(),
                entries: vec![raw::PRESENT | 9],
                ..FakeRegion::default()
            };
            // At the end of what one upper table covers.
            let shared = FakeRegion {
                start: 2 * slots * slots - tables * slots,
                end: 2 * slots * slots,
                perms: "rw-s".into(),
                inode: 5,
                path: "/dev/shm/x".into(),
                entries: vec![raw::PRESENT | raw::FILE | 5],
                ..FakeRegion::default()
            };
            let process = FakeProcess {
                pid,
                ppid: if pid == 40 { 1 } else { 40 },
                name: "u".into(),
                exe: "/bin/u".into(),
                regions: vec![code, shared],
                page,
                ..FakeProcess::default()
            };
            fake::write_process(dir.path(), &process).unwrap();
        }
        fake::write_frames(dir.path(), &[(0, 2); 16]).unwrap();
        let ptps = count_all(&scan_of(dir.path(), page)).ptps;
        assert_eq!(ptps.tables, 4);
        assert_eq!(
            ptps.uppers_saved,
            u64::from(tables == 32),
            "{page} {tables}"
        );
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
    #![proptest_config(cases(64))]
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

/// A small machine: a tree of two that shares a library, with a swapped page and a huge one.
fn small_machine(root: &Path, page: u64) {
    let slots = page / 8;
    let library = FakeRegion {
        start: 0x7f00_0000,
        end: 0x7f00_0010,
        perms: "r-xp".into(),
        inode: 3,
        path: "/lib/z.so".into(),
        entries: vec![raw::PRESENT | raw::FILE | 5; 12],
        ..FakeRegion::default()
    };
    let heap = |frame: u64| FakeRegion {
        start: 0x100,
        end: 0x140,
        perms: "rw-p".into(),
        path: "[heap]".into(),
        entries: vec![
            raw::PRESENT | raw::EXCLUSIVE | frame,
            raw::SWAP | 64,
            raw::PRESENT | 7,
        ],
        ..FakeRegion::default()
    };
    let huge = FakeRegion {
        start: 8 * slots,
        end: 9 * slots,
        perms: "rw-p".into(),
        entries: (0..slots)
            .map(|n| raw::PRESENT | raw::EXCLUSIVE | (slots + n))
            .collect(),
        huge_bytes: slots * page,
        ..FakeRegion::default()
    };
    for pid in [20, 21, 22] {
        let mut regions = vec![heap(100 + pid as u64)];
        if pid == 20 {
            regions.push(huge.clone());
        }
        regions.push(library.clone());
        let process = FakeProcess {
            pid,
            ppid: 20,
            uid: 5,
            name: format!("p{pid}"),
            exe: "/bin/p".into(),
            cgroup: "/c".into(),
            regions,
            page,
            ..FakeProcess::default()
        };
        fake::write_process(root, &process).unwrap();
    }
    fake::write_frames(root, &[(0, 3); 16]).unwrap();
    std::fs::create_dir(root.join("23")).unwrap();
}

#[test]
fn a_capture_is_replayed_with_equal_results() {
    for page in PAGES {
        replay(page);
    }
}

fn replay(page: u64) {
    let dir = tempfile::tempdir().unwrap();
    small_machine(dir.path(), page);
    let taken = scan_of(dir.path(), page);
    assert_eq!((taken.processes.len(), taken.skipped.len()), (3, 1));
    let file = dir.path().join("capture");
    capture::save(&taken, &file).unwrap();
    let loaded = capture::load(&file).unwrap();
    assert_eq!((loaded.page, count_all(&taken).entries.huge), (page, 1));
    assert_eq!(count_all(&loaded), count_all(&taken));
    assert_eq!(
        entries::count(&loaded, &[1, 2]),
        entries::count(&taken, &[1, 2])
    );
    assert_eq!(
        (&loaded.skipped, &loaded.files),
        (&taken.skipped, &taken.files)
    );
    for (one, other) in loaded.processes.iter().zip(&taken.processes) {
        assert_eq!(one.identity, other.identity);
        assert_eq!(
            (&one.regions, &one.code, &one.fill),
            (&other.regions, &other.code, &other.fill)
        );
    }
    // Again from what was loaded: nothing is lost on the way.
    let again = dir.path().join("again");
    capture::save(&loaded, &again).unwrap();
    assert_eq!(
        count_all(&capture::load(&again).unwrap()),
        count_all(&taken)
    );
}

#[test]
fn what_is_no_capture_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("not-one");
    for bytes in [
        &b""[..],
        b"COHORT",
        b"COHORT-SCAN 2\n\x1f\x8b",
        capture::MAGIC,
        &[capture::MAGIC, b"xyz"].concat(),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = capture::load(&file).err().unwrap().to_string();
        assert!(error.contains("not-one"), "{error}");
    }
    assert!(capture::load(&dir.path().join("none")).is_err());
    assert!(capture::load(dir.path()).is_err());
}

proptest! {
    #![proptest_config(cases(200))]
    #[test]
    fn a_damaged_capture_is_an_error_or_sound(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("capture");
        // Damage the model itself: damage to the packed bytes fails its checksum.
        let mut bytes = PACKED.with(|packed| packed.clone());
        for (at, byte) in flips {
            let place = at.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut packed = capture::MAGIC.to_vec();
        let mut writer = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, &bytes).unwrap();
        writer.finish().unwrap();
        std::fs::write(&file, &packed).unwrap();
        if let Ok(snapshot) = capture::load(&file) {
            let counts = count_all(&snapshot);
            prop_assert_eq!(counts.contents.total(), counts.entries.total());
            group::groups(&snapshot, group::By::Tree, &|uid| uid.to_string());
            let zygotes = code::Zygotes::new(&snapshot);
            for place in 0..snapshot.processes.len() {
                code::origins(&snapshot, &zygotes, place);
                code::Footprint::new(&snapshot, &zygotes, place);
            }
        }
        // Packed bytes that are damaged are refused.
        let place = packed.len() / 2;
        packed[place] ^= 1;
        std::fs::write(&file, &packed).unwrap();
        prop_assert!(capture::load(&file).is_err());
    }
}

thread_local! {
    /// The unpacked bytes of a small machine's capture.
    static PACKED: Vec<u8> = {
        let dir = tempfile::tempdir().unwrap();
        small_machine(dir.path(), page_size());
        let file = dir.path().join("capture");
        capture::save(&scan(dir.path()), &file).unwrap();
        let packed = std::fs::read(&file).unwrap();
        let mut bytes = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed[capture::MAGIC.len()..]);
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        bytes
    };
}
