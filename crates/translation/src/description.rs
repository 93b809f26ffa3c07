// SPDX-License-Identifier: GPL-2.0-or-later
//! Descriptions of machines: TOML in, a checked [`Model`] out.
//!
//! A description may build on another (`base = "NAME"`): its tables are merged into the base's,
//! its arrays replace the base's, and the tables named in `without` are left out. The fields are
//! explained in `docs/model.md` and below.

use crate::error::{ModelError, typed};
use crate::format::{Format, page_size};
use crate::replacement::Policy;
use crate::sources::{self, Constant};
use crate::tlb::mechanism::{Parts, Setup};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::path::Path;

/// The tag of TLB entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tag {
    /// The model numbers the address spaces by their root: a PCID that never runs out of what the
    /// source's processor may lack.
    AddressSpace,
    /// The hardware's own tag, as the guest's kernel gives it out (ARM ASID).
    Hardware,
    /// None: a change of the address space drops all but global entries.
    None,
}

/// Timing of a core; see the module documentation of `time` for what the fields do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorePart {
    /// Clock in MHz.
    pub clock_mhz: u64,
    /// Instructions issued a cycle.
    pub issue_width: u64,
    /// Entries of the reorder buffer; 0 executes in order.
    pub rob: u64,
    /// Page walkers: the number of walks that can be under way at once. The default is 1.
    pub walkers: usize,
    /// Instructions between fetch and issue: so far do fetches run ahead. The default is a quarter of
    /// the reorder buffer.
    pub fetch_ahead: u64,
    /// Entries of the store buffer. The default is a fifth of the reorder buffer, one at least.
    pub stores: usize,
    /// Whether instructions wait for the results of others. The default is yes. Without it no access
    /// waits for another, which bounds from below what unknown dependences cost; `rob = 0`, with
    /// which each waits for the one before, bounds it from above.
    #[serde(default = "yes")]
    pub dependences: bool,
}

fn yes() -> bool {
    true
}

/// Which accesses a TLB array serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Instruction fetches.
    Fetch,
    /// Loads and stores.
    Data,
    /// Both: a unified array.
    Both,
}

/// A page size in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PageSize(#[serde(deserialize_with = "page_size")] pub u32);

/// Ways: a number, or `"full"`.
fn ways<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(usize),
        Word(String),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(ways) if ways > 0 => Ok(ways),
        Either::Word(word) if word == "full" => Ok(0),
        _ => Err(D::Error::custom(
            "ways must be a number above 0, or \"full\"",
        )),
    }
}

/// One TLB array.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbPart {
    /// 1 for the level that an access asks first.
    pub level: usize,
    /// Which accesses.
    pub side: Side,
    /// Page sizes that it holds. Sizes that the page tables lack are ignored; a page for which a
    /// level and side have no array is held as pieces of the largest smaller size.
    pub pages: Vec<PageSize>,
    /// Entries.
    pub entries: usize,
    /// Ways of a set, 0 (in TOML `"full"`) for fully associative.
    #[serde(deserialize_with = "ways")]
    pub ways: usize,
    /// Access time in cycles; all arrays of a level and side have the same.
    pub cycles: u64,
    /// Which way goes. The default is LRU.
    pub replacement: Policy,
    /// Whether it is emptied at each context switch (micro TLBs of the Cortex-A9). The default is no.
    pub flushed_on_switch: bool,
}

/// How a page-walk cache is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkCacheTag {
    /// By the physical address of the entry, level by level from the root until one is missing.
    Physical,
    /// By virtual address and context: the longest prefix that is there is taken at once.
    Virtual,
}

/// The page-walk cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkCachePart {
    /// How it is looked up.
    pub tag: WalkCacheTag,
    /// Entries of each level.
    pub entries: usize,
    /// Ways of a set, 0 (in TOML `"full"`) for fully associative.
    #[serde(deserialize_with = "ways")]
    pub ways: usize,
    /// Access time in cycles.
    pub cycles: u64,
    /// Which way goes. The default is LRU.
    pub replacement: Policy,
}

