// SPDX-License-Identifier: GPL-2.0-or-later
//! The flush audit: does a TLB entry outlive the page-table entry that it was read from?
//!
//! The TLBs here are those of the worst processor that the manuals allow: they have no size, so an
//! entry stays until an instruction or a page fault drops it. Entries of the upper levels, which
//! point to tables, stay just as long (paging-structure caches). A processor of any size holds a
//! part of this.
//!
//! No entry can become wrong unless a word that it was read from is written. So the audit watches
//! stores to the tables, and compares the entries that were read from a word that has changed, not
//! all entries. [`Audit::sweep`] compares all of them, which tests the audit itself.
//!
//! An entry is wrong if it gives another page than the tables, or more rights. Fewer rights cost a
//! fault and nothing else. Only entries of user pages are kept.
//!
//! A global entry serves whoever runs, unless its domain is closed to them. It was read from the
//! tables of one address space and is used by others, whose tables may have nothing at the address
//! yet. So it is wrong for who runs if their tables have another page there, or have lost what they
//! had; if no tables have it any more; if they are not of the group that it is for; or if a TLB holds
//! an entry of their own for the address beside it.
//!
//! Where the architecture allows one size of page for an address, an entry that is taken in beside an
//! older one of another size is a mistake even if both give the same page. Several words may describe
//! a page (ARM's contiguous entries and large pages): a processor has an entry for all of it, or for
//! the part that was used. So an entry is kept by parts, and stands for the whole page until a part of
//! it is flushed.
//!
//! The caller decides when to compare ([`Audit::judge`]): a kernel may be late as long as it has
//! not finished what it does.

use crate::entry::attr;
use crate::event::{AccessKind, Context, Fault};
use crate::format::{Format, Step, Translation, Walk};
use crate::memory::GuestMemory;
use crate::tlbi::{Drop, Tables};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Pages of a core that are remembered in front of its TLB.
const RECENT: usize = 1024;
/// [`Key::what`] of an entry that points to a table: this and the power of two that it covers.
const TABLE: u8 = 64;
/// Changes of an entry that are kept.
const CHANGES: usize = 8;
/// Rights that a processor grants; [`attr::NO_EXECUTE`] takes one away.
const GRANTS: u16 = attr::WRITE | attr::USER | attr::USER_WRITE;
/// The domain in an entry's bits.
const DOMAIN: u16 = 15 << attr::DOMAIN_SHIFT;
/// [`Key::tag`] of entries that are for every tag.
const GLOBAL: u32 = 1 << 16;

/// An instruction drops this entry.
fn takes(what: &Drop, key: &Key) -> bool {
    let tag = match key.tag {
        GLOBAL => what.global,
        own => what.tag.is_none_or(|tag| u32::from(tag) == own),
    };
    let meets = || what.meets(key.vaddr, key.shift());
    tag && match (key.is_table(), what.tables) {
        (true, Tables::All) => true,
        (true, Tables::Kept) => false,
        (true, Tables::Above) => meets() && what.is_below(key.shift()),
        (false, _) => meets() && what.is_of_size(key.shift()),
    }
}

/// What a kernel does with its tables that no manual says.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// What an entry would be if the kernel had not made it absent to see its next use. A TLB may
    /// keep it then. None if it is absent for another reason.
    pub young: fn(&dyn GuestMemory, &Step) -> Option<u64>,
    /// Domains, a bit each: who has a table in one of these is of the group that global entries are
    /// for. None: they are for everybody.
    pub group: u16,
    /// The last address that tables of a user are at.
    pub last: u64,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            young: |_, _| None,
            group: 0,
            last: u64::MAX,
        }
    }
}

/// An entry's name in a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tag: u32,
    /// A page's size as a power of two, or [`TABLE`] and the power of two that an entry covers.
    what: u8,
    vaddr: u64,
}

impl Key {
    fn shift(&self) -> u32 {
        u32::from(self.what % TABLE)
    }

    /// Its last address.
    fn last(&self) -> u64 {
        self.vaddr | ((1 << self.shift()) - 1)
    }

    /// A global entry of a page.
    fn is_global(&self) -> bool {
        self.tag == GLOBAL
    }

    fn is_table(&self) -> bool {
        self.what >= TABLE
    }

    /// The page of that size around it.
    fn around(&self, shift: u32) -> Self {
        Self {
            what: shift as u8,
            vaddr: floor(self.vaddr, shift),
            ..*self
        }
    }

    /// Both answer for some address.
    fn meets(&self, other: &Self) -> bool {
        self.vaddr <= other.last() && other.vaddr <= self.last()
    }
}

/// Tables that gave an entry.
#[derive(Clone, Debug)]
struct Source {
    /// The root, and the tag that it had.
    root: u64,
    tag: u16,
    /// The words on the way, and the others that describe the page.
    walk: Walk,
    steps: usize,
    run: Vec<Step>,
}

impl Source {
    fn steps(&self) -> &[Step] {
        &self.walk.steps()[..self.steps]
    }

    fn words(&self) -> impl Iterator<Item = &Step> {
        self.steps().iter().chain(&self.run)
    }
}

/// An entry of a TLB, or of the caches of upper levels.
#[derive(Clone, Debug)]
struct Held<C> {
    /// Address of the page, or of the table.
    frame: u64,
    /// Rights and domain.
    attr: u16,
    /// The tables that it was read from; of a global entry also those of others that used it.
    sources: Vec<Source>,
    /// The size of the page that it is a part of; its own if it is all of it. None: since a flush of
    /// another part it stands for itself. Of no use for tables.
    whole: Option<u32>,
    /// The changes of such a word, as [`mark`] keeps them.
    changed: Vec<C>,
    /// Those before, after which it was found to be right.
    before: Vec<C>,
    /// To be compared though no change was seen: somebody has met it whose tables did not give it.
    met: bool,
}

impl<C> Held<C> {
    fn is_from(&self, context: &Context) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| (source.root, source.tag) == (context.root, context.asid))
    }

    /// The word at this address that it was read from.
    fn step(&self, paddr: u64) -> Option<&Step> {
        let mut words = self.sources.iter().flat_map(Source::words);
        words.find(|step| step.paddr == paddr)
    }

    /// What it stands for: itself, or the page that it is a part of.
    fn reach(&self, key: &Key) -> Key {
        match self.whole {
            Some(shift) if shift > key.shift() => key.around(shift),
            _ => *key,
        }
    }

    /// It stands for itself from now on.
    fn cut(&mut self) {
        self.whole = None;
        for source in &mut self.sources {
            source.run.clear();
        }
    }
}

/// A page that a core used a short time ago.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    page: u64,
    frame: u64,
    attr: u16,
    /// The bits of its domain in the register of domains; 0 if there are none.
    domain: u32,
    /// [`Core::era`] when it was used.
    era: u64,
}

/// What a core has for an address.
#[derive(Debug, Default)]
struct Met {
    /// An entry that allows the access.
    hit: Option<(Key, Recent)>,
    /// One that does not, and its rights.
    refused: Option<(Key, u16)>,
    /// Those whose domain is closed.
    closed: Vec<Key>,
}

#[derive(Clone, Debug)]
struct Core<C> {
    context: Context,
    entries: BTreeMap<Key, Held<C>>,
    /// Tags and [`Key::what`] of entries that there are or were, and the size of the largest page that
    /// one is a part of.
    kinds: BTreeMap<(u32, u8), u32>,
    /// Entries of which a word has changed; some of them may be gone.
    suspects: BTreeSet<Key>,
    /// Entries of a tag and global ones for the same address.
    twins: BTreeSet<(Key, Key)>,
    /// The change of root or tag since the entries were last compared.
    switched: Option<C>,
    recent: Vec<Recent>,
    /// Grows whenever something is dropped.
    era: u64,
}

/// How an entry is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// The tables have no page there.
    Gone,
    /// They have another page, or another table.
    Other,
    /// They allow less.
    Rights,
    /// It is global and of a group that the tables are not of.
    Foreign,
    /// There is a global entry beside it.
    Twin,
    /// There is one of another size beside it.
    Size,
}

/// An entry that a flush should have dropped. `C` describes a change of the tables.
#[derive(Clone, Debug)]
pub struct Missing<C> {
    /// The core that holds it.
    pub core: usize,
    /// Its first virtual address.
    pub vaddr: u64,
    /// What it covers, as a power of two.
    pub shift: u32,
    /// The page, or the table.
    pub frame: u64,
    /// Its rights, `entry::attr` bits.
    pub attr: u16,
    /// It points to a table.
    pub table: bool,
    /// It is global.
    pub global: bool,
    /// The root that it was read from.
    pub root: u64,
    /// The root that the core has now.
    pub now_root: u64,
    /// What the tables give now where they differ; of [`Wrong::Twin`] and [`Wrong::Size`] the entry
    /// beside it.
    pub now: Option<Translation>,
    /// The first virtual address of the entry beside it.
    pub beside: Option<u64>,
    /// How they differ.
    pub wrong: Wrong,
    /// The changes since it was read: the first and the last ones. Empty if no store was seen.
    pub changed: Vec<C>,
}

/// What an access has shown at once.
#[derive(Clone, Debug)]
pub enum Noted<C> {
    /// A processor would have faulted, since its entry has fewer rights than the tables: the last change
    /// of these that was seen.
    Spurious(Option<C>),
    /// An entry is beside one of another size.
    Size(Missing<C>),
}

