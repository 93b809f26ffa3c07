// SPDX-License-Identifier: GPL-2.0-or-later
//! The way of an access: L1 TLB, L2 TLB, page walk, then the caches.

use super::{Core, Machine};
use crate::cache::Request;
use crate::counters::{Counters, MemoryCounters, Tally};
use crate::entry::Entry;
use crate::entry::{attr, size_class};
use crate::event::{AccessKind, Context, Fault, Privilege};
use crate::format::{Format, Translation};
use crate::memory::GuestMemory;
use crate::tlb::Tlb;
use crate::tlb::mechanism::{After, Counts, Looked, Lookup, Match, Mechanism, Terms, Way};
use crate::violation::{self, Violation, Wrong};

/// The result of a lookup in a level of TLB.
#[derive(Default)]
struct Found {
    slot: Option<usize>,
    deny: Option<Fault>,
    looked: Looked,
    /// An entry that was stale, if the machine checks those.
    doubted: Option<Entry>,
}

/// The right result of a hit.
#[derive(Clone, Copy)]
enum Expected {
    /// Unknown: a hit is believed.
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

/// A hit of a level: the address that it gives, and the entry.
struct Hit {
    paddr: u64,
    entry: Entry,
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
                if bits & self.fixed.judged_bits == 0
                    && this.allows(bits, kind)
                    && paddr.is_none_or(|paddr| paddr == found)
                {
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
                        this.clock.begin(kind, vaddr);
                        self.miss_line(core, kind, found, 0);
                    } else if kind == AccessKind::Read && this.clock.unsettled() {
                        this.clock.hit(vaddr, line);
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
                // A hit has not told the clock that it begins.
                self.cores[core].clock.begin(kind, vaddr);
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
            } else if kind == AccessKind::Read && self.cores[core].clock.unsettled() {
                self.cores[core].clock.hit_line(line);
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
        let (mshr, wait) = this.clock.claim(kind, translation);
        let now = this.clock.start() + translation + wait;
        let time = self
            .caches
            .access(core, request, line, now, &mut this.counters);
        if time > 0 {
            this.clock.take(kind, mshr, time, line);
        }
        // A write that only makes the line its own takes no time, and waits for nothing.
        let cache = if time > 0 { wait + time } else { 0 };
        self.spend(core, kind, translation, cache);
        if !self.mechanisms.is_empty() {
            self.bring_lines(core, kind, line, now);
        }
    }

    /// The lines that mechanisms bring in beside one that missed: they count for nobody, but take
    /// memory's time.
    fn bring_lines(&mut self, core: usize, kind: AccessKind, line: u64, now: u64) {
        let request = match kind {
            AccessKind::Fetch => Request::Fetch,
            AccessKind::Read | AccessKind::Write => Request::Read,
        };
        for mechanism in &mut self.mechanisms {
            let this = &mut self.cores[core];
            let counts = &mut this.counters.mechanisms;
            if let Some(beside) = mechanism.line_missed(core, kind, line, counts) {
                let mut aside = Counters::default();
                self.caches.access(core, request, beside, now, &mut aside);
                this.counters
                    .memory
                    .add_since(&aside.memory, &MemoryCounters::default());
            }
        }
    }

    fn spend(&mut self, core: usize, kind: AccessKind, translation: u64, cache: u64) {
        let clock = &mut self.cores[core].clock;
        match kind {
            AccessKind::Fetch => clock.fetch(translation, cache),
            AccessKind::Read => clock.data(translation, cache, true),
            AccessKind::Write => clock.data(translation, cache, false),
        }
    }

    /// An access that has faulted. Its core has entered the kernel since, but the access interrupted
    /// no critical section.
    pub(super) fn touch_in_peace(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
    ) -> Result<u64, Fault> {
        let in_kernel = self.in_kernel;
        let privilege = self.cores[core].context.privilege;
        self.in_kernel -= usize::from(privilege == Privilege::Kernel);
        self.cores[core].faulting = true;
        let result = self.touch::<false>(core, kind, vaddr, None);
        self.cores[core].faulting = false;
        self.in_kernel = in_kernel;
        result
    }

