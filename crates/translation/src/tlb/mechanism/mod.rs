// SPDX-License-Identifier: GPL-2.0-or-later
//! What hardware may add to a TLB, one file per mechanism.
//!
//! A mechanism is a table of a description (`[babelfish]`), its counters, and an implementation of
//! [`Mechanism`]: which ways match, under which tag, what a lookup costs in addition, what is
//! dropped and when. To add one, write its file and register it in the list below.
//!
//! A machine asks its mechanisms in the order of the list. All times are in ticks.

use crate::entry::Entry;
use crate::event::{AccessKind, Fault, Identity, Member, Segment};
use crate::format::{Format, Step, Walk};
use crate::memory::GuestMemory;
use crate::replacement::Policy;
use crate::tally::Tally;
use crate::tlb::{Array, Tlb};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

macro_rules! register {
    ($($(#[$in_report:meta])* $key:ident: $file:ident,)+) => {
        $(pub mod $file;)+

        /// The mechanisms that a description asks for: its table of each.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
        pub struct Parts {
            $(#[doc = concat!("`[", stringify!($key), "]`")] pub $key: Option<$file::Part>,)+
        }

        impl Parts {
            const KEYS: &[&str] = &[$(stringify!($key)),+];

            fn named(&self) -> impl Iterator<Item = (&'static str, &dyn Part)> {
                let mut list: Vec<(_, &dyn Part)> = Vec::new();
                $(list.extend(self.$key.as_ref().map(|part| (stringify!($key), part as &dyn Part)));)+
                list.into_iter()
            }
        }

        /// The counters of all mechanisms; those that a machine lacks stay 0.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counts {
            $(#[doc = concat!("`[", stringify!($key), "]`")] $(#[$in_report])* pub $key: $file::Counts,)+
        }

        impl Tally for Counts {
            fn add_since(&mut self, new: &Self, old: &Self) {
                $(self.$key.add_since(&new.$key, &old.$key);)+
            }
        }

        impl Counts {
            /// Name, value and unit of each counter, by mechanism.
            pub fn figures(&self) -> Vec<Vec<Figure>> {
                vec![$(self.$key.figures()),+]
            }
        }
    };
}

// The list: key of the description's table and of the counters, file.
register! {
    babelfish: babelfish,
    #[serde(skip)] // The report has had `domain_faults` at another place since schema version 1.
    domains: domain,
    #[serde(skip_serializing_if = "unused")] group: group,
    #[serde(skip_serializing_if = "unused")] victim: victim,
    #[serde(skip_serializing_if = "unused")] tlb_prefetch: tlb_prefetch,
    #[serde(skip_serializing_if = "unused")] next_line: next_line,
    #[serde(skip_serializing_if = "unused")] unified_walk_cache: unified_walk_cache,
}

/// Whether a mechanism has counted nothing: a machine's report has no counters of those it lacks.
fn unused<T: Default + PartialEq>(counts: &T) -> bool {
    *counts == T::default()
}

/// Name, value and unit of a counter.
pub type Figure = (&'static str, u64, &'static str);

/// The machine that a mechanism is part of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The page tables.
    pub format: &'a Format,
    /// Whether the model numbers address spaces (`tag = "address-space"`).
    pub numbers_spaces: bool,
    /// Levels of TLB.
    pub levels: usize,
    /// Cores; 0 while a description is checked.
    pub cores: usize,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Ticks of a cycle.
    pub ticks_per_cycle: u64,
}

/// A mechanism's table in a description.
pub trait Part: Debug {
    /// Rules beyond the types.
    fn check(&self, machine: &Setup) -> Result<(), String>;

    /// Its times in cycles, by their fields.
    fn times(&self) -> Vec<(&'static str, u64)>;

    /// The mechanism; `None` where the machine's page tables leave it nothing to do.
    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>>;
}

impl Parts {
    /// Takes the mechanisms' tables out of a description.
    pub fn take(description: &mut toml::Table) -> Result<Self, String> {
        let own = |key: &&str| Some((String::from(*key), description.remove(*key)?));
        let own: toml::Table = Self::KEYS.iter().filter_map(own).collect();
        crate::error::typed(own)
    }

    /// Rules beyond the types, of all mechanisms.
    pub fn check(&self, machine: &Setup) -> Result<(), String> {
        self.named().try_for_each(|(_, part)| part.check(machine))
    }

    /// All times in cycles, by their place in the description.
    pub fn times(&self) -> impl Iterator<Item = (String, u64)> {
        self.named().flat_map(|(key, part)| {
            let named = move |(field, time)| (format!("{key}.{field}"), time);
            part.times().into_iter().map(named)
        })
    }

    /// The mechanisms themselves.
    pub fn build(&self, machine: &Setup) -> Vec<Box<dyn Mechanism>> {
        let built = self.named().map(|(_, part)| part.build(machine));
        built.flatten().collect()
    }
}

/// A lookup of one level of TLB, or the check of a page that a walk found.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The core.
    pub core: usize,
    /// The level, 0 for L1.
    pub level: usize,
    /// 0 for fetches, 1 for data.
    pub side: usize,
    /// Whether a walk found the page; `level` means nothing then.
    pub walked: bool,
    /// The address space that runs.
    pub space: u16,
    /// The purpose of the access.
    pub kind: AccessKind,
    /// The address, in the layout of this level.
    pub vaddr: u64,
    /// The address as the process has it.
    pub own: u64,
    /// The core's domain access control register.
    pub dacr: u32,
    /// Whether the access succeeded in the guest.
    pub certain: bool,
    /// The core's tick when the lookup begins.
    pub now: u64,
}

/// An entry whose page and tag match a lookup.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// `entry::attr` bits.
    pub attr: u16,
    /// The address space that brought it in.
    pub owner: u16,
    /// What a mechanism keeps in it.
    pub extra: u32,
    /// The tag that it is held under.
    pub tag: u16,
}

/// What a mechanism says of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It matches; address and rights decide, by the [`Terms`].
    Yes,
    /// It does not match: go on looking.
    No,
    /// It matches, and the hit faults.
    Fault(Fault),
}