/// Rights in words; bits as in [`Missing::attr`].
pub fn rights(bits: u16) -> String {
    let mut words = vec!["read"];
    if bits & (attr::WRITE | attr::USER_WRITE) != 0 {
        words.push("write");
    }
    if bits & attr::NO_EXECUTE == 0 {
        words.push("execute");
    }
    if bits & attr::USER == 0 {
        words.push("kernel only");
    }
    words.join(", ")
}

/// What an audit has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that entries were compared.
    pub audits: u64,
    /// Entries compared.
    pub compared: u64,
    /// Entries that TLBs were filled with.
    pub filled: u64,
    /// Words of tables that were changed below entries of a TLB.
    pub changes: u64,
    /// Accesses for which an entry had fewer rights than the tables: a processor would fault once.
    pub spurious: u64,
    /// Accesses for which the guest used another page than the entry: a processor would have used
    /// the old one.
    pub diverged: u64,
    /// Accesses that the tables do not explain, since the emulator itself used an old entry.
    pub unexplained: u64,
    /// Global entries that TLBs were filled with.
    pub global: u64,
    /// Accesses that met an entry whose domain was closed: a processor would fault, and the kernel
    /// would drop the entry.
    pub domain_faults: u64,
}

/// Virtual addresses that a page of tables translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    /// The address of its first word.
    from: u64,
    level: usize,
}

/// TLBs without a size, and what became of the tables that they were filled from.
#[derive(Clone, Debug)]
pub struct Audit<M, C> {
    format: Format,
    habits: Habits,
    /// The format has domains.
    domains: bool,
    memory: M,
    cores: Vec<Core<C>>,
    /// By page of physical memory: what it translates, if it has been a table.
    tables: BTreeMap<u64, Vec<Reach>>,
    /// A bit for each page of physical memory: it is in `tables`.
    marked: Vec<u64>,
    counts: Counts,
    noted: Vec<Noted<C>>,
}

