// SPDX-License-Identifier: GPL-2.0-or-later
//! What groups, such as containers, would share with each other.

use super::images::Images;
use super::same::Same;
use super::view::{NO_FILE, Seen, View};
use super::{congruent, placed, seen, views};
use crate::model::Snapshot;
use crate::model::region::FileId;
use hashbrown::HashMap;
use serde::Serialize;

/// So many groups are compared in pairs, those with most processes: pairs grow with the square.
const PAIRED: usize = 64;

/// Two groups with tables in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pair {
    /// Their places in the list of groups, the smaller one first.
    pub groups: [usize; 2],
    /// Tables that both would use, where mappings lie now.
    pub tables: u64,
    /// Tables of libraries that both would use at places of all groups, with the boundary.
    pub placed: u64,
}

/// A file in tables that several groups would use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct File {
    /// As one of them has it.
    pub path: String,
    /// Most groups that would use one of its tables.
    pub groups: u64,
    /// Tables that need not exist as another group has them.
    pub saved: u64,
    /// The same for libraries at places of all groups.
    pub placed: u64,
}

/// What groups would share with each other, besides what each shares within.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Between {
    /// Tables that need not exist as another group has them, where mappings lie now.
    pub saved: u64,
    /// The same for tables of libraries at places of all groups, with the boundary.
    pub placed: u64,
    /// Those with most first.
    pub pairs: Vec<Pair>,
    /// Those that save most first. A table counts for the file with most of its pages.
    pub files: Vec<File>,
}

/// Compares groups of processes (places in the snapshot's list) with each other. See
/// [`super::count()`] for `boundary`.
pub fn between(snapshot: &Snapshot, same: &Same, groups: &[&[usize]], boundary: u64) -> Between {
    let members: Vec<usize> = groups.iter().copied().flatten().copied().collect();
    let group_of: Vec<usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(group, members)| std::iter::repeat_n(group, members.len()))
        .collect();
    let mut images = Images::new(snapshot, same, &members);
    images.place(Some(boundary));
    let mut found = Found::default();
    let now = seen(snapshot, same, &members);
    found.add(&now, &group_of, congruent, |counts| &mut counts.0);
    let later = images.seen(true);
    found.add(&later, &group_of, placed, |counts| &mut counts.1);
    found.finish(snapshot)
}

/// Tables now, and at places.
type Both = (u64, u64);

#[derive(Default)]
struct Found {
    pairs: HashMap<[usize; 2], Both>,
    files: HashMap<FileId, (u64, Both)>,
}

impl Found {
    fn add(
        &mut self,
        seen: &[Seen],
        group_of: &[usize],
        key: fn(&View) -> Option<(u64, u64)>,
        pick: fn(&mut Both) -> &mut u64,
    ) {
        let mut uses: Vec<((u64, u64), usize, FileId)> = views(seen)
            .filter_map(|view| Some((key(view)?, group_of[view.member as usize], view.file)))
            .collect();
        uses.sort_unstable();
        uses.dedup_by_key(|(key, group, _)| (*key, *group));
        for users in uses.chunk_by(|a, b| a.0 == b.0) {
            let others = users.len() as u64 - 1;
            if others == 0 {
                continue;
            }
            let (most, counts) = self.files.entry(users[0].2).or_default();
            *most = (*most).max(others + 1);
            *pick(counts) += others;
            let paired = &users[..users.partition_point(|(_, group, _)| *group < PAIRED)];
            for (number, one) in paired.iter().enumerate() {
                for other in &paired[number + 1..] {
                    *pick(self.pairs.entry([one.1, other.1]).or_default()) += 1;
                }
            }
        }
    }

    fn finish(self, snapshot: &Snapshot) -> Between {
        let mut between = Between::default();
        for (file, (groups, (saved, placed))) in self.files {
            between.saved += saved;
            between.placed += placed;
            let path = match file {
                NO_FILE => String::new(),
                file => snapshot.files[file as usize].path.clone(),
            };
            between.files.push(File {
                path,
                groups,
                saved,
                placed,
            });
        }
        between.files.sort_by(|a, b| {
            let most = |file: &File| std::cmp::Reverse((file.saved.max(file.placed), file.saved));
            (most(a), &a.path).cmp(&(most(b), &b.path))
        });
        between.pairs = self
            .pairs
            .into_iter()
            .map(|(groups, (tables, placed))| Pair {
                groups,
                tables,
                placed,
            })
            .collect();
        let most = |pair: &Pair| std::cmp::Reverse((pair.tables.max(pair.placed), pair.tables));
        between.pairs.sort_by_key(|pair| (most(pair), pair.groups));
        between
    }
}
