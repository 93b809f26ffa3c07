// SPDX-License-Identifier: GPL-2.0-or-later
use super::sets::Sets;
use super::{Dice, POLICIES, turn};
use crate::cache::{Hierarchy, Request, Shape, Shapes, which};
use crate::counters::{CacheCounters, Counters};
use crate::dram::Geometry;
use crate::replacement::Policy;

const MEMORY: Geometry = Geometry {
    channels: 1,
    banks: 1,
    row_lines: 1 << 40,
    hit: 100,
    closed: 100,
    conflict: 100,
    refresh: 0,
    burst: 0,
};

fn shape(lines: usize, ways: usize, latency: u64) -> Shape {
    Shape {
        lines,
        ways,
        policy: Policy::Lru,
        latency,
        through: false,
    }
}

fn shapes(walk_in_l1d: bool) -> Shapes {
    Shapes {
        l1: [shape(8, 2, 2), shape(8, 2, 2)],
        l2: Some(shape(32, 4, 8)),
        last: Some(shape(128, 4, 32)),
        last_mshrs: 4096,
        line_shift: 6,
        walk_in_l1d,
        snoop: 5,
        memory: MEMORY,
    }
}

/// A line in a naive cache.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Line {
    line: u64,
    dirty: bool,
    own: bool,
    table: bool,
}

/// A cache as sets of ways.
#[derive(Clone)]
struct List(Sets<Line>);

impl List {
    fn new(shape: &Shape) -> Self {
        Self(Sets::new(shape.lines, shape.ways, turn(shape.policy)))
    }
    fn place(&self, line: u64) -> Option<(usize, usize)> {
        let set = self.0.set_of(line);
        let way = self.0.find(set, |held| held.line == line)?;
        Some((set, way))
    }
    fn get(&mut self, line: u64) -> Option<&mut Line> {
        let (set, way) = self.place(line)?;
        self.0.way(set, way).as_mut()
    }
    fn touch(&mut self, line: u64) -> bool {
        let place = self.place(line);
        if let Some((set, way)) = place {
            self.0.used(set, way);
        }
        place.is_some()
    }
    fn fill(&mut self, line: Line) -> Option<Line> {
        self.0.put(self.0.set_of(line.line), line)
    }
    fn drop_line(&mut self, line: u64) -> Option<Line> {
        let (set, way) = self.place(line)?;
        self.0.way(set, way).take()
    }
    fn tables(&self) -> u64 {
        self.0
            .ways
            .iter()
            .flatten()
            .flatten()
            .filter(|line| line.table)
            .count() as u64
    }
}

/// A core's own caches, and what it has counted: in each of the four caches, and the lines it read
/// from memory and wrote back there.
#[derive(Clone)]
struct Own {
    l1: [List; 2],
    l2: Option<List>,
    cache: [CacheCounters; 4],
    memory: [u64; 2],
}

impl Own {
    /// The caches with their numbers.
    fn caches(&mut self) -> impl Iterator<Item = (usize, &mut List)> {
        self.l1.iter_mut().chain(&mut self.l2).enumerate()
    }
}

/// Private lists over a shared one; who has a line is found by looking. What an access brings about
/// in other cores' caches counts for the core that made it.
struct Naive {
    cores: Vec<Own>,
    last: Option<List>,
    shapes: Shapes,
}

impl Naive {
    fn new(shapes: &Shapes, cores: usize) -> Self {
        let own = Own {
            l1: [List::new(&shapes.l1[0]), List::new(&shapes.l1[1])],
            l2: shapes.l2.as_ref().map(List::new),
            cache: Default::default(),
            memory: [0; 2],
        };
        Self {
            cores: vec![own; cores],
            last: shapes.last.as_ref().map(List::new),
            shapes: *shapes,
        }
    }

    /// All cores for which `of` says yes give the line up: whether any had it, and whether one had
    /// changed it.
    fn drop_line(&mut self, core: usize, line: u64, of: impl Fn(usize) -> bool) -> (bool, bool) {
        let (mut any, mut dirty) = (false, false);
        let mut invalidated = [0; 3];
        let cores = self.cores.iter_mut().enumerate();
        for (_, own) in cores.filter(|(other, _)| of(*other)) {
            for (number, cache) in own.caches() {
                if let Some(held) = cache.drop_line(line) {
                    any = true;
                    dirty |= held.dirty;
                    invalidated[number] += 1;
                }
            }
        }
        for (number, count) in invalidated.into_iter().enumerate() {
            self.cores[core].cache[number].invalidated += count;
        }
        (any, dirty)
    }

