// SPDX-License-Identifier: GPL-2.0-or-later
//! Bulk reading of `/proc/PID/pagemap`, and its `PAGEMAP_SCAN` where the kernel has it (6.7).

use super::memory::read_as_far;
use super::paths::Paths;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Entries that one read asks for: large enough to make the system call's own cost vanish, small
/// enough to stay in a core's cache.
pub const CHUNK: usize = 8192;

/// In memory, in a `PAGEMAP_SCAN` (include/uapi/linux/fs.h).
pub const PAGE_IS_PRESENT: u64 = 1 << 3;
/// In swap.
pub const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// Mapped by a huge page's entry.
pub const PAGE_IS_HUGE: u64 = 1 << 6;

/// A run of pages of equal categories.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageRegion {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// `PAGE_IS_…`.
    pub categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

// _IOWR('f', 16, struct pm_scan_arg) with the generic encoding, which x86 and arm64 use.
const PAGEMAP_SCAN: libc::c_ulong = (3 << 30)
    | ((size_of::<PmScanArg>() as libc::c_ulong) << 16)
    | ((b'f' as libc::c_ulong) << 8)
    | 16;

/// An open pagemap.
pub struct Pagemap {
    file: File,
}

impl Pagemap {
    /// Opens that of a process. Fails like `open`: without the right to trace the process, or when
    /// it is gone.
    pub fn open(paths: &Paths, pid: i32) -> io::Result<Pagemap> {
        let file = File::open(paths.pid(pid).join("pagemap"))?;
        Ok(Pagemap { file })
    }

    /// Reads entries from that of page `page` on; fewer than asked for at the address space's end.
    ///
    /// A process that has exited has no entries any more: zero are returned.
    pub fn read(&self, page: u64, entries: &mut [u64]) -> io::Result<usize> {
        let length = size_of_val(entries);
        // SAFETY: the bytes are those of `entries`, any value of which is a valid u64.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(entries.as_mut_ptr().cast::<u8>(), length) };
        match read_as_far(&self.file, bytes, page * 8) {
            (_, Some(error)) => Err(error),
            (done, None) => Ok(done / 8),
        }
    }

    /// The runs of pages in `start..end` (bytes) of which any of `categories` holds, with those.
    ///
    /// `None` where the kernel has no `PAGEMAP_SCAN`.
    pub fn scan(
        &self,
        start: u64,
        end: u64,
        categories: u64,
    ) -> io::Result<Option<Vec<PageRegion>>> {
        let mut found = Vec::new();
        let mut buffer = [PageRegion::default(); 256];
        let mut from = start;
        while from < end {
            let mut arg = PmScanArg {
                size: size_of::<PmScanArg>() as u64,
                start: from,
                end,
                vec: buffer.as_mut_ptr() as u64,
                vec_len: buffer.len() as u64,
                category_anyof_mask: categories,
                return_mask: categories,
                ..PmScanArg::default()
            };
            // SAFETY: `arg` and the vector it points to are valid for the call, which writes at
            // most `vec_len` regions.
            let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as _, &mut arg) };
            if count < 0 {
                let error = io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    // Not known to this kernel, or not a pagemap but a plain file.
                    Some(libc::ENOTTY | libc::EINVAL) => Ok(None),
                    _ => Err(error),
                };
            }
            found.extend_from_slice(&buffer[..count as usize]);
            if arg.walk_end <= from {
                break;
            }
            from = arg.walk_end;
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::word::raw;

    #[test]
    fn a_page_of_ours_is_present() {
        let page = crate::page_size();
        let memory = vec![1u8; 4 * page as usize];
        let first = (memory.as_ptr() as u64).div_ceil(page);
        let pagemap = Pagemap::open(&Paths::default(), std::process::id() as i32).unwrap();
        let mut entries = [0; 2];
        assert_eq!(pagemap.read(first, &mut entries).unwrap(), 2);
        assert!(entries.iter().all(|entry| entry & raw::PRESENT != 0));
        if let Some(regions) = pagemap
            .scan(first * page, (first + 2) * page, PAGE_IS_PRESENT)
            .unwrap()
        {
            let pages: u64 = regions.iter().map(|run| (run.end - run.start) / page).sum();
            assert_eq!(pages, 2);
        }
    }

    #[test]
    fn a_plain_file_has_no_scan_and_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        std::fs::create_dir(paths.pid(1)).unwrap();
        std::fs::write(paths.pid(1).join("pagemap"), [0u8; 20]).unwrap();
        let pagemap = Pagemap::open(&paths, 1).unwrap();
        let mut entries = [7; 5];
        assert_eq!(pagemap.read(0, &mut entries).unwrap(), 2);
        assert!(pagemap.scan(0, 4096, PAGE_IS_PRESENT).unwrap().is_none());
    }
}
