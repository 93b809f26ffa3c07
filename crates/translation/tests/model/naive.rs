// SPDX-License-Identifier: GPL-2.0-or-later
//! The whole way of an access through TLBs, walk caches and MaskPages against a machine written as
//! plainly as can be: lists that are searched from end to end, no fast path, no packed tags. After
//! each of millions of random steps every counter of TLBs, walks and BabelFish is the same. (What
//! caches and clocks do has references of its own in `src/tests/`.) The conventional machine comes
//! in the shapes of all built-in ones, BabelFish in Table I's.

use crate::os::{COHORT, GLOBAL, OR_PC, OWNED, Os, PS, RO, RW, context};
use crate::properties::{CORES, Dice, Kind, Shared, World, address, cases};
use crate::sets::Sets;
use crate::sets::Turn::{self, Fifo, Lru, Plru, Random};
use proptest::prelude::*;
use std::collections::BTreeMap;
use translation::Fault;
use translation::tlbi::{Drop, Tables};
use translation::{
    AccessKind, Context, Counters, GuestMemory, Identity, Invalidation, Machine, Mark, Member,
    Model, Op, Segment, Sink,
};

/// One array: level, side, page sizes as powers of two, entries, ways, which way goes.
type Array = (usize, &'static str, &'static [u32], usize, usize, Turn);

/// What TLBs and walk caches a machine has. All arrays are small, so that everything is pushed out
/// all the time.
struct Shape {
    arrays: &'static [Array],
    /// Whether by virtual address; entries and ways of each level, which way goes.
    walk_cache: Option<(bool, usize, usize, Turn)>,
    /// Entries have no tag: a switch drops all but global ones.
    tagless: bool,
    /// The first level is emptied at each switch.
    flushed: bool,
}

/// Split by page size, walk caches by physical address: Table I in small.
const TABLE_I: Shape = Shape {
    arrays: &[
        (1, "fetch", &[12], 4, 2, Lru),
        (1, "data", &[12], 8, 2, Lru),
        (1, "data", &[21], 2, 2, Lru),
        (2, "both", &[12], 24, 6, Lru),
        (2, "both", &[21], 4, 2, Lru),
    ],
    walk_cache: Some((false, 4, 2, Lru)),
    tagless: false,
    flushed: false,
};

/// The other built-in machines in small, and policies that none of them has.
const OTHERS: [(&str, Shape); 4] = [
    (
        "zen4",
        Shape {
            arrays: &[
                (1, "fetch", &[12, 21, 30], 6, 6, Lru),
                (1, "data", &[12, 21, 30], 8, 8, Lru),
                (2, "fetch", &[12, 21], 16, 4, Lru),
                (2, "data", &[12, 21], 24, 6, Lru),
            ],
            walk_cache: Some((true, 4, 4, Lru)),
            ..TABLE_I
        },
    ),
    (
        "cortex-a9",
        Shape {
            arrays: &[
                (1, "fetch", &[12, 21], 6, 6, Fifo),
                (1, "data", &[12, 21], 6, 6, Fifo),
                (2, "both", &[12, 21], 16, 2, Lru),
            ],
            walk_cache: None,
            flushed: true,
            ..TABLE_I
        },
    ),
    (
        "pentium4",
        Shape {
            arrays: &[
                (1, "fetch", &[12], 16, 4, Lru),
                (1, "data", &[12, 21], 12, 12, Lru),
            ],
            walk_cache: None,
            tagless: true,
            ..TABLE_I
        },
    ),
    (
        "plru and random",
        Shape {
            arrays: &[
                (1, "fetch", &[12], 4, 4, Random),
                (1, "data", &[12], 8, 4, Plru),
                (1, "data", &[21], 3, 3, Random),
                (2, "fetch", &[12, 21], 16, 8, Plru),
                (2, "data", &[12, 21], 24, 3, Random),
            ],
            walk_cache: Some((true, 4, 2, Plru)),
            ..TABLE_I
        },
    ),
];

/// As the description has it.
fn described(shape: &Shape) -> String {
    let quoted = |turn: Turn| format!("\"{turn:?}\"").to_lowercase();
    let mut text = String::new();
    for &(level, side, sizes, entries, ways, turn) in shape.arrays {
        let size = |shift: &u32| match shift {
            12 => "4K",
            21 => "2M",
            _ => "1G",
        };
        let sizes: Vec<_> = sizes.iter().map(size).collect();
        let cycles = if level == 1 { 1 } else { 10 };
        let (flushed, turn) = (shape.flushed && level == 1, quoted(turn));
        text += &format!(
            "[[tlb]]\nlevel = {level}\nside = \"{side}\"\npages = {sizes:?}\n\
             entries = {entries}\nways = {ways}\ncycles = {cycles}\n\
             replacement = {turn}\nflushed_on_switch = {flushed}\n"
        );
    }
    if let Some((by_address, entries, ways, turn)) = shape.walk_cache {
        let (tag, turn) = (
            ["physical", "virtual"][usize::from(by_address)],
            quoted(turn),
        );
        text += &format!(
            "[walk_cache]\ntag = \"{tag}\"\nentries = {entries}\nways = {ways}\n\
             cycles = 1\nreplacement = {turn}\n"
        );
    }
    text
}

#[derive(Clone, Copy)]
struct Entry {
    /// First address, and the size of what the entry covers.
    page: u64,
    shift: u32,
    frame: u64,
    /// 0 for a page of 4 KB, 1 for one of 2 MB, whatever the entry covers of it.
    class: usize,
    writable: bool,
    global: bool,
    /// Who brought it in, its cohort, and whether cohorts share entries where it is.
    space: usize,
    cohort: u32,
    shared: bool,
    owned: bool,
    mask: Option<u32>,
    /// The cohort whose processes all use it; 0 if it is no group's.
    group: u32,
}

/// The arrays that one level has for one side, or for both. A page's set is its number modulo the
/// sets.
struct Level {
    arrays: Vec<(&'static [u32], Sets<Entry>)>,
}

/// Where an entry is: array, set and way.
type Place = (usize, usize, usize);

impl Level {
    fn new(shape: &Shape, level: usize, side: &str) -> Self {
        let mine = shape.arrays.iter().filter(|array| array.0 == level);
        Self {
            arrays: mine
                .filter(|array| array.1 == side)
                .map(|&(_, _, sizes, entries, ways, turn)| (sizes, Sets::new(entries, ways, turn)))
                .collect(),
        }
    }

