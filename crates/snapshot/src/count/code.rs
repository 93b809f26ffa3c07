// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages of code: where they come from, and which share of them two processes have in common
//! (EuroSys'16, section 2.3, Figure 2 and Table 2).
//!
//! A page of code is identified by its file and offset, so this needs no page frames.

use super::group;
use crate::model::region::{FileId, Kind};
use crate::model::{Process, Snapshot};
use hashbrown::{HashMap, HashSet};
use serde::Serialize;

/// Pages of code in memory by where they come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Origins {
    /// The main program.
    pub program: f64,
    /// Libraries mapped before the fork, by the zygote.
    pub preloaded: f64,
    /// Libraries that the process loaded itself.
    pub loaded: f64,
    /// Generated at run time.
    pub generated: f64,
}

impl Origins {
    /// All pages of code.
    pub fn total(&self) -> f64 {
        self.program + self.preloaded + self.loaded + self.generated
    }

    /// Percent of the pages that come from shared code.
    pub fn shared_percent(&self) -> f64 {
        100.0 * (self.preloaded + self.loaded) / self.total().max(1.0)
    }

    /// The count of an origin.
    pub fn of(&mut self, kind: Kind, preloaded: bool) -> &mut f64 {
        match (kind, preloaded) {
            (Kind::Program, _) => &mut self.program,
            (Kind::Generated, _) => &mut self.generated,
            (_, true) => &mut self.preloaded,
            (_, false) => &mut self.loaded,
        }
    }
}

add_fields!(Origins: program, preloaded, loaded, generated);

/// Which libraries each process inherited from its zygote.
pub struct Zygotes {
    roots: Vec<usize>,
    regions: HashMap<usize, HashSet<(u64, FileId)>>,
    families: HashMap<usize, usize>,
}

impl Zygotes {
    /// Finds the zygotes: the first processes of trees that were forked without an exec.
    pub fn new(snapshot: &Snapshot) -> Zygotes {
        let roots = group::roots(snapshot);
        let mut families: HashMap<usize, usize> = HashMap::new();
        for root in &roots {
            *families.entry(*root).or_default() += 1;
        }
        let regions = families
            .keys()
            .map(|&root| {
                let regions = snapshot.processes[root].regions.iter();
                let code = regions.filter(|region| region.kind.code());
                (
                    root,
                    code.map(|region| (region.start, region.file)).collect(),
                )
            })
            .collect();
        Zygotes {
            roots,
            regions,
            families,
        }
    }

    /// True if the process at `place` inherited the library at page `start` from its zygote. A
    /// zygote that has children counts its own libraries as preloaded.
    pub fn preloaded(&self, place: usize, start: u64, file: FileId) -> bool {
        let root = self.roots[place];
        self.families.get(&root).is_some_and(|members| *members > 1)
            && self
                .regions
                .get(&root)
                .is_some_and(|regions| regions.contains(&(start, file)))
    }
}

/// Pages of code in memory and, where an interval was watched, those of them that were used.
pub fn origins(snapshot: &Snapshot, zygotes: &Zygotes, place: usize) -> (Origins, Option<Origins>) {
    let (mut all, mut used) = (Origins::default(), Origins::default());
    for region in &snapshot.processes[place].regions {
        if region.kind.code() {
            let preloaded = zygotes.preloaded(place, region.start, region.file);
            *all.of(region.kind, preloaded) += f64::from(region.present);
            *used.of(region.kind, preloaded) += f64::from(region.referenced.unwrap_or(0));
        }
    }
    (all, (snapshot.interval > 0.0).then_some(used))
}

/// Samples of one process, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sampled {
    /// Samples in the kernel.
    pub kernel: u64,
    /// Samples outside of all regions of code, or in code that is no longer mapped.
    pub elsewhere: u64,
    /// Samples by the origin of the code (EuroSys'16, Figure 3).
    pub instructions: Origins,
    /// Pages with at least one sample (Figure 2).
    pub pages: Origins,
}

impl Sampled {
    /// Samples outside of the kernel.
    pub fn user(&self) -> f64 {
        self.instructions.total() + self.elsewhere as f64
    }
}

add_fields!(Sampled: kernel, elsewhere, instructions, pages);

