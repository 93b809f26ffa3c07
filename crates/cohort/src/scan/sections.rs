// SPDX-License-Identifier: GPL-2.0-or-later
//! Parts of a group's report: code, and larger pages.

use cohort_snapshot::count::code::{self, Footprint, Origins, Sampled, Zygotes};
use cohort_snapshot::count::group::Group;
use cohort_snapshot::model::region::Kind;
use cohort_snapshot::model::{Fill, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;

/// Processes whose code is compared pair by pair: those with most of it.
const PAIRS: usize = 8;
/// Regions named one by one.
const REGIONS: usize = 20;

/// Code (EuroSys'16, Figure 2 and Table 2).
#[derive(Debug, Clone, Default, Serialize)]
pub struct CodeReport {
    /// Pages in memory, added up over the processes.
    pub pages: Origins,
    /// Of those, pages used in the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Origins>,
    /// Where the processes were found running, where that was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    pub shared_percent: f64,
    /// How much of each one's code the others have.
    pub overlap: Overlap,
}

/// Percent of the code of the process in the row that the one in the column has as well.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overlap {
    pub processes: Vec<String>,
    /// Preloaded code, and all; for a process with itself it says how much is preloaded.
    pub percent: Vec<Vec<(f64, f64)>>,
    /// Means over all pairs.
    pub mean_preloaded: f64,
    pub mean_all: f64,
}

/// Larger pages (EuroSys'16, Figure 4), for one kind of region.
#[derive(Debug, Clone, Serialize)]
pub struct FillReport {
    pub kind: Kind,
    pub small: Windows,
    pub large: Windows,
}

/// Windows of a larger page's size that hold at least one page.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Windows {
    pub bytes: u64,
    pub windows: u64,
    /// Small pages in them.
    pub pages: u64,
    pub full_percent: f64,
    /// Memory that larger pages would take beyond that of the small ones.
    pub wasted_bytes: u64,
    /// Entries that fewer and larger ones would replace.
    pub entries_saved: u64,
    /// `sixteenths[n]`: windows that are full to n sixteenths, rounded up.
    pub sixteenths: Vec<u64>,
}

/// A file, or memory of one kind, in all processes of a group.
#[derive(Debug, Clone, Serialize)]
pub struct RegionReport {
    pub path: String,
    pub kind: Kind,
    pub mappings: u64,
    pub small: Windows,
    pub large: Windows,
}

impl CodeReport {
    pub fn new(snapshot: &Snapshot, zygotes: &Zygotes, group: &Group) -> CodeReport {
        let (mut pages, mut used) = (Origins::default(), None::<Origins>);
        let mut sampled = None::<Sampled>;
        for &place in &group.members {
            let (all, active) = code::origins(snapshot, zygotes, place);
            pages += all;
            if let Some(active) = active {
                *used.get_or_insert_default() += active;
            }
            if let Some(found) = code::sampled(snapshot, zygotes, place) {
                *sampled.get_or_insert_default() += found;
            }
        }
        CodeReport {
            pages,
            used,
            sampled,
            shared_percent: pages.shared_percent(),
            overlap: Overlap::new(snapshot, zygotes, group),
        }
    }
}

impl Overlap {
    fn new(snapshot: &Snapshot, zygotes: &Zygotes, group: &Group) -> Overlap {
        let code = |place: &usize| -> u64 {
            let regions = &snapshot.processes[*place].regions;
            let code = regions.iter().filter(|region| region.kind.code());
            code.map(|region| u64::from(region.present)).sum()
        };
        // Of each program the process with most code first, then the rest.
        let mut places = group.members.clone();
        places.sort_by_key(|place| std::cmp::Reverse(code(place)));
        let mut seen = std::collections::HashSet::new();
        let (first, others): (Vec<usize>, Vec<usize>) = places
            .into_iter()
            .partition(|place| seen.insert(&snapshot.processes[*place].identity.exe));
        let places: Vec<usize> = first.into_iter().chain(others).take(PAIRS).collect();
        let prints: Vec<Footprint> = places
            .iter()
            .map(|place| Footprint::new(snapshot, zygotes, *place))
            .collect();
        let percent: Vec<Vec<(f64, f64)>> = prints
            .iter()
            .map(|row| prints.iter().map(|column| row.overlap(column)).collect())
            .collect();
        let pairs: Vec<(f64, f64)> = percent
            .iter()
            .enumerate()
            .flat_map(|(row, cells)| {
                let others = cells
                    .iter()
                    .enumerate()
                    .filter(move |(column, _)| *column != row);
                others.map(|(_, cell)| *cell)
            })
            .collect();
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            pairs.iter().map(pick).sum::<f64>() / (pairs.len() as f64).max(1.0)
        };
        Overlap {
            processes: places
                .iter()
                .map(|place| {
                    let identity = &snapshot.processes[*place].identity;
                    format!("{} ({})", identity.name, identity.pid)
                })
                .collect(),
            mean_preloaded: mean(|pair| pair.0),
            mean_all: mean(|pair| pair.1),
            percent,
        }
    }
}

