// SPDX-License-Identifier: GPL-2.0-or-later
//! Page-table formats: a description in TOML and the one walker that reads all of them.
//!
//! Bits are written as people do: a field is `"51:12"`, a test `"0=1 7=0"` (all of these bits), and
//! a right is a list of tests of which one must hold.

use crate::entry::{LEVELS_MAX, SIZES_MAX, attr, size_shift};
use crate::error::{ModelError, typed};
use crate::event::{Context, Fault};
use crate::memory::GuestMemory;
use serde::{Deserialize, Deserializer, de::Error as _};
use std::path::Path;

/// Bits `high..=low` of an entry, in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    high: u32,
    low: u32,
    mask: u64,
}

impl Field {
    fn mask(self) -> u64 {
        self.mask
    }
    #[inline(always)]
    fn value(self, entry: u64) -> u64 {
        (entry & self.mask) >> self.low
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || D::Error::custom(format!("{text:?} is not a bit field such as \"51:12\""));
        let (high, low) = text.split_once(':').ok_or_else(bad)?;
        let high: u32 = high.trim().parse().map_err(|_| bad())?;
        let low: u32 = low.trim().parse().map_err(|_| bad())?;
        if high > 63 || low > high {
            Err(bad())
        } else {
            let mask = (u64::MAX >> (63 - high)) & (u64::MAX << low);
            Ok(Self { high, low, mask })
        }
    }
}

/// Bits that must all have the given values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    mask: u64,
    value: u64,
}

impl Test {
    /// Whether the entry passes.
    #[inline]
    pub fn holds(self, entry: u64) -> bool {
        entry & self.mask == self.value
    }
}

impl<'de> Deserialize<'de> for Test {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || {
            D::Error::custom(format!(
                "{text:?} is not a test of bits such as \"0=1 7=0\""
            ))
        };
        let mut test = Self { mask: 0, value: 0 };
        for word in text.split_whitespace() {
            let (bit, value) = word.split_once('=').ok_or_else(bad)?;
            let bit: u32 = bit.parse().ok().filter(|&bit| bit < 64).ok_or_else(bad)?;
            test.mask |= 1 << bit;
            match value {
                "0" => {}
                "1" => test.value |= 1 << bit,
                _ => return Err(bad()),
            }
        }
        if test.mask == 0 { Err(bad()) } else { Ok(test) }
    }
}

/// Deserializes a page size such as `"4K"`.
pub(crate) fn page_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    size_shift(&text)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a page size such as \"4K\"")))
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    page_size(deserializer).map(Some)
}

/// How the root table is chosen among a context's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Roots {
    /// There is one (x86). Addresses are sign-extended.
    One,
    /// Bit 55 chooses (ARMv8: TTBR0 below, TTBR1 above).
    TopBit,
    /// The top N bits choose (ARMv7: TTBCR.N).
    Split,
}

/// One kind of entry in a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// The entry is of this kind when these bits hold. The first kind that fits is taken.
    when: Test,
    /// It points to a table: which bits are the table's address.
    table: Option<Field>,
    /// It maps a page of this size...
    #[serde(default, deserialize_with = "optional_size")]
    page: Option<u32>,
    /// ...and these bits are the page's address.
    frame: Option<Field>,
    /// One of these makes 16 such entries one page (ARMv8's contiguous bit).
    #[serde(default)]
    contiguous: Vec<Test>,
    /// Rights. For writing and user mode every level must agree, an empty list agrees; one level
    /// is enough to forbid execution.
    #[serde(default)]
    writable: Vec<Test>,
    #[serde(default)]
    user: Vec<Test>,
    #[serde(default)]
    user_writable: Vec<Test>,
    #[serde(default)]
    no_execute: Vec<Test>,
    #[serde(default)]
    global: Vec<Test>,
    /// Where the domain is (ARMv7); lower levels inherit it.
    domain: Option<Field>,
}

