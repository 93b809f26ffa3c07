// SPDX-License-Identifier: GPL-2.0-or-later
//! Address spaces and the processes behind them; what is dropped, and when.

use super::{Bucket, Core, Machine, Space};
use crate::description::Tag;
use crate::entry::{Entry, SIZES_MAX, attr, size_class};
use crate::event::{
    AccessKind, Context, Identity, Invalidation, Member, Privilege, SEGMENTS_MAX, Segment,
};
use crate::levels::Levels;
use crate::memory::GuestMemory;
use crate::tlb::CONTEXT_MASK;
use crate::tlb::mechanism::{Drop, Event};
use crate::tlbi::{self, Tables};

/// Numbers of address spaces: as many as tags of 12 bits.
const SPACES_MAX: usize = 1 << 12;
/// A page of a mark, and all addresses of a group, as powers of two.
const PAGE: u32 = 12;
const WHOLE: u32 = 63;

impl<M: GuestMemory> Machine<M> {
    /// The number of the address space with this root; a new one if it is not known. When all
    /// numbers are taken the one given longest ago is given again, its entries dropped, as a
    /// kernel does with PCIDs.
    fn space_of(&mut self, root: u64) -> u16 {
        if let Some(&space) = self.by_root.get(&root) {
            return space;
        }
        let bucket = self.bucket(Identity::default(), root);
        let space = Space {
            root,
            asid: 0,
            identity: Identity::default(),
            bucket,
            faults: 0,
            wrote: None,
        };
        let number = if self.spaces.len() < SPACES_MAX {
            self.spaces.push(space);
            (self.spaces.len() - 1) as u16
        } else {
            while self.cores.iter().any(|core| core.space == self.recycle) {
                self.recycle = (self.recycle + 1) % SPACES_MAX as u16;
            }
            let number = self.recycle;
            self.recycle = (self.recycle + 1) % SPACES_MAX as u16;
            self.forget_space(number);
            let old = std::mem::replace(&mut self.spaces[usize::from(number)], space);
            self.by_root.remove(&old.root);
            number
        };
        self.by_root.insert(root, number);
        self.tell(Event::Identity(number, Identity::default()));
        number
    }

    /// Where the counters of a process go. Address spaces of unknown processes have one each.
    fn bucket(&mut self, identity: Identity, root: u64) -> usize {
        let root = if identity.process == 0 { root } else { 0 };
        let next = self.buckets.len();
        let bucket = *self.bucket_of.entry((identity, root)).or_insert(next);
        if bucket == next {
            self.buckets.push(Bucket {
                identity,
                root,
                counters: Default::default(),
            });
        }
        bucket
    }

    pub(super) fn change_context(&mut self, core: usize, context: Context) {
        let ran = self.cores[core].ran;
        let now = (context.root, context.asid, context.paging);
        let switched = context.has_process() && (ran.root, ran.asid, ran.paging) != now;
        if !switched {
            self.cores[core].context = context;
            self.renew(core);
            return;
        }
        let faults = self.cores[core].faults;
        if faults > 0 {
            self.cores[core].count_fault_handling();
        }
        self.cores[core].clock.drain();
        self.settle(core);
        let before = usize::from(self.cores[core].space);
        self.spaces[before].faults += std::mem::take(&mut self.cores[core].faults);
        let space = self.space_of(context.root);
        self.spaces[usize::from(space)].asid = context.asid;
        let waiting = std::mem::take(&mut self.spaces[usize::from(space)].faults);
        let this = &mut self.cores[core];
        this.context = context;
        this.ran = context;
        this.space = space;
        this.faults = waiting;
        this.begin_fault_handling();
        this.counters.context_switches += 1;
        let mut dropped = 0;
        if self.fixed.tag == Tag::None {
            dropped += self.drop_entries(core, None, |_, entry, _| entry.attr & attr::GLOBAL == 0);
            self.cores[core].drop_walk_cache();
        }
        dropped += self.flush_on_switch(core);
        let this = &mut self.cores[core];
        this.counters.switched_out += dropped;
        this.sure.forget();
        self.turn(core);
        self.renew(core);
    }