    /// Where entries of the page of an address are, in order.
    fn places(&self, vaddr: u64) -> Vec<Place> {
        let mut places = Vec::new();
        for (number, (sizes, array)) in self.arrays.iter().enumerate() {
            for &shift in *sizes {
                let set = array.set_of(vaddr >> shift);
                for (way, held) in array.ways[set].iter().enumerate() {
                    let mine = held.filter(|entry| entry.shift == shift);
                    if mine.is_some_and(|entry| vaddr >> shift == entry.page >> shift) {
                        places.push((number, set, way));
                    }
                }
            }
        }
        places
    }

    fn way(&mut self, (array, set, way): Place) -> &mut Option<Entry> {
        self.arrays[array].1.way(set, way)
    }

    fn used(&mut self, (array, set, way): Place) {
        self.arrays[array].1.used(set, way);
    }

    fn insert(&mut self, mut entry: Entry, vaddr: u64) {
        let sizes = self.arrays.iter().flat_map(|(sizes, _)| *sizes);
        let fits = *sizes.filter(|&&shift| shift <= entry.shift).max().unwrap();
        let page = vaddr >> fits << fits;
        entry.frame += page - entry.page;
        (entry.page, entry.shift) = (page, fits);
        let mut arrays = self.arrays.iter_mut();
        let (_, array) = arrays.find(|(sizes, _)| sizes.contains(&fits)).unwrap();
        array.put(array.set_of(page >> fits), entry);
    }

    fn remove_if(&mut self, which: impl Fn(&Entry) -> bool) -> u64 {
        let arrays = self.arrays.iter_mut();
        arrays.map(|(_, array)| array.remove_if(&which)).sum()
    }
}

struct NaiveCore {
    /// Fetch, data, and what there is of a second level: one for both, or again two.
    levels: Vec<Level>,
    /// By level of the tables: entries by their addresses, or prefixes of virtual addresses with the
    /// space that they are of.
    walk_cache: BTreeMap<u32, Sets<(u64, usize)>>,
    space: usize,
    /// The group whose entries it may hold.
    held: u32,
    /// It has had a context.
    began: bool,
    counters: Counters,
}

impl NaiveCore {
    fn drop_walk_cache(&mut self) {
        for cache in self.walk_cache.values_mut() {
            cache.remove_if(|_| true);
        }
    }
}

/// One MaskPage (ISCA'20 Figure 13): all that a cohort has in 1 GB.
#[derive(Default)]
struct MaskPage {
    /// A place is empty again when its process has ended.
    pid_list: Vec<Option<usize>>,
    masks: BTreeMap<u64, u32>,
    overflowed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Fish {
    No,
    /// ASLR-HW: the first level is an ordinary one.
    Hw,
    Sw,
}

/// What a switch out of a group drops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    All,
    Group,
    /// Nothing: others take a fault.
    None,
}

struct Naive {
    shape: &'static Shape,
    fish: Fish,
    leave: Option<Leave>,
    pc_bits: usize,
    memory: Shared,
    cores: Vec<NaiveCore>,
    /// Roots and cohorts by number of the address space.
    spaces: Vec<(u64, u32)>,
    /// Their hardware tags, where they have run.
    tags: BTreeMap<usize, u16>,
    /// Its segments, if they lie elsewhere than its cohort's.
    segments: BTreeMap<usize, Vec<Segment>>,
    mask_pages: BTreeMap<(u32, u64), MaskPage>,
}

enum Looked {
    Hit(Entry),
    Refused(Fault),
    Nothing,
}

/// The frame that the tables have for an address; what is mapped there is 4 KB.
fn frame_of(memory: &Shared, root: u64, vaddr: u64) -> Option<u64> {
    let mut table = root;
    for shift in [39, 30, 21, 12] {
        let value = memory.read_u64(table + (vaddr >> shift & 511) * 8)?;
        if value & 1 == 0 {
            return None;
        }
        table = value & 0xf_ffff_f000;
    }
    Some(table)
}

impl Naive {
    fn new(shape: &'static Shape, fish: Fish, pc_bits: usize, memory: Shared) -> Self {
        let sides = [
            (1, "fetch"),
            (1, "data"),
            (2, "both"),
            (2, "fetch"),
            (2, "data"),
        ];
        let level = |(level, side)| Level::new(shape, level, side);
        let there = |level: &Level| !level.arrays.is_empty();
        let core = || NaiveCore {
            levels: sides.map(level).into_iter().filter(there).collect(),
            walk_cache: (shape.walk_cache.iter())
                .flat_map(|&(_, entries, ways, turn)| {
                    [39, 30, 21].map(|shift| (shift, Sets::new(entries, ways, turn)))
                })
                .collect(),
            space: 0,
            held: 0,
            began: false,
            counters: Counters::default(),
        };
        Self {
            shape,
            fish,
            leave: None,
            pc_bits,
            memory,
            cores: (0..CORES).map(|_| core()).collect(),
            spaces: Vec::new(),
            tags: BTreeMap::new(),
            segments: BTreeMap::new(),
            mask_pages: BTreeMap::new(),
        }
    }

    fn space(&mut self, root: u64) -> usize {
        let known = self.spaces.iter().position(|space| space.0 == root);
        known.unwrap_or_else(|| {
            self.spaces.push((root, 0));
            self.spaces.len() - 1
        })
    }

    /// Where the page tables and the second level have an address of a process: ASLR-HW moves it
    /// from the process's segment to the cohort's.
    fn there(&self, space: usize, vaddr: u64) -> u64 {
        let none = Vec::new();
        let segments = self.segments.get(&space).unwrap_or(&none);
        for segment in segments {
            if self.fish == Fish::Hw && segment.start <= vaddr && vaddr < segment.end {
                return vaddr.wrapping_add(segment.offset);
            }
        }
        vaddr
    }

    fn shares(&self, level: usize) -> bool {
        self.fish == Fish::Sw || self.fish == Fish::Hw && level >= 2
    }

    /// The second level of a side.
    fn second(&self, core: usize, side: usize) -> Option<usize> {
        match self.cores[core].levels.len() {
            2 => None,
            3 => Some(2),
            _ => Some(2 + side),
        }
    }

