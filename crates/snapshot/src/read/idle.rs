// SPDX-License-Identifier: GPL-2.0-or-later
//! Which frames are used in an interval, one by one: `/sys/kernel/mm/page_idle/bitmap`
//! (CONFIG_IDLE_PAGE_TRACKING).
//!
//! A frame that was called idle and still is when the interval ends was used by nobody. The kernel
//! keeps one bit for a folio, with its first page; it takes no bit for pages that are on no list of
//! reclaim, such as the zero page, those of hugetlb and some of the last few that a processor
//! has mapped. Of these nothing is known: they are neither idle nor used.

use super::memory::{OwnPages, read_numbers};
use super::paths::Paths;
use crate::model::activity::{Activity, CHUNK, FrameSet};
use crate::model::region::Region;
use crate::model::store::{TableId, Tables};
use crate::model::{CodeRun, Placed, Process};
use rayon::prelude::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

// Bits of kpageflags (include/uapi/linux/kernel-page-flags.h).
const KPF_COMPOUND_HEAD: u64 = 1 << 15;
const KPF_COMPOUND_TAIL: u64 = 1 << 16;
const KPF_IDLE: u64 = 1 << 25;
/// The largest folio is one of 16 GB, of pages of 4 KB.
const LARGEST: u32 = 22;
/// Most numbers that are read or written at once.
const RUN: u64 = 512;

/// FrameSet that are watched.
pub struct Watch {
    bitmap: File,
    flags: File,
    /// Small pages, and first pages of folios.
    heads: FrameSet,
    /// Other pages of folios: first frame, behind the last one, and the first of the folio.
    tails: Vec<(u64, u64, u64)>,
}

