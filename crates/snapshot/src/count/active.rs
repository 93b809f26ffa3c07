// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts the entries that were used in an interval.

use crate::model::Snapshot;
use crate::model::region::Region;
use crate::model::store::TableId;
use crate::model::word::Word;
use hashbrown::HashMap;
use serde::Serialize;

/// The kernel's report about the pages used in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// Their number per region (smaps).
    #[default]
    Regions,
    /// In addition, which frames (idle page tracking).
    Frames,
}

/// Entries that were used in the interval.
///
/// The kernel reports how many of a region's pages a process used and, where it tracks idle pages,
/// which frames any process used ([`crate::model::activity`]). Classes therefore have two bounds,
/// which are equal where a process used all pages that may have been used, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Active {
    /// How exact the bounds are.
    pub by: Watched,
    /// All; a huge page counts as one.
    pub total: f64,
    /// Shareable, at least.
    pub shareable_low: f64,
    /// Shareable, at most.
    pub shareable_high: f64,
    /// Left if each is kept once. Assumes the middle of the bounds and, where used frames are not
    /// known, as many copies of an active shareable entry as of any shareable one.
    pub once: f64,
}

/// Entries of small pages in one region and one table that may have been used in the interval.
pub(super) struct RegionSum {
    member: u32,
    region: u32,
    /// All.
    live: u32,
    /// Of those, shareable.
    equal: u32,
    /// Of those, certainly used by this process: no other maps the page.
    own: u32,
}

/// Different entries among the shareable ones.
pub(super) enum Distinct {
    /// Of those that may have been used, how many.
    Live(u64),
    /// Which share of all; used where it is not known which frames were used.
    Share(f64),
}

/// Sums up a table for each of its `users`: their places among the members and in the snapshot.
/// `equal` says which entries are shareable.
pub(super) fn sum_regions(
    snapshot: &Snapshot,
    users: impl Iterator<Item = (u32, usize)>,
    table: TableId,
    equal: impl Fn(&Word) -> bool,
    sums: &mut Vec<RegionSum>,
) {
    let base = snapshot.tables.index(table) * snapshot.slots();
    let words = snapshot.tables.words(table).iter();
    let may: Vec<(u64, Word)> = words
        .filter(|word| live(snapshot, **word))
        .map(|word| (base + word.slot() as u64, *word))
        .collect();
    let activity = snapshot.activity.as_ref();
    let own = |word: &Word| {
        word.exclusive() && activity.is_some_and(|seen| seen.used.contains(word.frame()))
    };
    for (member, place) in users {
        by_region(&may, &snapshot.processes[place].regions, |region, words| {
            let count = |pick: &dyn Fn(&Word) -> bool| {
                words.iter().filter(|(_, word)| pick(word)).count() as u32
            };
            sums.push(RegionSum {
                member,
                region,
                live: words.len() as u32,
                equal: count(&equal),
                own: count(&own),
            });
        });
    }
}

/// True for the entry of a small page that may have been used in the interval. False for the zero
/// page, which smaps does not count.
pub(super) fn live(snapshot: &Snapshot, word: Word) -> bool {
    let activity = snapshot.activity.as_ref();
    let idle = || activity.is_some_and(|seen| seen.idle.contains(word.frame()));
    !word.huge() && !word.swapped() && snapshot.zero != Some(word.frame()) && !idle()
}

/// Calls `visit` with the numbers of those of `regions` that words (sorted by page) are in, and
/// these.
fn by_region(
    words: &[(u64, Word)],
    regions: &[Region],
    mut visit: impl FnMut(u32, &[(u64, Word)]),
) {
    let mut rest = words;
    while let Some(&(page, _)) = rest.first() {
        let number = regions.partition_point(|region| region.end <= page);
        let Some(region) = regions.get(number) else {
            return;
        };
        let inside = rest.partition_point(|(page, _)| *page < region.end).max(1);
        visit(number as u32, &rest[..inside]);
        rest = &rest[inside..];
    }
}

/// See [`Active`].
pub(super) fn active(
    snapshot: &Snapshot,
    members: &[usize],
    sums: &[RegionSum],
    distinct: Distinct,
) -> Active {
    let mut found: HashMap<(u32, u32), [f64; 3]> = HashMap::new();
    for sum in sums {
        let all = found.entry((sum.member, sum.region)).or_default();
        for (all, some) in all.iter_mut().zip([sum.live, sum.equal, sum.own]) {
            *all += f64::from(some);
        }
    }
    let mut active = Active {
        by: match snapshot.activity {
            Some(_) => Watched::Frames,
            None => Watched::Regions,
        },
        ..Active::default()
    };
    for (member, &place) in members.iter().enumerate() {
        for (number, region) in snapshot.processes[place].regions.iter().enumerate() {
            let used = f64::from(region.referenced.unwrap_or(0));
            let [small, equal, own] = found
                .get(&(member as u32, number as u32))
                .copied()
                .unwrap_or_default();
            // The kernel keeps one accessed bit per huge page.
            let used_small = used.min(small);
            let huge = ((used - used_small) / snapshot.slots() as f64).min(f64::from(region.huge));
            // Another watcher of idle pages (DAMON) may have cleared bits first.
            let more = match region.huge {
                0 => used - used_small,
                _ => 0.0,
            };
            active.total += used_small + huge + more;
            active.shareable_low += (equal + used_small - small).max(0.0);
            active.shareable_high += equal.min((used_small - own).max(0.0)) + more;
        }
    }
    let middle = (active.shareable_low + active.shareable_high) / 2.0;
    active.once = match distinct {
        Distinct::Live(distinct) => active.total - middle + middle.min(distinct as f64),
        Distinct::Share(share) => active.total - middle * (1.0 - share),
    };
    active
}
