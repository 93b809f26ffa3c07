// SPDX-License-Identifier: GPL-2.0-or-later
//! What frames hold: `/proc/kpageflags` and `/proc/kpagecount`, read where they matter.
//!
//! Pages that are mapped once need neither, so only those that the kernel called shared are looked
//! up, those that are near each other at once.

use super::memory::read_numbers;
use super::paths::Paths;
use crate::model::stats::TableStats;
use crate::model::store::{TableId, Tables};
use crate::model::word::{SHARED, Word};
use rayon::prelude::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Frames between two that are asked for which are read along: a system call costs as much.
const GAP: u64 = 16;
/// Most frames read at once.
const RUN: usize = 512;

// Bits of kpageflags (include/uapi/linux/kernel-page-flags.h).
const KPF_KSM: u64 = 1 << 21;
const KPF_ZERO_PAGE: u64 = 1 << 24;
const KPF_NOPAGE: u64 = 1 << 20;

const INFO_KSM: u32 = 1 << 31;
const INFO_ZERO: u32 = 1 << 30;
const INFO_NONE: u32 = 1 << 29;
const INFO_COUNT: u32 = (1 << 29) - 1;

/// The state of one frame, and how often it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Info(u32);

/// The content of the frames of a snapshot.
#[derive(Default)]
pub struct FrameMap {
    /// Sorted, each once.
    frames: Vec<u64>,
    infos: Vec<Info>,
    /// The place of the first frame that has at least this number, shifted by `shift`.
    starts: Vec<u32>,
    shift: u32,
}