impl Watch {
    /// Calls all frames that `tables` map idle. `Ok(None)` where the kernel cannot tell, or does
    /// not let us.
    pub fn begin(paths: &Paths, tables: &Tables, ids: &[TableId]) -> io::Result<Option<Watch>> {
        let open = |path: std::path::PathBuf, write: bool| {
            File::options().read(true).write(write).open(path)
        };
        let files = (
            open(paths.page_idle(), true),
            open(paths.proc().join("kpageflags"), false),
        );
        let (bitmap, flags) = match files {
            (Ok(bitmap), Ok(flags)) => (bitmap, flags),
            (Err(error), _) | (_, Err(error)) => {
                return match error.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => Ok(None),
                    _ => Err(error),
                };
            }
        };
        if paths.is_real() {
            drain();
        }
        let words = ids.iter().flat_map(|&id| tables.words(id));
        let mapped = FrameSet::new(
            words
                .filter(|word| !word.swapped() && word.frame() != 0)
                .map(|word| word.frame()),
        );
        let mut watch = Watch {
            bitmap,
            flags,
            heads: FrameSet::default(),
            tails: Vec::new(),
        };
        watch.heads = watch.find_heads(&mapped)?;
        watch.mark()?;
        watch.heads = watch.those(&watch.heads, KPF_IDLE)?;
        Ok(Some(watch))
    }

    /// The changes of the frames since then.
    pub fn end(self) -> io::Result<Activity> {
        let mut bytes = vec![0; (RUN * 8) as usize];
        let (mut idle, mut used) = (Vec::new(), Vec::new());
        for run in self.heads.runs(RUN) {
            let bytes = &mut bytes[..run.len() * 8];
            let known = read_numbers(&self.bitmap, bytes, run[0].0 * 8)? / 8;
            for (&(chunk, bits), bytes) in run.iter().zip(bytes.chunks_exact(8)).take(known) {
                let now = number(bytes);
                idle.push((chunk, bits & now));
                used.push((chunk, bits & !now));
            }
        }
        let (mut idle, mut used) = (FrameSet { chunks: idle }, FrameSet { chunks: used });
        if !self.tails.is_empty() {
            // A folio that was split says no more of what were its pages.
            let each = self.tails.iter();
            let quiet = each.filter(|(_, _, head)| idle.contains(*head));
            let quiet = FrameSet::new(quiet.flat_map(|&(start, end, _)| start..end));
            let quiet = self.those(&quiet, KPF_COMPOUND_TAIL)?;
            let whole = FrameSet::new(self.tails.iter().map(|(_, _, head)| *head));
            idle = FrameSet::new(idle.iter().chain(quiet.iter()));
            // Used is one page of a folio, and which is not known.
            used = FrameSet::new(used.iter().filter(|frame| !whole.contains(*frame)));
        }
        idle.chunks.retain(|chunk| chunk.1 != 0);
        used.chunks.retain(|chunk| chunk.1 != 0);
        Ok(Activity { idle, used })
    }

    /// Those of `frames` that have a flag.
    fn those(&self, frames: &FrameSet, flag: u64) -> io::Result<FrameSet> {
        let mut found = FrameSet::default();
        self.flags_of(frames, |frame, flags| {
            if flags & flag != 0 {
                match found.chunks.last_mut() {
                    Some(last) if last.0 == frame / CHUNK => last.1 |= 1 << (frame % CHUNK),
                    _ => found.chunks.push((frame / CHUNK, 1 << (frame % CHUNK))),
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `visit` with each of `frames`, in order, and its flags.
    fn flags_of(
        &self,
        frames: &FrameSet,
        mut visit: impl FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; (CHUNK * 8 * 8) as usize];
        for run in frames.runs(RUN).flat_map(|run| run.chunks(8)) {
            let first = run[0].0 * CHUNK;
            let bytes = &mut bytes[..run.len() * CHUNK as usize * 8];
            let known = read_numbers(&self.flags, bytes, first * 8)? / 8;
            for &(chunk, bits) in run {
                for bit in (0..CHUNK).filter(|bit| bits >> bit & 1 == 1) {
                    let place = (chunk * CHUNK + bit - first) as usize;
                    if place < known {
                        visit(chunk * CHUNK + bit, number(&bytes[place * 8..]))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// FrameSet of which there is a bit: the first of each folio that `mapped` has pages of. Notes
    /// the others.
    fn find_heads(&mut self, mapped: &FrameSet) -> io::Result<FrameSet> {
        let (mut heads, mut tails) = (Vec::new(), Vec::<(u64, u64, u64)>::new());
        let mut head_before = None;
        self.flags_of(mapped, |frame, flags| {
            if flags & KPF_COMPOUND_TAIL == 0 {
                heads.push(frame);
                head_before = Some(frame).filter(|_| flags & KPF_COMPOUND_HEAD != 0);
                return Ok(());
            }
            match tails.last_mut() {
                Some(last) if last.1 == frame && head_before.is_none() => last.1 += 1,
                _ => {
                    let head = match head_before.take() {
                        Some(head) if head + 1 == frame => Some(head),
                        _ => self.head_of(frame)?,
                    };
                    let Some(head) = head else { return Ok(()) };
                    heads.push(head);
                    tails.push((frame, frame + 1, head));
                }
            }
            Ok(())
        })?;
        self.tails = tails;
        Ok(FrameSet::new(heads))
    }

    /// The first frame of the folio that `frame` is a later one of: folios begin at multiples of
    /// their size, and all between is of the same folio.
    fn head_of(&self, frame: u64) -> io::Result<Option<u64>> {
        let mut before = frame;
        for order in 1..=LARGEST {
            let first = frame >> order << order;
            if first == before {
                continue;
            }
            before = first;
            let mut bytes = [0; 8];
            if read_numbers(&self.flags, &mut bytes, first * 8)? < 8 {
                return Ok(None);
            }
            let flags = number(&bytes);
            if flags & KPF_COMPOUND_TAIL == 0 {
                return Ok((flags & KPF_COMPOUND_HEAD != 0).then_some(first));
            }
        }
        Ok(None)
    }

    /// Calls `heads` idle.
    fn mark(&self) -> io::Result<()> {
        for run in self.heads.runs(RUN) {
            let bytes: Vec<u8> = run.iter().flat_map(|chunk| chunk.1.to_ne_bytes()).collect();
            let mut done = 0;
            while done < bytes.len() {
                // A file of sysfs takes a page at once.
                match self
                    .bitmap
                    .write_at(&bytes[done..], run[0].0 * 8 + done as u64)
                {
                    Ok(0) => break,
                    Ok(count) => done += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // Beyond the end of memory: a device's.
                    Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_ne_bytes(eight)
}

/// Lets every processor put the pages that it has mapped last onto the lists of reclaim, as it does
/// itself after some more: until then there is no bit for them. Advising on a page of our own is
/// what makes a processor do so; where that is not possible, nothing is known of these pages.
fn drain() {
    let threads = std::thread::spawn(|| {
        let Some(page) = OwnPages::map(1) else {
            return;
        };
        // SAFETY: all zeros is an empty set; the calls concern this thread and the page from above.
        unsafe {
            for processor in 0..libc::CPU_SETSIZE as usize {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(processor, &mut one);
                if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one) != 0 {
                    continue;
                }
                page.start.write_volatile(1);
                libc::madvise(page.start.cast(), page.length, libc::MADV_DONTNEED);
                // What newer kernels do it for.
                libc::madvise(page.start.cast(), page.length, libc::MADV_COLD);
            }
        }
    });
    // It has an affinity of its own, and ends with it.
    let _ = threads.join();
}

/// Clears the bits of code pages that were idle in the interval.
pub fn forget_idle_code(
    processes: &mut [Process],
    tables: &Tables,
    slots: u64,
    activity: &Activity,
) {
    processes.par_iter_mut().for_each(|process| {
        for run in &mut process.code {
            if let Some(region) = process.regions.get(run.region as usize) {
                forget_idle_run(run, region, &process.tables, tables, slots, activity);
            }
        }
    });
}

fn forget_idle_run(
    run: &mut CodeRun,
    region: &Region,
    placed: &[Placed],
    tables: &Tables,
    slots: u64,
    activity: &Activity,
) {
    let first =
        placed.partition_point(|table| (tables.index(table.id) + 1) * slots <= region.start);
    for table in &placed[first..] {
        let base = tables.index(table.id) * slots;
        if base >= region.end {
            break;
        }
        for word in tables.words(table.id) {
            if word.swapped() || !activity.idle.contains(word.frame()) {
                continue;
            }
            // A huge page's entry stands for all pages of its table.
            let pages = if word.huge() { slots } else { 1 };
            let page = base + word.slot() as u64;
            for page in page.max(region.start)..(page + pages).min(region.end) {
                let place = (page + region.offset).checked_sub(region.start + run.offset);
                let Some(place) = place else { continue };
                if let Some(bits) = run.bits.get_mut(place as usize / 64) {
                    *bits &= !(1 << (place % 64));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::store::Store;
    use crate::model::word::{READ, WRITE, Word, raw};

    /// Tables that map `frames`, and a folder with flags and an empty bitmap.
    fn made_up(frames: &[u64], flags: &[u64]) -> (tempfile::TempDir, Tables, TableId) {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
        std::fs::write(dir.path().join("kpageflags"), bytes).unwrap();
        let bitmap = vec![0u8; flags.len().div_ceil(64) * 8];
        std::fs::write(Paths::new(dir.path()).page_idle(), bitmap).unwrap();
        let words: Vec<Word> = frames
            .iter()
            .enumerate()
            .map(|(slot, frame)| Word::from_raw(slot, raw::PRESENT | frame, READ | WRITE))
            .collect();
        let store = Store::default();
        let id = store.insert(0, &words);
        (dir, store.finish(), id)
    }

    fn bitmap(paths: &Paths) -> FrameSet {
        let bytes = std::fs::read(paths.page_idle()).unwrap();
        let chunks = bytes.chunks_exact(8).map(number).enumerate();
        FrameSet {
            chunks: chunks
                .map(|(chunk, bits)| (chunk as u64, bits))
                .filter(|chunk| chunk.1 != 0)
                .collect(),
        }
    }

    fn touch(paths: &Paths, frames: &[u64]) {
        let mut bytes = std::fs::read(paths.page_idle()).unwrap();
        for frame in frames {
            bytes[(frame / 8) as usize] &= !(1 << (frame % 8));
        }
        std::fs::write(paths.page_idle(), bytes).unwrap();
    }

    #[test]
    fn frames_are_used_idle_or_not_known() {
        let mut flags = vec![KPF_IDLE; 300];
        // On no list of reclaim: the kernel keeps no bit.
        flags[7] = 0;
        let (dir, tables, id) = made_up(&[3, 7, 63, 64, 65, 299, 5000], &flags);
        let paths = Paths::new(dir.path());
        let watch = Watch::begin(&paths, &tables, &[id]).unwrap().unwrap();
        let marked: Vec<u64> = bitmap(&paths).iter().take(6).collect();
        assert_eq!(marked, [3, 7, 63, 64, 65, 299]);
        touch(&paths, &[64, 299, 7]);
        let activity = watch.end().unwrap();
        assert_eq!(activity.idle.iter().collect::<Vec<_>>(), [3, 63, 65]);
        assert_eq!(activity.used.iter().collect::<Vec<_>>(), [64, 299]);
        assert!(!activity.used.contains(7));
    }

    #[test]
    fn pages_of_a_folio_are_as_idle_as_its_first() {
        let mut flags = vec![KPF_IDLE; 256];
        for (first, pages) in [(16, 16), (64, 64), (128, 2)] {
            flags[first] |= KPF_COMPOUND_HEAD;
            for tail in &mut flags[first + 1..first + pages] {
                *tail |= KPF_COMPOUND_TAIL;
            }
        }
        // Of the second folio only later pages are mapped, not next to each other.
        let (dir, tables, id) = made_up(&[15, 16, 17, 18, 70, 71, 90, 128, 129, 130], &flags);
        let paths = Paths::new(dir.path());
        let watch = Watch::begin(&paths, &tables, &[id]).unwrap().unwrap();
        let marked: Vec<u64> = bitmap(&paths).iter().collect();
        assert_eq!(marked, [15, 16, 64, 128, 130]);
        touch(&paths, &[16, 130]);
        // The third was split meanwhile.
        flags[129] = KPF_IDLE;
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
        std::fs::write(dir.path().join("kpageflags"), bytes).unwrap();
        let activity = watch.end().unwrap();
        let idle: Vec<u64> = activity.idle.iter().collect();
        assert_eq!(idle, [15, 64, 70, 71, 90, 128]);
        // One page of the first folio was used; which is not known.
        assert_eq!(activity.used.iter().collect::<Vec<_>>(), [130]);
    }

    #[test]
    fn a_kernel_that_does_not_track_idle_pages_has_no_watch() {
        let (dir, tables, id) = made_up(&[3], &[KPF_IDLE; 8]);
        let paths = Paths::new(dir.path());
        std::fs::remove_file(paths.page_idle()).unwrap();
        assert!(Watch::begin(&paths, &tables, &[id]).unwrap().is_none());
    }
}
