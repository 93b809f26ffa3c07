// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages of our own to try things on, and reads of files that end where they like.

use super::paths::page_size;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Private anonymous memory, gone when it is dropped.
pub(crate) struct OwnPages {
    /// Where it begins.
    pub start: *mut u8,
    /// In bytes.
    pub length: usize,
}

impl OwnPages {
    /// Maps `pages` pages; `None` if there is no memory.
    pub fn map(pages: usize) -> Option<OwnPages> {
        let length = pages * page_size() as usize;
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (memory != libc::MAP_FAILED).then(|| OwnPages {
            start: memory.cast(),
            length,
        })
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        // SAFETY: the mapping from above, used by nobody any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Reads as far as it goes: how many bytes, and the error that ended it, if one did.
pub(crate) fn read_as_far(file: &File, bytes: &mut [u8], at: u64) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

/// Reads an array of eight-byte numbers up to its end: returns the bytes read, a multiple of 8.
///
/// `kpageflags` and its like end in EINVAL behind the last frame of memory.
pub(crate) fn read_numbers(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    match read_as_far(file, bytes, at) {
        (_, Some(error)) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        (done, _) => Ok(done / 8 * 8),
    }
}