    fn look(
        &mut self,
        core: usize,
        level: usize,
        kind: AccessKind,
        vaddr: u64,
        given: Option<u64>,
    ) -> Looked {
        let side = usize::from(kind != AccessKind::Fetch);
        let shared_level = self.shares(level);
        let this = &mut self.cores[core];
        let (space, cohort) = (this.space, self.spaces[this.space].1);
        let key = (cohort, vaddr >> 30);
        let place = self
            .mask_pages
            .get(&key)
            .and_then(|page| page.pid_list.iter().position(|&pid| pid == Some(space)));
        let (mut long, mut result) = (false, Looked::Nothing);
        let (mut used, mut fault) = (None, false);
        let own = frame_of(&self.memory, self.spaces[space].0, vaddr);
        for way in this.levels[level].places(vaddr) {
            let entry = this.levels[level].way(way).unwrap();
            if entry.group != 0 {
                let counts = &mut this.counters.mechanisms.group;
                if entry.group != cohort {
                    match self.leave {
                        Some(Leave::None) => fault |= given.is_some(),
                        _ => counts.violations += 1,
                    }
                    continue;
                }
                // The process's own tables have nothing there, or another page.
                if own != Some(entry.frame) {
                    counts.refusals += 1;
                    if own.is_some() {
                        *this.levels[level].way(way) = None;
                    }
                    continue;
                }
            }
            let fish = shared_level && !entry.global;
            // Figure 8, 1: VPN and CCID; without BabelFish VPN and PCID.
            if fish && entry.cohort != cohort || !fish && !entry.global && entry.space != space {
                continue;
            }
            // 2 and 9.
            if fish && entry.owned && entry.space != space {
                this.counters.mechanisms.babelfish.owned_refusals += 1;
                continue;
            }
            // 3.
            if let (true, false, Some(mask)) = (fish, entry.owned, entry.mask) {
                long = true;
                if place.is_some_and(|place| mask >> place & 1 == 1) {
                    this.counters.mechanisms.babelfish.private_refusals += 1;
                    continue;
                }
            }
            let allowed = kind != AccessKind::Write || entry.writable;
            let found = entry.frame + (vaddr - entry.page);
            if given.is_some_and(|paddr| paddr != found || !allowed) {
                *this.levels[level].way(way) = None;
                this.counters.stale += 1;
                continue;
            }
            // 5 and 6.
            result = if allowed {
                used = Some(way);
                Looked::Hit(entry)
            } else if fish && !entry.owned {
                Looked::Refused(Fault::CopyOnWrite)
            } else {
                Looked::Refused(Fault::Protection)
            };
            break;
        }
        this.counters.mechanisms.babelfish.long_accesses += u64::from(long && level >= 2);
        if fault {
            this.counters.mechanisms.group.faults += 1;
            self.drop_page(core, vaddr, |_| true);
            return Looked::Nothing;
        }
        if let Some(way) = used {
            this.levels[level].used(way);
        }
        if let Looked::Hit(entry) = &result {
            let counters = &mut this.counters.tlb[usize::from(level >= 2)][side][entry.class];
            counters.hits += 1;
            let other = entry.space != space;
            counters.global_hits += u64::from(other && entry.global);
            counters.shared_hits += u64::from(other && shared_level && !entry.global);
            if entry.group != 0 {
                this.held = entry.group;
                let counts = &mut this.counters.mechanisms.group;
                counts.first_hits += u64::from(other && level < 2);
                counts.later_hits += u64::from(other && level >= 2);
            }
        }
        result
    }

    /// An access; `given` is the physical address of one that succeeded in the guest.
    fn access(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        given: Option<u64>,
    ) -> Result<u64, Fault> {
        let side = usize::from(kind != AccessKind::Fetch);
        match self.look(core, side, kind, vaddr, given) {
            Looked::Hit(entry) => return Ok(entry.frame + (vaddr - entry.page)),
            Looked::Refused(fault) => return Err(fault),
            Looked::Nothing => {}
        }
        let there = self.there(self.cores[core].space, vaddr);
        let Some(second) = self.second(core, side) else {
            return self.walk(core, kind, vaddr, there);
        };
        match self.look(core, second, kind, there, given) {
            Looked::Hit(mut entry) => {
                self.cores[core].counters.tlb[0][side][entry.class].misses += 1;
                entry.space = self.cores[core].space;
                self.fill(core, side, entry, vaddr, there);
                return Ok(entry.frame + (there - entry.page));
            }
            Looked::Refused(fault) => return Err(fault),
            Looked::Nothing => {}
        }
        self.walk(core, kind, vaddr, there)
    }

    /// `vaddr` is the address in this level's layout. (Only pages of 4 KB are moved here.)
    fn fill(&mut self, core: usize, level: usize, mut entry: Entry, vaddr: u64, there: u64) {
        entry.page = entry.page.wrapping_sub(there.wrapping_sub(vaddr));
        entry.shared = self.shares(level);
        self.cores[core].levels[level].insert(entry, vaddr);
    }

    fn walk(&mut self, core: usize, kind: AccessKind, own: u64, vaddr: u64) -> Result<u64, Fault> {
        let side = usize::from(kind != AccessKind::Fetch);
        let space = self.cores[core].space;
        let (root, cohort) = self.spaces[space];
        // The tables: what is read, and what it says.
        let (mut table, mut writable, mut read, mut above) = (root, true, Vec::new(), 0);
        let mut leaf = None;
        for shift in [39, 30, 21, 12u32] {
            let slot = table + (vaddr >> shift & 511) * 8;
            let value = self.memory.read_u64(slot).unwrap();
            read.push((shift, slot));
            if value & 1 == 0 {
                break;
            }
            writable &= value & 2 != 0;
            if shift == 12 || value & PS != 0 {
                leaf = Some((shift, value));
                break;
            }
            (table, above) = (value & 0xf_ffff_f000, value);
        }
        let page = leaf.map(|(shift, value)| Entry {
            page: vaddr >> shift << shift,
            shift,
            frame: value & 0xf_ffff_f000,
            class: usize::from(shift == 21),
            writable,
            global: value & GLOBAL != 0,
            space,
            cohort,
            shared: false,
            owned: false,
            mask: None,
            group: 0,
        });
        // BabelFish's bits in the entry above the leaf.
        let mut page = page;
        let mut mask_read = false;
        if let (Some(page), true) = (&mut page, self.fish != Fish::No) {
            let mask_page = self.mask_pages.get(&(cohort, vaddr >> 30));
            if !page.global {
                page.owned = cohort == 0
                    || above & OWNED != 0
                    || mask_page.is_some_and(|page| page.overflowed);
                if !page.owned && above & OR_PC != 0 {
                    let mask = mask_page.and_then(|page| page.masks.get(&(vaddr >> 21)));
                    page.mask = Some(mask.copied().unwrap_or(0));
                    mask_read = true;
                }
            }
        }
        // Code that is not written, in a table that a cohort shares, is its group's.
        let execute = leaf.is_some_and(|(_, value)| value >> 63 == 0);
        if let (Some(page), true) = (&mut page, self.leave.is_some() && execute) {
            if !page.global && !page.writable && above & COHORT != 0 && cohort != 0 {
                (page.global, page.group) = (true, cohort);
                self.cores[core].held = cohort;
                self.cores[core].counters.mechanisms.group.fills += 1;
            }
        }
        let second = self.second(core, side);
        let counters = &mut self.cores[core].counters;
        let class = page.map_or(0, |page| page.class);
        counters.tlb[0][side][class].misses += 1;
        counters.tlb[1][side][class].misses += u64::from(second.is_some());
        counters.walk.walks += 1;
        counters.walk.fetch_walks += u64::from(kind == AccessKind::Fetch);
        counters.mechanisms.babelfish.mask_pages += u64::from(mask_read);
        self.read_tables(core, vaddr, &read);
        let page = page.ok_or(Fault::NotPresent)?;
        if kind == AccessKind::Write && !page.writable {
            return Err(Fault::Protection);
        }
        if let Some(second) = second {
            self.fill(core, second, page, vaddr, vaddr);
        }
        self.fill(core, side, page, own, vaddr);
        Ok(page.frame + (vaddr - page.page))
    }