/// Where the walker's reads enter the cache hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkEntry {
    /// Through the L1 data cache.
    L1d,
    /// At the level below it.
    L2,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachePart {
    /// Size in KB.
    pub kb: usize,
    /// Ways of a set.
    pub ways: usize,
    /// Access time in cycles.
    pub cycles: u64,
    /// Misses it may have under way. The smallest number on the way to memory counts.
    pub mshrs: usize,
    /// Which way goes. The default is LRU.
    pub replacement: Policy,
    /// When the next level gets what is written. The default is back; through is for the L1D.
    pub writes: Writes,
}

/// When a cache hands on what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// When it gives the line up.
    Back,
    /// At once; nothing waits for it.
    Through,
}

/// The cache hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachesPart {
    /// Bytes of a line, the same in all caches.
    pub line_bytes: u64,
    /// Where the walker's reads enter.
    pub walker_enters: WalkEntry,
    /// Cycles to take a line from another core, beyond the shared cache's access time.
    pub snoop_cycles: u64,
    /// Instructions.
    pub l1i: CachePart,
    /// Data.
    pub l1d: CachePart,
    /// Private second level.
    pub l2: Option<CachePart>,
    /// Shared last level.
    pub last: Option<CachePart>,
}

/// Main memory; times in its own clock.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPart {
    /// Clock of the bus in MHz.
    pub clock_mhz: u64,
    /// Channels.
    pub channels: u64,
    /// Ranks of a channel.
    pub ranks: u64,
    /// Banks of a rank.
    pub banks: u64,
    /// KB of an open row.
    pub row_kb: u64,
    /// From a column command to its data.
    pub cas: u64,
    /// To open a row.
    pub rcd: u64,
    /// To close one.
    pub rp: u64,
    /// Clocks that a line's data takes on the bus.
    pub burst: u64,
    /// Nanoseconds between two refreshes, each of which closes all rows. The default, 0, leaves
    /// them out.
    pub refresh_ns: u64,
}

/// A machine's description, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// What it describes, in a sentence, with the source of its numbers.
    pub about: String,
    /// The page-table format that it was made for: a built-in name, or the path of a file, from the
    /// description's folder. A guest may use another ([`Model::with_page_tables`])
    pub page_tables: String,
    /// The tag of TLB entries.
    pub tag: Tag,
    /// Whether a page fault drops the entries of its page (x86: Intel SDM volume 3, 4.10.4.1).
    /// The default is no.
    pub fault_drops_page: bool,
    /// The core.
    pub core: CorePart,
    /// TLB arrays.
    pub tlb: Vec<TlbPart>,
    /// Page-walk cache, if there is one.
    pub walk_cache: Option<WalkCachePart>,
    /// Caches.
    pub cache: CachesPart,
    /// Main memory.
    pub memory: MemoryPart,
    /// What the machine has beyond that: a table per mechanism.
    #[serde(skip)]
    pub mechanisms: Parts,
    /// All constants with their sources, defaults among them.
    #[serde(skip)]
    pub constants: Vec<Constant>,
    /// The page-table format itself.
    #[serde(skip)]
    pub(crate) format: Option<Format>,
}

const BUILTIN: [(&str, &str); 14] = [
    (
        "babelfish-isca20",
        include_str!("../models/babelfish-isca20.toml"),
    ),
    (
        "babelfish-isca20-aslr-sw",
        include_str!("../models/babelfish-isca20-aslr-sw.toml"),
    ),
    (
        "babelfish-kernel",
        include_str!("../models/babelfish-kernel.toml"),
    ),
    ("baseline", include_str!("../models/baseline.toml")),
    ("larger-tlb", include_str!("../models/larger-tlb.toml")),
    ("cortex-a9", include_str!("../models/cortex-a9.toml")),
    (
        "cortex-a9-noasid",
        include_str!("../models/cortex-a9-noasid.toml"),
    ),
    ("pentium4", include_str!("../models/pentium4.toml")),
    ("zen4", include_str!("../models/zen4.toml")),
    (
        "zen4-group-all",
        include_str!("../models/zen4-group-all.toml"),
    ),
    ("zen4-group", include_str!("../models/zen4-group.toml")),
    (
        "zen4-group-overlay",
        include_str!("../models/zen4-group-overlay.toml"),
    ),
    (
        "baseline-group-all",
        include_str!("../models/baseline-group-all.toml"),
    ),
    (
        "baseline-group-overlay",
        include_str!("../models/baseline-group-overlay.toml"),
    ),
];