    /// The process that a core runs is another's than before, or is known now: mechanisms may drop
    /// what it must not use.
    fn turn(&mut self, core: usize) {
        let identity = self.spaces[usize::from(self.cores[core].space)].identity;
        for number in 0..self.mechanisms.len() {
            let counts = &mut self.cores[core].counters.mechanisms;
            let Some(leave) = self.mechanisms[number].turned(core, identity, counts) else {
                continue;
            };
            let mut dropped = 0;
            if let Some(bits) = leave.drops {
                let all = bits == 0;
                dropped =
                    self.drop_entries(core, None, |_, entry, _| all || entry.attr & bits != 0);
                if all {
                    self.cores[core].drop_walk_cache();
                }
            }
            let this = &mut self.cores[core];
            this.counters.switched_out += dropped;
            self.mechanisms[number].left(dropped, &mut this.counters.mechanisms);
            let then = this.clock.now + leave.time;
            this.clock.skip_to(then);
        }
    }

    /// Empties the arrays that a description calls `flushed_on_switch`.
    fn flush_on_switch(&mut self, core: usize) -> u64 {
        let this = &mut self.cores[core];
        let flushed = &self.fixed.flushed_on_switch;
        let mut dropped = 0;
        let levels = std::iter::once(&mut this.l1[..]);
        let levels = levels.chain(this.behind.iter_mut().map(Vec::as_mut_slice));
        for (tlbs, flushed) in levels.zip(flushed.iter()) {
            for (tlb, _) in tlbs.iter_mut().zip(flushed).filter(|(_, flush)| **flush) {
                dropped += tlb.clear();
            }
        }
        if flushed[self.fixed.last_level] != [false; 2] {
            for mechanism in &mut self.mechanisms {
                dropped += mechanism.dropped(core, None, &mut |_, _| true);
            }
        }
        dropped
    }

    /// Sets what a core derives from its context and its address space.
    pub(super) fn renew(&mut self, core: usize) {
        let this = &mut self.cores[core];
        let own = match self.fixed.tag {
            Tag::AddressSpace => this.space,
            Tag::Hardware => this.context.asid & CONTEXT_MASK as u16,
            Tag::None => 0,
        };
        let sharing = |level| {
            self.mechanisms
                .iter()
                .find_map(|m| m.sharing(core, level, this.space))
        };
        for level in 0..=self.fixed.last_level {
            (this.tags[level], this.shared_tags[level]) = match sharing(level) {
                None => (own, 0),
                Some(sharing) if sharing.apart => (own, sharing.tag),
                Some(sharing) => (sharing.tag, 0),
            };
        }
        this.fast = this.context.paging && self.fixed.judged_bits != u16::MAX && !self.check;
        let user = match this.context.privilege {
            Privilege::User => attr::USER,
            Privilege::Unknown | Privilege::Kernel => 0,
        };
        let write = if user != 0 {
            attr::USER_WRITE
        } else {
            attr::WRITE
        };
        let fetch = AccessKind::Fetch as usize;
        let (read, store) = (AccessKind::Read as usize, AccessKind::Write as usize);
        this.decide[fetch] = user | attr::NO_EXECUTE;
        this.wanted[fetch] = user;
        this.decide[read] = user;
        this.wanted[read] = user;
        this.decide[store] = user | write;
        this.wanted[store] = user | write;
    }

    pub(super) fn change_identity(&mut self, root: u64, identity: Identity) {
        let space = self.space_of(root);
        let old = self.spaces[usize::from(space)].identity;
        if old == identity {
            return;
        }
        for core in 0..self.cores.len() {
            if self.cores[core].space == space {
                self.settle(core);
            }
        }
        if old.process != 0 {
            self.forget_space(space);
        }
        self.tell(Event::Identity(space, identity));
        let bucket = self.bucket(identity, root);
        let known = &mut self.spaces[usize::from(space)];
        known.identity = identity;
        known.bucket = bucket;
        if old.cohort != identity.cohort && old.process == 0 && !self.fixed.exact {
            // What it brought in was another cohort's.
            self.drop_space_everywhere(space);
        }
        for core in 0..self.cores.len() {
            if self.cores[core].space == space {
                self.cores[core].sure.forget();
                self.turn(core);
            }
            self.renew(core);
        }
    }

    pub(super) fn change_segments(&mut self, root: u64, segments: &[Segment]) {
        assert!(
            segments.len() <= SEGMENTS_MAX,
            "a process has at most {SEGMENTS_MAX} segments"
        );
        let space = self.space_of(root);
        self.tell(Event::Segments(space, segments));
        // The L1 TLBs hold addresses of the old layout.
        self.drop_space_everywhere(space);
    }

