// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading a trace, and giving it to a machine.

use super::code::{Block, Place, State, tag};
use super::frame::Frames;
use super::{Header, TraceError};
use crate::event::{AccessKind, Sink};
use crate::machine::Machine;
use crate::memory::SparseMemory;
use std::io::Read;

/// Accesses and blocks of code that are read ahead of the one that a sink gets.
const AHEAD: usize = 24;

/// An event that was read ahead.
#[derive(Clone, Copy)]
enum Ahead {
    /// The block of code.
    Execute(u32),
    /// A word of the guest's memory, and its address.
    Memory(u64, u64),
    /// The instruction, if it is known.
    Access {
        instruction: Option<u32>,
        kind: AccessKind,
        size: u32,
        vaddr: u64,
        paddr: Option<u64>,
    },
}

/// What was read ahead on a core, in order.
struct Batch {
    core: usize,
    events: [Ahead; AHEAD],
    count: usize,
}

impl Batch {
    /// Adds an event, and gives everything to the sink when there is no room for another.
    #[inline(always)]
    fn push<S: Sink>(
        &mut self,
        event: Ahead,
        sink: &mut S,
        memory: &mut impl FnMut(&mut S, u64, u64),
    ) {
        self.events[self.count] = event;
        self.count += 1;
        if self.count == AHEAD {
            self.give(sink, memory);
        }
    }

    /// Gives everything to the sink.
    #[inline(never)]
    fn give<S: Sink>(&mut self, sink: &mut S, memory: &mut impl FnMut(&mut S, u64, u64)) {
        let core = self.core;
        for event in &self.events[..self.count] {
            match *event {
                Ahead::Execute(block) => sink.execute(core, block),
                Ahead::Memory(paddr, value) => memory(sink, paddr, value),
                Ahead::Access {
                    instruction,
                    kind,
                    size,
                    vaddr,
                    paddr,
                } => {
                    if let Some(instruction) = instruction {
                        sink.at(core, instruction);
                    }
                    sink.access(core, kind, vaddr, paddr, size);
                }
            }
        }
        self.count = 0;
    }
}