/// How a way that matches is taken.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether its rights are checked.
    pub checked: bool,
    /// The fault when its rights do not allow the access.
    pub refusal: Fault,
    /// Whether an entry that contradicts the guest's own translation is another process's: it is
    /// passed over, where otherwise it is stale and dropped.
    pub others: bool,
    /// Whether the kernel promises that it says what the process's own tables say.
    pub promised: bool,
    /// Whether it is compared with the process's own tables, and passed over if they say otherwise.
    pub compared: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            checked: true,
            refusal: Fault::Protection,
            others: false,
            promised: false,
            compared: false,
        }
    }
}

/// The result of a level's lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// Ways that were passed over as another process's.
    pub passed: u64,
    /// The page-size class of the last of them.
    pub class: usize,
}

/// The additions of a mechanism once a level has been searched.
#[derive(Clone, Copy, Debug, Default)]
pub struct After {
    /// Ticks that the access takes: the level's, 0 for L1, unless changed.
    pub access: u64,
    /// Ticks in addition.
    pub time: u64,
    /// Whether the lookup counts as a miss whatever it found.
    pub miss: bool,
    /// Entries to drop.
    pub drop: Option<Drop>,
}

/// The additions of a mechanism to a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walked {
    /// Attribute bits that the entry gets.
    pub attr: u16,
    /// Bits that the mechanism keeps in the entry.
    pub extra: u32,
    /// A physical address that is read in parallel with the last entry of the tables.
    pub read: Option<u64>,
    /// Entries to drop before the walk goes on.
    pub drop: Option<Drop>,
    /// What the kernel promises of such an entry is not so.
    pub wrong: bool,
}

/// How a level holds the entries of an address space that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The tag, in place of the address space's own.
    pub tag: u16,
    /// An entry with this attribute bit is its owner's alone.
    pub owned: u16,
    /// Whether owned entries keep the address space's tag. 0 is then no tag of shared ones.
    pub apart: bool,
}

/// TLB entries to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// Whatever maps the address on this core, and the walk caches.
    Address {
        /// The address.
        vaddr: u64,
    },
    /// Entries under a tag, but for global ones.
    Tagged {
        /// On every core, or on that of the event.
        all_cores: bool,
        /// In this level and all behind it; 0 is L1.
        from_level: usize,
        /// The tag.
        tag: u16,
        /// An address in the page or range.
        vaddr: u64,
        /// The range's size as a power of two; `None` for the page that holds the address.
        range: Option<u32>,
        /// Entries with one of these attribute bits stay.
        without: u16,
    },
}

/// What a switch to a process outside a group costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Entries with one of these attribute bits are dropped; 0 drops everything, walk caches too.
    pub drops: Option<u16>,
    /// Ticks that the switch takes in addition.
    pub time: u64,
}

/// A walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkOf {
    /// The core.
    pub core: usize,
    /// The address space that runs.
    pub space: u16,
    /// The address, in the layout of the page tables.
    pub vaddr: u64,
}

