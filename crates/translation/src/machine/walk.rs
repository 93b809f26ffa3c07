// SPDX-License-Identifier: GPL-2.0-or-later
//! Page walks: the walk caches, the caches behind them, and what the TLBs are filled with.

use super::access::note_violation;
use super::{Machine, Mismatch};
use crate::cache::Request;
use crate::description::WalkCacheTag;
use crate::entry::Entry;
use crate::entry::{LEVELS_MAX, attr, size_class};
use crate::event::{AccessKind, Fault};
use crate::format::{Step, Translation, Walk};
use crate::memory::GuestMemory;
use crate::tlb::mechanism::{Lookup, Match, Terms, WalkOf, Walked, Way};
use crate::violation::{Violation, Wrong};

impl<M: GuestMemory> Machine<M> {
    /// A miss of all TLBs: walks the tables, fills the TLBs, gives the address and the ticks since
    /// the access began, of which `time` went before the walk. `vaddr` is the process's address,
    /// `there` the one in its cohort's layout, which is the page tables' unless the kernel says who
    /// shares what.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn walk_and_fill(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        there: u64,
        paddr: Option<u64>,
        certain: bool,
        mut time: u64,
    ) -> Result<(u64, u64), (Fault, u64)> {
        let side = usize::from(kind != AccessKind::Fetch);
        let at = if self.fixed.exact { vaddr } else { there };
        let walk = self
            .format
            .walk(&self.memory, &self.cores[core].context, at);
        if let Some(last) = walk.steps().last() {
            self.caches.prefetch(core, self.caches.line(last.paddr));
            self.cores[core].leaves.note(at, last.paddr);
        }
        let walked = self.walked(core, &walk, at, there);
        time += self.walk_time(core, kind, at, &walk, walked.read, time);
        let result = walk
            .result
            .and_then(|page| self.permit(core, kind, vaddr, page).map(|()| page));
        let class = walk.result.map_or(0, |page| size_class(page.attr));
        let levels = self.fixed.last_level + 1;
        let counters = &mut self.cores[core].counters;
        for counters in counters.tlb.iter_mut().take(levels) {
            counters[side][class].misses += 1;
        }
        let translated = result.map(|page| page.frame | at & ((1 << page.shift) - 1));
        let explained = match (translated, paddr) {
            (Ok(found), Some(given)) => found == given,
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        if certain && !explained {
            // The guest used an entry that is no longer in its tables, or not yet.
            counters.unexplained += 1;
            self.keep_mismatch(Mismatch {
                core,
                kind,
                vaddr,
                paddr,
                held: None,
                walk,
            });
            return Ok((paddr.unwrap_or(vaddr), time));
        }
        let page = result.map_err(|fault| (fault, time))?;
        let entry = Entry {
            page: at & !((1 << page.shift) - 1),
            frame: page.frame,
            shift: page.shift,
            attr: page.attr | walked.attr,
            owner: self.cores[core].space,
            extra: walked.extra,
        };
        if self.check {
            self.filled
                .note(entry.owner, entry.attr, there, page.shift, &walk);
        }
        if !self.mechanisms.is_empty() {
            let lookup = Lookup {
                level: levels - 1,
                own: vaddr,
                ..self.lookup(core, kind, there, certain)
            };
            self.walk_ahead(&lookup, page.shift, time);
        }
        for level in (1..levels).rev() {
            self.fill(core, level, side, there, at, &entry);
        }
        self.fill(core, 0, side, vaddr, at, &entry);
        Ok((page.frame | at & ((1 << page.shift) - 1), time))
    }

    /// Walks for the pages that mechanisms want ahead of their use, `after` ticks from now. Such
    /// walks take a walker and read the caches, but are not counted as walks.
    pub(super) fn walk_ahead(&mut self, of: &Lookup, shift: u32, after: u64) {
        let core = of.core;
        for number in 0..self.mechanisms.len() {
            let Some(vaddr) = self.mechanisms[number].ahead(of, shift) else {
                continue;
            };
            let at = match self.fixed.exact {
                true => vaddr.wrapping_sub(of.vaddr).wrapping_add(of.own),
                false => vaddr,
            };
            let context = &self.cores[core].context;
            let walk = self.format.walk(&self.memory, context, at);
            let Ok(page) = walk.result else { continue };
            let walked = self.walked(core, &walk, at, vaddr);
            let counted = self.cores[core].counters.walk;
            let took = self.walk_time(core, of.kind, at, &walk, walked.read, after);
            let this = &mut self.cores[core];
            this.counters.walk = counted;
            let entry = Entry {
                page: vaddr & !((1 << page.shift) - 1),
                frame: page.frame,
                shift: page.shift,
                attr: page.attr | walked.attr,
                owner: this.space,
                extra: walked.extra,
            };
            let tag = this.tags[self.fixed.last_level];
            let ready = this.clock.start() + after + took;
            let counts = &mut this.counters.mechanisms;
            self.mechanisms[number].fetched(core, &entry, tag, ready, counts);
        }
    }

    /// Whether mechanisms and rights of a page allow the access.
    fn permit(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        page: Translation,
    ) -> Result<(), Fault> {
        let mut terms = Terms::default();
        let lookup = Lookup {
            walked: true,
            ..self.lookup(core, kind, vaddr, false)
        };
        let core = &mut self.cores[core];
        let way = Way {
            attr: page.attr,
            owner: core.space,
            extra: 0,
            tag: 0,
        };
        for mechanism in &mut self.mechanisms {
            let counts = &mut core.counters.mechanisms;
            let found = mechanism.judge(&lookup, &way, &mut terms, &self.memory, counts);
            if let Match::Fault(fault) = found {
                return Err(fault);
            }
        }
        if !terms.checked || core.allows(page.attr, kind) {
            Ok(())
        } else {
            Err(terms.refusal)
        }
    }

    /// What mechanisms add to a walk for a page that is not global. `own` is the process's address,
    /// `there` the one behind L1.
    fn walked(&mut self, core: usize, walk: &Walk, own: u64, there: u64) -> Walked {
        let mut sum = Walked::default();
        if !walk.result.is_ok_and(|page| page.attr & attr::GLOBAL == 0) {
            return sum;
        }
        for number in 0..self.mechanisms.len() {
            let this = &mut self.cores[core];
            let counts = &mut this.counters.mechanisms;
            let mechanism = &mut self.mechanisms[number];
            let walked = mechanism.walked(core, this.space, there, walk, &self.memory, counts);
            if walked.wrong && self.in_kernel == 0 {
                self.masked(core, walk, own);
            }
            sum.attr |= walked.attr;
            sum.extra |= walked.extra;
            sum.read = sum.read.or(walked.read);
            self.perform(core, walked.drop);
        }
        sum
    }

    /// A walk found a process to share a table that it should not.
    fn masked(&mut self, core: usize, walk: &Walk, vaddr: u64) {
        let this = &mut self.cores[core];
        let violation = Violation {
            wrong: Wrong::Masked,
            core,
            ccid: 0,
            pid: 0,
            root: this.context.root,
            vaddr,
            held: walk.result.ok(),
            own: walk.result.ok(),
        };
        let counts = &mut this.counters.mechanisms;
        note_violation(
            &mut self.mechanisms,
            &mut self.violations,
            counts,
            violation,
        );
    }

    /// The ticks that a walk takes, `after` ticks from now: the walker's, the walk caches' and the
    /// caches'. `beside` is read in parallel with the last entry.
    fn walk_time(
        &mut self,
        core: usize,
        kind: AccessKind,
        vaddr: u64,
        walk: &Walk,
        beside: Option<u64>,
        after: u64,
    ) -> u64 {
        let (walker, waiting) = self.cores[core].clock.walker(after);
        let mut time = waiting;
        let steps = walk.steps();
        // The last entry points to no further table, or to nothing.
        let leaf = steps.len().saturating_sub(1);
        let mut read_from = match self.fixed.walk_cache {
            None => 0,
            Some((tag, cycles)) => {
                let (cached, lookups) = self.walk_cached(core, tag, vaddr, steps);
                time += lookups * cycles;
                cached
            }
        };
        let of = WalkOf {
            core,
            space: self.cores[core].space,
            vaddr,
        };
        for mechanism in &mut self.mechanisms {
            let counts = &mut self.cores[core].counters.mechanisms;
            if let Some((known, ticks)) = mechanism.walk_from(&of, steps, counts) {
                time += ticks;
                read_from = read_from.max(known.min(leaf));
            }
        }
        for (number, step) in steps.iter().enumerate().skip(read_from) {
            let now = after + time;
            let mut took = self.read_for_walk(core, step.paddr, now);
            if number == leaf {
                if let Some(paddr) = beside {
                    took = took.max(self.read_for_walk(core, paddr, now));
                }
            }
            time += took;
            self.cores[core].counters.walk.references[step.level] += 1;
            if number < leaf {
                self.cache_step(core, vaddr, step);
                for mechanism in &mut self.mechanisms {
                    mechanism.walk_read(&of, step);
                }
            }
        }
        let this = &mut self.cores[core];
        let side = usize::from(kind != AccessKind::Fetch);
        let counters = &mut this.counters.walk;
        counters.walks += 1;
        counters.fetch_walks += u64::from(kind == AccessKind::Fetch);
        counters.ticks[side] += time - waiting;
        counters.waiting += waiting;
        for (sum, lines) in counters
            .table_lines
            .iter_mut()
            .zip(self.caches.table_lines(core))
        {
            *sum += lines;
        }
        this.clock.walker_taken(walker, time - waiting, kind, vaddr);
        time
    }

    fn read_for_walk(&mut self, core: usize, paddr: u64, after: u64) -> u64 {
        let line = self.caches.line(paddr);
        let this = &mut self.cores[core];
        let now = this.clock.start() + after;
        let time = self
            .caches
            .access(core, Request::Walk, line, now, &mut this.counters);
        if time <= self.fixed.walk_hit {
            return time;
        }
        // It misses where it enters, as a load would.
        let (mshr, wait) = this.clock.claim(AccessKind::Read, after);
        this.clock.take(AccessKind::Read, mshr, time, line);
        wait + time
    }

    fn walk_key(&self, core: usize, tag: WalkCacheTag, vaddr: u64, step: &Step) -> (u64, u64) {
        match tag {
            WalkCacheTag::Physical => {
                let entry = step.paddr / self.format.entry_bytes;
                (entry, entry)
            }
            WalkCacheTag::Virtual => {
                let prefix = vaddr >> self.format.level_shift(step.level);
                (
                    prefix,
                    prefix << 12 | u64::from(self.cores[core].space & 0xfff),
                )
            }
        }
    }

    /// How many entries of the walk, the root's first, are in the walk caches, and how many
    /// lookups that took. The last level of the tables has no walk cache.
    fn walk_cached(
        &mut self,
        core: usize,
        tag: WalkCacheTag,
        vaddr: u64,
        steps: &[Step],
    ) -> (usize, u64) {
        let last = self.format.levels() - 1;
        let above = steps.iter().filter(|step| step.level < last).count();
        let mut keys = [(0, 0); LEVELS_MAX];
        for (key, step) in keys.iter_mut().zip(steps) {
            *key = self.walk_key(core, tag, vaddr, step);
        }
        let this = &mut self.cores[core];
        let counters = &mut this.counters.walk;
        let mut look = |number: usize| {
            let cache = &mut this.walk_cache[steps[number].level];
            let (index, tag) = keys[number];
            cache.hit(cache.set_of(index), tag).is_some()
        };
        match tag {
            WalkCacheTag::Physical => {
                // "Once the PWC has missed, it will not be accessed again in this page walk"
                // (ISCA'20 section III-C).
                let hits = (0..above).take_while(|&number| look(number)).count();
                for step in &steps[..hits] {
                    counters.cached[step.level] += 1;
                }
                let missed = hits < above;
                counters.cache_misses += u64::from(missed);
                (hits, hits as u64 + u64::from(missed))
            }
            WalkCacheTag::Virtual => {
                // All levels at once; the deepest that is there saves all above it.
                let deepest = (0..above).rev().find(|&number| look(number));
                match deepest {
                    Some(number) => counters.cached[steps[number].level] += 1,
                    None => counters.cache_misses += 1,
                }
                (deepest.map_or(0, |number| number + 1), 1)
            }
        }
    }

    /// An entry that points to a table was read.
    fn cache_step(&mut self, core: usize, vaddr: u64, step: &Step) {
        let Some((tag, _)) = self.fixed.walk_cache else {
            return;
        };
        let (index, key) = self.walk_key(core, tag, vaddr, step);
        let Some(cache) = self.cores[core].walk_cache.get_mut(step.level) else {
            return;
        };
        let set = cache.set_of(index);
        if cache.find(set, key).is_none() {
            cache.insert(set, key);
        }
    }
}
