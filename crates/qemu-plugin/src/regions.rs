// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts between marks: for a region on all cores, for a request in the process that begins it.

use crate::output::Part;
use std::collections::HashMap;
use translation::counters::{Counters, Tally};
use translation::metrics::Metric;

/// Instructions between two counts of what TLBs and caches hold.
const CENSUS_EVERY: u64 = 10_000_000;

/// A source of counters: of a model as it is described (reading 0) and of its other readings.
pub trait Counting {
    /// How many readings there are, the model as it is described among them; 0 without a model.
    fn readings(&self) -> usize;
    /// Counters of a core since the beginning.
    fn counters(&self, reading: usize, core: usize) -> Counters;
    /// The process that a core runs; 0 if unknown.
    fn process(&self, core: usize) -> u32;
    /// Counters of a process since the beginning, on all cores.
    fn process_counters(&self, reading: usize, process: u32) -> Counters;
    /// The number of cores.
    fn cores(&self) -> usize;
    /// Ticks per cycle of a core's clock.
    fn ticks_per_cycle(&self, reading: usize) -> u64;
    /// What TLBs and caches hold now.
    fn census(&self) -> Vec<Metric>;
}

/// The open region and the open requests.
#[derive(Debug, Default)]
pub struct Regions {
    step: u64,
    open: Option<Open>,
    requests: HashMap<u64, (Whose, Vec<Counters>)>,
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
    /// Of each reading.
    fn counters(self, engine: &impl Counting) -> Vec<Counters> {
        let of = |reading| match self {
            Whose::Process(process) => engine.process_counters(reading, process),
            Whose::Core(core) => engine.counters(reading, core),
        };
        (0..engine.readings()).map(of).collect()
    }
}

#[derive(Debug)]
struct Open {
    id: u64,
    instructions: u64,
    /// Of each reading.
    counters: Vec<Counters>,
    next_census: u64,
    taken: u64,
    sums: Vec<Metric>,
}

/// The sums over all cores, of each reading.
fn all(engine: &impl Counting) -> Vec<Counters> {
    let of = |reading| {
        let mut sum = Counters::default();
        for core in 0..engine.cores() {
            sum.add(&engine.counters(reading, core));
        }
        sum
    };
    (0..engine.readings()).map(of).collect()
}

/// What each reading counted between two moments: the model as it is described first.
fn between(new: &[Counters], old: &[Counters], engine: &impl Counting) -> Vec<Vec<Metric>> {
    let of = |(reading, (new, old)): (usize, (&Counters, &Counters))| {
        let mut difference = Counters::default();
        difference.add_since(new, old);
        difference.metrics(engine.ticks_per_cycle(reading))
    };
    new.iter().zip(old).enumerate().map(of).collect()
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
            counters: all(engine),
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
        let mut readings = between(&all(engine), &open.counters, engine);
        let mut metrics = match readings.is_empty() {
            false => readings.remove(0),
            true => vec![Metric {
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
            readings,
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
        let counters = whose.counters(engine);
        self.requests.insert(id, (whose, counters));
    }

    /// Ends a request, on any core. Returns None outside a region, and for a request that moved to
    /// another core while its process was unknown.
    pub fn end(&mut self, id: u64, core: usize, engine: &impl Counting) -> Option<Part> {
        let (whose, old) = self.requests.remove(&id)?;
        if matches!(whose, Whose::Core(began) if began != core) {
            return None;
        }
        self.open.as_ref()?;
        let mut readings = between(&whose.counters(engine), &old, engine);
        if readings.is_empty() {
            return None;
        }
        Some(Part {
            step: self.step,
            id,
            metrics: readings.remove(0),
            readings,
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
        fn readings(&self) -> usize {
            2
        }
        fn counters(&self, reading: usize, core: usize) -> Counters {
            let instructions = self.0.get() * (core as u64 + 1);
            Counters {
                instructions,
                // The other reading takes twice as long.
                ticks: instructions * 6 * (reading as u64 + 1),
                ..Counters::default()
            }
        }
        fn process(&self, core: usize) -> u32 {
            // The process of the first core is known, and runs on both.
            1 - core as u32
        }
        fn process_counters(&self, reading: usize, process: u32) -> Counters {
            assert_eq!(process, 1);
            let instructions = self.0.get() * 100;
            Counters {
                instructions,
                ticks: instructions * 6 * (reading as u64 + 1),
                ..Counters::default()
            }
        }
        fn cores(&self) -> usize {
            2
        }
        fn ticks_per_cycle(&self, reading: usize) -> u64 {
            // It issues three instructions per cycle instead of two.
            2 + reading as u64
        }
        fn census(&self) -> Vec<Metric> {
            vec![Metric {
                name: "tlb-entries".into(),
                value: self.1.get(),
                unit: "entries".into(),
            }]
        }
    }

    fn of(metrics: &[Metric], name: &str) -> f64 {
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap().value
    }

    fn value(part: &Part, name: &str) -> f64 {
        of(&part.metrics, name)
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
        // Each reading has its own clock.
        assert_eq!(value(&part, "cycles"), 45.0);
        assert_eq!(part.readings.len(), 1);
        assert_eq!(of(&part.readings[0], "instructions"), 15.0);
        assert_eq!(of(&part.readings[0], "cycles"), 60.0);
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
        assert_eq!(value(&part, "cycles"), 900.0);
        assert_eq!(of(&part.readings[0], "cycles"), 1_200.0);
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