impl<M: GuestMemory, C: Clone> Audit<M, C> {
    /// Empty TLBs of so many cores.
    pub fn new(format: Format, habits: Habits, cores: usize, memory: M) -> Self {
        let core = Core {
            context: Context::default(),
            entries: BTreeMap::new(),
            kinds: BTreeMap::new(),
            suspects: BTreeSet::new(),
            twins: BTreeSet::new(),
            switched: None,
            recent: vec![Recent::default(); RECENT],
            era: 1,
        };
        Self {
            domains: format.has_domains(),
            format,
            habits,
            memory,
            cores: vec![core; cores],
            tables: BTreeMap::new(),
            marked: Vec::new(),
            counts: Counts::default(),
            noted: Vec::new(),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// `core` translates by `context` from now on; `Context::asid` is the tag of its entries.
    /// Nothing is dropped: entries of the tag that another root brought in are usable, and so are
    /// global ones. They are compared at the next [`Audit::judge`], when a root that the kernel sets
    /// only on its way is gone. `change` describes that.
    pub fn context(&mut self, core: usize, context: Context, change: impl FnOnce() -> C) {
        let this = &mut self.cores[core];
        let old = std::mem::replace(&mut this.context, context);
        if (old.root, old.asid) != (context.root, context.asid) {
            this.era += 1;
            this.switched = Some(change());
        } else if old.dacr != context.dacr && this.switched.is_none() {
            // Global entries may be open now that were closed.
            let opened = context.dacr & !old.dacr;
            let last = this.kinds.last_key_value();
            if opened != 0 && last.is_some_and(|(&(tag, _), _)| tag == GLOBAL) {
                this.switched = Some(change());
            }
        }
    }

    /// An access that succeeded in the guest, and the physical address that it used, if known. True if
    /// there is something for [`Audit::noted`].
    #[inline(always)]
    pub fn access(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
    ) -> bool {
        let this = &self.cores[core];
        let page = vaddr >> 12;
        let recent = this.recent[page as usize % RECENT];
        let same = recent.page == page && recent.era == this.era;
        if same
            && allows(recent.attr, kind)
            && (recent.domain == 0 || this.context.dacr & recent.domain != 0)
            && paddr.is_none_or(|paddr| paddr >> 12 == recent.frame)
        {
            return false;
        }
        self.look(core, kind, vaddr, paddr);
        !self.noted.is_empty()
    }

    /// What accesses have shown since the last call.
    pub fn noted(&mut self) -> Vec<Noted<C>> {
        std::mem::take(&mut self.noted)
    }

    /// The bits of an entry's domain in the register of domains; 0 if there are none.
    fn domain(&self, attr: u16) -> u32 {
        match self.domains {
            true => 3 << (2 * (attr >> attr::DOMAIN_SHIFT & 15)),
            false => 0,
        }
    }

    /// The domain of an entry is open to who runs.
    fn is_open(&self, context: &Context, attr: u16) -> bool {
        let domain = self.domain(attr);
        domain == 0 || context.dacr & domain != 0
    }

    #[inline(never)]
    fn look(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let context = self.cores[core].context;
        if !context.paging {
            return;
        }
        let met = self.find(core, kind, vaddr);
        if let Some((key, recent)) = met.hit {
            let held = &self.cores[core].entries[&key];
            let known = !key.is_global() || held.is_from(&context);
            let found = recent.frame << 12 | vaddr & 0xfff;
            if paddr.is_some_and(|paddr| paddr != found) {
                self.counts.diverged += 1;
                if !known {
                    self.meet(core, &key);
                }
                return;
            }
            if !known {
                self.join(core, &key, vaddr);
            }
            self.cores[core].recent[(vaddr >> 12) as usize % RECENT] = recent;
            return;
        }
        // A processor faults, and the kernel drops what it met.
        for key in met.closed {
            self.counts.domain_faults += 1;
            self.forget(core, &key);
        }
        let walk = self.format.walk(&self.memory, &context, vaddr);
        let explained = walk.result.ok().filter(|page| {
            let found = page.frame | vaddr & ((1 << page.shift) - 1);
            paddr.is_none_or(|paddr| paddr == found)
        });
        let Some(page) = explained else {
            self.counts.unexplained += 1;
            return;
        };
        if page.attr & attr::USER == 0 {
            return;
        }
        if let Some((key, had)) = met.refused {
            // The right to write that comes with the first write is no fault.
            let first_write = kind == AccessKind::Write && had & attr::USER != 0;
            let held = &self.cores[core].entries[&key];
            let leaf = held.sources[0].steps().last();
            let clean = leaf.is_some_and(|leaf| !self.format.caches_writes(leaf.value));
            if !(first_write && clean) {
                self.counts.spurious += 1;
                let change = held.changed.last().or(held.before.last());
                self.noted.push(Noted::Spurious(change.cloned()));
            }
        }
        self.fill(core, vaddr, &walk, page, met.refused.map(|(key, _)| key));
    }

    /// The entries of a core for an address.
    fn find(&self, core: usize, kind: AccessKind, vaddr: u64) -> Met {
        let this = &self.cores[core];
        let mut met = Met::default();
        let tags = [u32::from(this.context.asid), GLOBAL];
        let sizes = self.format.sizes().iter();
        for (&shift, tag) in sizes.flat_map(|shift| tags.map(|tag| (shift, tag))) {
            let key = Key {
                tag,
                what: shift as u8,
                vaddr: floor(vaddr, shift),
            };
            let Some(held) = this.entries.get(&key) else {
                continue;
            };
            if !self.is_open(&this.context, held.attr) {
                met.closed.push(key);
            } else if !allows(held.attr, kind) {
                met.refused = Some((key, held.attr));
            } else {
                let recent = Recent {
                    page: vaddr >> 12,
                    frame: (held.frame | vaddr & ((1 << shift) - 1)) >> 12,
                    attr: held.attr,
                    domain: self.domain(held.attr),
                    era: this.era,
                };
                met.hit = Some((key, recent));
                break;
            }
        }
        met
    }

    /// Who runs has met a global entry that is not what their tables give.
    fn meet(&mut self, core: usize, key: &Key) {
        let this = &mut self.cores[core];
        if let Some(held) = this.entries.get_mut(key) {
            held.met = true;
            this.suspects.insert(*key);
        }
    }

    /// Who runs uses a global entry that others have brought in.
    fn join(&mut self, core: usize, key: &Key, vaddr: u64) {
        let context = self.cores[core].context;
        let walk = self.format.walk(&self.memory, &context, vaddr);
        let Some(held) = self.cores[core].entries.get_mut(key) else {
            return;
        };
        let run = match (held.whole, walk.result) {
            (Some(_), Ok(page)) => run(&self.format, &self.memory, &walk, &page),
            _ => Vec::new(),
        };
        held.sources.push(Source {
            root: context.root,
            tag: context.asid,
            steps: walk.steps().len(),
            walk,
            run,
        });
        self.know(vaddr, &walk);
        // Their tables may give another page at another place of a large one, or fewer rights.
        if walk.result.is_err() || self.compare(core, key, &OnceCell::new()).is_some() {
            self.meet(core, key);
        }
    }

    /// Takes a page into the TLB, and the entries on the way to it. `refused` is an entry that did not
    /// allow this use.
    fn fill(
        &mut self,
        core: usize,
        vaddr: u64,
        walk: &Walk,
        page: Translation,
        refused: Option<Key>,
    ) {
        let domain = self.domain(page.attr);
        let context = self.cores[core].context;
        let (tag, root) = (u32::from(context.asid), context.root);
        let steps = walk.steps();
        let Some(leaf) = steps.last() else {
            return;
        };
        let Translation { frame, shift, .. } = self.part(vaddr, leaf, page);
        let source = Source {
            root,
            tag: context.asid,
            walk: *walk,
            steps: steps.len(),
            run: Vec::new(),
        };
        let mut held = Held {
            frame,
            attr: page.attr & (GRANTS | attr::NO_EXECUTE | DOMAIN),
            sources: vec![Source {
                run: run(&self.format, &self.memory, walk, &page),
                ..source.clone()
            }],
            whole: Some(page.shift),
            changed: Vec::new(),
            before: Vec::new(),
            met: false,
        };
        if !self.format.caches_writes(leaf.value) {
            held.attr &= !(attr::WRITE | attr::USER_WRITE);
        }
        let global = page.attr & attr::GLOBAL != 0;
        let key = Key {
            tag: if global { GLOBAL } else { tag },
            what: shift as u8,
            vaddr: floor(vaddr, shift),
        };
        // The kernel writes the words of a page one after the other: until they agree, no entry is for
        // all of them.
        if page.shift > shift && self.compare_page(&context, &key, &held).is_some() {
            held.cut();
        }
        self.find_sizes(core, &key, &held);
        // A global entry stays beside one that is not: a fault does not drop it.
        if let Some(refused) = refused.filter(|refused| !refused.is_global() || global) {
            self.cores[core].entries.remove(&refused);
        }
        let this = &mut self.cores[core];
        for count in 1..steps.len() {
            let shift = self.format.level_shift(steps[count - 1].level);
            let key = Key {
                tag,
                what: TABLE + shift as u8,
                vaddr: floor(vaddr, shift),
            };
            if let Some((frame, attr)) = self.format.table(&steps[..count]) {
                this.kinds.insert((tag, key.what), shift);
                this.entries.entry(key).or_insert_with(|| Held {
                    frame,
                    attr,
                    sources: vec![Source {
                        steps: count,
                        ..source.clone()
                    }],
                    whole: None,
                    changed: Vec::new(),
                    before: Vec::new(),
                    met: false,
                });
            }
        }
        this.recent[(vaddr >> 12) as usize % RECENT] = Recent {
            page: vaddr >> 12,
            frame: (held.frame | vaddr & ((1 << shift) - 1)) >> 12,
            attr: held.attr,
            domain,
            era: this.era,
        };
        let widest = this.kinds.entry((key.tag, key.what)).or_default();
        *widest = page.shift.max(*widest);
        this.entries.insert(key, held);
        this.find_twins(key);
        self.counts.filled += 1;
        self.counts.global += u64::from(global);
        self.know(vaddr, walk);
    }

    /// Of a page that several words describe, the part that this one does.
    fn part(&self, vaddr: u64, leaf: &Step, page: Translation) -> Translation {
        let shift = page.shift.min(self.format.level_shift(leaf.level));
        Translation {
            frame: page.frame | floor(vaddr & ((1 << page.shift) - 1), shift),
            shift,
            ..page
        }
    }

    /// Notes older entries that answer for an address of `new` with another size, if there must be
    /// none, and drops them: they are noted once.
    fn find_sizes(&mut self, core: usize, key: &Key, new: &Held<C>) {
        if !self.format.has_one_size() {
            return;
        }
        let reach = new.reach(key);
        let this = &self.cores[core];
        let mut found: Vec<Key> = Vec::new();
        let pages = (key.tag, 0)..(key.tag, TABLE);
        for (&(tag, what), &widest) in this.kinds.range(pages) {
            let at = |vaddr| Key { tag, what, vaddr };
            let near = this
                .entries
                .range(at(floor(reach.vaddr, widest))..=at(reach.last()));
            let differs = near.filter(|(old, held)| {
                // A processor that has an entry for each part of one page has them for the other, too.
                let (ours, theirs) = match (new.whole, held.whole) {
                    (Some(_), Some(_)) => (reach, held.reach(old)),
                    _ => (*key, **old),
                };
                ours.what != theirs.what && ours.meets(&theirs)
            });
            found.extend(differs.map(|(old, _)| *old));
        }
        if let Some(first) = found.first() {
            let held = &this.entries[first];
            let beside = Translation {
                frame: new.frame - (key.vaddr - reach.vaddr),
                shift: reach.shift(),
                attr: new.attr,
            };
            let missing = self.missing(core, first, held, (Wrong::Size, Some(beside)));
            self.noted.push(Noted::Size(Missing {
                beside: Some(reach.vaddr),
                changed: [&held.before[..], &held.changed].concat(),
                ..missing
            }));
        }
        for old in found {
            self.forget(core, &old);
        }
    }

    /// The pages of tables that a walk has read translate addresses.
    fn know(&mut self, vaddr: u64, walk: &Walk) {
        for step in walk.steps() {
            let shift = self.format.level_shift(step.level);
            let index = (step.paddr & 0xfff) / self.format.entry_bytes;
            let reach = Reach {
                from: floor(vaddr, shift).wrapping_sub(index << shift),
                level: step.level,
            };
            let frame = step.paddr >> 12;
            let reaches = self.tables.entry(frame).or_default();
            if !reaches.contains(&reach) {
                reaches.push(reach);
                let word = frame as usize / 64;
                if self.marked.len() <= word {
                    self.marked.resize(word + 1, 0);
                }
                self.marked[word] |= 1 << (frame % 64);
            }
        }
    }

    /// A store of any core, which memory holds now. `change` describes it; it is called at most
    /// once, and only if the store changed what an entry was read from.
    #[inline(always)]
    pub fn stored(&mut self, paddr: u64, size: u64, change: impl FnOnce() -> C) {
        let frame = paddr >> 12;
        let word = self.marked.get(frame as usize / 64);
        if word.is_some_and(|word| word >> (frame % 64) & 1 != 0) {
            self.table_stored(paddr, size, change);
        }
    }

    #[inline(never)]
    fn table_stored(&mut self, paddr: u64, size: u64, change: impl FnOnce() -> C) {
        let bytes = self.format.entry_bytes;
        let mut change = Some(change);
        let mut made: Option<C> = None;
        let mut at = paddr & !(bytes - 1);
        while at < paddr + size.max(1) && at >> 12 == paddr >> 12 {
            let value = self.format.read(&self.memory, at);
            for reach in &self.tables[&(paddr >> 12)] {
                let shift = self.format.level_shift(reach.level);
                let first = reach.from.wrapping_add(((at & 0xfff) / bytes) << shift);
                let last = first.wrapping_add((1 << shift) - 1);
                for core in &mut self.cores {
                    for (&(tag, what), &widest) in &core.kinds {
                        let key = |vaddr| Key { tag, what, vaddr };
                        let range = key(floor(first, widest))..=key(last);
                        for (key, held) in core.entries.range_mut(range) {
                            let Some(step) = held.step(at) else {
                                continue;
                            };
                            if Some(step.value) == value && held.changed.is_empty() {
                                continue;
                            }
                            if let Some(make) = change.take() {
                                self.counts.changes += 1;
                                made = Some(make());
                            }
                            if let Some(change) = &made {
                                mark(held, change);
                                core.suspects.insert(*key);
                            }
                        }
                    }
                }
            }
            at += bytes;
        }
    }

    /// `core` drops entries.
    pub fn invalidate(&mut self, core: usize, what: Drop) {
        let this = &mut self.cores[core];
        this.era += 1;
        this.entries.retain(|key, held| {
            let taken = takes(&what, key);
            if !taken && held.reach(key) != *key && takes(&what, &held.reach(key)) {
                held.cut();
            }
            !taken
        });
        if this.entries.is_empty() {
            this.kinds.clear();
        }
        let Core {
            entries,
            suspects,
            twins,
            ..
        } = this;
        suspects.retain(|key| entries.contains_key(key));
        twins.retain(|(own, global)| entries.contains_key(own) && entries.contains_key(global));
    }

    /// `core` takes a page fault, which drops what it has for the address (SDM volume 3, 4.10.4.1).
    pub fn fault(&mut self, core: usize, vaddr: u64) {
        let this = &mut self.cores[core];
        this.era += 1;
        let tags = [u32::from(this.context.asid), GLOBAL];
        let levels = (0..self.format.levels()).map(|level| self.format.level_shift(level));
        let tables = levels.map(|shift| TABLE + shift as u8);
        let pages = self.format.sizes().iter().map(|&shift| shift as u8);
        for what in pages.chain(tables) {
            let vaddr = floor(vaddr, u32::from(what % TABLE));
            for tag in tags {
                this.entries.remove(&Key { tag, what, vaddr });
            }
        }
    }

    /// Whether there is anything to compare: a core holds entries of which a word has changed, or
    /// global ones beside others, or runs another address space than before.
    pub fn suspects(&self) -> bool {
        self.cores.iter().any(|core| {
            !core.suspects.is_empty() || !core.twins.is_empty() || core.switched.is_some()
        })
    }

    /// Compares the entries that `core` can use and of which a word has changed. Those that are
    /// wrong, and whose changes are `done`, are returned, and dropped so that they are returned once.
    pub fn judge(&mut self, core: usize, done: impl Fn(&C) -> bool) -> Vec<Missing<C>> {
        let group = OnceCell::new();
        self.turn(core, &group);
        let mut missing = self.judge_twins(core);
        let tag = u32::from(self.cores[core].context.asid);
        let usable = |key: &Key| key.tag == tag || key.is_global();
        let suspects = self.cores[core].suspects.iter();
        let suspects: Vec<Key> = suspects.copied().filter(usable).collect();
        self.counts.audits += u64::from(!suspects.is_empty());
        for key in suspects {
            let this = &self.cores[core];
            let held = this.entries.get(&key);
            let Some(held) = held.filter(|held| held.met || !held.changed.is_empty()) else {
                self.cores[core].suspects.remove(&key);
                continue;
            };
            if !self.is_open(&this.context, held.attr) {
                continue;
            }
            self.counts.compared += 1;
            match self.compare(core, &key, &group) {
                Some(found) if found.changed.iter().all(&done) => {
                    missing.push(found);
                    self.forget_page(core, &key);
                }
                Some(_) => {}
                None => {
                    self.cores[core].suspects.remove(&key);
                    if let Some(held) = self.cores[core].entries.get_mut(&key) {
                        if !held.changed.is_empty() {
                            held.before = std::mem::take(&mut held.changed);
                        }
                        held.met = false;
                    }
                }
            }
        }
        missing
    }

    /// The core may use entries now that it could not use before: has them compared.
    fn turn(&mut self, core: usize, group: &OnceCell<bool>) {
        let Some(change) = self.cores[core].switched.take() else {
            return;
        };
        let context = self.cores[core].context;
        let this = &mut self.cores[core];
        for (key, held) in under(&mut this.entries, u32::from(context.asid)) {
            if held.sources[0].root != context.root {
                mark(held, &change);
                this.suspects.insert(*key);
            }
        }
        let globals: Vec<Key> = under(&mut this.entries, GLOBAL)
            .map(|(key, _)| *key)
            .collect();
        for key in globals {
            let attr = self.cores[core].entries[&key].attr;
            if self.is_open(&context, attr) && !self.is_of_group(&context, group) {
                self.meet(core, &key);
            }
        }
    }

    /// Global entries beside others that who runs can use.
    fn judge_twins(&mut self, core: usize) -> Vec<Missing<C>> {
        let this = &self.cores[core];
        let tag = u32::from(this.context.asid);
        let twins: Vec<_> = this
            .twins
            .iter()
            .filter(|(own, _)| own.tag == tag)
            .collect();
        let twins: Vec<(Key, Key)> = twins.into_iter().copied().collect();
        let mut missing = Vec::new();
        for (own, global) in twins {
            let this = &self.cores[core];
            let Some(held) = this.entries.get(&own) else {
                continue;
            };
            let now = this.entries.get(&global).map(|global_held| Translation {
                frame: global_held.frame,
                shift: global.shift(),
                attr: global_held.attr | attr::GLOBAL,
            });
            missing.push(Missing {
                beside: Some(global.vaddr),
                ..self.missing(core, &own, held, (Wrong::Twin, now))
            });
            self.forget(core, &own);
        }
        missing
    }

    /// Compares every entry that `core` can use, and returns those that are wrong though no store
    /// was seen that made them so: a device has written the tables, or the audit is at fault.
    pub fn sweep(&mut self, core: usize) -> Vec<Missing<C>> {
        let context = self.cores[core].context;
        let mut keys = Vec::new();
        for tag in [u32::from(context.asid), GLOBAL] {
            let all = under(&mut self.cores[core].entries, tag);
            let unchanged = all.filter(|(_, held)| held.changed.is_empty() && !held.met);
            keys.extend(unchanged.map(|(key, held)| (*key, held.attr)));
        }
        keys.retain(|&(key, attr)| !key.is_global() || self.is_open(&context, attr));
        self.counts.audits += 1;
        self.counts.compared += keys.len() as u64;
        let (mut missing, group) = (Vec::new(), OnceCell::new());
        for (key, _) in keys {
            if let Some(found) = self.compare(core, &key, &group) {
                missing.push(found);
                self.forget_page(core, &key);
            }
        }
        missing
    }

    /// Forgets an entry that was wrong. The other parts of its page stand for themselves from now on, so
    /// that the page is reported once.
    fn forget_page(&mut self, core: usize, key: &Key) {
        let this = &mut self.cores[core];
        let reach = this.entries.get(key).map(|held| held.reach(key));
        if let Some(reach) = reach.filter(|reach| reach != key) {
            let at = |vaddr| Key { vaddr, ..*key };
            let parts = at(reach.vaddr)..=at(reach.last());
            for (_, held) in this.entries.range_mut(parts) {
                held.cut();
            }
        }
        self.forget(core, key);
    }

    fn forget(&mut self, core: usize, key: &Key) {
        let this = &mut self.cores[core];
        this.entries.remove(key);
        this.suspects.remove(key);
        this.twins
            .retain(|(own, global)| own != key && global != key);
        this.era += 1;
    }

    fn missing(
        &self,
        core: usize,
        key: &Key,
        held: &Held<C>,
        (wrong, now): (Wrong, Option<Translation>),
    ) -> Missing<C> {
        let reach = held.reach(key);
        Missing {
            core,
            vaddr: reach.vaddr,
            shift: reach.shift(),
            frame: held.frame - (key.vaddr - reach.vaddr),
            attr: held.attr,
            table: key.is_table(),
            global: key.is_global(),
            root: held.sources[0].root,
            now_root: self.cores[core].context.root,
            now,
            beside: None,
            wrong,
            changed: held.changed.clone(),
        }
    }

    /// How an entry differs from the tables that the core has now.
    fn compare(&self, core: usize, key: &Key, group: &OnceCell<bool>) -> Option<Missing<C>> {
        let context = &self.cores[core].context;
        let held = self.cores[core].entries.get(key)?;
        let found = match key.is_table() {
            true => self.compare_table(context, key, held)?,
            false => {
                let found = self.compare_page(context, key, held)?;
                let absent = found.0 == Wrong::Gone && key.is_global();
                match absent.then(|| self.excuse(context, key, held, group)) {
                    Some(excuse) => (excuse?, None),
                    None => found,
                }
            }
        };
        Some(self.missing(core, key, held, found))
    }

    /// The tables of who runs have nothing where there is a global entry: why that is wrong, if it
    /// is.
    fn excuse(
        &self,
        context: &Context,
        key: &Key,
        held: &Held<C>,
        group: &OnceCell<bool>,
    ) -> Option<Wrong> {
        if held.is_from(context) {
            return Some(Wrong::Gone);
        }
        let gives = |source: &Source| {
            let theirs = Context {
                root: source.root,
                asid: source.tag,
                ..*context
            };
            self.compare_page(&theirs, key, held).is_none()
        };
        if !held.sources.iter().any(gives) {
            return Some(Wrong::Gone);
        }
        (!self.is_of_group(context, group)).then_some(Wrong::Foreign)
    }

    /// Who runs is of the group that global entries are for.
    fn is_of_group(&self, context: &Context, group: &OnceCell<bool>) -> bool {
        let Habits {
            group: wanted,
            last,
            ..
        } = self.habits;
        let of = || {
            self.format
                .has_domain_of(&self.memory, context, last, wanted)
        };
        wanted == 0 || *group.get_or_init(of)
    }

    /// What the tables give for an address, or would give if it had been used lately; of a page that
    /// several words describe the part that its own word does.
    fn now(&self, context: &Context, vaddr: u64) -> Result<Translation, Fault> {
        let walk = self.format.walk(&self.memory, context, vaddr);
        let last = match walk.result {
            Ok(_) => None,
            Err(_) => walk.steps().last(),
        };
        let young = last.and_then(|step| Some((step, (self.habits.young)(&self.memory, step)?)));
        let result = match young {
            None => walk.result,
            Some((step, value)) => {
                let memory = Replaced {
                    memory: &self.memory,
                    at: step.paddr,
                    value,
                };
                self.format.walk(&memory, context, vaddr).result
            }
        };
        result.map(|page| match walk.steps().last() {
            Some(leaf) => self.part(vaddr, leaf, page),
            None => page,
        })
    }

    fn compare_page(
        &self,
        context: &Context,
        key: &Key,
        held: &Held<C>,
    ) -> Option<(Wrong, Option<Translation>)> {
        let reach = held.reach(key);
        let frame = held.frame - (key.vaddr - reach.vaddr);
        let end = 1u64 << reach.shift();
        let mut within = 0;
        // The tables may have smaller pages there by now.
        while within < end {
            let vaddr = reach.vaddr + within;
            let Ok(page) = self.now(context, vaddr) else {
                return Some((Wrong::Gone, None));
            };
            let offset = vaddr & ((1 << page.shift) - 1);
            if page.frame + offset != frame + within {
                return Some((Wrong::Other, Some(page)));
            }
            if more(held.attr, page.attr) {
                return Some((Wrong::Rights, Some(page)));
            }
            within += (1 << page.shift) - offset;
        }
        None
    }

    fn compare_table(
        &self,
        context: &Context,
        key: &Key,
        held: &Held<C>,
    ) -> Option<(Wrong, Option<Translation>)> {
        let walk = self.format.walk(&self.memory, context, key.vaddr);
        let now = walk.steps().get(..held.sources[0].steps);
        let found = now.and_then(|steps| self.format.table(steps));
        match found {
            None => Some((Wrong::Gone, walk.result.ok())),
            Some((frame, _)) if frame != held.frame => Some((Wrong::Other, walk.result.ok())),
            Some((_, rights)) if more(held.attr, rights) => Some((Wrong::Rights, None)),
            Some(_) => None,
        }
    }
}

impl<C> Core<C> {
    /// Notes entries of a page beside it that may answer for the same address.
    fn find_twins(&mut self, key: Key) {
        for &(tag, what) in self.kinds.keys() {
            if what >= TABLE || (tag == GLOBAL) == key.is_global() {
                continue;
            }
            let other = |vaddr| Key { tag, what, vaddr };
            let range = other(floor(key.vaddr, other(0).shift()))..=other(key.last());
            for (&other, _) in self.entries.range(range) {
                let pair = match key.is_global() {
                    true => (other, key),
                    false => (key, other),
                };
                self.twins.insert(pair);
            }
        }
    }
}

/// Memory with another word.
struct Replaced<'a, M> {
    memory: &'a M,
    at: u64,
    value: u64,
}

impl<M: GuestMemory> GuestMemory for Replaced<'_, M> {
    fn read_u32(&self, paddr: u64) -> Option<u32> {
        match paddr == self.at {
            true => Some(self.value as u32),
            false => self.memory.read_u32(paddr),
        }
    }
    fn read_u64(&self, paddr: u64) -> Option<u64> {
        match paddr == self.at {
            true => Some(self.value),
            false => self.memory.read_u64(paddr),
        }
    }
}

