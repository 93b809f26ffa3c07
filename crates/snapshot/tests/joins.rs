// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up processes with known layouts: what they would share though they were not forked from one
//! another, worked out by hand from the rules of [`cohort_snapshot::count::joins`].

use cohort_snapshot::count::joins::{self, Joins, Pair, Pieces, Same, Shared};
use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::word::raw;
use cohort_snapshot::model::{Frames, Snapshot};
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, page_size};

const SLOTS: u64 = 512;
const FILE: u64 = raw::PRESENT | raw::FILE;
/// An anonymous page of this process alone.
const OWN: u64 = raw::PRESENT | raw::EXCLUSIVE;
/// Pages before the first written one that make a library large: 1 MB.
const LARGE: u64 = 256;

/// A mapping from page `start` up to `end` of the file with inode `inode`, from its page `offset`
/// on; `present` are the pages in memory, counted from `start`.
fn file(inode: u64, start: u64, end: u64, offset: u64, perms: &str, present: &[u64]) -> FakeRegion {
    let mut entries = vec![0; (end - start) as usize];
    for &page in present {
        entries[page as usize] = FILE | (inode * 2048 + offset + page);
    }
    FakeRegion {
        start,
        end,
        perms: perms.into(),
        offset,
        inode,
        path: format!("/lib/{inode}"),
        entries,
        ..FakeRegion::default()
    }
}

/// Private memory with these entries.
fn private(start: u64, end: u64, entries: Vec<u64>) -> FakeRegion {
    FakeRegion {
        start,
        end,
        perms: "rw-p".into(),
        entries,
        ..FakeRegion::default()
    }
}

/// A machine with these processes, none forked from another. `frames` says whether their numbers
/// can be seen. None where tables have other than 512 entries.
fn machine(processes: Vec<Vec<FakeRegion>>, frames: bool) -> Option<Snapshot> {
    let parents = vec![1; processes.len()];
    forked(processes, &parents, frames)
}

