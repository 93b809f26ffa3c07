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
//! fault and nothing else. Only entries of user pages that belong to one address space are kept.
//!
//! The caller decides when to compare ([`Audit::judge`]): a kernel may be late as long as it has
//! not finished what it does.

use crate::entry::attr;
use crate::event::{AccessKind, Context};
use crate::format::{Format, Step, Translation, Walk};
use crate::memory::GuestMemory;
use std::collections::{BTreeMap, BTreeSet};

/// Pages of a core that are remembered in front of its TLB.
const RECENT: usize = 1024;
/// [`Key::what`] of an entry that points to a table: this and the power of two that it covers.
const TABLE: u8 = 64;
/// Changes of an entry that are kept.
const CHANGES: usize = 8;
/// Rights that a processor grants; [`attr::NO_EXECUTE`] takes one away.
const GRANTS: u16 = attr::WRITE | attr::USER | attr::USER_WRITE;

/// What an instruction drops from the TLBs of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// A page under the current tag, and all entries of that tag that point to tables (x86 INVLPG).
    Page {
        /// An address in the page.
        vaddr: u64,
    },
    /// The same under another tag (x86 INVPCID type 0, ARM TLBI VAE1).
    PageOf {
        /// The tag.
        tag: u16,
        /// An address in the page.
        vaddr: u64,
    },
    /// The same under every tag (ARM TLBI VAAE1).
    PageEverywhere {
        /// An address in the page.
        vaddr: u64,
    },
    /// Everything under a tag (x86: CR3 with PCID, INVPCID type 1).
    Tag(u16),
    /// Everything (x86: CR3 without PCID, CR4.PGE toggled).
    All,
}

/// An entry's name in a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tag: u16,
    /// A page's size as a power of two, or [`TABLE`] and the power of two that an entry covers.
    what: u8,
    vaddr: u64,
}

impl Key {
    fn shift(&self) -> u32 {
        u32::from(self.what % TABLE)
    }

    fn is_table(&self) -> bool {
        self.what >= TABLE
    }
}

/// An entry of a TLB, or of the caches of upper levels.
#[derive(Clone, Debug)]
struct Held<C> {
    /// Address of the page, or of the table.
    frame: u64,
    attr: u16,
    /// The root that it was read from.
    root: u64,
    /// The words that it was read from.
    walk: Walk,
    steps: usize,
    /// The changes of such a word, as [`mark`] keeps them.
    changed: Vec<C>,
}

impl<C> Held<C> {
    fn steps(&self) -> &[Step] {
        &self.walk.steps()[..self.steps]
    }
}

/// A page that a core used a short time ago.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    page: u64,
    frame: u64,
    attr: u16,
    /// [`Core::era`] when it was used.
    era: u64,
}

#[derive(Clone, Debug)]
struct Core<C> {
    context: Context,
    entries: BTreeMap<Key, Held<C>>,
    /// Tags and [`Key::what`] of entries that there are or were.
    kinds: BTreeSet<(u16, u8)>,
    /// Entries of which a word has changed; some of them may be gone.
    suspects: BTreeSet<Key>,
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
    /// The root that it was read from.
    pub root: u64,
    /// The root that the core has now.
    pub now_root: u64,
    /// What the tables give now where they differ.
    pub now: Option<Translation>,
    /// How they differ.
    pub wrong: Wrong,
    /// The changes since it was read: the first and the last ones. Empty if no store was seen.
    pub changed: Vec<C>,
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
    memory: M,
    cores: Vec<Core<C>>,
    /// By page of physical memory: what it translates, if it has been a table.
    tables: BTreeMap<u64, Vec<Reach>>,
    /// A bit for each page of physical memory: it is in `tables`.
    marked: Vec<u64>,
    counts: Counts,
}

