// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's memory, as QEMU itself has mapped it.
//!
//! The guest's memory is a file (`memory-backend-file,share=on`) that QEMU maps into its own process,
//! in which the plugin runs; `/proc/self/maps` has the address. So the plugin reads page tables by
//! physical address at the speed of memory, and turns QEMU's host address of an instruction into a
//! physical one.

use anyhow::{Context, Result, bail};
use translation::GuestMemory;

/// The mapping of the guest's memory.
#[derive(Debug, Clone, Copy)]
pub struct Ram {
    host: usize,
    len: u64,
    layout: Layout,
}

/// Where the machine has its memory: the first part at `base`, what does not fit at `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Physical address of the first byte.
    pub base: u64,
    /// Bytes in the first part.
    pub low: u64,
    /// Physical address of the rest.
    pub high: u64,
}

impl Layout {
    /// The layout of a machine whose first byte is there, if that is given: boards with one kind of
    /// processor differ in this.
    pub fn at(self, base: Option<u64>) -> Self {
        Layout {
            base: base.unwrap_or(self.base),
            ..self
        }
    }

    /// The physical address of the byte at `offset` in the file.
    pub fn physical(&self, offset: u64) -> u64 {
        if offset < self.low {
            self.base + offset
        } else {
            self.high + (offset - self.low)
        }
    }

    /// The offset in the file of a physical address; None where there is no memory.
    pub fn offset(&self, physical: u64, len: u64) -> Option<u64> {
        let offset = if physical >= self.base && physical - self.base < self.low.min(len) {
            physical - self.base
        } else if self.high > 0 && physical >= self.high {
            self.low.checked_add(physical - self.high)?
        } else {
            return None;
        };
        (offset < len).then_some(offset)
    }
}

impl Ram {
    /// Finds the mapping of `file` in this process. If it is a directory, finds that of the file
    /// that QEMU made in it.
    pub fn find(file: &str, layout: Layout) -> Result<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").context("cannot read QEMU's maps")?;
        let Some((host, len)) = mapping(&maps, file) else {
            bail!(
                "QEMU has not mapped {file}: its memory must be \
                 -object memory-backend-file,id=ram,mem-path={file},size=SIZE,share=on with \
                 -machine memory-backend=ram"
            );
        };
        Ok(Ram { host, len, layout })
    }

    /// A test's memory. `words` must outlive the result.
    #[cfg(test)]
    pub fn over(words: &[u64], layout: Layout) -> Self {
        Ram {
            host: words.as_ptr() as usize,
            len: size_of_val(words) as u64,
            layout,
        }
    }

    /// The physical address of a host address; None outside the guest's memory.
    pub fn physical(&self, host: usize) -> Option<u64> {
        let offset = host.checked_sub(self.host)? as u64;
        (offset < self.len).then(|| self.layout.physical(offset))
    }

    /// Reads eight bytes at a multiple of eight; None where there is no memory.
    #[inline]
    pub fn read_u64(&self, physical: u64) -> Option<u64> {
        let offset = self.layout.offset(physical & !7, self.len)?;
        // SAFETY: the offset is aligned and within the mapping, whose length is a multiple of a
        // page. The mapping lives as long as QEMU. Volatile, because the guest writes it too.
        Some(unsafe { std::ptr::read_volatile((self.host + offset as usize) as *const u64) })
    }

    /// Reads four bytes at a multiple of four; None where there is no memory.
    #[inline]
    pub fn read_u32(&self, physical: u64) -> Option<u32> {
        let both = self.read_u64(physical)?;
        Some((both >> (8 * (physical & 4))) as u32)
    }

    /// Copies from virtual addresses, which `physical` translates; false where there is no memory.
    pub fn copy(&self, to: &mut [u8], vaddr: u64, physical: impl Fn(u64) -> Option<u64>) -> bool {
        to.iter_mut().zip(vaddr..).all(|(byte, at)| {
            let word = physical(at).and_then(|at| Some((at, self.read_u32(at & !3)?)));
            word.map(|(at, word)| *byte = word.to_le_bytes()[at as usize & 3])
                .is_some()
        })
    }
}

impl GuestMemory for Ram {
    #[inline]
    fn read_u32(&self, paddr: u64) -> Option<u32> {
        Ram::read_u32(self, paddr)
    }
    #[inline]
    fn read_u64(&self, paddr: u64) -> Option<u64> {
        Ram::read_u64(self, paddr)
    }
}

