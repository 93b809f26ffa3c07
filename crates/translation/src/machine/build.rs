// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine from its description.

use super::{Core, Fixed, Leaves, Machine, NO_BLOCK, Region, Sure};
use crate::assoc::Assoc;
use crate::cache::{Hierarchy, Shape, Shapes};
use crate::counters::Counters;
use crate::description::{CachePart, Model, Side, TlbPart, WalkEntry, Writes};
use crate::dram::Geometry;
use crate::error::ModelError;
use crate::event::Context;
use crate::hash::QuickMap;
use crate::levels::Levels;
use crate::memory::GuestMemory;
use crate::requests::Requests;
use crate::time::{self, Clock};
use crate::tlb::mechanism::Mechanism;
use crate::tlb::{Array, Tlb};
use std::array::from_fn;
use std::collections::HashMap;

/// Cores that a machine has at most: a shared cache keeps one bit for each.
pub const CORES_MAX: usize = 64;

impl<M: GuestMemory> Machine<M> {
    /// Makes a machine of `cores` cores (1 to 64) that walks the page tables in `memory`.
    ///
    /// A core begins with translation off ([`Context::default`]).
    pub fn new(model: &Model, cores: usize, memory: M) -> Result<Self, ModelError> {
        if !(1..=CORES_MAX).contains(&cores) {
            let why = format!("{cores} cores were asked for; it has 1 to {CORES_MAX}");
            return Err(ModelError::Machine {
                name: model.name.clone(),
                why,
            });
        }
        let format = model.format().clone();
        let mechanisms = model.mechanisms.build(&model.setup(cores));
        let fixed = fixed(model, &mechanisms);
        let core = core(model);
        let mut machine = Self {
            last_core: 0,
            cores: vec![core; cores],
            caches: Hierarchy::new(&shapes(model), cores),
            fixed,
            format,
            mechanisms,
            memory,
            code: Vec::new(),
            time: 0,
            spaces: Vec::new(),
            by_root: QuickMap::default(),
            recycle: 0,
            buckets: Vec::new(),
            bucket_of: HashMap::new(),
            region: Region::default(),
            requests: Requests::default(),
            check: false,
            checked: 0,
            filled: Default::default(),
            mismatches: Vec::new(),
            violations: Vec::new(),
            in_kernel: 0,
            model: model.clone(),
        };
        // The address space of the time before the first context: root 0.
        machine.change_identity(0, Default::default());
        for core in 0..cores {
            machine.renew(core);
        }
        Ok(machine)
    }
}

fn ticks(model: &Model, cycles: u64) -> u64 {
    cycles * model.core.issue_width
}

fn serves(part: &TlbPart, level: usize, side: usize) -> bool {
    part.level == level + 1
        && match part.side {
            Side::Fetch => side == 0,
            Side::Data => side == 1,
            Side::Both => true,
        }
}

fn fixed(model: &Model, mechanisms: &[Box<dyn Mechanism>]) -> Fixed {
    let levels = model.setup(0).levels;
    let of = |level: usize, side: usize| {
        let arrays = model.tlb.iter();
        arrays.filter(move |part| serves(part, level, side))
    };
    let time = |level, side| of(level, side).next().map_or(0, |part| part.cycles);
    let any = |level: usize, what: fn(&dyn Mechanism, usize) -> bool| {
        mechanisms.iter().any(|one| what(&**one, level))
    };
    Fixed {
        ticks_per_cycle: model.core.issue_width,
        tag: model.tag,
        fault_drops_page: model.fault_drops_page,
        walk_hit: {
            let caches = &model.cache;
            let entered = match caches.walker_enters {
                WalkEntry::L1d => Some(&caches.l1d),
                WalkEntry::L2 => caches.l2.as_ref().or(caches.last.as_ref()),
            };
            entered.map_or(0, |cache| ticks(model, cache.cycles))
        },
        tlb_time: Levels::from_fn(levels, |level| {
            from_fn(|side| ticks(model, time(level, side)))
        }),
        flushed_on_switch: Levels::from_fn(levels, |level| {
            from_fn(|side| of(level, side).any(|part| part.flushed_on_switch))
        }),
        walk_cache: model
            .walk_cache
            .as_ref()
            .map(|part| (part.tag, ticks(model, part.cycles))),
        last_level: levels - 1,
        judged: Levels::from_fn(levels, |level| any(level, |one, level| one.judges(level))),
        shared: Levels::from_fn(levels, |level| {
            any(level, |one, level| one.sharing(0, level, 0).is_some())
        }),
        judged_bits: {
            let judges = mechanisms.iter().filter(|one| one.judges(0));
            judges.fold(0, |bits, one| bits | one.judged_bits())
        },
        exact: mechanisms.iter().any(|one| one.exact()),
        owned: {
            let mut sharing = mechanisms
                .iter()
                .filter_map(|one| one.sharing(0, levels - 1, 0));
            sharing.next().map_or(0, |sharing| sharing.owned)
        },
        infers: mechanisms.iter().any(|one| one.infers()),
        idle_after: ticks(model, super::IDLE_AFTER_CYCLES),
    }
}

