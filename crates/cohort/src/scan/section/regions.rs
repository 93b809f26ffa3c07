// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and kinds of memory with most pages, and larger pages for each.

use super::base::{Input, Scope, Section};
use super::larger_pages::{HEADING, LARGE, SMALL, Windows, cells, small_pages};
use crate::scan::cell::shorten;
use crate::scan::part::Part;
use cohort_snapshot::model::region::Kind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Regions in the JSON.
const REGIONS: usize = 20;
/// Regions in the part.
const ROWS: usize = 10;

/// A file, or memory of one kind, in all processes of a group.
#[derive(Debug, Clone, Serialize)]
pub struct Region {
    pub path: String,
    pub kind: Kind,
    pub mappings: u64,
    pub small: Windows,
    pub large: Windows,
}

/// Those with most pages, most first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Regions(Vec<Region>);

impl Section for Regions {
    fn count(input: &Input) -> Regions {
        let snapshot = input.snapshot;
        let mut found: BTreeMap<(u32, Kind), (u64, u64, u64, u64)> = BTreeMap::new();
        for &place in &input.group.members {
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
        let found = found
            .into_iter()
            .take(REGIONS)
            .map(|((file, kind), (mappings, pages, small, large))| Region {
                path: snapshot.files[file as usize].path.clone(),
                kind,
                mappings,
                small: Windows::new(SMALL, small, pages, snapshot.page, Vec::new()),
                large: Windows::new(LARGE, large, pages, snapshot.page, Vec::new()),
            })
            .collect();
        Regions(found)
    }

    fn parts(&self, _: Scope) -> Vec<Part> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut part = Part::new("Larger pages, the regions with most pages", &HEADING);
        for region in self.0.iter().take(ROWS) {
            let name = match region.path.as_str() {
                "" => format!("[{}]", region.kind.label()),
                path => path.to_string(),
            };
            part.row(&shorten(&name, 20), &cells(&region.small, &region.large));
        }
        vec![part]
    }
}
