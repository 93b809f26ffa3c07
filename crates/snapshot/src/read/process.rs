// SPDX-License-Identifier: GPL-2.0-or-later
//! Who a process is: what `/proc/PID/{stat,status,cgroup,cmdline,exe}` say.

use super::mapping::{Mapping, mappings};
use super::paths::Paths;
use crate::model::process::{Identity, Reason};
use procfs::process::{Stat, Status};
use procfs::{FromBufRead, FromRead, ProcError, ProcResult, ProcessCGroups};
use std::fs::File;
use std::io::{self, Read};
use std::panic::AssertUnwindSafe;

/// Bytes of a file of a process that are read at once; most are smaller, and the kernel gives no
/// more than a page of the long ones.
const PIECE: usize = 16 << 10;
/// A kernel thread, in the flags of stat (PF_KTHREAD in include/linux/sched.h).
const KERNEL_THREAD: u32 = 0x0020_0000;

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Reason::Vanished,
            Some(libc::EACCES | libc::EPERM) => Reason::Refused,
            _ => Reason::Unreadable(error.to_string()),
        }
    }
}

impl From<ProcError> for Reason {
    fn from(error: ProcError) -> Self {
        match error {
            ProcError::NotFound(_) => Reason::Vanished,
            ProcError::PermissionDenied(_) => Reason::Refused,
            ProcError::Io(error, _) => error.into(),
            other => Reason::Unreadable(other.to_string()),
        }
    }
}

