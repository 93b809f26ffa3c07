// SPDX-License-Identifier: GPL-2.0-or-later
//! Where libraries would lie if a group gave each of them one place.

use super::same::Same;
use super::view::{NO_FILE, Seen, Segment, pages, tables};
use crate::model::Snapshot;
use crate::model::region::{FileId, Kind};
use crate::model::word::{EXEC, SHARED, WRITE, Word};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rayon::prelude::*;
use std::ops::Range;

/// A file, and how often the process had mapped it as an image before.
type Name = (FileId, u32);

/// A library as a process has mapped it: from its first page to the end of its data.
#[derive(Debug, Clone)]
struct Image {
    name: Name,
    /// First page.
    base: u64,
    segments: Vec<Segment>,
    /// The first page that may be written or was, counted from `base`.
    written: Option<u64>,
}

impl Image {
    fn pages(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end - self.base)
    }
}

/// Where a library of a group lies. In pages.
#[derive(Debug, Clone, Copy)]
struct Place {
    pages: u64,
    written: Option<u64>,
    start: u64,
}

/// The libraries of a group's members.
pub(super) struct Images<'a> {
    snapshot: &'a Snapshot,
    members: &'a [usize],
    /// By member, from the highest address down: the order in which they were mapped.
    images: Vec<Vec<Image>>,
    /// In the order of the oldest member that has them.
    order: Vec<Name>,
    places: HashMap<Name, Place>,
}

impl<'a> Images<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, same: &Same, members: &'a [usize]) -> Images<'a> {
        let images: Vec<Vec<Image>> = members
            .par_iter()
            .map(|&place| find(snapshot, same, place))
            .collect();
        let mut oldest: Vec<usize> = (0..members.len()).collect();
        oldest.sort_by_key(|&member| {
            let identity = &snapshot.processes[members[member]].identity;
            (identity.start_time, identity.pid)
        });
        let mut order = Vec::new();
        let mut places: HashMap<Name, Place> = HashMap::new();
        for image in oldest.iter().flat_map(|&member| &images[member]) {
            match places.entry(image.name) {
                Entry::Vacant(free) => {
                    order.push(image.name);
                    free.insert(Place {
                        pages: image.pages(),
                        written: image.written,
                        start: 0,
                    });
                }
                Entry::Occupied(mut place) => {
                    let place = place.get_mut();
                    // The kernel merges anonymous memory behind the data with other memory that
                    // happens to follow: what all have is the library's.
                    place.pages = place.pages.min(image.pages());
                    let first = [place.written, image.written].into_iter().flatten().min();
                    place.written = first;
                }
            }
        }
        Images {
            snapshot,
            members,
            images,
            order,
            places,
        }
    }

    /// How many different ones there are.
    pub(super) fn count(&self) -> u64 {
        self.order.len() as u64
    }

    /// Gives each a place below the one before, as mmap() does. Where at least `boundary` pages
    /// come before the first that is written, that one begins a table, and no other library lies in
    /// the tables before it; others go into the room behind its data, where tables are private
    /// anyway. Returns how many libraries that are.
    pub(super) fn place(&mut self, boundary: Option<u64>) -> u64 {
        let slots = self.snapshot.slots();
        // Two areas far apart and far from 0: the addresses mean nothing.
        let (mut small, mut large) = (slots << 24, slots << 25);
        let mut rooms: Vec<Range<u64>> = Vec::new();
        let mut moved = 0;
        for name in &self.order {
            let place = self.places.get_mut(name).expect("each has a place");
            let pages = place.pages;
            let enough = |least: u64| place.written.filter(|written| *written >= least);
            if let Some(written) = boundary.and_then(enough) {
                let data = (large - pages.saturating_sub(written)) / slots * slots;
                place.start = data - written;
                rooms.push(place.start + pages..large);
                large = place.start / slots * slots;
                moved += 1;
            } else if let Some(room) = rooms.iter_mut().find(|room| room.end - room.start >= pages)
            {
                room.end -= pages;
                place.start = room.end;
            } else {
                small -= pages;
                place.start = small;
            }
        }
        moved
    }

    /// The tables of the libraries alone, where they lie now or at their places.
    pub(super) fn seen(&self, placed: bool) -> Vec<Seen> {
        let each = self.images.par_iter().enumerate();
        each.map(|(member, images)| {
            let mut segments = Vec::new();
            let mut found: Vec<(u64, Word)> = Vec::new();
            for image in images {
                let place = &self.places[&image.name];
                let start = if placed { place.start } else { image.base };
                for segment in &image.segments {
                    let end = segment.end.min(image.base + place.pages);
                    if segment.start >= end {
                        continue;
                    }
                    segments.push(Segment {
                        start: segment.start - image.base + start,
                        end: end - image.base + start,
                        ..*segment
                    });
                    let own = pages(self.snapshot, self.members[member], segment.start, end);
                    found.extend(own.map(|(page, word)| (page - image.base + start, word)));
                }
            }
            segments.sort_unstable_by_key(|segment| segment.start);
            found.sort_unstable_by_key(|(page, _)| *page);
            tables(self.snapshot, member as u32, &segments, found.into_iter())
        })
        .collect()
    }
}