/// How deep `base` may go.
const BASES_MAX: usize = 8;
/// Clocks, in MHz.
const MHZ_MAX: u64 = 100_000;
/// Times, in cycles or in memory's clocks.
const TIME_MAX: u64 = 100_000;
/// Entries of a TLB array, and of one level of the page-walk cache.
const ENTRIES_MAX: usize = 16384;
/// Size of a core's own cache: there may be 64 of each.
const PRIVATE_KB_MAX: u64 = 16 * 1024;
/// Size of the shared cache.
const LAST_KB_MAX: u64 = 1024 * 1024;
/// MSHRs of a cache.
const MSHRS_MAX: u64 = 4096;
/// Banks of all of memory.
const BANKS_MAX: u64 = 16384;

impl Model {
    /// The names of the built-in descriptions.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The text of a built-in description, to start a new one from.
    pub fn builtin_text(name: &str) -> Result<&'static str, ModelError> {
        BUILTIN
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| *text)
            .ok_or_else(|| ModelError::Unknown {
                what: "model",
                name: name.to_owned(),
                known: Self::builtin_names().collect::<Vec<_>>().join(", "),
            })
    }

    /// A built-in description.
    pub fn builtin(name: &str) -> Result<Self, ModelError> {
        Self::parse(name, Self::builtin_text(name)?)
    }

    /// Parses a description; `name` is for its error messages. A `base` is a built-in name.
    pub fn parse(name: &str, text: &str) -> Result<Self, ModelError> {
        let table = with_base(name, text, None, BASES_MAX)?;
        Self::from_table(name, table)
    }

    /// Reads a description from a file. A `base` is a built-in name, or a path ending in `.toml`
    /// beside the file.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        Self::from_table(&path.display().to_string(), read_table(path)?)
    }

    /// A built-in name, or the path of a file if it contains a `/` or ends in `.toml`.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        Self::from_table(name_or_path, Self::table(name_or_path)?)
    }

    /// The description that [`Self::load`] reads, the tables of its bases merged in, to be changed
    /// before [`Self::from_table`] makes a model of it.
    pub fn table(name_or_path: &str) -> Result<toml::Table, ModelError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            read_table(Path::new(name_or_path))
        } else {
            let text = Self::builtin_text(name_or_path)?;
            with_base(name_or_path, text, None, BASES_MAX)
        }
    }

    /// A model of a whole description, without `base`; `name` is for error messages.
    pub fn from_table(name: &str, table: toml::Table) -> Result<Self, ModelError> {
        let invalid = |why: String| ModelError::Invalid {
            name: name.to_owned(),
            why,
        };
        let mut table = table;
        let constants = sources::take(&mut table).map_err(invalid)?;
        let mechanisms = Parts::take(&mut table).map_err(invalid)?;
        let mut model: Self = typed(table).map_err(invalid)?;
        model.constants = constants;
        model.mechanisms = mechanisms;
        model.format = Some(Format::load(&model.page_tables)?);
        model.check().map_err(invalid)?;
        Ok(model)
    }

    /// The same machine under page tables of another format (a built-in name, or the path of a
    /// file), for a guest of another architecture.
    /// Page sizes that its TLBs do not know are held in pieces. Tags that its own architecture's
    /// kernel would give out (ARM's ASIDs) are not there: the model numbers the address spaces.
    pub fn with_page_tables(mut self, format: &str) -> Result<Self, ModelError> {
        if self.page_tables == format {
            return Ok(self);
        }
        self.page_tables = format.to_owned();
        self.format = Some(Format::load(format)?);
        if self.tag == Tag::Hardware {
            self.tag = Tag::AddressSpace;
        }
        self.check().map_err(|why| ModelError::Machine {
            name: self.name.clone(),
            why,
        })?;
        Ok(self)
    }

    /// The page-table format.
    pub fn format(&self) -> &Format {
        self.format.as_ref().expect("set by every constructor")
    }

    /// What the mechanisms of a machine of `cores` cores are made for.
    pub(crate) fn setup(&self, cores: usize) -> Setup<'_> {
        Setup {
            format: self.format(),
            numbers_spaces: self.tag == Tag::AddressSpace,
            levels: self.tlb.iter().map(|tlb| tlb.level).max().unwrap_or(1),
            cores,
            line_bytes: self.cache.line_bytes,
            ticks_per_cycle: self.core.issue_width,
        }
    }

    /// Rules beyond the types. Refuses sizes that no machine has: this one would not have their memory
    /// or sums either.
    fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: u64, most: u64| match value {
            0 => Err(format!("{what} must be above 0")),
            value if value > most => Err(format!("{what} must be at most {most}")),
            _ => Ok(()),
        };
        within("core.clock_mhz", self.core.clock_mhz, MHZ_MAX)?;
        within("memory.clock_mhz", self.memory.clock_mhz, MHZ_MAX)?;
        if !(1..=16).contains(&self.core.issue_width) || self.core.rob > 4096 {
            return Err("core.issue_width must be 1 to 16 and core.rob at most 4096".to_owned());
        }
        if !(1..=64).contains(&self.core.walkers) {
            return Err("core.walkers must be 1 to 64".to_owned());
        }
        if self.core.fetch_ahead > 4096 {
            return Err("core.fetch_ahead must be at most 4096".to_owned());
        }
        if !(1..=1024).contains(&self.core.stores) {
            return Err("core.stores must be 1 to 1024".to_owned());
        }
        self.check_tlbs()?;
        if let Some(cache) = &self.walk_cache {
            entries("walk_cache", cache.entries)?;
            sets("walk_cache", cache.entries, cache.ways, cache.replacement)?;
        }
        if !self.cache.line_bytes.is_power_of_two() || !(16..=256).contains(&self.cache.line_bytes)
        {
            return Err("cache.line_bytes must be a power of two from 16 to 256".to_owned());
        }
        for (name, cache) in self.cache.parts() {
            let name = format!("cache.{name}");
            let most = match name.as_str() {
                "cache.last" => LAST_KB_MAX,
                _ => PRIVATE_KB_MAX,
            };
            within(&format!("{name}.kb"), cache.kb as u64, most)?;
            within(&format!("{name}.mshrs"), cache.mshrs as u64, MSHRS_MAX)?;
            let lines = cache.kb * 1024 / self.cache.line_bytes as usize;
            within(&format!("{name}.ways"), cache.ways as u64, lines as u64)?;
            sets(&name, lines, cache.ways, cache.replacement)?;
            let below = self.cache.l2.is_some() || self.cache.last.is_some();
            if cache.writes == Writes::Through && (name != "cache.l1d" || !below) {
                return Err(format!(
                    "{name}.writes: \"through\" is for an l1d with a cache behind it"
                ));
            }
        }
        let memory = &self.memory;
        for (name, value) in [
            ("channels", memory.channels),
            ("ranks", memory.ranks),
            ("banks", memory.banks),
            ("row_kb", memory.row_kb),
        ] {
            if !value.is_power_of_two() || value > 1024 {
                return Err(format!("memory.{name} must be a power of two up to 1024"));
            }
        }
        if memory.channels * memory.ranks * memory.banks > BANKS_MAX {
            return Err(format!(
                "memory.channels, ranks and banks must make at most {BANKS_MAX} banks"
            ));
        }
        if memory.refresh_ns > 1_000_000_000 {
            return Err("memory.refresh_ns must be at most a second".to_owned());
        }
        for (what, time) in self.times() {
            if time > TIME_MAX {
                return Err(format!("{what} must be at most {TIME_MAX}"));
            }
        }
        self.mechanisms.check(&self.setup(0))
    }

    /// All times in cycles or in memory's clocks, by the names of their fields.
    fn times(&self) -> Vec<(String, u64)> {
        let memory = &self.memory;
        let mut times: Vec<(String, u64)> = [
            ("cache.snoop_cycles", self.cache.snoop_cycles),
            ("memory.cas", memory.cas),
            ("memory.rcd", memory.rcd),
            ("memory.rp", memory.rp),
            ("memory.burst", memory.burst),
        ]
        .map(|(name, time)| (name.to_owned(), time))
        .into();
        for (name, cache) in self.cache.parts() {
            times.push((format!("cache.{name}.cycles"), cache.cycles));
        }
        for (number, tlb) in self.tlb.iter().enumerate() {
            times.push((format!("tlb[{number}].cycles"), tlb.cycles));
        }
        if let Some(cache) = &self.walk_cache {
            times.push(("walk_cache.cycles".to_owned(), cache.cycles));
        }
        times.extend(self.mechanisms.times());
        times
    }

    fn check_tlbs(&self) -> Result<(), String> {
        let levels = self.tlb.iter().map(|tlb| tlb.level).max().unwrap_or(1);
        for (number, tlb) in self.tlb.iter().enumerate() {
            let name = format!("tlb[{number}]");
            if tlb.level == 0 {
                return Err(format!("{name}.level: 0 is not a level; the first is 1"));
            }
            if tlb.pages.is_empty() {
                return Err(format!("{name}.pages is empty"));
            }
            entries(&name, tlb.entries)?;
            sets(&name, tlb.entries, tlb.ways, tlb.replacement)?;
        }
        for level in 1..=levels {
            let arrays = self.tlb.iter().enumerate();
            let arrays: Vec<_> = arrays.filter(|(_, tlb)| tlb.level == level).collect();
            if arrays.is_empty() {
                return Err(format!(
                    "tlb: level {level} has no array, though there is a level {levels}"
                ));
            }
            let unified = |tlb: &TlbPart| tlb.side == Side::Both;
            let both = arrays.iter().find(|(_, tlb)| unified(tlb));
            if let Some((number, _)) = both {
                if level == 1 || !arrays.iter().all(|(_, tlb)| unified(tlb)) {
                    return Err(format!(
                        "tlb[{number}].side: the arrays of a level are for \"fetch\" and \
                         \"data\", or, behind level 1, all for \"both\""
                    ));
                }
            }
            for side in [Side::Fetch, Side::Data] {
                let mine = arrays.iter().copied();
                let mine: Vec<_> = mine
                    .filter(|(_, tlb)| tlb.side == side || unified(tlb))
                    .collect();
                let least = self.format().sizes()[0];
                let named = |side: Side| format!("{side:?}").to_lowercase();
                if !mine
                    .iter()
                    .any(|(_, tlb)| tlb.pages.contains(&PageSize(least)))
                {
                    return Err(format!(
                        "tlb: level {level} has no array for {} that holds {} pages, the smallest \
                         page size of {}",
                        named(side),
                        crate::entry::size_name(least),
                        self.page_tables
                    ));
                }
                let (first, cycles) = (mine[0].0, mine[0].1.cycles);
                if let Some((number, tlb)) = mine.iter().find(|(_, tlb)| tlb.cycles != cycles) {
                    return Err(format!(
                        "tlb[{number}].cycles: {}, but the arrays of a side and level have the \
                         same time, and tlb[{first}] has {cycles}",
                        tlb.cycles
                    ));
                }
                for (at, (number, tlb)) in mine.iter().enumerate() {
                    for size in &tlb.pages {
                        let other = mine[..at].iter().find(|(_, tlb)| tlb.pages.contains(size));
                        if let Some((other, _)) = other {
                            return Err(format!(
                                "tlb[{number}].pages: {} pages are in tlb[{other}] already; two \
                                 arrays of a level cannot hold the same page size",
                                crate::entry::size_name(size.0)
                            ));
                        }
                    }
                    let twice =
                        |size: &&PageSize| tlb.pages.iter().filter(|page| page == size).count() > 1;
                    if let Some(size) = tlb.pages.iter().find(twice) {
                        return Err(format!(
                            "tlb[{number}].pages: {} is there twice",
                            crate::entry::size_name(size.0)
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

impl CachesPart {
    /// The caches there are, by name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &CachePart)> {
        [("l1i", Some(&self.l1i)), ("l1d", Some(&self.l1d))]
            .into_iter()
            .chain([("l2", self.l2.as_ref()), ("last", self.last.as_ref())])
            .filter_map(|(name, cache)| cache.map(|cache| (name, cache)))
    }
}

/// Whether a TLB array or a walk cache is not too large.
fn entries(name: &str, entries: usize) -> Result<(), String> {
    if entries > ENTRIES_MAX {
        return Err(format!(
            "{name}.entries: {entries} is more than {ENTRIES_MAX}"
        ));
    }
    Ok(())
}

/// Whether entries and ways make a power of two of sets.
fn sets(name: &str, entries: usize, ways: usize, policy: Policy) -> Result<(), String> {
    let ways = if ways == 0 { entries } else { ways };
    if entries == 0 || entries % ways != 0 || !(entries / ways).is_power_of_two() {
        return Err(format!(
            "{name}.ways: {entries} entries in {ways} ways do not make a power of two of sets"
        ));
    }
    if policy == Policy::Plru && (!ways.is_power_of_two() || ways > 64) {
        return Err(format!(
            "{name}.replacement: plru needs ways that are a power of two up to 64, not {ways}"
        ));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, ModelError> {
    std::fs::read_to_string(path).map_err(|source| ModelError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_table(path: &Path) -> Result<toml::Table, ModelError> {
    let name = path.display().to_string();
    with_base(&name, &read(path)?, path.parent(), BASES_MAX)
}

/// The table that a text describes, its base's tables merged in.
fn with_base(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    deep: usize,
) -> Result<toml::Table, ModelError> {
    let invalid = |why: String| ModelError::Invalid {
        name: name.to_owned(),
        why,
    };
    let mut own: toml::Table = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
    let without = own.remove("without");
    let base = own.remove("base");
    sources::resolve(&mut own, base.is_some()).map_err(invalid)?;
    if let (Some(folder), Some(toml::Value::String(format))) = (folder, own.get_mut("page_tables"))
    {
        if format.ends_with(".toml") {
            *format = folder.join(&*format).display().to_string();
        }
    }
    let Some(base) = base else {
        return match without {
            Some(_) => Err(invalid(
                "`without` says nothing unless there is a `base`".to_owned(),
            )),
            None => Ok(own),
        };
    };
    let Some(base) = base.as_str() else {
        return Err(invalid("base must be the name of a model".to_owned()));
    };
    if deep == 0 {
        return Err(invalid("its bases go in a circle, or too deep".to_owned()));
    }
    let mut merged = match folder {
        Some(folder) if base.ends_with(".toml") => {
            let path = folder.join(base);
            let name = path.display().to_string();
            with_base(&name, &read(&path)?, path.parent(), deep - 1)?
        }
        _ => with_base(base, Model::builtin_text(base)?, None, deep - 1)?,
    };
    let left_out: Vec<String> = match without {
        None => Vec::new(),
        Some(list) => list
            .try_into()
            .map_err(|e: toml::de::Error| invalid(e.to_string()))?,
    };
    for key in left_out {
        if merged.remove(&key).is_none() {
            return Err(invalid(format!("without: the base has no {key:?}")));
        }
    }
    let (of_base, of_own) = (merged.remove("sources"), own.remove("sources"));
    merge(&mut merged, own);
    let of_all = sources::merge(&merged, of_base, of_own);
    merged.insert("sources".to_owned(), of_all);
    Ok(merged)
}

fn merge(base: &mut toml::Table, own: toml::Table) {
    for (key, value) in own {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
