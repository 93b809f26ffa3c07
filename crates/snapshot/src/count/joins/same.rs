// SPDX-License-Identifier: GPL-2.0-or-later
//! Which names of files mean one file in the page cache.

use crate::model::region::FileId;
use crate::model::{Frames, Snapshot};
use hashbrown::{HashMap, HashSet};

use super::view::pages;

/// For each file of a snapshot the first name of the same one.
///
/// Two containers of one image map a library through two overlay mounts. Since Linux 6.8 maps shows
/// the overlay's device and inode there, which differ, while the pages are those of one lower file
/// (`file_user_inode()` in `fs/proc/task_mmu.c`). Files of one name, in whichever folder, are
/// therefore called the same if a frame is at one place of both. Without frame numbers device and
/// inode decide.
pub struct Same(Vec<FileId>);

impl Same {
    /// Compares the files of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Same {
        let mut same = Same((0..snapshot.files.len() as FileId).collect());
        if snapshot.frames == Frames::Hidden {
            return same;
        }
        let mut names: HashMap<&str, u32> = HashMap::new();
        for file in snapshot.files.iter().filter(|file| file.is_file()) {
            *names.entry(name(&file.path)).or_default() += 1;
        }
        let unsure: HashSet<FileId> = (0..snapshot.files.len() as FileId)
            .filter(|&id| {
                let file = &snapshot.files[id as usize];
                file.is_file() && names[name(&file.path)] > 1
            })
            .collect();
        if unsure.is_empty() {
            return same;
        }
        let mut owners: HashMap<(u64, u64), FileId> = HashMap::new();
        for (place, process) in snapshot.processes.iter().enumerate() {
            let regions = process.regions.iter();
            for region in regions.filter(|region| unsure.contains(&region.file)) {
                for (page, word) in pages(snapshot, place, region.start, region.end) {
                    if word.file() && !word.swapped() && !word.huge() && word.frame() != 0 {
                        let offset = region.offset + (page - region.start);
                        let owner = *owners.entry((word.frame(), offset)).or_insert(region.file);
                        same.join(owner, region.file);
                    }
                }
            }
        }
        for id in 0..same.0.len() as FileId {
            same.0[id as usize] = same.first(id);
        }
        same
    }

    /// The name that stands for a file.
    pub(super) fn of(&self, file: FileId) -> FileId {
        self.0[file as usize]
    }

    fn first(&self, mut id: FileId) -> FileId {
        while self.0[id as usize] != id {
            id = self.0[id as usize];
        }
        id
    }

    fn join(&mut self, one: FileId, other: FileId) {
        let (one, other) = (self.first(one), self.first(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}

/// The path without its folders.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