    /// The others give the line up: the time it takes. Without a shared cache nobody asks them.
    fn take(&mut self, core: usize, line: u64) -> u64 {
        if self.last.is_none() {
            return 0;
        }
        let (any, dirty) = self.drop_line(core, line, |other| other != core);
        if dirty {
            self.last_line(line).dirty = true;
        }
        if any { self.shapes.snoop } else { 0 }
    }

    /// The last level contains all others.
    fn last_line(&mut self, line: u64) -> &mut Line {
        let last = self.last.as_mut().unwrap();
        last.get(line).expect("the last level contains the others")
    }

    fn own(&mut self, core: usize, line: u64) {
        for (_, cache) in self.cores[core].caches() {
            if let Some(held) = cache.get(line) {
                held.own = true;
            }
        }
    }

    fn evicted(&mut self, core: usize, from: usize, old: Option<Line>) {
        let Some(old) = old.filter(|old| old.dirty) else {
            return;
        };
        let own = &mut self.cores[core];
        own.cache[from].writebacks += 1;
        let l2 = own.l2.as_mut().filter(|_| from != which::L2);
        if let Some(held) = l2.and_then(|l2| l2.get(old.line)) {
            held.dirty = true;
        } else if self.last.is_some() {
            self.last_line(old.line).dirty = true;
        } else {
            own.memory[1] += 1;
        }
    }

    /// A written line goes to the next cache that has it, or to memory.
    fn through(&mut self, core: usize, line: u64) {
        let own = &mut self.cores[core];
        for cache in own.l2.iter_mut().chain(&mut self.last) {
            if cache.touch(line) {
                cache.get(line).unwrap().dirty = true;
                return;
            }
        }
        own.memory[1] += 1;
    }

    /// A lookup of a cache by a core's program or its walker.
    fn look(&mut self, core: usize, cache: usize, walk: bool, line: u64) -> bool {
        let own = &mut self.cores[core];
        let list = match cache {
            which::L2 => own.l2.as_mut(),
            which::LAST => self.last.as_mut(),
            side => Some(&mut own.l1[side]),
        };
        let list = list.unwrap();
        let hit = list.touch(line);
        if hit {
            list.get(line).unwrap().table |= walk;
        }
        let counters = &mut own.cache[cache];
        *match (walk, hit) {
            (false, true) => &mut counters.hits,
            (false, false) => &mut counters.misses,
            (true, true) => &mut counters.walk_hits,
            (true, false) => &mut counters.walk_misses,
        } += 1;
        hit
    }

    fn access(&mut self, core: usize, request: Request, line: u64) -> u64 {
        let walk = request == Request::Walk;
        let write = request == Request::Write;
        let side = usize::from(request != Request::Fetch);
        let shapes = self.shapes;
        let uses_l1 = !walk || shapes.walk_in_l1d;
        let mut time = 0;
        if uses_l1 {
            if self.look(core, side, walk, line) {
                if write {
                    if !self.cores[core].l1[side].get(line).unwrap().own {
                        time += self.take(core, line);
                        self.own(core, line);
                    }
                    match shapes.l1[side].through {
                        true => self.through(core, line),
                        false => self.cores[core].l1[side].get(line).unwrap().dirty = true,
                    }
                }
                return time + if walk { shapes.l1[side].latency } else { 0 };
            }
            time += shapes.l1[side].latency;
        }
        let mut new = Line {
            line,
            dirty: false,
            own: false,
            table: walk,
        };
        let mut found = false;
        if let Some(shape) = shapes.l2 {
            time += shape.latency;
            found = self.look(core, which::L2, walk, line);
        }
        if found {
            let held = self.cores[core].l2.as_mut().unwrap().get(line).unwrap();
            (new.table, new.own) = (held.table, held.own);
            if write && !new.own {
                time += self.take(core, line);
                self.own(core, line);
                new.own = true;
            }
        } else {
            time += self.below(core, write, &mut new);
            if let Some(l2) = &mut self.cores[core].l2 {
                let old = l2.fill(new);
                self.evicted(core, which::L2, old);
            }
        }
        if uses_l1 {
            let through = shapes.l1[side].through;
            if write && through {
                self.through(core, line);
            }
            let old = self.cores[core].l1[side].fill(Line {
                dirty: write && !through,
                ..new
            });
            self.evicted(core, side, old);
        }
        time
    }

