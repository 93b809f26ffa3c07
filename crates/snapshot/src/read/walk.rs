// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the page tables of one process into a store.

use super::mapping::Mapping;
use super::maps;
use super::pace::Pace;
use super::pagemap::{CHUNK, PAGE_IS_HUGE, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PageRegion, Pagemap};
use super::paths::Paths;
use super::process;
use crate::model::process::{Identity, Reason};
use crate::model::region::{Backing, FileId, Files, Kind, Region};
use crate::model::store::{Store, hash};
use crate::model::word::{SHARED, WRITE, Word, raw};
use crate::model::{CodeRun, Fill, NEVER_SHARED, Placed, Process};
use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// Regions of more pages than this are asked first where they hold any, for they may be mostly
/// holes: 1 GB with pages of 4 KB.
const SPARSE: u64 = 1 << 18;
/// Mappings of code beyond this many pages get no map of their pages.
const CODE_LIMIT: u64 = 1 << 24;

/// The inputs of reading processes.
pub struct Walker<'a> {
    /// Where /proc is.
    pub paths: &'a Paths,
    /// Says which regions are wanted.
    #[allow(clippy::type_complexity)]
    pub region: &'a (dyn Fn(&Backing, std::ops::Range<u64>) -> bool + Sync),
    /// Takes the tables.
    pub store: &'a Store,
    /// Takes what regions map.
    pub files: &'a Files,
    /// Bytes in a page.
    pub page: u64,
    /// Ask which pages were used since their accessed bits were cleared.
    pub referenced: bool,
    /// Frame numbers are seen.
    pub frames: bool,
    /// The frame of the zero page, where that could be found out.
    pub zero: Option<u64>,
    /// Holds the speed down.
    pub pace: &'a Pace,
}

/// One process, and whether its huge pages had to be told by their sum in smaps.
pub struct Walked {
    /// The process.
    pub process: Process,
    /// See [`crate::model::Snapshot::huge_by_sum`].
    pub huge_by_sum: bool,
}

impl Walker<'_> {
    /// Reads the process `identity`.
    pub fn walk(&self, identity: Identity) -> Result<Walked, Reason> {
        let pid = identity.pid;
        let maps = process::maps(self.paths, pid)?;
        let regions = maps::parse(&maps, self.page, &identity.exe, self.files, self.region)?;
        let pagemap = Pagemap::open(self.paths, pid)?;
        let mut walk = Walk::new(self, pid, pagemap, regions);
        if identity.locked_bytes > 0 {
            walk.note_locked()?;
        }
        walk.all()?;
        if self.referenced {
            walk.note_referenced()?;
        }
        // A process that has exited while it was read has lost its tables without an error; one
        // of the same number may have taken its place.
        let after = process::stat(self.paths, pid)?;
        if after.starttime != identity.start_time || matches!(after.state, 'Z' | 'X') {
            return Err(Reason::Vanished);
        }
        let changed = process::maps(self.paths, pid)? != maps;
        let huge_by_sum = walk.by_sum && walk.regions.iter().any(|region| region.huge > 0);
        Ok(Walked {
            process: walk.finish(identity, changed),
            huge_by_sum,
        })
    }
}

struct Walk<'a> {
    walker: &'a Walker<'a>,
    pid: i32,
    pagemap: Pagemap,
    regions: Vec<Region>,
    slots: usize,
    /// The table that is being read, and its words.
    index: u64,
    words: Vec<Word>,
    length: usize,
    /// The first region that may overlap the table.
    first: usize,
    scratch: Vec<u64>,
    tables: Vec<Placed>,
    fill: HashMap<Kind, Fill>,
    code: Vec<CodeRun>,
    /// Read when the kernel has no PAGEMAP_SCAN, once and only if needed.
    smaps: Option<Vec<Mapping>>,
    by_sum: bool,
}

impl<'a> Walk<'a> {
    fn new(walker: &'a Walker<'a>, pid: i32, pagemap: Pagemap, regions: Vec<Region>) -> Self {
        let slots = (walker.page / 8) as usize;
        Walk {
            walker,
            pid,
            pagemap,
            slots,
            index: u64::MAX,
            words: vec![Word(0); slots + 1],
            length: 0,
            first: 0,
            scratch: Vec::new(),
            tables: Vec::new(),
            fill: HashMap::new(),
            code: Vec::new(),
            smaps: None,
            by_sum: false,
            regions,
        }
    }

