// SPDX-License-Identifier: GPL-2.0-or-later
//! Who was forked from whom.
//!
//! A snapshot does not show forks, but what is left of them: anonymous pages that two processes
//! have in one frame at one address come from a fork.

use super::snapshot::{Frames, Process};
use super::store::Tables;
use super::word::{SHARED, Word};
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