    /// A miss of all private caches: the time from there on.
    fn below(&mut self, core: usize, write: bool, new: &mut Line) -> u64 {
        let line = new.line;
        let Some(shape) = self.shapes.last else {
            self.cores[core].memory[0] += 1;
            new.own = true;
            return MEMORY.hit;
        };
        if !self.look(core, which::LAST, new.table, line) {
            self.cores[core].memory[0] += 1;
            new.own = true;
            let old = self
                .last
                .as_mut()
                .unwrap()
                .fill(Line { own: false, ..*new });
            if let Some(old) = old {
                let (_, dirty) = self.drop_line(core, old.line, |_| true);
                if dirty || old.dirty {
                    self.cores[core].cache[which::LAST].writebacks += 1;
                    self.cores[core].memory[1] += 1;
                }
            }
            return shape.latency + MEMORY.hit;
        }
        if write {
            new.own = true;
            return shape.latency + self.take(core, line);
        }
        let mut dirty = false;
        for (other, own) in self.cores.iter_mut().enumerate() {
            for (_, cache) in own.caches() {
                if let Some(held) = cache.get(line).filter(|_| other != core) {
                    dirty |= held.dirty;
                    (held.dirty, held.own) = (false, false);
                }
            }
        }
        if dirty {
            self.last_line(line).dirty = true;
            return shape.latency + self.shapes.snoop;
        }
        shape.latency
    }
}

/// Every step's time, and after it every count of every core.
fn compare(shapes: &Shapes, cores: usize, steps: u64) {
    let mut real = Hierarchy::new(shapes, cores);
    let mut naive = Naive::new(shapes, cores);
    let mut counters = vec![Counters::default(); cores];
    let mut dice = Dice::new(steps + cores as u64);
    // Memory is as slow for all rows and no bank is ever busy: time stands still for it.
    for step in 0..steps {
        let core = dice.below(cores as u64) as usize;
        let far = dice.below(3) == 0;
        let line = dice.below(if far { 300 } else { 24 });
        let request = match dice.below(8) {
            0 => Request::Fetch,
            1 => Request::Walk,
            2..4 => Request::Write,
            _ => Request::Read,
        };
        let expected = naive.access(core, request, line);
        let side = usize::from(request != Request::Fetch);
        let write = request == Request::Write;
        let own = &mut counters[core];
        let quick = request != Request::Walk && real.hit_l1(core, side, line, write, own);
        let now = step * 1000;
        let time = if quick {
            0
        } else {
            real.access(core, request, line, now, own)
        };
        let what = || format!("step {step}: {request:?} of line {line} by core {core}");
        assert_eq!(time, expected, "{}", what());
        for (own, naive) in counters.iter().zip(&naive.cores) {
            assert_eq!(own.cache, naive.cache, "{}", what());
            let memory = [own.memory.reads, own.memory.writes];
            assert_eq!(memory, naive.memory, "{}", what());
        }
        if step % 512 == 0 {
            for core in 0..cores {
                let lists = &naive.cores[core];
                let tables = [
                    lists.l1[0].tables(),
                    lists.l1[1].tables(),
                    lists.l2.as_ref().map_or(0, List::tables),
                    naive.last.as_ref().map_or(0, List::tables),
                ];
                assert_eq!(real.table_lines(core), tables, "step {step}");
                for (cache, &count) in tables.iter().enumerate() {
                    assert_eq!(real.table_lines_of(core, cache).len() as u64, count);
                }
            }
        }
    }
    // All of it happened.
    let mut sum = Counters::default();
    counters.iter().for_each(|own| sum.add(own));
    let few = steps / 5000;
    let there = [true, true, shapes.l2.is_some(), shapes.last.is_some()];
    for (number, cache) in sum.cache.iter().enumerate() {
        let walked = match number {
            which::L1I => false,
            which::L1D => shapes.walk_in_l1d,
            _ => there[number],
        };
        let given_up = number != which::LAST && shapes.last.is_some() && there[number];
        for (count, happens) in [
            (cache.hits, there[number]),
            (cache.misses, there[number]),
            (cache.walk_hits, walked),
            (cache.walk_misses, walked),
            (
                cache.writebacks,
                there[number] && number != which::L1I && !(number < 2 && shapes.l1[number].through),
            ),
            (cache.invalidated, given_up),
        ] {
            assert_eq!(count > few, happens, "{number}: {cache:?}");
        }
    }
    assert!(sum.memory.reads > few && sum.memory.writes > few);
}

#[test]
fn random_accesses_of_one_core_agree_with_lists() {
    compare(&shapes(false), 1, 1_000_000);
}

#[test]
fn random_accesses_of_four_cores_agree_with_lists() {
    compare(&shapes(false), 4, 1_000_000);
}

#[test]
fn random_accesses_agree_with_lists_when_walks_go_through_the_l1() {
    compare(&shapes(true), 3, 1_000_000);
}