/// An event of an address space, by its number.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// It belongs to this process from now on.
    Identity(u16, Identity),
    /// It is gone, or its number is given to another.
    Gone(u16),
    /// Its layout differs from its cohort's in these segments.
    Segments(u16, &'a [Segment]),
    /// The kernel gave it a copy of its own of the page at an address, of this page-size class.
    PrivateCopy(u16, u64, usize),
    /// A fault on its store to an address is over; what its tables say there now.
    Wrote(u16, u64, &'a Walk),
    /// A core drops a page's entries that a cohort shares: address and cohort.
    SharedPage(u64, u32),
    /// A core runs this process from now on.
    Runs(usize, &'a Member),
    /// A core drops entries that processes of a CCID share: of two to that power bytes from an
    /// address on.
    Shared(u16, u64, u32),
}

/// A mechanism of a machine, the state of all its cores included.
pub trait Mechanism: Debug + CloneBox + Send + Sync {
    /// Whether [`Self::judge`] decides in lookups of this level. An L1 that no mechanism judges
    /// takes the machine's fast path.
    fn judges(&self, level: usize) -> bool;

    /// The attribute bits of entries that it judges; an entry of the first level with none of them
    /// takes the machine's fast path.
    fn judged_bits(&self) -> u16 {
        u16::MAX
    }

    /// Whether and how a level shares the entries of an address space with others.
    fn sharing(&self, _core: usize, _level: usize, _space: u16) -> Option<Sharing> {
        None
    }

    /// Whether the kernel says who shares what: the source's [`crate::Sink::set_member`] and what
    /// comes with it count, and page tables are in the layout of their process, not of its cohort.
    fn exact(&self) -> bool {
        false
    }

    /// What the kernel promises was found not to be so, on a core. Returns the CCID and the number
    /// of the process that runs there.
    fn violated(&mut self, _core: usize, _: &mut Counts) -> Option<(u16, u32)> {
        None
    }

    /// A process met what is shared where it has nothing at all.
    fn strayed(&mut self, _: &mut Counts) {}

    /// Whether it must know what the guest's own tables say, even if the source does not.
    fn infers(&self) -> bool {
        false
    }

    /// Decides about a way whose tag matches, or a page that a walk found.
    fn judge(
        &mut self,
        _: &Lookup,
        _: &Way,
        _: &mut Terms,
        _: &dyn GuestMemory,
        _: &mut Counts,
    ) -> Match {
        Match::Yes
    }

    /// A level that it judges has been searched.
    fn looked(&mut self, _: &Lookup, _: Looked, _: &mut After, _: &mut Counts) {}

    /// A level that it judges has hit this way.
    fn hit(&mut self, _: &Lookup, _: &Way, _: &mut Counts) {}

    /// A core runs this process from now on.
    fn turned(&mut self, _core: usize, _to: Identity, _: &mut Counts) -> Option<Leave> {
        None
    }

    /// As many entries were dropped as [`Self::turned`] asked for.
    fn left(&mut self, _dropped: u64, _: &mut Counts) {}

    /// The address by which everything behind L1 knows a page, and the ticks that finding it takes.
    fn relocate(&self, _core: usize, _space: u16, _vaddr: u64) -> Option<(u64, u64)> {
        None
    }

    /// A walk for a page that is not global has ended. The address is in the layout of what is
    /// behind L1.
    fn walked(
        &mut self,
        _core: usize,
        _space: u16,
        _vaddr: u64,
        _: &Walk,
        _: &dyn GuestMemory,
        _: &mut Counts,
    ) -> Walked {
        Walked::default()
    }

    /// A level takes a piece of a page that is too large for it.
    fn split(&self, _level: usize, _piece: &mut Entry) {}

    /// Something happened to an address space.
    fn event(&mut self, _: Event, _: &mut Counts) -> Option<Drop> {
        None
    }

    /// The last level of a core gave an entry up, held under this tag, to make room.
    fn evicted(&mut self, _core: usize, _side: usize, _: &Entry, _tag: u16) {}

    /// The last level missed. An entry that is given back is put into it under the tag, at the
    /// price of so many ticks, and the level is searched again.
    fn missed(&mut self, _: &Lookup, _tag: u16, _: &mut Counts) -> Option<(Entry, u64)> {
        None
    }

    /// The last level missed, and the page of this size was found: an address whose page is walked
    /// for ahead of its use. It takes a walker and reads the caches, and nothing waits for it.
    fn ahead(&mut self, _: &Lookup, _shift: u32) -> Option<u64> {
        None
    }

    /// A walk ahead has found this entry, to be held under the tag; it is there at that tick.
    fn fetched(&mut self, _core: usize, _: &Entry, _tag: u16, _ready: u64, _: &mut Counts) {}

    /// A program's access has missed its L1 cache: another line that is brought in with it, as if
    /// it were there at once.
    fn line_missed(
        &mut self,
        _core: usize,
        _: AccessKind,
        _line: u64,
        _: &mut Counts,
    ) -> Option<u64> {
        None
    }

    /// A walk begins, with these entries from the root on, the last of them the leaf: the number of
    /// entries that need not be read, and the ticks that finding this out takes.
    fn walk_from(&mut self, _: &WalkOf, _steps: &[Step], _: &mut Counts) -> Option<(usize, u64)> {
        None
    }

    /// A walk has read an entry that points to a table.
    fn walk_read(&mut self, _: &WalkOf, _: &Step) {}

    /// A core drops entries from its last level: of one page, or any, if `which` says yes of entry
    /// and tag. Returns how many of the mechanism's own went.
    fn dropped(
        &mut self,
        _core: usize,
        _page: Option<u64>,
        _which: &mut dyn FnMut(&Entry, u16) -> bool,
    ) -> u64 {
        0
    }
}

/// `Clone` for a mechanism in a box.
pub trait CloneBox {
    /// A copy.
    fn clone_box(&self) -> Box<dyn Mechanism>;
}

impl<T: Mechanism + Clone + 'static> CloneBox for T {
    fn clone_box(&self) -> Box<dyn Mechanism> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Mechanism> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// A few fully associative entries per core beside its last level. What the level does not find may be
/// taken from here; tags and rights stay the level's business, as it searches again for what it gets.
#[derive(Clone, Debug)]
struct Beside {
    /// By core.
    held: Vec<Tlb>,
    /// Ticks of an access, beyond the last level's.
    time: u64,
}

impl Beside {
    /// The rule for the field `entries` of the table `key`.
    fn check(key: &str, entries: usize) -> Result<(), String> {
        match entries {
            1..=1024 => Ok(()),
            _ => Err(format!("{key}.entries must be 1 to 1024")),
        }
    }

    fn new(entries: usize, cycles: u64, policy: Policy, machine: &Setup) -> Self {
        let array = Array {
            sizes: machine.format.sizes().to_vec(),
            entries,
            ways: entries,
            policy,
        };
        Self {
            held: vec![Tlb::new(&[array]); machine.cores],
            time: cycles * machine.ticks_per_cycle,
        }
    }

    /// Takes the entry for an address out, with the slot that it was in.
    fn take(&mut self, of: &Lookup, tag: u16) -> Option<(Entry, usize)> {
        let held = &mut self.held[of.core];
        let slot = held.find(of.vaddr, Tlb::probe(of.vaddr, tag), |_, _| true)?;
        let entry = held.entry(slot)?;
        held.remove(slot);
        Some((entry, slot))
    }

    /// As [`Mechanism::dropped`].
    fn dropped(
        &mut self,
        core: usize,
        page: Option<u64>,
        which: &mut dyn FnMut(&Entry, u16) -> bool,
    ) -> u64 {
        match page {
            Some(vaddr) => self.held[core].remove_page(vaddr, which),
            None => self.held[core].remove_if(which),
        }
    }
}

/// A small guest for the tests of mechanisms: 128 pages of 4 KB, without a walk cache.
#[cfg(test)]
mod testing {
    use crate::{AccessKind, Context, Machine, Model, Sink, SparseMemory};

    const ROOT: u64 = 0x1000;

    /// What a test's guest does.
    pub trait Guest {
        /// Reads the first word of a page, by its number.
        fn read(&mut self, page: u64);
        /// Reads the word at an address.
        fn read_at(&mut self, vaddr: u64);
    }

    impl Guest for Machine<SparseMemory> {
        fn read(&mut self, page: u64) {
            self.read_at(page << 12);
        }

        fn read_at(&mut self, vaddr: u64) {
            self.instructions(0, 1);
            self.access(0, AccessKind::Read, vaddr, None, 8);
        }
    }

    /// `baseline` with the mechanism of this table.
    pub fn machine(table: &str) -> Machine<SparseMemory> {
        let text = format!(
            "name = \"test\"\nabout = \"\"\nbase = \"baseline\"\nwithout = [\"walk_cache\"]\n\
             sources = \"assumed: a test\"\n{table}"
        );
        let mut memory = SparseMemory::new();
        for level in 0..3 {
            memory.write_u64(ROOT + level * 0x1000, (ROOT + (level + 1) * 0x1000) | 7);
        }
        for page in 0..128 {
            memory.write_u64(ROOT + 0x3000 + page * 8, (0x10_0000 + page * 0x1000) | 7);
        }
        let model = Model::parse("test", &text).unwrap();
        let mut machine = Machine::new(&model, 1, memory).unwrap();
        let context = Context {
            paging: true,
            root: ROOT,
            ..Context::default()
        };
        machine.set_context(0, context);
        machine
    }
}
