// SPDX-License-Identifier: GPL-2.0-or-later
//! Who was forked from whom, and what Cohort's kernel would have shared between them.
//!
//! The rules are those of `mm/cohort/share.c` and `fault.c` of the kernel: a fork shares the tables
//! that the parent has at that moment, if every region in their range may be shared; a process
//! leaves a table when it writes to private memory in its range, or maps something else there. A
//! snapshot does not show forks, but what is left of them: anonymous pages that two processes have
//! in one frame at one address come from a fork, and those that differ were written after it.

use crate::model::{Frames, Placed, Process, Snapshot};
use crate::region::Region;
use crate::store::{TableId, Tables};
use crate::word::{SHARED, Word};
use hashbrown::HashMap;

/// For each process the one that it was forked from without an exec, if that is in the snapshot.
///
/// Parent and child run the same program, and where frames are seen have an anonymous page in
/// common: a program that starts itself again has none.
pub fn parents(processes: &[Process], tables: &Tables, frames: Frames) -> Vec<Option<usize>> {
    let places: HashMap<i32, usize> = processes
        .iter()
        .enumerate()
        .map(|(place, process)| (process.identity.pid, place))
        .collect();
    processes
        .iter()
        .enumerate()
        .map(|(place, process)| {
            let own = &process.identity;
            let parent = *places.get(&own.ppid)?;
            let theirs = &processes[parent].identity;
            // A parent cannot be younger: then its number was used again.
            let forked = parent != place
                && theirs.exe == own.exe
                && !own.exe.is_empty()
                && theirs.start_time <= own.start_time;
            let kin = || frames == Frames::Hidden || related(&processes[parent], process, tables);
            (forked && kin()).then_some(parent)
        })
        .collect()
}

/// Whether two processes have an anonymous page in common at one address.
fn related(one: &Process, other: &Process, tables: &Tables) -> bool {
    let mut theirs = other.tables.iter().peekable();
    one.tables.iter().any(|table| {
        let index = tables.index(table.id);
        while theirs
            .next_if(|their| tables.index(their.id) < index)
            .is_some()
        {}
        theirs
            .peek()
            .filter(|their| tables.index(their.id) == index)
            .is_some_and(|their| common(tables.words(table.id), tables.words(their.id)))
    })
}

fn common(one: &[Word], other: &[Word]) -> bool {
    let mut theirs = other.iter().peekable();
    one.iter().filter(|word| inherited(word)).any(|word| {
        while theirs.next_if(|their| their.slot() < word.slot()).is_some() {}
        theirs.peek().is_some_and(|their| *their == word)
    })
}

/// An anonymous page that is mapped more than once, which only a fork does. (The zero page may be
/// taken for one: it is at the same address by chance alone.)
fn inherited(word: &Word) -> bool {
    word.candidate() && !word.file() && word.perms() & SHARED == 0 && word.frame() != 0
}

/// A table in a process, for [`Kept`].
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    /// Of the process, in the group's list.
    pub member: u32,
    /// The table there.
    pub table: Placed,
}

/// Counts the tables of one index that are left once Cohort's kernel has forked the processes.
///
/// Of a child, a table is its parent's if both have the same regions in its range, all of which may
/// be shared, and the same anonymous pages. Children of one parent that agree with each other and
/// not with it share a table that the parent has left, if that they have it from the parent can be
/// seen: the parent has a table of the same regions, or they have an anonymous page in common.
#[derive(Default)]
pub struct Kept {
    /// For each member the place of its seat and one, or 0.
    seats: Vec<u32>,
    siblings: HashMap<(Option<u32>, u64, u64), ()>,
}

