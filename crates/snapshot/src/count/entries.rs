// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts entries and tables of a group of processes: which are duplicates of each other, and
//! what is left if each is kept once (BabelFish, Figure 9; EuroSys'16, section 3.1).

use super::kin::{Family, Kept, Left, Seat};
use crate::model::activity::Activity;
use crate::model::region::Region;
use crate::model::store::{TableId, hash_of};
use crate::model::word::Word;
use crate::model::{NEVER_SHARED, Placed, Snapshot};
use hashbrown::HashMap;
use rayon::prelude::*;
use serde::Serialize;

/// Entries by class. Every entry that is not empty is in exactly one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Entries {
    /// In memory, and equal in virtual page, frame and permissions to one of another process.
    pub shareable: u64,
    /// In memory, and equal to none.
    pub unshareable: u64,
    /// A huge page's, one level up. Units of 2 MB with pages of 4 KB.
    pub huge: u64,
    /// In swap.
    pub swapped: u64,
    /// Mapped more than once, but by whom cannot be told as frames are hidden.
    pub unknown: u64,
}

impl Entries {
    /// All entries.
    pub fn total(&self) -> u64 {
        self.shareable + self.unshareable + self.huge + self.swapped + self.unknown
    }
}

add_fields!(Entries: shareable, unshareable, huge, swapped, unknown);

/// Entries by what they map. Every entry is in exactly one count here as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Anonymous pages mapped once.
    pub private: u64,
    /// Anonymous pages mapped more often: to be copied when written.
    pub cow: u64,
    /// Merged pages.
    pub ksm: u64,
    /// Pages of files in private regions.
    pub file: u64,
    /// Pages of shared regions.
    pub shared: u64,
    /// The zero page.
    pub zero: u64,
    /// The kernel's pages and devices'.
    pub special: u64,
    /// Entries of swap.
    pub swapped: u64,
    /// Entries of huge pages.
    pub huge: u64,
}

impl Contents {
    /// All entries.
    pub fn total(&self) -> u64 {
        [
            self.private,
            self.cow,
            self.ksm,
            self.file,
            self.shared,
            self.zero,
            self.special,
            self.swapped,
            self.huge,
        ]
        .into_iter()
        .sum()
    }
}

add_fields!(Contents: private, cow, ksm, file, shared, zero, special, swapped, huge);

/// Last-level tables, each counted in every process that has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ptps {
    /// All.
    pub tables: u64,
    /// Equal in every entry to one of another process.
    pub identical: u64,
    /// Left if equal ones are kept once.
    pub distinct: u64,
    /// Left if processes share a table as long as their regions in it are the same and no
    /// anonymous page in it differs: what a cohort could do whose first process had touched all
    /// of its memory before it forked.
    pub lineages: u64,
    /// Left if Cohort's kernel had made these processes, each with the forks that there were.
    pub kept: u64,
    /// Tables one level up that they would do without besides: those of shared memory.
    pub uppers_saved: u64,
    /// Tables there would be with private writable data in tables of their own.
    pub apart: u64,
    /// Of those, equal to one of another process.
    pub apart_identical: u64,
    /// Of those, left if equal ones are kept once.
    pub apart_distinct: u64,
}

add_fields!(Ptps: tables, identical, distinct, lineages, kept, uppers_saved, apart, apart_identical, apart_distinct);

/// One process's part in a group's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Entries by class.
    pub entries: Entries,
    /// Entries by what they map.
    pub contents: Contents,
    /// Last-level tables.
    pub tables: u64,
    /// Of those, equal to another member's.
    pub identical: u64,
    /// Pages that the kernel charges to it.
    pub resident: u64,
    /// Its share of them, in 4096ths of a page.
    pub proportional: u64,
}

/// What the kernel told of the pages used in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// How many of each region.
    #[default]
    Regions,
    /// Besides, which frames.
    Frames,
}

/// Entries that were used in the interval. The kernel tells how many of a region's pages a process
/// used, and with luck which frames somebody did ([`crate::model::activity`]). So classes are known between two
/// bounds, equal where it used all that may have been used or nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Active {
    /// What this was made of.
    pub by: Watched,
    /// All, a huge page's as one.
    pub total: f64,
    /// Shareable, at least.
    pub shareable_low: f64,
    /// Shareable, at most.
    pub shareable_high: f64,
    /// Left if each is kept once: with the middle of the bounds, and where it is not known which
    /// frames were used with as many copies of an active shareable entry as of any shareable one.
    pub once: f64,
}