fn core(model: &Model) -> Core {
    let tlb = |level: usize, side: usize| {
        let arrays = model
            .tlb
            .iter()
            .filter(|part| serves(part, level, side))
            .map(|part| Array {
                sizes: {
                    let mut sizes: Vec<u32> = part.pages.iter().map(|size| size.0).collect();
                    sizes.sort_unstable();
                    sizes
                },
                entries: part.entries,
                ways: if part.ways == 0 {
                    part.entries
                } else {
                    part.ways
                },
                policy: part.replacement,
            });
        Tlb::new(&arrays.collect::<Vec<_>>())
    };
    let levels = model.setup(0).levels;
    let behind = (1..levels).map(|level| {
        let unified = |part: &TlbPart| part.level == level + 1 && part.side == Side::Both;
        match model.tlb.iter().any(unified) {
            true => vec![tlb(level, 0)],
            false => vec![tlb(level, 0), tlb(level, 1)],
        }
    });
    let walk_cache = model.walk_cache.as_ref().map_or(Vec::new(), |part| {
        let ways = if part.ways == 0 {
            part.entries
        } else {
            part.ways
        };
        let level = Assoc::new(part.entries, ways, part.replacement);
        vec![level; model.format().levels() - 1]
    });
    // One miss may not be under way in more places than the narrowest of the core's own allows.
    let own = |&(name, _): &(&str, &CachePart)| name == "l1d" || name == "l2";
    let on_the_way = model.cache.parts().filter(own);
    let mshrs = on_the_way.map(|(_, cache)| cache.mshrs).min().unwrap_or(1);
    Core {
        fast: false,
        tags: Levels::default(),
        shared_tags: Levels::default(),
        faulting: false,
        sure: Sure::new(),
        unmapped: None,
        space: 0,
        decide: [0; 3],
        wanted: [0; 3],
        l1: [tlb(0, 0), tlb(0, 1)],
        behind: behind.collect(),
        walk_cache,
        leaves: Leaves::new(model.format()),
        clock: Clock::new(time::Shape {
            cycle: model.core.issue_width,
            rob: model.core.rob,
            fetch_ahead: model.core.fetch_ahead,
            stores: model.core.stores,
            mshrs: [model.cache.l1i.mshrs, mshrs],
            walkers: model.core.walkers,
            l1_hit: ticks(model, model.cache.l1d.cycles),
            dependences: model.core.dependences,
        }),
        block: NO_BLOCK,
        counters: Counters::of_levels(levels),
        given: Counters::of_levels(levels),
        idle: 0,
        context: Context::default(),
        ran: Context::default(),
        faults: 0,
        fault_instructions: 0,
        fault_ticks: 0,
    }
}

fn shapes(model: &Model) -> Shapes {
    let shape = |part: &CachePart| Shape {
        lines: part.kb * 1024 / model.cache.line_bytes as usize,
        ways: part.ways,
        policy: part.replacement,
        latency: ticks(model, part.cycles),
        through: part.writes == Writes::Through,
    };
    let memory = &model.memory;
    // Rounded up to whole ticks.
    let clocks =
        |clocks: u64| ticks(model, clocks * model.core.clock_mhz).div_ceil(memory.clock_mhz);
    Shapes {
        l1: [shape(&model.cache.l1i), shape(&model.cache.l1d)],
        l2: model.cache.l2.as_ref().map(shape),
        last: model.cache.last.as_ref().map(shape),
        last_mshrs: model.cache.last.as_ref().map_or(1, |part| part.mshrs),
        line_shift: model.cache.line_bytes.trailing_zeros(),
        walk_in_l1d: model.cache.walker_enters == WalkEntry::L1d,
        snoop: ticks(model, model.cache.snoop_cycles),
        memory: Geometry {
            channels: memory.channels,
            banks: memory.channels * memory.ranks * memory.banks,
            row_lines: (memory.row_kb * 1024 / model.cache.line_bytes).max(1),
            hit: clocks(memory.cas),
            closed: clocks(memory.rcd + memory.cas),
            conflict: clocks(memory.rp + memory.rcd + memory.cas),
            burst: clocks(memory.burst),
            refresh: ticks(model, memory.refresh_ns * model.core.clock_mhz) / 1000,
        },
    }
}
