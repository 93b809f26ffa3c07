// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts between marks: for a region on all cores, for a request in the process that begins it.

use crate::output::Part;
use std::collections::HashMap;
use translation::counters::{Counters, Tally};
use translation::metrics::Metric;

/// Instructions between two counts of what TLBs and caches hold.
const CENSUS_EVERY: u64 = 10_000_000;

/// A source of counters.
pub trait Counting {
    /// Counters of a core since the beginning; None without a model.
    fn counters(&self, core: usize) -> Option<Counters>;
    /// The process that a core runs; 0 if unknown.
    fn process(&self, core: usize) -> u32;
    /// Counters of a process since the beginning, on all cores; None without a model.
    fn process_counters(&self, process: u32) -> Option<Counters>;
    /// The number of cores.
    fn cores(&self) -> usize;
    /// Ticks per cycle of a core's clock.
    fn ticks_per_cycle(&self) -> u64;
    /// What TLBs and caches hold now.
    fn census(&self) -> Vec<Metric>;
}

/// The open region and the open requests.
#[derive(Debug, Default)]
pub struct Regions {
    step: u64,
    open: Option<Open>,
    requests: HashMap<u64, (Whose, Counters)>,
}

/// Whose counters a request takes.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// Those of the process that began it, on all cores.
    Process(u32),
    /// Those of the core that it began on, because the process is unknown.
    Core(usize),
}

impl Whose {
    fn counters(self, engine: &impl Counting) -> Option<Counters> {
        match self {
            Whose::Process(process) => engine.process_counters(process),
            Whose::Core(core) => engine.counters(core),
        }
    }
}

#[derive(Debug)]
struct Open {
    id: u64,
    instructions: u64,
    counters: Counters,
    next_census: u64,
    taken: u64,
    sums: Vec<Metric>,
}

fn all(engine: &impl Counting) -> Option<Counters> {
    let mut sum = Counters::default();
    for core in 0..engine.cores() {
        sum.add(&engine.counters(core)?);
    }
    Some(sum)
}

fn between(new: &Counters, old: &Counters) -> Counters {
    let mut difference = Counters::default();
    difference.add_since(new, old);
    difference
}

impl Regions {
    /// Assigns what follows to this step.
    pub fn step(&mut self, number: u64) {
        self.step = number;
    }

    /// Starts a region. If one is open, it starts again.
    pub fn start(&mut self, id: u64, instructions: u64, engine: &impl Counting) {
        self.open = Some(Open {
            id,
            instructions,
            counters: all(engine).unwrap_or_default(),
            next_census: instructions + CENSUS_EVERY,
            taken: 0,
            sums: Vec::new(),
        });
    }

    /// The instruction at which the next census is due; `u64::MAX` if no region is open.
    pub fn next_census(&self) -> u64 {
        self.open.as_ref().map_or(u64::MAX, |open| open.next_census)
    }

    /// Adds a count of what TLBs and caches hold to the open region.
    pub fn census(&mut self, engine: &impl Counting) {
        let Some(open) = &mut self.open else { return };
        open.next_census += CENSUS_EVERY;
        open.taken += 1;
        let now = engine.census();
        if open.sums.is_empty() {
            open.sums = now;
        } else {
            for (sum, now) in open.sums.iter_mut().zip(now) {
                sum.value += now.value;
            }
        }
    }

    /// Stops the open region, if there is one.
    pub fn stop(&mut self, instructions: u64, engine: &impl Counting) -> Option<Part> {
        // A region too short for a census gets one at its end.
        if self.open.as_ref().is_some_and(|open| open.taken == 0) {
            self.census(engine);
        }
        let open = self.open.take()?;
        let mut metrics = match all(engine) {
            Some(counters) => between(&counters, &open.counters).metrics(engine.ticks_per_cycle()),
            None => vec![Metric {
                name: "instructions".into(),
                value: (instructions - open.instructions) as f64,
                unit: "instructions".into(),
            }],
        };
        metrics.extend(open.sums.into_iter().map(|sum| Metric {
            value: sum.value / open.taken as f64,
            ..sum
        }));
        Some(Part {
            step: self.step,
            id: open.id,
            metrics,
        })
    }

    /// Begins a request on a core. It counts the process that runs there, on all cores, until the
    /// request ends: neither time in which the process waits nor what others do meanwhile. (The
    /// latencies in the report are from mark to mark.)
    pub fn begin(&mut self, id: u64, core: usize, engine: &impl Counting) {
        let whose = match engine.process(core) {
            0 => Whose::Core(core),
            process => Whose::Process(process),
        };
        let counters = whose.counters(engine).unwrap_or_default();
        self.requests.insert(id, (whose, counters));
    }

