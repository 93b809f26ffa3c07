// SPDX-License-Identifier: GPL-2.0-or-later
//! Address spaces and the processes behind them; what is dropped, and when.

use super::{Bucket, Core, Machine, Space};
use crate::description::Tag;
use crate::entry::Entry;
use crate::entry::attr;
use crate::event::{AccessKind, Context, Identity, Invalidation, Privilege, SEGMENTS_MAX, Segment};
use crate::memory::GuestMemory;
use crate::tlb::{CONTEXT_MASK, Tlb};

/// Numbers of address spaces: as many as tags of 12 bits.
const SPACES_MAX: usize = 1 << 12;

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
            ccid: 0,
            segments: Vec::new(),
            bucket,
            faults: 0,
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
        let old = self.cores[core].context;
        let switched = (old.root, old.root_high, old.asid, old.paging)
            != (
                context.root,
                context.root_high,
                context.asid,
                context.paging,
            );
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
        let tagless = self.fixed.tag == Tag::None;
        let flushed = self.fixed.flushed_on_switch;
        let this = &mut self.cores[core];
        this.context = context;
        this.space = space;
        this.faults = waiting;
        this.begin_fault_handling();
        this.counters.context_switches += 1;
        let mut dropped = 0;
        if tagless {
            dropped += this.drop_if(|entry, _| entry.attr & attr::GLOBAL == 0);
            this.drop_walk_cache();
        }
        for (side, flush) in flushed[0].iter().enumerate() {
            if *flush {
                dropped += this.l1[side].clear();
            }
        }
        for (number, tlb) in this.l2.iter_mut().enumerate() {
            if flushed[1][number] {
                dropped += tlb.clear();
            }
        }
        this.counters.switched_out += dropped;
        self.renew(core);
    }

    /// Sets what a core derives from its context and its address space.
    pub(super) fn renew(&mut self, core: usize) {
        let ccid = self.spaces[usize::from(self.cores[core].space)].ccid;
        let this = &mut self.cores[core];
        let own = match self.fixed.tag {
            Tag::AddressSpace => this.space,
            Tag::Hardware => this.context.asid & CONTEXT_MASK as u16,
            Tag::None => 0,
        };
        this.ccid = ccid;
        this.tags = match &self.fixed.babelfish {
            None => [own, own],
            Some(fish) if fish.hw => [own, ccid],
            Some(_) => [ccid, ccid],
        };
        let l1_shared = this.tags[0] != own || self.fixed.babelfish.as_ref().is_some_and(|f| !f.hw);
        this.fast =
            this.context.paging && !l1_shared && self.fixed.domains.is_none() && !self.check;
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
        } else if self.spaces[usize::from(space)].ccid != 0 {
            self.masks.forget(space);
        }
        let bucket = self.bucket(identity, root);
        let ccid = self.masks.ccid(identity.cohort);
        let known = &mut self.spaces[usize::from(space)];
        let other_group = known.ccid != ccid;
        known.identity = identity;
        known.ccid = ccid;
        known.bucket = bucket;
        if other_group && old.process == 0 {
            // What it brought in was under another CCID.
            self.drop_space_everywhere(space);
        }
        for core in 0..self.cores.len() {
            self.renew(core);
        }
    }

    pub(super) fn change_segments(&mut self, root: u64, segments: &[Segment]) {
        assert!(
            segments.len() <= SEGMENTS_MAX,
            "a process has at most {SEGMENTS_MAX} segments"
        );
        let space = self.space_of(root);
        self.spaces[usize::from(space)].segments = segments.to_vec();
        // The L1 TLBs hold addresses of the old layout.
        self.drop_space_everywhere(space);
    }

    /// ASLR-HW: "determines which segment is being accessed, and then adds the corresponding entry
    /// in diff_i_offset[]" (ISCA'20 section IV-D).
    pub(super) fn to_cohort_layout(&self, core: usize, vaddr: u64) -> u64 {
        if !self.fixed.babelfish.as_ref().is_some_and(|fish| fish.hw) {
            return vaddr;
        }
        let segments = &self.spaces[usize::from(self.cores[core].space)].segments;
        let inside = segments
            .iter()
            .find(|part| (part.start..part.end).contains(&vaddr));
        inside.map_or(vaddr, |part| vaddr.wrapping_add(part.offset))
    }

    pub(super) fn copied_page(&mut self, root: u64, vaddr: u64) {
        let space = self.space_of(root);
        let ccid = self.spaces[usize::from(space)].ccid;
        if ccid == 0 {
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
        self.copy_page(ccid, class, vaddr, space);
        // "Irrespective of whether this was the process' first CoW event in this MaskPage, the OS
        // invalidates from the local and remote TLBs the TLB entry for this VPN that has the O bit
        // equal to zero" (ISCA'20 section III-A).
        self.drop_shared_page(ccid, vaddr);
    }

    pub(super) fn retire_space(&mut self, root: u64) {
        if let Some(&space) = self.by_root.get(&root) {
            self.forget_space(space);
        }
    }

    fn forget_space(&mut self, space: u16) {
        self.drop_space_everywhere(space);
        self.masks.forget(space);
        self.filled.forget(space);
        let known = &mut self.spaces[usize::from(space)];
        known.segments.clear();
        known.faults = 0;
    }

    /// Whether an entry of a level belongs to an address space.
    fn belongs(&self, space: u16, level: usize) -> impl Fn(&Entry, u16) -> bool + use<M> {
        let shared = match &self.fixed.babelfish {
            None => false,
            Some(fish) => level == 1 || !fish.hw,
        };
        let known = &self.spaces[usize::from(space)];
        let (asid, ccid, tag) = (known.asid & CONTEXT_MASK as u16, known.ccid, self.fixed.tag);
        move |entry, context| {
            if entry.attr & attr::GLOBAL != 0 {
                false
            } else if shared {
                // A shared entry may be this space's as well as any other's of its cohort.
                context == ccid && (entry.attr & attr::OWNED == 0 || entry.owner == space)
            } else {
                match tag {
                    Tag::AddressSpace => context == space,
                    Tag::Hardware => context == asid,
                    Tag::None => entry.owner == space,
                }
            }
        }
    }

    fn drop_space_everywhere(&mut self, space: u16) {
        let (l1, l2) = (self.belongs(space, 0), self.belongs(space, 1));
        for core in &mut self.cores {
            let mut dropped = 0;
            for tlb in &mut core.l1 {
                dropped +=
                    tlb.remove_if(|entry, context| l1(entry, context) && entry.owner == space);
            }
            for tlb in &mut core.l2 {
                dropped +=
                    tlb.remove_if(|entry, context| l2(entry, context) && entry.owner == space);
            }
            core.counters.invalidated += dropped;
            core.drop_walk_cache();
        }
    }

    pub(super) fn invalidate_in(&mut self, core: usize, what: Invalidation) {
        let mut dropped = 0;
        match what {
            Invalidation::Page { vaddr } => {
                self.drop_page(core, vaddr);
                return;
            }
            Invalidation::PageAllSpaces { vaddr } => {
                self.drop_address(core, vaddr);
                return;
            }
            Invalidation::SharedPage { vaddr, cohort } => {
                if let Some(ccid) = self.masks.ccid_of(cohort) {
                    self.drop_shared_page_in(core, ccid, vaddr);
                }
                return;
            }
            Invalidation::AddressSpace { root } => {
                let Some(&space) = self.by_root.get(&root) else {
                    return;
                };
                let (l1, l2) = (self.belongs(space, 0), self.belongs(space, 1));
                let this = &mut self.cores[core];
                dropped += this
                    .l1
                    .iter_mut()
                    .map(|tlb| tlb.remove_if(&l1))
                    .sum::<u64>();
                dropped += this
                    .l2
                    .iter_mut()
                    .map(|tlb| tlb.remove_if(&l2))
                    .sum::<u64>();
            }
            Invalidation::AllButGlobal => {
                dropped += self.cores[core].drop_if(|entry, _| entry.attr & attr::GLOBAL == 0);
            }
            Invalidation::All => {
                let this = &mut self.cores[core];
                dropped += this
                    .l1
                    .iter_mut()
                    .chain(&mut this.l2)
                    .map(Tlb::clear)
                    .sum::<u64>();
            }
        }
        let this = &mut self.cores[core];
        this.counters.invalidated += dropped;
        this.drop_walk_cache();
    }

    /// One page of the current address space, and global entries of it.
    pub(super) fn drop_page(&mut self, core: usize, vaddr: u64) {
        let there = self.to_cohort_layout(core, vaddr);
        let space = self.cores[core].space;
        let (l1, l2) = (self.belongs(space, 0), self.belongs(space, 1));
        let global = |entry: &Entry| entry.attr & attr::GLOBAL != 0;
        let this = &mut self.cores[core];
        let mut dropped = 0;
        for tlb in &mut this.l1 {
            dropped += tlb.remove_page(vaddr, |entry, tag| global(entry) || l1(entry, tag));
        }
        for tlb in &mut this.l2 {
            dropped += tlb.remove_page(there, |entry, tag| global(entry) || l2(entry, tag));
        }
        this.counters.invalidated += dropped;
        this.drop_walk_cache();
    }

    /// One page, whatever the tag.
    pub(super) fn drop_address(&mut self, core: usize, vaddr: u64) {
        let there = self.to_cohort_layout(core, vaddr);
        let this = &mut self.cores[core];
        let mut dropped = 0;
        for tlb in &mut this.l1 {
            dropped += tlb.remove_page(vaddr, |_, _| true);
        }
        for tlb in &mut this.l2 {
            dropped += tlb.remove_page(there, |_, _| true);
        }
        this.counters.invalidated += dropped;
        this.drop_walk_cache();
    }

    /// The shared entry of a page, in all TLBs of all cores.
    pub(super) fn drop_shared_page(&mut self, ccid: u16, vaddr: u64) {
        for core in 0..self.cores.len() {
            self.drop_shared_page_in(core, ccid, vaddr);
        }
    }

    fn drop_shared_page_in(&mut self, core: usize, ccid: u16, vaddr: u64) {
        let page = |tlb: &mut Tlb| {
            tlb.remove_page(vaddr, |entry, context| {
                context == ccid && entry.attr & (attr::OWNED | attr::GLOBAL) == 0
            })
        };
        self.drop_shared(core, page);
    }

    /// The shared entries of a range, in all TLBs of all cores.
    pub(super) fn drop_shared_range(&mut self, ccid: u16, start: u64, shift: u32) {
        let range = |tlb: &mut Tlb| {
            tlb.remove_if(|entry, context| {
                context == ccid
                    && entry.page >> shift == start >> shift
                    && entry.attr & (attr::OWNED | attr::GLOBAL) == 0
            })
        };
        for core in 0..self.cores.len() {
            self.drop_shared(core, range);
        }
    }

    fn drop_shared(&mut self, core: usize, drop: impl Fn(&mut Tlb) -> u64) {
        let Some(hw) = self.fixed.babelfish.as_ref().map(|fish| fish.hw) else {
            return;
        };
        let this = &mut self.cores[core];
        let mut dropped = this.l2.iter_mut().map(&drop).sum::<u64>();
        if !hw {
            dropped += this.l1.iter_mut().map(&drop).sum::<u64>();
        }
        this.counters.invalidated += dropped;
    }
}

impl Core {
    fn drop_if(&mut self, mut which: impl FnMut(&Entry, u16) -> bool) -> u64 {
        self.l1
            .iter_mut()
            .chain(&mut self.l2)
            .map(|tlb| tlb.remove_if(&mut which))
            .sum()
    }

    fn drop_walk_cache(&mut self) {
        for cache in &mut self.walk_cache {
            cache.clear();
        }
    }
}
