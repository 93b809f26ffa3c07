// SPDX-License-Identifier: GPL-2.0-or-later
//! What processes that were not forked from one another would save by using each other's tables.
//!
//! No kernel does this for small pages. The rules here are three that others have, and the one that
//! Cohort's kernel is to have:
//!
//! - same address: BabelFish (ISCA'20, section III-B) shares a table among processes that map the
//!   same at the same address;
//! - one mapping: `huge_pmd_share()` (`mm/hugetlb.c`) lets one table serve different addresses, if
//!   they are congruent (equal modulo what a table covers) and one mapping covers all of its range;
//! - one file: the same, but several mappings of one file may cover the range, as those of a
//!   program's code and constants do;
//! - pieces: any mappings and holes, at most [`PIECES_MAX`] of them.
//!
//! By all of them a table is shared only while it is *clean*: with private data in its range each
//! process needs a table of its own. Frame numbers are not needed: equal pieces hold equal pages.

mod between;
mod images;
mod same;
mod shared;
mod view;

pub use between::{Between, File, Pair, between};
pub use same::Same;
pub use shared::Shared;

use super::group::roots;
use crate::model::Snapshot;
use images::Images;
use rayon::prelude::*;
use serde::Serialize;
use shared::shared;
use view::{Seen, Segment, View, pages, tables};

/// Most pieces of a table that Cohort's kernel is to compare in a page fault.
pub const PIECES_MAX: u32 = 4;

/// Tables by the number of their pieces: runs of pages that one mapping covers, neighbours with the
/// same file, place in it and rights as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pieces {
    /// One piece.
    pub one: u64,
    /// Two to [`PIECES_MAX`].
    pub up_to_4: u64,
    /// Five to eight.
    pub up_to_8: u64,
    /// Nine to 16.
    pub up_to_16: u64,
    /// More.
    pub more: u64,
    /// Most pieces of a table.
    pub most: u64,
}

impl Pieces {
    fn add(&mut self, pieces: u32) {
        *match pieces {
            ..=1 => &mut self.one,
            2..=PIECES_MAX => &mut self.up_to_4,
            5..=8 => &mut self.up_to_8,
            9..=16 => &mut self.up_to_16,
            _ => &mut self.more,
        } += 1;
        self.most = self.most.max(pieces.into());
    }
}

/// Tables of libraries in one layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Tables with a present entry of a library.
    pub tables: u64,
    /// Those left if clean ones are shared.
    pub left: u64,
    /// What is shared at equal addresses, of at most [`PIECES_MAX`] pieces.
    pub shared: Shared,
}

/// The libraries of a group in three layouts. Other memory is left out, the program too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Places {
    /// Different libraries.
    pub libraries: u64,
    /// Entries of pages of files in them, of all members.
    pub entries: u64,
    /// Where they lie. Processes that run under `setarch -R` have equal layouts.
    pub now: Layout,
    /// Each at one place in the group, one below the other.
    pub packed: Layout,
    /// The same with the first written page of a large one at the beginning of a table.
    pub boundary: Layout,
    /// How many are large enough for that.
    pub at_boundary: u64,
}

/// What the members of a group would share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Joins {
    /// Processes with all that were forked from them: fork shares within, joining between them.
    pub families: u64,
    /// Tables with a present entry.
    pub tables: u64,
    /// Of those, with at least one page of a file.
    pub file_tables: u64,
    /// Of those, without an anonymous page in memory or swap.
    pub clean: u64,
    /// The other ones: private data lies in their range.
    pub mixed: u64,
    /// Entries of pages of files.
    pub entries: u64,
    /// Pieces of clean tables.
    pub clean_pieces: Pieces,
    /// Pieces of mixed tables.
    pub mixed_pieces: Pieces,
    /// By equal address.
    pub same_address: Shared,
    /// Congruent, under one mapping.
    pub one_mapping: Shared,
    /// Congruent, under mappings of one file.
    pub one_file: Shared,
    /// Congruent, of at most [`PIECES_MAX`] pieces.
    pub pieces: Shared,
    /// Entries found if besides the first state of mixed tables was kept for newcomers to read
    /// through: congruent, of any number of pieces.
    pub mixed_found: u64,
    /// Libraries at places of the group's.
    pub places: Places,
}

