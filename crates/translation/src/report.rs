// SPDX-License-Identifier: GPL-2.0-or-later
//! What a machine counted, with names, ready to be written as JSON or CSV.

use crate::counters::Counters;
use crate::event::Identity;
use crate::machine::{Counted, Machine};
use crate::memory::GuestMemory;
pub use crate::requests::Latencies;
use crate::tlb::mechanism::Counts;
use crate::violation::Violation;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of [`Report`]'s form; it changes when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// Names of the caches, as in descriptions.
pub const CACHE_NAMES: [&str; 4] = ["l1i", "l1d", "l2", "last"];

/// One level of TLB, one side, one page size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlbSummary {
    /// 1 or 2.
    pub level: usize,
    /// "fetch" or "data".
    pub side: &'static str,
    /// Page size.
    pub page: String,
    /// Hits.
    pub hits: u64,
    /// Of these, on entries that another process of the cohort brought in.
    pub shared_hits: u64,
    /// Of these, on global entries that another address space brought in.
    pub global_hits: u64,
    /// Misses.
    pub misses: u64,
    /// Misses for each thousand instructions.
    pub mpki: f64,
}

/// One level of page tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableSummary {
    /// Its name in the format.
    pub level: String,
    /// Entries read through the caches.
    pub references: u64,
    /// Entries found in the page-walk cache.
    pub cached: u64,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheSummary {
    /// "l1i", "l1d", "l2" or "last".
    pub cache: &'static str,
    /// Hits of the program.
    pub hits: u64,
    /// Misses of the program.
    pub misses: u64,
    /// Hits of the walker.
    pub walk_hits: u64,
    /// Misses of the walker.
    pub walk_misses: u64,
    /// Changed lines given to the next level to make room.
    pub writebacks: u64,
    /// Lines that its writes took from other cores, and that all cores gave up because the shared
    /// cache made room for it.
    pub invalidated: u64,
    /// The program's misses for each thousand instructions.
    pub mpki: f64,
    /// Lines of page tables that were in it, the mean over all walks.
    pub table_lines: f64,
}

/// The counters of a core, a process, a cohort or all, with names and in cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Instructions.
    pub instructions: u64,
    /// Cycles, idle time left out.
    pub cycles: u64,
    /// Fetches as the source gave them (a basic block each, or a part of one).
    pub fetches: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// TLBs; page sizes that never occurred are left out.
    pub tlb: Vec<TlbSummary>,
    /// Walks.
    pub walks: u64,
    /// Of these for fetches.
    pub fetch_walks: u64,
    /// Cycles in walks for fetches.
    pub fetch_walk_cycles: u64,
    /// Cycles in walks for data.
    pub data_walk_cycles: u64,
    /// Cycles that walks waited for the walker.
    pub walker_waiting_cycles: u64,
    /// Lookups of the page-walk cache that failed.
    pub walk_cache_misses: u64,
    /// MaskPages read.
    pub mask_pages_read: u64,
    /// By level of the page tables.
    pub tables: Vec<TableSummary>,
    /// Caches.
    pub caches: Vec<CacheSummary>,
    /// Main memory.
    pub memory: crate::counters::MemoryCounters,
    /// Stall cycles: translation of fetches.
    pub itlb_stall_cycles: u64,
    /// Stall cycles: lines of fetches.
    pub icache_stall_cycles: u64,
    /// Stall cycles: translation of loads and stores.
    pub dtlb_stall_cycles: u64,
    /// Stall cycles: lines of loads, and MSHRs.
    pub dcache_stall_cycles: u64,
    /// Stall cycles: results that instructions need of each other.
    pub dependence_stall_cycles: u64,
    /// Page faults.
    pub faults: u64,
    /// Page faults, in detail; its `ticks` are ticks.
    pub fault_details: crate::counters::FaultCounters,
    /// Cycles between faults and their ends.
    pub fault_cycles: u64,
    /// Domain faults that the hardware would have taken.
    pub domain_faults: u64,
    /// Context switches.
    pub context_switches: u64,
    /// TLB entries dropped by invalidations.
    pub tlb_invalidated: u64,
    /// TLB entries dropped at context switches.
    pub tlb_switched_out: u64,
    /// TLB entries dropped because the guest's translation had changed.
    pub tlb_stale: u64,
    /// Accesses that no walk explained.
    pub unexplained: u64,
    /// Counts of the mechanisms of the TLB, by their names in descriptions.
    #[serde(flatten)]
    pub mechanisms: Counts,
    /// The plain counters, for sums and tests.
    #[serde(skip)]
    pub counters: Counters,
}

