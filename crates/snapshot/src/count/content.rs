// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds anonymous pages of equal content and their virtual pages: what merging would find
//! (selective memory deduplication, Figures 5 to 7, Tables II and III).
//!
//! Hashes pages through `/proc/PID/mem`, then reads those with equal hashes again and compares
//! them byte by byte: every counted page was equal when it was counted.

use crate::model::Snapshot;
use crate::model::process::Identity;
use crate::model::region::Kind;
use crate::model::word::SHARED;
use crate::read::memory::read_as_far;
use crate::read::paths::Paths;
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Pages read at once.
const CHUNK: u64 = 64;

/// A page that was hashed.
#[derive(Clone, Copy)]
struct Item {
    hash: u64,
    frame: u64,
    page: u64,
    process: u32,
}

/// The result of one pass over the contents of all pages.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Content {
    /// Anonymous pages that were read: candidates for merging.
    pub mergeable: u64,
    /// Pages whose content another frame also has.
    pub equal: u64,
    /// Of those, pages with a copy at the same virtual page of another process.
    pub same_address: u64,
    /// Of those, pages of zeros.
    pub zeros: u64,
    /// Frames that merging would free.
    pub frames_saved: u64,
    /// Pages that changed between hashing and comparing.
    pub changed: u64,
    /// Pages that could not be read.
    pub unreadable: u64,
    /// Equal pages by kind of region (Table III).
    pub kinds: BTreeMap<Kind, u64>,
    /// By program.
    pub programs: Vec<Program>,
    /// By process; not in the JSON, as there may be thousands.
    #[serde(skip)]
    pub processes: BTreeMap<i32, Pages>,
}

/// Anonymous pages of one process, or of several, by their contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// Mergeable pages that were read.
    pub mergeable: u64,
    /// Of them, those whose content another frame also has.
    pub equal: u64,
    /// Of those, with a copy at the same virtual page of another process.
    pub same_address: u64,
    /// Of those, pages of zeros.
    pub zeros: u64,
    /// Pages that changed between hashing and comparing.
    pub changed: u64,
    /// Pages that could not be read.
    pub unreadable: u64,
}

add_fields!(Pages: mergeable, equal, same_address, zeros, changed, unreadable);

/// The profile of a program: the virtual pages at which its processes have equal pages.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Program {
    /// Path of the program.
    pub name: String,
    /// Virtual pages with a candidate for merging.
    pub mergeable: u64,
    /// Virtual pages with a page equal to another.
    pub profile: u64,
    /// Percent of mergeable virtual pages that a scan by this profile would skip.
    pub skipped_percent: f64,
    /// Percent of mergeable virtual pages that a scan by one profile for all programs would visit
    /// without a merge (Figure 7).
    pub false_positive_percent: f64,
    #[serde(skip)]
    pages: HashSet<u64>,
}

impl Content {
    /// Reads all processes of `snapshot`.
    pub fn read(snapshot: &Snapshot, paths: &Paths) -> Content {
        let mut content = Content::default();
        let read: Vec<(Vec<Item>, u64)> = (0..snapshot.processes.len())
            .into_par_iter()
            .map(|place| hash_process(snapshot, paths, place))
            .collect();
        let mut items = Vec::new();
        let mut each = vec![Pages::default(); snapshot.processes.len()];
        for ((some, unreadable), pages) in read.into_iter().zip(&mut each) {
            pages.mergeable = some.len() as u64;
            pages.unreadable = unreadable;
            items.extend(some);
        }
        let mut mergeable: HashMap<&str, HashSet<u64>> = HashMap::new();
        for item in &items {
            mergeable
                .entry(program(snapshot, item))
                .or_default()
                .insert(item.page);
        }
        items.par_sort_unstable_by_key(|item| (item.hash, item.frame));
        let groups: Vec<Vec<Item>> = items
            .par_chunk_by(|a, b| a.hash == b.hash)
            .filter(|group| group.first().map(|item| item.frame) != group.last().map(|i| i.frame))
            .map(|group| verify(snapshot, paths, group))
            .collect();
        let mut profiles: HashMap<&str, HashSet<u64>> = HashMap::new();
        let zeros = xxh3_64(&vec![0; snapshot.page as usize]);
        for item in candidates(&items) {
            each[item.process as usize].changed += 1;
        }
        for group in groups {
            for item in &group {
                each[item.process as usize].changed -= 1;
            }
            let frames: HashSet<u64> = group.iter().map(|item| item.frame).collect();
            if frames.len() < 2 {
                continue;
            }
            content.frames_saved += frames.len() as u64 - 1;
            let mut places: HashMap<u64, u64> = HashMap::new();
            for item in &group {
                *places.entry(item.page).or_default() += 1;
                profiles
                    .entry(program(snapshot, item))
                    .or_default()
                    .insert(item.page);
                *content.kinds.entry(kind(snapshot, item)).or_default() += 1;
            }
            for item in &group {
                let pages = &mut each[item.process as usize];
                pages.equal += 1;
                pages.zeros += u64::from(item.hash == zeros);
                pages.same_address += u64::from(places[&item.page] > 1);
            }
        }
        let mut all = Pages::default();
        for (process, pages) in snapshot.processes.iter().zip(each) {
            all += pages;
            content.processes.insert(process.identity.pid, pages);
        }
        content.mergeable = all.mergeable;
        content.equal = all.equal;
        content.same_address = all.same_address;
        content.zeros = all.zeros;
        content.changed = all.changed;
        content.unreadable = all.unreadable;
        content.programs = programs(&mergeable, &profiles);
        content
    }