/// Counts of a group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Entries by class.
    pub entries: Entries,
    /// Different entries among the shareable ones.
    pub distinct: u64,
    /// Entries by what they map.
    pub contents: Contents,
    /// Last-level tables.
    pub ptps: Ptps,
    /// Pages that the kernel charges to the members.
    pub resident: u64,
    /// Their shares of them, in 4096ths of a page.
    pub proportional: u64,
    /// Faults that the members would not have taken, had Cohort's kernel forked them.
    pub faults_saved: u64,
    /// The parts of the members, in their order.
    pub members: Vec<Member>,
    /// Entries that were used, where an interval was watched.
    pub active: Option<Active>,
}

impl Counts {
    /// Entries left if each is kept once.
    pub fn once(&self) -> u64 {
        self.entries.total() - (self.entries.shareable - self.distinct)
    }
}

/// A table in a process, and what was found about it.
#[derive(Clone, Copy)]
struct Use {
    index: u64,
    id: TableId,
    member: u32,
    regions: u64,
    lineage: u64,
    shareable: u16,
    unknown: u16,
    identical: bool,
}

#[derive(Default)]
struct Sums {
    distinct: u64,
    ptps: Ptps,
    left: Left,
    /// Only where an interval was watched.
    regions: Vec<RegionSum>,
    /// Different entries among those that are shareable and may have been used.
    distinct_live: u64,
}

/// Entries of small pages of a region and a table that may have been used in the interval.
struct RegionSum {
    member: u32,
    region: u32,
    /// All.
    live: u32,
    /// Of those, shareable.
    equal: u32,
    /// Of those, used for sure, and by this process, as no other maps the page.
    own: u32,
}

/// Counts the processes `members` (places in the snapshot's list) among each other.
pub fn count(snapshot: &Snapshot, members: &[usize]) -> Counts {
    let mut uses: Vec<Use> = members
        .par_iter()
        .enumerate()
        .flat_map_iter(|(member, &place)| {
            snapshot.processes[place]
                .tables
                .iter()
                .map(move |table| Use {
                    index: snapshot.tables.index(table.id),
                    id: table.id,
                    member: member as u32,
                    regions: table.regions,
                    lineage: table.lineage,
                    shareable: 0,
                    unknown: 0,
                    identical: false,
                })
        })
        .collect();
    let family = Family::new(snapshot, members);
    uses.par_sort_unstable_by_key(|used| (used.index, used.id));
    let mut sums = uses
        .par_chunk_by_mut(|a, b| a.index == b.index)
        .fold(
            || (Sums::default(), Columns::default(), Kept::default()),
            |(mut sums, mut columns, mut kept), uses| {
                one_index(snapshot, members, uses, &mut columns, &mut sums);
                sums.left += kept.count(&family, &seats(snapshot, uses));
                (sums, columns, kept)
            },
        )
        .map(|(sums, _, _)| sums)
        .reduce(Sums::default, |mut all, some| {
            all.distinct += some.distinct;
            all.ptps += some.ptps;
            all.left += some.left;
            all.regions.extend(some.regions);
            all.distinct_live += some.distinct_live;
            all
        });
    sums.ptps.kept = sums.left.tables;
    sums.ptps.uppers_saved = family.uppers_saved();
    let mut counts = Counts {
        distinct: sums.distinct,
        ptps: sums.ptps,
        faults_saved: sums.left.faults_saved,
        members: vec![Member::default(); members.len()],
        ..Counts::default()
    };
    for used in &uses {
        add_use(snapshot, used, &mut counts.members[used.member as usize]);
    }
    for member in &counts.members {
        counts.entries += member.entries;
        counts.contents += member.contents;
        counts.resident += member.resident;
        counts.proportional += member.proportional;
    }
    if snapshot.interval > 0.0 {
        counts.active = Some(active(snapshot, members, &sums, &counts));
    }
    counts
}

