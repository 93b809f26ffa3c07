// SPDX-License-Identifier: GPL-2.0-or-later
//! Who was forked from whom.
//!
//! A snapshot does not show forks, but what is left of them: anonymous pages that two processes
//! have in one frame at one address come from a fork.

use super::process::Identity;
use super::snapshot::{Frames, Process, Snapshot};
use super::store::Tables;
use super::word::{SHARED, Word};
use hashbrown::{HashMap, HashSet};

/// For each process the one that it was forked from without an exec, if that is in the snapshot.
///
/// Parent and child run the same program, and where frames are seen have an anonymous page in
/// common: a program that starts itself again has none. Where the path of a program may not be
/// read, such a page alone proves the fork, as an exec leaves none of them. `zero` is the frame of
/// the zero page, which proves nothing.
pub fn parents(
    processes: &[Process],
    tables: &Tables,
    frames: Frames,
    zero: Option<u64>,
) -> Vec<Option<usize>> {
    let places = places(processes);
    processes
        .iter()
        .enumerate()
        .map(|(place, process)| {
            let own = &process.identity;
            let parent = *places.get(&own.ppid)?;
            let theirs = &processes[parent].identity;
            let hidden = own.exe.is_empty() || theirs.exe.is_empty();
            let may = parent != place
                && older(theirs, own)
                && match frames {
                    Frames::Hidden => !hidden && theirs.exe == own.exe,
                    _ => hidden || theirs.exe == own.exe,
                };
            let kin =
                || frames == Frames::Hidden || related(&processes[parent], process, tables, zero);
            (may && kin()).then_some(parent)
        })
        .collect()
}

/// Where each process stands, by its number.
fn places(processes: &[Process]) -> HashMap<i32, usize> {
    let each = processes.iter().enumerate();
    each.map(|(place, process)| (process.identity.pid, place))
        .collect()
}

/// A parent cannot be younger: then its number was used again.
fn older(parent: &Identity, child: &Identity) -> bool {
    parent.start_time <= child.start_time
}

/// Whether `parent`, which is not in the snapshot, may have forked `child` without an exec. The
/// path of a program may be hidden; its name never is.
pub fn may_have_forked(parent: &Identity, child: &Identity) -> bool {
    let same = match parent.exe.is_empty() || child.exe.is_empty() {
        true => parent.name == child.name,
        false => parent.exe == child.exe,
    };
    same && older(parent, child)
}

impl Snapshot {
    /// Leaves out the processes that are not `wanted`.
    pub fn retain(&mut self, wanted: &[bool]) {
        let all = std::mem::take(&mut self.processes);
        let out: HashMap<i32, Identity> = all
            .iter()
            .zip(wanted)
            .filter(|(_, wanted)| !**wanted)
            .map(|(process, _)| (process.identity.pid, process.identity.clone()))
            .collect();
        let each = all.into_iter().zip(wanted);
        self.processes = each
            .filter_map(|(process, wanted)| wanted.then_some(process))
            .collect();
        let processes = &self.processes;
        self.left_out
            .extend(left_out(processes, &mut |pid| out.get(&pid).cloned()));
        let left: HashSet<i32> = processes
            .iter()
            .map(|process| process.identity.pid)
            .collect();
        self.left_out.retain(|(pid, _)| left.contains(pid));
        self.parents = parents(processes, &self.tables, self.frames, self.zero);
    }
}

/// Those of `processes` whose parent runs the same program and is not among them; `find` says who
/// a process is.
pub fn left_out(
    processes: &[Process],
    find: &mut dyn FnMut(i32) -> Option<Identity>,
) -> Vec<(i32, i32)> {
    let read: HashSet<i32> = processes
        .iter()
        .map(|process| process.identity.pid)
        .collect();
    let mut found: HashMap<i32, Option<Identity>> = HashMap::new();
    let mut left_out = Vec::new();
    for own in processes.iter().map(|process| &process.identity) {
        if read.contains(&own.ppid) {
            continue;
        }
        let parent = found.entry(own.ppid).or_insert_with(|| find(own.ppid));
        if parent
            .as_ref()
            .is_some_and(|parent| may_have_forked(parent, own))
        {
            left_out.push((own.pid, own.ppid));
        }
    }
    left_out
}

/// Why it is not known whether a process was forked from its parent without an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The path of its program or its parent's may not be read, nor may frames.
    ProgramHidden,
    /// The parent, of this number, runs the same program and was not read.
    ParentLeftOut(i32),
    /// Regions were left out, and no page of the others tells of a fork.
    RegionsLeftOut,
}

/// For each process without a parent in [`Snapshot::parents`], why it may have one.
pub fn unknown(snapshot: &Snapshot) -> Vec<Option<Unknown>> {
    let processes = &snapshot.processes;
    let places = places(processes);
    let left_out: HashMap<i32, i32> = snapshot.left_out.iter().copied().collect();
    let each = processes.iter().zip(&snapshot.parents);
    each.map(|(process, parent)| {
        let own = &process.identity;
        if parent.is_some() {
            return None;
        }
        let Some(&place) = places.get(&own.ppid) else {
            let parent = left_out.get(&own.pid)?;
            return Some(Unknown::ParentLeftOut(*parent));
        };
        let theirs = &processes[place].identity;
        let hidden = own.exe.is_empty() || theirs.exe.is_empty();
        if theirs.pid == own.pid || !may_have_forked(theirs, own) {
            return None;
        }
        match snapshot.frames {
            Frames::Hidden => hidden.then_some(Unknown::ProgramHidden),
            _ => snapshot.regions_left_out.then_some(Unknown::RegionsLeftOut),
        }
    })
    .collect()
}

/// Whether two processes have an anonymous page in common at one address.
fn related(one: &Process, other: &Process, tables: &Tables, zero: Option<u64>) -> bool {
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
            .is_some_and(|their| common(tables.words(table.id), tables.words(their.id), zero))
    })
}

fn common(one: &[Word], other: &[Word], zero: Option<u64>) -> bool {
    let mut theirs = other.iter().peekable();
    let mut own = one.iter();
    own.any(|word| {
        if !inherited(word) || Some(word.frame()) == zero {
            return false;
        }
        while theirs.next_if(|their| their.slot() < word.slot()).is_some() {}
        theirs.peek().is_some_and(|their| *their == word)
    })
}

/// An anonymous page that is mapped more than once, which only a fork does, or the zero page.
pub(crate) fn inherited(word: &Word) -> bool {
    word.candidate() && !word.file() && word.perms() & SHARED == 0 && word.frame() != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::word::{READ, WRITE, raw};

    #[test]
    fn only_anonymous_pages_of_two_processes_tell_of_a_fork() {
        let word = |slot, bits, perms| Word::from_raw(slot, raw::PRESENT | bits, perms);
        let forked = word(3, 77, READ | WRITE);
        assert!(common(&[word(1, 5, READ), forked], &[forked], None));
        assert!(!common(&[forked], &[forked], Some(77)));
        for other in [
            word(4, 77, READ | WRITE),
            word(3, 78, READ | WRITE),
            word(3, 77 | raw::EXCLUSIVE, READ | WRITE),
        ] {
            assert!(!common(&[forked], &[other], None));
        }
        let file = word(3, 77 | raw::FILE, READ);
        assert!(!common(&[file], &[file], None));
        let shared = word(3, 77, READ | WRITE | SHARED);
        assert!(!common(&[shared], &[shared], None));
    }
}