    /// For each program in both: how alike its profile is in `later` (Figure 6).
    pub fn stability(&self, later: &Content) -> Vec<(String, f64)> {
        self.programs
            .iter()
            .filter_map(|program| {
                let other = later
                    .programs
                    .iter()
                    .find(|other| other.name == program.name)?;
                Some((program.name.clone(), jaccard(&program.pages, &other.pages)))
            })
            .collect()
    }

    /// How alike the profiles of programs are, pair by pair (Table II).
    pub fn similarity(&self) -> Vec<(String, String, f64)> {
        let mut pairs = Vec::new();
        for (place, one) in self.programs.iter().enumerate() {
            for other in &self.programs[place + 1..] {
                let alike = jaccard(&one.pages, &other.pages);
                pairs.push((one.name.clone(), other.name.clone(), alike));
            }
        }
        pairs
    }
}

/// Jaccard's index of two sets; 1 for two empty ones.
pub fn jaccard(a: &HashSet<u64>, b: &HashSet<u64>) -> f64 {
    let both = a.intersection(b).count();
    let any = a.len() + b.len() - both;
    if any == 0 {
        1.0
    } else {
        both as f64 / any as f64
    }
}

fn program<'a>(snapshot: &'a Snapshot, item: &Item) -> &'a str {
    program_of(&snapshot.processes[item.process as usize].identity)
}

/// The program's path or, where that is hidden, its name.
pub fn program_of(identity: &Identity) -> &str {
    if identity.exe.is_empty() {
        &identity.name
    } else {
        &identity.exe
    }
}

fn kind(snapshot: &Snapshot, item: &Item) -> Kind {
    let regions = &snapshot.processes[item.process as usize].regions;
    let number = regions.partition_point(|region| region.end <= item.page);
    regions
        .get(number)
        .map_or(Kind::Anonymous, |region| region.kind)
}

/// Pages whose hash another frame has.
fn candidates(items: &[Item]) -> impl Iterator<Item = &Item> {
    items
        .chunk_by(|a, b| a.hash == b.hash)
        .filter(|group| group.first().map(|item| item.frame) != group.last().map(|i| i.frame))
        .flatten()
}

fn programs(
    mergeable: &HashMap<&str, HashSet<u64>>,
    profiles: &HashMap<&str, HashSet<u64>>,
) -> Vec<Program> {
    let global: HashSet<u64> = profiles.values().flatten().copied().collect();
    let mut programs: Vec<Program> = mergeable
        .iter()
        .map(|(name, mergeable)| {
            let pages = profiles.get(name).cloned().unwrap_or_default();
            let vain = mergeable
                .iter()
                .filter(|page| global.contains(*page))
                .count()
                - pages.len();
            let percent = |pages: usize| 100.0 * pages as f64 / mergeable.len().max(1) as f64;
            Program {
                name: name.to_string(),
                mergeable: mergeable.len() as u64,
                profile: pages.len() as u64,
                skipped_percent: percent(mergeable.len() - pages.len()),
                false_positive_percent: percent(vain),
                pages,
            }
        })
        .collect();
    programs.sort_by(|a, b| b.mergeable.cmp(&a.mergeable).then(a.name.cmp(&b.name)));
    programs
}