    pub(super) fn copied_page(&mut self, root: u64, vaddr: u64) {
        let space = self.space_of(root);
        if self.mechanisms.is_empty() {
            return;
        }
        // The size of the page decides which tables' MaskPage it is; what is mapped says it.
        let context = Context {
            paging: true,
            root,
            ..self.cores[self.last_core].context
        };
        let walk = self.format.walk(&self.memory, &context, vaddr);
        let class = walk
            .result
            .map_or(0, |page| crate::entry::size_class(page.attr));
        self.tell(Event::PrivateCopy(space, vaddr, class));
    }

    /// The handler of a fault returns, and the address space of `core` may write at `vaddr` now.
    pub(super) fn wrote(&mut self, core: usize, vaddr: u64) {
        if self.mechanisms.is_empty() {
            return;
        }
        let (there, _) = self.relocate(core, vaddr);
        let walk = self
            .format
            .walk(&self.memory, &self.cores[core].context, there);
        self.tell(Event::Wrote(self.cores[core].space, there, &walk));
    }

    /// Tells the mechanisms, and drops what they say, as an event of the core that was last heard of.
    fn tell(&mut self, event: Event) {
        let core = self.last_core;
        for number in 0..self.mechanisms.len() {
            let counts = &mut self.cores[core].counters.mechanisms;
            let drop = self.mechanisms[number].event(event, counts);
            self.perform(core, drop);
        }
    }

    pub(super) fn retire_space(&mut self, root: u64) {
        if let Some(&space) = self.by_root.get(&root) {
            self.forget_space(space);
        }
    }

    fn forget_space(&mut self, space: u16) {
        self.drop_space_everywhere(space);
        if self.fixed.exact {
            // What it shared stays until the kernel drops it.
            for core in &mut self.cores {
                let levels = std::iter::once(&mut core.l1[..]);
                let levels = levels.chain(core.behind.iter_mut().map(Vec::as_mut_slice));
                levels.flatten().for_each(|tlb| tlb.disown(space));
            }
        }
        self.tell(Event::Gone(space));
        self.filled.forget(space);
        self.spaces[usize::from(space)].faults = 0;
        self.spaces[usize::from(space)].wrote = None;
    }

    /// By level: which entries of a core belong to an address space. Those that the kernel lets it
    /// share are known if it runs there.
    fn belongs(&self, core: usize, space: u16) -> Levels<Belongs> {
        let asid = self.spaces[usize::from(space)].asid & CONTEXT_MASK as u16;
        let own = match self.fixed.tag {
            Tag::AddressSpace => Belongs::under(space),
            Tag::Hardware => Belongs::under(asid),
            Tag::None => Belongs {
                tag: None,
                owner: Some(space),
                owned: 0,
                shared_tag: None,
            },
        };
        let runs = self.cores[core].space == space;
        Levels::from_fn(self.fixed.last_level + 1, |level| {
            let mut mechanisms = self.mechanisms.iter();
            match mechanisms.find_map(|m| m.sharing(core, level, space)) {
                None => own,
                Some(sharing) if sharing.apart => Belongs {
                    owner: Some(space),
                    owned: sharing.owned,
                    shared_tag: Some(if runs { sharing.tag } else { 0 }),
                    ..own
                },
                Some(sharing) => Belongs {
                    tag: Some(sharing.tag),
                    owner: Some(space),
                    owned: sharing.owned,
                    shared_tag: None,
                },
            }
        })
    }

    fn drop_space_everywhere(&mut self, space: u16) {
        for core in 0..self.cores.len() {
            let belongs = self.belongs(core, space);
            let dropped = self.drop_entries(core, None, |level, entry, tag| {
                let Belongs { shared_tag, .. } = belongs[level];
                let others = shared_tag.is_some() && belongs[level].shares(entry);
                belongs[level].holds(entry, tag) && entry.owner == space && !others
            });
            self.cores[core].invalidated(dropped);
        }
    }