/// Samples of the process at `place`; `None` if the processors were not sampled.
pub fn sampled(snapshot: &Snapshot, zygotes: &Zygotes, place: usize) -> Option<Sampled> {
    let process = &snapshot.processes[place];
    let samples = process.samples.as_ref()?;
    let mut found = Sampled {
        kernel: samples.kernel,
        ..Sampled::default()
    };
    for (&page, &count) in &samples.pages {
        match process.region(page).filter(|region| region.kind.code()) {
            Some(region) => {
                let preloaded = zygotes.preloaded(place, region.start, region.file);
                *found.instructions.of(region.kind, preloaded) += count as f64;
                *found.pages.of(region.kind, preloaded) += 1.0;
            }
            // [vdso] is not a region of code here.
            None => found.elsewhere += count,
        }
    }
    Some(found)
}

/// The code of a process. For every 64 pages of a file: which are in memory, and which of those are
/// preloaded.
///
/// A map, not an array: any process can map a file at any offset, and so make an array huge.
pub struct Footprint {
    words: HashMap<(FileId, u64), (u64, u64)>,
    /// Pages in all files.
    pub pages: u64,
}

impl Footprint {
    /// With samples, the pages that the process at `place` ran. Otherwise its pages of code in
    /// memory; after an interval, without regions that were not used in it.
    pub fn new(snapshot: &Snapshot, zygotes: &Zygotes, place: usize) -> Footprint {
        let process: &Process = &snapshot.processes[place];
        let mut words: HashMap<(FileId, u64), (u64, u64)> = HashMap::new();
        if let Some(samples) = &process.samples {
            for &page in samples.pages.keys() {
                let region = process
                    .region(page)
                    .filter(|region| matches!(region.kind, Kind::Program | Kind::Library));
                let Some(region) = region else { continue };
                let preloaded = zygotes.preloaded(place, region.start, region.file);
                let page = region.offset.saturating_add(page - region.start);
                let word = words.entry((region.file, page / 64)).or_default();
                word.0 |= 1 << (page % 64);
                word.1 |= u64::from(preloaded) << (page % 64);
            }
            return Footprint::of(words);
        }
        for run in &process.code {
            let Some(region) = process.regions.get(run.region as usize) else {
                continue;
            };
            if region.referenced == Some(0) {
                continue;
            }
            let preloaded = zygotes.preloaded(place, region.start, region.file);
            for (nth, bits) in run.bits.iter().enumerate() {
                for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                    let page = run.offset.saturating_add(nth as u64 * 64 + bit);
                    let word = words.entry((run.file, page / 64)).or_default();
                    word.0 |= 1 << (page % 64);
                    word.1 |= u64::from(preloaded) << (page % 64);
                }
            }
        }
        Footprint::of(words)
    }

    fn of(words: HashMap<(FileId, u64), (u64, u64)>) -> Footprint {
        let pages = words
            .values()
            .map(|word| u64::from(word.0.count_ones()))
            .sum();
        Footprint { words, pages }
    }

    /// Percent of these pages that `other` also has: (preloaded, all).
    pub fn overlap(&self, other: &Footprint) -> (f64, f64) {
        let (mut preloaded, mut all) = (0, 0);
        for (place, ours) in &self.words {
            if let Some(theirs) = other.words.get(place) {
                all += (ours.0 & theirs.0).count_ones();
                preloaded += (ours.1 & theirs.1).count_ones();
            }
        }
        let percent = |pages: u32| 100.0 * f64::from(pages) / self.pages.max(1) as f64;
        (percent(preloaded), percent(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(files: &[(FileId, &[u64])]) -> Footprint {
        let mut words: HashMap<(FileId, u64), (u64, u64)> = HashMap::new();
        for (file, pages) in files {
            for page in *pages {
                let word = words.entry((*file, page / 64)).or_default();
                word.0 |= 1 << (page % 64);
                word.1 |= u64::from(*file == 1) << (page % 64);
            }
        }
        Footprint::of(words)
    }

    #[test]
    fn overlap_is_the_share_of_the_rows_footprint() {
        let a = footprint(&[(1, &[0, 1, 200]), (2, &[5])]);
        let b = footprint(&[(1, &[1, 200, 300]), (2, &[5, 6, 7, 8, 9])]);
        assert_eq!((a.pages, b.pages), (4, 8));
        assert_eq!(a.overlap(&b), (50.0, 75.0));
        assert_eq!(b.overlap(&a), (25.0, 37.5));
        assert_eq!(a.overlap(&footprint(&[])), (0.0, 0.0));
    }
}