impl Windows {
    fn new(bytes: u64, windows: u64, pages: u64, page: u64, sixteenths: Vec<u64>) -> Windows {
        let bytes = bytes.max(page);
        Windows {
            bytes,
            windows,
            pages,
            full_percent: 100.0 * (pages * page) as f64 / (windows * bytes).max(1) as f64,
            wasted_bytes: (windows * bytes).saturating_sub(pages * page),
            entries_saved: pages.saturating_sub(windows),
            sixteenths,
        }
    }
}

const SMALL: u64 = 64 << 10;
const LARGE: u64 = 2 << 20;

/// Pages, small and large windows, and how full those are.
type KindSum = (u64, u64, u64, [u64; 17], [u64; 17]);

/// How full larger pages would be, for each kind of region.
pub fn fill(snapshot: &Snapshot, group: &Group) -> Vec<FillReport> {
    let mut kinds: BTreeMap<Kind, KindSum> = BTreeMap::new();
    for &place in &group.members {
        let process = &snapshot.processes[place];
        for region in &process.regions {
            let sum = kinds.entry(region.kind).or_default();
            sum.0 += small_pages(snapshot, region);
            sum.1 += u64::from(region.small_windows);
            sum.2 += u64::from(region.large_windows);
        }
        for (kind, Fill { small, large }) in &process.fill {
            let sum = kinds.entry(*kind).or_default();
            for full in 0..17 {
                sum.3[full] += u64::from(small[full]);
                sum.4[full] += u64::from(large[full]);
            }
        }
    }
    kinds
        .into_iter()
        .filter(|(_, sum)| sum.1 > 0)
        .map(
            |(kind, (pages, small, large, small_fill, large_fill))| FillReport {
                kind,
                small: Windows::new(SMALL, small, pages, snapshot.page, small_fill.to_vec()),
                large: Windows::new(LARGE, large, pages, snapshot.page, large_fill.to_vec()),
            },
        )
        .collect()
}

/// Regions with most pages, those of one file and kind in all processes together.
pub fn regions(snapshot: &Snapshot, group: &Group) -> Vec<RegionReport> {
    let mut found: BTreeMap<(u32, Kind), (u64, u64, u64, u64)> = BTreeMap::new();
    for &place in &group.members {
        for region in &snapshot.processes[place].regions {
            if region.small_windows > 0 {
                let sum = found.entry((region.file, region.kind)).or_default();
                sum.0 += 1;
                sum.1 += small_pages(snapshot, region);
                sum.2 += u64::from(region.small_windows);
                sum.3 += u64::from(region.large_windows);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.1));
    found
        .into_iter()
        .take(REGIONS)
        .map(
            |((file, kind), (mappings, pages, small, large))| RegionReport {
                path: snapshot.files[file as usize].path.clone(),
                kind,
                mappings,
                small: Windows::new(SMALL, small, pages, snapshot.page, Vec::new()),
                large: Windows::new(LARGE, large, pages, snapshot.page, Vec::new()),
            },
        )
        .collect()
}

fn small_pages(snapshot: &Snapshot, region: &cohort_snapshot::model::region::Region) -> u64 {
    u64::from(region.present).saturating_sub(u64::from(region.huge) * snapshot.slots())
}
