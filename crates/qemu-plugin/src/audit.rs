// SPDX-License-Identifier: GPL-2.0-or-later
//! The flush audit: watches what the guest's kernel does to page tables and TLBs, and reports entries
//! that a processor could still use after the kernel has finished a change of the tables.
//!
//! [`translation::audit`] has the TLBs. This file says which change is finished: the task that made
//! it has returned to user mode since. A task that never does, a kernel thread, is given
//! [`GRACE`]. Entries are compared only where a core runs user code, since the kernel flushes what it
//! owes before it returns there: lazily kept address spaces, postponed flushes of reclaim.

use crate::arch::{Arch, Cpu, Flushes};
use crate::cores::Core;
use crate::kernel::{Kernel, read_kernel};
use crate::ram::Ram;
use crate::symbols::Symbols;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use translation::audit::{Audit, Missing, Noted, Wrong, rights};
use translation::format::Format;
use translation::tlbi::Drop;
use translation::{AccessKind, Context};

/// Instructions after which a change counts as finished though its task has not been seen to return:
/// 50 ms of the guest's time.
const GRACE: u64 = 50_000_000;
/// Instructions between two comparisons of all entries.
const SWEEP: u64 = 20_000_000;
/// Words of the kernel's stack that are searched for callers, and how many callers are kept.
const STACK: usize = 64;
const CALLERS: usize = 5;
/// Tasks whose returns are remembered.
const TASKS: usize = 4096;
/// Places with spurious faults that are printed.
const PLACES: usize = 5;
/// The place of a change that no store has made.
const UNSEEN: &str = "no store that was seen";

/// A change of a page table.
#[derive(Debug, Clone, Default)]
struct Change {
    core: usize,
    /// The task that made it, as its address; 0 if that is unknown.
    task: u64,
    /// The address of the block of code.
    code: u64,
    /// Return addresses on the stack. Some may be of earlier calls.
    callers: Vec<u64>,
    /// Instructions executed before, by all cores.
    at: u64,
    /// It is finished from the beginning.
    finished: bool,
}

/// A flush that a core executed.
#[derive(Debug, Clone)]
struct Flush {
    what: Drop,
    /// The register whose write did it; empty for an instruction for flushes.
    by: &'static str,
    code: u64,
    at: u64,
}

/// Counts of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Times that entries were compared.
    pub audits: u64,
    /// Entries compared.
    pub compared: u64,
    /// Entries that the TLBs were filled with.
    pub filled: u64,
    /// Changes of table words below entries of a TLB.
    pub changes: u64,
    /// Entries that were dropped too late, or never.
    pub missing: u64,
    /// Entries that were wrong though no store to their tables was seen.
    pub unseen: u64,
    /// Faults that a processor would have taken since its entry had fewer rights.
    pub spurious: u64,
    /// The places with most of these.
    pub spurious_places: Vec<Place>,
    /// Accesses for which a processor would have used an old page, allowed or not.
    pub diverged: u64,
    /// Accesses by an old translation of the emulator's own.
    pub unexplained: u64,
    /// Global entries that the TLBs were filled with.
    pub global: u64,
    /// Faults that a processor would have taken since an entry's domain was closed.
    pub domain_faults: u64,
    /// Flushes of a form that is not decoded, so that nothing was dropped: the instruction without
    /// the number of its register, and how often it was executed. Reports may be due to them.
    pub unknown_flushes: BTreeMap<String, u64>,
    /// One per place in the kernel and kind of mistake, by place.
    pub findings: Vec<Finding>,
}

/// Missing flushes of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kernel's function that changed the table.
    pub function: String,
    /// What is wrong with the entry.
    pub kind: String,
    /// How many entries.
    pub count: u64,
    /// Sentences about the first.
    pub first: String,
}

/// Spurious faults of one place in the kernel and one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The kernel's function that gave the right which the processor's entry lacks, and its caller.
    pub function: String,
    /// The process that would have faulted, by its name.
    pub task: String,
    /// How many faults.
    pub count: u64,
}

