// SPDX-License-Identifier: GPL-2.0-or-later
//! What a frame holds: who shares how much, and what has happened since the frame before.

use crate::scan::select::user_name;
use anyhow::{Context, Result};
use cohort_snapshot::model::process::{Identity, Reason};
use cohort_snapshot::model::sharing::Sharing;
use cohort_snapshot::read::{process, sharing};
use cohort_snapshot::{Paths, page_size};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Changes when a field of the JSON gets another meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// What the kernel said at one time.
pub struct Reading {
    /// When events were read.
    pub at: Instant,
    /// Since boot, by their names in `/proc/vmstat`.
    pub events: BTreeMap<String, u64>,
    /// Those that are in a cohort or a group, or share something.
    members: Vec<(Identity, Sharing)>,
    /// Processes that could not be read, and of those the refused ones.
    unreadable: usize,
    refused: usize,
    /// Why one that was not refused could not be read.
    why: Option<String>,
}

impl Reading {
    /// Reads all processes. Those that end meanwhile are left out.
    pub fn new(paths: &Paths) -> Result<Reading> {
        let file = paths.proc().join("vmstat");
        let cannot = || format!("cannot read {}", file.display());
        let mut reading = Reading {
            events: sharing::events(paths).with_context(cannot)?,
            at: Instant::now(),
            members: Vec::new(),
            unreadable: 0,
            refused: 0,
            why: None,
        };
        let pids = process::list(paths);
        for pid in pids.with_context(|| format!("cannot read {}", paths.proc().display()))? {
            match member(paths, pid) {
                Ok(member) => reading.members.extend(member),
                Err(Reason::Vanished | Reason::Ended) => {}
                Err(reason) => {
                    reading.unreadable += 1;
                    match reason {
                        Reason::Unreadable(why) => reading.why = Some(why),
                        _ => reading.refused += 1,
                    }
                }
            }
        }
        Ok(reading)
    }
}

/// A process and what it shares, unless that is nothing.
fn member(paths: &Paths, pid: i32) -> Result<Option<(Identity, Sharing)>, Reason> {
    let sharing = sharing::sharing(paths, pid)?;
    let Some(sharing) = sharing.filter(|sharing| !sharing.is_none()) else {
        return Ok(None);
    };
    Ok(process::identity(paths, pid)?.map(|identity| (identity, sharing)))
}

/// The machine's settings; nothing where the kernel does not have one.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Modes {
    /// Whose forks share.
    pub fork: Option<String>,
    /// Who joins tables without having been forked.
    pub join: Option<String>,
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub struct Frame {
    schema_version: u32,
    /// In UTC.
    time: String,
    pub modes: Modes,
    /// For how long events were counted; since boot if there is no number.
    pub seconds: Option<f64>,
    /// By their names in `/proc/vmstat`.
    pub events: BTreeMap<String, u64>,
    pub total: Sums,
    /// Processes that could not be read.
    pub unreadable: usize,
    /// Of those, processes that this user may not read.
    pub refused: usize,
    /// Why one of the others could not be read.
    pub why: Option<String>,
    /// By tables saved.
    pub groups: Vec<Group>,
    /// By tables saved.
    pub processes: Vec<Process>,
}

/// Sums over processes.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// In a cohort or a group.
    pub processes: usize,
    /// Of those, those with shared tables.
    pub sharing: usize,
    /// Cohorts that they are in.
    pub cohorts: usize,
    /// Shared tables, each once.
    pub tables: u64,
    /// The same, once for each process.
    pub shared: u64,
    pub saved: u64,
    pub saved_bytes: u64,
    /// PMD tables with other users, once for each process.
    pub pmd: u64,
    /// Once for each process, as `borrowed_swap_bytes`.
    pub borrowed_bytes: u64,
    pub borrowed_swap_bytes: u64,
}

/// Processes that share with each other.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The group's number, or nothing.
    pub group: Option<u64>,
    /// The number of the cohort whose processes are in no group, or nothing.
    pub cohort: Option<u64>,
    /// The group's name, or that of the process which was started first.
    pub name: String,
    #[serde(flatten)]
    pub sums: Sums,
}

