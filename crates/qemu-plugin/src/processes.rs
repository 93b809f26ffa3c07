// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps address spaces to processes, and processes to cohorts.
//!
//! A cohort stands for BabelFish's containers of one application. Processes of the same name are one
//! cohort, unless a process names its cohort by a mark.

use crate::kernel::Process;
use serde::Serialize;
use std::collections::BTreeMap;
use translation::Identity;

/// Cohorts named by marks have numbers from here on, cohorts of process names have lower ones.
const MARKED: u32 = 1 << 16;

/// All address spaces seen, by root.
#[derive(Debug, Default)]
pub struct Processes {
    spaces: BTreeMap<u64, Space>,
    names: BTreeMap<String, u32>,
    all: BTreeMap<(u32, String), u32>,
}

#[derive(Debug)]
struct Space {
    identity: Identity,
    name: String,
    marked: bool,
}

/// A process as the output lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its process number in the guest.
    pub process: u32,
    pub name: String,
    pub cohort: u32,
}

impl Processes {
    /// Records that `process` runs in the address space `root`. Returns its identity if it is new.
    pub fn seen(&mut self, root: u64, process: Process) -> Option<Identity> {
        let known = self.spaces.get(&root);
        if known.is_some_and(|s| s.identity.process == process.pid && s.name == process.name) {
            return None;
        }
        // A process that only changed its name stays in the cohort that it asked for.
        let marked = known.filter(|s| s.marked && s.identity.process == process.pid);
        let next = self.names.len() as u32 + 1;
        let cohort = match marked {
            Some(space) => space.identity.cohort,
            None => *self.names.entry(process.name.clone()).or_insert(next),
        };
        let marked = marked.is_some();
        Some(self.set(root, process.pid, process.name, cohort, marked))
    }

    /// Puts the process of the address space `root` into cohort `number`, as its mark asked.
    pub fn join(&mut self, root: u64, number: u32) -> Identity {
        let (pid, name) = self.spaces.get(&root).map_or((0, String::new()), |space| {
            (space.identity.process, space.name.clone())
        });
        self.set(root, pid, name, MARKED.wrapping_add(number), true)
    }

    fn set(&mut self, root: u64, pid: u32, name: String, cohort: u32, marked: bool) -> Identity {
        let identity = Identity {
            process: pid,
            cohort,
        };
        self.all.insert((pid, name.clone()), cohort);
        self.spaces.insert(
            root,
            Space {
                identity,
                name,
                marked,
            },
        );
        identity
    }

    /// The name of the process of an address space.
    pub fn name(&self, root: u64) -> Option<String> {
        self.spaces.get(&root).map(|space| space.name.clone())
    }

    /// Roots and identities of all address spaces.
    pub fn identities(&self) -> impl Iterator<Item = (u64, Identity)> {
        self.spaces
            .iter()
            .map(|(&root, space)| (root, space.identity))
    }

    /// All processes ever seen, in order of number and name.
    pub fn list(&self) -> Vec<Listed> {
        self.all
            .iter()
            .map(|((process, name), &cohort)| Listed {
                process: *process,
                name: name.clone(),
                cohort,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str) -> Process {
        Process {
            pid,
            name: name.into(),
        }
    }

    #[test]
    fn processes_of_one_name_are_a_cohort() {
        let mut processes = Processes::default();
        let first = processes.seen(0x1000, process(10, "apache2")).unwrap();
        let second = processes.seen(0x2000, process(11, "apache2")).unwrap();
        let other = processes.seen(0x3000, process(12, "sh")).unwrap();
        assert_eq!(first.cohort, second.cohort);
        assert_ne!(first.cohort, other.cohort);
        assert_ne!(first.cohort, 0);
        // A known process is not reported again; one that takes over an address space is.
        assert_eq!(processes.seen(0x1000, process(10, "apache2")), None);
        assert_eq!(
            processes.seen(0x3000, process(13, "apache2")),
            Some(Identity {
                process: 13,
                cohort: first.cohort
            })
        );
        assert_eq!(processes.list().len(), 4);
    }

    #[test]
    fn a_mark_decides_until_the_address_space_is_anothers() {
        let mut processes = Processes::default();
        processes.seen(0x1000, process(10, "child")).unwrap();
        assert_eq!(processes.join(0x1000, 7).cohort, MARKED + 7);
        let renamed = processes.seen(0x1000, process(10, "worker")).unwrap();
        assert_eq!(renamed.cohort, MARKED + 7);
        let heir = processes.seen(0x1000, process(11, "worker")).unwrap();
        assert!(heir.cohort < MARKED);
    }
}