    /// The walk caches' part of a walk, and the entries that it reads: what each covers of the
    /// address, and where it is.
    fn read_tables(&mut self, core: usize, vaddr: u64, read: &[(u32, u64)]) {
        let level = |shift: u32| (48 - shift as usize) / 9;
        let this = &mut self.cores[core];
        let (counters, space) = (&mut this.counters.walk, this.space);
        let mut from = 0;
        if let Some((by_address, ..)) = self.shape.walk_cache {
            // The set's number, and what is looked for in it.
            let key = |shift: u32, slot: u64| match by_address {
                true => (vaddr >> shift, (vaddr >> shift, space)),
                false => (slot / 8, (slot / 8, 0)),
            };
            // The last level has no walk cache.
            let above = read.iter().filter(|(shift, _)| *shift > 12).count();
            let cached: Vec<_> = read[..above]
                .iter()
                .map(|&(shift, slot)| {
                    let ((number, key), cache) = (key(shift, slot), &this.walk_cache[&shift]);
                    let set = cache.set_of(number);
                    cache.find(set, |held| *held == key).map(|way| (set, way))
                })
                .collect();
            from = match by_address {
                // "The longest prefix that is there is taken at once": the deepest level.
                true => cached
                    .iter()
                    .rposition(Option::is_some)
                    .map_or(0, |at| at + 1),
                // "Once the PWC has missed, it will not be accessed again in this page walk."
                false => cached.iter().take_while(|way| way.is_some()).count(),
            };
            for (number, &(shift, _)) in read.iter().enumerate().take(from) {
                if by_address && number + 1 < from {
                    continue;
                }
                let (set, way) = cached[number].unwrap();
                this.walk_cache.get_mut(&shift).unwrap().used(set, way);
                counters.cached[level(shift)] += 1;
            }
            let missed = if by_address { from == 0 } else { from < above };
            counters.cache_misses += u64::from(missed);
            // What was read and points to a table is cached.
            for &(shift, slot) in &read[from.min(read.len() - 1)..read.len() - 1] {
                let (number, key) = key(shift, slot);
                let cache = this.walk_cache.get_mut(&shift).unwrap();
                let set = cache.set_of(number);
                if cache.find(set, |held| *held == key).is_none() {
                    cache.put(set, key);
                }
            }
        }
        for &(shift, _) in &read[from..] {
            counters.references[level(shift)] += 1;
        }
    }

    /// Drops entries of a core and its walk cache.
    fn drop(&mut self, core: usize, which: impl Fn(&Entry) -> bool) {
        let this = &mut self.cores[core];
        for level in &mut this.levels {
            this.counters.invalidated += level.remove_if(&which);
        }
        this.drop_walk_cache();
    }

    /// The same for one address of the process that runs on the core.
    fn drop_page(&mut self, core: usize, vaddr: u64, which: impl Fn(&Entry) -> bool) {
        let there = self.there(self.cores[core].space, vaddr);
        let this = &mut self.cores[core];
        let addresses = [vaddr, vaddr, there, there];
        for (level, vaddr) in this.levels.iter_mut().zip(addresses) {
            this.counters.invalidated += level.remove_if(|entry| {
                entry.page >> entry.shift == vaddr >> entry.shift && which(entry)
            });
        }
        this.drop_walk_cache();
    }

    /// What an address space brought in, on all cores.
    fn drop_brought(&mut self, space: usize) {
        for core in 0..CORES {
            self.drop(core, |entry| !entry.global && entry.space == space);
        }
    }

    /// Of an address space, or shared by its cohort with it.
    fn of_space(space: usize, cohort: u32) -> impl Fn(&Entry) -> bool {
        move |entry| {
            let shared = entry.shared && entry.cohort == cohort && !entry.owned;
            !entry.global && (entry.space == space || shared)
        }
    }

    /// What an instruction names by the hardware's tag.
    fn drop_exact(&mut self, core: usize, what: &Drop) {
        let named = |space: usize| {
            what.tag
                .is_none_or(|tag| self.tags.get(&space) == Some(&tag))
        };
        let spaces: Vec<_> = (0..self.spaces.len())
            .filter(|&space| named(space))
            .map(|space| Self::of_space(space, self.spaces[space].1))
            .collect();
        let this = &mut self.cores[core];
        for level in &mut this.levels {
            this.counters.invalidated += level.remove_if(|entry| {
                let own = match entry.global {
                    true => what.global,
                    false => spaces.iter().any(|of_it| of_it(entry)),
                };
                let last = entry.page + (1 << entry.shift) - 1;
                let range = what.range.unwrap_or((0, u64::MAX));
                // Of a large page there may be pieces.
                let size = [12, 21][entry.class];
                let sized = what.sizes.is_none_or(|(a, b)| a <= size && size <= b);
                own && sized && entry.page <= range.1 && range.0 <= last
            });
        }
        if what.tables != Tables::Kept {
            this.drop_walk_cache();
        }
    }