/// Counts the processes `members` (places in the snapshot's list) among each other. `boundary` is
/// how many pages before the first written one make a library large.
pub fn count(snapshot: &Snapshot, same: &Same, members: &[usize], boundary: u64) -> Joins {
    let families = families(snapshot, members);
    let seen = seen(snapshot, same, members);
    let mut joins = Joins {
        families: different(&families),
        tables: seen.iter().map(|seen| seen.tables).sum(),
        ..Joins::default()
    };
    for view in views(&seen) {
        joins.file_tables += 1;
        joins.entries += u64::from(view.entries);
        if view.clean {
            joins.clean += 1;
            joins.clean_pieces.add(view.pieces);
        } else {
            joins.mixed += 1;
            joins.mixed_pieces.add(view.pieces);
        }
    }
    let by = |key: &dyn Fn(&View) -> Option<(u64, u64)>| shared(views(&seen), &families, key);
    joins.same_address = by(&|view| clean(view).then_some((view.signature, view.index)));
    joins.one_mapping =
        by(&|view| (clean(view) && view.one_mapping).then_some((view.signature, 0)));
    joins.one_file = by(&|view| (clean(view) && view.one_file).then_some((view.signature, 0)));
    joins.pieces = by(&congruent);
    joins.mixed_found = by(&|view| view.joinable.then_some((view.signature, 0))).found;
    joins.places = places(snapshot, same, members, &families, boundary);
    joins
}

fn places(
    snapshot: &Snapshot,
    same: &Same,
    members: &[usize],
    families: &[u32],
    boundary: u64,
) -> Places {
    let mut images = Images::new(snapshot, same, members);
    let layout = |seen: Vec<Seen>| {
        let shared = shared(views(&seen), families, placed);
        let tables: u64 = seen.iter().map(|seen| seen.tables).sum();
        Layout {
            tables,
            left: tables - shared.saved - shared.forked,
            shared,
        }
    };
    let now = images.seen(false);
    let entries = views(&now).map(|view| u64::from(view.entries)).sum();
    let now = layout(now);
    images.place(None);
    let packed = layout(images.seen(true));
    let at_boundary = images.place(Some(boundary));
    Places {
        libraries: images.count(),
        entries,
        now,
        packed,
        boundary: layout(images.seen(true)),
        at_boundary,
    }
}

/// May be shared as it is.
fn clean(view: &View) -> bool {
    view.clean && view.joinable
}

/// The rule of Cohort's kernel.
fn congruent(view: &View) -> Option<(u64, u64)> {
    (clean(view) && view.pieces <= PIECES_MAX).then_some((view.signature, 0))
}

/// The same where each library has one place.
fn placed(view: &View) -> Option<(u64, u64)> {
    congruent(view).map(|(signature, _)| (signature, view.index))
}

/// The tables of each member.
fn seen(snapshot: &Snapshot, same: &Same, members: &[usize]) -> Vec<Seen> {
    let each = members.par_iter().enumerate();
    each.map(|(member, &place)| {
        let segments: Vec<Segment> = snapshot.processes[place]
            .regions
            .iter()
            .map(|region| Segment::new(snapshot, same, region))
            .collect();
        let pages = pages(snapshot, place, 0, u64::MAX);
        tables(snapshot, member as u32, &segments, pages)
    })
    .collect()
}

fn views(seen: &[Seen]) -> impl Iterator<Item = &View> {
    seen.iter().flat_map(|seen| &seen.views)
}

/// For each member the process that it descends from without an exec.
fn families(snapshot: &Snapshot, members: &[usize]) -> Vec<u32> {
    let roots = roots(snapshot);
    members.iter().map(|&place| roots[place] as u32).collect()
}

fn different(families: &[u32]) -> u64 {
    let mut families = families.to_vec();
    families.sort_unstable();
    families.dedup();
    families.len() as u64
}