/// Audits the flushes of a guest.
pub struct Auditor {
    arch: &'static Arch,
    flushes: &'static Flushes,
    audit: Audit<Ram, Change>,
    symbols: Option<Symbols>,
    cores: Vec<Seen>,
    /// When tasks last returned to user mode, by address.
    returned: HashMap<u64, u64>,
    /// When a core's entries are next compared all.
    sweep: u64,
    missing: u64,
    unseen: u64,
    unknown_flushes: BTreeMap<u32, u64>,
    findings: BTreeMap<(String, &'static str), Finding>,
    /// Spurious faults by the kernel's function and the process.
    spurious: BTreeMap<(String, String), u64>,
}

/// What was last seen of a core.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// The block of kernel code that it executes.
    code: u64,
    user: bool,
    flush: Option<Flush>,
}

impl Auditor {
    /// Empty TLBs for the guest's cores; `vmlinux` has names for the places.
    pub fn new(
        arch: &'static Arch,
        cores: usize,
        ram: Ram,
        vmlinux: Option<&Path>,
    ) -> Result<Self> {
        let flushes = arch.flushes.as_ref();
        let flushes =
            flushes.with_context(|| format!("audit: not for {} guests yet", arch.name))?;
        let format = Format::builtin(arch.page_tables)?;
        Ok(Self::with(
            arch,
            flushes,
            ram,
            format,
            vmlinux.map(Symbols::read).transpose()?,
            cores,
        ))
    }

    /// The same with TLBs and names that are given.
    pub fn with(
        arch: &'static Arch,
        flushes: &'static Flushes,
        ram: Ram,
        format: Format,
        symbols: Option<Symbols>,
        cores: usize,
    ) -> Self {
        Auditor {
            arch,
            flushes,
            audit: Audit::new(format, flushes.habits, cores, ram),
            symbols,
            cores: vec![Seen::default(); cores],
            returned: HashMap::new(),
            sweep: SWEEP,
            missing: 0,
            unseen: 0,
            unknown_flushes: BTreeMap::new(),
            findings: BTreeMap::new(),
            spurious: BTreeMap::new(),
        }
    }

