// SPDX-License-Identifier: GPL-2.0-or-later
//! Writing a trace.

use super::code::{self, Place, State, tag};
use super::frame::{self, BLOCK};
use super::{Header, TraceError};
use crate::abi;
use crate::code::Op;
use crate::event::{AccessKind, Context, Identity, Invalidation, Mark, Member, Segment, Sink};
use crate::format::Format;
use crate::memory::{GuestMemory, SparseMemory};
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

/// Translations of a core that are remembered so as not to walk for each access.
const KNOWN: usize = 4096;
/// Bytes of page tables that are written together: a line of the largest caches.
const LINE: u64 = 64;

/// A translation that a replay can make already. It is forgotten at every invalidation and fault,
/// and as soon as the guest's own translation differs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    root: u64,
    page: u64,
    frame: Option<u64>,
    write: bool,
    age: u64,
    masks: Masks,
}

/// What a kernel changes without an event: who shares a table, in the entry above the leaf and in a
/// MaskPage. Physical addresses, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Masks {
    above: u64,
    mask: u64,
    page: u64,
}

/// A sink that writes what it is told to a trace, with the page-table entries that a replay will
/// have to read. `M` is the guest's memory.
pub struct Recorder<M, W: Write> {
    memory: M,
    out: W,
    format: Format,
    state: State,
    raw: Vec<u8>,
    events: u64,
    core: usize,
    /// By number: blocks of code that are not in the trace yet.
    blocks: Vec<Option<Box<[Op]>>>,
    /// By core: the instruction of the accesses that come.
    at: Vec<u32>,
    contexts: Vec<Context>,
    segments: HashMap<u64, Vec<Segment>>,
    /// By core.
    members: Vec<Member>,
    /// By root: where it has tried to write and taken a fault that is being handled.
    wrote: HashMap<u64, u64>,
    known: Vec<Known>,
    age: u64,
    /// The memory as a replay has it.
    told: SparseMemory,
    /// The first error: nothing is written after it.
    error: Option<io::Error>,
}

impl<M: GuestMemory, W: Write> Recorder<M, W> {
    /// Begins a trace. `out` gets large pieces; a file wants no buffer around it.
    pub fn new(header: &Header, memory: M, mut out: W) -> Result<Self, TraceError> {
        let unfit = |error: crate::ModelError| TraceError::Unfit(error.to_string());
        let format = Format::load(&header.page_tables).map_err(unfit)?;
        if !(1..=crate::machine::CORES_MAX).contains(&header.cores) {
            return Err(TraceError::Unfit(format!(
                "{} cores cannot be recorded",
                header.cores
            )));
        }
        frame::write_head(&mut out, header)?;
        Ok(Self {
            memory,
            out,
            format,
            state: State::new(header.cores),
            raw: Vec::with_capacity(BLOCK + 4096),
            events: 0,
            core: 0,
            blocks: Vec::new(),
            at: vec![u32::MAX; header.cores],
            contexts: vec![Context::default(); header.cores],
            segments: HashMap::new(),
            members: vec![Member::default(); header.cores],
            wrote: HashMap::new(),
            known: vec![Known::default(); header.cores * KNOWN],
            age: 1,
            told: SparseMemory::new(),
            error: None,
        })
    }