/// One process.
#[derive(Debug, Serialize)]
pub struct Process {
    pub pid: i32,
    pub user: String,
    pub name: String,
    pub command: String,
    /// 0 for none.
    pub cohort: u64,
    pub zygote: bool,
    /// 0 for none; nothing on a kernel without groups, as `open`.
    pub group: Option<u64>,
    pub group_name: String,
    pub shared: u64,
    pub owned: u64,
    pub saved: u64,
    pub saved_bytes: u64,
    pub open: Option<u64>,
    pub pmd: u64,
    pub borrowed_bytes: u64,
    pub borrowed_swap_bytes: u64,
}

impl Process {
    fn new((identity, sharing): &(Identity, Sharing)) -> Process {
        Process {
            pid: identity.pid,
            user: user_name(identity.uid),
            name: identity.name.clone(),
            command: identity.command.clone(),
            cohort: sharing.cohort,
            zygote: sharing.zygote,
            group: sharing.group,
            group_name: sharing.group_name.clone(),
            shared: sharing.shared_tables,
            owned: sharing.owned_tables,
            saved: sharing.saved_tables(),
            saved_bytes: sharing.saved_tables().saturating_mul(page_size()),
            open: sharing.open_tables,
            pmd: sharing.shared_pmd_tables,
            borrowed_bytes: sharing.borrowed,
            borrowed_swap_bytes: sharing.borrowed_swap,
        }
    }
}

impl Sums {
    fn of<'a>(members: impl IntoIterator<Item = &'a Sharing>) -> Sums {
        let mut sums = Sums::default();
        let mut cohorts = BTreeSet::new();
        for member in members {
            sums.processes += 1;
            sums.sharing += usize::from(member.shared_tables > 0);
            cohorts.insert(member.cohort);
            for (sum, value) in [
                (&mut sums.tables, member.owned_tables),
                (&mut sums.shared, member.shared_tables),
                (&mut sums.saved, member.saved_tables()),
                (&mut sums.pmd, member.shared_pmd_tables),
                (&mut sums.borrowed_bytes, member.borrowed),
                (&mut sums.borrowed_swap_bytes, member.borrowed_swap),
            ] {
                *sum = sum.saturating_add(value);
            }
        }
        cohorts.remove(&0);
        sums.cohorts = cohorts.len();
        sums.saved_bytes = sums.saved.saturating_mul(page_size());
        sums
    }
}

impl Frame {
    pub fn new(now: &Reading, before: Option<&Reading>, modes: Modes) -> Frame {
        let mut processes: Vec<Process> = now.members.iter().map(Process::new).collect();
        processes.sort_by_key(|process| {
            let amounts = (process.saved, process.shared, process.open);
            (Reverse(amounts), process.pid)
        });
        Frame {
            schema_version: SCHEMA_VERSION,
            time: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
            modes,
            seconds: before.map(|before| now.at.duration_since(before.at).as_secs_f64()),
            events: since(&now.events, before.map(|before| &before.events)),
            total: Sums::of(now.members.iter().map(|(_, sharing)| sharing)),
            unreadable: now.unreadable,
            refused: now.refused,
            why: now.why.clone(),
            groups: groups(&now.members),
            processes,
        }
    }

    /// Leaves what is wanted, `rows` of it at most.
    pub fn keep(&mut self, groups: bool, processes: bool, rows: usize) {
        self.groups.truncate(if groups { rows } else { 0 });
        self.processes.truncate(if processes { rows } else { 0 });
    }
}

/// How many events there were more than before.
fn since(
    now: &BTreeMap<String, u64>,
    before: Option<&BTreeMap<String, u64>>,
) -> BTreeMap<String, u64> {
    let earlier = |name| before.and_then(|before| before.get(name)).copied();
    now.iter()
        .map(|(name, count)| {
            let more = count.saturating_sub(earlier(name).unwrap_or(0));
            (name.clone(), more)
        })
        .collect()
}

