// SPDX-License-Identifier: GPL-2.0-or-later
//! What Cohort's kernel would have shared between processes that were forked from one another.
//!
//! The rules are those of `mm/cohort/share.c`, `fault.c` and `upper.c`. A fork shares the tables that
//! the parent has at that moment, if every region in their range may be shared. A process leaves a
//! table when it writes to private memory in its range, or maps something else there. A snapshot
//! shows forks only by what they leave (see [`crate::model::parents`]); anonymous pages that differ
//! were written after the fork.

use crate::model::parents::inherited;
use crate::model::store::{TableId, hash};
use crate::model::word::SHARED;
use crate::model::{NEVER_SHARED, Placed, Snapshot};
use hashbrown::{HashMap, HashSet};

/// A table in a process, for [`Kept`].
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// Place of the process in the group's list.
    pub member: u32,
    /// The table there.
    pub table: Placed,
}

/// Smallest part of an upper table's range that must be mapped, in last-level tables
/// (COHORT_UPPER_MIN in mm/cohort/upper.c).
const UPPER_MIN: u64 = 32;

/// How the members of a group descend from one another, and which upper tables they share.
pub struct Family<'a> {
    snapshot: &'a Snapshot,
    /// Places in the snapshot's list.
    members: &'a [usize],
    parents: Vec<Option<u32>>,
    /// For each member the ranges of upper tables that may be shared as a whole, with what is
    /// mapped there. Where parent and child agree, the child uses the parent's.
    uppers: Vec<HashMap<u64, u64>>,
}

impl<'a> Family<'a> {
    /// `members` are places in the snapshot's list.
    pub fn new(snapshot: &'a Snapshot, members: &'a [usize]) -> Family<'a> {
        let numbers: HashMap<usize, u32> = members.iter().copied().zip(0..).collect();
        let parents = members
            .iter()
            .map(|&place| numbers.get(&snapshot.parents[place]?).copied())
            .collect();
        let mut ranges = HashSet::new();
        for &place in members {
            let mut last = u64::MAX;
            for table in &snapshot.processes[place].tables {
                let range = snapshot.tables.index(table.id) / snapshot.slots();
                if range != last && upper(snapshot, place, range).is_some() {
                    ranges.insert(range);
                }
                last = range;
            }
        }
        let uppers = members.iter().map(|&place| {
            let mapped = |&range: &u64| Some((range, upper(snapshot, place, range)?));
            ranges.iter().filter_map(mapped).collect()
        });
        Family {
            snapshot,
            members,
            parents,
            uppers: uppers.collect(),
        }
    }

    /// The oldest member that shares this one's upper table; `None` if it may not be shared.
    fn first_user(&self, member: u32, range: u64) -> Option<u32> {
        let mapped = self.uppers[member as usize].get(&range)?;
        let mut first = member;
        // Bounded: a damaged capture may hold a circle.
        for _ in 0..self.members.len() {
            match self.parents[first as usize] {
                Some(parent) if self.uppers[parent as usize].get(&range) == Some(mapped) => {
                    first = parent;
                }
                _ => break,
            }
        }
        Some(first)
    }

    /// Upper tables that sharing saves.
    pub fn uppers_saved(&self) -> u64 {
        let saved = |member: u32| {
            let ranges = self.uppers[member as usize].keys();
            ranges.filter(move |range| self.first_user(member, **range) != Some(member))
        };
        (0..self.members.len() as u32).flat_map(saved).count() as u64
    }
}