    /// Ends it: only a trace that was finished can be replayed. Reports the first error there was.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.write_block();
        if let Some(error) = self.error {
            return Err(error.into());
        }
        frame::write_end(&mut self.out, self.events)?;
        Ok(self.out)
    }

    /// The error that has stopped the recording, if any: worth a look now and then in a long run.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    fn write_block(&mut self) {
        if !self.raw.is_empty() && self.error.is_none() {
            self.error = frame::write_block(&mut self.out, &self.raw).err();
        }
        self.raw.clear();
    }

    /// Before an event: room for it, and the core it is of.
    fn begin(&mut self, core: usize) {
        if self.raw.len() >= BLOCK {
            self.write_block();
        }
        if core != self.core {
            self.raw.push(tag::CORE);
            code::put(&mut self.raw, core as u64);
            self.events += 1;
            self.core = core;
        }
        self.events += 1;
    }

    /// Writes the entries that a walk reads and a replay does not have yet.
    fn tell_walk(&mut self, context: &Context, vaddr: u64) {
        let walk = self.format.walk(&self.memory, context, vaddr);
        for step in walk.steps() {
            let line = step.paddr & !(LINE - 1);
            self.tell_words(line..line + LINE);
        }
    }

    /// Writes the words of memory that a replay does not have yet.
    fn tell_words(&mut self, bytes: Range<u64>) {
        for paddr in (bytes.start & !7..bytes.end).step_by(8) {
            let Some(value) = self.memory.read_u64(paddr) else {
                continue;
            };
            if self.told.read_u64(paddr) != Some(value) {
                self.told.write_u64(paddr, value);
                self.raw.push(tag::MEMORY);
                code::put(&mut self.raw, (paddr >> 3).wrapping_sub(self.state.word));
                code::put(&mut self.raw, value);
                self.state.word = paddr >> 3;
                self.events += 1;
            }
        }
    }

    /// Writes the MaskPage that BabelFish reads for an address of the process that a core runs.
    fn tell_masks(&mut self, core: usize, vaddr: u64) -> Masks {
        let member = &self.members[core];
        if member.ccid == 0 {
            return Masks::default();
        }
        let (group, there) = (member.group, member.group_address(vaddr));
        let walk = self.format.walk(&self.memory, &self.contexts[core], vaddr);
        let above = walk.above_leaf().map_or(0, |step| step.paddr);
        let Some(page) = abi::mask_page(&self.memory, group, there) else {
            return Masks {
                above,
                ..Masks::default()
            };
        };
        let mask = abi::mask_at(page, there);
        self.tell_words(abi::directory(&self.memory, group));
        self.tell_words(mask..mask + 4);
        self.tell_words(abi::pid_list(page));
        Masks { above, mask, page }
    }

    /// Whether a replay still has these as they are.
    fn has(&self, masks: Masks) -> bool {
        let same = |paddr: u64| self.memory.read_u64(paddr) == self.told.read_u64(paddr);
        (masks.above == 0 || same(masks.above))
            && (masks.page == 0
                || same(masks.mask & !7) && abi::pid_list(masks.page).step_by(8).all(same))
    }

    /// The same for an address of the process that a core runs.
    fn tell(&mut self, core: usize, vaddr: u64) -> Masks {
        let context = self.contexts[core];
        self.tell_process(&context, vaddr);
        match context.paging {
            true => self.tell_masks(core, vaddr),
            false => Masks::default(),
        }
    }

    /// The same for an address of a process, in its own layout and in its cohort's.
    fn tell_process(&mut self, context: &Context, vaddr: u64) {
        if !context.paging {
            return;
        }
        let segments = self.segments.get(&context.root);
        let inside = segments.and_then(|list| {
            list.iter()
                .find(|part| (part.start..part.end).contains(&vaddr))
                .copied()
        });
        self.tell_walk(context, vaddr);
        if let Some(part) = inside {
            self.tell_walk(context, vaddr.wrapping_add(part.offset));
        }
    }

    fn tell_access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let context = self.contexts[core];
        let page = vaddr >> 12;
        let mut known = Known {
            root: context.root,
            page,
            frame: paddr.map(|paddr| paddr >> 12),
            write: kind == AccessKind::Write,
            age: self.age,
            masks: Masks::default(),
        };
        let slot = core * KNOWN + (page * 2 + u64::from(known.write)) as usize % KNOWN;
        let last = self.known[slot];
        known.masks = last.masks;
        if last != known || !self.has(last.masks) {
            known.masks = self.tell(core, vaddr);
            self.known[slot] = known;
        }
    }

    /// Writes a block of code that was not yet.
    fn write_code(&mut self, block: u32) {
        if let Some(code) = self.blocks[block as usize].take() {
            code::put_code(&mut self.raw, block, &code);
            self.state.define(block, code);
        }
    }

    fn forget(&mut self) {
        self.age += 1;
    }
}

impl<M: GuestMemory, W: Write> Sink for Recorder<M, W> {
    fn instructions(&mut self, core: usize, count: u64) {
        self.begin(core);
        self.state.place[core] = Place::default();
        if (1..=64).contains(&count) {
            self.raw.push(0x40 | (count - 1) as u8);
        } else {
            self.raw.push(tag::INSTRUCTIONS);
            code::put(&mut self.raw, count);
        }
    }