    fn drop_shared(&mut self, which: impl Fn(&Entry) -> bool) {
        for core in &mut self.cores {
            for level in &mut core.levels {
                core.counters.invalidated += level.remove_if(|entry| {
                    which(entry) && entry.shared && !entry.owned && !entry.global
                });
            }
        }
    }
}

impl Sink for Naive {
    fn instructions(&mut self, _: usize, _: u64) {}
    fn define(&mut self, _: u32, _: &[Op]) {}
    fn execute(&mut self, _: usize, _: u32) {}
    fn at(&mut self, _: usize, _: u32) {}

    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, _: u32) {
        let _ = Naive::access(self, core, kind, vaddr, paddr);
    }

    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        let _ = Naive::access(self, core, kind, vaddr, None);
        self.invalidate(core, Invalidation::Page { vaddr });
    }

    fn fault_done(&mut self, _: usize) {}

    fn set_context(&mut self, core: usize, context: Context) {
        let space = self.space(context.root);
        self.tags.insert(space, context.asid);
        let this = &mut self.cores[core];
        if this.space == space && this.began {
            return;
        }
        (this.space, this.began) = (space, true);
        this.counters.context_switches += 1;
        let mut dropped = 0;
        if self.shape.tagless {
            let levels = this.levels.iter_mut();
            dropped += levels
                .map(|level| level.remove_if(|e| !e.global))
                .sum::<u64>();
            this.drop_walk_cache();
        }
        if self.shape.flushed {
            let first = this.levels[..2].iter_mut();
            dropped += first.map(|level| level.remove_if(|_| true)).sum::<u64>();
        }
        if this.held != 0 && this.held != self.spaces[space].1 {
            this.held = 0;
            let mut left = 0;
            if self.leave != Some(Leave::None) {
                let all = self.leave == Some(Leave::All);
                for level in &mut this.levels {
                    left += level.remove_if(|entry| all || entry.group != 0);
                }
                if all {
                    this.drop_walk_cache();
                }
            }
            this.counters.mechanisms.group.changes += 1;
            this.counters.mechanisms.group.dropped += left;
            dropped += left;
        }
        this.counters.switched_out += dropped;
    }

    fn set_identity(&mut self, root: u64, identity: Identity) {
        let space = self.space(root);
        self.spaces[space].1 = identity.cohort;
    }

    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        let space = self.space(root);
        self.segments.insert(space, segments.to_vec());
        self.drop_brought(space);
    }

    fn set_member(&mut self, _: usize, _: &Member) {}

    fn private_copy(&mut self, root: u64, vaddr: u64) {
        let space = self.space(root);
        let cohort = self.spaces[space].1;
        let bits = self.pc_bits;
        let page = self.mask_pages.entry((cohort, vaddr >> 30)).or_default();
        if !page.overflowed {
            let place = page.pid_list.iter().position(|&pid| pid == Some(space));
            let empty = page.pid_list.iter().position(|pid| pid.is_none());
            if place.is_none() && empty.is_none() && page.pid_list.len() == bits {
                page.overflowed = true;
                page.masks.clear();
                page.pid_list.clear();
                self.cores[0].counters.mechanisms.babelfish.overflows += 1;
                self.drop_shared(|e| e.cohort == cohort && e.page >> 30 == vaddr >> 30);
            } else {
                let place = place.unwrap_or_else(|| {
                    self.cores[0].counters.mechanisms.babelfish.pids_listed += 1;
                    let place = empty.unwrap_or(page.pid_list.len());
                    page.pid_list
                        .resize(page.pid_list.len().max(place + 1), None);
                    page.pid_list[place] = Some(space);
                    place
                });
                *page.masks.entry(vaddr >> 21).or_default() |= 1 << place;
            }
        }
        self.drop_shared(|e| e.cohort == cohort && e.page >> e.shift == vaddr >> e.shift);
    }

    fn retire(&mut self, root: u64) {
        let space = self.space(root);
        self.drop_brought(space);
        self.segments.remove(&space);
        for page in self.mask_pages.values_mut() {
            if let Some(place) = page.pid_list.iter().position(|&pid| pid == Some(space)) {
                page.pid_list[place] = None;
                page.masks
                    .values_mut()
                    .for_each(|mask| *mask &= !(1 << place));
            }
        }
    }

    fn invalidate(&mut self, core: usize, what: Invalidation) {
        let here = self.cores[core].space;
        let cohort = self.spaces[here].1;
        match what {
            Invalidation::Page { vaddr } => {
                let own = Self::of_space(here, cohort);
                self.drop_page(core, vaddr, |entry| entry.global || own(entry));
            }
            Invalidation::PageAllSpaces { vaddr } => {
                self.drop_page(core, vaddr, |_| true);
            }
            // An address of the cohort's layout; the tables are as they were.
            Invalidation::SharedPage { vaddr, cohort } => {
                let this = &mut self.cores[core];
                for level in &mut this.levels {
                    this.counters.invalidated += level.remove_if(|e| {
                        (e.shared && !e.owned && !e.global)
                            && (e.cohort, e.page >> e.shift) == (cohort, vaddr >> e.shift)
                    });
                }
            }
            Invalidation::AddressSpace { root } => {
                let space = self.space(root);
                self.drop(core, Self::of_space(space, self.spaces[space].1));
            }
            Invalidation::Exact(what) => self.drop_exact(core, &what),
            Invalidation::AllButGlobal => self.drop(core, |entry| !entry.global),
            Invalidation::All => self.drop(core, |_| true),
            Invalidation::SharedPages { .. } | Invalidation::Ccid { .. } => {}
        }
    }

    fn mark(&mut self, _: usize, _: Mark) {}
}

/// Both get every event.
struct Both {
    machine: Machine<Shared>,
    naive: Naive,
}

impl Sink for Both {
    fn instructions(&mut self, core: usize, count: u64) {
        self.machine.instructions(core, count);
    }
    fn define(&mut self, block: u32, code: &[Op]) {
        self.machine.define(block, code);
    }
    fn execute(&mut self, core: usize, block: u32) {
        self.machine.execute(core, block);
    }
    fn at(&mut self, core: usize, instruction: u32) {
        self.machine.at(core, instruction);
    }
    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32) {
        self.machine.access(core, kind, vaddr, paddr, size);
        Sink::access(&mut self.naive, core, kind, vaddr, paddr, size);
    }
    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        self.machine.fault(core, kind, vaddr);
        self.naive.fault(core, kind, vaddr);
    }
    fn fault_done(&mut self, core: usize) {
        self.machine.fault_done(core);
    }
    fn set_context(&mut self, core: usize, context: Context) {
        self.machine.set_context(core, context);
        self.naive.set_context(core, context);
    }
    fn set_identity(&mut self, root: u64, identity: Identity) {
        self.machine.set_identity(root, identity);
        self.naive.set_identity(root, identity);
    }
    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        self.machine.set_segments(root, segments);
        self.naive.set_segments(root, segments);
    }
    fn set_member(&mut self, core: usize, member: &Member) {
        self.machine.set_member(core, member);
        self.naive.set_member(core, member);
    }
    fn private_copy(&mut self, root: u64, vaddr: u64) {
        self.machine.private_copy(root, vaddr);
        self.naive.private_copy(root, vaddr);
    }
    fn retire(&mut self, root: u64) {
        self.machine.retire(root);
        self.naive.retire(root);
    }
    fn invalidate(&mut self, core: usize, what: Invalidation) {
        self.machine.invalidate(core, what);
        self.naive.invalidate(core, what);
    }
    fn mark(&mut self, _: usize, _: Mark) {}
}

