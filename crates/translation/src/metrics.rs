// SPDX-License-Identifier: GPL-2.0-or-later
//! The counters that people compare, as a flat list of names, values and units: what the lab's
//! experiments and sweeps call by name.

use crate::census::CoreCensus;
use crate::counters::{Counters, TlbCounters};
use crate::entry::SIZES_MAX;
use crate::requests::Latencies;
use serde::{Deserialize, Serialize};

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name: small letters, digits and hyphens.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

impl Metric {
    fn new(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Metric {
            name: name.into(),
            value,
            unit: unit.into(),
        }
    }
}

impl Counters {
    /// The figures of these counters, `ticks_per_cycle` ticks being a cycle.
    pub fn metrics(&self, ticks_per_cycle: u64) -> Vec<Metric> {
        let cycles = |ticks: u64| ticks as f64 / ticks_per_cycle.max(1) as f64;
        let mut list = vec![
            Metric::new("instructions", self.instructions as f64, "instructions"),
            Metric::new("cycles", cycles(self.ticks), "cycles"),
            Metric::new("itlb-stall-cycles", cycles(self.itlb_stall), "cycles"),
            Metric::new("icache-stall-cycles", cycles(self.icache_stall), "cycles"),
            Metric::new("dtlb-stall-cycles", cycles(self.dtlb_stall), "cycles"),
            Metric::new("dcache-stall-cycles", cycles(self.dcache_stall), "cycles"),
            Metric::new(
                "dependence-stall-cycles",
                cycles(self.dependence_stall),
                "cycles",
            ),
        ];
        let none = [[TlbCounters::default(); SIZES_MAX]; 2];
        for level in 0..self.tlb.len().max(2) {
            let sides = self.tlb.get(level).unwrap_or(&none);
            // Few machines have a third level: the others have no figures of one.
            if level > 1 && *sides == none {
                continue;
            }
            for (side, sizes) in sides.iter().enumerate() {
                let side = ["fetch", "data"][side];
                for (what, count) in [
                    ("hits", sizes.iter().map(|size| size.hits).sum::<u64>()),
                    (
                        "shared-hits",
                        sizes.iter().map(|size| size.shared_hits).sum(),
                    ),
                    ("misses", sizes.iter().map(|size| size.misses).sum()),
                ] {
                    let name = format!("l{}-tlb-{side}-{what}", level + 1);
                    list.push(Metric::new(name, count as f64, what));
                }
                let mpki = self.per_kilo(sizes.iter().map(|size| size.misses).sum());
                let name = format!("l{}-tlb-{side}-mpki", level + 1);
                list.push(Metric::new(name, mpki, "misses"));
            }
        }
        let walk = &self.walk;
        let walked = walk.ticks.iter().sum();
        let references: u64 = walk.references.iter().sum();
        list.push(Metric::new("walks", walk.walks as f64, "walks"));
        list.push(Metric::new("walk-cycles", cycles(walked), "cycles"));
        // What a miss of the last TLB level costs the fetches: the stalls above hold the hits of
        // that level too.
        list.push(Metric::new(
            "walk-fetch-cycles",
            cycles(walk.ticks[0]),
            "cycles",
        ));
        list.push(Metric::new(
            "walk-references",
            references as f64,
            "references",
        ));
        let caches = self.cache.iter().zip(&walk.table_lines);
        for ((cache, &tables), name) in caches.zip(["l1i", "l1d", "l2", "l3"]) {
            let lines = [
                ("hits", cache.hits),
                ("misses", cache.misses),
                ("walk-hits", cache.walk_hits),
                ("walk-misses", cache.walk_misses),
            ];
            for (what, count) in lines {
                list.push(Metric::new(format!("{name}-{what}"), count as f64, "lines"));
            }
            let mpki = self.per_kilo(cache.misses);
            list.push(Metric::new(format!("{name}-mpki"), mpki, "misses"));
            // The mean over the walks, as in the report.
            let lines = tables as f64 / walk.walks.max(1) as f64;
            list.push(Metric::new(format!("{name}-table-lines"), lines, "lines"));
        }
        let faults: u64 = self.faults.by_kind.iter().sum();
        let handling = self.faults.instructions as f64;
        let switches = self.context_switches as f64;
        list.extend([
            Metric::new("page-faults", faults as f64, "faults"),
            Metric::new("fault-instructions", handling, "instructions"),
            Metric::new("fault-cycles", cycles(self.faults.ticks), "cycles"),
            Metric::new("context-switches", switches, "switches"),
            Metric::new("stale", self.stale as f64, "entries"),
            Metric::new("unexplained", self.unexplained as f64, "accesses"),
        ]);
        // The last registered first, as it has always been.
        for (name, count, unit) in self.mechanisms.figures().into_iter().rev().flatten() {
            list.push(Metric::new(name, count as f64, unit));
        }
        list
    }
}

impl Latencies {
    /// The figures of these requests; 0 where there were none.
    pub fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::new("requests", self.count as f64, "requests"),
            Metric::new("requests-mean-cycles", self.mean, "cycles"),
            Metric::new("requests-p50-cycles", self.p50 as f64, "cycles"),
            Metric::new("requests-p95-cycles", self.p95 as f64, "cycles"),
            Metric::new("requests-p99-cycles", self.p99 as f64, "cycles"),
        ]
    }
}