/// The pages of a process in the range of an upper table, if it may be shared as a whole:
/// shared memory alone, and enough of it (range_shareable() in mm/cohort/upper.c).
fn upper(snapshot: &Snapshot, place: usize, range: u64) -> Option<u64> {
    let slots = snapshot.slots();
    let (base, end) = (range * slots * slots, (range + 1) * slots * slots);
    let regions = &snapshot.processes[place].regions;
    let first = regions.partition_point(|region| region.end <= base);
    let (mut mapped, mut numbers) = (0, Vec::new());
    for region in regions[first..]
        .iter()
        .take_while(|region| region.start < end)
    {
        if region.perms & SHARED == 0 || !region.shareable || region.huge > 0 {
            return None;
        }
        let (from, to) = (region.start.max(base), region.end.min(end));
        mapped += to - from;
        let offset = region.offset.wrapping_add(from - region.start);
        numbers.extend([from, to, offset, region.mapped()]);
    }
    (mapped >= UPPER_MIN * slots).then(|| hash(&numbers))
}

/// The rest of the tables of one index, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Tables.
    pub tables: u64,
    /// Faults that sharing would have avoided.
    pub faults_saved: u64,
}

add_fields!(Left: tables, faults_saved);

/// The owner of a table after forks by Cohort's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    /// The member, and its descendants that have not left the table.
    Member(u32),
    /// Children that agree with each other but not with their parent.
    Children(Option<u32>, u64, u64),
    /// All users of an upper table shared since that member's forks.
    Upper(u32),
}

/// The users of a table, as far as faults are concerned.
#[derive(Default)]
struct Users {
    /// Windows of 64 KB with pages that fork does not copy, summed over the users.
    windows: u64,
    /// One bit per such window that any user has.
    union: Vec<u64>,
}

/// Counts the tables of one index that are left after forks by Cohort's kernel, and the faults that
/// these forks avoid.
///
/// A child uses its parent's table if both have the same regions in its range, all of which may be
/// shared, and the same anonymous pages. Children of one parent that agree with each other but not
/// with it share a table that the parent has left, if they visibly inherited it: the parent has a
/// table of the same regions, or they have an anonymous page in common. A shared upper table has
/// one table for all.
///
/// A fault on a page of a file maps the 64 KB around it, as far as in memory. Faults are therefore
/// counted as windows of that size, in regions that fork does not copy. A shared table takes each
/// once. A process that left its parent's table avoided the windows in which both have a page.
#[derive(Default)]
pub struct Kept {
    /// Per member: 1 + the place of its seat, or 0.
    seats: Vec<u32>,
    owners: HashMap<Owner, Users>,
    bits: Vec<u64>,
}

impl Kept {
    /// `seats` are the tables of one index, sorted by name.
    pub fn count(&mut self, family: &Family, seats: &[Seat]) -> Left {
        self.seats.clear();
        self.seats.resize(family.members.len(), 0);
        self.owners.clear();
        for (place, seat) in seats.iter().enumerate() {
            self.seats[seat.member as usize] = place as u32 + 1;
        }
        let snapshot = family.snapshot;
        let mut left = Left::default();
        let mut last = None;
        let mut windows = 0;
        for seat in seats {
            let (owner, parents) = self.owner(family, seats, seat);
            if last != Some((seat.table.id, seat.table.regions)) {
                last = Some((seat.table.id, seat.table.regions));
                let place = family.members[seat.member as usize];
                windows = faulted(snapshot, place, seat.table.id, &mut self.bits);
            }
            let found = self.owners.len();
            let users = self.owners.entry(owner).or_default();
            users.windows += windows;
            users
                .union
                .resize(self.bits.len().max(users.union.len()), 0);
            for (all, own) in users.union.iter_mut().zip(&self.bits) {
                *all |= own;
            }
            // The first user of a table that its parent has left.
            if let (Some(theirs), true) = (parents, self.owners.len() > found) {
                if windows > 0 {
                    left.faults_saved += common_windows(family, seat, &theirs);
                }
            }
        }
        left.tables = self.owners.len() as u64;
        for users in self.owners.values() {
            let once: u32 = users.union.iter().map(|bits| bits.count_ones()).sum();
            left.faults_saved += users.windows - u64::from(once);
        }
        left
    }