impl Both {
    fn attempt(&mut self, core: usize, kind: AccessKind, vaddr: u64) -> Result<u64, Fault> {
        let fast = self.machine.attempt(core, kind, vaddr);
        assert_eq!(
            fast,
            self.naive.access(core, kind, vaddr, None),
            "{vaddr:#x}"
        );
        fast
    }

    /// Every counter that the reference has is the same on every core.
    fn compare(&self, step: usize) {
        let (mut listed, mut overflows) = ([0; 2], [0; 2]);
        for core in 0..CORES {
            let (fast, slow) = (
                self.machine.counters(core),
                &self.naive.cores[core].counters,
            );
            let fast = &fast;
            assert_eq!(fast.tlb, slow.tlb, "step {step}, core {core}");
            let all = |c: &Counters| {
                let (walk, fish) = (&c.walk, &c.mechanisms.babelfish);
                (
                    (walk.walks, walk.fetch_walks),
                    (walk.references, walk.cached, walk.cache_misses),
                    (c.invalidated, c.stale, c.unexplained),
                    (c.context_switches, c.switched_out),
                    (fish.mask_pages, fish.long_accesses),
                    (fish.owned_refusals, fish.private_refusals),
                    c.mechanisms.group,
                )
            };
            assert_eq!(all(fast), all(slow), "step {step}, core {core}");
            for (number, counters) in [fast, slow].iter().enumerate() {
                listed[number] += counters.mechanisms.babelfish.pids_listed;
                overflows[number] += counters.mechanisms.babelfish.overflows;
            }
        }
        assert_eq!(listed[0], listed[1], "step {step}");
        assert_eq!(overflows[0], overflows[1], "step {step}");
    }
}

fn model(base: &str, shape: &Shape, fish: &str) -> Model {
    tagged("address-space", base, shape, fish)
}

/// The same with these tags, if it has any.
fn tagged(tag: &str, base: &str, shape: &Shape, fish: &str) -> Model {
    let tag = if shape.tagless { "none" } else { tag };
    let without: &[&str] = match shape.walk_cache {
        Some(_) => &[],
        None => &["walk_cache"],
    };
    let arrays = described(shape);
    let text = format!(
        "name = \"small\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"{base}\"\nwithout = {without:?}\n\
         tag = \"{tag}\"\n{arrays}{fish}"
    );
    Model::parse("small", &text).unwrap()
}

const SPACES: usize = 5;

/// A conventional machine: pages of both sizes, global ones, entries that go stale, and every kind of
/// invalidation.
fn conventional(shape: &'static Shape, seed: u64, steps: usize) -> Counters {
    conventional_with(None, shape, seed, steps)
}

/// The same, with the hardware's tags if the model's are named: then instructions name entries by
/// these, too.
fn conventional_with(
    tag: Option<&str>,
    shape: &'static Shape,
    seed: u64,
    steps: usize,
) -> Counters {
    let model = tagged(tag.unwrap_or("address-space"), "baseline", shape, "");
    let memory = Shared::default();
    *memory.0.borrow_mut() = Os::new();
    let mut both = Both {
        machine: Machine::new(&model, CORES, memory.clone()).unwrap(),
        naive: Naive::new(shape, Fish::No, 0, memory.clone()),
    };
    let roots: Vec<u64> = (0..SPACES).map(|_| memory.0.borrow_mut().table()).collect();
    let context = |root: u64| {
        let number = roots.iter().position(|&known| known == root);
        let asid = number
            .filter(|_| tag.is_some())
            .map_or(0, |n| 11 + n as u16);
        Context {
            asid,
            ..context(root)
        }
    };
    // Region 0 is global and the same for all, region 1 has small pages, region 2 large ones.
    let base = |region: u64| 0x7f80_0000_0000 + (region << 30);
    let mut frames = 0x1_0000_0000;
    let mut map = |space: usize, region: u64, page: u64, flags: u64| {
        let mut os = memory.0.borrow_mut();
        let large = region == 2;
        frames += 0x20_0000;
        let vaddr = base(region) + (page << if large { 21 } else { 12 });
        let flags = flags | if large { PS } else { 0 };
        if region == 0 {
            for &root in &roots {
                os.map(root, vaddr, frames, flags | GLOBAL);
            }
        } else {
            os.map(roots[space], vaddr, frames, flags);
        }
        vaddr
    };
    for space in 0..SPACES {
        for page in 0..12 {
            map(space, 1, page, [RW, RO][page as usize % 2]);
            map(space, 2, page, RW);
            map(space, 0, page, RW);
        }
    }
    let mut running = [0; CORES];
    for core in 0..CORES {
        // An invalidation of an address space that never ran would drop nothing at all.
        for &root in roots.iter().rev() {
            both.set_context(core, context(root));
        }
    }
    let mut dice = Dice(seed | 1);
    for step in 0..steps {
        let core = dice.below(CORES);
        if dice.below(12) == 0 {
            running[core] = dice.below(SPACES);
            both.set_context(core, context(roots[running[core]]));
        }
        let space = running[core];
        let (region, page) = (dice.below(3) as u64, dice.below(14) as u64);
        let vaddr = base(region)
            + (page << if region == 2 { 21 } else { 12 })
            + dice.below(if region == 2 { 0x20_0000 } else { 0x1000 }) as u64 / 8 * 8;
        match dice.below(100) {
            // A page changes, and nobody is told: whoever holds it finds out by its address.
            0..4 => {
                let flags = [RW, RO, 0][dice.below(3)];
                map(space, region, page, flags);
            }
            4 => both.invalidate(core, Invalidation::Page { vaddr }),
            5 => both.invalidate(core, Invalidation::PageAllSpaces { vaddr }),
            6 => {
                let root = roots[dice.below(SPACES)];
                both.invalidate(core, Invalidation::AddressSpace { root });
            }
            7 if dice.below(8) == 0 => both.invalidate(core, Invalidation::AllButGlobal),
            8 if dice.below(8) == 0 => both.invalidate(core, Invalidation::All),
            9 if dice.below(8) == 0 => both.retire(roots[dice.below(SPACES)]),
            10..15 if tag.is_some() => {
                // The last two tags are nobody's.
                let of = (dice.below(3) > 0).then(|| (11 + dice.below(SPACES + 2)) as u16);
                let length = [0, 0xfff, 0x4000, 0x40_0000][dice.below(4)];
                let range = (dice.below(4) > 0).then_some((vaddr, vaddr + length));
                let what = Drop {
                    tag: of,
                    global: range.is_some() || of.is_none(),
                    range,
                    sizes: [None, None, Some((12, 20)), Some((21, 29))][dice.below(4)],
                    tables: [Tables::All, Tables::Above, Tables::Kept][dice.below(3)],
                };
                both.invalidate(core, Invalidation::Exact(what));
            }
            _ => {
                let kind = [AccessKind::Fetch, AccessKind::Read, AccessKind::Write];
                let kind = kind[dice.below(3)];
                let leaf = if region == 2 { 21 } else { 12 };
                let entry = {
                    let mut os = memory.0.borrow_mut();
                    let slot = os.slot(roots[space], vaddr, leaf);
                    os.memory.read_u64(slot).unwrap()
                };
                let allowed = entry & 1 != 0 && (kind != AccessKind::Write || entry & 2 != 0);
                let paddr = (entry & 0xf_ffff_f000) + (vaddr & ((1 << leaf) - 1));
                match dice.below(4) {
                    // What the machine believes, right or stale.
                    0 => {
                        let _ = both.attempt(core, kind, vaddr);
                    }
                    _ if allowed => both.access(core, kind, vaddr, Some(paddr), 8),
                    _ => {
                        both.fault(core, kind, vaddr);
                        both.fault_done(core);
                    }
                }
            }
        }
        both.compare(step);
    }
    let mut sum = Counters::default();
    (0..CORES).for_each(|core| sum.add(&both.machine.counters(core)));
    sum
}