/// The same; process n has number 50 + n and its parent's number is `parents[n]`.
fn forked(processes: Vec<Vec<FakeRegion>>, parents: &[i32], frames: bool) -> Option<Snapshot> {
    if page_size() != 4096 {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for (place, mut regions) in processes.into_iter().enumerate() {
        if !frames {
            let entries = regions.iter_mut().flat_map(|region| &mut region.entries);
            entries.for_each(|entry| *entry &= !raw::FRAME);
        }
        let process = FakeProcess {
            pid: 50 + place as i32,
            ppid: parents[place],
            name: "z".into(),
            exe: "/bin/z".into(),
            regions,
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    if frames {
        fake::write_frames(dir.path(), &[(0, 2); 1 << 16]).unwrap();
    }
    Some(scan::scan(&Options::all(Paths::new(dir.path()))).unwrap())
}

fn count_with(snapshot: &Snapshot, boundary: u64) -> Joins {
    let members: Vec<usize> = (0..snapshot.processes.len()).collect();
    joins::count(snapshot, &Same::new(snapshot), &members, boundary)
}

fn count(processes: Vec<Vec<FakeRegion>>) -> Option<Joins> {
    Some(count_with(&machine(processes, true)?, LARGE))
}

/// Tables in common, tables saved, entries found.
fn shared(tables: u64, saved: u64, found: u64) -> Shared {
    Shared {
        tables,
        saved,
        forked: 0,
        found,
    }
}

#[test]
fn addresses_are_equal_congruent_or_neither() {
    // One table's worth of a file, from its page 512 on.
    let whole = |start, present: &[u64]| file(7, start, start + SLOTS, 512, "r-xp", present);
    let processes = || {
        vec![
            vec![whole(10 * SLOTS, &[0, 1, 2])],
            vec![whole(10 * SLOTS, &[1, 2, 3])],
            // Congruent.
            vec![whole(20 * SLOTS, &[3, 4])],
            // One page off: the mapping reaches into two tables, of which one has pages.
            vec![whole(30 * SLOTS + 1, &[0, 1])],
        ]
    };
    for frames in [true, false] {
        let Some(snapshot) = machine(processes(), frames) else {
            return;
        };
        assert_eq!(snapshot.frames == Frames::Hidden, !frames);
        let joins = count_with(&snapshot, LARGE);
        assert_eq!((joins.families, joins.tables), (4, 4));
        assert_eq!((joins.file_tables, joins.clean, joins.mixed), (4, 4, 0));
        assert_eq!(joins.entries, 3 + 3 + 2 + 2);
        // Of the six entries of the first two, four are different.
        assert_eq!(joins.same_address, shared(1, 1, 2));
        // Of the eight of the first three, five are different.
        assert_eq!(joins.one_mapping, shared(1, 2, 3));
        assert_eq!(joins.one_file, shared(1, 2, 3));
        assert_eq!(joins.pieces, shared(1, 2, 3));
    }
}

#[test]
fn one_file_may_be_mapped_in_parts() {
    let parts = |table: u64, second: u64| {
        let start = table * SLOTS;
        vec![
            file(7, start, start + 200, 0, "r--p", &[0, 1]),
            file(second, start + 200, start + SLOTS, 200, "r-xp", &[0]),
        ]
    };
    let Some(joins) = count(vec![parts(10, 7), parts(20, 7)]) else {
        return;
    };
    assert_eq!(joins.one_mapping, shared(0, 0, 0));
    assert_eq!(joins.one_file, shared(1, 1, 3));
    assert_eq!(joins.same_address, shared(0, 0, 0));
    let two = Pieces {
        up_to_4: 2,
        most: 2,
        ..Pieces::default()
    };
    assert_eq!(joins.clean_pieces, two);
    // Two files cover the range.
    let joins = count(vec![parts(10, 8), parts(20, 8)]).unwrap();
    assert_eq!(joins.one_file, shared(0, 0, 0));
    assert_eq!(joins.pieces, shared(1, 1, 3));
    // Another file in the second part, or none.
    let joins = count(vec![parts(10, 7), parts(20, 8), parts(30, 7)[..1].to_vec()]).unwrap();
    assert_eq!(joins.pieces, shared(0, 0, 0));
    // Other rights.
    let mut other = parts(20, 7);
    other[1].perms = "r--p".into();
    let joins = count(vec![parts(10, 7), other]).unwrap();
    assert_eq!(joins.pieces, shared(0, 0, 0));
}

#[test]
fn a_mapping_that_was_split_is_one_piece() {
    let start = 10 * SLOTS;
    let whole = vec![file(7, start, start + SLOTS, 0, "r--s", &[5, 300])];
    let start = 20 * SLOTS;
    let split = vec![
        file(7, start, start + 100, 0, "r--s", &[5]),
        file(7, start + 100, start + SLOTS, 100, "r--s", &[]),
    ];
    let Some(joins) = count(vec![whole, split]) else {
        return;
    };
    assert_eq!((joins.clean_pieces.one, joins.clean_pieces.most), (2, 1));
    // For huge_pmd_share() it is two mappings.
    assert_eq!(joins.one_mapping, shared(0, 0, 0));
    assert_eq!(joins.one_file, shared(1, 1, 1));
}

#[test]
fn private_data_in_the_range_makes_a_table_mixed() {
    let library = |table: u64, entry: u64| {
        let start = table * SLOTS;
        vec![
            file(7, start, start + 300, 0, "r-xp", &[0, 1, 2]),
            private(start + 300, start + 310, vec![0, entry]),
        ]
    };
    for entry in [OWN | 40, raw::SWAP | 3 << 5] {
        let Some(joins) = count(vec![library(10, entry), library(10, entry + 64)]) else {
            return;
        };
        assert_eq!((joins.file_tables, joins.clean, joins.mixed), (2, 0, 2));
        assert_eq!(
            (joins.mixed_pieces.up_to_4, joins.mixed_pieces.most),
            (2, 2)
        );
        for rule in [joins.same_address, joins.one_file, joins.pieces] {
            assert_eq!(rule, shared(0, 0, 0));
        }
        assert_eq!(joins.mixed_found, 3);
    }
    // Nothing was written, or the zero page read.
    let joins = count(vec![library(10, 0), library(20, 0)]).unwrap();
    assert_eq!(joins.pieces, shared(1, 1, 3));
    let mut snapshot = machine(vec![library(10, OWN | 41), library(20, OWN | 41)], true).unwrap();
    snapshot.zero = Some(41);
    let joins = count_with(&snapshot, LARGE);
    assert_eq!((joins.mixed, joins.pieces), (0, shared(1, 1, 3)));
}

#[test]
fn more_than_four_pieces_are_not_compared() {
    let striped = |pieces: u64| -> Vec<FakeRegion> {
        let each = 0..pieces;
        each.map(|piece| {
            let (start, perms) = (
                10 * SLOTS + piece * 10,
                ["r--p", "r-xp"][piece as usize % 2],
            );
            file(7, start, start + 10, piece * 10, perms, &[0])
        })
        .collect()
    };
    let Some(joins) = count(vec![striped(4), striped(4)]) else {
        return;
    };
    assert_eq!(joins.pieces, shared(1, 1, 4));
    let joins = count(vec![striped(5), striped(5)]).unwrap();
    assert_eq!(joins.pieces, shared(0, 0, 0));
    assert_eq!(joins.same_address, shared(1, 1, 5));
    assert_eq!(
        (joins.clean_pieces.up_to_8, joins.clean_pieces.most),
        (2, 5)
    );
}

#[test]
fn forked_processes_are_one_family() {
    let whole = |present: &[u64]| file(7, 10 * SLOTS, 11 * SLOTS, 0, "r-xp", present);
    // What a fork leaves: a page that was written before it.
    let inherited = private(5 * SLOTS, 5 * SLOTS + 1, vec![raw::PRESENT | 9]);
    let processes = vec![
        vec![inherited.clone(), whole(&[0, 1])],
        vec![inherited, whole(&[1, 2])],
        vec![whole(&[2, 3, 4])],
    ];
    let Some(snapshot) = forked(processes, &[1, 50, 1], true) else {
        return;
    };
    let joins = count_with(&snapshot, LARGE);
    assert_eq!((joins.families, joins.file_tables), (2, 3));
    // The family has three different entries, one of which the stranger has as well.
    let expected = Shared {
        tables: 1,
        saved: 1,
        forked: 1,
        found: 1,
    };
    assert_eq!(joins.same_address, expected);
    assert_eq!(joins.pieces, expected);
}

#[test]
fn what_the_kernel_maps_is_not_shared() {
    let start = 10 * SLOTS;
    for path in ["[vdso]", "[stack]"] {
        let process = || {
            let kernels = FakeRegion {
                path: path.into(),
                ..private(start + 20, start + 22, vec![])
            };
            vec![file(7, start, start + 20, 0, "r-xp", &[0]), kernels]
        };
        let Some(joins) = count(vec![process(), process()]) else {
            return;
        };
        assert_eq!((joins.clean, joins.same_address), (2, shared(0, 0, 0)));
    }
    // The page of the vdso has bit 61, and is no file's.
    let vdso = || {
        let page = FakeRegion {
            path: "[vdso]".into(),
            ..private(start, start + 2, vec![FILE | 60])
        };
        vec![page]
    };
    let joins = count(vec![vdso(), vdso()]).unwrap();
    assert_eq!((joins.tables, joins.file_tables), (2, 0));
}

/// A library with 300 read-only pages and 10 of data, and one with 20 and 5.
fn libraries(large: u64, small: u64, present: &[u64]) -> Vec<FakeRegion> {
    vec![
        file(8, small, small + 20, 0, "r-xp", &[0, 1]),
        FakeRegion {
            entries: vec![OWN | 40],
            ..file(8, small + 20, small + 25, 20, "rw-p", &[])
        },
        file(7, large, large + 300, 0, "r-xp", present),
        FakeRegion {
            entries: vec![OWN | 41],
            ..file(7, large + 300, large + 310, 300, "rw-p", &[])
        },
    ]
}

#[test]
fn a_library_with_a_place_has_its_data_in_another_table() {
    let processes = vec![
        libraries(100 * SLOTS + 37, 90 * SLOTS + 11, &[0, 1, 2, 3, 4, 5]),
        libraries(200 * SLOTS + 99, 190 * SLOTS + 1, &[3, 4, 5, 6, 7, 8]),
    ];
    let Some(snapshot) = machine(processes, true) else {
        return;
    };
    let joins = count_with(&snapshot, LARGE);
    let places = joins.places;
    assert_eq!((places.libraries, places.entries), (2, 2 * (6 + 2)));
    // Two tables each, all with data.
    assert_eq!((places.now.tables, places.now.left), (4, 4));
    // Both libraries fit in one table, with the data of both.
    assert_eq!((places.packed.tables, places.packed.left), (2, 2));
    assert_eq!(places.packed.shared, shared(0, 0, 0));
    // The large one's data begins a table, and the small one fits behind it. The table before holds
    // 12 entries, of which 9 are different.
    assert_eq!(places.at_boundary, 1);
    assert_eq!((places.boundary.tables, places.boundary.left), (4, 3));
    assert_eq!(places.boundary.shared, shared(1, 1, 3));
    // 300 pages are not enough.
    let places = count_with(&snapshot, 301).places;
    assert_eq!((places.at_boundary, places.boundary), (0, places.packed));
}

#[test]
fn what_was_written_and_protected_again_begins_the_data() {
    // RELRO: read-only by now, but its second page is anonymous.
    let relro = |base: u64| {
        let mut process = libraries(base, base + 1024, &[0]);
        process[2].end -= 20;
        process[2].entries.truncate(280);
        let mut relro = file(7, base + 280, base + 300, 280, "r--p", &[]);
        relro.entries[0] = OWN | 42;
        process.insert(3, relro);
        process.rotate_left(2);
        process
    };
    let Some(snapshot) = machine(vec![relro(100 * SLOTS), relro(200 * SLOTS + 7)], true) else {
        return;
    };
    assert_eq!(count_with(&snapshot, 280).places.at_boundary, 1);
    assert_eq!(count_with(&snapshot, 281).places.at_boundary, 0);
}

#[test]
fn libraries_do_not_count_the_program_or_plain_files() {
    let mut program = file(9, 10 * SLOTS, 10 * SLOTS + 300, 0, "r-xp", &[0]);
    program.path = "/bin/z".into();
    let plain = file(7, 20 * SLOTS, 21 * SLOTS, 0, "r--p", &[0]);
    let Some(joins) = count(vec![vec![program, plain]]) else {
        return;
    };
    assert_eq!((joins.places.libraries, joins.places.entries), (0, 0));
    assert_eq!(joins.places.boundary.tables, 0);
}

#[test]
fn groups_share_with_each_other() {
    let whole =
        |inode, table: u64| file(inode, table * SLOTS, (table + 1) * SLOTS, 0, "r-xp", &[0]);
    // The first file in all three groups, in one of them twice; the second in two.
    let processes = vec![
        vec![whole(7, 10), whole(8, 11)],
        vec![whole(7, 20), whole(8, 22)],
        vec![whole(7, 30)],
        vec![whole(7, 40)],
    ];
    let Some(snapshot) = machine(processes, true) else {
        return;
    };
    let groups: [&[usize]; 3] = [&[0], &[1], &[2, 3]];
    let between = joins::between(&snapshot, &Same::new(&snapshot), &groups, LARGE);
    // At places of all groups each library is one table as well, as far as it is one: no data.
    assert_eq!((between.saved, between.placed), (3, 3));
    let pair = |one, other, tables| Pair {
        groups: [one, other],
        tables,
        placed: tables,
    };
    assert_eq!(between.pairs, [pair(0, 1, 2), pair(0, 2, 1), pair(1, 2, 1)]);
    let files: Vec<_> = between
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.groups, file.saved))
        .collect();
    assert_eq!(files, [("/lib/7", 3, 2), ("/lib/8", 2, 1)]);
}

#[test]
fn files_of_two_overlays_are_one_if_their_frames_are() {
    let process = |inode: u64, frame: u64| {
        let mut region = file(inode, 10 * SLOTS, 11 * SLOTS, 0, "r-xp", &[0]);
        region.path = format!("/overlay/{inode}/libc.so.6");
        region.entries[0] = FILE | frame;
        vec![region]
    };
    let Some(snapshot) = machine(vec![process(7, 70), process(8, 70), process(9, 71)], true) else {
        return;
    };
    assert_eq!(count_with(&snapshot, LARGE).pieces, shared(1, 1, 1));
    // What is not known is not shared.
    let snapshot = machine(vec![process(7, 70), process(8, 70)], false).unwrap();
    assert_eq!(count_with(&snapshot, LARGE).pieces, shared(0, 0, 0));
}