    pub(super) fn invalidate_in(&mut self, core: usize, what: Invalidation) {
        let dropped = match what {
            Invalidation::Page { vaddr } => return self.drop_page(core, vaddr),
            Invalidation::PageAllSpaces { vaddr } => return self.drop_address(core, vaddr),
            Invalidation::SharedPage { vaddr, cohort } => {
                return self.tell(Event::SharedPage(vaddr, cohort));
            }
            Invalidation::SharedPages { ccid, vaddr, order } => {
                return self.drop_shared(core, ccid, vaddr, u32::from(order) + PAGE);
            }
            Invalidation::Ccid { ccid } => return self.drop_shared(core, ccid, 0, WHOLE),
            Invalidation::AddressSpace { root } => {
                let Some(&space) = self.by_root.get(&root) else {
                    return;
                };
                let belongs = self.belongs(core, space);
                // The kernel says by marks what of others' entries goes. Without its word a flush
                // is all that there is to go by.
                let exact = self.fixed.exact;
                self.drop_entries(core, None, |level, entry, tag| {
                    let belongs = belongs[level];
                    belongs.holds(entry, tag) && !(exact && belongs.shares(entry))
                })
            }
            Invalidation::Exact(what) => {
                let dropped = self.drop_exact(core, &what);
                if what.tables == Tables::Kept {
                    self.cores[core].counters.invalidated += dropped;
                    return;
                }
                dropped
            }
            Invalidation::AllButGlobal => {
                self.drop_entries(core, None, |_, entry, _| entry.attr & attr::GLOBAL == 0)
            }
            Invalidation::All => self.drop_entries(core, None, |_, _, _| true),
        };
        self.cores[core].invalidated(dropped);
    }

    /// A core runs another process, as BabelFish's kernel says, or the same with another CCID.
    pub(super) fn change_member(&mut self, core: usize, member: &Member) {
        self.tell(Event::Runs(core, member));
        self.renew(core);
    }

    /// Entries that processes share, of two to that power bytes from an address on. Entries that
    /// point to tables go, too: they have the bits of who shares.
    fn drop_shared(&mut self, core: usize, ccid: u16, vaddr: u64, shift: u32) {
        self.tell(Event::Shared(ccid, vaddr, shift.min(WHOLE)));
        self.cores[core].drop_walk_cache();
    }

    /// One page of the current address space, and global entries of it.
    pub(super) fn drop_page(&mut self, core: usize, vaddr: u64) {
        let (there, _) = self.relocate(core, vaddr);
        let belongs = self.belongs(core, self.cores[core].space);
        let dropped = self.drop_entries(core, Some((vaddr, there)), |level, entry, tag| {
            entry.attr & attr::GLOBAL != 0 || belongs[level].holds(entry, tag)
        });
        self.cores[core].invalidated(dropped);
    }

    /// One page, whatever the tag.
    fn drop_address(&mut self, core: usize, vaddr: u64) {
        let (there, _) = self.relocate(core, vaddr);
        let dropped = self.drop_entries(core, Some((vaddr, there)), |_, _, _| true);
        self.cores[core].invalidated(dropped);
    }

    /// What an instruction names by the hardware's tag. A model that numbers the address spaces, or has
    /// no tags, drops those of the address spaces that had this tag last.
    fn drop_exact(&mut self, core: usize, what: &tlbi::Drop) -> u64 {
        let mask = CONTEXT_MASK as u16;
        let all = self.spaces.iter().enumerate();
        let of_tag = all.filter(|(_, space)| what.tag == Some(space.asid));
        let spaces: Vec<_> = of_tag
            .map(|(number, _)| self.belongs(core, number as u16))
            .collect();
        let hardware = self.fixed.tag == Tag::Hardware;
        let tagged = what.tag.filter(|_| hardware).map(|tag| tag & mask);
        let shared = self.fixed.shared.clone();
        // As in a flush of an address space: what others use too goes when the kernel says so.
        let leaves = self.fixed.exact && what.range.is_none();
        // Addresses behind the first level may be of another layout.
        let moved = what.range.map_or(0, |(first, _)| {
            self.relocate(core, first).0.wrapping_sub(first)
        });
        let behind = tlbi::Drop {
            range: what
                .range
                .map(|(first, last)| (first.wrapping_add(moved), last.wrapping_add(moved))),
            ..*what
        };
        let page = match (what.range, behind.range) {
            (Some((here, last)), Some((there, _))) if here == last => Some((here, there)),
            _ => None,
        };
        // An entry may be a piece of a page.
        let mut sizes = [0; SIZES_MAX];
        sizes[..self.format.sizes().len()].copy_from_slice(self.format.sizes());
        self.drop_entries(core, page, |level, entry, tag| {
            let own = match (entry.attr & attr::GLOBAL != 0, what.tag) {
                (true, _) => what.global,
                (false, None) => true,
                (false, Some(_)) => {
                    let by_tag = !shared[level] && tagged == Some(tag);
                    by_tag
                        || spaces.iter().any(|belongs| {
                            let belongs = &belongs[level];
                            belongs.holds(entry, tag) && !(leaves && belongs.shares(entry))
                        })
                }
            };
            let what = if level == 0 { what } else { &behind };
            own && what.meets(entry.page, entry.shift)
                && what.is_of_size(sizes[size_class(entry.attr)])
        })
    }

