// SPDX-License-Identifier: GPL-2.0-or-later
//! Groups of processes: the candidates for a cohort.

use crate::model::Snapshot;
use crate::model::process::Identity;
use std::collections::BTreeMap;

/// The property by which processes are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Nothing: one group.
    Machine,
    /// Forked from one another without an exec, see [`crate::model::parents::parents`].
    Tree,
    /// The control group, which is the container where there is one.
    Cgroup,
    /// The user.
    User,
    /// The program.
    Exe,
    /// Each alone.
    Process,
}

/// Processes with something in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// For instance the control group, the user, or the command line of the first process.
    pub name: String,
    /// The name, with a number where several groups have it. It holds no process's number, so that
    /// a service that was started anew keeps it.
    pub label: String,
    /// Number of the process that the others descend from, where groups are made of trees.
    pub root: Option<i32>,
    /// Places in the snapshot's list.
    pub members: Vec<usize>,
}

/// The name of a group, and the start and number of its first process: those of one name are in
/// order from the oldest on, and are numbered in this order.
type Key = (String, Option<(u64, i32)>);

/// All processes in groups, each in one, those with most processes first.
///
/// `user` names a user by its number.
pub fn groups(snapshot: &Snapshot, by: By, user: &dyn Fn(u32) -> String) -> Vec<Group> {
    let mut found: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    let roots = roots(snapshot);
    for (place, process) in snapshot.processes.iter().enumerate() {
        let identity = &process.identity;
        let named = |first: &Identity| (title(first), Some((first.start_time, first.pid)));
        let key = match by {
            By::Machine => ("all processes".to_string(), None),
            By::Tree => named(&snapshot.processes[roots[place]].identity),
            By::Cgroup => (or_none(&identity.cgroup), None),
            By::User => (user(identity.uid), None),
            // The path of the program may be hidden.
            By::Exe if identity.exe.is_empty() => (identity.name.clone(), None),
            By::Exe => (identity.exe.clone(), None),
            By::Process => named(identity),
        };
        found.entry(key).or_default().push(place);
    }
    let mut groups: Vec<Group> = Vec::with_capacity(found.len());
    let mut same = 0;
    for ((name, first), members) in found {
        same = match groups.last() {
            Some(last) if last.name == name => same + 1,
            _ => 1,
        };
        groups.push(Group {
            label: match same {
                1 => name.clone(),
                number => format!("{name} #{number}"),
            },
            name,
            root: first.map(|(_, pid)| pid),
            members,
        });
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.members.len()));
    groups
}

/// A process's command line, without the folder of its program; its name where it has none.
pub fn title(identity: &Identity) -> String {
    let words: Vec<&str> = identity.command.split_whitespace().collect();
    let Some((first, rest)) = words.split_first() else {
        return identity.name.clone();
    };
    let program = match first.starts_with('/') {
        true => first.rsplit('/').next().unwrap_or(first),
        false => first,
    };
    let mut title = program.to_string();
    for word in rest {
        title.push(' ');
        title.push_str(word);
    }
    title
}

fn or_none(text: &str) -> String {
    match text {
        "" => "-".to_string(),
        text => text.to_string(),
    }
}

/// For each process the oldest ancestor that it descends from by forks without an exec, or itself.
pub fn roots(snapshot: &Snapshot) -> Vec<usize> {
    (0..snapshot.processes.len())
        .map(|place| {
            let mut root = place;
            // Bounded: a damaged capture may hold a circle.
            for _ in 0..snapshot.processes.len() {
                match snapshot.parents[root] {
                    Some(next) => root = next,
                    None => break,
                }
            }
            root
        })
        .collect()
}
