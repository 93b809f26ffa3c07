// SPDX-License-Identifier: GPL-2.0-or-later
//! Real processes that hold a known number of pages of every kind, counted exactly.
//!
//! Needs the right to see page frames: root, and a kernel that does not hide them. Without it the
//! tests say so and pass.

use cohort_snapshot::count::active::Watched;
use cohort_snapshot::count::entries::{self, Contents, Counts, Entries};
use cohort_snapshot::model::{Frames, Snapshot};
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, page_size, read::process};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

/// Children of tests that run at the same time would hold each other's pages as well.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Where the pages are: nothing else is mapped there.
const BASE: u64 = 0x0600_0000_0000;
/// What one table covers, with pages of any size.
fn table() -> u64 {
    page_size() * (page_size() / 8)
}

/// A child that has done its part and waits to be killed.
struct Child(libc::pid_t);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours that has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Forks a child that runs `part`, and returns when it has.
fn child(part: impl FnOnce()) -> Child {
    busy_child(part, || {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    })
}

/// As `child`; then it runs `often` every few milliseconds.
fn busy_child(part: impl FnOnce(), often: impl Fn()) -> Child {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child runs `part`, which only touches memory and maps files, and never returns.
    match unsafe { libc::fork() } {
        0 => {
            part();
            // SAFETY: plain system calls on our own descriptor; ends with the test.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::write(ends[1], b"x".as_ptr().cast(), 1);
                loop {
                    forget_translations();
                    often();
                    libc::usleep(5000);
                }
            }
        }
        pid => {
            assert!(pid > 0);
            // SAFETY: both ends are ours and used by nobody else.
            let (read, write) =
                unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
            drop(write);
            let mut byte = [0u8];
            // SAFETY: room for one byte.
            let got = unsafe { libc::read(read.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
            assert_eq!(got, 1, "the child died before it had done its part");
            Child(pid)
        }
    }
}

/// Makes the processor set accessed bits again: those of translations that it still has are set
/// already as far as it knows. The kernel drops all when many pages go.
fn forget_translations() {
    let length = 64 * page_size() as usize;
    // SAFETY: a fresh private mapping at an address of the kernel's choice, gone at the end.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, RW, ANON, -1, 0);
        if memory != libc::MAP_FAILED {
            libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
            write(memory.cast(), 0..64);
            libc::munmap(memory, length);
        }
    }
}

/// Maps `pages` at the table `place`.
fn map(place: u64, pages: u64, prot: i32, flags: i32, fd: i32) -> *mut u8 {
    let at = BASE + place * table();
    // SAFETY: nothing is mapped there: the kernel would refuse.
    let memory = unsafe {
        libc::mmap(
            at as *mut _,
            (pages * page_size()) as usize,
            prot,
            flags | libc::MAP_FIXED_NOREPLACE,
            fd,
            0,
        )
    };
    assert_eq!(memory as u64, at, "cannot map at {at:x}");
    // So that the kernel does not put larger pages there.
    // SAFETY: the mapping from above.
    unsafe {
        libc::madvise(
            memory,
            (pages * page_size()) as usize,
            libc::MADV_NOHUGEPAGE,
        )
    };
    memory.cast()
}

fn write(memory: *mut u8, pages: std::ops::Range<u64>) {
    for page in pages {
        // SAFETY: inside a mapping of the caller's.
        unsafe {
            memory
                .add((page * page_size()) as usize)
                .write_volatile(page as u8 | 1)
        };
    }
}

fn read(memory: *mut u8, pages: std::ops::Range<u64>) {
    for page in pages {
        // SAFETY: inside a mapping of the caller's.
        unsafe { memory.add((page * page_size()) as usize).read_volatile() };
    }
}

/// Scans the children, only what they have at one table's place; `None` where frames are hidden.
fn count(children: &[&Child], place: u64) -> Option<(Snapshot, Counts)> {
    watch(children, place, 0.0)
}

/// As `count`, and watches which pages are used for so many seconds.
fn watch(children: &[&Child], place: u64, interval: f64) -> Option<(Snapshot, Counts)> {
    let range = BASE + place * table()..BASE + (place + 1) * table();
    let snapshot = scan::scan(&Options {
        select: &|all| {
            all.iter()
                .map(|who| children.iter().any(|child| child.0 == who.pid))
                .collect()
        },
        region: &|_, bytes| range.contains(&bytes.start),
        interval,
        ..Options::all(Paths::default())
    })
    .unwrap();
    assert_eq!(
        snapshot.processes.len(),
        children.len(),
        "{:?}",
        snapshot.skipped
    );
    if snapshot.frames != Frames::Visible {
        eprintln!("not run: page frames are hidden from this user");
        return None;
    }
    let members: Vec<usize> = (0..children.len()).collect();
    let counts = entries::count(&snapshot, &members);
    assert_eq!(counts.entries.total(), counts.contents.total());
    Some((snapshot, counts))
}

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANON: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

