// SPDX-License-Identifier: GPL-2.0-or-later
//! Groups of processes: the candidates for a cohort.

use crate::model::Snapshot;
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
    /// For instance the control group or the user.
    pub name: String,
    /// Places in the snapshot's list.
    pub members: Vec<usize>,
}

/// All processes in groups, each in one, those with most processes first.
///
/// `user` names a user by its number.
pub fn groups(snapshot: &Snapshot, by: By, user: &dyn Fn(u32) -> String) -> Vec<Group> {
    let mut found: BTreeMap<(String, i32), Vec<usize>> = BTreeMap::new();
    let roots = roots(snapshot);
    for (place, process) in snapshot.processes.iter().enumerate() {
        let identity = &process.identity;
        let named = |pid: i32, name: &str| (format!("{name} ({pid})"), pid);
        let key = match by {
            By::Machine => ("all processes".to_string(), 0),
            By::Tree => {
                let root = &snapshot.processes[roots[place]].identity;
                named(root.pid, &root.name)
            }
            By::Cgroup => (or_none(&identity.cgroup), 0),
            By::User => (user(identity.uid), 0),
            // The path of the program may be hidden.
            By::Exe if identity.exe.is_empty() => (identity.name.clone(), 0),
            By::Exe => (identity.exe.clone(), 0),
            By::Process => named(identity.pid, &identity.name),
        };
        found.entry(key).or_default().push(place);
    }
    let mut groups: Vec<Group> = found
        .into_iter()
        .map(|((name, _), members)| Group { name, members })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.members.len()));
    groups
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