fn open(snapshot: &Snapshot, paths: &Paths, process: usize) -> io::Result<File> {
    File::open(
        paths
            .pid(snapshot.processes[process].identity.pid)
            .join("mem"),
    )
}

fn hash_process(snapshot: &Snapshot, paths: &Paths, place: usize) -> (Vec<Item>, u64) {
    let process = &snapshot.processes[place];
    let slots = snapshot.slots();
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for table in &process.tables {
        let base = snapshot.tables.index(table.id) * slots;
        for word in snapshot.tables.words(table.id) {
            if word.file() || word.swapped() || word.perms() & SHARED != 0 {
                continue;
            }
            // Frame 0 is a hidden frame; the zero page is merged already.
            if word.frame() == 0 || snapshot.zero == Some(word.frame()) {
                continue;
            }
            let count = if word.huge() { slots } else { 1 };
            let first = base + word.slot() as u64;
            let number = process
                .regions
                .partition_point(|region| region.end <= first);
            if process
                .regions
                .get(number)
                .is_none_or(|region| region.kind == Kind::Special)
            {
                continue;
            }
            pages.extend((0..count).map(|nth| (first + nth, word.frame() + nth)));
        }
    }
    let Ok(memory) = open(snapshot, paths, place) else {
        return (Vec::new(), pages.len() as u64);
    };
    let size = snapshot.page as usize;
    let mut items = Vec::with_capacity(pages.len());
    let mut unreadable = 0;
    let mut buffer = vec![0; size * CHUNK as usize];
    let mut rest = pages.as_slice();
    while let Some(&(first, _)) = rest.first() {
        let run = rest
            .iter()
            .take(CHUNK as usize)
            .enumerate()
            .take_while(|(nth, (page, _))| *page == first + *nth as u64)
            .count();
        let (now, later) = rest.split_at(run);
        rest = later;
        let bytes = &mut buffer[..run * size];
        let got = read_as_far(&memory, bytes, first * snapshot.page).0;
        unreadable += (run - got / size) as u64;
        for (bytes, (page, frame)) in bytes[..got].chunks_exact(size).zip(now) {
            items.push(Item {
                hash: xxh3_64(bytes),
                frame: *frame,
                page: *page,
                process: place as u32,
            });
        }
    }
    (items, unreadable)
}

/// The pages of a group equal, byte by byte, to the first one that can be read.
fn verify(snapshot: &Snapshot, paths: &Paths, group: &[Item]) -> Vec<Item> {
    let size = snapshot.page as usize;
    let mut first: Option<Vec<u8>> = None;
    let mut open_file: Option<(u32, File)> = None;
    let mut equal = Vec::new();
    for item in group {
        if open_file
            .as_ref()
            .is_none_or(|(process, _)| *process != item.process)
        {
            let Ok(file) = open(snapshot, paths, item.process as usize) else {
                continue;
            };
            open_file = Some((item.process, file));
        }
        let Some((_, file)) = &open_file else {
            continue;
        };
        let mut bytes = vec![0; size];
        if read_as_far(file, &mut bytes, item.page * snapshot.page).0 < size
            || xxh3_64(&bytes) != item.hash
        {
            continue;
        }
        match &first {
            None => first = Some(bytes),
            Some(first) if *first != bytes => continue,
            Some(_) => {}
        }
        equal.push(*item);
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jaccard_is_what_both_have_of_what_any_has() {
        let set = |pages: &[u64]| pages.iter().copied().collect::<HashSet<u64>>();
        assert_eq!(jaccard(&set(&[1, 2, 3]), &set(&[2, 3, 4])), 0.5);
        assert_eq!(jaccard(&set(&[]), &set(&[])), 1.0);
        assert_eq!(jaccard(&set(&[1]), &set(&[])), 0.0);
    }

    #[test]
    fn a_common_profile_is_scanned_in_vain_where_a_program_has_nothing_equal() {
        let set = |pages: &[u64]| pages.iter().copied().collect::<HashSet<u64>>();
        let mergeable = HashMap::from([("a", set(&[1, 2, 3, 4])), ("b", set(&[3, 4]))]);
        let profiles = HashMap::from([("a", set(&[1, 2])), ("b", set(&[3]))]);
        let found = programs(&mergeable, &profiles);
        assert_eq!(
            (found[0].skipped_percent, found[0].false_positive_percent),
            (50.0, 25.0)
        );
        assert_eq!(
            (found[1].skipped_percent, found[1].false_positive_percent),
            (50.0, 0.0)
        );
    }
}
