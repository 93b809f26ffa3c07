// SPDX-License-Identifier: GPL-2.0-or-later
//! The way of an access: L1 TLB, L2 TLB, page walk, then the caches.

use super::{Core, Fixed, Machine};
use crate::cache::Request;
use crate::description::DomainCheck;
use crate::entry::Entry;
use crate::entry::{attr, size_class};
use crate::event::{AccessKind, Fault};
use crate::memory::GuestMemory;
use crate::tlb::Tlb;
use crate::tlb::mechanism::babelfish::MaskPages;

/// What became of a slot that matched.
enum Verdict {
    /// A hit.
    Use,
    /// BabelFish: another process owns it. Go on looking.
    Owned,
    /// BabelFish: the process has a copy of its own. Go on looking.
    Private,
    /// The same, and neither the entry nor the MaskPage knew.
    Unknown,
    /// Its domain is closed, and that is no match. Go on looking.
    Closed,
    /// It is not what the guest has any more: drop it and go on.
    Stale,
    /// A hit that does not allow the access.
    Deny(Fault),
}

/// What a level of TLB found.
#[derive(Default)]
struct Found {
    slot: Option<usize>,
    deny: Option<Fault>,
    /// A PC bitmask was read.
    long: bool,
    /// The process has a private copy of a page of this class that no bit told of.
    unknown: Option<usize>,
}

/// What a hit ought to give.
#[derive(Clone, Copy)]
enum Expected {
    /// Nobody said: a hit is believed.
    Anything,
    /// This physical address.
    Address(u64),
    /// Nothing: the process's own tables have no page there, whatever its cohort's have.
    Absent,
}

impl Expected {
    fn address(self) -> Option<u64> {
        match self {
            Expected::Address(paddr) => Some(paddr),
            Expected::Anything | Expected::Absent => None,
        }
    }

    fn contradicts(self, found: u64) -> bool {
        match self {
            Expected::Anything => false,
            Expected::Address(paddr) => found != paddr,
            Expected::Absent => true,
        }
    }
}

/// What an access asks of the TLBs.
#[derive(Clone, Copy)]
struct Asked {
    kind: AccessKind,
    expected: Expected,
    /// The access succeeded in the guest.
    certain: bool,
}

impl Asked {
    /// 0 for fetches, 1 for data.
    fn side(self) -> usize {
        usize::from(self.kind != AccessKind::Fetch)
    }
}

/// A hit of a level: the address that it gives, and the entry.
struct Hit {
    paddr: u64,
    entry: Entry,
}

/// One lookup: who asks for what.
struct Lookup<'a> {
    core: &'a Core,
    fixed: &'a Fixed,
    masks: &'a MaskPages,
    asked: Asked,
    /// The address in the layout of this level.
    vaddr: u64,
    /// Entries of this level are shared by cohort.
    shared: bool,
}

impl Lookup<'_> {
    /// ISCA'20 Figure 8, from step 2 on, for one way whose VPN and CCID match; and the same for
    /// other TLBs, whose tags have settled it all but rights and domain.
    fn judge(&self, tlb: &Tlb, slot: usize, long: &mut bool) -> Verdict {
        let bits = tlb.attr(slot);
        let global = bits & attr::GLOBAL != 0;
        let by_cohort = self.shared && !global;
        let owned = bits & attr::OWNED != 0;
        if by_cohort && owned && tlb.owner(slot) != self.core.space {
            return Verdict::Owned;
        }
        if by_cohort && !owned && bits & attr::OR_PC != 0 {
            *long = true;
            let class = size_class(bits);
            let bit = self
                .masks
                .bit(self.core.ccid, class, self.vaddr, self.core.space);
            if bit.is_some_and(|bit| tlb.private(slot) >> bit & 1 != 0) {
                return Verdict::Private;
            }
        }
        let mut checked = true;
        if let Some((check, _)) = self.fixed.domains {
            match (self.core.domain(bits), check) {
                (1, _) => {}
                (3, _) => checked = false,
                (_, DomainCheck::Miss) => return Verdict::Closed,
                (_, DomainCheck::Fault) => return Verdict::Deny(Fault::Domain),
            }
        }
        let asked = self.asked;
        if asked.expected.contradicts(tlb.translate(slot, self.vaddr)) {
            let other = by_cohort && !owned && tlb.owner(slot) != self.core.space;
            return if other {
                Verdict::Unknown
            } else {
                Verdict::Stale
            };
        }
        if !checked || self.core.allows(bits, asked.kind) {
            return Verdict::Use;
        }
        if asked.certain {
            return Verdict::Stale;
        }
        let cow = by_cohort && !owned && asked.kind == AccessKind::Write;
        Verdict::Deny(if cow {
            Fault::CopyOnWrite
        } else {
            Fault::Protection
        })
    }
}