/// A trace being read.
pub struct Reader<R: Read> {
    header: Header,
    frames: Frames<R>,
    raw: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the head; refuses what is not a trace of this version. A file wants no buffer around
    /// it: it is read in large pieces.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut frames = Frames::new(input);
        let header = frames.head()?;
        if !(1..=crate::machine::CORES_MAX).contains(&header.cores) {
            return Err(TraceError::Damaged {
                at: 0,
                what: "its number of cores is impossible",
            });
        }
        Ok(Self {
            header,
            frames,
            raw: Vec::new(),
        })
    }

    /// The facts about the run.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Gives every event to a sink, and the words of guest memory to `memory` before the events
    /// that need them; returns how many accesses there were. Checks the whole file.
    pub fn play<S: Sink>(
        &mut self,
        sink: &mut S,
        mut memory: impl FnMut(&mut S, u64, u64),
    ) -> Result<u64, TraceError> {
        let mut batch = Batch {
            core: 0,
            events: [Ahead::Execute(0); AHEAD],
            count: 0,
        };
        let played = self.play_ahead(sink, &mut memory, &mut batch);
        batch.give(sink, &mut memory);
        played
    }

    fn play_ahead<S: Sink>(
        &mut self,
        sink: &mut S,
        memory: &mut impl FnMut(&mut S, u64, u64),
        batch: &mut Batch,
    ) -> Result<u64, TraceError> {
        let mut state = State::new(self.header.cores);
        let (mut events, mut accesses, mut core) = (0u64, 0u64, 0usize);
        let mut told = None;
        loop {
            let at = self.frames.position();
            let mut raw = std::mem::take(&mut self.raw);
            if let Some(written) = self.frames.block(&mut raw)? {
                if written != events {
                    let what = "the number of its events is not the one in its end mark";
                    return Err(TraceError::Damaged { at, what });
                }
                return Ok(accesses);
            }
            let mut block = Block::new(&raw, at);
            while let Some(first) = block.first() {
                events += 1;
                if !matches!(first, 0x80..|tag::EXECUTE| tag::AT | tag::MEMORY) {
                    batch.give(sink, memory);
                }
                match first {
                    0x80.. => {
                        let (kind, vaddr, paddr, size) = block.access(&mut state, core, first)?;
                        let mut instruction = None;
                        if let (Some(code), true) =
                            (state.place[core].block, kind != AccessKind::Fetch)
                        {
                            let next = || state.expected(core, code, kind);
                            let known = told.take().unwrap_or_else(next);
                            state.place[core].accessed(known, kind);
                            instruction = Some(known);
                        }
                        // A page that was not just there: it will miss.
                        if first >> 3 & 3 == 2 {
                            sink.expect(core, vaddr, paddr);
                        }
                        let access = Ahead::Access {
                            instruction,
                            kind,
                            size,
                            vaddr,
                            paddr,
                        };
                        batch.push(access, sink, memory);
                        accesses += 1;
                    }
                    0x40.. => {
                        state.place[core] = Place::default();
                        sink.instructions(core, u64::from(first & 0x3f) + 1);
                    }
                    tag::CORE => {
                        core = block.small()?;
                        if core >= self.header.cores {
                            return Err(block.damaged("there is no such core"));
                        }
                        batch.core = core;
                    }
                    tag::INSTRUCTIONS => {
                        state.place[core] = Place::default();
                        sink.instructions(core, block.number()?);
                    }
                    tag::DEFINE => {
                        let (number, code) = block.code()?;
                        sink.define(number, &code);
                        state.define(number, code);
                    }
                    tag::EXECUTE => {
                        let number: u32 = block.small()?;
                        if state.code.get(number as usize).is_none() {
                            return Err(block.damaged("a block of code was not given"));
                        }
                        state.place[core] = Place::enter(number);
                        batch.push(Ahead::Execute(number), sink, memory);
                    }
                    tag::AT => told = Some(block.small()?),
                    tag::CONTEXT => sink.set_context(core, block.context()?),
                    tag::IDENTITY => {
                        let (root, identity) = block.identity()?;
                        sink.set_identity(root, identity);
                    }
                    tag::SEGMENTS => {
                        let root = block.number()?;
                        sink.set_segments(root, &block.segments()?);
                    }
                    tag::MEMBER => sink.set_member(core, &block.member()?),
                    tag::PRIVATE_COPY => sink.private_copy(block.number()?, block.number()?),
                    tag::RETIRE => sink.retire(block.number()?),
                    tag::INVALIDATE => sink.invalidate(core, block.invalidation()?),
                    tag::FAULT => {
                        let code = block.small()?;
                        let kind = block.kind(code)?;
                        sink.fault(core, kind, block.number()?);
                    }
                    tag::FAULT_DONE => sink.fault_done(core),
                    tag::MARK => sink.mark(core, block.mark()?),
                    tag::MEMORY => {
                        state.word = state.word.wrapping_add(block.number()?);
                        let word = Ahead::Memory(state.word << 3, block.number()?);
                        batch.push(word, sink, memory);
                    }
                    _ => return Err(block.damaged("an event is unknown")),
                }
            }
            self.raw = raw;
        }
    }
}

/// Gives every event of a trace to a machine; returns how many accesses there were. Refuses a
/// trace that is truncated or damaged with an error that says where; the machine has then seen
/// the part before.
pub fn replay<R: Read>(
    mut reader: Reader<R>,
    machine: &mut Machine<SparseMemory>,
) -> Result<u64, TraceError> {
    check_fit(reader.header(), machine)?;
    reader.play(machine, |machine, paddr, value| {
        machine.memory_mut().write_u64(paddr, value)
    })
}

/// Whether a machine can take a trace.
pub(super) fn check_fit(
    header: &Header,
    machine: &Machine<SparseMemory>,
) -> Result<(), TraceError> {
    if header.page_tables != machine.page_tables() {
        return Err(TraceError::Unfit(format!(
            "it has page tables {:?}, the machine {:?}",
            header.page_tables,
            machine.page_tables()
        )));
    }
    if header.cores > machine.cores() {
        return Err(TraceError::Unfit(format!(
            "it has {} cores, the machine {}",
            header.cores,
            machine.cores()
        )));
    }
    Ok(())
}