/// Who has which table, but for huge pages and what cannot be told apart.
fn seats(snapshot: &Snapshot, uses: &[Use]) -> Vec<Seat> {
    let small = |used: &&Use| {
        let words = snapshot.tables.words(used.id);
        words.first().is_some_and(|word| !word.huge())
    };
    uses.iter()
        .filter(small)
        .map(|used| Seat {
            member: used.member,
            table: Placed {
                id: used.id,
                regions: if used.unknown > 0 {
                    NEVER_SHARED
                } else {
                    used.regions
                },
                lineage: used.lineage,
            },
        })
        .collect()
}

fn add_use(snapshot: &Snapshot, used: &Use, member: &mut Member) {
    let stats = snapshot.stats(used.id);
    let words = snapshot.tables.words(used.id).len() as u64;
    let (shareable, unknown) = (u64::from(used.shareable), u64::from(used.unknown));
    let (huge, swapped) = (u64::from(stats.huge), u64::from(stats.swapped));
    member.entries += Entries {
        shareable,
        unknown,
        huge,
        swapped,
        unshareable: words - shareable - unknown - huge - swapped,
    };
    member.contents += Contents {
        private: stats.private.into(),
        cow: stats.cow.into(),
        ksm: stats.ksm.into(),
        file: stats.file.into(),
        shared: stats.shared.into(),
        zero: stats.zero.into(),
        special: stats.special.into(),
        swapped,
        huge,
    };
    if words > huge {
        member.tables += 1;
        member.identical += u64::from(used.identical);
    }
    member.resident += u64::from(stats.resident);
    member.proportional += stats.proportional;
}

/// For each slot of a table index, how often which word is there.
///
/// The first word of a slot has a place of its own, as nearly all tables of an index agree on it;
/// others are sorted.
#[derive(Default)]
struct Columns {
    first: Vec<(u64, u32)>,
    used: Vec<u16>,
    others: Vec<(u64, u32)>,
}

impl Columns {
    fn clear(&mut self) {
        self.first.resize(Word::MAX_SLOTS, (0, 0));
        for slot in self.used.drain(..) {
            self.first[usize::from(slot)] = (0, 0);
        }
        self.others.clear();
    }

    fn add(&mut self, word: Word, times: u32) {
        let first = &mut self.first[word.slot()];
        if first.1 == 0 {
            *first = (word.0, times);
            self.used.push(word.slot() as u16);
        } else if first.0 == word.0 {
            first.1 += times;
        } else {
            self.others.push((word.0, times));
        }
    }

    /// Sums up; only then can be asked.
    fn finish(&mut self) {
        self.others.sort_unstable();
        self.others.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }

    fn times(&self, word: Word) -> u32 {
        let first = self.first[word.slot()];
        if first.0 == word.0 {
            return first.1;
        }
        match self.others.binary_search_by_key(&word.0, |other| other.0) {
            Ok(place) => self.others[place].1,
            Err(_) => 0,
        }
    }

    /// Different words that are there at least twice, of those that `wanted` picks.
    fn repeated(&self, wanted: impl Fn(Word) -> bool) -> u64 {
        let first = self.used.iter().map(|slot| self.first[usize::from(*slot)]);
        let all = first.chain(self.others.iter().copied());
        all.filter(|(word, times)| *times > 1 && wanted(Word(*word)))
            .count() as u64
    }
}