impl<M: GuestMemory> Machine<M> {
    /// One access within a line (or, without caring for the rest of it, at its first byte). With
    /// `CERTAIN` it succeeded in the guest.
    ///
    /// The first part is the fast path: the page is in the slot of the L1 TLB where it was last,
    /// and the line is in the L1 cache. It counts and ages exactly what the slow path would.
    #[inline(always)]
    pub(super) fn touch<const CERTAIN: bool>(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
    ) -> Result<u64, Fault> {
        let side = usize::from(kind != AccessKind::Fetch);
        let this = &mut self.cores[core];
        if this.fast {
            let probe = Tlb::probe(vaddr, this.tags[0]);
            if let Some(slot) = this.l1[side].guess(vaddr, probe) {
                let bits = this.l1[side].attr(slot);
                let found = this.l1[side].translate(slot, vaddr);
                if this.allows(bits, kind) && paddr.is_none_or(|paddr| paddr == found) {
                    this.l1[side].used(slot);
                    let other = this.l1[side].owner(slot) != this.space;
                    let counters = &mut this.counters.tlb[0][side][size_class(bits)];
                    counters.hits += 1;
                    counters.global_hits += u64::from(other);
                    let line = self.caches.line(found);
                    let write = kind == AccessKind::Write;
                    if !self
                        .caches
                        .hit_l1(core, side, line, write, &mut this.counters)
                    {
                        self.miss_line(core, kind, found, 0);
                    }
                    return Ok(found);
                }
            }
        }
        self.touch_slowly(core, kind, vaddr, paddr, CERTAIN)
    }

    /// An access that crosses lines: one translation for each page, one cache access for each line.
    #[inline(never)]
    pub(super) fn access_split(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
        last: u64,
    ) {
        let line = 1u64 << self.caches.line_shift();
        let mut paddr = paddr;
        let mut vaddr = vaddr;
        loop {
            let translated = self.touch::<true>(core, kind, vaddr, paddr);
            let page_end = vaddr | 0xfff;
            let end = if last >= vaddr {
                last.min(page_end)
            } else {
                page_end
            };
            // What follows in the page needs no translation of its own.
            if let Ok(first) = translated {
                let mut next = (vaddr & !(line - 1)).wrapping_add(line);
                while next <= end && next > vaddr {
                    let there = first.wrapping_add(next - vaddr);
                    self.touch_line(core, kind, there, 0);
                    next = next.wrapping_add(line);
                    if next == 0 {
                        break;
                    }
                }
            }
            if end == last {
                return;
            }
            // Where the next page lies, the physical address of this one does not say.
            paddr = None;
            vaddr = end.wrapping_add(1);
        }
    }

    /// The caches' part of an access, after a translation that took so many ticks.
    fn touch_line(&mut self, core: usize, kind: AccessKind, paddr: u64, translation: u64) {
        let side = usize::from(kind != AccessKind::Fetch);
        let line = self.caches.line(paddr);
        let write = kind == AccessKind::Write;
        let counters = &mut self.cores[core].counters;
        if self.caches.hit_l1(core, side, line, write, counters) {
            if translation > 0 {
                self.spend(core, kind, translation, 0);
            }
        } else {
            self.miss_line(core, kind, paddr, translation);
        }
    }

    /// The same for a line that the L1 did not settle.
    #[inline(never)]
    fn miss_line(&mut self, core: usize, kind: AccessKind, paddr: u64, translation: u64) {
        let request = match kind {
            AccessKind::Fetch => Request::Fetch,
            AccessKind::Read => Request::Read,
            AccessKind::Write => Request::Write,
        };
        let line = self.caches.line(paddr);
        let this = &mut self.cores[core];
        let now = this.clock.now + translation;
        let time = self
            .caches
            .access(core, request, line, now, &mut this.counters);
        self.spend(core, kind, translation, time);
    }

    fn spend(&mut self, core: usize, kind: AccessKind, translation: u64, cache: u64) {
        let clock = &mut self.cores[core].clock;
        match kind {
            AccessKind::Fetch => clock.fetch(translation, cache),
            AccessKind::Read => clock.data(translation, cache, true),
            AccessKind::Write => clock.data(translation, cache, false),
        }
    }