    /// What a write to a system register drops.
    pub fn flushes(&self) -> &'static Flushes {
        self.flushes
    }

    /// The core enters a block of the kernel's code.
    #[inline(always)]
    pub fn enters(&mut self, core: usize, code: u64) {
        self.cores[core].code = code;
    }

    /// The core translates by this from now on.
    pub fn context(&mut self, core: usize, context: Context, at: u64) {
        let code = self.cores[core].code;
        // The scheduler has finished when it returns to user mode: no task is waited for.
        let change = || Change {
            core,
            code,
            at,
            finished: true,
            ..Change::default()
        };
        self.audit.context(core, context, change);
    }

    /// An access that succeeded. True if it has shown something: then call [`Auditor::noted`].
    #[inline(always)]
    pub fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: u64) -> bool {
        let vaddr = match vaddr < self.arch.kernel {
            true => vaddr & self.flushes.address,
            false => return false,
        };
        self.audit.access(core, kind, vaddr, Some(paddr))
    }

    /// Takes note of what the last access has shown. `name` names the process of a root, and `root` is
    /// that of the core that made it.
    #[cold]
    pub fn noted(&mut self, root: u64, at: u64, name: impl Fn(u64) -> Option<String>) {
        for noted in self.audit.noted() {
            match noted {
                Noted::Size(found) => {
                    self.missing += 1;
                    self.report(&found, at, &name);
                }
                Noted::Spurious(change) => {
                    let mut function = match &change {
                        Some(change) => self.function(change.code),
                        None => UNSEEN.into(),
                    };
                    // One function writes all entries on 32-bit ARM.
                    if let Some(&caller) = change.as_ref().and_then(|it| it.callers.first()) {
                        function = format!("{function} < {}", self.function(caller));
                    }
                    let task = name(root).unwrap_or_else(|| "unknown".into());
                    *self.spurious.entry((function, task)).or_default() += 1;
                }
            }
        }
    }

    /// A store that memory holds now.
    #[inline(always)]
    pub fn stored(&mut self, core: usize, paddr: u64, size: u32, now: &Now) {
        let (symbols, seen) = (&self.symbols, &self.cores[core]);
        self.audit
            .stored(paddr, size.into(), || change(core, seen, symbols, now));
    }

    /// The core drops entries, `by` a write of this register or, if it is empty, an instruction.
    pub fn invalidate(&mut self, core: usize, drop: Drop, by: &'static str, at: u64) {
        self.audit.invalidate(core, drop);
        let seen = &mut self.cores[core];
        seen.flush = Some(Flush {
            what: drop,
            by,
            code: seen.code,
            at,
        });
    }

    /// A core executes a flush of a form that is not decoded.
    pub fn unknown_flush(&mut self, form: u32) {
        *self.unknown_flushes.entry(form).or_default() += 1;
    }

    /// The core takes a page fault.
    pub fn fault(&mut self, core: usize, vaddr: u64) {
        if self.flushes.fault_drops {
            self.audit.fault(core, vaddr);
        }
    }

    /// The core runs kernel code from now on.
    pub fn kernel(&mut self, core: usize) {
        self.cores[core].user = false;
    }

    /// The core runs user code from now on: compares what each core that does so can use. `name`
    /// names the process of a root.
    pub fn user(&mut self, core: usize, now: &Now, name: impl Fn(u64) -> Option<String>) {
        self.cores[core].user = true;
        let due = now.at >= self.sweep;
        if due {
            self.sweep = now.at + SWEEP;
        }
        if !due && !self.audit.suspects() {
            return;
        }
        let task = now.task(|linux| linux.area);
        if task != 0 {
            if self.returned.len() >= TASKS {
                self.returned.retain(|_, &mut at| at + GRACE > now.at);
            }
            self.returned.insert(task, now.at);
        }
        for core in 0..self.cores.len() {
            if !self.cores[core].user {
                continue;
            }
            let returned = &self.returned;
            let missing = self.audit.judge(core, |change| {
                change.finished
                    || returned
                        .get(&change.task)
                        .is_some_and(|&at| at >= change.at)
                    || change.at + GRACE <= now.at
            });
            self.missing += missing.len() as u64;
            let unseen = match due {
                true => self.audit.sweep(core),
                false => Vec::new(),
            };
            self.unseen += unseen.len() as u64;
            for found in missing.iter().chain(&unseen) {
                self.report(found, now.at, &name);
            }
        }
    }

    fn report(&mut self, found: &Missing<Change>, at: u64, name: impl Fn(u64) -> Option<String>) {
        let kind = kind(found);
        let change = match found.wrong {
            // The last store has made the page another size.
            Wrong::Size => found.changed.last(),
            _ => found.changed.first(),
        };
        let function = match (change, found.wrong) {
            (_, Wrong::Twin | Wrong::Foreign) => "entries for all".into(),
            (Some(first), _) => self.function(first.code),
            (None, _) if found.global => "entries for all".into(),
            (None, _) => UNSEEN.into(),
        };
        let key = (function.clone(), kind);
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += 1;
            return;
        }
        let first = self.words(found, at, name);
        let finding = Finding {
            function,
            kind: kind.into(),
            count: 1,
            first,
        };
        self.findings.insert(key, finding);
    }

    fn words(
        &self,
        found: &Missing<Change>,
        at: u64,
        name: impl Fn(u64) -> Option<String>,
    ) -> String {
        let process = name(found.now_root).map_or(String::new(), |name| format!(" ({name})"));
        let mut text = format!(
            "core {} in {}{process} holds for {:#x}, {} KB, {} {:#x} ({}) of the tables at \
             {:#x}",
            found.core,
            match self.cores[found.core].user {
                true => "user mode",
                false => "the kernel",
            },
            found.vaddr,
            1u64 << (found.shift - 10),
            match (found.table, found.global) {
                (true, _) => "the table",
                (false, false) => "the page",
                (false, true) => "for all the page",
            },
            found.frame,
            rights(found.attr),
            found.root,
        );
        text.push_str(&match (&found.now, found.table) {
            (Some(page), _) if found.wrong == Wrong::Twin => format!(
                ", and beside it for all the page {:#x} ({})",
                page.frame,
                rights(page.attr)
            ),
            (Some(page), _) if found.wrong == Wrong::Size => format!(
                ", and beside it for {:#x}, {} KB, the page {:#x} ({})",
                found.beside.unwrap_or_default(),
                1u64 << (page.shift - 10),
                page.frame,
                rights(page.attr)
            ),
            (None, _) if found.wrong == Wrong::Foreign => format!(
                "; the process of the tables at {:#x} is not of the group that it is for",
                found.now_root
            ),
            (Some(page), false) => format!(
                "; the tables at {:#x} give the page {:#x} ({})",
                found.now_root,
                page.frame,
                rights(page.attr)
            ),
            (None, false) => format!("; the tables at {:#x} give nothing", found.now_root),
            (_, true) => format!("; the tables at {:#x} do not have it", found.now_root),
        });
        if let Some(first) = found.changed.first() {
            text.push_str(&format!("; changed {}", self.change_words(first, at)));
        }
        if let [_, between @ .., last] = &found.changed[..] {
            text.push_str(&match between.len() {
                0 => "; then".to_string(),
                more => format!("; then {more} times, then"),
            });
            text.push_str(&format!(" {}", self.change_words(last, at)));
        }
        match &self.cores[found.core].flush {
            Some(flush) => text.push_str(&format!(
                "; the last flush of core {} was {} in {}, {} instructions ago",
                found.core,
                flush_words(flush),
                self.place(flush.code),
                at - flush.at
            )),
            None => text.push_str("; that core has flushed nothing"),
        }
        text
    }

    fn change_words(&self, change: &Change, at: u64) -> String {
        let mut text = format!("in {}", self.place(change.code));
        for caller in &change.callers {
            text.push_str(&format!(" < {}", self.function(*caller)));
        }
        text.push_str(&format!(
            " on core {}, {} instructions ago",
            change.core,
            at - change.at
        ));
        text
    }

    fn place(&self, code: u64) -> String {
        match self.symbols.as_ref().and_then(|all| all.place(code)) {
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("{code:#x}"),
        }
    }

    fn function(&self, code: u64) -> String {
        match self.symbols.as_ref().and_then(|all| all.place(code)) {
            Some((name, _)) => name.into(),
            None => format!("{code:#x}"),
        }
    }

    /// The places with most spurious faults, the one with most first.
    fn spurious_places(&self) -> Vec<Place> {
        let places = self.spurious.iter();
        let mut places: Vec<Place> = places
            .map(|((function, task), &count)| Place {
                function: function.clone(),
                task: task.clone(),
                count,
            })
            .collect();
        // Places of one count stay in the order of their names.
        places.sort_by_key(|place| std::cmp::Reverse(place.count));
        places.truncate(PLACES);
        places
    }

    /// The counts, and what was found.
    pub fn verdict(&self) -> Verdict {
        let counts = self.audit.counts();
        let named = |(form, &count): (&u32, &u64)| (format!("{form:#010x}"), count);
        Verdict {
            audits: counts.audits,
            compared: counts.compared,
            filled: counts.filled,
            changes: counts.changes,
            missing: self.missing,
            unseen: self.unseen,
            spurious: counts.spurious,
            spurious_places: self.spurious_places(),
            diverged: counts.diverged,
            unexplained: counts.unexplained,
            global: counts.global,
            domain_faults: counts.domain_faults,
            unknown_flushes: self.unknown_flushes.iter().map(named).collect(),
            findings: self.findings.values().cloned().collect(),
        }
    }
}