/// A layout of a process's own: each region somewhere else, pages apart from the cohort's.
fn layout(dice: &mut Dice) -> Vec<Segment> {
    let mut segment = |region: usize| {
        let pages = dice.below(512) as u64;
        let start = address(8 + 4 * region + dice.below(2), 0) + (pages << 12);
        Segment {
            start,
            end: start + (1 << 21),
            offset: address(region, 0).wrapping_sub(start),
        }
    };
    (0..3).map(&mut segment).collect()
}

/// BabelFish with the paper's kernel, which says by system calls and bits what is shared.
fn babelfish(fish: Fish, pc_bits: usize, seed: u64, steps: usize) -> Counters {
    let (base, aslr) = match fish {
        Fish::Hw => ("babelfish-isca20", "hw"),
        _ => ("babelfish-isca20-aslr-sw", "sw"),
    };
    let bits = format!(
        "[babelfish]\naslr = \"{aslr}\"\nowned = [\"10=1\"]\nor_pc = [\"9=1\"]\npc_bits = {pc_bits}\n"
    );
    let mut world = World::new(Kind::Paper);
    let mut both = Both {
        machine: Machine::new(&model(base, &TABLE_I, &bits), CORES, world.memory.clone()).unwrap(),
        naive: Naive::new(&TABLE_I, fish, pc_bits, world.memory.clone()),
    };
    world.boot(&mut both);
    let mut dice = Dice(seed | 1);
    let mut layouts: Vec<Vec<Segment>> = world.roots.iter().map(|_| Vec::new()).collect();
    for step in 0..steps {
        let core = dice.below(CORES);
        match dice.below(1000) {
            // Under ASLR-SW a layout of one's own moves nothing.
            0..4 => {
                let process = dice.below(world.roots.len());
                layouts[process] = layout(&mut dice);
                both.set_segments(world.roots[process], &layouts[process]);
                if fish == Fish::Sw {
                    layouts[process].clear();
                }
            }
            4 => {
                let process = dice.below(world.roots.len());
                layouts[process].clear();
                world.restart(&mut both, process);
            }
            5 | 6 => {
                let (vaddr, cohort) = (address(dice.below(3), dice.below(6)), 1 + dice.below(2));
                let cohort = cohort as u32;
                both.invalidate(core, Invalidation::SharedPage { vaddr, cohort });
            }
            7 | 8 => {
                let segments = &layouts[world.running[core]];
                let region = dice.below(3);
                let start = segments.get(region).map_or(address(region, 0), |s| s.start);
                let vaddr = start + ((dice.below(6) as u64) << 12);
                let what = match dice.below(2) {
                    0 => Invalidation::Page { vaddr },
                    _ => Invalidation::PageAllSpaces { vaddr },
                };
                both.invalidate(core, what);
            }
            _ => {}
        }
        if dice.below(5) == 0 {
            world.running[core] = dice.below(world.roots.len());
            both.set_context(core, context(world.roots[world.running[core]]));
        }
        let process = world.running[core];
        let (region, page) = (dice.below(3), dice.below(6));
        let vaddr = address(region, page) + dice.below(512) as u64 * 8;
        let kind = match dice.below(300) {
            0 => AccessKind::Write,
            1..80 => AccessKind::Fetch,
            _ => AccessKind::Read,
        };
        let (_, present, writable) = world.truth(process, vaddr);
        let segment = layouts[process].get(region);
        let vaddr = segment.map_or(vaddr, |segment| vaddr.wrapping_sub(segment.offset));
        match both.attempt(core, kind, vaddr) {
            Ok(_) => {}
            Err(Fault::NotPresent) if dice.below(8) == 0 => world.fault_in(process, region, page),
            Err(Fault::NotPresent) => {}
            Err(_) if present && !writable => {
                world.copy_on_write(&mut both, process, region, page);
            }
            Err(_) => both.invalidate(core, Invalidation::Page { vaddr }),
        }
        both.compare(step);
    }
    let mut sum = Counters::default();
    (0..CORES).for_each(|core| sum.add(&both.machine.counters(core)));
    sum
}

