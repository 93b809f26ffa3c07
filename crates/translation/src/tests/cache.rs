// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::cache::{Hierarchy, Request, Shape, Shapes, which};
use crate::counters::Counters;
use crate::dram::Geometry;
use crate::order::Policy;

const MEMORY: Geometry = Geometry {
    banks: 1,
    row_lines: 1 << 40,
    hit: 100,
    closed: 100,
    conflict: 100,
    burst: 0,
};

fn shape(lines: usize, ways: usize, latency: u64) -> Shape {
    Shape {
        lines,
        ways,
        policy: Policy::Lru,
        latency,
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

/// A cache as lists, the next victim first.
#[derive(Clone)]
struct List {
    ways: usize,
    sets: Vec<Vec<Line>>,
}

impl List {
    fn new(lines: usize, ways: usize) -> Self {
        Self {
            ways,
            sets: vec![Vec::new(); lines / ways],
        }
    }
    fn set(&mut self, line: u64) -> &mut Vec<Line> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }
    fn get(&mut self, line: u64) -> Option<&mut Line> {
        self.set(line).iter_mut().find(|held| held.line == line)
    }
    fn touch(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(place) = set.iter().position(|held| held.line == line) else {
            return false;
        };
        let held = set.remove(place);
        set.push(held);
        true
    }
    fn fill(&mut self, line: Line) -> Option<Line> {
        let ways = self.ways;
        let set = self.set(line.line);
        let old = (set.len() == ways).then(|| set.remove(0));
        set.push(line);
        old
    }
    fn drop_line(&mut self, line: u64) -> Option<Line> {
        let set = self.set(line);
        let place = set.iter().position(|held| held.line == line)?;
        Some(set.remove(place))
    }
    fn tables(&self) -> u64 {
        self.sets.iter().flatten().filter(|line| line.table).count() as u64
    }
}

/// Two levels of private lists a core over one shared; who has a line is found by looking.
struct Naive {
    cores: Vec<[List; 3]>,
    last: List,
    walk_in_l1d: bool,
    memory_reads: u64,
    memory_writes: u64,
}

impl Naive {
    fn new(shapes: &Shapes, cores: usize) -> Self {
        let list = |shape: Shape| List::new(shape.lines, shape.ways);
        let private = [
            list(shapes.l1[0]),
            list(shapes.l1[1]),
            list(shapes.l2.unwrap()),
        ];
        Self {
            cores: vec![private; cores],
            last: list(shapes.last.unwrap()),
            walk_in_l1d: shapes.walk_in_l1d,
            memory_reads: 0,
            memory_writes: 0,
        }
    }

    /// The others give the line up: whether any had it.
    fn take(&mut self, core: usize, line: u64) -> bool {
        let (mut any, mut dirty) = (false, false);
        for (other, caches) in self.cores.iter_mut().enumerate() {
            if other != core {
                for cache in caches {
                    if let Some(held) = cache.drop_line(line) {
                        any = true;
                        dirty |= held.dirty;
                    }
                }
            }
        }
        if dirty {
            self.last.get(line).unwrap().dirty = true;
        }
        any
    }

    fn own(&mut self, core: usize, line: u64) {
        for cache in &mut self.cores[core] {
            if let Some(held) = cache.get(line) {
                held.own = true;
            }
        }
    }

    fn evicted(&mut self, core: usize, from: usize, old: Option<Line>) {
        let Some(old) = old.filter(|old| old.dirty) else {
            return;
        };
        if from != 2 {
            if let Some(held) = self.cores[core][2].get(old.line) {
                held.dirty = true;
                return;
            }
        }
        self.last
            .get(old.line)
            .expect("the last level contains the others")
            .dirty = true;
    }

    fn access(&mut self, core: usize, request: Request, line: u64) -> u64 {
        let walk = request == Request::Walk;
        let write = request == Request::Write;
        let side = usize::from(request != Request::Fetch);
        let uses_l1 = !walk || self.walk_in_l1d;
        let mut time = 0;
        if uses_l1 {
            if self.cores[core][side].touch(line) {
                let held = self.cores[core][side].get(line).unwrap();
                held.table |= walk;
                let own = held.own;
                if write {
                    if !own {
                        time += if self.take(core, line) { 5 } else { 0 };
                        self.own(core, line);
                    }
                    self.cores[core][side].get(line).unwrap().dirty = true;
                }
                return time + if walk { 2 } else { 0 };
            }
            time += 2;
        }
        time += 8;
        let mut new = Line {
            line,
            dirty: false,
            own: false,
            table: walk,
        };
        if self.cores[core][2].touch(line) {
            let held = self.cores[core][2].get(line).unwrap();
            held.table |= walk;
            new.table = held.table;
            new.own = held.own;
            if write && !new.own {
                time += if self.take(core, line) { 5 } else { 0 };
                self.own(core, line);
                new.own = true;
            }
        } else {
            time += 32;
            if self.last.touch(line) {
                self.last.get(line).unwrap().table |= walk;
                let holders: Vec<usize> = (0..self.cores.len())
                    .filter(|&other| other != core)
                    .filter(|&other| (0..3).any(|c| self.cores[other][c].get(line).is_some()))
                    .collect();
                if write {
                    time += if self.take(core, line) { 5 } else { 0 };
                    new.own = true;
                } else {
                    let mut dirty = false;
                    for &other in &holders {
                        for cache in &mut self.cores[other] {
                            if let Some(held) = cache.get(line) {
                                dirty |= held.dirty;
                                held.dirty = false;
                                held.own = false;
                            }
                        }
                    }
                    if dirty {
                        self.last.get(line).unwrap().dirty = true;
                        time += 5;
                    }
                }
            } else {
                time += 100;
                self.memory_reads += 1;
                new.own = true;
                let old = self.last.fill(Line {
                    dirty: false,
                    own: false,
                    ..new
                });
                if let Some(old) = old {
                    let mut dirty = old.dirty;
                    for cache in self.cores.iter_mut().flatten() {
                        dirty |= cache.drop_line(old.line).is_some_and(|held| held.dirty);
                    }
                    self.memory_writes += u64::from(dirty);
                }
            }
            let old = self.cores[core][2].fill(new);
            self.evicted(core, 2, old);
        }
        if uses_l1 {
            let old = self.cores[core][side].fill(Line {
                dirty: write,
                ..new
            });
            self.evicted(core, side, old);
        }
        time
    }
}

fn compare(walk_in_l1d: bool, cores: usize, steps: u64) {
    let shapes = shapes(walk_in_l1d);
    let mut real = Hierarchy::new(&shapes, cores);
    let mut naive = Naive::new(&shapes, cores);
    let mut counters = Counters::default();
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
        let quick = request != Request::Walk && real.hit_l1(core, side, line, write, &mut counters);
        let now = step * 1000;
        let time = if quick {
            0
        } else {
            real.access(core, request, line, now, &mut counters)
        };
        assert_eq!(
            time, expected,
            "step {step}: {request:?} of line {line} by core {core}"
        );
        if step % 512 == 0 {
            for core in 0..cores {
                let lists = &naive.cores[core];
                let tables = [
                    lists[0].tables(),
                    lists[1].tables(),
                    lists[2].tables(),
                    naive.last.tables(),
                ];
                assert_eq!(real.table_lines(core), tables, "step {step}");
                for (cache, &count) in tables.iter().enumerate() {
                    assert_eq!(real.table_lines_of(core, cache).len() as u64, count);
                }
            }
        }
    }
    assert_eq!(counters.memory.reads, naive.memory_reads);
    assert_eq!(counters.memory.writes, naive.memory_writes);
    let all: u64 = counters.cache[..2]
        .iter()
        .map(|cache| cache.hits + cache.misses)
        .sum();
    let walks = counters.cache[which::L1D].walk_hits + counters.cache[which::L1D].walk_misses;
    let walks =
        walks.max(counters.cache[which::L2].walk_hits + counters.cache[which::L2].walk_misses);
    assert!(all + walks >= steps - 1);
}

#[test]
fn random_accesses_of_one_core_agree_with_lists() {
    compare(false, 1, 1_000_000);
}

#[test]
fn random_accesses_of_four_cores_agree_with_lists() {
    compare(false, 4, 1_000_000);
}

#[test]
fn random_accesses_agree_with_lists_when_walks_go_through_the_l1() {
    compare(true, 3, 1_000_000);
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