    #[inline(never)]
    fn touch_slowly(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
        certain: bool,
    ) -> Result<u64, Fault> {
        if self.check {
            self.check_access(core, kind, vaddr, paddr, certain);
        }
        if !self.cores[core].context.paging {
            let paddr = paddr.unwrap_or(vaddr);
            self.touch_line(core, kind, paddr, 0);
            return Ok(paddr);
        }
        match self.translate(core, kind, vaddr, paddr, certain) {
            Ok((paddr, time)) => {
                self.touch_line(core, kind, paddr, time);
                Ok(paddr)
            }
            Err((fault, time)) => {
                self.spend(core, kind, time, 0);
                Err(fault)
            }
        }
    }

    /// The address and the ticks it took beyond a hit in the L1 TLB.
    fn translate(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        paddr: Option<u64>,
        certain: bool,
    ) -> Result<(u64, u64), (Fault, u64)> {
        let side = usize::from(kind != AccessKind::Fetch);
        // Where the model plays BabelFish's kernel it must know what a lookup ought to give.
        let infers = self
            .fixed
            .babelfish
            .as_ref()
            .is_some_and(|fish| fish.or_pc.is_none());
        let expected = match paddr {
            Some(paddr) => Expected::Address(paddr),
            None if infers => self.expected(core, vaddr, certain),
            None => Expected::Anything,
        };
        let asked = Asked {
            kind,
            expected,
            certain,
        };
        let mut time = 0;
        let l1 = self.level(core, 0, asked, vaddr, &mut time);
        if let Some(hit) = l1.map_err(|fault| (fault, time))? {
            return Ok((hit.paddr, time));
        }
        time += self.fixed.tlb_time[0][side];
        let mut shared_vaddr = vaddr;
        if let Some(fish) = self.fixed.babelfish.as_ref().filter(|fish| fish.hw) {
            time += fish.transform;
            shared_vaddr = self.to_cohort_layout(core, vaddr);
        }
        if !self.cores[core].l2.is_empty() {
            let l2 = self.level(core, 1, asked, shared_vaddr, &mut time);
            if let Some(hit) = l2.map_err(|fault| (fault, time))? {
                let class = size_class(hit.entry.attr);
                self.cores[core].counters.tlb[0][side][class].misses += 1;
                self.fill(core, 0, side, vaddr, shared_vaddr, &hit.entry);
                return Ok((hit.paddr, time));
            }
        }
        self.walk_and_fill(core, kind, vaddr, shared_vaddr, paddr, certain, time)
    }

    /// Whether cohorts share the entries of this level (0 for L1).
    fn shares(&self, level: usize) -> bool {
        let fish = self.fixed.babelfish.as_ref();
        fish.is_some_and(|fish| level > 0 || !fish.hw)
    }

    /// Looks up one level and counts what comes of it. `time` grows by the second level's access
    /// time and by what events on the way cost: that of the first is hidden if it hits.
    fn level(
        &mut self,
        core: usize,
        level: usize,
        asked: Asked,
        vaddr: u64,
        time: &mut u64,
    ) -> Result<Option<Hit>, Fault> {
        let shared = self.shares(level);
        let found = self.look(core, level, asked, vaddr, shared, time);
        if level > 0 {
            *time += match &self.fixed.babelfish {
                Some(fish) if found.long => {
                    self.cores[core].counters.babelfish.long_accesses += 1;
                    fish.long
                }
                _ => self.fixed.tlb_time[level][asked.side()],
            };
        }
        if let Some(class) = found.unknown {
            self.found_private(core, class, vaddr);
        }
        if let Some(fault) = found.deny {
            return Err(fault);
        }
        let this = &mut self.cores[core];
        let index = this.l2_index(asked.side());
        let tlb = match level {
            0 => &mut this.l1[asked.side()],
            _ => &mut this.l2[index],
        };
        let hit = found.slot.and_then(|slot| {
            tlb.used(slot);
            let paddr = tlb.translate(slot, vaddr);
            tlb.entry(slot).map(|entry| Hit { paddr, entry })
        });
        if let Some(Hit { entry, .. }) = &hit {
            this.count_hit(level, asked.side(), entry.attr, entry.owner, shared);
        }
        Ok(hit)
    }