    fn all(&mut self) -> Result<(), Reason> {
        let mut buffer = vec![0u64; CHUNK];
        for number in 0..self.regions.len() {
            let (start, end) = (self.regions[number].start, self.regions[number].end);
            if end - start <= SPARSE {
                self.range(number, start, end, u64::MAX, &mut buffer)?;
                continue;
            }
            let page = self.walker.page;
            match self
                .pagemap
                .scan(start * page, end * page, PAGE_IS_PRESENT | PAGE_IS_SWAPPED)?
            {
                Some(runs) => {
                    for (start, end) in merge(&runs, page) {
                        self.range(number, start, end, u64::MAX, &mut buffer)?;
                    }
                }
                None => {
                    // Stop where all that the kernel counts in the region has been found.
                    let limit = self.smaps_pages(start, &["Rss", "Swap"])?;
                    if limit > 0 {
                        self.range(number, start, end, limit, &mut buffer)?;
                    }
                }
            }
        }
        self.flush()
    }

    /// Reads pages `start..end` of a region, or until `limit` entries are found.
    fn range(
        &mut self,
        number: usize,
        start: u64,
        end: u64,
        limit: u64,
        buffer: &mut [u64],
    ) -> Result<(), Reason> {
        let slots = self.slots as u64;
        let mut page = start;
        let before = self.found(number);
        while page < end && self.found(number) - before < limit {
            // Chunks end where tables do.
            let chunk = (CHUNK as u64).max(slots);
            let stop = ((page / slots * slots) + chunk).min(end);
            let wanted = (stop - page) as usize;
            let got = self.pagemap.read(page, &mut buffer[..wanted])?;
            if got == 0 {
                break;
            }
            let mut at = 0;
            while at < got {
                let index = (page + at as u64) / slots;
                if index != self.index {
                    self.flush()?;
                    self.index = index;
                }
                let slot = ((page + at as u64) % slots) as usize;
                let count = (self.slots - slot).min(got - at);
                self.segment(number, slot, &buffer[at..at + count]);
                at += count;
            }
            self.walker.pace.done(got as u64);
            page += got as u64;
        }
        Ok(())
    }

    fn found(&self, number: usize) -> u64 {
        u64::from(self.regions[number].present) + u64::from(self.regions[number].swapped)
    }

    /// Takes in entries of one region and one table.
    fn segment(&mut self, number: usize, slot: usize, entries: &[u64]) {
        let region = &mut self.regions[number];
        let perms = region.perms;
        let mut length = self.length;
        let words = &mut self.words[..];
        for (place, &entry) in entries.iter().enumerate() {
            words[length] = Word::from_raw(slot + place, entry, perms);
            length += usize::from(entry & (raw::PRESENT | raw::SWAP) != 0);
        }
        let fresh = &mut words[self.length..length];
        self.length = length;
        if fresh.is_empty() {
            return;
        }
        let zero = self.walker.zero.unwrap_or(u64::MAX);
        let (mut swapped, mut anonymous) = (0, 0);
        for word in fresh.iter() {
            swapped += u32::from(word.swapped());
            anonymous += u32::from(!word.file() && !word.swapped() && word.frame() != zero);
        }
        region.swapped += swapped;
        region.present += fresh.len() as u32 - swapped;
        region.anonymous += anonymous;
        let (page, start) = (self.index * self.slots as u64 + slot as u64, region.start);
        let offset = region.offset + (page - start);
        let (file, kind) = (region.file, region.kind);
        if !self.walker.frames {
            for word in fresh
                .iter_mut()
                .filter(|word| word.file() && !word.swapped())
            {
                let offset = offset + (word.slot() - slot) as u64;
                *word = word.with_frame(name_of_file_page(file, offset));
            }
        }
        if kind.code() && kind != Kind::Generated && region.pages() <= CODE_LIMIT {
            note_code(&mut self.code, number as u32, file, offset, slot, fresh);
        }
        let fill = self.fill.entry(kind).or_default();
        let (small, large) = windows(self.walker.page);
        region.small_windows += count_windows(entries, slot, small, &mut fill.small);
        region.large_windows += count_windows(entries, slot, large, &mut fill.large);
    }

    /// Ends the table that is being read.
    fn flush(&mut self) -> Result<(), Reason> {
        let length = std::mem::take(&mut self.length);
        if length == 0 {
            return Ok(());
        }
        let (mut count, base) = (length, self.index * self.slots as u64);
        if length == self.slots && self.may_be_huge(length) {
            if let Some(region) = self.huge_region(base)? {
                self.note_huge(region);
                self.words[0] = self.words[0].into_huge();
                count = 1;
            }
        }
        let (regions, lineage) = self.lineage(base, count);
        let id = self.walker.store.insert(self.index, &self.words[..count]);
        self.tables.push(Placed {
            id,
            regions,
            lineage,
        });
        Ok(())
    }