/// The figures of one moment's contents, all cores together: of the last level of TLB, and of the
/// caches that hold lines of page tables.
pub fn of_census(cores: &[CoreCensus]) -> Vec<Metric> {
    let last = cores
        .iter()
        .flat_map(|core| &core.tlb)
        .map(|tlb| tlb.level)
        .max();
    let mut tlb = [0u64; 4];
    let mut lines = [0u64; 2];
    for core in cores {
        for held in core.tlb.iter().filter(|tlb| Some(tlb.level) == last) {
            let parts = [
                held.entries,
                held.in_cohorts,
                held.duplicates,
                held.duplicates_in_cohorts,
            ];
            tlb.iter_mut()
                .zip(parts)
                .for_each(|(sum, part)| *sum += part);
        }
        for cache in &core.caches {
            lines[0] += cache.table_lines;
            lines[1] += cache.duplicates;
        }
    }
    [
        ("tlb-entries", tlb[0], "entries"),
        ("tlb-cohort-entries", tlb[1], "entries"),
        ("tlb-duplicates", tlb[2], "entries"),
        ("tlb-cohort-duplicates", tlb[3], "entries"),
        ("table-lines", lines[0], "lines"),
        ("table-line-duplicates", lines[1], "lines"),
    ]
    .into_iter()
    .map(|(name, value, unit)| Metric::new(name, value as f64, unit))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::{CacheCensus, TlbCensus};

    fn value(list: &[Metric], name: &str) -> f64 {
        let mut found = list.iter().filter(|metric| metric.name == name);
        let value = found.next().unwrap_or_else(|| panic!("no {name}")).value;
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }

    #[test]
    fn sizes_are_added_and_ticks_become_cycles() {
        let mut counters = Counters {
            ticks: 9,
            icache_stall: 3,
            ..Counters::default()
        };
        counters.tlb[1][1][0].misses = 4;
        counters.tlb[1][1][1].misses = 5;
        counters.tlb[1][0][0].misses = 7;
        counters.walk.ticks = [2, 4];
        let list = counters.metrics(2);
        assert_eq!(value(&list, "cycles"), 4.5);
        assert_eq!(value(&list, "icache-stall-cycles"), 1.5);
        assert_eq!(value(&list, "l2-tlb-data-misses"), 9.0);
        assert_eq!(value(&list, "l2-tlb-fetch-misses"), 7.0);
        assert_eq!(value(&list, "l1-tlb-data-misses"), 0.0);
        assert_eq!(value(&list, "walk-cycles"), 3.0);
    }

    #[test]
    fn rates_and_means_and_what_only_some_machines_count_are_there() {
        let mut counters = Counters {
            instructions: 4000,
            ..Counters::default()
        };
        counters.tlb[1][1][0].misses = 4;
        counters.tlb[1][1][1].misses = 6;
        counters.cache[2].misses = 2;
        counters.walk.walks = 10;
        counters.mechanisms.domains.faults = 5;
        counters.mechanisms.babelfish.mask_pages = 9;
        counters.walk.table_lines = [0, 1, 25, 400];
        counters.mechanisms.babelfish.long_accesses = 1;
        counters.mechanisms.babelfish.private_refusals = 2;
        counters.mechanisms.babelfish.owned_refusals = 3;
        counters.mechanisms.babelfish.pids_listed = 4;
        counters.mechanisms.babelfish.overflows = 6;
        let list = counters.metrics(2);
        for (name, expected) in [
            ("l2-tlb-data-mpki", 2.5),
            ("l2-tlb-fetch-mpki", 0.0),
            ("l2-mpki", 0.5),
            ("l1i-table-lines", 0.0),
            ("l1d-table-lines", 0.1),
            ("l2-table-lines", 2.5),
            ("l3-table-lines", 40.0),
            ("domain-faults", 5.0),
            ("mask-pages-read", 9.0),
            ("babelfish-long-accesses", 1.0),
            ("babelfish-private-refusals", 2.0),
            ("babelfish-owned-refusals", 3.0),
            ("babelfish-pids-listed", 4.0),
            ("babelfish-overflows", 6.0),
        ] {
            assert_eq!(value(&list, name), expected, "{name}");
        }
        // Without an instruction or a walk there is no rate and no mean.
        let none = Counters::default().metrics(1);
        assert!(none.iter().all(|metric| metric.value == 0.0));
        let latencies = Latencies {
            count: 3,
            mean: 7.5,
            p50: 7,
            p95: 8,
            p99: 9,
            ..Latencies::default()
        };
        let values: Vec<f64> = latencies.metrics().iter().map(|m| m.value).collect();
        assert_eq!(values, [3.0, 7.5, 7.0, 8.0, 9.0]);
    }

    #[test]
    fn a_census_counts_the_last_tlb_of_all_cores() {
        let tlb = |level, entries, duplicates| TlbCensus {
            level,
            entries,
            duplicates,
            ..TlbCensus::default()
        };
        let core = |core| CoreCensus {
            core,
            tlb: vec![tlb(1, 64, 60), tlb(2, 100, 30)],
            caches: vec![CacheCensus {
                table_lines: 8,
                duplicates: 2,
                ..CacheCensus::default()
            }],
        };
        let list = of_census(&[core(0), core(1)]);
        assert_eq!(value(&list, "tlb-entries"), 200.0);
        assert_eq!(value(&list, "tlb-duplicates"), 60.0);
        assert_eq!(value(&list, "table-lines"), 16.0);
        assert_eq!(value(&list, "table-line-duplicates"), 4.0);
        assert!(of_census(&[]).iter().all(|metric| metric.value == 0.0));
    }
}