impl<M: GuestMemory, C: Clone> Audit<M, C> {
    /// Empty TLBs of so many cores.
    pub fn new(format: Format, cores: usize, memory: M) -> Self {
        let core = Core {
            context: Context::default(),
            entries: BTreeMap::new(),
            kinds: BTreeSet::new(),
            suspects: BTreeSet::new(),
            recent: vec![Recent::default(); RECENT],
            era: 1,
        };
        Self {
            format,
            memory,
            cores: vec![core; cores],
            tables: BTreeMap::new(),
            marked: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// `core` translates by `context` from now on; `Context::asid` is the tag of its entries.
    /// Nothing is dropped: entries of the tag that another root brought in are usable, and
    /// compared. `change` describes that.
    pub fn context(&mut self, core: usize, context: Context, change: impl FnOnce() -> C) {
        let this = &mut self.cores[core];
        let old = std::mem::replace(&mut this.context, context);
        if (old.root, old.asid) == (context.root, context.asid) {
            return;
        }
        this.era += 1;
        let mut change = Some(change);
        let mut made: Option<C> = None;
        for (key, held) in under(&mut this.entries, context.asid) {
            if held.root == context.root {
                continue;
            }
            if let Some(make) = change.take() {
                made = Some(make());
            }
            if let Some(change) = &made {
                mark(held, change);
                this.suspects.insert(*key);
            }
        }
    }

    /// An access that succeeded in the guest, and the physical address that it used, if known.
    #[inline(always)]
    pub fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let this = &self.cores[core];
        let page = vaddr >> 12;
        let recent = this.recent[page as usize % RECENT];
        let same = recent.page == page && recent.era == this.era;
        if same
            && allows(recent.attr, kind)
            && paddr.is_none_or(|paddr| paddr >> 12 == recent.frame)
        {
            return;
        }
        self.look(core, kind, vaddr, paddr);
    }

    #[inline(never)]
    fn look(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let this = &mut self.cores[core];
        if !this.context.paging {
            return;
        }
        let tag = this.context.asid;
        let mut refused = None;
        for &shift in self.format.sizes() {
            let key = Key {
                tag,
                what: shift as u8,
                vaddr: floor(vaddr, shift),
            };
            let Some(held) = this.entries.get(&key) else {
                continue;
            };
            if !allows(held.attr, kind) {
                refused = Some((key, held.attr));
                continue;
            }
            let found = held.frame | vaddr & ((1 << shift) - 1);
            if paddr.is_some_and(|paddr| paddr != found) {
                self.counts.diverged += 1;
                return;
            }
            this.recent[(vaddr >> 12) as usize % RECENT] = Recent {
                page: vaddr >> 12,
                frame: found >> 12,
                attr: held.attr,
                era: this.era,
            };
            return;
        }
        let walk = self.format.walk(&self.memory, &this.context, vaddr);
        let explained = walk.result.ok().filter(|page| {
            let found = page.frame | vaddr & ((1 << page.shift) - 1);
            paddr.is_none_or(|paddr| paddr == found)
        });
        let Some(page) = explained else {
            self.counts.unexplained += 1;
            return;
        };
        if page.attr & (attr::USER | attr::GLOBAL) != attr::USER {
            return;
        }
        if let Some((key, had)) = refused {
            // The right to write that comes with the first write is no fault.
            let first_write = kind == AccessKind::Write && had & attr::USER != 0;
            let clean = self.cores[core].entries[&key]
                .walk
                .steps()
                .last()
                .is_some_and(|leaf| !self.format.caches_writes(leaf.value));
            if !(first_write && clean) {
                self.counts.spurious += 1;
            }
            self.cores[core].entries.remove(&key);
        }
        self.fill(core, vaddr, &walk, page);
    }

    /// Takes a page into the TLB, and the entries on the way to it.
    fn fill(&mut self, core: usize, vaddr: u64, walk: &Walk, page: Translation) {
        let this = &mut self.cores[core];
        let (tag, root) = (this.context.asid, this.context.root);
        let steps = walk.steps();
        let mut held = Held {
            frame: page.frame,
            attr: page.attr & (GRANTS | attr::NO_EXECUTE),
            root,
            walk: *walk,
            steps: steps.len(),
            changed: Vec::new(),
        };
        if steps
            .last()
            .is_some_and(|leaf| !self.format.caches_writes(leaf.value))
        {
            held.attr &= !(attr::WRITE | attr::USER_WRITE);
        }
        for count in 1..steps.len() {
            let shift = self.format.level_shift(steps[count - 1].level);
            let key = Key {
                tag,
                what: TABLE + shift as u8,
                vaddr: floor(vaddr, shift),
            };
            if let Some((frame, attr)) = self.format.table(&steps[..count]) {
                this.kinds.insert((tag, key.what));
                this.entries.entry(key).or_insert_with(|| Held {
                    frame,
                    attr,
                    steps: count,
                    ..held.clone()
                });
            }
        }
        let key = Key {
            tag,
            what: page.shift as u8,
            vaddr: floor(vaddr, page.shift),
        };
        this.recent[(vaddr >> 12) as usize % RECENT] = Recent {
            page: vaddr >> 12,
            frame: (held.frame | vaddr & ((1 << page.shift) - 1)) >> 12,
            attr: held.attr,
            era: this.era,
        };
        this.kinds.insert((tag, key.what));
        this.entries.insert(key, held);
        self.counts.filled += 1;
        for step in steps {
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
                    for &(tag, what) in &core.kinds {
                        let key = |vaddr| Key { tag, what, vaddr };
                        let range = key(floor(first, key(0).shift()))..=key(last);
                        for (key, held) in core.entries.range_mut(range) {
                            let mut steps = held.steps().iter();
                            let Some(step) = steps.find(|step| step.paddr == at) else {
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
        let page = |key: &Key, vaddr| key.is_table() || floor(vaddr, key.shift()) == key.vaddr;
        let current = this.context.asid;
        match what {
            Drop::All => {
                this.entries.clear();
                this.kinds.clear();
            }
            Drop::Tag(tag) => this.entries.retain(|key, _| key.tag != tag),
            Drop::Page { vaddr } => {
                let gone = |key: &Key| key.tag == current && page(key, vaddr);
                this.entries.retain(|key, _| !gone(key));
            }
            Drop::PageOf { tag, vaddr } => {
                let gone = |key: &Key| key.tag == tag && page(key, vaddr);
                this.entries.retain(|key, _| !gone(key));
            }
            Drop::PageEverywhere { vaddr } => this.entries.retain(|key, _| !page(key, vaddr)),
        }
        let Core {
            entries, suspects, ..
        } = this;
        suspects.retain(|key| entries.contains_key(key));
    }

    /// `core` takes a page fault, which drops what it has for the address (SDM volume 3, 4.10.4.1).
    pub fn fault(&mut self, core: usize, vaddr: u64) {
        let this = &mut self.cores[core];
        this.era += 1;
        let tag = this.context.asid;
        let levels = (0..self.format.levels()).map(|level| self.format.level_shift(level));
        let tables = levels.map(|shift| TABLE + shift as u8);
        let pages = self.format.sizes().iter().map(|&shift| shift as u8);
        for what in pages.chain(tables) {
            let vaddr = floor(vaddr, u32::from(what % TABLE));
            this.entries.remove(&Key { tag, what, vaddr });
        }
    }

    /// Whether any core holds entries of which a word has changed.
    pub fn suspects(&self) -> bool {
        self.cores.iter().any(|core| !core.suspects.is_empty())
    }

    /// Compares the entries that `core` can use and of which a word has changed. Those that are
    /// wrong, and whose changes are `done`, are returned, and dropped so that they are returned once.
    pub fn judge(&mut self, core: usize, done: impl Fn(&C) -> bool) -> Vec<Missing<C>> {
        let mut missing = Vec::new();
        let tag = self.cores[core].context.asid;
        let suspects: Vec<Key> = self.cores[core].suspects.iter().copied().collect();
        self.counts.audits += u64::from(suspects.iter().any(|key| key.tag == tag));
        for key in suspects.into_iter().filter(|key| key.tag == tag) {
            let held = self.cores[core].entries.get(&key);
            if held.is_none_or(|held| held.changed.is_empty()) {
                self.cores[core].suspects.remove(&key);
                continue;
            }
            self.counts.compared += 1;
            match self.compare(core, &key) {
                Some(found) if found.changed.iter().all(&done) => {
                    missing.push(found);
                    self.forget(core, &key);
                }
                Some(_) => {}
                None => {
                    self.cores[core].suspects.remove(&key);
                    if let Some(held) = self.cores[core].entries.get_mut(&key) {
                        held.changed.clear();
                    }
                }
            }
        }
        missing
    }

    /// Compares every entry that `core` can use, and returns those that are wrong though no store
    /// was seen that made them so: a device has written the tables, or the audit is at fault.
    pub fn sweep(&mut self, core: usize) -> Vec<Missing<C>> {
        let tag = self.cores[core].context.asid;
        let keys: Vec<Key> = under(&mut self.cores[core].entries, tag)
            .filter(|(_, held)| held.changed.is_empty())
            .map(|(key, _)| *key)
            .collect();
        self.counts.audits += 1;
        self.counts.compared += keys.len() as u64;
        let mut missing = Vec::new();
        for key in keys {
            if let Some(found) = self.compare(core, &key) {
                missing.push(found);
                self.forget(core, &key);
            }
        }
        missing
    }

    fn forget(&mut self, core: usize, key: &Key) {
        let this = &mut self.cores[core];
        this.entries.remove(key);
        this.suspects.remove(key);
        this.era += 1;
    }

    /// How an entry differs from the tables that the core has now.
    fn compare(&self, core: usize, key: &Key) -> Option<Missing<C>> {
        let context = &self.cores[core].context;
        let held = self.cores[core].entries.get(key)?;
        let (wrong, now) = match key.is_table() {
            true => self.compare_table(context, key, held)?,
            false => self.compare_page(context, key, held)?,
        };
        Some(Missing {
            core,
            vaddr: key.vaddr,
            shift: key.shift(),
            frame: held.frame,
            attr: held.attr,
            table: key.is_table(),
            root: held.root,
            now_root: context.root,
            now,
            wrong,
            changed: held.changed.clone(),
        })
    }

    fn compare_page(
        &self,
        context: &Context,
        key: &Key,
        held: &Held<C>,
    ) -> Option<(Wrong, Option<Translation>)> {
        let end = 1u64 << key.shift();
        let mut within = 0;
        // The tables may have smaller pages there by now.
        while within < end {
            let vaddr = key.vaddr + within;
            let Ok(page) = self.format.walk(&self.memory, context, vaddr).result else {
                return Some((Wrong::Gone, None));
            };
            let offset = vaddr & ((1 << page.shift) - 1);
            if page.frame + offset != held.frame + within {
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
        let now = walk.steps().get(..held.steps);
        let found = now.and_then(|steps| self.format.table(steps));
        match found {
            None => Some((Wrong::Gone, walk.result.ok())),
            Some((frame, _)) if frame != held.frame => Some((Wrong::Other, walk.result.ok())),
            Some((_, rights)) if more(held.attr, rights) => Some((Wrong::Rights, None)),
            Some(_) => None,
        }
    }
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
    tag: u16,
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
            let mut audit = Audit::new(format, 2, SparseMemory::new());
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
            guest.audit.invalidate(0, Drop::Page { vaddr: VADDR });
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
            Drop::Page { vaddr: VADDR + 8 },
            Drop::PageEverywhere { vaddr: VADDR },
            Drop::PageOf {
                tag: 0,
                vaddr: VADDR,
            },
            Drop::Tag(0),
            Drop::All,
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
            Drop::Page {
                vaddr: VADDR + 0x1000,
            },
            Drop::Tag(1),
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
        guest.audit.invalidate(0, Drop::Tag(1));
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
        guest.audit.memory.write_u64(LEAF(), 0x90_000 | RW | 0x100);
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
        guest.audit.invalidate(0, Drop::All);
        access(&mut guest, 0xc0_000);
        assert_eq!(guest.audit.counts().unexplained, 1);
    }
}
