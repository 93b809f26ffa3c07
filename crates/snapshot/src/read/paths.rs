// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the kernel's files are, and the size of its pages.

use std::path::{Path, PathBuf};

/// Where the kernel's files are: another place in tests.
#[derive(Debug, Clone)]
pub struct Paths {
    proc: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Paths::new("/proc")
    }
}

impl Paths {
    /// A tree that looks like `/proc`.
    pub fn new(proc: impl AsRef<Path>) -> Paths {
        Paths {
            proc: proc.as_ref().to_path_buf(),
        }
    }

    /// The tree.
    pub fn proc(&self) -> &Path {
        &self.proc
    }

    /// A process's directory.
    pub fn pid(&self, pid: i32) -> PathBuf {
        self.proc.join(pid.to_string())
    }

    /// Which frames are idle; in another place beside what is in /proc.
    pub fn page_idle(&self) -> PathBuf {
        match self.is_real() {
            true => PathBuf::from("/sys/kernel/mm/page_idle/bitmap"),
            false => self.proc.join("page_idle"),
        }
    }

    /// The running kernel's own.
    pub fn is_real(&self) -> bool {
        self.proc == Path::new("/proc")
    }
}

/// Bytes in a page of this machine.
pub fn page_size() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}
