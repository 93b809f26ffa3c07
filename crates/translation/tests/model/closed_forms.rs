// SPDX-License-Identifier: GPL-2.0-or-later
//! Against formulas: what a stride over n pages does to a TLB of k entries, and the like.

use crate::os::{Os, PS, RW, context};
use translation::{AccessKind, Context, Counters, Machine, Model, Sink, SparseMemory};

const BASE: u64 = 0x40_0000_0000;

/// Reads a byte of each of `pages` pages in order, `rounds` times, and gives the counters.
fn stride(model: &Model, pages: u64, rounds: u64, flags: u64) -> Counters {
    let size = if flags & PS != 0 { 2 << 20 } else { 4096 };
    let mut os = Os::new();
    let root = os.table();
    for page in 0..pages {
        os.map(root, BASE + page * size, (page + 1) * size, flags);
    }
    let mut machine = Machine::new(model, 1, os.memory).unwrap();
    machine.set_context(0, context(root));
    for _ in 0..rounds {
        for page in 0..pages {
            machine.instructions(0, 1);
            let paddr = (page + 1) * size;
            machine.access(0, AccessKind::Read, BASE + page * size, Some(paddr), 1);
        }
    }
    let counters = machine.counters(0);
    assert_eq!((counters.unexplained, counters.stale), (0, 0));
    counters
}

#[test]
fn a_stride_over_n_pages_through_lru_sets() {
    // 64 entries in 16 sets of 4: consecutive pages fill the sets evenly. A set hits in every later
    // round if no more than 4 pages fall into it, and never if more do.
    let model = Model::builtin("baseline").unwrap();
    let rounds = 5;
    for pages in [1, 16, 63, 64, 65, 70, 80, 200, 1000] {
        let counters = stride(&model, pages, rounds, RW);
        let misses: u64 = (0..16)
            .map(|set| {
                let fall = (pages + 15 - set) / 16;
                if fall <= 4 { fall } else { fall * rounds }
            })
            .sum();
        let l1 = counters.tlb[0][1][0];
        assert_eq!(
            (l1.misses, l1.hits),
            (misses, pages * rounds - misses),
            "{pages} pages"
        );
        // The second level of 1536 entries holds all of them: only the first round walks.
        assert_eq!(counters.walk.walks, pages, "{pages} pages");
        assert_eq!(counters.tlb[1][1][0].hits, misses - pages, "{pages} pages");
    }
}

#[test]
fn a_stride_over_more_than_the_second_level_walks_always() {
    let model = Model::builtin("baseline").unwrap();
    // 128 sets of 12; 13 pages a set.
    let pages = 128 * 13;
    assert_eq!(stride(&model, pages, 3, RW).walk.walks, 3 * pages);
    // The larger one has 18 ways.
    let larger = Model::builtin("larger-tlb").unwrap();
    assert_eq!(stride(&larger, pages, 3, RW).walk.walks, pages);
    assert_eq!(stride(&larger, 128 * 19, 2, RW).walk.walks, 2 * 128 * 19);
}

#[test]
fn large_pages_have_their_own_array() {
    let model = Model::builtin("baseline").unwrap();
    let counters = stride(&model, 40, 2, RW | PS);
    // 32 entries in 8 sets of 4: 40 pages are 5 a set, which never hit.
    let l1 = counters.tlb[0][1][1];
    assert_eq!((l1.misses, l1.hits), (80, 0));
    assert_eq!(counters.walk.walks, 40);
    assert_eq!(counters.tlb[0][1][0].misses, 0);
    // A walk for 2 MB ends at the PMD: three entries without a walk cache.
    let all =
        counters.walk.references.iter().sum::<u64>() + counters.walk.cached.iter().sum::<u64>();
    assert_eq!(all, 3 * 40);
}

#[test]
fn a_walk_reads_each_entry_once() {
    let counters = stride(&Model::builtin("baseline").unwrap(), 1, 1, RW);
    // PML5 is not in use; PGD, PUD, PMD and PTE are read once each.
    assert_eq!(counters.walk.references, [0, 1, 1, 1, 1]);
    assert_eq!(counters.walk.cache_misses, 1);
    // The second page of the same table finds the upper three in the walk cache.
    let counters = stride(&Model::builtin("baseline").unwrap(), 2, 1, RW);
    assert_eq!(counters.walk.references, [0, 1, 1, 1, 2]);
    assert_eq!(counters.walk.cached, [0, 1, 1, 1, 0]);
}