    /// All pages in memory, in frames one after the other from an aligned one on.
    fn may_be_huge(&self, length: usize) -> bool {
        let words = &self.words[..length];
        if words.iter().any(|word| word.swapped()) {
            return false;
        }
        if !self.walker.frames {
            return true;
        }
        let head = words[0].frame();
        head % self.slots as u64 == 0
            && words
                .iter()
                .enumerate()
                .all(|(place, word)| word.frame() == head + place as u64)
    }

    /// The region of the huge page at page `base`, if the kernel says that it is one.
    fn huge_region(&mut self, base: u64) -> Result<Option<usize>, Reason> {
        let (page, slots) = (self.walker.page, self.slots as u64);
        let number = self.regions.partition_point(|region| region.end <= base);
        let region = &self.regions[number];
        if base < region.start || base + slots > region.end {
            return Ok(None);
        }
        let runs = self
            .pagemap
            .scan(base * page, (base + slots) * page, PAGE_IS_HUGE)?;
        let huge = match runs {
            Some(runs) => runs.iter().any(|run| run.categories & PAGE_IS_HUGE != 0),
            None => {
                self.by_sum = true;
                let keys = [
                    "AnonHugePages",
                    "ShmemPmdMapped",
                    "FilePmdMapped",
                    "Shared_Hugetlb",
                    "Private_Hugetlb",
                ];
                let start = self.regions[number].start;
                let pages = self.smaps_pages(start, &keys)?;
                u64::from(self.regions[number].huge) * slots < pages
            }
        };
        Ok(huge.then_some(number))
    }

    /// Pages that smaps counts under `keys` in the region that starts at page `start`; 0 where
    /// there is no smaps.
    fn smaps_pages(&mut self, start: u64, keys: &[&str]) -> Result<u64, Reason> {
        if self.smaps.is_none() {
            self.smaps = Some(match process::smaps(self.walker.paths, self.pid) {
                Ok(smaps) => smaps,
                Err(Reason::Vanished | Reason::Unreadable(_)) => Vec::new(),
                Err(reason) => return Err(reason),
            });
        }
        let page = self.walker.page;
        let maps = self.smaps.as_ref().map_or(&[][..], |smaps| smaps);
        let bytes: u64 = maps
            .binary_search_by_key(&(start * page), |map| map.address.start)
            .map_or(0, |place| {
                let values = &maps[place].values;
                keys.iter().filter_map(|key| values.get(*key)).sum()
            });
        Ok(bytes / page)
    }

    /// Notes which regions are locked into memory; Cohort's kernel shares none of these.
    fn note_locked(&mut self) -> Result<(), Reason> {
        for number in 0..self.regions.len() {
            if self.smaps_pages(self.regions[number].start, &["Locked"])? > 0 {
                self.regions[number].shareable = false;
            }
        }
        Ok(())
    }

    /// Notes for each region how many of its pages smaps calls referenced.
    fn note_referenced(&mut self) -> Result<(), Reason> {
        // Read after the tables, which is when the interval ends.
        self.smaps = None;
        for number in 0..self.regions.len() {
            let pages = self.smaps_pages(self.regions[number].start, &["Referenced"])?;
            let region = &mut self.regions[number];
            region.referenced = Some((pages as u32).min(region.present));
        }
        Ok(())
    }

    /// A table's pages were one huge page: they need no larger one.
    fn note_huge(&mut self, number: usize) {
        let (small, large) = windows(self.walker.page);
        let (small, large) = ((self.slots / small) as u32, (self.slots / large) as u32);
        let region = &mut self.regions[number];
        region.huge += 1;
        region.small_windows -= small;
        region.large_windows -= large;
        let fill = self.fill.entry(region.kind).or_default();
        fill.small[16] -= small;
        fill.large[16] -= large;
    }

    /// See [`Placed::regions`] and [`Placed::lineage`].
    fn lineage(&mut self, base: u64, count: usize) -> (u64, u64) {
        let end = base + self.slots as u64;
        while self
            .regions
            .get(self.first)
            .is_some_and(|region| region.end <= base)
        {
            self.first += 1;
        }
        self.scratch.clear();
        let (mut shareable, mut private) = (true, false);
        for region in &self.regions[self.first..] {
            if region.start >= end {
                break;
            }
            let start = region.start.max(base);
            self.scratch.extend_from_slice(&[
                start,
                region.end.min(end),
                region.offset + (start - region.start),
                region.mapped(),
            ]);
            shareable &= region.shareable;
            private |= region.perms & SHARED == 0;
        }
        let regions = match shareable {
            true => hash(&self.scratch).max(NEVER_SHARED + 1),
            false => NEVER_SHARED,
        };
        let zero = self.walker.zero.unwrap_or(u64::MAX);
        let words = &self.words[..count];
        self.scratch.extend(
            words
                .iter()
                .filter(|word| !word.file() && word.perms() & SHARED == 0 && word.frame() != zero)
                .map(|word| word.0),
        );
        // A store to shared memory leaves no trace, and takes a table away from the others if there
        // is private memory in it (fault_through_table() in mm/cohort/fault.c).
        let stores = |word: &Word| word.perms() & (SHARED | WRITE) == SHARED | WRITE;
        if private && words.iter().any(stores) {
            self.scratch.push(self.pid as u64);
        }
        (regions, hash(&self.scratch))
    }