fn kind(found: &Missing<Change>) -> &'static str {
    match (found.table, found.wrong) {
        (_, Wrong::Foreign) => "global entry of a group that the process is not of",
        (_, Wrong::Twin) => "twin: an entry beside a global one",
        (_, Wrong::Size) => "entry beside one of another size",
        (false, Wrong::Gone) => "page that is gone",
        (false, Wrong::Other) => "another page",
        (false, Wrong::Rights) => "rights that are gone",
        (true, Wrong::Gone) => "table that is gone",
        (true, Wrong::Other) => "another table",
        (true, Wrong::Rights) => "rights of a table that are gone",
    }
}

/// Where to read the state of the core that runs, and the time.
pub struct Now<'a> {
    pub arch: &'static Arch,
    pub cpu: Option<&'a dyn Cpu>,
    pub kernel: Option<&'a Kernel>,
    pub ram: Option<Ram>,
    pub core: &'a Core,
    /// Instructions executed so far.
    pub at: u64,
}

impl Now<'_> {
    /// The running task's address, by the register that has the processor's area now; 0 if unknown.
    fn task(&self, area: fn(&crate::arch::Linux) -> &'static str) -> u64 {
        let (Some(cpu), Some(kernel), Some(linux)) = (self.cpu, self.kernel, &self.arch.linux)
        else {
            return 0;
        };
        let area = cpu.named(area(linux));
        // Also where user code runs: the task that has returned.
        let context = self.core.kernel_context();
        let read = |at: u64, to: &mut [u8]| read_kernel(cpu, self.ram, self.arch, &context, at, to);
        kernel.task(area, read).unwrap_or(0)
    }
}