    /// Ends a request, on any core. Returns None outside a region, and for a request that moved to
    /// another core while its process was unknown.
    pub fn end(&mut self, id: u64, core: usize, engine: &impl Counting) -> Option<Part> {
        let (whose, old) = self.requests.remove(&id)?;
        if matches!(whose, Whose::Core(began) if began != core) {
            return None;
        }
        let new = whose.counters(engine)?;
        self.open.as_ref()?;
        Some(Part {
            step: self.step,
            id,
            metrics: between(&new, &old).metrics(engine.ticks_per_cycle()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Two cores whose counters follow the first cell; the second cell is the census.
    struct Fake(Cell<u64>, Cell<f64>);

    impl Counting for Fake {
        fn counters(&self, core: usize) -> Option<Counters> {
            let instructions = self.0.get() * (core as u64 + 1);
            Some(Counters {
                instructions,
                ..Counters::default()
            })
        }
        fn process(&self, core: usize) -> u32 {
            // The process of the first core is known, and runs on both.
            1 - core as u32
        }
        fn process_counters(&self, process: u32) -> Option<Counters> {
            assert_eq!(process, 1);
            Some(Counters {
                instructions: self.0.get() * 100,
                ..Counters::default()
            })
        }
        fn cores(&self) -> usize {
            2
        }
        fn ticks_per_cycle(&self) -> u64 {
            1
        }
        fn census(&self) -> Vec<Metric> {
            vec![Metric {
                name: "tlb-entries".into(),
                value: self.1.get(),
                unit: "entries".into(),
            }]
        }
    }

    fn value(part: &Part, name: &str) -> f64 {
        let found = part.metrics.iter().find(|metric| metric.name == name);
        found.unwrap().value
    }

    #[test]
    fn a_region_counts_all_cores_and_the_mean_of_what_they_hold() {
        let engine = Fake(Cell::new(10), Cell::new(100.0));
        let mut regions = Regions::default();
        regions.step(4);
        assert_eq!(regions.next_census(), u64::MAX);
        regions.start(7, 1_000, &engine);
        assert_eq!(regions.next_census(), 1_000 + CENSUS_EVERY);
        regions.census(&engine);
        engine.1.set(300.0);
        regions.census(&engine);
        engine.0.set(15);
        let part = regions.stop(2_000, &engine).unwrap();
        assert_eq!((part.step, part.id), (4, 7));
        assert_eq!(value(&part, "instructions"), 15.0);
        assert_eq!(value(&part, "tlb-entries"), 200.0);
        assert!(regions.stop(2_000, &engine).is_none());
    }

    #[test]
    fn a_short_region_has_one_census() {
        let engine = Fake(Cell::new(0), Cell::new(5.0));
        let mut regions = Regions::default();
        regions.start(0, 0, &engine);
        let part = regions.stop(1, &engine).unwrap();
        assert_eq!(value(&part, "tlb-entries"), 5.0);
    }

    #[test]
    fn a_request_counts_its_process_on_all_cores() {
        let engine = Fake(Cell::new(10), Cell::new(0.0));
        let mut regions = Regions::default();
        regions.start(0, 0, &engine);
        regions.begin(7, 0, &engine);
        engine.0.set(13);
        let part = regions.end(7, 1, &engine).unwrap();
        assert_eq!((part.id, value(&part, "instructions")), (7, 300.0));
    }

    #[test]
    fn a_request_of_an_unknown_process_counts_its_core_inside_a_region_only() {
        let engine = Fake(Cell::new(10), Cell::new(0.0));
        let mut regions = Regions::default();
        regions.begin(1, 1, &engine);
        assert!(regions.end(1, 1, &engine).is_none());
        regions.start(0, 0, &engine);
        regions.begin(1, 1, &engine);
        engine.0.set(13);
        assert_eq!(
            value(&regions.end(1, 1, &engine).unwrap(), "instructions"),
            6.0
        );
        // Ended twice; moved to another core; never begun.
        assert!(regions.end(1, 1, &engine).is_none());
        regions.begin(2, 1, &engine);
        assert!(regions.end(2, 0, &engine).is_none());
        assert!(regions.end(3, 0, &engine).is_none());
    }
}