    fn finish(self, identity: Identity, changed: bool) -> Process {
        let slots = self.slots as u64;
        let (mut copies, mut leaves, mut faults) = (0, 0, 0);
        for region in &self.regions {
            let huge = region.huge;
            let small = u64::from(region.present) - u64::from(huge) * slots;
            let entries = small + u64::from(huge) + u64::from(region.swapped);
            if region.copied() {
                copies += entries;
            } else {
                leaves += entries;
                faults += u64::from(region.small_windows);
            }
        }
        let mut fill: Vec<(Kind, Fill)> = self.fill.into_iter().collect();
        fill.sort_by_key(|(kind, _)| *kind);
        Process {
            identity,
            regions: self.regions,
            tables: self.tables,
            code: self.code,
            fill,
            fork_copies: copies,
            fork_leaves: leaves,
            fork_faults: faults,
            changed,
            faulted: None,
            samples: None,
        }
    }
}

/// Joins runs to ranges of pages, over gaps that are cheaper to read than to ask for.
fn merge(runs: &[PageRegion], page: u64) -> Vec<(u64, u64)> {
    const GAP: u64 = 512;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for run in runs {
        let (start, end) = (run.start / page, run.end / page);
        match ranges.last_mut() {
            Some(last) if start <= last.1 + GAP => last.1 = end.max(last.1),
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

/// Stands for the frame of a file's page where frames are hidden: equal for equal pages.
fn name_of_file_page(file: FileId, offset: u64) -> u64 {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&file.to_ne_bytes());
    bytes[4..].copy_from_slice(&offset.to_ne_bytes());
    // Never 0, which is a frame that is not known.
    xxh3_64(&bytes) | 1
}

/// Pages in windows of 64 KB and of 2 MB.
fn windows(page: u64) -> (usize, usize) {
    let pages = |bytes: u64| (bytes / page).max(1) as usize;
    (pages(64 << 10), pages(2 << 20))
}

/// Counts windows of `size` pages with a page in memory, and how full they are in sixteenths.
fn count_windows(entries: &[u64], slot: usize, size: usize, fill: &mut [u32; 17]) -> u32 {
    let mut found = 0;
    let mut rest = entries;
    let mut room = size - slot % size;
    while !rest.is_empty() {
        let (window, behind) = rest.split_at(room.min(rest.len()));
        let present: u64 = window.iter().map(|entry| entry >> 63).sum();
        if present > 0 {
            found += 1;
            fill[(present as usize * 16).div_ceil(size)] += 1;
        }
        rest = behind;
        room = size;
    }
    found
}

fn note_code(
    code: &mut Vec<CodeRun>,
    region: u32,
    file: FileId,
    offset: u64,
    slot: usize,
    words: &[Word],
) {
    if code.last().is_none_or(|run| run.region != region) {
        code.push(CodeRun {
            region,
            file,
            offset,
            bits: Vec::new(),
        });
    }
    let Some(run) = code.last_mut() else { return };
    for word in words.iter().filter(|word| !word.swapped()) {
        let bit = (offset - run.offset) as usize + word.slot() - slot;
        if run.bits.len() <= bit / 64 {
            run.bits.resize(bit / 64 + 1, 0);
        }
        run.bits[bit / 64] |= 1 << (bit % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_by_how_full_they_are() {
        let mut entries = vec![0u64; 40];
        for place in [0, 4, 5, 20, 21, 22] {
            entries[place] = raw::PRESENT;
        }
        entries[39] = raw::SWAP;
        let mut fill = [0; 17];
        // The first window holds 4 pages of these, the second 16, and so on.
        assert_eq!(count_windows(&entries, 12, 16, &mut fill), 3);
        assert_eq!((fill[1], fill[2], fill[3]), (1, 1, 1));
        assert_eq!(fill.iter().sum::<u32>(), 3);
    }

    #[test]
    fn runs_join_over_small_gaps() {
        let run = |start: u64, end: u64| PageRegion {
            start: start * 4096,
            end: end * 4096,
            categories: 0,
        };
        let ranges = merge(&[run(0, 1), run(3, 4), run(10_000, 10_001)], 4096);
        assert_eq!(ranges, [(0, 4), (10_000, 10_001)]);
    }
}