/// The words beside the leaf of a walk that describe the same page.
fn run<M: GuestMemory>(format: &Format, memory: &M, walk: &Walk, page: &Translation) -> Vec<Step> {
    let Some(leaf) = walk.steps().last() else {
        return Vec::new();
    };
    let more = page.shift.saturating_sub(format.level_shift(leaf.level));
    let bytes = format.entry_bytes << more;
    let first = leaf.paddr & !(bytes - 1);
    let words = (first..first + bytes).step_by(format.entry_bytes as usize);
    words
        .filter(|&paddr| paddr != leaf.paddr)
        .filter_map(|paddr| {
            let value = format.read(memory, paddr)?;
            Some(Step {
                paddr,
                value,
                ..*leaf
            })
        })
        .collect()
}

/// The first address of the piece of that power of two.
fn floor(vaddr: u64, shift: u32) -> u64 {
    vaddr >> shift << shift
}

fn allows(bits: u16, kind: AccessKind) -> bool {
    match kind {
        AccessKind::Fetch => bits & attr::NO_EXECUTE == 0,
        AccessKind::Read => true,
        AccessKind::Write => bits & (attr::WRITE | attr::USER_WRITE) != 0,
    }
}

/// Whether the first has rights that the second has not.
pub(crate) fn more(held: u16, now: u16) -> bool {
    held & GRANTS & !now != 0 || now & !held & attr::NO_EXECUTE != 0
}

