// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts entries and tables of a group of processes: which are duplicates, and how many are left
//! if each is kept once (BabelFish, Figure 9; EuroSys'16, section 3.1).

use super::active::{self, Active, Distinct, RegionSum, live};
use super::columns::Columns;
use super::kin::{Family, Kept, Left, Seat};
use super::parts::Parts;
use crate::model::store::TableId;
use crate::model::word::Word;
use crate::model::{NEVER_SHARED, Placed, Snapshot};
use rayon::prelude::*;
use serde::Serialize;

/// Entries by class. Every entry that is not empty is in exactly one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Entries {
    /// In memory, and equal in virtual page, frame and permissions to one of another process.
    pub shareable: u64,
    /// In memory, and equal to none.
    pub unshareable: u64,
    /// Entries of huge pages, one level up: 2 MB each with pages of 4 KB.
    pub huge: u64,
    /// In swap.
    pub swapped: u64,
    /// Mapped more than once, but not comparable as frames are hidden.
    pub unknown: u64,
}

impl Entries {
    /// All entries.
    pub fn total(&self) -> u64 {
        self.shareable + self.unshareable + self.huge + self.swapped + self.unknown
    }
}

add_fields!(Entries: shareable, unshareable, huge, swapped, unknown);

/// Entries by what they map. Every entry is in exactly one count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Anonymous pages mapped once.
    pub private: u64,
    /// Anonymous pages mapped more than once: copied on write.
    pub cow: u64,
    /// Merged pages.
    pub ksm: u64,
    /// Pages of files in private regions.
    pub file: u64,
    /// Pages of shared regions.
    pub shared: u64,
    /// The zero page.
    pub zero: u64,
    /// Pages of the kernel and of devices.
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
    /// Left if processes share a table while their regions in it are the same and no anonymous
    /// page in it differs: the best case, where the first process touches all of its memory
    /// before it forks.
    pub lineages: u64,
    /// Left had Cohort's kernel forked these processes.
    pub kept: u64,
    /// Tables one level up saved in addition: those of shared memory.
    pub uppers_saved: u64,
    /// Tables if private writable data had tables of its own.
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
    /// Pages charged to the process (RSS).
    pub resident: u64,
    /// Its proportional share (PSS), in 4096ths of a page.
    pub proportional: u64,
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
    /// Pages charged to the members (RSS).
    pub resident: u64,
    /// Their proportional shares (PSS), in 4096ths of a page.
    pub proportional: u64,
    /// Faults avoided had Cohort's kernel forked the members.
    pub faults_saved: u64,
    /// One per member, in their order.
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
        let distinct = match snapshot.activity {
            Some(_) => Distinct::Live(sums.distinct_live),
            None => {
                Distinct::Share(counts.distinct as f64 / (counts.entries.shareable as f64).max(1.0))
            }
        };
        counts.active = Some(active::active(snapshot, members, &sums.regions, distinct));
    }
    counts
}

/// The users of each table, without huge pages. Tables with entries that cannot be compared are
/// never shared.
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
    if snapshot.activity.is_some() {
        sums.distinct_live += columns.repeated(|word| live(snapshot, word));
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
            let equal = |word: &Word| known(&word) && columns.times(*word) > 1;
            let users = run
                .iter()
                .map(|used| (used.member, members[used.member as usize]));
            active::sum_regions(snapshot, users, run[0].id, equal, &mut sums.regions);
        }
        let unknown = words.iter().filter(|word| unknown(word)).count();
        let times = run.len() as u64;
        // Entries that cannot be compared are not called equal.
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
    let apart = parts.finish();
    sums.ptps.apart += apart.tables;
    sums.ptps.apart_identical += apart.identical;
    sums.ptps.apart_distinct += apart.distinct;
    sums.ptps.lineages += apart.lineages;
}