/// The libraries of a process, highest first: a file from its beginning on, of which something may
/// be executed, up to its data and the anonymous memory directly behind. The program itself is none.
fn find(snapshot: &Snapshot, same: &Same, place: usize) -> Vec<Image> {
    let regions = &snapshot.processes[place].regions;
    let mut times: HashMap<FileId, u32> = HashMap::new();
    let mut images = Vec::new();
    let mut number = 0;
    while number < regions.len() {
        let first = &regions[number];
        let is_file = snapshot.files[first.file as usize].is_file();
        let private = |place: usize| regions[place].perms & SHARED == 0;
        if !is_file || first.offset != 0 || !private(number) || first.kind == Kind::Special {
            number += 1;
            continue;
        }
        let mut behind = number + 1;
        while behind < regions.len()
            && regions[behind].file == first.file
            && regions[behind].offset != 0
            && private(behind)
        {
            behind += 1;
        }
        let bss = regions.get(behind).is_some_and(|region| {
            region.kind == Kind::Anonymous
                && snapshot.files[region.file as usize].path.is_empty()
                && region.start == regions[behind - 1].end
                && regions[behind - 1].perms & WRITE != 0
        });
        let own = &regions[number..behind + usize::from(bss)];
        number = behind;
        let code = own.iter().any(|region| region.perms & EXEC != 0);
        let program = own.iter().any(|region| region.kind == Kind::Program);
        if !code || program {
            continue;
        }
        let segments: Vec<Segment> = own
            .iter()
            .map(|region| Segment::new(snapshot, same, region))
            .collect();
        let file = segments[0].file;
        let nth = times.entry(file).or_default();
        images.push(Image {
            name: (file, *nth),
            base: first.start,
            written: written(snapshot, place, &segments),
            segments,
        });
        *nth += 1;
    }
    images.reverse();
    images
}

/// The first page that may be written or was: what ld.so protects again after it has relocated it
/// (RELRO) is anonymous by then.
fn written(snapshot: &Snapshot, place: usize, segments: &[Segment]) -> Option<u64> {
    let (start, end) = (segments.first()?.start, segments.last()?.end);
    let private = |word: &Word| !word.file() && snapshot.zero != Some(word.frame());
    let page = pages(snapshot, place, start, end)
        .find(|(_, word)| private(word))
        .map(|(page, _)| page);
    let writable = segments
        .iter()
        .find(|segment| segment.perms & WRITE != 0 || segment.file == NO_FILE)
        .map(|segment| segment.start);
    let first = [page, writable].into_iter().flatten().min()?;
    Some(first - start)
}