#[test]
fn the_time_of_a_walk_is_the_sum_of_its_parts() {
    // baseline, one fetch, nothing cached. Table I: L1 TLB 1, L2 TLB 10; the walk cache is asked
    // once, 1; four entries at the L2 (8), the L3 (32) and memory: 14 + 14 + 4 memory clocks at
    // half the core's clock are 64 for a closed row, and 14 + 4 are 36 for an open one.
    let model = Model::builtin("baseline").unwrap();
    let mut os = Os::new();
    let root = os.table();
    os.map(root, BASE, 0x5000, RW);
    let mut machine = Machine::new(&model, 1, os.memory).unwrap();
    machine.set_context(0, context(root));
    machine.access(0, AccessKind::Fetch, BASE, Some(0x5000), 4);
    let counters = machine.counters(0);
    let ticks = machine.ticks_per_cycle();
    let device_time = |m: &translation::counters::MemoryCounters| {
        2 * (m.row_hits * 14 + m.row_opens * 28 + m.row_conflicts * 42 + m.reads * 4)
    };
    let data = counters.icache_stall / ticks;
    let total = counters.memory;
    let caches = 4 * (8 + 32);
    assert_eq!(total.reads, 5);
    assert_eq!(
        counters.walk.ticks[0] / ticks + data,
        1 + caches + (2 + 8 + 32) + device_time(&total)
    );
    assert_eq!(
        counters.itlb_stall / ticks,
        1 + 10 + counters.walk.ticks[0] / ticks
    );
}

#[test]
fn a_loop_in_the_l1_cache_costs_one_tick_an_instruction() {
    let model = Model::builtin("baseline").unwrap();
    let mut os = Os::new();
    let root = os.table();
    os.map(root, BASE, 0x5000, RW);
    let mut machine = Machine::new(&model, 1, os.memory).unwrap();
    machine.set_context(0, context(root));
    let round = |machine: &mut Machine<_>| {
        for line in 0..64 {
            machine.instructions(0, 10);
            let there = line * 64;
            machine.access(0, AccessKind::Read, BASE + there, Some(0x5000 + there), 8);
        }
    };
    round(&mut machine);
    machine.instructions(0, 1000);
    let before = machine.now(0);
    for _ in 0..100 {
        round(&mut machine);
    }
    assert_eq!(machine.now(0) - before, 100 * 64 * 10);
    let counters = machine.counters(0);
    assert_eq!(counters.cache[1].misses, 64);
}

#[test]
fn an_access_over_a_page_boundary_translates_both_pages() {
    let mut os = Os::new();
    let root = os.table();
    os.map(root, BASE, 0x5000, RW);
    os.map(root, BASE + 0x1000, 0x9000, RW);
    let mut machine = Machine::new(&Model::builtin("baseline").unwrap(), 1, os.memory).unwrap();
    machine.set_context(0, context(root));
    machine.access(0, AccessKind::Write, BASE + 0xffc, Some(0x5ffc), 8);
    let counters = machine.counters(0);
    assert_eq!((counters.writes, counters.walk.walks), (1, 2));
    assert_eq!(counters.cache[1].misses, 2);
    // A fetch of three lines of one page is one translation and three lines.
    machine.access(0, AccessKind::Fetch, BASE + 0x10, Some(0x5010), 150);
    let counters = machine.counters(0);
    assert_eq!((counters.walk.walks, counters.tlb[1][0][0].hits), (2, 1));
    assert_eq!(counters.cache[0].misses, 3);
    assert_eq!(counters.tlb[0][0][0].misses, 1);
}

#[test]
fn pentium4_holds_4_mb_pages_whole_for_data_and_in_pieces_for_code() {
    // OLS'02 Table 1: D-TLB shared, I-TLB fragmented.
    use translation::SparseMemory;
    let mut memory = SparseMemory::new();
    memory.write_u32(0x1000, 0x0040_0000 | 0x87);
    let mut machine = Machine::new(&Model::builtin("pentium4").unwrap(), 1, memory).unwrap();
    machine.set_context(0, context(0x1000));
    for page in 0..100 {
        let at = page * 4096;
        machine.access(0, AccessKind::Read, at, Some(0x40_0000 + at), 4);
        machine.access(0, AccessKind::Fetch, at, Some(0x40_0000 + at), 4);
    }
    let counters = machine.counters(0);
    assert_eq!(
        (counters.tlb_misses(0, 1), counters.tlb_misses(0, 0)),
        (1, 100)
    );
    assert_eq!(counters.unexplained, 0);
}