/// Start and length of the longest mapping of `file` in the text of `/proc/PID/maps`.
fn mapping(maps: &str, file: &str) -> Option<(usize, u64)> {
    maps.lines()
        .filter_map(|line| {
            // The path follows five fields and may contain spaces.
            let mut rest = line;
            let mut fields = [""; 5];
            for field in &mut fields {
                (*field, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                rest = rest.trim_start();
            }
            let path = rest.strip_suffix(" (deleted)").unwrap_or(rest);
            let made = path
                .strip_prefix(file)
                .is_some_and(|rest| rest.starts_with("/qemu_back_mem."));
            if (path != file && !made) || !fields[2].trim_start_matches('0').is_empty() {
                return None;
            }
            let (from, to) = fields[0].split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            Some((from, (to - from) as u64))
        })
        .max_by_key(|mapping| mapping.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 GB from 0, the rest from 4 GB.
    const SPLIT: Layout = Layout {
        base: 0,
        low: 0xc000_0000,
        high: 1 << 32,
    };
    /// All of it from 1 GB.
    const WHOLE: Layout = Layout {
        base: 1 << 30,
        low: u64::MAX,
        high: 0,
    };

    #[test]
    fn a_mapping_is_found_with_spaces_in_its_path_and_after_deletion() {
        let maps = "7f0000000000-7f0000001000 rw-s 00000000 00:01 5   /dev/shm/other\n\
                    7f0000100000-7f0000300000 rw-s 00000000 00:01 7                /tmp/a b/ram (deleted)\n\
                    7f0000300000-7f0000301000 rw-s 00200000 00:01 7                /tmp/a b/ram (deleted)\n";
        assert_eq!(
            mapping(maps, "/tmp/a b/ram"),
            Some((0x7f00_0010_0000, 0x20_0000))
        );
        assert_eq!(mapping(maps, "/tmp/a b"), None);
        let made =
            "7f0000000000-7f0000002000 rw-s 00000000 00:01 5 /dev/shm/qemu_back_mem.ram.x1\n";
        assert_eq!(mapping(made, "/dev/shm"), Some((0x7f00_0000_0000, 0x2000)));
    }

    #[test]
    fn memory_above_3_gb_is_above_4_gb() {
        let len = 5 << 30;
        for (offset, physical) in [
            (0, 0),
            (0xbfff_ffff, 0xbfff_ffff),
            (0xc000_0000, 1 << 32),
            (len - 1, (1 << 32) + len - 1 - 0xc000_0000),
        ] {
            assert_eq!(SPLIT.physical(offset), physical);
            assert_eq!(SPLIT.offset(physical, len), Some(offset));
        }
        assert_eq!(SPLIT.offset(0xc000_0000, len), None);
        assert_eq!(SPLIT.offset(0xfee0_0000, len), None);
        assert_eq!(SPLIT.offset((1 << 32) + (2 << 30), len), None);
        // A small machine has no second part.
        assert_eq!(SPLIT.offset(1 << 32, 1 << 30), None);
        assert_eq!(WHOLE.offset(1 << 30, 1 << 30), Some(0));
        assert_eq!(WHOLE.offset(0, 1 << 30), None);
    }

    #[test]
    fn a_board_may_have_its_memory_elsewhere() {
        // GIVEN QEMU's vexpress-a9, whose memory begins at 0x6000_0000 (hw/arm/vexpress.c)
        let words: Vec<u64> = vec![0x11, 0x22];
        let ram = Ram::over(&words, WHOLE.at(Some(0x6000_0000)));
        // THEN its first word is there, and there is nothing where `virt` has its own.
        assert_eq!(ram.read_u64(0x6000_0008), Some(0x22));
        assert_eq!(ram.read_u64(0x4000_0008), None);
        assert_eq!(ram.physical(words.as_ptr() as usize + 8), Some(0x6000_0008));
        assert_eq!(WHOLE.at(None), WHOLE);
    }

    #[test]
    fn bytes_are_copied_through_a_translation() {
        let ram = Ram::over(&[0x0807_0605_0403_0201, 0x1817_1615_1413_1211], WHOLE);
        let mut bytes = [0; 4];
        let swapped = |at: u64| (at < 0x1010).then_some(1 << 30 | at & 15 ^ 8);
        assert!(ram.copy(&mut bytes, 0x1006, swapped));
        assert_eq!(bytes, [0x17, 0x18, 0x01, 0x02]);
        assert!(!ram.copy(&mut bytes, 0x100e, swapped));
    }

    #[test]
    fn words_are_read_where_they_are() {
        let words: Vec<u64> = vec![0x1111_2222_3333_4444, 0x5555_6666_7777_8888];
        let ram = Ram::over(&words, SPLIT);
        assert_eq!(ram.read_u64(8), Some(words[1]));
        assert_eq!(ram.read_u32(4), Some(0x1111_2222));
        assert_eq!(ram.read_u32(8), Some(0x7777_8888));
        assert_eq!(ram.read_u64(16), None);
        assert_eq!(ram.physical(words.as_ptr() as usize + 12), Some(12));
        assert_eq!(ram.physical(words.as_ptr() as usize + 16), None);
    }
}