#[test]
fn random_accesses_agree_with_lists_without_an_l2() {
    for (walk_in_l1d, cores) in [(true, 4), (true, 2), (false, 3)] {
        let shapes = Shapes {
            l2: None,
            ..shapes(walk_in_l1d)
        };
        compare(&shapes, cores, 300_000);
    }
}

#[test]
fn random_accesses_agree_with_lists_without_a_last_level() {
    for (walk_in_l1d, l2, cores) in [(true, true, 1), (false, true, 3), (true, false, 1)] {
        let all = shapes(walk_in_l1d);
        let shapes = Shapes {
            l2: all.l2.filter(|_| l2),
            last: None,
            ..all
        };
        compare(&shapes, cores, 300_000);
    }
}

#[test]
fn random_accesses_agree_with_lists_when_the_l1d_writes_through() {
    for (l2, last, cores) in [(true, true, 4), (false, true, 3), (true, false, 1)] {
        let all = shapes(cores > 1);
        let mut shapes = Shapes {
            l2: all.l2.filter(|_| l2),
            last: all.last.filter(|_| last),
            ..all
        };
        shapes.l1[1].through = true;
        compare(&shapes, cores, 300_000);
    }
}

#[test]
fn a_cache_that_writes_through_gives_no_line_up_changed() {
    // GIVEN an L1D set of two ways that writes through WHEN three lines of it are written THEN
    // none is written back from it, and the L2 holds them changed.
    let mut shapes = shapes(false);
    shapes.l1[1].through = true;
    let mut caches = Hierarchy::new(&shapes, 1);
    let mut counters = Counters::default();
    for line in [0, 4, 8, 0, 4, 8] {
        caches.access(0, Request::Write, line, 0, &mut counters);
    }
    assert_eq!(counters.cache[which::L1D].writebacks, 0);
    // Five lines of the same set of the L2, of four ways, push line 0 and then line 8 out.
    for line in [16, 24, 32, 40] {
        caches.access(0, Request::Fetch, line, 0, &mut counters);
    }
    assert_eq!(counters.cache[which::L2].writebacks, 2);
}

#[test]
fn random_accesses_agree_with_lists_whichever_way_goes() {
    // Each policy once in each place.
    for first in 0..4 {
        let with = |shape: Shape, place: usize| Shape {
            policy: POLICIES[(first + place) % 4].0,
            ..shape
        };
        let all = shapes(first % 2 == 0);
        let shapes = Shapes {
            l1: [with(all.l1[0], 0), with(all.l1[1], 1)],
            l2: all.l2.map(|shape| with(shape, 2)),
            last: all.last.map(|shape| with(shape, 3)),
            ..all
        };
        compare(&shapes, 1 + first, 300_000);
    }
}

#[test]
fn page_tables_and_data_push_each_other_out() {
    // GIVEN an L2 set of four ways full of data WHEN the walker reads a line of the same set THEN
    // the oldest line of data goes.
    let mut caches = Hierarchy::new(&shapes(false), 1);
    let mut counters = Counters::default();
    for line in [0, 8, 16, 24] {
        caches.access(0, Request::Read, line, 0, &mut counters);
    }
    caches.access(0, Request::Walk, 32, 0, &mut counters);
    assert_eq!(caches.table_lines(0), [0, 0, 1, 1]);
    let before = counters.cache[which::L2].hits;
    caches.access(0, Request::Fetch, 24, 0, &mut counters);
    assert_eq!(
        counters.cache[which::L2].hits,
        before + 1,
        "line 24 is still there"
    );
    caches.access(0, Request::Fetch, 0, 0, &mut counters);
    assert_eq!(counters.cache[which::L2].hits, before + 1, "line 0 is not");
}

#[test]
fn cores_compete_for_the_mshrs_of_the_shared_cache() {
    let shapes = Shapes {
        last_mshrs: 2,
        memory: Geometry {
            channels: 1,
            banks: 64,
            ..MEMORY
        },
        ..shapes(false)
    };
    let mut caches = Hierarchy::new(&shapes, 3);
    let mut counters = Counters::default();
    let mut read = |caches: &mut Hierarchy, core, line, now| {
        caches.access(core, Request::Read, line, now, &mut counters)
    };
    // 2 + 8 + 32 down to memory, 100 there, each on a bank of its own.
    assert_eq!(read(&mut caches, 0, 1, 0), 142);
    assert_eq!(read(&mut caches, 1, 2, 0), 142);
    // The third core's miss comes at 52 and waits for the first two at 142.
    assert_eq!(read(&mut caches, 2, 3, 10), 42 + 90 + 100);
    // A hit in the shared cache needs none.
    assert_eq!(read(&mut caches, 2, 1, 20), 42);
}