/// Numbers of all processes, in order.
pub fn list(paths: &Paths) -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir(paths.proc())? {
        if let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Reads who `pid` is; `None` for a kernel thread, which has no memory of its own.
pub fn identity(paths: &Paths, pid: i32) -> Result<Option<Identity>, Reason> {
    let stat = stat(paths, pid)?;
    if stat.flags & KERNEL_THREAD != 0 {
        return Ok(None);
    }
    let status = read(paths, pid, "status")?;
    let text = String::from_utf8_lossy(&status);
    let status = parse("status", || Status::from_buf_read(text.as_bytes()))?;
    // A thread has a directory, too, that is not in the list of processes.
    if status.tgid != pid {
        return Err(Reason::Vanished);
    }
    // A zombie has no VmSize.
    if status.vmsize.is_none() {
        return match stat.state {
            'Z' | 'X' => Err(Reason::Ended),
            _ => Ok(None),
        };
    }
    let dir = paths.pid(pid);
    let exe = std::fs::read_link(dir.join("exe"))
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default();
    let command = read(paths, pid, "cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let cgroup = read(paths, pid, "cgroup")
        .ok()
        .and_then(|bytes| parse("cgroup", || ProcessCGroups::from_buf_read(bytes.as_slice())).ok())
        .map(cgroup_of)
        .unwrap_or_default();
    Ok(Some(Identity {
        pid,
        ppid: stat.ppid,
        start_time: stat.starttime,
        uid: status.euid,
        name: stat.comm,
        exe,
        command: command.trim_end().to_string(),
        cgroup,
        table_bytes: (status.vmpte.unwrap_or(0) + vm_pmd(&text)) * 1024,
        locked_bytes: status.vmlck.unwrap_or(0) * 1024,
        faults: stat.minflt,
    }))
}

/// Tables above the last level, in KB: until Linux 4.15, VmPTE did not count them.
fn vm_pmd(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmPMD:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// Parses `/proc/PID/stat`.
pub fn stat(paths: &Paths, pid: i32) -> Result<Stat, Reason> {
    let bytes = read(paths, pid, "stat")?;
    parse("stat", || Stat::from_read(bytes.as_slice()))
}

/// Page faults that needed no reading from a disk, of a process and of its children that it waited
/// for.
pub fn faults(paths: &Paths, pid: i32) -> Result<u64, Reason> {
    stat(paths, pid).map(|stat| stat.minflt + stat.cminflt)
}

/// Bytes of memory of the machine.
pub fn memory(paths: &Paths) -> Option<u64> {
    meminfo(paths, "MemTotal:")
}

/// Bytes of memory that a program could have.
pub fn available(paths: &Paths) -> Option<u64> {
    meminfo(paths, "MemAvailable:")
}

fn meminfo(paths: &Paths, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(paths.proc().join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The bytes of `/proc/PID/maps`.
pub fn maps(paths: &Paths, pid: i32) -> Result<Vec<u8>, Reason> {
    read(paths, pid, "maps")
}

/// Parses `/proc/PID/smaps`.
pub fn smaps(paths: &Paths, pid: i32) -> Result<Vec<Mapping>, Reason> {
    mappings(&read(paths, pid, "smaps")?)
}

/// Runs a parser. Those of `procfs` trust the kernel's format and may panic where a file is
/// otherwise, which must cost no more than that process.
fn parse<T>(file: &str, parser: impl FnOnce() -> ProcResult<T>) -> Result<T, Reason> {
    match std::panic::catch_unwind(AssertUnwindSafe(parser)) {
        Ok(parsed) => Ok(parsed?),
        Err(_) => Err(Reason::Unreadable(format!(
            "{file} is not as the kernel writes it"
        ))),
    }
}

/// A value of `/proc/PID/smaps_rollup` in bytes, such as `Pss`.
pub fn rollup(paths: &Paths, pid: i32) -> Result<std::collections::HashMap<String, u64>, Reason> {
    let maps = mappings(&read(paths, pid, "smaps_rollup")?)?;
    Ok(maps
        .into_iter()
        .next()
        .map(|map| map.values)
        .unwrap_or_default())
}

/// Reads a file of a process. The kernel gives no size for these, so that `std::fs::read` would
/// ask for it in vain and begin with small pieces: five times the system calls.
pub(super) fn read(paths: &Paths, pid: i32, file: &str) -> Result<Vec<u8>, Reason> {
    let mut file = File::open(paths.pid(pid).join(file))?;
    let (mut bytes, mut piece) = (Vec::new(), [0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn cgroup_of(groups: ProcessCGroups) -> String {
    let unified = groups
        .0
        .iter()
        .find(|group| group.hierarchy == 0 && group.pathname != "/");
    let deepest = groups.0.iter().max_by_key(|group| group.pathname.len());
    unified
        .or(deepest)
        .map(|group| group.pathname.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_who_we_are() {
        let paths = Paths::default();
        let pid = std::process::id() as i32;
        let me = identity(&paths, pid).unwrap().unwrap();
        assert_eq!(me.pid, pid);
        assert_eq!(me.exe, std::env::current_exe().unwrap().to_string_lossy());
        assert!(me.table_bytes > 0);
        assert!(list(&paths).unwrap().contains(&pid));
    }

    #[test]
    fn a_kernel_thread_is_known_from_its_stat() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        std::fs::create_dir(paths.pid(2)).unwrap();
        let zeros = "0 ".repeat(43);
        for (flags, found) in [("2129984", Ok(None)), ("4194304", Err(Reason::Vanished))] {
            let stat = format!("2 (kthreadd) S 0 0 0 0 -1 {flags} {zeros}\n");
            std::fs::write(paths.pid(2).join("stat"), stat).unwrap();
            // There is no status to look at.
            assert_eq!(identity(&paths, 2), found);
        }
    }

    #[test]
    fn a_thread_is_no_process() {
        let paths = Paths::default();
        let pid = std::process::id() as i32;
        // SAFETY: no memory is involved.
        let thread = || unsafe { libc::gettid() };
        let thread = std::thread::spawn(move || (thread(), identity(&Paths::default(), thread())));
        let (number, found) = thread.join().unwrap();
        assert_ne!(number, pid);
        assert_eq!(found, Err(Reason::Vanished));
        assert!(identity(&paths, pid).unwrap().is_some());
    }

    #[test]
    fn long_files_are_read_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        std::fs::create_dir(paths.pid(5)).unwrap();
        let bytes: Vec<u8> = (0..3 * PIECE + 7).map(|place| place as u8).collect();
        std::fs::write(paths.pid(5).join("maps"), &bytes).unwrap();
        assert_eq!(maps(&paths, 5), Ok(bytes));
    }

    #[test]
    fn a_process_that_is_gone_has_vanished() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(identity(&Paths::new(dir.path()), 5), Err(Reason::Vanished));
    }
}
