// SPDX-License-Identifier: GPL-2.0-or-later
//! What the cohort kernel keeps in memory for BabelFish's hardware: processes, directories and
//! MaskPages. `include/uapi/linux/cohort_babelfish.h` of the kernel has the format.

use crate::event::{Member, SEGMENTS_MAX, Segment};
use crate::memory::GuestMemory;

/// The format's version.
pub const VERSION: u32 = 1;
/// The first word of a process: "CBFS".
pub const SPACE_MAGIC: u32 = 0x5346_4243;
/// The first word of a directory: "CBFG".
pub const GROUP_MAGIC: u32 = 0x4746_4243;
/// Places in a `pid_list`.
pub const PIDS: usize = 32;
/// Where the first segment is in a process, where the first MaskPage in a directory, and bytes of
/// each.
const SEGMENTS: u64 = 24;
const DIR: u64 = 24;
const SEGMENT_BYTES: u64 = 24;
const DIR_BYTES: u64 = 16;
/// MaskPages that a directory has room for: it is a page.
const DIR_MAX: u64 = (4096 - DIR) / DIR_BYTES;
/// Where the `pid_list` is in a MaskPage, and how many bitmasks are before it.
const PID_LIST: u64 = 2048;
const MASKS: u64 = 512;
/// What a bitmask is for, and what a MaskPage is for, as powers of two.
const RANGE: u32 = 21;
const GIGABYTE: u32 = 30;

/// The process at this address; `None` if there is none of this format.
pub fn member(memory: &dyn GuestMemory, paddr: u64) -> Option<Member> {
    let head = [memory.read_u32(paddr)?, memory.read_u32(paddr + 4)?];
    if head != [SPACE_MAGIC, VERSION] {
        return None;
    }
    let ids = memory.read_u32(paddr + 8)?;
    let count = (ids >> 16) as usize;
    let segment = |number: usize| {
        let at = paddr + SEGMENTS + number as u64 * SEGMENT_BYTES;
        Some(Segment {
            start: memory.read_u64(at)?,
            end: memory.read_u64(at + 8)?,
            offset: memory.read_u64(at + 16)?,
        })
    };
    if count > SEGMENTS_MAX {
        return None;
    }
    Some(Member {
        ccid: ids as u16,
        pid: memory.read_u32(paddr + 12)?,
        group: memory.read_u64(paddr + 16)?,
        segments: (0..count).map(segment).collect::<Option<_>>()?,
    })
}

/// The MaskPage for an address of the group, by the directory at `group`. Entries are only added to
/// a directory, and counted when they are complete.
pub fn mask_page(memory: &dyn GuestMemory, group: u64, vaddr: u64) -> Option<u64> {
    if memory.read_u32(group)? != GROUP_MAGIC || memory.read_u32(group + 4)? != VERSION {
        return None;
    }
    let count = u64::from(memory.read_u32(group + 12)?).min(DIR_MAX);
    let mut entries = (0..count).map(|number| group + DIR + number * DIR_BYTES);
    let base = vaddr >> GIGABYTE << GIGABYTE;
    let found = entries.find(|&at| memory.read_u64(at) == Some(base))?;
    memory.read_u64(found + 8)
}

/// The bytes of a directory that [`mask_page`] may read.
pub fn directory(memory: &dyn GuestMemory, group: u64) -> std::ops::Range<u64> {
    let count = memory.read_u32(group + 12).map_or(0, u64::from);
    group..group + DIR + count.min(DIR_MAX) * DIR_BYTES
}

/// Where the bitmask for an address of the group is in its MaskPage.
pub fn mask_at(page: u64, vaddr: u64) -> u64 {
    page + (vaddr >> RANGE) % MASKS * 4
}

/// The bytes of a MaskPage's `pid_list`.
pub fn pid_list(page: u64) -> std::ops::Range<u64> {
    page + PID_LIST..page + PID_LIST + PIDS as u64 * 4
}

/// A process's place in a MaskPage: the number of its bit in all bitmasks.
pub fn place(memory: &dyn GuestMemory, page: u64, pid: u32) -> Option<u32> {
    let mut list = pid_list(page).step_by(4);
    let place = list.position(|at| pid != 0 && memory.read_u32(at) == Some(pid))?;
    Some(place as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SparseMemory;

    #[test]
    fn a_process_is_read_field_by_field() {
        let mut memory = SparseMemory::new();
        let at = 0x1f00;
        let words = [
            u64::from(VERSION) << 32 | u64::from(SPACE_MAGIC),
            77 << 32 | 2 << 16 | 9,
            0x5000,
            0x1000,
            0x3000,
            0x10_0000,
            0x8000,
            0x9000,
            0,
        ];
        for (number, &word) in words.iter().enumerate() {
            memory.write_u64(at + number as u64 * 8, word);
        }
        let found = member(&memory, at).unwrap();
        assert_eq!((found.ccid, found.pid, found.group), (9, 77, 0x5000));
        assert_eq!(found.segments.len(), 2);
        assert_eq!(found.group_address(0x2fff), 0x10_2fff);
        assert_eq!(found.group_address(0x3000), 0x3000);
        // What is not a process, or has another format, is none.
        assert_eq!(member(&memory, at + 8), None);
        memory.write_u32(at + 4, VERSION + 1);
        assert_eq!(member(&memory, at), None);
    }

    #[test]
    fn a_mask_is_found_by_the_gigabyte_and_a_bit_by_the_list() {
        let mut memory = SparseMemory::new();
        let group = 0x7000;
        memory.write_u32(group, GROUP_MAGIC);
        memory.write_u32(group + 4, VERSION);
        for (number, base) in [3u64 << 30, 5 << 30].into_iter().enumerate() {
            let at = group + 24 + number as u64 * 16;
            memory.write_u64(at, base);
            memory.write_u64(at + 8, 0x8000 + number as u64 * 0x1000);
        }
        memory.write_u32(group + 12, 1);
        let vaddr = (5 << 30) + (2 << 21) + 4;
        assert_eq!(mask_page(&memory, group, vaddr), None, "not counted yet");
        memory.write_u32(group + 12, 2);
        assert_eq!(mask_page(&memory, group, vaddr), Some(0x9000));
        assert_eq!(mask_page(&memory, group, vaddr >> 1), None);
        assert_eq!(mask_page(&memory, 0, vaddr), None);
        assert_eq!(mask_at(0x9000, vaddr), 0x9008);
        assert_eq!(directory(&memory, group), group..group + 56);
        memory.write_u32(0x9000 + 2048 + 12, 44);
        assert_eq!(place(&memory, 0x9000, 44), Some(3));
        assert_eq!(place(&memory, 0x9000, 45), None);
        assert_eq!(place(&memory, 0x9000, 0), None, "a free place is nobody's");
    }
}