impl Kind {
    /// The rights that are left of `attr` below an entry of this kind.
    fn restrict(&self, value: u64, mut attr: u16) -> u16 {
        for (tests, right) in [
            (&self.writable, attr::WRITE),
            (&self.user, attr::USER),
            (&self.user_writable, attr::USER_WRITE),
        ] {
            if !agrees(tests, value) {
                attr &= !right;
            }
        }
        if any(&self.no_execute, value) {
            attr |= attr::NO_EXECUTE;
        }
        attr
    }
}

/// One level of the tables, the root first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Level {
    name: String,
    /// Which bits of the virtual address choose the entry.
    index: Field,
    entry: Vec<Kind>,
    #[serde(skip)]
    outcomes: Outcomes,
}

impl Level {
    /// Bits that the tests of its entries look at.
    fn tested(&self) -> u64 {
        let lists = |kind: &Kind| {
            let rights = [&kind.writable, &kind.user, &kind.user_writable];
            let others = [&kind.no_execute, &kind.global, &kind.contiguous];
            let tests = rights.into_iter().chain(others).flatten();
            tests.fold(kind.when.mask, |bits, test| bits | test.mask)
        };
        self.entry.iter().fold(0, |bits, kind| bits | lists(kind))
    }

    /// What an entry says, from the lists of tests.
    fn decide(&self, value: u64, sizes: &[u32]) -> Outcome {
        let Some(kind) = self.entry.iter().find(|kind| kind.when.holds(value)) else {
            return Outcome::default();
        };
        let keep = kind.restrict(value, ALL_RIGHTS);
        let mut outcome = Outcome {
            next: Next::Nothing,
            keep: keep | !ALL_RIGHTS,
            add: keep & attr::NO_EXECUTE,
            domain: kind.domain,
        };
        if let (Some(size), Some(frame)) = (kind.page, kind.frame) {
            if any(&kind.global, value) {
                outcome.add |= attr::GLOBAL;
            }
            let shift = match any(&kind.contiguous, value) {
                true => size + 4,
                false => size,
            };
            let class = sizes.iter().position(|&known| known == shift);
            outcome.add |= (class.unwrap_or(0) as u16) << attr::SIZE_SHIFT;
            let frame = frame.mask() & (u64::MAX << shift);
            outcome.next = Next::Page { frame, shift };
        } else if let Some(table) = kind.table {
            outcome.next = Next::Table(table.mask());
        }
        outcome
    }

    /// What an entry says.
    #[inline(always)]
    fn outcome(&self, value: u64, sizes: &[u32]) -> Outcome {
        match self.outcomes.list.get(self.outcomes.index(value)) {
            Some(outcome) => *outcome,
            None => self.decide(value, sizes),
        }
    }
}

/// Where an entry leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// It is not present.
    #[default]
    Nothing,
    /// To the table at these bits.
    Table(u64),
    /// To a page, whose frame is at these bits.
    Page { frame: u64, shift: u32 },
}

/// What an entry says, but for addresses and domain, which are bits of its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    next: Next,
    /// Attributes that stay, and that it adds.
    keep: u16,
    add: u16,
    domain: Option<Field>,
}

/// Bits that tests of a level may look at for its outcomes to be tabulated.
const TABULATED: u32 = 12;

/// The outcomes of a level by the bits that its tests look at, so that a walk does not go through the
/// lists of tests. Empty if those are too many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcomes {
    /// Runs of such bits: how far to shift an entry for each, and which bits of the index it then is.
    runs: Vec<(u32, usize)>,
    list: Vec<Outcome>,
}

impl Outcomes {
    fn new(level: &Level, sizes: &[u32]) -> Self {
        let bits = level.tested();
        if bits.count_ones() > TABULATED {
            return Self::default();
        }
        let mut runs = Vec::new();
        let (mut left, mut known) = (bits, 0);
        while left != 0 {
            let from = left.trailing_zeros();
            let length = (left >> from).trailing_ones();
            left &= !(((1 << length) - 1) << from);
            // A rotation to the left, so that one number says how far in both directions.
            let mask = ((1usize << length) - 1) << known;
            runs.push(((known + 64 - from) % 64, mask));
            known += length;
        }
        let value_of = |index: usize| {
            runs.iter().fold(0, |value, &(rotation, mask)| {
                value | ((index & mask) as u64).rotate_right(rotation)
            })
        };
        let list = (0..1usize << known).map(|index| level.decide(value_of(index), sizes));
        Self {
            list: list.collect(),
            runs,
        }
    }

