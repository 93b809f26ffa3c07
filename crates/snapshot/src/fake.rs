// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes trees that look like `/proc`, for tests: what is in them is known exactly.

use crate::model::word::raw;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A region of a made-up process. Addresses are in pages.
#[derive(Debug, Clone, Default)]
pub struct FakeRegion {
    /// First page.
    pub start: u64,
    /// Behind the last page.
    pub end: u64,
    /// As maps has them: `r-xp`.
    pub perms: String,
    /// In the file, in pages.
    pub offset: u64,
    /// 0 for none.
    pub inode: u64,
    /// Path, or nothing.
    pub path: String,
    /// Entries of pagemap, from the first page on; missing ones are 0.
    pub entries: Vec<u64>,
    /// Bytes of huge pages that smaps reports.
    pub huge_bytes: u64,
    /// Pages that smaps calls referenced.
    pub referenced: u64,
}

/// A made-up process.
#[derive(Debug, Clone, Default)]
pub struct FakeProcess {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub ppid: i32,
    /// User.
    pub uid: u32,
    /// Name.
    pub name: String,
    /// Program; `/bin/fake` if empty.
    pub exe: String,
    /// Control group.
    pub cgroup: String,
    /// By address.
    pub regions: Vec<FakeRegion>,
    /// Page faults: its own, and those of children that it waited for.
    pub faults: [u64; 2],
    /// Bytes in a page; 0 for as many as this machine's have.
    pub page: u64,
}

/// Writes a process below `root`.
pub fn write_process(root: &Path, process: &FakeProcess) -> io::Result<()> {
    let dir = root.join(process.pid.to_string());
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("stat"), stat(process))?;
    fs::write(dir.join("status"), status(process))?;
    fs::write(dir.join("cmdline"), format!("{}\0--test\0", process.exe))?;
    fs::write(dir.join("cgroup"), format!("0::{}\n", process.cgroup))?;
    let link = dir.join("exe");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    let exe = match process.exe.as_str() {
        "" => "/bin/fake",
        exe => exe,
    };
    std::os::unix::fs::symlink(exe, link)?;
    let (mut maps, mut smaps) = (String::new(), String::new());
    let page = match process.page {
        0 => crate::page_size(),
        page => page,
    };
    // Sparse: pages at high addresses take no room.
    let pagemap = File::create(dir.join("pagemap"))?;
    for region in &process.regions {
        let line = format!(
            "{:x}-{:x} {} {:08x} fe:00 {} {:>20}\n",
            region.start * page,
            region.end * page,
            region.perms,
            region.offset * page,
            region.inode,
            region.path
        );
        maps.push_str(&line);
        smaps.push_str(&line);
        let resident = region
            .entries
            .iter()
            .filter(|entry| **entry & raw::PRESENT != 0)
            .count();
        let swapped = region
            .entries
            .iter()
            .filter(|entry| **entry & raw::SWAP != 0)
            .count();
        smaps.push_str(&format!(
            "Rss: {} kB\nReferenced: {} kB\nSwap: {} kB\nAnonHugePages: {} kB\nVmFlags: rd\n",
            resident as u64 * page / 1024,
            region.referenced * page / 1024,
            swapped as u64 * page / 1024,
            region.huge_bytes / 1024
        ));
        let bytes: Vec<u8> = region
            .entries
            .iter()
            .flat_map(|entry| entry.to_ne_bytes())
            .collect();
        pagemap.write_all_at(&bytes, region.start * 8)?;
        // Holes behind the last entry read as zeros, as the kernel's do.
        let end = pagemap.metadata()?.len().max(region.end * 8);
        pagemap.set_len(end)?;
    }
    fs::write(dir.join("maps"), maps)?;
    fs::write(dir.join("smaps"), smaps)
}

/// Writes kpageflags and kpagecount: `frames[n]` is frame n's flags and count.
pub fn write_frames(root: &Path, frames: &[(u64, u64)]) -> io::Result<PathBuf> {
    let bytes = |pick: fn(&(u64, u64)) -> u64| -> Vec<u8> {
        frames
            .iter()
            .flat_map(|frame| pick(frame).to_ne_bytes())
            .collect()
    };
    fs::write(root.join("kpageflags"), bytes(|frame| frame.0))?;
    fs::write(root.join("kpagecount"), bytes(|frame| frame.1))?;
    Ok(root.to_path_buf())
}

fn stat(process: &FakeProcess) -> String {
    let mut fields: Vec<String> = vec!["0".into(); 49];
    fields[0] = process.ppid.to_string();
    fields[6] = process.faults[0].to_string();
    fields[7] = process.faults[1].to_string();
    // Start time.
    fields[18] = (100 + process.pid).to_string();
    format!(
        "{} ({}) S {}\n",
        process.pid,
        process.name,
        fields.join(" ")
    )
}

fn status(process: &FakeProcess) -> String {
    let uid = process.uid;
    format!(
        "Name:\t{}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\n\
         PPid:\t{}\nTracerPid:\t0\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t0\t0\t0\t0\n\
         FDSize:\t64\nGroups:\t0 \nVmSize:\t    8192 kB\nVmPTE:\t      44 kB\nThreads:\t1\n\
         SigQ:\t0/1\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\nCapInh:\t0\n\
         CapPrm:\t0\nCapEff:\t0\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n",
        process.name,
        process.ppid,
        pid = process.pid
    )
}