/// Each group, and each cohort of those that are in none.
fn groups(members: &[(Identity, Sharing)]) -> Vec<Group> {
    let mut found: BTreeMap<(u64, u64), Vec<&(Identity, Sharing)>> = BTreeMap::new();
    for member in members {
        let key = match member.1.group {
            Some(group) if group > 0 => (group, 0),
            _ => (0, member.1.cohort),
        };
        found.entry(key).or_default().push(member);
    }
    let mut groups: Vec<Group> = found
        .into_iter()
        .map(|((group, cohort), members)| {
            let first = members
                .iter()
                .min_by_key(|(identity, _)| (identity.start_time, identity.pid));
            let name = first.map(|(identity, sharing)| match group {
                0 => identity.name.clone(),
                _ => sharing.group_name.clone(),
            });
            Group {
                group: (group > 0).then_some(group),
                cohort: (cohort > 0).then_some(cohort),
                name: name.unwrap_or_default(),
                sums: Sums::of(members.iter().map(|(_, sharing)| sharing)),
            }
        })
        .collect();
    groups.sort_by_key(|group| {
        let sums = &group.sums;
        Reverse((sums.saved, sums.shared, sums.processes))
    });
    groups
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process that was started in the order of its number.
    pub fn member(pid: i32, name: &str, sharing: Sharing) -> (Identity, Sharing) {
        let identity = Identity {
            pid,
            start_time: pid as u64,
            name: name.into(),
            command: format!("/usr/sbin/{name} -f"),
            ..Identity::default()
        };
        (identity, sharing)
    }

    pub fn reading(members: Vec<(Identity, Sharing)>, events: &[(&str, u64)]) -> Reading {
        let events = events.iter();
        Reading {
            at: Instant::now(),
            events: events.map(|&(name, n)| (name.into(), n)).collect(),
            members,
            unreadable: 0,
            refused: 0,
            why: None,
        }
    }

    #[test]
    fn events_are_those_since_the_frame_before() {
        let before = reading(vec![], &[("cohort_ptp_shared", 40), ("cohort_ptp_left", 9)]);
        let now = [("cohort_ptp_shared", 52), ("cohort_ptp_joined", 3)];
        // A counter does not run backwards; if it seems to, nothing is known to have happened.
        let now = reading(vec![], &[&now[..], &[("cohort_ptp_left", 8)]].concat());
        let first = Frame::new(&now, None, Modes::default());
        assert_eq!(first.seconds, None);
        assert_eq!(first.events["cohort_ptp_shared"], 52);
        let next = Frame::new(&now, Some(&before), Modes::default());
        assert!(next.seconds.is_some());
        let events: Vec<u64> = next.events.into_values().collect();
        assert_eq!(events, [3, 0, 12]);
    }

    #[test]
    fn a_member_of_a_group_is_not_counted_in_its_cohort() {
        let sharing = |cohort, group| Sharing {
            cohort,
            group: Some(group),
            shared_tables: 5,
            owned_tables: 1,
            ..Sharing::default()
        };
        let members = vec![
            member(9, "b", sharing(1, 0)),
            member(8, "a", sharing(1, 0)),
            member(7, "c", sharing(2, 3)),
            member(6, "d", sharing(1, 3)),
            member(5, "e", sharing(0, 3)),
            member(4, "f", sharing(0, 0)),
        ];
        let frame = Frame::new(&reading(members, &[]), None, Modes::default());
        let rows: Vec<_> = frame
            .groups
            .iter()
            .map(|row| {
                let sums = &row.sums;
                let numbers = (row.group, row.cohort, sums.processes, sums.cohorts);
                (numbers, sums.tables, sums.shared, sums.saved, &*row.name)
            })
            .collect();
        assert_eq!(
            rows,
            [
                ((Some(3), None, 3, 2), 3, 15, 12, ""),
                ((None, Some(1), 2, 1), 2, 10, 8, "a"),
                ((None, None, 1, 0), 1, 5, 4, "f"),
            ]
        );
        assert_eq!((frame.total.saved, frame.total.tables), (24, 6));
        assert_eq!((frame.total.processes, frame.total.cohorts), (6, 2));
    }

    #[test]
    fn numbers_beyond_all_bounds_add_up_to_the_largest() {
        let sharing = Sharing {
            cohort: 1,
            shared_tables: u64::MAX,
            borrowed: u64::MAX,
            ..Sharing::default()
        };
        let sums = Sums::of([&sharing, &sharing]);
        assert_eq!((sums.saved, sums.saved_bytes), (u64::MAX, u64::MAX));
    }
}
