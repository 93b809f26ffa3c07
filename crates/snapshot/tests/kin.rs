// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up families of processes: what Cohort's kernel would have shared between them, known table
//! by table from the rules of `Documentation/mm/cohort.rst`.

use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::scan::{self, Options};
use cohort_snapshot::word::raw;
use cohort_snapshot::{Paths, entries, group, kin, page_size};

const SLOTS: u64 = 512;
const FILE: u64 = raw::PRESENT | raw::FILE;
const OWN: u64 = raw::PRESENT | raw::EXCLUSIVE;
/// An anonymous page that is mapped more than once.
const COW: u64 = raw::PRESENT;

/// A region of 100 pages in the table `table`.
fn region(table: u64, perms: &str, path: &str, entries: Vec<u64>) -> FakeRegion {
    let start = table * SLOTS + 100;
    FakeRegion {
        start,
        end: start + 100,
        perms: perms.into(),
        inode: if path.starts_with('/') { 7 } else { 0 },
        path: path.into(),
        entries,
        ..FakeRegion::default()
    }
}

/// The first process, and others that were forked from it.
fn family(members: Vec<Vec<FakeRegion>>) -> Option<Snapshot> {
    // Made for tables of 512 entries.
    if page_size() != 4096 {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for (place, mut regions) in members.into_iter().enumerate() {
        // What every fork leaves: a page that was written before it.
        regions.insert(0, region(0, "r--p", "/bin/z", vec![COW | 9]));
        let process = FakeProcess {
            pid: 50 + place as i32,
            ppid: if place == 0 { 1 } else { 50 },
            name: "z".into(),
            exe: "/bin/z".into(),
            regions,
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    fake::write_frames(dir.path(), &[(0, 2); 256]).unwrap();
    Some(
        scan::scan(&Options {
            paths: Paths::new(dir.path()),
            select: &|identities| vec![true; identities.len()],
            region: &|_, _| true,
            interval: 0.0,
            samples: 0.0,
            rate: None,
            progress: &|_, _| {},
        })
        .unwrap(),
    )
}

/// Tables in all, and those left, without the one that `family` adds.
fn kept(members: Vec<Vec<FakeRegion>>) -> Option<(u64, u64)> {
    let count = members.len() as u64;
    let snapshot = family(members)?;
    let ptps = entries::count(
        &snapshot,
        &(0..snapshot.processes.len()).collect::<Vec<_>>(),
    )
    .ptps;
    Some((ptps.tables - count, ptps.kept - 1))
}

/// Checks a table that the first process has as `parent`, and others as `children`.
fn check(parent: &[FakeRegion], children: &[&[FakeRegion]], left: u64) {
    let members = std::iter::once(&parent)
        .chain(children)
        .map(|regions| regions.to_vec());
    let members: Vec<Vec<FakeRegion>> = members.collect();
    let tables = members.iter().filter(|regions| !regions.is_empty()).count() as u64;
    if let Some(found) = kept(members) {
        assert_eq!(found, (tables, left));
    }
}

fn code(entries: Vec<u64>) -> [FakeRegion; 1] {
    [region(3, "r-xp", "/lib/a.so", entries)]
}

fn data(entries: Vec<u64>) -> [FakeRegion; 1] {
    [region(3, "rw-p", "", entries)]
}

#[test]
fn a_table_that_the_parent_has_is_filled_for_all() {
    let parent = code(vec![FILE | 20]);
    let (one, two) = (
        code(vec![0, FILE | 21]),
        code(vec![FILE | 20, 0, FILE | 22]),
    );
    check(&parent, &[&one, &two], 1);
}

#[test]
fn a_table_that_the_parent_has_not_is_each_childs_own() {
    let (one, two) = (code(vec![FILE | 21]), code(vec![FILE | 21]));
    check(&[], &[&one, &two], 2);
}

#[test]
fn whoever_wrote_private_memory_is_alone() {
    let parent = data(vec![COW | 30, COW | 31]);
    let same = data(vec![COW | 30, COW | 31]);
    let (wrote, added) = (
        data(vec![OWN | 40, COW | 31]),
        data(vec![COW | 30, COW | 31, OWN | 41]),
    );
    check(&parent, &[&same, &wrote, &added], 3);
}

#[test]
fn children_keep_a_table_that_their_parent_has_left() {
    let parent = data(vec![OWN | 50, COW | 31]);
    let child = data(vec![COW | 30, COW | 31]);
    check(&parent, &[&child, &child], 2);
    // The parent has unmapped it: what they have in common tells.
    check(&[], &[&child, &child], 1);
}

#[test]
fn whoever_maps_something_else_there_is_alone() {
    let parent = code(vec![FILE | 20]);
    let mut changed = parent.clone();
    changed[0].end += 1;
    check(&parent, &[&parent, &changed, &changed], 3);
    // Beyond the table's range it makes no difference.
    let mut long = parent;
    long[0].end = 4 * SLOTS + 10;
    let mut longer = long.clone();
    longer[0].end += 5;
    check(&long, &[&longer], 1);
}

#[test]
fn stacks_and_drivers_mappings_are_never_shared() {
    for (perms, path) in [("rw-p", "[stack]"), ("rw-s", "/dev/dri/card0")] {
        let [code] = code(vec![FILE | 20]);
        let mut other = region(3, perms, path, vec![COW | 30]);
        (other.start, other.end) = (code.end, code.end + 10);
        let both = [code, other];
        check(&both, &[&both], 2);
    }
}

#[test]
fn a_store_to_shared_memory_takes_a_table_with_private_memory_away() {
    let shared = |entries: Vec<u64>| region(3, "rw-s", "/dev/zero", entries);
    // Alone in its table, it is shared by all.
    check(
        &[shared(vec![FILE | 60])],
        &[&[shared(vec![FILE | 60, FILE | 61])]],
        1,
    );
    let beside = |entries: Vec<u64>| {
        let shared = shared(entries);
        let mut code = region(3, "r-xp", "/lib/a.so", vec![FILE | 20]);
        (code.start, code.end) = (shared.end, shared.end + 10);
        [shared, code]
    };
    let (reads, stores) = (beside(vec![]), beside(vec![FILE | 60]));
    check(&reads, &[&reads, &stores], 2);
}

#[test]
fn a_program_that_started_itself_again_is_no_child() {
    let members = vec![data(vec![COW | 30]).to_vec(), data(vec![COW | 30]).to_vec()];
    let Some(snapshot) = family(members) else {
        return;
    };
    assert_eq!(snapshot.parents, [None, Some(0)]);
    // With other frames under all of its anonymous pages.
    let dir = tempfile::tempdir().unwrap();
    for (pid, frame) in [(5, 30), (6, 31)] {
        let process = FakeProcess {
            pid,
            ppid: 5,
            name: "z".into(),
            exe: "/bin/z".into(),
            regions: data(vec![OWN | frame, FILE | 20]).to_vec(),
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    fake::write_frames(dir.path(), &[(0, 1); 64]).unwrap();
    let snapshot = scan::scan(&Options {
        paths: Paths::new(dir.path()),
        select: &|identities| vec![true; identities.len()],
        region: &|_, _| true,
        interval: 0.0,
        samples: 0.0,
        rate: None,
        progress: &|_, _| {},
    })
    .unwrap();
    assert_eq!(snapshot.parents, [None, None]);
    assert_eq!(group::roots(&snapshot), [0, 1]);
}

#[test]
fn faults_are_saved_where_the_parent_has_the_page_in_a_region_that_fork_leaves() {
    let mut pages = vec![0; 64];
    // Pages 100, 101 and 140 of the table: windows of 64 KB that begin at 96 and 128.
    (pages[0], pages[1], pages[40]) = (FILE | 20, FILE | 21, FILE | 22);
    let parent = code(pages.clone()).to_vec();
    // Only the child has page 120, in the window that begins at 112.
    pages[20] = FILE | 23;
    let child = code(pages).to_vec();
    let Some(snapshot) = family(vec![parent, child]) else {
        return;
    };
    assert_eq!(kin::faults_saved(&snapshot, 1, 0), 2);
    // Entries of memory that was written before the fork are copied: no faults without us either.
    let Some(snapshot) = family(vec![
        data(vec![COW | 30]).to_vec(),
        data(vec![COW | 30]).to_vec(),
    ]) else {
        return;
    };
    assert_eq!(kin::faults_saved(&snapshot, 1, 0), 0);
}