    /// Searches one level. `time` grows only by what events on the way cost.
    fn look(
        &mut self,
        core: usize,
        level: usize,
        asked: Asked,
        vaddr: u64,
        shared: bool,
        time: &mut u64,
    ) -> Found {
        let side = asked.side();
        let mut found = Found::default();
        let (mut stale, mut private, mut owned) = (0, 0, 0);
        let mut domain_fault = false;
        let mut doubted = None;
        // The TLB is taken out so that the rest of the core can be read meanwhile; it is a few
        // pointers.
        let index = self.cores[core].l2_index(side);
        let mut tlb = match level {
            0 => std::mem::take(&mut self.cores[core].l1[side]),
            _ => std::mem::take(&mut self.cores[core].l2[index]),
        };
        let probe = Tlb::probe(vaddr, self.cores[core].tags[level]);
        let lookup = Lookup {
            core: &self.cores[core],
            fixed: &self.fixed,
            masks: &self.masks,
            asked,
            vaddr,
            shared,
        };
        let slot = tlb.find(vaddr, probe, |tlb, slot| {
            match lookup.judge(tlb, slot, &mut found.long) {
                Verdict::Use => true,
                Verdict::Closed => false,
                Verdict::Owned => {
                    owned += 1;
                    false
                }
                Verdict::Private => {
                    private += 1;
                    false
                }
                Verdict::Unknown => {
                    found.unknown = Some(size_class(tlb.attr(slot)));
                    private += 1;
                    false
                }
                Verdict::Stale => {
                    doubted = tlb.entry(slot).filter(|_| self.check);
                    tlb.remove(slot);
                    stale += 1;
                    false
                }
                Verdict::Deny(Fault::Domain) if asked.certain => {
                    domain_fault = true;
                    false
                }
                Verdict::Deny(fault) => {
                    found.deny = Some(fault);
                    true
                }
            }
        });
        found.slot = slot;
        let this = &mut self.cores[core];
        match level {
            0 => this.l1[side] = tlb,
            _ => this.l2[index] = tlb,
        }
        this.counters.stale += stale;
        if shared {
            this.counters.babelfish.private_refusals += private;
            this.counters.babelfish.owned_refusals += owned;
        }
        if let Some(entry) = doubted {
            self.check_stale(
                core,
                asked.kind,
                vaddr,
                asked.expected.address(),
                &entry,
                shared,
            );
        }
        let this = &mut self.cores[core];
        if domain_fault {
            // Slides page 12: the handler finds a domain fault in the status register and flushes
            // all entries with the faulting address; the access misses then, and is walked.
            this.counters.domain_faults += 1;
            if let Some((_, handler)) = self.fixed.domains {
                *time += handler;
            }
            self.drop_address(core, vaddr);
            found.slot = None;
        }
        found
    }

    /// Puts an entry into a level, in pieces if the level has no room for its size. `vaddr` is in
    /// the level's layout, `there` in the page tables'.
    pub(super) fn fill(
        &mut self,
        core: usize,
        level: usize,
        side: usize,
        vaddr: u64,
        there: u64,
        entry: &Entry,
    ) {
        let shared = self.shares(level);
        let this = &mut self.cores[core];
        let tag = this.tags[level];
        let owner = this.space;
        let index = this.l2_index(side);
        let tlb = match level {
            0 => &mut this.l1[side],
            _ => &mut this.l2[index],
        };
        // Two layouts may differ by less than the page's size.
        let aligned = entry.shift.min(there.wrapping_sub(vaddr).trailing_zeros());
        let Some(shift) = tlb.size_for(aligned) else {
            return;
        };
        let within = there & ((1 << entry.shift) - 1) & !((1 << shift) - 1);
        let page = vaddr & !((1 << shift) - 1);
        let mut piece = Entry {
            page,
            frame: entry.frame + within,
            shift,
            owner,
            ..*entry
        };
        if shared && shift != entry.shift {
            // The PC bitmask is the whole page's; a piece is the process's own.
            piece.attr = piece.attr & !attr::OR_PC | attr::OWNED;
            piece.private = 0;
        }
        tlb.insert(&piece, tag);
    }

    /// What a walk without any hardware finds, for an access whose address is not given.
    fn expected(&self, core: usize, vaddr: u64, certain: bool) -> Expected {
        let vaddr = self.to_cohort_layout(core, vaddr);
        let walk = self
            .format
            .walk(&self.memory, &self.cores[core].context, vaddr);
        match walk.result {
            Ok(page) => Expected::Address(page.frame | vaddr & ((1 << page.shift) - 1)),
            // An access that succeeded in the guest though its tables are not there any more (the
            // kernel changed them since) is not a process without the page.
            Err(_) if certain => Expected::Anything,
            Err(_) => Expected::Absent,
        }
    }
}

impl Core {
    fn count_hit(&mut self, level: usize, side: usize, bits: u16, owner: u16, shared: bool) {
        let counters = &mut self.counters.tlb[level][side][size_class(bits)];
        counters.hits += 1;
        if owner != self.space {
            if bits & attr::GLOBAL != 0 {
                counters.global_hits += 1;
            } else if shared {
                counters.shared_hits += 1;
            }
        }
    }
}