/// A process's counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessSummary {
    /// Process and cohort; 0 where not known.
    #[serde(flatten)]
    pub identity: Identity,
    /// The root of the address space if the process is not known, else 0.
    pub root: u64,
    /// Its counts.
    #[serde(flatten)]
    pub summary: Summary,
}

/// A cohort's counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CohortSummary {
    /// The cohort.
    pub cohort: u32,
    /// How many processes counted something.
    pub processes: u64,
    /// The sum of their counts.
    #[serde(flatten)]
    pub summary: Summary,
}

/// All that a machine counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The model's name.
    pub model: String,
    /// The page-table format.
    pub page_tables: String,
    /// Clock of the cores in MHz.
    pub clock_mhz: u64,
    /// Ticks of a cycle, for the few counters that are in ticks.
    pub ticks_per_cycle: u64,
    /// Whether only a marked region of interest was counted.
    pub region_of_interest: bool,
    /// All cores together.
    pub total: Summary,
    /// Each core.
    pub cores: Vec<Summary>,
    /// Each process, in the order of appearance; those that counted nothing are left out.
    pub processes: Vec<ProcessSummary>,
    /// Each cohort, by number; processes without one are left out.
    pub cohorts: Vec<CohortSummary>,
    /// Requests.
    pub requests: Latencies,
    /// The first violations of what BabelFish's kernel promises, whatever was marked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

impl<M: GuestMemory> Machine<M> {
    /// All counters: of the region of interest if one was marked, else from the start.
    pub fn report(&self) -> Report {
        // What the running processes counted since their last switch is theirs, too.
        let mut settled = self.counted();
        settled.requests = Some(self.requests.latencies());
        let Counted {
            cores,
            buckets,
            requests,
        } = settled;
        let mut total = Counters::default();
        for core in &cores {
            total.add(core);
        }
        let mut cohorts: BTreeMap<u32, (u64, Counters)> = BTreeMap::new();
        let mut processes = Vec::new();
        for (identity, root, counters) in buckets {
            if counters == Counters::default() {
                continue;
            }
            if identity.cohort != 0 {
                let (count, sum) = cohorts.entry(identity.cohort).or_default();
                *count += 1;
                sum.add(&counters);
            }
            let summary = self.summary(&counters);
            processes.push(ProcessSummary {
                identity,
                root,
                summary,
            });
        }
        Report {
            schema_version: SCHEMA_VERSION,
            model: self.model.name.clone(),
            page_tables: self.model.page_tables.clone(),
            clock_mhz: self.model.core.clock_mhz,
            ticks_per_cycle: self.ticks_per_cycle(),
            region_of_interest: self.region.marked,
            total: self.summary(&total),
            cores: cores.iter().map(|core| self.summary(core)).collect(),
            processes,
            cohorts: cohorts
                .into_iter()
                .map(|(cohort, (processes, counters))| CohortSummary {
                    cohort,
                    processes,
                    summary: self.summary(&counters),
                })
                .collect(),
            requests: requests.unwrap_or_default(),
            violations: self.violations().to_vec(),
        }
    }