#[test]
fn copied_on_write_pages_of_a_forked_tree() {
    let _alone = alone();
    // The zygote writes 100 pages; of three children, one then writes 10 of them and 20 others.
    let memory = map(0, 200, RW, ANON, -1);
    write(memory, 0..100);
    let writer = child(|| {
        write(memory, 0..10);
        write(memory, 150..170);
    });
    let reader = child(|| {});
    let third = child(|| {});
    // This process's own mappings of the 90 pages end here, so that only the children count.
    // SAFETY: the mapping from above, not used by this process again.
    unsafe { libc::munmap(memory.cast(), (200 * page_size()) as usize) };
    let Some((snapshot, counts)) = count(&[&writer, &reader, &third], 0) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            private: 30,
            cow: 290,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            shareable: 290,
            unshareable: 30,
            ..Entries::default()
        }
    );
    assert_eq!((counts.distinct, counts.once()), (100, 130));
    let ptps = counts.ptps;
    assert_eq!(
        (ptps.tables, ptps.identical, ptps.distinct, ptps.kept),
        (3, 2, 2, 2)
    );
    // 90 pages in three, 10 in two, 30 in one.
    let expected = (90 + 10 + 30) as f64;
    assert!((counts.proportional as f64 / 4096.0 - expected).abs() < 0.1);
    let copied: Vec<u64> = snapshot
        .processes
        .iter()
        .map(|process| process.fork_copies)
        .collect();
    assert_eq!(copied, [120, 100, 100]);
}

#[test]
fn shared_memory_is_equal_where_both_touched_it() {
    let _alone = alone();
    let memory = map(1, 100, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    let first = child(|| write(memory, 0..60));
    let second = child(|| write(memory, 30..70));
    let Some((snapshot, counts)) = count(&[&first, &second], 1) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            shared: 100,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            shareable: 60,
            unshareable: 40,
            ..Entries::default()
        }
    );
    assert_eq!(counts.distinct, 30);
    // One table would serve both.
    assert_eq!(
        (
            counts.ptps.identical,
            counts.ptps.distinct,
            counts.ptps.lineages
        ),
        (0, 2, 1)
    );
    assert!(
        snapshot
            .processes
            .iter()
            .all(|process| process.fork_copies == 0)
    );
    assert_eq!(snapshot.processes[0].fork_leaves, 60);
}

#[test]
fn zero_pages_are_no_memory() {
    let _alone = alone();
    let memory = map(2, 50, RW, ANON, -1);
    let first = child(|| read(memory, 0..15));
    let second = child(|| {
        read(memory, 0..5);
        write(memory, 20..23);
    });
    let Some((_, counts)) = count(&[&first, &second], 2) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            zero: 20,
            private: 3,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            shareable: 10,
            unshareable: 13,
            ..Entries::default()
        }
    );
    assert_eq!((counts.resident, counts.distinct), (3, 5));
}

#[test]
fn unrelated_processes_are_equal_only_with_equal_permissions() {
    let _alone = alone();
    let file = tempfile::tempfile().unwrap();
    file.set_len(40 * page_size()).unwrap();
    let mapped = |prot: i32, flags: i32| {
        let fd = file.as_raw_fd();
        child(move || {
            let memory = map(3, 40, prot, flags, fd);
            read(memory, 0..40);
        })
    };
    let readers = [
        mapped(libc::PROT_READ, libc::MAP_PRIVATE),
        mapped(libc::PROT_READ, libc::MAP_PRIVATE),
        mapped(RW, libc::MAP_PRIVATE),
        mapped(libc::PROT_READ, libc::MAP_SHARED),
    ];
    let all: Vec<&Child> = readers.iter().collect();
    let Some((_, counts)) = count(&all, 3) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            file: 120,
            shared: 40,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            shareable: 80,
            unshareable: 80,
            ..Entries::default()
        }
    );
    assert_eq!((counts.distinct, counts.ptps.identical), (40, 2));
}