    /// A fault where a process had nothing and met a shared entry has been handled. Had it a region
    /// there, which gave it a page now, the kernel should have kept the entry from it. Had it none, it
    /// strayed: the kernel does not promise that such an access fails.
    #[cold]
    pub(super) fn judge_unmapped(&mut self, core: usize, met: Violation) {
        let this = &mut self.cores[core];
        let counts = &mut this.counters.mechanisms;
        let own = self.format.walk(&self.memory, &this.context, met.vaddr);
        if this.context.root == met.root && own.result.is_ok() {
            note_violation(&mut self.mechanisms, &mut self.violations, counts, met);
        } else {
            for mechanism in &mut self.mechanisms {
                mechanism.strayed(counts);
            }
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
        self.cores[core].clock.begin(kind, vaddr);
        if let Some(paddr) = paddr {
            self.caches.prefetch(core, self.caches.line(paddr));
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
        let expected = match paddr {
            Some(paddr) => Expected::Address(paddr),
            None if self.fixed.infers => self.expected(core, vaddr, certain),
            None => Expected::Anything,
        };
        let lookup = self.lookup(core, kind, vaddr, certain);
        let mut time = 0;
        let l1 = self.level(&lookup, expected, &mut time);
        if let Some(hit) = l1.map_err(|fault| (fault, time))? {
            return Ok((hit.paddr, time));
        }
        time += self.fixed.tlb_time[0][side];
        let (shared_vaddr, took) = self.relocate(core, vaddr);
        time += took;
        for level in 1..=self.fixed.last_level {
            let lookup = Lookup {
                level,
                vaddr: shared_vaddr,
                ..lookup
            };
            let found = self.level(&lookup, expected, &mut time);
            if let Some(hit) = found.map_err(|fault| (fault, time))? {
                self.missed_before(core, level, side, hit.entry.attr);
                for level in (1..level).rev() {
                    self.fill(core, level, side, shared_vaddr, shared_vaddr, &hit.entry);
                }
                self.fill(core, 0, side, vaddr, shared_vaddr, &hit.entry);
                return Ok((hit.paddr, time));
            }
        }
        self.walk_and_fill(core, kind, vaddr, shared_vaddr, paddr, certain, time)
    }

    /// A page was found behind so many levels: they missed it.
    pub(super) fn missed_before(&mut self, core: usize, level: usize, side: usize, attr: u16) {
        for counters in self.cores[core].counters.tlb.iter_mut().take(level) {
            counters[side][size_class(attr)].misses += 1;
        }
    }

    /// A lookup of L1 by what runs on a core.
    pub(super) fn lookup(
        &self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        certain: bool,
    ) -> Lookup {
        let this = &self.cores[core];
        Lookup {
            core,
            level: 0,
            side: usize::from(kind != AccessKind::Fetch),
            walked: false,
            space: this.space,
            kind,
            vaddr,
            own: vaddr,
            dacr: this.context.dacr,
            certain,
            now: this.clock.start(),
        }
    }

    /// Looks up one level and counts what comes of it. `time` grows by the level's access time and
    /// by what events on the way cost: L1's own is hidden if it hits.
    fn level(
        &mut self,
        lookup: &Lookup,
        expected: Expected,
        time: &mut u64,
    ) -> Result<Option<Hit>, Fault> {
        let (core, level, side) = (lookup.core, lookup.level, lookup.side);
        let shared = self.fixed.shared[level];
        let may_refill = level == self.fixed.last_level && !self.mechanisms.is_empty();
        let mut found = loop {
            let found = self.search(lookup, expected);
            if found.slot.is_some() || !may_refill || !self.refill(lookup, time) {
                break found;
            }
        };
        if let Some(entry) = found.doubted {
            let (kind, vaddr) = (lookup.kind, lookup.vaddr);
            self.check_stale(core, kind, vaddr, expected.address(), &entry, shared);
        }
        let mut after = After {
            access: if level == 0 {
                0
            } else {
                self.fixed.tlb_time[level][side]
            },
            ..After::default()
        };
        if self.fixed.judged[level] {
            for number in 0..self.mechanisms.len() {
                let counts = &mut self.cores[core].counters.mechanisms;
                self.mechanisms[number].looked(lookup, found.looked, &mut after, counts);
                if after.drop.is_some() {
                    self.perform(core, after.drop.take());
                }
            }
            if after.miss {
                found.slot = None;
            }
        }
        *time += after.access + after.time;
        if let Some(fault) = found.deny {
            return Err(fault);
        }
        let this = &mut self.cores[core];
        let tlb = this.tlb_mut(level, side);
        let hit = found.slot.and_then(|slot| {
            tlb.used(slot);
            let paddr = tlb.translate(slot, lookup.vaddr);
            tlb.entry(slot).map(|entry| Hit { paddr, entry })
        });
        if let Some(Hit { entry, .. }) = &hit {
            this.count_hit(level, side, entry.attr, entry.owner, shared);
            if self.fixed.judged[level] {
                let way = Way {
                    attr: entry.attr,
                    owner: entry.owner,
                    extra: entry.extra,
                    tag: this.tags[level],
                };
                for mechanism in &mut self.mechanisms {
                    mechanism.hit(lookup, &way, &mut this.counters.mechanisms);
                }
            }
        }
        Ok(hit)
    }

    /// Searches one level: mechanisms, the guest's own translation and rights decide about each way
    /// whose page and tag match.
    #[inline(always)]
    fn search(&mut self, lookup: &Lookup, expected: Expected) -> Found {
        let (judged, check) = (self.fixed.judged[lookup.level], self.check);
        let mechanisms = &mut self.mechanisms;
        let core = &mut self.cores[lookup.core];
        let probe = Tlb::probe(lookup.vaddr, core.tags[lookup.level]);
        let shared_tag = core.shared_tags[lookup.level];
        let (memory, format, context) = (&self.memory, &self.format, &core.context);
        let peace = self.in_kernel == 0;
        let violations = &mut self.violations;
        let (faulting, unmapped) = (core.faulting, &mut core.unmapped);
        let sure = &mut core.sure;
        let kind = lookup.kind as usize;
        let (decide, wanted) = (core.decide[kind], core.wanted[kind]);
        let tlb = match lookup.level {
            0 => &mut core.l1[lookup.side],
            level => behind(&mut core.behind, level, lookup.side),
        };
        let counters = &mut core.counters;
        let (mut deny, mut looked, mut doubted) = (None, Looked::default(), None);
        let mut accept = |tlb: &mut Tlb, slot: usize| {
            let mut terms = Terms::default();
            if judged {
                let way = tlb.way(slot);
                for mechanism in mechanisms.iter_mut() {
                    let counts = &mut counters.mechanisms;
                    match mechanism.judge(lookup, &way, &mut terms, memory, counts) {
                        Match::Yes => {}
                        Match::No => return false,
                        Match::Fault(fault) => {
                            deny = Some(fault);
                            return true;
                        }
                    }
                }
            }
            let bits = tlb.attr(slot);
            let allowed = !terms.checked || bits & decide == wanted;
            let found = tlb.translate(slot, lookup.vaddr);
            let contradicted = expected.contradicts(found);
            if terms.promised && peace {
                let used = expected.address() == Some(found);
                let broken = broken_promise(format, memory, context, lookup, tlb.entry(slot), used);
                if let Some(violation) = broken {
                    if faulting && violation.wrong == Wrong::Gone {
                        *unmapped = Some(violation);
                    } else {
                        let counts = &mut counters.mechanisms;
                        note_violation(mechanisms, violations, counts, violation);
                    }
                    tlb.remove(slot);
                    return false;
                }
            }
            if terms.compared && !sure.knows(lookup.vaddr, found) {
                let used = expected.address() == Some(found);
                let differs =
                    broken_promise(format, memory, context, lookup, tlb.entry(slot), used);
                if let Some(violation) = differs {
                    looked.passed += 1;
                    looked.class = size_class(bits);
                    if violation.wrong != Wrong::Gone {
                        tlb.remove(slot);
                    }
                    return false;
                }
                sure.note(lookup.vaddr, found);
            }
            if contradicted && terms.others {
                looked.passed += 1;
                looked.class = size_class(bits);
                return false;
            }
            if contradicted || !allowed && lookup.certain {
                if check {
                    doubted = tlb.entry(slot);
                }
                tlb.remove(slot);
                counters.stale += 1;
                return false;
            }
            if !allowed {
                deny = Some(terms.refusal);
            }
            true
        };
        // Shared entries may have a tag of their own. Owned ones come first.
        let (mut probe, mut shared_tag) = (probe, shared_tag);
        let slot = loop {
            let slot = tlb.find(lookup.vaddr, probe, &mut accept);
            if slot.is_some() || shared_tag == 0 {
                break slot;
            }
            probe = Tlb::probe(lookup.vaddr, std::mem::take(&mut shared_tag));
        };
        Found {
            slot,
            deny,
            looked,
            doubted,
        }
    }

    /// The last level missed: whether a mechanism put an entry into it that it held itself.
    fn refill(&mut self, lookup: &Lookup, time: &mut u64) -> bool {
        let this = &mut self.cores[lookup.core];
        let tag = this.tags[lookup.level];
        for mechanism in &mut self.mechanisms {
            let missed = mechanism.missed(lookup, tag, &mut this.counters.mechanisms);
            if let Some((entry, took)) = missed {
                *time += took;
                self.insert(lookup.core, lookup.level, lookup.side, &entry, tag);
                self.walk_ahead(lookup, entry.shift, *time);
                return true;
            }
        }
        false
    }

    /// Puts an entry into a level as it is; mechanisms hear what the last level gives up for it.
    fn insert(&mut self, core: usize, level: usize, side: usize, entry: &Entry, tag: u16) {
        let old = self.cores[core].tlb_mut(level, side).insert(entry, tag);
        if let Some((old, tag)) = old.filter(|_| level == self.fixed.last_level) {
            for mechanism in &mut self.mechanisms {
                mechanism.evicted(core, side, &old, tag);
            }
        }
    }

    /// The address by which everything behind L1 knows a page, and the ticks that finding it takes.
    pub(super) fn relocate(&self, core: usize, vaddr: u64) -> (u64, u64) {
        let space = self.cores[core].space;
        self.mechanisms
            .iter()
            .fold((vaddr, 0), |(vaddr, time), mechanism| {
                let moved = mechanism.relocate(core, space, vaddr);
                let (there, took) = moved.unwrap_or((vaddr, 0));
                (there, time + took)
            })
    }

    /// Puts an entry into a level, in pieces if the level has no room for its size. `vaddr` is in
    /// the level's layout, `there` in the entry's.
    pub(super) fn fill(
        &mut self,
        core: usize,
        level: usize,
        side: usize,
        vaddr: u64,
        there: u64,
        entry: &Entry,
    ) {
        let this = &mut self.cores[core];
        let owner = this.space;
        // Two layouts may differ by less than the page's size.
        let aligned = entry.shift.min(there.wrapping_sub(vaddr).trailing_zeros());
        let Some(shift) = this.tlb_mut(level, side).size_for(aligned) else {
            return;
        };
        let within = there & ((1 << entry.shift) - 1) & !((1 << shift) - 1);
        let mut piece = Entry {
            page: vaddr & !((1 << shift) - 1),
            frame: entry.frame + within,
            shift,
            owner,
            ..*entry
        };
        if shift != entry.shift {
            for mechanism in &self.mechanisms {
                mechanism.split(level, &mut piece);
            }
        }
        let this = &self.cores[core];
        let tag = match this.shared_tags[level] {
            ccid if ccid != 0 && piece.attr & (self.fixed.owned | attr::GLOBAL) == 0 => ccid,
            _ => this.tags[level],
        };
        self.insert(core, level, side, &piece, tag);
    }

    /// What a walk without any hardware finds, for an access whose address is not given.
    fn expected(&self, core: usize, vaddr: u64, certain: bool) -> Expected {
        let (vaddr, _) = self.relocate(core, vaddr);
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

/// How a shared entry differs from what the process's own tables say. `used`: the guest itself used
/// the page that it has. Whose process it is, the mechanism knows.
#[inline(never)]
fn broken_promise<M: GuestMemory>(
    format: &Format,
    memory: &M,
    context: &Context,
    of: &Lookup,
    entry: Option<Entry>,
    used: bool,
) -> Option<Violation> {
    let entry = entry?;
    let walk = format.walk(memory, context, of.own);
    let wrong = violation::compare(&entry, of.own, &walk, used)?;
    Some(Violation {
        wrong,
        core: of.core,
        ccid: 0,
        pid: 0,
        root: context.root,
        vaddr: of.own,
        held: Some(Translation {
            frame: entry.frame,
            shift: entry.shift,
            attr: entry.attr,
        }),
        own: walk.result.ok(),
    })
}

/// Counts a violation, and keeps it if it is one of the first.
#[cold]
pub(super) fn note_violation(
    mechanisms: &mut [Box<dyn Mechanism>],
    kept: &mut Vec<Violation>,
    counts: &mut Counts,
    violation: Violation,
) {
    let mut mechanisms = mechanisms.iter_mut();
    let who = mechanisms.find_map(|mechanism| mechanism.violated(violation.core, counts));
    if let (Some((ccid, pid)), true) = (who, kept.len() < violation::KEPT) {
        kept.push(Violation {
            ccid,
            pid,
            ..violation
        });
    }
}

/// A TLB behind L1.
fn behind(levels: &mut [Vec<Tlb>], level: usize, side: usize) -> &mut Tlb {
    let tlbs = &mut levels[level - 1];
    let index = side.min(tlbs.len() - 1);
    &mut tlbs[index]
}

impl Core {
    fn tlb_mut(&mut self, level: usize, side: usize) -> &mut Tlb {
        match level {
            0 => &mut self.l1[side],
            _ => behind(&mut self.behind, level, side),
        }
    }

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
