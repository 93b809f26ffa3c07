// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up families of processes: what Cohort's kernel would have shared between them, known table
//! by table from the rules of `Documentation/mm/cohort.rst`.

use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::parents::{self, Unknown};
use cohort_snapshot::model::word::raw;
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{
    Paths,
    count::{entries, group},
    page_size,
};

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
    Some(scan::scan(&Options::all(Paths::new(dir.path()))).unwrap())
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
    let snapshot = scan::scan(&Options::all(Paths::new(dir.path()))).unwrap();
    assert_eq!(snapshot.parents, [None, None]);
    assert_eq!(group::roots(&snapshot), [0, 1]);
}

#[test]
fn an_inherited_page_proves_a_fork_where_programs_are_hidden() {
    let regions = data(vec![COW | 30]).to_vec();
    let dir = tempfile::tempdir().unwrap();
    for (pid, frames) in [(5, true), (6, true), (7, false)] {
        let process = FakeProcess {
            pid,
            ppid: 5,
            name: "z".into(),
            regions: match frames {
                true => regions.clone(),
                false => data(vec![OWN | 31]).to_vec(),
            },
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
        std::fs::remove_file(dir.path().join(pid.to_string()).join("exe")).unwrap();
    }
    let read = || scan::scan(&Options::all(Paths::new(dir.path()))).unwrap();
    // Without frames nothing is known of them.
    let snapshot = read();
    assert_eq!(snapshot.parents, [None; 3]);
    let hidden = Some(Unknown::ProgramHidden);
    assert_eq!(parents::unknown(&snapshot), [None, hidden, hidden]);
    fake::write_frames(dir.path(), &[(0, 2); 64]).unwrap();
    let snapshot = read();
    assert_eq!(snapshot.parents, [None, Some(0), None]);
    assert_eq!(parents::unknown(&snapshot), [None; 3]);
}

#[test]
fn a_parent_that_is_left_out_is_named() {
    let Some(mut snapshot) = family(vec![vec![], vec![], vec![]]) else {
        return;
    };
    assert_eq!(parents::unknown(&snapshot), [None; 3]);
    snapshot.retain(&[false, true, true]);
    assert_eq!(snapshot.parents, [None; 2]);
    let unknown = Some(Unknown::ParentLeftOut(50));
    assert_eq!(parents::unknown(&snapshot), [unknown; 2]);
    snapshot.retain(&[true, false]);
    assert_eq!(snapshot.left_out, [(51, 50)]);
    // No page is left that tells of a fork.
    let Some(mut snapshot) = family(vec![vec![], vec![]]) else {
        return;
    };
    snapshot.parents = vec![None; 2];
    snapshot.regions_left_out = true;
    assert_eq!(
        parents::unknown(&snapshot),
        [None, Some(Unknown::RegionsLeftOut)]
    );
}

#[test]
fn groups_are_named_by_their_command_and_numbered() {
    let dir = tempfile::tempdir().unwrap();
    for pid in [5, 6, 7] {
        let process = FakeProcess {
            pid,
            ppid: 1,
            name: "z".into(),
            exe: if pid == 7 { "/bin/y" } else { "/bin/z" }.into(),
            regions: data(vec![OWN | (30 + pid as u64)]).to_vec(),
            ..FakeProcess::default()
        };
        fake::write_process(dir.path(), &process).unwrap();
    }
    fake::write_frames(dir.path(), &[(0, 1); 64]).unwrap();
    let snapshot = scan::scan(&Options::all(Paths::new(dir.path()))).unwrap();
    let groups = group::groups(&snapshot, group::By::Tree, &|uid| uid.to_string());
    let labels: Vec<_> = groups
        .iter()
        .map(|group| (group.label.as_str(), group.root))
        .collect();
    let expected = [
        ("y --test", Some(7)),
        ("z --test", Some(5)),
        ("z --test #2", Some(6)),
    ];
    assert_eq!(labels, expected);
}

/// Faults saved among all processes of a family.
fn faults(members: Vec<Vec<FakeRegion>>) -> Option<u64> {
    let snapshot = family(members)?;
    let all: Vec<usize> = (0..snapshot.processes.len()).collect();
    Some(entries::count(&snapshot, &all).faults_saved)
}

fn check_faults(members: &[&[FakeRegion]], saved: u64) {
    let members: Vec<Vec<FakeRegion>> = members.iter().map(|regions| regions.to_vec()).collect();
    if let Some(found) = faults(members) {
        assert_eq!(found, saved);
    }
}

#[test]
fn of_a_table_that_is_shared_each_fault_is_taken_once() {
    let mut pages = vec![0; 64];
    // Pages 100, 101 and 140 of the table: windows of 64 KB that begin at 96 and 128.
    (pages[0], pages[1], pages[40]) = (FILE | 20, FILE | 21, FILE | 22);
    let parent = code(pages.clone());
    // Only children have page 120, in the window that begins at 112.
    pages[20] = FILE | 23;
    let child = code(pages);
    check_faults(&[&parent, &child], 2);
    check_faults(&[&parent, &child, &child], 5);
    check_faults(&[&parent], 0);
    // Each has brought in what the other has not.
    let first = code(vec![FILE | 20]);
    let (mut one, mut two) = (vec![FILE | 20; 1], vec![FILE | 20; 1]);
    one.resize(21, FILE | 23);
    two.resize(41, 0);
    two[40] = FILE | 22;
    one[1..20].fill(0);
    let (one, two) = (code(one), code(two));
    check_faults(&[&first, &one, &two], 2);
    check_faults(&[&first, &two, &one], 2);
    // A table that the parent has not is each child's own.
    check_faults(&[&[], &child, &child], 0);
    // Entries of memory that was written before the fork are copied: no faults without us either.
    let written = data(vec![COW | 30]);
    check_faults(&[&written, &written], 0);
}

#[test]
fn who_has_left_a_table_had_what_was_in_it() {
    let with = |entries: Vec<u64>, private: u64| {
        let [code] = code(entries);
        let mut data = region(3, "rw-p", "", vec![private]);
        (data.start, data.end) = (code.end, code.end + 10);
        [code, data]
    };
    let parent = with(vec![FILE | 20], COW | 30);
    // Page 120 is in a window that the parent has no page in.
    let mut more = vec![FILE | 20; 1];
    more.resize(21, 0);
    more[20] = FILE | 23;
    let wrote = with(more, OWN | 40);
    check_faults(&[&parent, &wrote], 1);
    check(&parent, &[&wrote], 2);
}

#[test]
fn a_gigabyte_of_shared_memory_has_one_upper_table() {
    let shared = |tables: u64, entries: &[(usize, u64)]| {
        let mut pages = vec![0; (tables * SLOTS) as usize];
        for (slot, entry) in entries {
            pages[*slot] = *entry;
        }
        FakeRegion {
            start: SLOTS * SLOTS,
            end: SLOTS * SLOTS + tables * SLOTS,
            perms: "rw-s".into(),
            inode: 8,
            path: "/dev/zero".into(),
            entries: pages,
            ..FakeRegion::default()
        }
    };
    let (near, far) = ((3, FILE | 20), (900, FILE | 21));
    let counted = |tables, parent: &[(usize, u64)], child: &[(usize, u64)]| {
        let child = vec![shared(tables, child)];
        let snapshot = family(vec![vec![shared(tables, parent)], child.clone(), child])?;
        let counts = entries::count(&snapshot, &[0, 1, 2]);
        let ptps = counts.ptps;
        Some((ptps.kept - 1, ptps.uppers_saved, counts.faults_saved))
    };
    let Some(found) = counted(32, &[near], &[near, far]) else {
        return;
    };
    // Both tables are everybody's, the second as well, which the parent has not.
    assert_eq!(found, (2, 2, 3));
    assert_eq!(counted(32, &[], &[near, far]), Some((2, 2, 2)));
    // Too little of it: the tables that the parent has are shared.
    assert_eq!(counted(31, &[near], &[near, far]), Some((3, 0, 2)));
    // Something private is beside it.
    let beside = |name: &str| {
        let mut data = region(0, "rw-p", name, vec![COW | 30]);
        (data.start, data.end) = (SLOTS * SLOTS + 33 * SLOTS, SLOTS * SLOTS + 34 * SLOTS);
        vec![shared(32, &[near]), data]
    };
    let snapshot = family(vec![beside(""), beside("")]).unwrap();
    assert_eq!(entries::count(&snapshot, &[0, 1]).ptps.uppers_saved, 0);
}