    /// Drops what a mechanism says, after an event on `core`.
    pub(super) fn perform(&mut self, core: usize, drop: Option<Drop>) {
        let (all_cores, from_level, tag, vaddr, range, without) = match drop {
            None => return,
            Some(Drop::Address { vaddr }) => return self.drop_address(core, vaddr),
            Some(Drop::Tagged {
                all_cores,
                from_level,
                tag,
                vaddr,
                range,
                without,
            }) => (
                all_cores,
                from_level,
                tag,
                vaddr,
                range,
                without | attr::GLOBAL,
            ),
        };
        let cores = match all_cores {
            true => 0..self.cores.len(),
            false => core..core + 1,
        };
        let (page, shift) = match range {
            None => (Some((vaddr, vaddr)), 64),
            Some(shift) => (None, shift),
        };
        for core in cores {
            let dropped = self.drop_entries(core, page, |level, entry, held| {
                let inside = page.is_some() || entry.page >> shift == vaddr >> shift;
                level >= from_level && held == tag && inside && entry.attr & without == 0
            });
            self.cores[core].counters.invalidated += dropped;
        }
    }

    /// Drops from a core's TLBs, and from what mechanisms hold, the entries of which `which` says
    /// yes, given level, entry and tag; of one page only if `page` has its addresses in the layouts
    /// of L1 and of what is behind. Returns how many.
    fn drop_entries(
        &mut self,
        core: usize,
        page: Option<(u64, u64)>,
        mut which: impl FnMut(usize, &Entry, u16) -> bool,
    ) -> u64 {
        let this = &mut self.cores[core];
        this.sure.forget();
        let mut dropped = 0;
        let at = |level| {
            page.map(|(there, behind): (u64, u64)| match level {
                0 => there,
                _ => behind,
            })
        };
        let levels = std::iter::once(&mut this.l1[..]);
        let levels = levels.chain(this.behind.iter_mut().map(Vec::as_mut_slice));
        for (level, tlbs) in levels.enumerate() {
            for tlb in tlbs {
                let which = |entry: &Entry, tag| which(level, entry, tag);
                dropped += match at(level) {
                    None => tlb.remove_if(which),
                    Some(vaddr) => tlb.remove_page(vaddr, which),
                };
            }
        }
        let last = self.fixed.last_level;
        for mechanism in &mut self.mechanisms {
            let which = &mut |entry: &Entry, tag| which(last, entry, tag);
            dropped += mechanism.dropped(core, at(last), which);
        }
        dropped
    }
}

/// The entries of an address space, as a level holds them.
#[derive(Clone, Copy, Default)]
struct Belongs {
    tag: Option<u16>,
    owner: Option<u16>,
    /// Without this attribute bit an entry may be its owner's as well as any other's under its tag.
    owned: u16,
    /// The tag of such entries, if not that of the others.
    shared_tag: Option<u16>,
}

impl Belongs {
    fn under(tag: u16) -> Self {
        Self {
            tag: Some(tag),
            owner: None,
            owned: 0,
            shared_tag: None,
        }
    }

    fn shares(&self, entry: &Entry) -> bool {
        self.owned != 0 && entry.attr & self.owned == 0
    }

    fn holds(&self, entry: &Entry, tag: u16) -> bool {
        let shared = self.shares(entry);
        let own = match shared {
            true => self.shared_tag.or(self.tag),
            false => self.tag,
        };
        entry.attr & attr::GLOBAL == 0
            && own.is_none_or(|own| own == tag)
            && (shared || self.owner.is_none_or(|owner| owner == entry.owner))
    }
}

impl Core {
    /// So many entries were invalidated; what led to them goes, too.
    fn invalidated(&mut self, dropped: u64) {
        self.counters.invalidated += dropped;
        self.drop_walk_cache();
    }

    fn drop_walk_cache(&mut self) {
        for cache in &mut self.walk_cache {
            cache.clear();
        }
    }
}