fn flush_words(flush: &Flush) -> String {
    let mut text = match flush.what.range {
        None => "of everything".to_string(),
        Some((first, last)) if first == last => format!("of the page {first:#x}"),
        Some((first, last)) => format!("of {first:#x} to {last:#x}"),
    };
    match flush.what.tag {
        Some(tag) => text.push_str(&format!(" of tag {tag}")),
        None if flush.what.range.is_some() => text.push_str(" of all tags"),
        None => {}
    }
    match flush.what.sizes {
        Some((64.., _)) => text.push_str(" for pages of another granule"),
        Some((size, _)) => text.push_str(&format!(" for pages of {} KB", 1u64 << (size - 10))),
        None => {}
    }
    if !flush.by.is_empty() {
        text.push_str(&format!(" by {}", flush.by));
    }
    text
}

fn change(core: usize, seen: &Seen, symbols: &Option<Symbols>, now: &Now) -> Change {
    let mut callers = Vec::new();
    if let (Some(cpu), Some(symbols)) = (now.cpu, symbols) {
        let stack = cpu.named(now.arch.stack);
        let mut bytes = [0; STACK * 8];
        let mut words: &[u8] = &[];
        let size = now.arch.word;
        // Near its end the stack has less.
        for part in [STACK, STACK / 4] {
            if cpu.memory(stack, &mut bytes[..part * size]) {
                words = &bytes[..part * size];
                break;
            }
        }
        let mut before = symbols.place(seen.code).map(|place| place.0);
        for word in words.chunks_exact(size) {
            let mut whole = [0; 8];
            whole[..size].copy_from_slice(word);
            let word = u64::from_le_bytes(whole);
            let Some((name, offset)) = symbols.place(word) else {
                continue;
            };
            // A return address is not a function's first.
            if offset > 0 && before != Some(name) && callers.len() < CALLERS {
                callers.push(word);
                before = Some(name);
            }
        }
    }
    Change {
        core,
        task: now.task(|linux| linux.kernel_area),
        code: seen.code,
        callers,
        at: now.at,
        finished: false,
    }
}