    /// The owner of a seat's table, and the parent's table that it was at the fork.
    fn owner(&self, family: &Family, seats: &[Seat], seat: &Seat) -> (Owner, Option<Seat>) {
        let range = family.snapshot.tables.index(seat.table.id) / family.snapshot.slots();
        if let Some(first) = family.first_user(seat.member, range) {
            return (Owner::Upper(first), None);
        }
        let mut seat = *seat;
        if seat.table.regions == NEVER_SHARED {
            return (Owner::Member(seat.member), None);
        }
        // Bounded: a damaged capture may hold a circle.
        for _ in 0..seats.len() {
            let parent = family.parents[seat.member as usize];
            let theirs = parent
                .and_then(|parent| self.seats[parent as usize].checked_sub(1))
                .map(|place| seats[place as usize])
                .filter(|theirs| theirs.table.regions == seat.table.regions);
            match theirs {
                Some(theirs) if theirs.table.lineage == seat.table.lineage => seat = theirs,
                None if !has_inherited(family.snapshot, seat.table.id) => break,
                _ => {
                    let table = seat.table;
                    return (
                        Owner::Children(parent, table.regions, table.lineage),
                        theirs,
                    );
                }
            }
        }
        (Owner::Member(seat.member), None)
    }
}

fn has_inherited(snapshot: &Snapshot, id: TableId) -> bool {
    let zero = snapshot.zero.unwrap_or(u64::MAX);
    let words = snapshot.tables.words(id);
    words
        .iter()
        .any(|word| inherited(word) && word.frame() != zero)
}

/// Marks the windows of 64 KB in which a process's table has pages of regions that fork does not
/// copy. Returns their number.
fn faulted(snapshot: &Snapshot, place: usize, id: TableId, bits: &mut Vec<u64>) -> u64 {
    let (size, slots) = (window(snapshot), snapshot.slots());
    let base = snapshot.tables.index(id) * slots;
    let regions = &snapshot.processes[place].regions;
    let first = regions.partition_point(|region| region.end <= base);
    let mut rest = snapshot.tables.words(id);
    bits.clear();
    bits.resize((slots as usize / size).div_ceil(64), 0);
    for region in &regions[first..] {
        if rest.is_empty() || region.start >= base + slots {
            break;
        }
        let end = (region.end - base).min(slots) as usize;
        let (own, behind) = rest.split_at(rest.partition_point(|word| word.slot() < end));
        rest = behind;
        if !region.copied() {
            for word in own.iter().filter(|word| !word.swapped() && !word.huge()) {
                let number = word.slot() / size;
                bits[number / 64] |= 1 << (number % 64);
            }
        }
    }
    bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
}

/// Pages that a fault on a page of a file maps.
fn window(snapshot: &Snapshot) -> usize {
    ((64 << 10) / snapshot.page).max(1) as usize
}

/// Number of windows in which both tables have a page in common, in regions that fork does not copy.
fn common_windows(family: &Family, seat: &Seat, theirs: &Seat) -> u64 {
    let snapshot = family.snapshot;
    let (tables, size) = (&snapshot.tables, window(snapshot));
    let regions = &snapshot.processes[family.members[theirs.member as usize]].regions;
    let base = tables.index(seat.table.id) * snapshot.slots();
    let mut others = tables.words(theirs.table.id).iter().peekable();
    let mut last = usize::MAX;
    let mut found = 0;
    let own = tables.words(seat.table.id).iter();
    for word in own.filter(|word| !word.swapped() && !word.huge()) {
        while others.next_if(|other| other.slot() < word.slot()).is_some() {}
        let window = word.slot() / size;
        if window == last || others.peek().is_none_or(|other| *other != word) {
            continue;
        }
        let page = base + word.slot() as u64;
        let number = regions.partition_point(|region| region.end <= page);
        if regions.get(number).is_some_and(|region| !region.copied()) {
            last = window;
            found += 1;
        }
    }
    found
}