/// Adds a change to those of an entry, of which the first and the last ones are kept.
fn mark<C: Clone>(held: &mut Held<C>, change: &C) {
    if held.changed.len() == CHANGES {
        held.changed.remove(1);
    }
    held.changed.push(change.clone());
}

/// The entries under a tag.
fn under<C>(
    entries: &mut BTreeMap<Key, Held<C>>,
    tag: u32,
) -> impl Iterator<Item = (&Key, &mut Held<C>)> {
    let key = |what, vaddr| Key { tag, what, vaddr };
    entries.range_mut(key(0, 0)..=key(u8::MAX, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SparseMemory;

    /// Present, writable, of the user; accessed and dirty.
    const RW: u64 = 0x67;
    const RO: u64 = 0x65;
    const NX: u64 = 1 << 63;
    const HUGE: u64 = 0x80;
    const VADDR: u64 = 0x40_2000;

    /// Two cores, and two address spaces at 0x10_000 and 0x20_000 that map [`VADDR`].
    struct Guest {
        audit: Audit<SparseMemory, u32>,
    }

    impl Guest {
        fn new() -> Self {
            let format = Format::builtin("x86-64").unwrap();
            let mut audit = Audit::new(format, Habits::default(), 2, SparseMemory::new());
            for (root, frame) in [(0x10_000, 0x90_000), (0x20_000, 0xa0_000)] {
                for level in 0..3 {
                    let next = (root + (level + 1) * 0x1000) | RW;
                    audit.memory.write_u64(word(root, level), next);
                }
                audit.memory.write_u64(word(root, 3), frame | RW);
            }
            let mut guest = Self { audit };
            for core in 0..2 {
                guest.enter(core, 0x10_000, 0);
            }
            guest.judge();
            guest
        }

        fn enter(&mut self, core: usize, root: u64, tag: u16) {
            let context = Context {
                paging: true,
                root,
                asid: tag,
                ..Context::default()
            };
            self.audit.context(core, context, || 99);
        }

        /// A store by the task `by`.
        fn store(&mut self, paddr: u64, value: u64, by: u32) {
            self.audit.memory.write_u64(paddr, value);
            self.audit.stored(paddr, 8, || by);
        }

        fn touch(&mut self, core: usize, kind: AccessKind) {
            self.audit.access(core, kind, VADDR, None);
        }

        /// What is missing on both cores when all tasks are done.
        fn judge(&mut self) -> Vec<(usize, u64, Wrong, bool)> {
            let mut all = self.audit.judge(0, |_| true);
            all.extend(self.audit.judge(1, |_| true));
            let short = |m: Missing<u32>| (m.core, m.vaddr, m.wrong, m.table);
            all.into_iter().map(short).collect()
        }
    }

    /// The address of the word that maps [`VADDR`], at a level from the root's on.
    fn word(root: u64, level: u64) -> u64 {
        root + level * 0x1000 + (VADDR >> (39 - 9 * level) & 511) * 8
    }

    const LEAF: fn() -> u64 = || word(0x10_000, 3);

    #[test]
    fn a_page_that_is_gone_moved_or_protected_must_be_flushed() {
        for (value, wrong) in [
            (0, Wrong::Gone),
            (0xb0_000 | RW, Wrong::Other),
            (0x90_000 | RO, Wrong::Rights),
            (0x90_000 | RW | NX, Wrong::Rights),
        ] {
            // GIVEN both cores hold the page WHEN it changes and core 0 alone flushes
            let mut guest = Guest::new();
            guest.touch(0, AccessKind::Write);
            guest.touch(1, AccessKind::Write);
            guest.store(LEAF(), value, 7);
            guest.audit.invalidate(0, Drop::page(0, VADDR));
            // THEN core 1 misses a flush, once, by the task that changed it
            let missing = guest.audit.judge(1, |_| true);
            let [missing] = &missing[..] else {
                panic!("{value:#x}: {missing:?}");
            };
            assert_eq!((missing.core, missing.vaddr), (1, VADDR));
            assert_eq!((missing.wrong, missing.frame), (wrong, 0x90_000));
            assert_eq!(missing.changed, [7]);
            assert_eq!(guest.judge(), []);
        }
    }

    #[test]
    fn what_was_flushed_in_time_is_right() {
        let flushes = [
            Drop::page(0, VADDR + 8),
            Drop {
                tag: None,
                ..Drop::page(9, VADDR)
            },
            Drop::tag(0),
            Drop::BUT_GLOBAL,
            Drop::ALL,
        ];
        for what in flushes {
            let mut guest = Guest::new();
            guest.touch(0, AccessKind::Read);
            guest.store(LEAF(), 0, 7);
            assert!(guest.audit.suspects());
            guest.audit.invalidate(0, what);
            assert!(!guest.audit.suspects());
            assert_eq!(guest.judge(), [], "{what:?}");
        }
        // A flush of another page or tag is not one of this.
        let others = [
            Drop::page(0, VADDR + 0x1000),
            Drop::page(1, VADDR),
            Drop::tag(1),
        ];
        for what in others {
            let mut guest = Guest::new();
            guest.touch(0, AccessKind::Read);
            guest.store(LEAF(), 0, 7);
            guest.audit.invalidate(0, what);
            assert_eq!(guest.judge(), [(0, VADDR, Wrong::Gone, false)], "{what:?}");
        }
    }

    #[test]
    fn a_change_may_be_late_until_its_task_is_done() {
        let mut guest = Guest::new();
        guest.touch(0, AccessKind::Read);
        guest.store(LEAF(), 0, 7);
        guest.store(LEAF(), 0xb0_000 | RW, 8);
        assert!(guest.audit.judge(0, |&by| by == 7).is_empty());
        assert!(guest.audit.judge(0, |&by| by == 8).is_empty());
        for by in 10..20 {
            guest.store(LEAF(), 0xc0_000 | RW, by);
        }
        let missing = guest.audit.judge(0, |_| true);
        assert_eq!(missing[0].changed, [7, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn more_rights_and_what_hardware_writes_need_no_flush() {
        // GIVEN a page that is read-only, young and dirty
        let mut guest = Guest::new();
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RO | NX);
        guest.touch(0, AccessKind::Read);
        // WHEN it is aged and made writable THEN nothing is missing
        guest.store(LEAF(), 0x90_000 | 5, 7);
        guest.store(LEAF(), 0x90_000 | RW, 7);
        assert_eq!(guest.judge(), []);
        assert!(!guest.audit.suspects());
        // and a write that succeeds would have been a spurious fault, once.
        guest.touch(0, AccessKind::Write);
        guest.touch(0, AccessKind::Write);
        assert_eq!(guest.audit.counts().spurious, 1);
    }

    #[test]
    fn a_clean_page_is_not_writable_in_a_tlb() {
        // GIVEN a writable page that was only read WHEN it is protected THEN no flush is needed
        let mut guest = Guest::new();
        let clean = 0x90_000 | RW & !0x40;
        guest.audit.memory.write_u64(LEAF(), clean);
        guest.touch(0, AccessKind::Read);
        guest.store(LEAF(), clean & !2, 7);
        assert_eq!(guest.judge(), []);
        // WHEN it is written to THEN it is no fault, and from then on a flush is needed.
        guest.store(LEAF(), 0x90_000 | RW, 7);
        guest.touch(0, AccessKind::Write);
        assert_eq!(guest.audit.counts().spurious, 0);
        guest.store(LEAF(), 0x90_000 | RO, 7);
        assert_eq!(guest.judge(), [(0, VADDR, Wrong::Rights, false)]);
    }

    #[test]
    fn a_table_that_is_left_must_be_flushed_though_its_pages_stay() {
        // GIVEN a copy of the last table WHEN the entry above it turns to the copy
        let mut guest = Guest::new();
        guest.touch(0, AccessKind::Read);
        let copy = 0x30_000 + (LEAF() & 0xfff);
        guest.audit.memory.write_u64(copy, 0x90_000 | RW);
        guest.store(word(0x10_000, 2), 0x30_000 | RW, 7);
        // THEN the page is right, and what the walker caches of the way to it is not.
        let at = VADDR >> 21 << 21;
        assert_eq!(guest.judge(), [(0, at, Wrong::Other, true)]);
        // A write to the table that was left is no change of what the core can use.
        guest.store(LEAF(), 0, 7);
        assert_eq!(guest.judge(), []);
    }

    #[test]
    fn a_large_page_may_become_small_ones_of_the_same_memory() {
        let split = |frame: u64| {
            let mut guest = Guest::new();
            let pmd = word(0x10_000, 2);
            guest.audit.memory.write_u64(pmd, 0x20_0000 | RW | HUGE);
            guest.touch(0, AccessKind::Read);
            for page in 0..512 {
                let frame = if page == 300 {
                    frame
                } else {
                    0x20_0000 + page * 0x1000
                };
                guest
                    .audit
                    .memory
                    .write_u64(0x30_000 + page * 8, frame | RW);
            }
            guest.store(pmd, 0x30_000 | RW, 7);
            guest.judge()
        };
        assert_eq!(split(0x20_0000 + 300 * 0x1000), []);
        let at = VADDR >> 21 << 21;
        assert_eq!(split(0x70_0000), [(0, at, Wrong::Other, false)]);
    }

    #[test]
    fn an_entry_is_judged_when_its_tag_can_be_used() {
        // GIVEN a core with an entry of tag 1 that has become wrong
        let mut guest = Guest::new();
        guest.enter(0, 0x10_000, 1);
        guest.touch(0, AccessKind::Read);
        guest.store(LEAF(), 0, 7);
        // WHEN it runs under tag 2 THEN nothing is wrong yet
        guest.enter(0, 0x20_000, 2);
        assert_eq!(guest.judge(), []);
        // WHEN it goes back without a flush THEN it is, and with one it is not.
        guest.enter(0, 0x10_000, 1);
        assert_eq!(guest.judge(), [(0, VADDR, Wrong::Gone, false)]);
        guest.store(LEAF(), 0x90_000 | RW, 7);
        guest.touch(0, AccessKind::Read);
        guest.enter(0, 0x20_000, 2);
        guest.store(LEAF(), 0, 7);
        guest.enter(0, 0x10_000, 1);
        guest.audit.invalidate(0, Drop::tag(1));
        assert_eq!(guest.judge(), []);
    }

    #[test]
    fn a_tag_that_another_root_gets_must_be_flushed() {
        let mut guest = Guest::new();
        guest.enter(0, 0x10_000, 1);
        guest.touch(0, AccessKind::Read);
        guest.enter(0, 0x20_000, 1);
        let wrong = guest.audit.judge(0, |_| true);
        assert!(wrong.iter().any(|missing| !missing.table
            && (missing.root, missing.now_root) == (0x10_000, 0x20_000)
            && missing.changed == [99]));
    }

    #[test]
    fn rights_are_words() {
        assert_eq!(rights(attr::USER | attr::NO_EXECUTE), "read");
        let all = attr::USER | attr::WRITE;
        assert_eq!(rights(all), "read, write, execute");
        assert_eq!(rights(0), "read, execute, kernel only");
    }

    #[test]
    fn a_fault_drops_the_page_that_it_is_about() {
        let mut guest = Guest::new();
        guest.touch(0, AccessKind::Read);
        guest.store(LEAF(), 0, 7);
        guest.audit.fault(0, VADDR + 5);
        assert_eq!(guest.judge(), []);
    }

    #[test]
    fn a_change_that_no_store_made_is_found_by_a_sweep() {
        let mut guest = Guest::new();
        guest.touch(0, AccessKind::Read);
        assert!(guest.audit.sweep(0).is_empty());
        guest.audit.memory.write_u64(LEAF(), 0);
        assert_eq!(guest.judge(), []);
        assert_eq!(guest.audit.sweep(0).len(), 1);
        assert!(guest.audit.sweep(0).is_empty());
        // The page and the three tables above it, twice; then the tables.
        assert_eq!(guest.audit.counts().compared, 4 + 4 + 3);
    }

    #[test]
    fn pages_of_the_kernel_are_left_out_and_a_use_of_an_old_page_is_counted() {
        let mut guest = Guest::new();
        let kernel = 0x90_000 | RW & !4;
        guest.audit.memory.write_u64(LEAF(), kernel);
        guest.touch(0, AccessKind::Read);
        assert_eq!(guest.audit.counts().filled, 0);
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RW);
        guest.touch(0, AccessKind::Read);
        let access = |guest: &mut Guest, paddr| {
            guest.audit.access(0, AccessKind::Read, VADDR, Some(paddr));
        };
        access(&mut guest, 0x90_000);
        access(&mut guest, 0xc0_000);
        assert_eq!(guest.audit.counts().diverged, 1);
        guest.audit.invalidate(0, Drop::ALL);
        access(&mut guest, 0xc0_000);
        assert_eq!(guest.audit.counts().unexplained, 1);
    }

    /// Two cores of a processor with domains, whose format is ARMv7's. The tables of each process map
    /// [`CODE`] by a first-level entry of a domain and a last table at its root plus 0x4000.
    struct Group {
        audit: Audit<SparseMemory, u32>,
    }

    const CODE: u64 = 0x1_2000;
    const PAGE: u64 = 0x9_0000;
    const MEMBER: u64 = 5;
    const OTHER: u64 = 1;
    /// Domains 1 and 5 open, and domain 1 alone.
    const OPEN: u32 = 1 << 10 | 1 << 2;
    const SHUT: u32 = 1 << 2;
    /// A small page that the user may read and execute; not global.
    const NG: u32 = 1 << 11;
    const TEXT: u32 = 2 | 1 << 5 | 1 << 4 | 1 << 9;

    impl Group {
        /// Processes at these roots with tables in these domains, which map nothing yet.
        fn new(roots: &[(u64, u64)]) -> Self {
            let format = Format::builtin("armv7-short").unwrap();
            let habits = Habits {
                // Bit 31 of an absent entry: it is old.
                young: |_, step| {
                    let old = step.value & (1 << 31 | 3) == 1 << 31;
                    old.then_some(step.value & 0x7fff_ffff | 2)
                },
                group: 1 << MEMBER,
                last: 0xbfff_ffff,
            };
            let mut audit = Audit::new(format, habits, 2, SparseMemory::new());
            for &(root, domain) in roots {
                let entry = (root + 0x4000) | domain << 5 | 1;
                audit.memory.write_u32(root, entry as u32);
            }
            Self { audit }
        }

        fn run(&mut self, core: usize, root: u64, tag: u16, dacr: u32) {
            let context = Context {
                paging: true,
                root,
                asid: tag,
                dacr,
                ..Context::default()
            };
            self.audit.context(core, context, || 99);
        }

        fn leaf(root: u64) -> u64 {
            root + 0x4000 + (CODE >> 12) * 4
        }

        /// A store to the last entry of a process.
        fn map(&mut self, root: u64, bits: u32, by: u32) {
            let at = Self::leaf(root);
            self.audit.memory.write_u32(at, bits);
            self.audit.stored(at, 4, || by);
        }

        /// A use of [`CODE`] on core 0, by tables that have the page.
        fn fetch(&mut self) {
            self.audit.access(0, AccessKind::Fetch, CODE, Some(PAGE));
        }

        fn judge(&mut self) -> Vec<(u64, Wrong, bool)> {
            let all = self.audit.judge(0, |_| true).into_iter();
            all.map(|m| (m.vaddr, m.wrong, m.global)).collect()
        }
    }

    /// Members at 0x1_0000 and 0x2_0000, and one that is none at 0x3_0000.
    const A: u64 = 0x1_0000;
    const B: u64 = 0x2_0000;
    const C: u64 = 0x3_0000;

    /// A and B are members, C is not; A has used the code on core 0.
    fn group() -> Group {
        let mut group = Group::new(&[(A, MEMBER), (B, MEMBER), (C, OTHER)]);
        group.run(0, A, 1, OPEN);
        group.judge();
        group.map(A, PAGE as u32 | TEXT, 7);
        group.fetch();
        assert_eq!(group.audit.counts().global, 1);
        group
    }

    #[test]
    fn a_global_entry_serves_members_that_have_nothing_there_yet() {
        let mut group = group();
        group.run(0, B, 2, OPEN);
        assert_eq!(group.judge(), []);
        assert!(group.audit.sweep(0).is_empty());
        // WHEN B has the same page THEN no entry is made: it uses A's.
        group.map(B, PAGE as u32 | TEXT, 7);
        group.fetch();
        assert_eq!((group.audit.counts().global, group.judge()), (1, vec![]));
    }

    #[test]
    fn a_global_entry_must_go_when_the_last_tables_have_lost_it() {
        // GIVEN A, from whose tables it was read, clears it WHEN B runs THEN it is gone.
        let mut group = group();
        group.map(A, 0, 7);
        group.run(0, B, 2, OPEN);
        assert_eq!(group.judge(), [(CODE, Wrong::Gone, true)]);
        // GIVEN B has the page too THEN it is right, until B loses it too.
        let mut group = self::group();
        group.run(0, B, 2, OPEN);
        group.map(B, PAGE as u32 | TEXT, 7);
        group.fetch();
        group.map(A, 0, 7);
        assert_eq!(group.judge(), []);
        group.map(B, 0, 7);
        assert_eq!(group.judge(), [(CODE, Wrong::Gone, true)]);
    }

    #[test]
    fn who_has_lost_a_page_may_not_use_it_though_others_have_it() {
        let mut group = group();
        group.run(0, B, 2, OPEN);
        group.map(B, PAGE as u32 | TEXT, 7);
        group.fetch();
        group.map(B, 0, 7);
        assert_eq!(group.judge(), [(CODE, Wrong::Gone, true)]);
    }

    #[test]
    fn members_must_have_the_same_page_with_the_same_rights() {
        for (bits, wrong) in [
            (0xa_0000 | TEXT, Wrong::Other),
            (PAGE as u32 | TEXT | 1, Wrong::Rights),
        ] {
            let mut group = group();
            group.run(0, B, 2, OPEN);
            group.map(B, bits, 7);
            let frame = u64::from(bits) & !0xfff;
            group.audit.access(0, AccessKind::Read, CODE, Some(frame));
            assert_eq!(group.judge(), [(CODE, wrong, true)], "{bits:#x}");
        }
    }

    #[test]
    fn a_closed_domain_faults_and_an_open_one_is_for_members() {
        // WHEN C runs with the domain closed THEN it cannot use the entry.
        let mut group = group();
        group.run(0, C, 3, SHUT);
        assert_eq!(group.judge(), []);
        // and if it tries, a fault drops the entry, and it gets its own.
        group.map(C, PAGE as u32 | TEXT | NG, 7);
        group.fetch();
        let counts = group.audit.counts();
        assert_eq!((counts.domain_faults, counts.filled), (1, 2));
        assert_eq!(group.judge(), []);
        // WHEN the domain is open to it THEN that is found, whether it opens with the switch or later.
        for late in [false, true] {
            let mut group = self::group();
            group.run(0, C, 3, if late { SHUT } else { OPEN });
            assert_eq!(group.judge().len(), usize::from(!late));
            group.run(0, C, 3, OPEN);
            assert_eq!(group.judge().len(), usize::from(late));
        }
    }

    #[test]
    fn a_global_entry_of_a_table_that_is_open_to_all_is_found() {
        let mut group = Group::new(&[(A, OTHER), (C, OTHER)]);
        group.run(0, A, 1, OPEN);
        group.map(A, PAGE as u32 | TEXT, 7);
        group.fetch();
        group.run(0, C, 3, SHUT);
        assert_eq!(group.judge(), [(CODE, Wrong::Foreign, true)]);
    }

    #[test]
    fn no_entry_may_be_beside_a_global_one() {
        // GIVEN C has an entry of its own for the address WHEN a member brings in a global one
        let with_both = || {
            let mut group = Group::new(&[(A, MEMBER), (C, OTHER)]);
            group.run(0, C, 3, SHUT);
            group.map(C, 0xa_0000 | TEXT | NG, 7);
            group
                .audit
                .access(0, AccessKind::Read, CODE, Some(0xa_0000));
            group.run(0, A, 1, OPEN);
            group.map(A, PAGE as u32 | TEXT, 7);
            group.fetch();
            assert_eq!(group.judge(), []);
            group
        };
        // THEN C meets both when it runs again, once.
        let mut group = with_both();
        group.run(0, C, 3, SHUT);
        assert_eq!(group.judge(), [(CODE, Wrong::Twin, false)]);
        assert_eq!(group.judge(), []);
        // Not if either was flushed.
        for flush in [Drop::ALL, Drop::tag(3), Drop::page(1, CODE)] {
            let mut group = with_both();
            group.audit.invalidate(0, flush);
            group.run(0, C, 3, SHUT);
            assert_eq!(group.judge(), [], "{flush:?}");
        }
    }

    #[test]
    fn global_entries_stay_where_a_tag_is_flushed() {
        let page = |tag, vaddr| Drop::page(tag, vaddr);
        let everywhere = Drop {
            tag: None,
            ..page(0, CODE)
        };
        for (flush, gone) in [
            (Drop::tag(1), false),
            (Drop::BUT_GLOBAL, false),
            (page(1, CODE + 0x1000), false),
            (page(1, CODE), true),
            (page(9, CODE), true),
            (everywhere, true),
            (Drop::ALL, true),
        ] {
            let mut group = group();
            group.map(A, 0, 7);
            group.audit.invalidate(0, flush);
            let left = group.judge().iter().any(|found| found.2);
            assert_eq!(left, !gone, "{flush:?}");
        }
    }

    #[test]
    fn a_flush_by_address_keeps_what_it_does_not_name() {
        let all = Drop::page(1, CODE);
        let above = Drop {
            tables: Tables::Above,
            ..all
        };
        let leaf = Drop {
            tables: Tables::Kept,
            ..all
        };
        let beside = Drop {
            range: Some((CODE + 0x10_0000, CODE + 0x20_0000)),
            ..above
        };
        let around = Drop {
            range: Some((CODE - 0x1000, CODE + 0x1000)),
            ..above
        };
        // The entry of the page, and the one that points to its table.
        for (flush, left) in [(all, 0), (above, 0), (leaf, 1), (beside, 2), (around, 0)] {
            let mut group = Group::new(&[(A, OTHER)]);
            group.run(0, A, 1, SHUT);
            group.map(A, PAGE as u32 | TEXT | NG, 7);
            group.fetch();
            group.audit.invalidate(0, flush);
            assert_eq!(group.audit.cores[0].entries.len(), left, "{flush:?}");
        }
    }

    #[test]
    fn a_flush_of_a_size_keeps_entries_of_others() {
        // GIVEN entries of a page of 4 KB and of the tables above, for 2 MB, 1 GB and 512 GB
        let hint = |first, last| Drop {
            sizes: Some((first, last)),
            tables: Tables::Above,
            ..Drop::page(0, VADDR)
        };
        for (flush, left) in [
            (hint(12, 20), 0),
            // Nothing for 2 MB: the page and its table stay, those on the way to 2 MB go.
            (hint(21, 29), 2),
            (hint(30, 38), 3),
            (hint(64, 64), 4),
            (
                Drop {
                    tables: Tables::Kept,
                    ..hint(12, 20)
                },
                3,
            ),
        ] {
            let mut guest = Guest::new();
            guest.touch(0, AccessKind::Read);
            assert_eq!(guest.audit.cores[0].entries.len(), 4);
            guest.audit.invalidate(0, flush);
            let held = guest.audit.cores[0].entries.len();
            assert_eq!(held, left, "{flush:?}");
            // WHEN the page goes THEN a hint that was wrong has left it to be found.
            guest.store(LEAF(), 0, 7);
            let wrong = guest.judge().contains(&(0, VADDR, Wrong::Gone, false));
            assert_eq!(wrong, flush.sizes != Some((12, 20)), "{flush:?}");
        }
    }

    #[test]
    fn an_old_page_may_stay_in_a_tlb_and_another_may_not() {
        for (bits, right) in [
            (1 << 31 | PAGE as u32 | TEXT & !2 | NG, true),
            (1 << 31 | 0xa_0000 | TEXT & !2 | NG, false),
            (PAGE as u32 | TEXT & !2 | NG, false),
        ] {
            let mut group = Group::new(&[(A, OTHER)]);
            group.run(0, A, 1, SHUT);
            group.map(A, PAGE as u32 | TEXT | NG, 7);
            group.fetch();
            group.map(A, bits, 7);
            assert_eq!(group.judge().is_empty(), right, "{bits:#x}");
        }
    }

    #[test]
    fn a_root_that_is_set_on_the_way_is_no_switch() {
        let mut group = Group::new(&[(A, OTHER)]);
        group.run(0, A, 1, SHUT);
        group.map(A, PAGE as u32 | TEXT | NG, 7);
        group.fetch();
        group.run(0, C, 1, SHUT);
        group.run(0, A, 1, SHUT);
        group.map(A, 0, 7);
        let found = group.audit.judge(0, |_| true);
        assert_eq!(found[0].changed, [7]);
    }

    /// A core of ARMv8 with pages of 4 KB. Its tables map 64 KB from address 0 on to [`FIRST`], page by
    /// page, and nothing else.
    struct Run {
        audit: Audit<SparseMemory, u32>,
    }

    const FIRST: u64 = 0x20_0000;
    /// The last table, and the entry that points to it.
    const LAST: u64 = 0x1_3000;
    const ABOVE: u64 = 0x1_2000;
    /// A page that the user may write; accessed and not global.
    const SMALL: u64 = 3 | 1 << 6 | 1 << 10 | 1 << 11;
    const CONTIGUOUS: u64 = SMALL | 1 << 52;
    const BLOCK: u64 = SMALL & !2;

    impl Run {
        fn new(bits: u64) -> Self {
            let format = Format::builtin("armv8-4k").unwrap();
            let mut audit = Audit::new(format, Habits::default(), 1, SparseMemory::new());
            for level in 0..3 {
                let table = 0x1_0000 + level * 0x1000;
                audit.memory.write_u64(table, (table + 0x1000) | 3);
            }
            let mut run = Self { audit };
            run.map(0..16, bits, 0);
            run.enter(1);
            run.audit.judge(0, |_| true);
            run
        }

        fn enter(&mut self, tag: u16) {
            let context = Context {
                paging: true,
                root: 0x1_0000,
                asid: tag,
                ..Context::default()
            };
            self.audit.context(0, context, || 99);
        }

        fn store(&mut self, at: u64, value: u64, by: u32) {
            self.audit.memory.write_u64(at, value);
            self.audit.stored(at, 8, || by);
        }

        /// Stores of the task `by` to the words of these pages.
        fn map(&mut self, pages: std::ops::Range<u64>, bits: u64, by: u32) {
            for page in pages {
                let frame = if bits == 0 { 0 } else { FIRST + page * 0x1000 };
                self.store(LAST + page * 8, frame | bits, by);
            }
        }

        /// Uses a page; what that has shown.
        fn touch(&mut self, page: u64) -> Vec<Missing<u32>> {
            let (vaddr, paddr) = (page * 0x1000, FIRST + page * 0x1000);
            self.audit.access(0, AccessKind::Read, vaddr, Some(paddr));
            assert_eq!(self.audit.counts().unexplained, 0);
            let all = self.audit.noted().into_iter();
            all.map(|noted| match noted {
                Noted::Size(missing) => missing,
                Noted::Spurious(_) => panic!("{noted:?}"),
            })
            .collect()
        }

        /// TLBI VALE1 of these pages.
        fn flush(&mut self, pages: std::ops::Range<u64>) {
            let last = Drop {
                range: Some((pages.start << 12, (pages.end << 12) - 1)),
                tables: Tables::Kept,
                ..Drop::page(1, 0)
            };
            self.audit.invalidate(0, last);
        }

        fn judge(&mut self) -> Vec<(u64, u32, Wrong)> {
            let all = self.audit.judge(0, |_| true).into_iter();
            all.map(|m| (m.vaddr, m.shift, m.wrong)).collect()
        }
    }

    /// The two entries of a finding: address and size of the older one, then of the newer.
    fn both(found: &[Missing<u32>]) -> [(u64, u32); 2] {
        let [one] = found else {
            panic!("{found:?}");
        };
        assert_eq!(one.wrong, Wrong::Size);
        let beside = one.now.unwrap();
        [(one.vaddr, one.shift), (one.beside.unwrap(), beside.shift)]
    }

    #[test]
    fn a_page_of_several_words_is_wrong_if_one_of_them_is() {
        // GIVEN two parts of 64 KB were used WHEN another part goes THEN all of it is wrong, once.
        let mut run = Run::new(CONTIGUOUS);
        assert!(run.touch(5).is_empty() && run.touch(7).is_empty());
        run.map(6..7, 0, 1);
        assert_eq!(run.judge(), [(0, 16, Wrong::Gone)]);
        assert_eq!(run.judge(), []);
        // What has stood for its own part since then still does.
        run.map(7..8, 0, 1);
        assert_eq!(run.judge(), [(0x7000, 12, Wrong::Gone)]);
    }

    #[test]
    fn a_flush_of_one_part_leaves_the_others_to_a_processor_that_keeps_parts() {
        let mut run = Run::new(CONTIGUOUS);
        run.touch(5);
        run.flush(6..7);
        run.map(6..7, 0, 1);
        assert_eq!(run.judge(), []);
        run.map(5..6, 0, 1);
        assert_eq!(run.judge(), [(0x5000, 12, Wrong::Gone)]);
        // A flush of all parts leaves nothing.
        let mut run = Run::new(CONTIGUOUS);
        run.touch(5);
        run.map(0..16, 0, 1);
        run.flush(0..16);
        assert_eq!(run.judge(), []);
    }

    #[test]
    fn an_entry_of_another_size_needs_a_flush_before_it() {
        // GIVEN 64 KB that were used WHEN they become small pages of the same memory
        for flushed in [false, true] {
            let mut run = Run::new(CONTIGUOUS);
            run.touch(5);
            run.map(0..16, 0, 7);
            if flushed {
                run.flush(0..16);
            }
            run.map(0..16, SMALL, 7);
            // THEN no entry is wrong, but a second one beside the first is, once.
            assert_eq!(run.judge(), []);
            let found = run.touch(6);
            assert_eq!(found.is_empty(), flushed);
            if !flushed {
                assert_eq!(both(&found), [(0, 16), (0x6000, 12)]);
                assert_eq!(found[0].changed.last(), Some(&7));
                assert_eq!((found[0].frame, found[0].root), (FIRST, 0x1_0000));
            }
            assert!(run.touch(7).is_empty() && run.touch(5).is_empty());
        }
        // The other way round.
        for flushed in [false, true] {
            let mut run = Run::new(SMALL);
            run.touch(3);
            run.touch(4);
            run.map(0..16, CONTIGUOUS, 8);
            if flushed {
                run.flush(0..16);
            }
            let found = run.touch(9);
            assert_eq!(found.is_empty(), flushed);
            if !flushed {
                assert_eq!(both(&found), [(0x3000, 12), (0, 16)]);
            }
            assert!(run.touch(4).is_empty());
        }
    }

    #[test]
    fn a_block_beside_a_small_page_is_found_and_one_of_another_tag_is_none() {
        for (tag, flushed) in [(1, false), (1, true), (2, false)] {
            let mut run = Run::new(SMALL);
            run.touch(3);
            run.store(ABOVE, FIRST | BLOCK, 7);
            if flushed {
                run.flush(0..512);
            }
            run.enter(tag);
            let found = run.touch(40);
            assert_eq!(found.is_empty(), flushed || tag == 2);
            if !found.is_empty() {
                assert_eq!(both(&found), [(0x3000, 12), (0, 21)]);
            }
        }
    }

    #[test]
    fn words_that_do_not_agree_yet_are_no_page() {
        // GIVEN half of the words of 64 KB are written WHEN a page is used
        let mut run = Run::new(0);
        run.map(0..8, CONTIGUOUS, 7);
        run.touch(3);
        // THEN its entry is for itself, and others may be for all when the rest is written.
        assert!(run.audit.sweep(0).is_empty());
        run.map(8..16, CONTIGUOUS, 7);
        assert!(run.touch(9).is_empty());
        assert!(run.audit.sweep(0).is_empty());
        assert_eq!(run.judge(), []);
        // An entry that a flush of another part has cut is beside one for all neither.
        run.flush(9..10);
        assert!(run.touch(9).is_empty());
    }

    #[test]
    fn a_dirty_bit_that_hardware_sets_in_one_word_is_no_other_size() {
        const READ_ONLY: u64 = 1 << 7;
        let mut run = Run::new(CONTIGUOUS | READ_ONLY);
        run.touch(4);
        run.touch(5);
        let dirty = (FIRST + 0x5000) | CONTIGUOUS;
        run.audit.memory.write_u64(LAST + 5 * 8, dirty);
        let at = FIRST + 0x5000;
        assert!(run.audit.access(0, AccessKind::Write, 0x5000, Some(at)));
        assert!(matches!(run.audit.noted()[..], [Noted::Spurious(None)]));
        assert!(run.touch(9).is_empty());
        assert!(run.audit.sweep(0).is_empty());
    }

    #[test]
    fn a_section_beside_a_small_page_is_found() {
        for flush in [None, Some(Drop::tag(1))] {
            let mut group = Group::new(&[(A, OTHER)]);
            group.run(0, A, 1, SHUT);
            group.map(A, PAGE as u32 | TEXT | NG, 7);
            group.fetch();
            // User read and write, not global, domain 1.
            let section = 0x70_0000 | 1 << 17 | 3 << 10 | (OTHER as u32) << 5 | 2;
            group.audit.memory.write_u32(A, section);
            group.audit.stored(A, 4, || 8);
            if let Some(flush) = flush {
                group.audit.invalidate(0, flush);
            }
            let other = CODE + 0x1000;
            let access = |audit: &mut Audit<_, u32>| {
                audit.access(0, AccessKind::Read, other, Some(0x70_0000 | other))
            };
            assert_eq!(access(&mut group.audit), flush.is_none());
            if let [Noted::Size(found)] = &group.audit.noted()[..] {
                assert_eq!(both(std::slice::from_ref(found)), [(CODE, 12), (0, 20)]);
            }
        }
    }

    #[test]
    fn sizes_may_be_beside_each_other_where_the_architecture_allows_it() {
        let mut guest = Guest::new();
        guest.touch(0, AccessKind::Read);
        let pmd = word(0x10_000, 2);
        guest.store(pmd, 0x20_0000 | RW | HUGE, 7);
        let beside = VADDR + 0x1000;
        assert!(!guest.audit.access(0, AccessKind::Read, beside, None));
    }

    #[test]
    fn a_spurious_fault_has_the_change_that_gave_the_right() {
        let mut guest = Guest::new();
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RO);
        guest.touch(0, AccessKind::Read);
        guest.store(LEAF(), 0x90_000 | RO | 0x200, 6);
        guest.store(LEAF(), 0x90_000 | RW, 7);
        assert_eq!(guest.judge(), []);
        guest.touch(0, AccessKind::Write);
        assert!(matches!(
            guest.audit.noted()[..],
            [Noted::Spurious(Some(7))]
        ));
        // A right that a device or the processor itself gave.
        let mut guest = Guest::new();
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RO);
        guest.touch(0, AccessKind::Read);
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RW);
        guest.touch(0, AccessKind::Write);
        assert!(matches!(guest.audit.noted()[..], [Noted::Spurious(None)]));
    }
}