/// Groups whose code is global, under a kernel that marks the tables it shares.
fn group(shape: &'static Shape, leave: Leave, seed: u64, steps: usize) -> Counters {
    let mut part = format!(
        "[group]\nglobal = \"cohort-code\"\nmarked = [\"9=1\"]\nleave_cycles = 100\nleave = \"{}\"\n",
        format!("{leave:?}").to_lowercase()
    );
    if leave == Leave::None {
        part += "fault_cycles = 500\n";
    }
    let mut world = World::new(Kind::Cohort);
    let mut both = Both {
        machine: Machine::new(
            &model("baseline", shape, &part),
            CORES,
            world.memory.clone(),
        )
        .unwrap(),
        naive: Naive::new(shape, Fish::No, 0, world.memory.clone()),
    };
    both.naive.leave = Some(leave);
    // A page may be held as a group's and as a process's own. Lists find the first: the fast path,
    // which is off while checking, the one of last time.
    both.machine.check_every_access(true);
    world.boot(&mut both);
    let mut dice = Dice(seed | 1);
    for step in 0..steps {
        let core = dice.below(CORES);
        let (region, page) = (dice.below(3), dice.below(6));
        let vaddr = address(region, page) + dice.below(512) as u64 * 8;
        match dice.below(500) {
            0 => {
                let process = dice.below(world.roots.len());
                world.restart(&mut both, process);
            }
            1 | 2 => both.invalidate(core, Invalidation::Page { vaddr }),
            3 => {
                let root = world.roots[dice.below(world.roots.len())];
                both.invalidate(core, Invalidation::AddressSpace { root });
            }
            4 => both.invalidate(core, Invalidation::AllButGlobal),
            _ => {}
        }
        if dice.below(5) == 0 {
            world.running[core] = dice.below(world.roots.len());
            both.set_context(core, context(world.roots[world.running[core]]));
        }
        let process = world.running[core];
        let kind = match dice.below(300) {
            0 => AccessKind::Write,
            1..150 => AccessKind::Fetch,
            _ => AccessKind::Read,
        };
        let (frame, present, writable) = world.truth(process, vaddr);
        let allowed = present && (kind != AccessKind::Write || writable);
        if allowed && dice.below(2) == 0 {
            both.access(core, kind, vaddr, Some(frame + vaddr % 4096), 8);
        } else {
            match both.attempt(core, kind, vaddr) {
                Ok(_) => {}
                Err(Fault::NotPresent) if dice.below(8) == 0 => {
                    world.fault_in(process, region, page);
                }
                Err(Fault::NotPresent) => {}
                Err(_) if present && !writable => {
                    world.copy_on_write(&mut both, process, region, page);
                }
                Err(_) => both.invalidate(core, Invalidation::Page { vaddr }),
            }
        }
        both.compare(step);
    }
    let mut sum = Counters::default();
    (0..CORES).for_each(|core| sum.add(&both.machine.counters(core)));
    sum
}

#[test]
fn half_a_million_steps_of_groups_count_as_lists_do() {
    for leave in [Leave::All, Leave::Group, Leave::None] {
        // A cohort's pages become its processes' own one by one, so there are many cohorts.
        let mut sum = Counters::default();
        for round in 0..20 {
            let shape = [&TABLE_I, &OTHERS[0].1][round as usize % 2];
            sum.add(&group(shape, leave, 7000 + round, 8_000));
        }
        let own = &sum.mechanisms.group;
        assert!(own.fills > 1000 && own.changes > 1000, "{leave:?}: {own:?}");
        assert!(
            own.first_hits > 100 && own.later_hits > 100,
            "{leave:?}: {own:?}"
        );
        assert!(own.refusals > 100, "{leave:?}: {own:?}");
        assert_eq!(own.dropped > 1000, leave != Leave::None, "{own:?}");
        assert_eq!(own.faults > 1000, leave == Leave::None, "{own:?}");
        assert_eq!((own.violations, sum.unexplained), (0, 0), "{own:?}");
    }
}

#[test]
fn a_million_steps_of_a_conventional_machine_count_as_lists_do() {
    for seed in 1..5 {
        let sum = conventional(&TABLE_I, seed * 101, 250_000);
        // All of it happened.
        assert!(sum.stale > 1000 && sum.invalidated > 10_000 && sum.walk.walks > 10_000);
        for size in 0..2 {
            assert!(sum.tlb[0][1][size].hits > 1000 && sum.tlb[1][0][size].hits > 1000);
            assert!(sum.tlb[1][1][size].global_hits > 0 || size == 1);
        }
    }
}

#[test]
fn flushes_by_the_hardwares_tags_count_as_lists_do() {
    for (tag, seed) in [("hardware", 17), ("address-space", 18)] {
        let sum = conventional_with(Some(tag), &TABLE_I, seed, 100_000);
        assert!(sum.invalidated > 10_000, "{tag}: {}", sum.invalidated);
        for (_, shape) in &OTHERS {
            conventional_with(Some(tag), shape, seed, 30_000);
        }
    }
}

#[test]
fn the_other_built_in_machines_count_as_lists_do() {
    for (name, shape) in &OTHERS {
        let sum = conventional(shape, 7, 150_000);
        // All of it happened.
        let counts = [
            sum.stale,
            sum.invalidated,
            sum.walk.walks,
            sum.context_switches,
        ];
        assert!(
            counts.iter().all(|&count| count > 500),
            "{name}: {counts:?}"
        );
        let switches_drop = shape.tagless || shape.flushed;
        assert_eq!(sum.switched_out > 500, switches_drop, "{name}");
        let second = shape.arrays.iter().any(|array| array.0 == 2);
        // Code in large pages is held in so many pieces that few are met again.
        for (side, size) in [(0, 0), (1, 0), (1, 1)] {
            let hits = [0, 1].map(|level| sum.tlb.get(level).map_or(0, |tlb| tlb[side][size].hits));
            assert!(hits[0] > 100, "{name}: {hits:?}");
            assert_eq!(hits[1] > 100, second, "{name}: {hits:?}");
        }
        let cached = sum.walk.cached[1..4].iter().all(|&hits| hits > 100);
        assert_eq!(cached, shape.walk_cache.is_some(), "{name}: {:?}", sum.walk);
    }
}

#[test]
fn a_million_steps_of_babelfish_count_as_lists_do() {
    for (fish, bits, seed) in [
        (Fish::Hw, 3, 1),
        (Fish::Hw, 32, 2),
        (Fish::Sw, 3, 3),
        (Fish::Sw, 32, 4),
    ] {
        // A group's pages become its processes' own one by one, so there are many groups.
        let mut sum = Counters::default();
        for round in 0..25 {
            sum.add(&babelfish(fish, bits, seed * 1000 + round, 10_000));
        }
        let own = &sum.mechanisms.babelfish;
        let shared = sum.tlb[1][1][0].shared_hits;
        // With few bits the groups soon go back to tables of their own.
        let few = if bits == 3 { 10 } else { 1000 };
        assert!(shared > few && own.owned_refusals > few, "{bits}: {sum:?}");
        assert!(
            own.private_refusals > few && own.long_accesses > few,
            "{bits}: {own:?}"
        );
        assert!(own.pids_listed >= 75, "{bits}: {own:?}");
        assert_eq!(own.overflows > 0, bits == 3, "{bits}: {own:?}");
    }
}

proptest! {
    #![proptest_config(cases(24))]
    #[test]
    fn any_short_run_counts_as_lists_do(seed in any::<u64>(), bits in 1usize..6, sw in any::<bool>()) {
        babelfish(if sw { Fish::Sw } else { Fish::Hw }, bits, seed, 3_000);
        group(&TABLE_I, [Leave::All, Leave::Group, Leave::None][bits % 3], seed, 3_000);
        conventional(&TABLE_I, seed, 3_000);
        for (_, shape) in &OTHERS {
            conventional(shape, seed, 1_000);
        }
    }
}
