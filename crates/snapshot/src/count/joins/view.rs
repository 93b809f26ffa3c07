// SPDX-License-Identifier: GPL-2.0-or-later
//! A last-level table as somebody who might join it sees it.

use crate::model::Snapshot;
use crate::model::region::{FileId, Kind, Region};
use crate::model::store::hash;
use crate::model::word::Word;

use super::same::Same;

/// [`Segment::file`] of memory that is no file's.
pub(super) const NO_FILE: FileId = FileId::MAX;

/// Part of an address space with equal attributes. Addresses are in pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub start: u64,
    pub end: u64,
    /// Of the first page in the file, in pages; 0 without a file.
    pub offset: u64,
    pub file: FileId,
    pub perms: u8,
    /// Its pages may stand in a table that strangers use: not a stack's, a driver's or the kernel's.
    pub joinable: bool,
}

impl Segment {
    pub(super) fn new(snapshot: &Snapshot, same: &Same, region: &Region) -> Segment {
        let is_file = snapshot.files[region.file as usize].is_file();
        Segment {
            start: region.start,
            end: region.end,
            offset: if is_file { region.offset } else { 0 },
            file: if is_file {
                same.of(region.file)
            } else {
                NO_FILE
            },
            perms: region.perms,
            // The vdso and its data differ between time namespaces.
            joinable: region.shareable && region.kind != Kind::Special,
        }
    }

    /// `next` is the same mapping, though the kernel has it as two.
    fn goes_on(&self, next: &Segment) -> bool {
        let offset = match self.file {
            NO_FILE => 0,
            _ => self.offset + (self.end - self.start),
        };
        self.end == next.start
            && (self.file, self.perms, offset) == (next.file, next.perms, next.offset)
    }
}

/// A table with at least one page of a file.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Place of the process in the group's list.
    pub member: u32,
    /// Address over what a table covers.
    pub index: u64,
    /// Equal where the same pieces of the same files lie at the same places of the range.
    pub signature: u64,
    /// Runs of pages that one mapping covers with equal attributes.
    pub pieces: u32,
    /// None of the segments forbids it.
    pub joinable: bool,
    /// One mapping covers the range.
    pub one_mapping: bool,
    /// Mappings of one file cover the range.
    pub one_file: bool,
    /// It holds no anonymous page, in memory or in swap.
    pub clean: bool,
    /// Entries of pages of files.
    pub entries: u32,
    /// The file with most of them.
    pub file: FileId,
    /// One bit per entry of such a page.
    pub bits: Box<[u64]>,
}

/// The tables of one process.
#[derive(Default)]
pub(super) struct Seen {
    /// Tables with a present entry.
    pub tables: u64,
    /// Those with a page of a file.
    pub views: Vec<View>,
}

/// Entries of a process from page `start` up to `end`, by address.
pub(super) fn pages(
    snapshot: &Snapshot,
    place: usize,
    start: u64,
    end: u64,
) -> impl Iterator<Item = (u64, Word)> {
    let (tables, slots) = (&snapshot.processes[place].tables, snapshot.slots());
    let first =
        tables.partition_point(|table| (snapshot.tables.index(table.id) + 1) * slots <= start);
    tables[first..]
        .iter()
        .map(move |table| (snapshot.tables.index(table.id) * slots, table.id))
        .take_while(move |(base, _)| *base < end)
        .flat_map(move |(base, id)| {
            let words = snapshot.tables.words(id).iter();
            words.map(move |word| (base + word.slot() as u64, *word))
        })
        .filter(move |(page, _)| (start..end).contains(page))
}

/// The tables that hold `pages`, which are sorted and lie in `segments`, which are sorted as well.
pub(super) fn tables(
    snapshot: &Snapshot,
    member: u32,
    segments: &[Segment],
    pages: impl Iterator<Item = (u64, Word)>,
) -> Seen {
    let mut seen = Seen::default();
    let mut pages = pages.filter(|(_, word)| !word.huge()).peekable();
    let mut table = Vec::new();
    let slots = snapshot.slots();
    while let Some((first, _)) = pages.peek() {
        let index = first / slots;
        table.clear();
        while let Some(page) = pages.next_if(|(page, _)| page / slots == index) {
            table.push(page);
        }
        seen.tables += u64::from(table.iter().any(|(_, word)| !word.swapped()));
        seen.views
            .extend(view(snapshot, member, segments, index, &table));
    }
    seen
}

/// None where no page is a file's.
fn view(
    snapshot: &Snapshot,
    member: u32,
    segments: &[Segment],
    index: u64,
    pages: &[(u64, Word)],
) -> Option<View> {
    let slots = snapshot.slots();
    let (base, end) = (index * slots, (index + 1) * slots);
    let first = segments.partition_point(|segment| segment.end <= base);
    let behind = segments.partition_point(|segment| segment.start < end);
    let segments = &segments[first..behind.max(first)];
    let mut view = View {
        member,
        index,
        signature: 0,
        pieces: 0,
        joinable: segments.iter().all(|segment| segment.joinable),
        one_mapping: segments
            .first()
            .is_some_and(|only| only.start <= base && only.end >= end),
        one_file: false,
        clean: true,
        entries: 0,
        file: NO_FILE,
        bits: vec![0; (slots as usize).div_ceil(64)].into(),
    };
    let mut rest = pages;
    let mut most = 0;
    for segment in segments {
        let (own, others) = rest.split_at(rest.partition_point(|(page, _)| *page < segment.end));
        rest = others;
        let mut files = 0;
        for (page, word) in own {
            // Bit 61 of pagemap is set for the vdso's page as well, which is in no page cache.
            if word.file() && segment.file != NO_FILE {
                let slot = (page - base) as usize;
                view.bits[slot / 64] |= 1 << (slot % 64);
                files += 1;
            }
            // A driver's frames have neither bit: their segment is not joinable anyway. The zero
            // page is what a read of an empty place leaves, and a write replaces it.
            let zero = !word.swapped() && snapshot.zero == Some(word.frame());
            view.clean &= word.file() || zero;
        }
        view.entries += files;
        if files > most {
            (most, view.file) = (files, segment.file);
        }
    }
    if view.entries == 0 {
        return None;
    }
    let pieces = pieces(segments, base, end);
    view.pieces = pieces.len() as u32;
    let mapped: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    view.one_file = mapped == slots && pieces.iter().all(|piece| piece.file == view.file);
    let numbers: Vec<u64> = pieces
        .iter()
        .flat_map(|piece| {
            let what = u64::from(piece.file) << 8 | u64::from(piece.perms);
            [piece.start - base, piece.end - base, piece.offset, what]
        })
        .collect();
    view.signature = hash(&numbers);
    Some(view)
}

/// The segments within a table's range, neighbours with equal attributes as one: where a mapping
/// was split and not merged again differs between processes.
fn pieces(segments: &[Segment], base: u64, end: u64) -> Vec<Segment> {
    let mut pieces: Vec<Segment> = Vec::new();
    for segment in segments {
        let start = segment.start.max(base);
        let offset = match segment.file {
            NO_FILE => 0,
            _ => segment.offset + (start - segment.start),
        };
        let own = Segment {
            start,
            end: segment.end.min(end),
            offset,
            ..*segment
        };
        match pieces.last_mut() {
            Some(last) if last.goes_on(&own) => last.end = own.end,
            _ => pieces.push(own),
        }
    }
    pieces
}