impl Kept {
    /// How many of the tables `seats` are left; `parents` names each member's parent in the group.
    pub fn count(&mut self, snapshot: &Snapshot, seats: &[Seat], parents: &[Option<u32>]) -> u64 {
        self.seats.clear();
        self.seats.resize(parents.len(), 0);
        self.siblings.clear();
        for (place, seat) in seats.iter().enumerate() {
            self.seats[seat.member as usize] = place as u32 + 1;
        }
        let mut left = 0;
        for seat in seats {
            let table = seat.table;
            let parent = parents[seat.member as usize];
            let theirs = parent
                .and_then(|parent| self.seats[parent as usize].checked_sub(1))
                .map(|place| seats[place as usize].table)
                .filter(|theirs| theirs.regions == table.regions);
            if table.regions == NEVER_SHARED {
                left += 1;
            } else if theirs.is_some_and(|theirs| theirs.lineage == table.lineage) {
                // The parent's.
            } else if theirs.is_some() || has_inherited(snapshot, table.id) {
                let key = (parent, table.regions, table.lineage);
                left += u64::from(self.siblings.insert(key, ()).is_none());
            } else {
                left += 1;
            }
        }
        left
    }
}

fn has_inherited(snapshot: &Snapshot, id: TableId) -> bool {
    let zero = snapshot.zero.unwrap_or(u64::MAX);
    let words = snapshot.tables.words(id);
    words
        .iter()
        .any(|word| inherited(word) && word.frame() != zero)
}

/// [`Placed::regions`] of a table that Cohort's kernel never shares.
pub const NEVER_SHARED: u64 = 0;

/// Faults that a child would not have taken, had its parent's tables been shared at the fork.
///
/// A fault on a page of a file maps what is in memory of 64 KB around it, so faults are windows of
/// that size which the child has pages in, of regions that fork does not copy. One is saved where
/// the parent has a page in the window that the child has too: the child finds it.
pub fn faults_saved(snapshot: &Snapshot, child: usize, parent: usize) -> u64 {
    let window = ((64 << 10) / snapshot.page).max(1) as usize;
    let (child, parent) = (&snapshot.processes[child], &snapshot.processes[parent]);
    let tables = &snapshot.tables;
    let mut theirs = parent.tables.iter().peekable();
    let mut saved = 0;
    for table in &child.tables {
        let index = tables.index(table.id);
        while theirs
            .next_if(|their| tables.index(their.id) < index)
            .is_some()
        {}
        let Some(their) = theirs.peek() else { break };
        if tables.index(their.id) == index
            && their.regions == table.regions
            && table.regions != NEVER_SHARED
        {
            let base = index * snapshot.slots();
            saved += windows(
                base,
                window,
                tables.words(table.id),
                tables.words(their.id),
                &parent.regions,
            );
        }
    }
    saved
}

fn windows(base: u64, size: usize, own: &[Word], theirs: &[Word], regions: &[Region]) -> u64 {
    let mut others = theirs.iter().peekable();
    let mut last = usize::MAX;
    let mut saved = 0;
    for word in own.iter().filter(|word| !word.swapped() && !word.huge()) {
        while others.next_if(|other| other.slot() < word.slot()).is_some() {}
        let window = word.slot() / size;
        if window == last || others.peek().is_none_or(|other| *other != word) {
            continue;
        }
        let page = base + word.slot() as u64;
        let number = regions.partition_point(|region| region.end <= page);
        if regions.get(number).is_some_and(|region| !region.copied()) {
            last = window;
            saved += 1;
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{READ, WRITE, raw};

    #[test]
    fn only_anonymous_pages_of_two_processes_tell_of_a_fork() {
        let word = |slot, bits, perms| Word::from_raw(slot, raw::PRESENT | bits, perms);
        let forked = word(3, 77, READ | WRITE);
        assert!(common(&[word(1, 5, READ), forked], &[forked]));
        for other in [
            word(4, 77, READ | WRITE),
            word(3, 78, READ | WRITE),
            word(3, 77 | raw::EXCLUSIVE, READ | WRITE),
        ] {
            assert!(!common(&[forked], &[other]));
        }
        let file = word(3, 77 | raw::FILE, READ);
        assert!(!common(&[file], &[file]));
        let shared = word(3, 77, READ | WRITE | SHARED);
        assert!(!common(&[shared], &[shared]));
    }
}