impl FrameMap {
    /// Reads about all frames that `tables` map and that the kernel did not say are mapped once.
    ///
    /// `merged` says whether the kernel's word on merged pages can be believed, see
    /// [`says_merged`]. `Ok(None)` where the files may not be read.
    pub fn read(
        paths: &Paths,
        tables: &Tables,
        ids: &[TableId],
        merged: bool,
    ) -> io::Result<Option<FrameMap>> {
        let open = |name: &str| File::open(paths.proc().join(name));
        let (flags, counts) = match (open("kpageflags"), open("kpagecount")) {
            (Ok(flags), Ok(counts)) => (flags, counts),
            (Err(error), _) | (_, Err(error)) => {
                return match error.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let frames = frames_of(tables, ids);
        let mut infos = vec![Info(INFO_NONE); frames.len()];
        frames
            .par_chunks(64 * RUN)
            .zip(infos.par_chunks_mut(64 * RUN))
            .try_for_each(|(frames, infos)| read_infos(&flags, &counts, frames, merged, infos))?;
        Ok(Some(FrameMap::index(frames, infos)))
    }

    /// Makes some eight frames share a start, where they are spread evenly.
    fn index(frames: Vec<u64>, infos: Vec<Info>) -> FrameMap {
        let last = frames.last().copied().unwrap_or(0);
        let mut shift = 0;
        while last >> shift > frames.len() as u64 / 8 {
            shift += 1;
        }
        let mut starts = vec![0; (last >> shift) as usize + 2];
        for frame in &frames {
            starts[(frame >> shift) as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        FrameMap {
            frames,
            infos,
            starts,
            shift,
        }
    }

    fn get(&self, frame: u64) -> Info {
        let start = (frame >> self.shift) as usize;
        let (Some(&from), Some(&to)) = (self.starts.get(start), self.starts.get(start + 1)) else {
            return Info(INFO_NONE);
        };
        let (from, to) = (from as usize, to as usize);
        match self.frames[from..to].binary_search(&frame) {
            Ok(place) => self.infos[from + place],
            Err(_) => Info(INFO_NONE),
        }
    }
}

/// Whether kpageflags calls the page in `frame` merged. Asked about an anonymous page that is not:
/// Linux 6.12 says so of every one (stable_page_flags() in fs/proc/page.c tests for any of the two
/// bits of PAGE_MAPPING_KSM, and one of them is PAGE_MAPPING_ANON).
pub fn says_merged(paths: &Paths, frame: u64) -> bool {
    let mut bytes = [0; 8];
    File::open(paths.proc().join("kpageflags"))
        .and_then(|flags| flags.read_exact_at(&mut bytes, frame * 8))
        .is_ok_and(|()| u64::from_ne_bytes(bytes) & KPF_KSM != 0)
}

/// All frames that have to be asked about, sorted.
fn frames_of(tables: &Tables, ids: &[TableId]) -> Vec<u64> {
    let mut frames = ids
        .par_chunks(1024)
        .map(|ids| {
            let words = ids.iter().flat_map(|&id| tables.words(id));
            let mut frames: Vec<u64> = words
                .filter(|word| !word.swapped() && !word.exclusive())
                .map(|word| word.frame())
                .collect();
            frames.sort_unstable();
            frames.dedup();
            frames
        })
        .reduce(Vec::new, |mut all, mut some| {
            all.append(&mut some);
            all
        });
    frames.par_sort_unstable();
    frames.dedup();
    frames
}

/// Reads what `frames` (sorted) are, those that are near each other at once.
fn read_infos(
    flags: &File,
    counts: &File,
    frames: &[u64],
    merged: bool,
    infos: &mut [Info],
) -> io::Result<()> {
    let (mut flag, mut count) = ([0u8; RUN * 8], [0u8; RUN * 8]);
    let number = |bytes: &[u8], place: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[place * 8..place * 8 + 8]);
        u64::from_ne_bytes(eight)
    };
    let mut done = 0;
    while let Some(&first) = frames.get(done) {
        let mut end = done + 1;
        while end < frames.len()
            && frames[end] - frames[end - 1] <= GAP
            && frames[end] - first < RUN as u64
        {
            end += 1;
        }
        let bytes = (frames[end - 1] - first + 1) as usize * 8;
        let known = read_numbers(flags, &mut flag[..bytes], first * 8)?;
        let known = known.min(read_numbers(counts, &mut count[..bytes], first * 8)?);
        for (frame, info) in frames[done..end].iter().zip(&mut infos[done..end]) {
            let place = (frame - first) as usize;
            // Beyond the end of memory: a device's.
            if place * 8 + 8 > known {
                continue;
            }
            let flag = number(&flag, place) & if merged { u64::MAX } else { !KPF_KSM };
            info.0 = number(&count, place).min(u64::from(INFO_COUNT)) as u32;
            for (theirs, ours) in [
                (KPF_KSM, INFO_KSM),
                (KPF_ZERO_PAGE, INFO_ZERO),
                (KPF_NOPAGE, INFO_NONE),
            ] {
                if flag & theirs != 0 {
                    info.0 |= ours;
                }
            }
        }
        done = end;
    }
    Ok(())
}

/// Counts what a table holds. Without a map of frames, what only it can tell is counted as if
/// every page were normal and `proportional` as if pages not mapped once were nobody's.
pub fn stats(
    words: &[Word],
    slots: u64,
    frames: Option<&FrameMap>,
    zero: Option<u64>,
) -> TableStats {
    let mut stats = TableStats::default();
    for word in words {
        if word.swapped() {
            stats.swapped += 1;
            continue;
        }
        // Most pages of most tables, with nothing to look up or divide.
        if word.exclusive() && !word.huge() && !word.file() && word.perms() & SHARED == 0 {
            stats.private += 1;
            stats.resident += 1;
            stats.proportional += 1 << 12;
            continue;
        }
        let pages = if word.huge() { slots } else { 1 };
        let info = match frames {
            _ if word.exclusive() => Info(1),
            Some(frames) => frames.get(word.frame()),
            None if zero == Some(word.frame()) => Info(INFO_ZERO),
            None => Info(0),
        };
        let normal = word.exclusive() || frames.is_none() || info.0 & INFO_COUNT > 0;
        if word.huge() {
            stats.huge += 1;
        } else if info.0 & INFO_ZERO != 0 {
            stats.zero += 1;
        } else if info.0 & INFO_NONE != 0 || !normal {
            stats.special += 1;
        } else if word.perms() & SHARED != 0 {
            stats.shared += 1;
        } else if word.file() {
            stats.file += 1;
        } else if info.0 & INFO_KSM != 0 {
            stats.ksm += 1;
        } else if word.exclusive() {
            stats.private += 1;
        } else {
            stats.cow += 1;
        }
        if info.0 & (INFO_ZERO | INFO_NONE) == 0 && normal {
            stats.resident += pages as u16;
            stats.proportional += (pages << 12) / u64::from((info.0 & INFO_COUNT).max(1))
                * u64::from(info.0 & INFO_COUNT > 0);
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::store::Store;
    use crate::model::word::{READ, WRITE, raw};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_frame_is_found_and_no_other(
            near in prop::collection::btree_set(0u64..3000, 0..400),
            far in prop::collection::btree_set(0u64..1 << 43, 0..3),
            asked in prop::collection::vec(0u64..3100, 50),
        ) {
            let frames: Vec<u64> = near.union(&far).copied().collect();
            let info = |frame: u64| Info((frame % 1000) as u32);
            let infos = frames.iter().map(|frame| info(*frame)).collect();
            let map = FrameMap::index(frames.clone(), infos);
            for frame in frames.iter().chain(&asked) {
                let known = near.contains(frame) || far.contains(frame);
                prop_assert_eq!(map.get(*frame), if known { info(*frame) } else { Info(INFO_NONE) });
            }
        }
    }

    #[test]
    fn frames_tell_what_pages_are() {
        let dir = tempfile::tempdir().unwrap();
        let mut flags = vec![0u64; 600];
        let mut counts = vec![0u64; 600];
        (flags[2], counts[2]) = (KPF_KSM, 4);
        flags[3] = KPF_ZERO_PAGE;
        counts[599] = 2;
        for (name, values) in [("kpageflags", &flags), ("kpagecount", &counts)] {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let present = |slot, frame| Word::from_raw(slot, raw::PRESENT | frame, READ | WRITE);
        let words = [
            Word::from_raw(0, raw::PRESENT | raw::EXCLUSIVE | 1, READ | WRITE),
            present(1, 2),
            present(2, 3),
            present(3, 599),
            present(4, 1),       // mapped by nobody: a device's
            present(5, 1 << 40), // beyond memory
            Word::from_raw(6, raw::SWAP | 99, READ | WRITE),
            Word::from_raw(7, raw::PRESENT | raw::FILE | 599, READ),
            Word::from_raw(8, raw::PRESENT | raw::FILE | 599, READ | SHARED),
        ];
        let store = Store::default();
        let id = store.insert(0, &words);
        let tables = store.finish();
        let map = FrameMap::read(&Paths::new(dir.path()), &tables, &[id], true)
            .unwrap()
            .unwrap();
        let stats = stats(tables.words(id), 512, Some(&map), None);
        let expected = TableStats {
            private: 1,
            cow: 1,
            ksm: 1,
            file: 1,
            shared: 1,
            zero: 1,
            special: 2,
            swapped: 1,
            huge: 0,
            resident: 5,
            proportional: 4096 + 1024 + 3 * 2048,
        };
        assert_eq!(stats, expected);
        assert_eq!(stats.entries(), words.len() as u64);
    }
}