fn one_index(
    snapshot: &Snapshot,
    members: &[usize],
    uses: &mut [Use],
    columns: &mut Columns,
    sums: &mut Sums,
) {
    let unknown = |word: &Word| word.candidate() && word.frame() == 0;
    let known = |word: &&Word| word.candidate() && word.frame() != 0;
    let alone = uses.first().map(|used| used.id) == uses.last().map(|used| used.id);
    columns.clear();
    for run in uses.chunk_by(|a, b| a.id == b.id) {
        let words = snapshot.tables.words(run[0].id);
        for word in words.iter().filter(known) {
            columns.add(*word, run.len() as u32);
        }
    }
    columns.finish();
    sums.distinct += columns.repeated(|_| true);
    let activity = snapshot.activity.as_ref();
    if activity.is_some() {
        sums.distinct_live += columns.repeated(|word| live(snapshot, activity, word));
    }
    let mut parts = Parts::default();
    for run in uses.chunk_by_mut(|a, b| a.id == b.id) {
        let words = snapshot.tables.words(run[0].id);
        let shareable = if alone {
            // Equal tables only: all or nothing.
            words.iter().filter(known).count() * usize::from(run.len() > 1)
        } else {
            words
                .iter()
                .filter(known)
                .filter(|word| columns.times(**word) > 1)
                .count()
        };
        if snapshot.interval > 0.0 {
            let may: Vec<(u64, Word)> = words
                .iter()
                .filter(|word| live(snapshot, activity, **word))
                .map(|word| (run[0].index * snapshot.slots() + word.slot() as u64, *word))
                .collect();
            let equal = |word: &Word| known(&word) && columns.times(*word) > 1;
            let own = |word: &Word| {
                word.exclusive() && activity.is_some_and(|seen| seen.used.contains(word.frame()))
            };
            for used in run.iter() {
                let regions = &snapshot.processes[members[used.member as usize]].regions;
                by_region(&may, regions, |region, words| {
                    let count = |pick: &dyn Fn(&Word) -> bool| {
                        words.iter().filter(|(_, word)| pick(word)).count() as u32
                    };
                    sums.regions.push(RegionSum {
                        member: used.member,
                        region,
                        live: words.len() as u32,
                        equal: count(&equal),
                        own: count(&own),
                    });
                });
            }
        }
        let unknown = words.iter().filter(|word| unknown(word)).count();
        let times = run.len() as u64;
        // What cannot be told apart is not called equal.
        let identical = times > 1 && unknown == 0;
        for used in run.iter_mut() {
            used.shareable = shareable as u16;
            used.unknown = unknown as u16;
            used.identical = identical;
        }
        if words.iter().all(|word| word.huge()) {
            continue;
        }
        sums.ptps.tables += times;
        sums.ptps.identical += times * u64::from(identical);
        sums.ptps.distinct += if unknown > 0 { times } else { 1 };
        parts.add(words, times, unknown > 0);
        for used in run.iter() {
            parts.lineages.push(if unknown > 0 {
                None
            } else {
                Some(used.lineage)
            });
        }
    }
    parts.finish(&mut sums.ptps);
}

/// The entry of a small page that may have been used in the interval, and that smaps counts if it
/// was: it leaves the zero page out.
fn live(snapshot: &Snapshot, activity: Option<&Activity>, word: Word) -> bool {
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
fn active(snapshot: &Snapshot, members: &[usize], sums: &Sums, counts: &Counts) -> Active {
    let mut found: HashMap<(u32, u32), [f64; 3]> = HashMap::new();
    for sum in &sums.regions {
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
            // Pages of huge pages are used as a whole.
            let used_small = used.min(small);
            let huge = ((used - used_small) / snapshot.slots() as f64).min(f64::from(region.huge));
            // Somebody else who watches idle pages can take some from us; which is not known.
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
    active.once = match snapshot.activity {
        Some(_) => active.total - middle + middle.min(sums.distinct_live as f64),
        None => {
            let copies = 1.0 - counts.distinct as f64 / (counts.entries.shareable as f64).max(1.0);
            active.total - middle * copies
        }
    };
    active
}

/// Code and data of the tables of an index, apart from each other.
#[derive(Default)]
struct Parts {
    parts: HashMap<(bool, u64), u64>,
    alone: u64,
    lineages: Vec<Option<u64>>,
}

impl Parts {
    fn add(&mut self, words: &[Word], times: u64, unknown: bool) {
        let of_data = words.iter().filter(|word| word.data()).count();
        for data in [false, true] {
            let count = if data { of_data } else { words.len() - of_data };
            if count == 0 {
                continue;
            }
            let hash = if count == words.len() {
                hash_of(0, words)
            } else {
                let part: Vec<Word> = words
                    .iter()
                    .copied()
                    .filter(|word| word.data() == data)
                    .collect();
                hash_of(0, &part)
            };
            if unknown {
                self.alone += times;
            } else {
                *self.parts.entry((data, hash)).or_default() += times;
            }
        }
    }

    fn finish(mut self, ptps: &mut Ptps) {
        for times in self.parts.values() {
            ptps.apart += times;
            ptps.apart_distinct += 1;
            ptps.apart_identical += times * u64::from(*times > 1);
        }
        ptps.apart += self.alone;
        ptps.apart_distinct += self.alone;
        self.lineages.sort_unstable();
        let unknown = self
            .lineages
            .iter()
            .filter(|lineage| lineage.is_none())
            .count();
        self.lineages.dedup();
        let different = self.lineages.iter().flatten().count();
        ptps.lineages += (different + unknown) as u64;
    }
}