    #[inline(always)]
    fn index(&self, value: u64) -> usize {
        self.runs.iter().fold(0, |index, &(rotation, mask)| {
            index | value.rotate_left(rotation) as usize & mask
        })
    }
}

/// A page-table format.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// Its name, as in a model's `page_tables`.
    pub name: String,
    /// Bytes of an entry: 4 or 8.
    pub entry_bytes: u64,
    /// Levels when a context does not say.
    default_levels: usize,
    roots: Roots,
    /// Which bits of the root register are the table's address.
    root_address: Field,
    /// A TLB takes the right to write from an entry only if one of these holds (x86: it is dirty).
    /// Empty: always.
    #[serde(default)]
    dirty: Vec<Test>,
    /// A TLB must not hold entries of different sizes for one address (ARM: software breaks an entry
    /// before it makes one of another size).
    #[serde(default)]
    one_size: bool,
    level: Vec<Level>,
    /// The page sizes there are, as powers of two, ascending.
    #[serde(skip)]
    sizes: Vec<u32>,
}

/// An entry that a walk read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Its level in the format, 0 for the topmost.
    pub level: usize,
    /// Its physical address.
    pub paddr: u64,
    /// Its value.
    pub value: u64,
}

/// Where a walk ends when there is a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Physical address of the page's first byte.
    pub frame: u64,
    /// Its size as a power of two.
    pub shift: u32,
    /// `entry::attr` bits.
    pub attr: u16,
}

/// A walk: what was read, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    steps: [Step; LEVELS_MAX],
    count: usize,
    /// The page, or why there is none.
    pub result: Result<Translation, Fault>,
}

impl Walk {
    /// The entries that were read, the root's first.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.count]
    }

    /// The entry above the last one: it points to the table that holds the leaf.
    pub fn above_leaf(&self) -> Option<Step> {
        self.count.checked_sub(2).map(|above| self.steps[above])
    }
}

/// What the root allows.
const ALL_RIGHTS: u16 = attr::WRITE | attr::USER | attr::USER_WRITE;

fn any(tests: &[Test], entry: u64) -> bool {
    tests.iter().any(|test| test.holds(entry))
}

fn agrees(tests: &[Test], entry: u64) -> bool {
    tests.is_empty() || any(tests, entry)
}

const BUILTIN: [(&str, &str); 5] = [
    ("x86-64", include_str!("../formats/x86-64.toml")),
    ("x86-32", include_str!("../formats/x86-32.toml")),
    ("x86-pae", include_str!("../formats/x86-pae.toml")),
    ("armv7-short", include_str!("../formats/armv7-short.toml")),
    ("armv8-4k", include_str!("../formats/armv8-4k.toml")),
];