    /// It is written when it is first executed.
    fn define(&mut self, block: u32, code: &[Op]) {
        let number = block as usize;
        if self.blocks.len() <= number {
            self.blocks.resize(number + 1, None);
        }
        self.blocks[number] = Some(code.into());
        // But a core may still be in what had the number before.
        let mut places = self.state.place.iter();
        if places.any(|place| place.block == Some(block)) {
            self.begin(self.core);
            self.write_code(block);
        }
    }

    fn execute(&mut self, core: usize, block: u32) {
        self.begin(core);
        if self.blocks[block as usize].is_some() {
            self.write_code(block);
            self.events += 1;
        }
        self.raw.push(tag::EXECUTE);
        code::put(&mut self.raw, block.into());
        self.state.place[core] = Place::enter(block);
        self.at[core] = u32::MAX;
    }

    fn at(&mut self, core: usize, instruction: u32) {
        self.at[core] = instruction;
    }

    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32) {
        self.tell_access(core, kind, vaddr, paddr);
        let last = vaddr.wrapping_add(u64::from(size.max(1)) - 1);
        let mut page = vaddr | 0xfff;
        while page < last {
            self.tell_access(core, kind, page + 1, None);
            page += 0x1000;
        }
        self.begin(core);
        if let (Some(block), true) = (self.state.place[core].block, kind != AccessKind::Fetch) {
            let none = self.state.code[block as usize].len() as u32;
            let instruction = self.at[core].min(none);
            if instruction != self.state.expected(core, block, kind) {
                self.raw.push(tag::AT);
                code::put(&mut self.raw, instruction.into());
                self.events += 1;
            }
            self.state.place[core].accessed(instruction, kind);
        }
        code::put_access(
            &mut self.raw,
            &mut self.state,
            core,
            kind,
            vaddr,
            paddr,
            size,
        );
    }

    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        self.forget();
        let context = self.contexts[core];
        if kind == AccessKind::Write {
            self.wrote.insert(context.root, vaddr);
        }
        self.tell(core, vaddr);
        self.begin(core);
        self.raw.push(tag::FAULT);
        code::put(&mut self.raw, kind as u64);
        code::put(&mut self.raw, vaddr);
    }

    fn fault_done(&mut self, core: usize) {
        // A machine looks at what the store will find.
        let context = self.contexts[core];
        if let Some(vaddr) = self.wrote.remove(&context.root) {
            self.tell(core, vaddr);
        }
        self.begin(core);
        self.raw.push(tag::FAULT_DONE);
    }

    fn set_context(&mut self, core: usize, context: Context) {
        self.contexts[core] = context;
        self.begin(core);
        code::put_context(&mut self.raw, &context);
    }

    fn set_identity(&mut self, root: u64, identity: Identity) {
        self.begin(self.core);
        self.raw.push(tag::IDENTITY);
        for value in [root, identity.process.into(), identity.cohort.into()] {
            code::put(&mut self.raw, value);
        }
    }

    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        self.forget();
        self.segments.insert(root, segments.to_vec());
        self.begin(self.core);
        self.raw.push(tag::SEGMENTS);
        code::put(&mut self.raw, root);
        code::put_segments(&mut self.raw, segments);
    }

    fn set_member(&mut self, core: usize, member: &Member) {
        self.forget();
        self.members[core] = member.clone();
        self.begin(core);
        code::put_member(&mut self.raw, member);
    }

    fn private_copy(&mut self, root: u64, vaddr: u64) {
        let context = Context {
            paging: true,
            root,
            ..self.contexts[self.core]
        };
        self.tell_process(&context, vaddr);
        self.begin(self.core);
        self.raw.push(tag::PRIVATE_COPY);
        code::put(&mut self.raw, root);
        code::put(&mut self.raw, vaddr);
    }

    fn retire(&mut self, root: u64) {
        self.forget();
        self.segments.remove(&root);
        self.wrote.remove(&root);
        self.begin(self.core);
        self.raw.push(tag::RETIRE);
        code::put(&mut self.raw, root);
    }

    fn invalidate(&mut self, core: usize, what: Invalidation) {
        self.forget();
        self.begin(core);
        code::put_invalidation(&mut self.raw, what);
    }

    fn mark(&mut self, core: usize, mark: Mark) {
        self.begin(core);
        code::put_mark(&mut self.raw, mark);
    }
}
