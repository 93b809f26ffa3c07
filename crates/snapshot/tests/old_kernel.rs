// SPDX-License-Identifier: GPL-2.0-or-later
//! A process as Linux 4.14 shows it, the oldest kernel that is supported. What it lacks: PAGEMAP_SCAN
//! (6.7), FilePmdMapped and Pss_Dirty in smaps, upper tables in VmPTE (4.15), control groups of
//! version 2 on most machines.

use cohort_snapshot::fake;
use cohort_snapshot::model::Snapshot;
use cohort_snapshot::model::word::raw;
use cohort_snapshot::read::scan::{self, Options};
use cohort_snapshot::{Paths, count::entries, page_size, read::process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const STAT: &str = "77 (old (one)) S 1 77 77 0 -1 4194560 220 0 0 0 1 2 0 0 20 0 1 0 4242 8192000 \
    700 18446744073709551615 4194304 4210688 140736000000000 0 0 0 0 0 0 1 0 0 17 0 0 0 0 0 0 \
    6295552 6296640 20000000 140736000000100 140736000000120 140736000000120 140736000000200 0\n";

const STATUS: &str = "Name:\told (one)\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t77\nNgid:\t0\n\
    Pid:\t77\nPPid:\t1\nTracerPid:\t0\nUid:\t1000\t1001\t1001\t1001\nGid:\t0\t0\t0\t0\n\
    FDSize:\t256\nGroups:\t0 \nNStgid:\t77\nNSpid:\t77\nNSpgid:\t77\nNSsid:\t77\n\
    VmPeak:\t 3154000 kB\nVmSize:\t 3154000 kB\nVmLck:\t       4 kB\nVmPin:\t       0 kB\n\
    VmHWM:\t    4116 kB\nVmRSS:\t    4112 kB\nRssAnon:\t    4108 kB\nRssFile:\t       4 kB\n\
    RssShmem:\t       0 kB\nVmData:\t 3153000 kB\nVmStk:\t     132 kB\nVmExe:\t       4 kB\n\
    VmLib:\t       0 kB\nVmPTE:\t      44 kB\nVmPMD:\t      12 kB\nVmSwap:\t       4 kB\n\
    HugetlbPages:\t       0 kB\nThreads:\t1\nSigQ:\t0/7800\nSigPnd:\t0000000000000000\n\
    ShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n\
    SigCgt:\t0000000000000000\nCapInh:\t0000000000000000\nCapPrm:\t0000003fffffffff\n\
    CapEff:\t0000003fffffffff\nCapBnd:\t0000003fffffffff\nCapAmb:\t0000000000000000\n\
    NoNewPrivs:\t0\nSeccomp:\t0\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n\
    Mems_allowed:\t00000000,00000001\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t10\n\
    nonvoluntary_ctxt_switches:\t0\n";

const CGROUP: &str = "11:cpuset:/\n10:memory:/docker/0123abcd\n9:cpu,cpuacct:/docker/0123abcd\n\
    1:name=systemd:/user.slice\n";

/// Address, permissions, name; pages in memory, in swap, locked, in huge pages, in KB.
const REGIONS: [(u64, u64, &str, &str, [u64; 4]); 5] = [
    (0x400, 0x401, "r-xp", "/bin/old", [4, 0, 4, 0]),
    (0x7_f000_0000, 0x7_f000_0200, "rw-p", "", [2048, 0, 0, 2048]),
    // Frames one after the other, and no huge page.
    (0x7_f000_0400, 0x7_f000_0600, "rw-p", "", [2048, 0, 0, 0]),
    // 3 GB, of which one page is used and one was: nobody should have to read it all.
    (0x7_f004_0000, 0x7_f010_0000, "rw-p", "", [4, 4, 0, 0]),
    (
        0x7_ffc0_0000,
        0x7_ffc0_0021,
        "rw-p",
        "[stack]",
        [8, 0, 0, 0],
    ),
];

fn heading(region: usize) -> String {
    let (start, end, perms, path, _) = REGIONS[region];
    let inode = u64::from(path.starts_with('/')) * 99;
    format!(
        "{:08x}-{:08x} {perms} 00000000 08:01 {inode} {path:>26}\n",
        start << 12,
        end << 12
    )
}

/// The values of smaps, those of smaps_rollup without the first and the last lines.
fn values([resident, swapped, locked, huge]: [u64; 4]) -> String {
    format!(
        "Rss:            {resident:8} kB\nPss:            {resident:8} kB\n\
         Shared_Clean:          0 kB\nShared_Dirty:          0 kB\nPrivate_Clean:         0 kB\n\
         Private_Dirty:  {resident:8} kB\nReferenced:     {resident:8} kB\n\
         Anonymous:      {resident:8} kB\nLazyFree:              0 kB\n\
         AnonHugePages:  {huge:8} kB\nShmemPmdMapped:        0 kB\nShared_Hugetlb:        0 kB\n\
         Private_Hugetlb:       0 kB\nSwap:           {swapped:8} kB\n\
         SwapPss:        {swapped:8} kB\n",
    ) + &format!("Locked:         {locked:8} kB\n")
}

fn write(root: &Path) {
    let dir = root.join("77");
    fs::create_dir(&dir).unwrap();
    let (mut maps, mut smaps, mut sum) = (String::new(), String::new(), [0; 4]);
    for (number, region) in REGIONS.iter().enumerate() {
        maps += &heading(number);
        let size = (region.1 - region.0) * 4;
        let (first, rest) = (heading(number), values(region.4));
        let (rest, locked) = rest.split_at(rest.find("Locked").unwrap());
        smaps += &format!(
            "{first}Size:           {size:8} kB\n{rest}KernelPageSize:        4 kB\n\
             MMUPageSize:           4 kB\n{locked}VmFlags: rd wr mr mw me ac \n"
        );
        for (sum, value) in sum.iter_mut().zip(region.4) {
            *sum += value;
        }
    }
    let rollup = "00400000-7ffc00021000 ---p 00000000 00:00 0                          [rollup]\n";
    for (name, text) in [
        ("stat", STAT),
        ("status", STATUS),
        ("cgroup", CGROUP),
        ("cmdline", "/bin/old\0-x\0"),
        ("maps", &maps),
        ("smaps", &smaps),
        ("smaps_rollup", &(rollup.to_string() + &values(sum))),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/bin/old", dir.join("exe")).unwrap();
    let pagemap = File::create(dir.join("pagemap")).unwrap();
    let put = |page: u64, entry: u64| {
        pagemap
            .write_all_at(&entry.to_ne_bytes(), page * 8)
            .unwrap();
    };
    let own = raw::PRESENT | raw::EXCLUSIVE;
    put(0x400, own | raw::FILE | 7);
    for page in 0..512 {
        put(REGIONS[1].0 + page, own | (512 + page));
        put(REGIONS[2].0 + page, own | (1024 + page));
    }
    put(REGIONS[3].0 + 70_000, own | 8);
    put(REGIONS[3].0 + 70_001, raw::SWAP | 3 << 5);
    put(REGIONS[4].0 + 30, own | 9);
    put(REGIONS[4].0 + 31, own | 10);
    pagemap.set_len(REGIONS[4].1 * 8).unwrap();
    fake::write_frames(root, &[(0, 1); 2048]).unwrap();
}

fn taken() -> Option<(tempfile::TempDir, Snapshot)> {
    // As x86-64 has it.
    if page_size() != 4096 {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let snapshot = scan::scan(&Options::all(Paths::new(dir.path()))).unwrap();
    Some((dir, snapshot))
}

#[test]
fn who_it_is_is_understood() {
    let Some((dir, snapshot)) = taken() else {
        return;
    };
    assert!(snapshot.skipped.is_empty(), "{:?}", snapshot.skipped);
    let who = &snapshot.processes[0].identity;
    assert_eq!((who.pid, who.ppid, who.uid), (77, 1, 1001));
    assert_eq!((who.name.as_str(), who.start_time), ("old (one)", 4242));
    assert_eq!(who.command, "/bin/old -x");
    assert_eq!(who.cgroup, "/docker/0123abcd");
    // Both levels.
    assert_eq!((who.table_bytes, who.locked_bytes), (56 << 10, 4 << 10));
    let rollup = process::rollup(&Paths::new(dir.path()), 77).unwrap();
    assert_eq!((rollup["Pss"], rollup["Swap"]), (4112 << 10, 4 << 10));
}

#[test]
fn pages_are_counted_without_pagemap_scan() {
    let Some((_dir, snapshot)) = taken() else {
        return;
    };
    let counts = entries::count(&snapshot, &[0]);
    let found = counts.entries;
    assert_eq!((found.huge, found.swapped), (1, 1));
    assert_eq!(found.unshareable, 1 + 512 + 1 + 2);
    assert_eq!(counts.resident, 1 + 512 + 512 + 1 + 2);
    assert_eq!(snapshot.huge_by_sum, 1);
    let regions = &snapshot.processes[0].regions;
    let huge: Vec<u32> = regions.iter().map(|region| region.huge).collect();
    assert_eq!(huge, [0, 1, 0, 0, 0]);
    // What is locked, and the stack.
    let shareable: Vec<bool> = regions.iter().map(|region| region.shareable).collect();
    assert_eq!(shareable, [false, true, true, true, false]);
}