impl Format {
    /// The names of the built-in formats.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A built-in name, or the path of a file if it contains a `/` or ends in `.toml`.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            Self::from_file(Path::new(name_or_path))
        } else {
            Self::builtin(name_or_path)
        }
    }

    /// Reads a description from a file.
    pub fn from_file(path: &Path) -> Result<Self, ModelError> {
        let text = std::fs::read_to_string(path).map_err(|source| ModelError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// A built-in format.
    pub fn builtin(name: &str) -> Result<Self, ModelError> {
        let text = BUILTIN
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| text);
        let unknown = || ModelError::Unknown {
            what: "page-table format",
            name: name.to_owned(),
            known: Self::builtin_names().collect::<Vec<_>>().join(", "),
        };
        Self::parse(name, text.ok_or_else(unknown)?)
    }

    /// Parses a description; `name` is for its error messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, ModelError> {
        let invalid = |why: String| ModelError::Invalid {
            name: name.to_owned(),
            why,
        };
        let table: toml::Table = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
        let mut format: Self = typed(table).map_err(invalid)?;
        if !matches!(format.entry_bytes, 4 | 8) {
            return Err(invalid("entry_bytes must be 4 or 8".to_owned()));
        }
        if format.level.is_empty() || format.level.len() > LEVELS_MAX {
            return Err(invalid(format!("a format has 1 to {LEVELS_MAX} levels")));
        }
        if !(1..=format.level.len()).contains(&format.default_levels) {
            return Err(invalid(
                "default_levels must be 1 to the number of levels".to_owned(),
            ));
        }
        let last = format.level.len() - 1;
        let mut sizes = Vec::new();
        for (depth, level) in format.level.iter().enumerate() {
            for kind in &level.entry {
                let whole = match (kind.table, kind.page, kind.frame) {
                    (Some(_), None, None) => depth < last,
                    (None, Some(_), Some(_)) => true,
                    _ => false,
                };
                if !whole {
                    return Err(invalid(format!(
                        "an entry of level {:?} must have either `table` (not in the last level) or \
                         both `page` and `frame`",
                        level.name
                    )));
                }
                if let Some(shift) = kind.page {
                    sizes.push(shift);
                    if !kind.contiguous.is_empty() {
                        sizes.push(shift + 4);
                    }
                }
            }
            if level.index.high - level.index.low > 15 {
                return Err(invalid(format!(
                    "level {:?} has too many entries",
                    level.name
                )));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() || sizes.len() > SIZES_MAX {
            return Err(invalid(format!("a format has 1 to {SIZES_MAX} page sizes")));
        }
        for level in &mut format.level {
            level.outcomes = Outcomes::new(level, &sizes);
        }
        format.sizes = sizes;
        Ok(format)
    }

    /// The page sizes there are, as powers of two, ascending.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Whether a TLB must not hold entries of different sizes for one address.
    pub fn has_one_size(&self) -> bool {
        self.one_size
    }

    /// How many levels the format has at most.
    pub fn levels(&self) -> usize {
        self.level.len()
    }

    /// The lowest bit of the virtual address that chooses an entry of this level: an entry covers
    /// two to that power bytes.
    pub fn level_shift(&self, level: usize) -> u32 {
        self.level[level].index.low
    }

    /// For a page size: how much the entry above the leaf covers, as a power of two. `None` if the
    /// leaf is in the topmost level.
    pub fn above_shift(&self, size: u32) -> Option<u32> {
        let holds = |kind: &Kind| match kind.page {
            Some(page) => page == size || !kind.contiguous.is_empty() && page + 4 == size,
            None => false,
        };
        let leaf = self
            .level
            .iter()
            .position(|level| level.entry.iter().any(holds))?;
        leaf.checked_sub(1).map(|above| self.level_shift(above))
    }

    /// The names of the levels, the topmost first.
    pub fn level_names(&self) -> impl Iterator<Item = &str> {
        self.level.iter().map(|level| level.name.as_str())
    }

    /// Whether entries have domains.
    pub fn has_domains(&self) -> bool {
        self.level
            .iter()
            .any(|level| level.entry.iter().any(|kind| kind.domain.is_some()))
    }

    /// Whether an entry of the topmost table, for addresses up to `last`, points to a table in one of
    /// these domains, a bit each.
    pub fn has_domain_of<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        context: &Context,
        last: u64,
        domains: u16,
    ) -> bool {
        let (start, _) = self.start(context);
        let level = &self.level[start];
        let table = context.root & self.root_address.mask();
        (0..=level.index.value(last)).any(|index| {
            let Some(value) = self.read(memory, table + index * self.entry_bytes) else {
                return false;
            };
            let kind = level.entry.iter().find(|kind| kind.when.holds(value));
            let domain = kind.and_then(|kind| kind.domain);
            domain.is_some_and(|field| domains >> (field.value(value) & 15) & 1 != 0)
        })
    }

    /// The topmost level in use, and the highest bit of an address that chooses an entry there.
    fn start(&self, context: &Context) -> (usize, u32) {
        let levels = match usize::from(context.levels) {
            0 => self.default_levels,
            levels => levels.min(self.level.len()),
        };
        let start = self.level.len() - levels;
        (start, self.level[start].index.high)
    }

    /// The entry at a physical address; `None` where the guest has no memory.
    pub fn read<M: GuestMemory + ?Sized>(&self, memory: &M, paddr: u64) -> Option<u64> {
        match self.entry_bytes {
            4 => memory.read_u32(paddr).map(u64::from),
            _ => memory.read_u64(paddr),
        }
    }

    /// The table that the last of these entries of a walk points to, and the rights that are left
    /// there; `None` if it points to none.
    pub fn table(&self, steps: &[Step]) -> Option<(u64, u16)> {
        let mut attr = ALL_RIGHTS;
        let mut table = None;
        for step in steps {
            let entries = &self.level[step.level].entry;
            let kind = entries.iter().find(|kind| kind.when.holds(step.value))?;
            attr = kind.restrict(step.value, attr);
            table = kind.table.map(|field| step.value & field.mask());
        }
        Some((table?, attr))
    }

    /// Whether a TLB takes the right to write from this entry of a page.
    pub fn caches_writes(&self, entry: u64) -> bool {
        agrees(&self.dirty, entry)
    }

    /// Walks the tables in memory as the hardware would, without any cache in between.
    pub fn walk<M: GuestMemory + ?Sized>(&self, memory: &M, context: &Context, vaddr: u64) -> Walk {
        let mut walk = Walk {
            steps: Default::default(),
            count: 0,
            result: Err(Fault::NotPresent),
        };
        let (start, top) = self.start(context);
        let root = match self.roots {
            Roots::One => {
                let above = vaddr as i64 >> top;
                if top < 32 && vaddr >> (top + 1) != 0 || top >= 32 && above != 0 && above != -1 {
                    return walk;
                }
                context.root
            }
            Roots::TopBit => {
                // The top byte may carry a tag; between it and the table's reach all is alike.
                let upper = vaddr >> 55 & 1 == 1;
                let above = (vaddr << 8) as i64 >> (8 + top + 1);
                if above != -i64::from(upper) {
                    return walk;
                }
                if upper {
                    context.root_high
                } else {
                    context.root
                }
            }
            Roots::Split => {
                if vaddr >> (top + 1) != 0 {
                    return walk;
                }
                let split = u32::from(context.split.min(7));
                let low = split == 0 || vaddr >> (top + 1 - split) == 0;
                if low { context.root } else { context.root_high }
            }
        };
        let mut table = root & self.root_address.mask();
        let mut attr = ALL_RIGHTS;
        let mut domain = 0;
        for (depth, level) in self.level.iter().enumerate().skip(start) {
            let paddr = table + level.index.value(vaddr) * self.entry_bytes;
            let Some(value) = self.read(memory, paddr) else {
                return walk;
            };
            walk.steps[walk.count] = Step {
                level: depth,
                paddr,
                value,
            };
            walk.count += 1;
            let outcome = level.outcome(value, &self.sizes);
            attr = attr & outcome.keep | outcome.add;
            if let Some(field) = outcome.domain {
                domain = field.value(value) as u16 & 15;
            }
            match outcome.next {
                Next::Nothing => return walk,
                Next::Table(address) => table = value & address,
                Next::Page { frame, shift } => {
                    // Writing in user mode needs both of its parts, too.
                    if attr & (attr::WRITE | attr::USER) != attr::WRITE | attr::USER {
                        attr &= !attr::USER_WRITE;
                    }
                    // "1MB and 16MB pages are always in domain 0": a section says its own, which is 0
                    // in Linux; a supersection has no such field (ARMv7-A manual, B3.5.1).
                    walk.result = Ok(Translation {
                        frame: value & frame,
                        shift,
                        attr: attr | domain << attr::DOMAIN_SHIFT,
                    });
                    return walk;
                }
            }
        }
        walk
    }
}