#[test]
fn huge_pages_are_one_entry_each() {
    let _alone = alone();
    let size = (2 * table()) as usize;
    let memory = map(8, 2 * table() / page_size(), RW, ANON, -1);
    // SAFETY: the mapping from above.
    let advised = unsafe { libc::madvise(memory.cast(), size, libc::MADV_HUGEPAGE) };
    let one = child(|| write(memory, 0..2 * table() / page_size()));
    let maps = process::smaps(&Paths::default(), one.0).unwrap();
    let huge: u64 = maps
        .iter()
        .filter(|map| map.address.start == BASE + 8 * table())
        .filter_map(|map| map.values.get("AnonHugePages"))
        .sum();
    if advised != 0 || huge != size as u64 {
        eprintln!("not run: the kernel gave no huge pages here");
        return;
    }
    let Some((snapshot, counts)) = count(&[&one], 8) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            huge: 2,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            huge: 2,
            ..Entries::default()
        }
    );
    assert_eq!(counts.ptps.tables, 0);
    assert_eq!(counts.resident * page_size(), size as u64);
    assert_eq!(snapshot.processes[0].fork_copies, 2);
}

#[test]
fn pages_used_in_an_interval_are_counted_one_by_one() {
    let _alone = alone();
    // The zygote writes 100 pages. One child goes on to read 30 of them and 10 pages of its own,
    // another has pages of its own as well, and none of them uses the rest.
    let memory = map(30, 200, RW, ANON, -1);
    write(memory, 0..100);
    let user = busy_child(
        || write(memory, 100..150),
        || {
            read(memory, 0..30);
            read(memory, 100..110);
        },
    );
    let sleeper = child(|| write(memory, 150..170));
    // SAFETY: the mapping from above, not used by this process again.
    unsafe { libc::munmap(memory.cast(), (200 * page_size()) as usize) };
    // On a busy machine the kernel may use a page meanwhile, as when it moves one: seen was 41, once.
    // Of three intervals one is as it should be.
    let mut left = 3;
    let (snapshot, counts) = loop {
        let Some((snapshot, counts)) = watch(&[&user, &sleeper], 30, 1.0) else {
            return;
        };
        left -= 1;
        if left == 0
            || counts
                .active
                .as_ref()
                .is_some_and(|active| active.total == 40.0)
        {
            break (snapshot, counts);
        }
    };
    assert_eq!(counts.entries.total(), 100 + 50 + 100 + 20);
    let active = counts.active.unwrap();
    assert_eq!(active.total, 40.0);
    assert!(active.shareable_low <= 30.0 && active.shareable_high >= 30.0);
    if snapshot.activity.is_none() {
        eprintln!("not run to its end: this kernel does not track idle pages");
        assert_eq!(active.by, Watched::Regions);
        return;
    }
    assert_eq!(active.by, Watched::Frames);
    assert_eq!((active.shareable_low, active.shareable_high), (30.0, 30.0));
    assert_eq!(active.once, 40.0);
}

#[test]
fn swapped_pages_are_counted_apart() {
    let _alone = alone();
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().count() < 2 {
        eprintln!("not run: this machine has no swap");
        return;
    }
    let memory = map(5, 64, RW, ANON, -1);
    let one = child(|| {
        write(memory, 0..64);
        // SAFETY: 24 pages of the mapping from above.
        unsafe { libc::madvise(memory.cast(), 24 * page_size() as usize, libc::MADV_PAGEOUT) };
    });
    let Some((_, counts)) = count(&[&one], 5) else {
        return;
    };
    assert_eq!(
        counts.contents,
        Contents {
            private: 40,
            swapped: 24,
            ..Contents::default()
        }
    );
    assert_eq!(
        counts.entries,
        Entries {
            unshareable: 40,
            swapped: 24,
            ..Entries::default()
        }
    );
}

#[test]
fn proportional_size_is_the_kernels() {
    let _alone = alone();
    let memory = map(20, 3000, RW, ANON, -1);
    write(memory, 0..3000);
    let one = child(|| write(memory, 0..700));
    let two = child(|| read(memory, 0..3000));
    let snapshot = scan::scan(&Options {
        select: &|all| {
            all.iter()
                .map(|who| [one.0, two.0].contains(&who.pid))
                .collect()
        },
        ..Options::all(Paths::default())
    })
    .unwrap();
    if snapshot.frames != Frames::Visible {
        eprintln!("not run: page frames are hidden from this user");
        return;
    }
    for process in &snapshot.processes {
        let kernel =
            process::rollup(&Paths::default(), process.identity.pid).unwrap()["Pss"] as f64;
        let sum: u64 = process
            .tables
            .iter()
            .map(|t| snapshot.stats(t.id).proportional)
            .sum();
        let ours = sum as f64 / 4096.0 * page_size() as f64;
        assert!(
            (ours / kernel - 1.0).abs() < 0.01,
            "ours {ours}, the kernel's {kernel}"
        );
    }
}
