// SPDX-License-Identifier: GPL-2.0-or-later
//! Larger pages: how full they would be, and what they would save (EuroSys'16, Figure 4).

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, count, size};
use crate::scan::metrics::Metrics;
use crate::scan::paper;
use crate::scan::part::Part;
use crate::show::{FigureResult, Kind as Plot, SeriesResult, X};
use cohort_snapshot::model::region::{Kind, Region};
use cohort_snapshot::model::{self, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;

/// Larger pages (EuroSys'16, Figure 4), for one kind of region.
#[derive(Debug, Clone, Serialize)]
pub struct Fill {
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

/// By kind of region, those with at least one page in memory.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LargerPages(pub Vec<Fill>);

impl Windows {
    pub fn new(bytes: u64, windows: u64, pages: u64, page: u64, sixteenths: Vec<u64>) -> Windows {
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

pub const SMALL: u64 = 64 << 10;
pub const LARGE: u64 = 2 << 20;

/// Pages, small and large windows, and how full those are.
type KindSum = (u64, u64, u64, [u64; 17], [u64; 17]);

impl Section for LargerPages {
    fn count(input: &Input) -> LargerPages {
        let snapshot = input.snapshot;
        let mut kinds: BTreeMap<Kind, KindSum> = BTreeMap::new();
        for &place in &input.group.members {
            let process = &snapshot.processes[place];
            for region in &process.regions {
                let sum = kinds.entry(region.kind).or_default();
                sum.0 += small_pages(snapshot, region);
                sum.1 += u64::from(region.small_windows);
                sum.2 += u64::from(region.large_windows);
            }
            for (kind, model::Fill { small, large }) in &process.fill {
                let sum = kinds.entry(*kind).or_default();
                for full in 0..17 {
                    sum.3[full] += u64::from(small[full]);
                    sum.4[full] += u64::from(large[full]);
                }
            }
        }
        let kinds = kinds
            .into_iter()
            .filter(|(_, sum)| sum.1 > 0)
            .map(
                |(kind, (pages, small, large, small_fill, large_fill))| Fill {
                    kind,
                    small: Windows::new(SMALL, small, pages, snapshot.page, small_fill.to_vec()),
                    large: Windows::new(LARGE, large, pages, snapshot.page, large_fill.to_vec()),
                },
            )
            .collect();
        LargerPages(kinds)
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::maybe_percent(
                "full-64k%",
                "how full pages of 64 KB would be",
                self.full(|fill| &fill.small),
            ),
            Column::bytes(
                "waste-64k",
                "memory that pages of 64 KB would take beyond what is used",
                self.sum(|fill| fill.small.wasted_bytes),
            ),
            Column::count(
                "spared-64k",
                "entries that they would spare",
                self.sum(|fill| fill.small.entries_saved),
            ),
            Column::maybe_percent(
                "full-2m%",
                "how full pages of 2 MB would be",
                self.full(|fill| &fill.large),
            ),
            Column::bytes(
                "waste-2m",
                "memory that pages of 2 MB would take beyond what is used",
                self.sum(|fill| fill.large.wasted_bytes),
            ),
            Column::count(
                "spared-2m",
                "entries that they would spare",
                self.sum(|fill| fill.large.entries_saved),
            ),
        ]
    }

    fn parts(&self, _: Scope) -> Vec<Part> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let title = "Larger pages, by kind of region";
        let mut part = Part::new(title, &HEADING).after(paper::EUROSYS_4);
        for fill in &self.0 {
            part.row(fill.kind.label(), &cells(&fill.small, &fill.large));
        }
        vec![part]
    }

    fn metrics(&self, text: &mut Metrics) {
        type Pick = fn(&Windows) -> f64;
        let picks: [(&str, &str, &str, Pick); 4] = [
            (
                "larger_pages",
                "",
                "larger pages that there would be, by kind of region",
                |w| w.windows as f64,
            ),
            (
                "larger_pages_full",
                "percent",
                "how full they would be",
                |w| w.full_percent,
            ),
            (
                "larger_pages_waste",
                "bytes",
                "memory that they would waste",
                |w| w.wasted_bytes as f64,
            ),
            (
                "larger_pages_spared",
                "",
                "entries that they would spare",
                |w| w.entries_saved as f64,
            ),
        ];
        for (name, unit, help, pick) in picks {
            text.family(name, unit, help);
            for fill in &self.0 {
                for windows in [&fill.small, &fill.large] {
                    let bytes = windows.bytes.to_string();
                    text.sample(
                        &[("kind", fill.kind.label()), ("page_bytes", &bytes)],
                        pick(windows),
                    );
                }
            }
        }
    }

    fn plot(&self) -> Option<FigureResult> {
        let code: Vec<&Fill> = self.0.iter().filter(|fill| fill.kind.code()).collect();
        (!code.is_empty()).then(|| FigureResult {
            title: "Windows of 64 KB by how much is missing in them".into(),
            kind: Plot::Line,
            x_label: "sixteenths that are missing, at most".into(),
            y_label: "% of windows".into(),
            log: false,
            x: (0..16)
                .map(|missing| X::Number(f64::from(missing)))
                .collect(),
            series: code
                .iter()
                .map(|fill| SeriesResult {
                    label: fill.kind.label().into(),
                    unit: "%".into(),
                    values: cumulative(&fill.small.sixteenths),
                    ranges: Vec::new(),
                    bounds: Vec::new(),
                })
                .collect(),
        })
    }
}

impl LargerPages {
    /// A sum over all kinds of regions that larger pages were tried for.
    fn sum(&self, pick: fn(&Fill) -> u64) -> u64 {
        self.0.iter().map(pick).sum()
    }

    /// How full all larger pages of a size would be, in percent.
    fn full(&self, pick: fn(&Fill) -> &Windows) -> Option<f64> {
        let each = || self.0.iter().map(pick);
        let full: f64 = each()
            .map(|windows| windows.full_percent * windows.windows as f64)
            .sum();
        let windows: u64 = each().map(|windows| windows.windows).sum();
        (windows > 0).then(|| full / windows as f64)
    }
}

/// What [`cells`] gives, behind the name of what it is about.
pub const HEADING: [&str; 8] = [
    "",
    "pages",
    "64 KB full %",
    "waste",
    "entries saved",
    "2 MB full %",
    "waste",
    "saved",
];

/// The cells of one row of a part.
pub fn cells(small: &Windows, large: &Windows) -> Vec<String> {
    vec![
        count(small.pages),
        format!("{:.0}", small.full_percent),
        size(small.wasted_bytes),
        count(small.entries_saved),
        format!("{:.0}", large.full_percent),
        size(large.wasted_bytes),
        count(large.entries_saved),
    ]
}

pub fn small_pages(snapshot: &Snapshot, region: &Region) -> u64 {
    u64::from(region.present).saturating_sub(u64::from(region.huge) * snapshot.slots())
}

/// For 0 to 15 sixteenths missing, the percentage of windows that miss no more.
fn cumulative(sixteenths: &[u64]) -> Vec<Option<f64>> {
    let all: u64 = sixteenths.iter().sum();
    (0..16)
        .map(|missing| {
            let enough: u64 = sixteenths.iter().skip(16 - missing).sum();
            (all > 0).then(|| 100.0 * enough as f64 / all as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_ends_at_all_windows() {
        let mut sixteenths = vec![0; 17];
        (sixteenths[16], sixteenths[1]) = (3, 1);
        let shares = cumulative(&sixteenths);
        assert_eq!(
            (shares[0], shares[14], shares[15]),
            (Some(75.0), Some(75.0), Some(100.0))
        );
    }
}
