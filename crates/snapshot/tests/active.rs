// SPDX-License-Identifier: GPL-2.0-or-later
//! Which entries were used in an interval, on made-up machines whose kernels track idle pages.

use cohort_snapshot::count::active::Watched;
use cohort_snapshot::count::entries;
use cohort_snapshot::fake::{self, FakeProcess, FakeRegion};
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::word::raw;
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, read::capture};
use std::path::Path;
use std::time::Duration;

const KPF_IDLE: u64 = 1 << 25;
const FRAMES: usize = 400;

/// 30 pages that both have, 10 of its own for each; `referenced` is what smaps says of them.
fn process(pid: i32, referenced: u64) -> FakeProcess {
    let own = 100 * pid as u64;
    let shared = (0..30).map(|place| raw::PRESENT | (10 + place));
    let private = (0..10).map(|place| raw::PRESENT | raw::EXCLUSIVE | (own + place));
    FakeProcess {
        pid,
        name: "x".into(),
        regions: vec![FakeRegion {
            start: 0x55_5000_0000,
            end: 0x55_5000_0040,
            perms: "rw-p".into(),
            entries: shared.chain(private).collect(),
            referenced,
            ..FakeRegion::default()
        }],
        ..FakeProcess::default()
    }
}

fn write(root: &Path) {
    // All is on the lists of reclaim, but one page that both have.
    let mut frames = vec![(KPF_IDLE, 2); FRAMES];
    frames[39].0 = 0;
    fake::write_frames(root, &frames).unwrap();
    std::fs::write(Paths::new(root).page_idle(), vec![0; FRAMES / 8]).unwrap();
}

/// Scans while somebody uses `frames`.
fn scan(root: &Path, frames: &[u64]) -> Snapshot {
    let bitmap = Paths::new(root).page_idle();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let mut bytes = std::fs::read(&bitmap).unwrap_or_default();
                // The last frames that it calls idle.
                if bytes.get(26).is_none_or(|byte| byte & 1 == 0) {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                for frame in frames {
                    bytes[(frame / 8) as usize] &= !(1 << (frame % 8));
                }
                std::fs::write(&bitmap, bytes).unwrap();
                return;
            }
        });
        scan::scan(&Options {
            interval: 1.0,
            ..Options::all(Paths::new(root))
        })
        .unwrap()
    })
}

#[test]
fn entries_of_idle_frames_are_not_active() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    // The first uses 12 pages that both have and 5 of its own, the second nothing.
    fake::write_process(dir.path(), &process(1, 17)).unwrap();
    fake::write_process(dir.path(), &process(2, 0)).unwrap();
    let frames: Vec<u64> = (10..22).chain(100..105).collect();
    let snapshot = scan(dir.path(), &frames);
    let counts = entries::count(&snapshot, &[0, 1]);
    let active = counts.active.unwrap();
    assert_eq!((active.by, active.total), (Watched::Frames, 17.0));
    // The page of which nothing is known may be one of the 17 for all that the frames say; the
    // five of its own are not, so that it is 12 of the 13 that both have.
    assert_eq!((active.shareable_low, active.shareable_high), (12.0, 12.0));
    assert_eq!(active.once, 17.0);
    // A capture tells the same.
    let file = dir.path().join("capture");
    capture::save(&snapshot, &file).unwrap();
    let loaded = capture::load(&file).unwrap();
    assert_eq!(loaded.activity, snapshot.activity);
    assert_eq!(entries::count(&loaded, &[0, 1]).active, Some(active));
}

#[test]
fn what_both_use_is_left_once() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    fake::write_process(dir.path(), &process(1, 12)).unwrap();
    fake::write_process(dir.path(), &process(2, 8)).unwrap();
    // 12 that both have, of which the second uses 8.
    let snapshot = scan(dir.path(), &(10..22).collect::<Vec<u64>>());
    let active = entries::count(&snapshot, &[0, 1]).active.unwrap();
    assert_eq!((active.total, active.shareable_low), (20.0, 20.0));
    assert_eq!(active.shareable_high, 20.0);
    // The page of which nothing is known counts here.
    assert_eq!(active.once, 13.0);
}

#[test]
fn without_idle_tracking_classes_are_known_between_bounds() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    std::fs::remove_file(Paths::new(dir.path()).page_idle()).unwrap();
    fake::write_process(dir.path(), &process(1, 17)).unwrap();
    fake::write_process(dir.path(), &process(2, 0)).unwrap();
    let snapshot = scan::scan(&Options {
        interval: 0.01,
        ..Options::all(Paths::new(dir.path()))
    })
    .unwrap();
    assert_eq!(snapshot.activity, None);
    let active = entries::count(&snapshot, &[0, 1]).active.unwrap();
    assert_eq!((active.by, active.total), (Watched::Regions, 17.0));
    assert_eq!((active.shareable_low, active.shareable_high), (7.0, 17.0));
}

#[test]
fn idle_code_is_nobodys_footprint() {
    use cohort_snapshot::count::code::{Footprint, Zygotes};
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let library = FakeProcess {
        regions: vec![FakeRegion {
            start: 0x55_5000_01f0,
            end: 0x55_5000_0250,
            perms: "r-xp".into(),
            offset: 70,
            inode: 7,
            path: "/lib/x.so".into(),
            entries: (0..40)
                .map(|place| raw::PRESENT | raw::FILE | (170 + place))
                .collect(),
            referenced: 7,
            ..FakeRegion::default()
        }],
        ..process(1, 0)
    };
    fake::write_process(dir.path(), &library).unwrap();
    // Before and behind a table's end.
    let snapshot = scan(dir.path(), &[170, 171, 172, 180, 190, 191, 200]);
    let print = Footprint::new(&snapshot, &Zygotes::new(&snapshot), 0);
    assert_eq!(print.pages, 7);
}
