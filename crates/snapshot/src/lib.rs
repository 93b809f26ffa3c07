// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads `/proc` into a model of who maps what, and counts what is duplicated in it.
//!
//! What this does not do: change anything on the machine (only watching which pages are used
//! clears their accessed bits), need a kernel of ours, or hold a lock while it reads. A snapshot
//! is therefore not of one instant; it says itself how consistent it is.
//!
//! Three rooms, each of which imports from those before it alone: [`model`], what a snapshot holds;
//! [`read`], which fills it from `/proc` and from captures; [`count`], which counts what is
//! duplicated in it.

/// Adds counts field by field.
macro_rules! add_fields {
    ($type:ty: $($field:ident),+ $(,)?) => {
        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

pub mod count;
pub mod fake;
pub mod model;
pub mod read;

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