#[test]
fn each_of_twelve_levels_holds_what_those_before_it_give_up() {
    // GIVEN twelve levels of 1, 2, 4 ... 2048 entries and a cycle each WHEN 2^n pages are read in order,
    // again and again THEN the first n levels have nothing of them (LRU), the next has them all, and
    // each miss costs a cycle per level that was asked.
    let array = |level: usize, side: &str| {
        let entries = 1 << (level - 1);
        format!(
            "{{ level = {level}, side = \"{side}\", pages = [\"4K\"], entries = {entries}, \
             ways = \"full\", cycles = 1 }},"
        )
    };
    let mut arrays = array(1, "fetch") + &array(1, "data");
    arrays.extend((2..=12).map(|level| array(level, "both")));
    let text = format!(
        "name = \"twelve\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\n\
         tlb = [{arrays}]\n[core]\nrob = 0\n"
    );
    let model = Model::parse("twelve", &text).unwrap();
    let mut memory = SparseMemory::new();
    for (table, next) in [(0x1000, 0x2000), (0x2000, 0x3000)] {
        memory.write_u64(table, next | 7);
    }
    for page in 0..2048u64 {
        memory.write_u64(
            0x3000 + (page >> 9) * 8,
            (0x1_0000 + (page >> 9) * 0x1000) | 7,
        );
        memory.write_u64(0x1_0000 + page * 8, (0x100_0000 + page * 0x1000) | 7);
    }
    for level in 1..12 {
        let mut machine = Machine::new(&model, 1, memory.clone()).unwrap();
        let context = Context {
            paging: true,
            root: 0x1000,
            ..Context::default()
        };
        machine.set_context(0, context);
        let pages = 1u64 << level;
        let mut pass = || {
            for page in 0..pages {
                machine.access(0, AccessKind::Read, page * 0x1000 + page % 64 * 64, None, 8);
            }
            machine.counters(0)
        };
        let (before, after) = (pass(), pass());
        let new = |of: &dyn Fn(&Counters) -> u64| of(&after) - of(&before);
        for asked in 0..12 {
            let misses = new(&|c| c.tlb_misses(asked, 1));
            let hits = new(&|c| c.tlb[asked][1][0].hits);
            let expected = [(asked < level), (asked == level)].map(|some| pages * u64::from(some));
            assert_eq!([misses, hits], expected, "{pages} pages, level {asked}");
        }
        assert_eq!(new(&|c| c.walk.walks), 0);
        let cycles = pages * (level as u64 + 1);
        assert_eq!(new(&|c| c.dtlb_stall), cycles * machine.ticks_per_cycle());
        let last = format!("l{}-tlb-data-hits", level + 1);
        assert!(after.metrics(1).iter().any(|metric| metric.name == last));
    }
}

#[test]
fn a_third_level_holds_what_two_give_up() {
    // GIVEN three levels of 4, 16 and 64 entries WHEN 40 pages are read in order, again and again
    // THEN the first two have nothing of them (LRU), the third has them all, and a miss costs the
    // times of all levels.
    let text = "name = \"three\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\ntlb = [\
        { level = 1, side = \"fetch\", pages = [\"4K\"], entries = 4, ways = \"full\", cycles = 1 },\
        { level = 1, side = \"data\", pages = [\"4K\"], entries = 4, ways = \"full\", cycles = 1 },\
        { level = 2, side = \"both\", pages = [\"4K\"], entries = 16, ways = \"full\", cycles = 5 },\
        { level = 3, side = \"fetch\", pages = [\"4K\"], entries = 64, ways = \"full\", cycles = 20 },\
        { level = 3, side = \"data\", pages = [\"4K\"], entries = 64, ways = \"full\", cycles = 20 },\
        ]\n[core]\nrob = 0\n";
    let model = Model::parse("three", text).unwrap();
    let mut memory = SparseMemory::new();
    for (table, next) in [(0x1000, 0x2000), (0x2000, 0x3000), (0x3000, 0x4000)] {
        memory.write_u64(table, next | 7);
    }
    for page in 0..40 {
        memory.write_u64(0x4000 + page * 8, (0x10_0000 + page * 0x1000) | 7);
    }
    let mut machine = Machine::new(&model, 1, memory).unwrap();
    let context = Context {
        paging: true,
        root: 0x1000,
        ..Context::default()
    };
    machine.set_context(0, context);
    let pass = |machine: &mut Machine<SparseMemory>| {
        for page in 0..40u64 {
            machine.instructions(0, 1);
            // A line of its own in the L1D for each page.
            let vaddr = page * 0x1000 + page * 64;
            machine.access(0, AccessKind::Read, vaddr, None, 8);
        }
    };
    pass(&mut machine);
    let before = machine.counters(0);
    pass(&mut machine);
    let after = machine.counters(0);
    let new = |of: fn(&translation::Counters) -> u64| of(&after) - of(&before);
    assert_eq!(new(|c| c.tlb_misses(0, 1)), 40);
    assert_eq!(new(|c| c.tlb_misses(1, 1)), 40);
    assert_eq!(new(|c| c.tlb_misses(2, 1)), 0);
    assert_eq!(new(|c| c.tlb[2][1][0].hits), 40);
    assert_eq!(new(|c| c.walk.walks), 0);
    // In order: 1 + 5 + 20 cycles for each page.
    let ticks = new(|c| c.dtlb_stall);
    assert_eq!(ticks, 40 * 26 * machine.ticks_per_cycle());
    let names: Vec<_> = after
        .metrics(1)
        .into_iter()
        .map(|metric| metric.name)
        .collect();
    assert!(names.iter().any(|name| name == "l3-tlb-data-hits"));
    // What is invalidated is gone from all levels.
    machine.invalidate(0, translation::Invalidation::Page { vaddr: 0 });
    machine.access(0, AccessKind::Read, 0, None, 8);
    assert_eq!(machine.counters(0).walk.walks, after.walk.walks + 1);
    // A level in between may not be left out.
    let gap = text.replace("level = 2", "level = 4");
    let error = Model::parse("gap", &gap).unwrap_err().to_string();
    assert!(error.contains("tlb: level 2 has no array"), "{error}");
}