    fn summary(&self, counters: &Counters) -> Summary {
        let cycles = |ticks: u64| ticks / self.ticks_per_cycle();
        let mut tlb = Vec::new();
        for (level, sides) in counters.tlb.iter().enumerate() {
            for (side, sizes) in sides.iter().enumerate() {
                for (size, &shift) in sizes.iter().zip(self.format().sizes()) {
                    if size.hits + size.misses > 0 {
                        tlb.push(TlbSummary {
                            level: level + 1,
                            side: ["fetch", "data"][side],
                            page: crate::entry::size_name(shift),
                            hits: size.hits,
                            shared_hits: size.shared_hits,
                            global_hits: size.global_hits,
                            misses: size.misses,
                            mpki: counters.per_kilo(size.misses),
                        });
                    }
                }
            }
        }
        let walk = &counters.walk;
        let tables = self
            .format()
            .level_names()
            .zip(walk.references.iter().zip(&walk.cached));
        let caches = CACHE_NAMES
            .iter()
            .zip(counters.cache.iter().zip(&walk.table_lines));
        let used = self
            .model
            .cache
            .parts()
            .map(|(name, _)| name)
            .collect::<Vec<_>>();
        Summary {
            instructions: counters.instructions,
            cycles: cycles(counters.ticks),
            fetches: counters.fetches,
            reads: counters.reads,
            writes: counters.writes,
            tlb,
            walks: walk.walks,
            fetch_walks: walk.fetch_walks,
            fetch_walk_cycles: cycles(walk.ticks[0]),
            data_walk_cycles: cycles(walk.ticks[1]),
            walker_waiting_cycles: cycles(walk.waiting),
            walk_cache_misses: walk.cache_misses,
            mask_pages_read: counters.mechanisms.babelfish.mask_pages,
            tables: tables
                .map(|(level, (&references, &cached))| TableSummary {
                    level: level.to_owned(),
                    references,
                    cached,
                })
                .collect(),
            caches: caches
                .filter(|(name, _)| used.contains(name))
                .map(|(&cache, (counted, &lines))| CacheSummary {
                    cache,
                    hits: counted.hits,
                    misses: counted.misses,
                    walk_hits: counted.walk_hits,
                    walk_misses: counted.walk_misses,
                    writebacks: counted.writebacks,
                    invalidated: counted.invalidated,
                    mpki: counters.per_kilo(counted.misses),
                    table_lines: lines as f64 / walk.walks.max(1) as f64,
                })
                .collect(),
            memory: counters.memory,
            itlb_stall_cycles: cycles(counters.itlb_stall),
            icache_stall_cycles: cycles(counters.icache_stall),
            dtlb_stall_cycles: cycles(counters.dtlb_stall),
            dcache_stall_cycles: cycles(counters.dcache_stall),
            dependence_stall_cycles: cycles(counters.dependence_stall),
            faults: counters.faults.by_kind.iter().sum(),
            fault_details: counters.faults,
            fault_cycles: cycles(counters.faults.ticks),
            domain_faults: counters.mechanisms.domains.faults,
            context_switches: counters.context_switches,
            tlb_invalidated: counters.invalidated,
            tlb_switched_out: counters.switched_out,
            tlb_stale: counters.stale,
            unexplained: counters.unexplained,
            mechanisms: counters.mechanisms,
            counters: counters.clone(),
        }
    }
}

impl Summary {
    /// Hits and misses of a TLB level (1 or 2) on one side ("fetch" or "data"), all page sizes:
    /// `(hits, shared hits, misses)`.
    pub fn tlb_sum(&self, level: usize, side: &str) -> (u64, u64, u64) {
        let mine = self
            .tlb
            .iter()
            .filter(|tlb| tlb.level == level && tlb.side == side);
        mine.fold((0, 0, 0), |sum, tlb| {
            (
                sum.0 + tlb.hits,
                sum.1 + tlb.shared_hits,
                sum.2 + tlb.misses,
            )
        })
    }
}
