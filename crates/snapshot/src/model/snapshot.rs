// SPDX-License-Identifier: GPL-2.0-or-later
//! A snapshot: who maps what, at (nearly) one time.

use super::activity::Activity;
use super::process::{Identity, Skipped};
use super::region::{Backing, FileId, Kind, Region};
use super::samples::{self, Clock};
use super::stats::TableStats;
use super::store::{TableId, Tables};
use serde::{Deserialize, Serialize};

/// Whether frame numbers could be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// Frame numbers, kpageflags and kpagecount.
    Visible,
    /// Frame numbers, but not what the frames hold or how often they are mapped.
    NumbersOnly,
    /// Nothing: pages of files are told apart by file and offset, others are not.
    Hidden,
}

/// A table in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Which table.
    pub id: TableId,
    /// Equal in two processes when the same regions are in the table's range; one number,
    /// [`crate::model::NEVER_SHARED`], where one of them may not be shared.
    pub regions: u64,
    /// Equal in two processes when the same regions cover the table and its anonymous pages are
    /// the same: then one table, filled by both, would serve both.
    pub lineage: u64,
}

/// [`Placed::regions`] of a table that Cohort's kernel never shares.
pub const NEVER_SHARED: u64 = 0;

/// Pages of code of one mapping that are in memory, by their place in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRun {
    /// The region, by its place in the process's list.
    pub region: u32,
    /// The file.
    pub file: FileId,
    /// Place in the file of the first bit, in pages.
    pub offset: u64,
    /// One bit a page.
    pub bits: Vec<u64>,
}

/// How many windows of a large page's size hold how many small pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// `small[n]`: windows of 64 KB with n of 16 pages in memory (with 4 KB pages).
    pub small: [u32; 17],
    /// `large[n]`: windows of 2 MB that are full to n sixteenths, rounded up.
    pub large: [u32; 17],
}

/// A process of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Name, owner and parent.
    pub identity: Identity,
    /// Its regions by address.
    pub regions: Vec<Region>,
    /// Its tables by address.
    pub tables: Vec<Placed>,
    /// Its code.
    pub code: Vec<CodeRun>,
    /// For each kind of region with a page in memory, how full larger pages would be.
    pub fill: Vec<(Kind, Fill)>,
    /// Entries that a stock fork of it would copy, a huge page's as one.
    pub fork_copies: u64,
    /// Entries that a stock fork leaves out, for the child to fault on.
    pub fork_leaves: u64,
    /// Faults with which a child would get all of those back, each bringing what is around it.
    pub fork_faults: u64,
    /// Its regions were others when it had been read.
    pub changed: bool,
    /// Page faults in the interval, of its children too that it waited for in it; none where no
    /// interval was watched.
    pub faulted: Option<u64>,
    /// Where it was found running, where that was sampled.
    pub samples: Option<samples::Process>,
}

impl Process {
    /// The region that a page is in.
    pub fn region(&self, page: u64) -> Option<&Region> {
        let number = self.regions.partition_point(|region| region.end <= page);
        self.regions
            .get(number)
            .filter(|region| region.start <= page)
    }

    /// Entries in memory and swap, those of huge pages by their small ones.
    pub fn pages(&self) -> u64 {
        self.regions
            .iter()
            .map(|region| u64::from(region.present) + u64::from(region.swapped))
            .sum()
    }
}

/// How the processors were sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// For how many seconds.
    pub seconds: f64,
    /// The clock that decided when a sample was taken, or why none was.
    pub clock: Result<Clock, String>,
    /// Samples that the kernel had no room for.
    pub lost: u64,
}

/// The state that was read of a machine.
pub struct Snapshot {
    /// Seconds since 1970.
    pub time: u64,
    /// The machine's name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine type, as `uname -m` has it.
    pub machine: String,
    /// Bytes in a page.
    pub page: u64,
    /// Bytes of memory of the machine, where the kernel reports that.
    pub memory: Option<u64>,
    /// How much of the frames could be seen.
    pub frames: Frames,
    /// Seconds from the first process to the last.
    pub duration: f64,
    /// Seconds watched for which pages are used, 0 for none.
    pub interval: f64,
    /// Which frames were used in it, where the kernel tells that; else only how many pages of each
    /// region were is known.
    pub activity: Option<Activity>,
    /// How the processors were sampled, where that was asked for.
    pub sampling: Option<Sampling>,
    /// The objects that regions map.
    pub files: Vec<Backing>,
    /// Every process that was read, by number.
    pub processes: Vec<Process>,
    /// For each process the one that it was forked from, see [`crate::model::parents::parents`].
    pub parents: Vec<Option<usize>>,
    /// Every different table.
    pub tables: Tables,
    /// The content of each table, by its name.
    pub stats: Vec<TableStats>,
    /// Processes that were not read.
    pub skipped: Vec<Skipped>,
    /// Processes whose parent runs the same program and was not read, each with that parent.
    pub left_out: Vec<(i32, i32)>,
    /// Some regions were not read, as they were not wanted.
    pub regions_left_out: bool,
    /// The frame of the zero page, where it is known.
    pub zero: Option<u64>,
    /// Processes whose huge pages had to be distinguished from small ones by their sum in smaps.
    pub huge_by_sum: u32,
}

impl Snapshot {
    /// Entries in a table, which is also the pages that one covers.
    pub fn slots(&self) -> u64 {
        self.page / 8
    }

    /// The content of a table.
    pub fn stats(&self, id: TableId) -> &TableStats {
        &self.stats[id as usize]
    }
}
