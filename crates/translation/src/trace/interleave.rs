// SPDX-License-Identifier: GPL-2.0-or-later
//! Cores mixed finely: QEMU's vCPUs take turns of many thousand instructions, so a trace has a long
//! run of one core after that of another. This gives a trace to a machine in turns of at most a
//! quantum of instructions; a block of code is never cut, so one that is longer than the quantum is a
//! turn by itself.
//!
//! Events are queued by core and keep their order on it. When enough are queued, or at an event that
//! is no core's own (a process is named, a region begins), the cores take turns until all queues are
//! empty. A word of the page tables that was never seen goes to memory at once: no earlier event
//! needed it. A word that changes waits in its core's queue, so another core may use it too early or
//! too late by a turn, as on a real machine before the flush; what comes of that is in the counters
//! `stale` and `unexplained`.

use super::{Reader, TraceError};
use crate::code::Op;
use crate::event::{AccessKind, Context, Identity, Invalidation, Mark, Member, Segment, Sink};
use crate::hash::QuickMap;
use crate::machine::Machine;
use crate::memory::SparseMemory;
use std::collections::VecDeque;
use std::io::Read;

/// Events that are queued before the cores take turns.
const QUEUED_MAX: usize = 2_000_000;

/// An event of a core.
enum Event {
    Instructions(u64),
    Execute(u32),
    At(u32),
    Access(AccessKind, u64, Option<u64>, u32),
    Fault(AccessKind, u64),
    FaultDone,
    Context(Context),
    Invalidate(Invalidation),
    Mark(Mark),
    Member(Box<Member>),
    Memory(u64, u64),
}

/// A sink that mixes the cores before a machine sees them.
struct Interleaved<'a> {
    machine: &'a mut Machine<SparseMemory>,
    quantum: u64,
    queues: Vec<VecDeque<Event>>,
    queued: usize,
    /// The core of the last event: words of memory are its own.
    core: usize,
    /// Words of memory by address.
    words: QuickMap<u64, u64>,
    /// Instructions of each block of code; 0 for those that are not defined.
    blocks: Vec<u64>,
}

impl Interleaved<'_> {
    fn push(&mut self, core: usize, event: Event) {
        self.core = core;
        self.queues[core].push_back(event);
        self.queued += 1;
        if self.queued >= QUEUED_MAX {
            self.take_turns();
        }
    }

    fn memory(&mut self, paddr: u64, value: u64) {
        match self.words.insert(paddr, value) {
            None => self.machine.memory_mut().write_u64(paddr, value),
            Some(_) => self.push(self.core, Event::Memory(paddr, value)),
        }
    }

    /// Every core executes a quantum, then every core the next, until all queues are empty.
    fn take_turns(&mut self) {
        while self.queues.iter().any(|queue| !queue.is_empty()) {
            for core in 0..self.queues.len() {
                self.turn(core);
            }
        }
        self.queued = 0;
    }

    fn turn(&mut self, core: usize) {
        let mut left = self.quantum;
        while let Some(event) = self.queues[core].pop_front() {
            match event {
                Event::Instructions(count) if count > left => {
                    if left > 0 {
                        self.machine.instructions(core, left);
                    }
                    self.queues[core].push_front(Event::Instructions(count - left));
                    return;
                }
                Event::Instructions(count) => {
                    left -= count;
                    self.machine.instructions(core, count);
                }
                Event::Execute(block) => {
                    let count = self.blocks[block as usize];
                    if count > left && left < self.quantum {
                        self.queues[core].push_front(Event::Execute(block));
                        return;
                    }
                    left = left.saturating_sub(count);
                    self.machine.execute(core, block);
                }
                Event::At(instruction) => self.machine.at(core, instruction),
                Event::Access(kind, vaddr, paddr, size) => {
                    self.machine.access(core, kind, vaddr, paddr, size);
                }
                Event::Fault(kind, vaddr) => self.machine.fault(core, kind, vaddr),
                Event::FaultDone => self.machine.fault_done(core),
                Event::Context(context) => self.machine.set_context(core, context),
                Event::Invalidate(what) => self.machine.invalidate(core, what),
                Event::Mark(mark) => self.machine.mark(core, mark),
                Event::Member(member) => self.machine.set_member(core, &member),
                Event::Memory(paddr, value) => self.machine.memory_mut().write_u64(paddr, value),
            }
        }
    }
}

impl Sink for Interleaved<'_> {
    fn instructions(&mut self, core: usize, count: u64) {
        self.push(core, Event::Instructions(count));
    }

    fn define(&mut self, block: u32, code: &[Op]) {
        let number = block as usize;
        if self.blocks.len() <= number {
            self.blocks.resize(number + 1, 0);
        }
        // What had the number before may be queued.
        if self.blocks[number] > 0 {
            self.take_turns();
        }
        self.blocks[number] = code.len() as u64;
        self.machine.define(block, code);
    }

    fn execute(&mut self, core: usize, block: u32) {
        self.push(core, Event::Execute(block));
    }

    fn at(&mut self, core: usize, instruction: u32) {
        self.push(core, Event::At(instruction));
    }

    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32) {
        self.push(core, Event::Access(kind, vaddr, paddr, size));
    }

    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        self.push(core, Event::Fault(kind, vaddr));
    }

    fn fault_done(&mut self, core: usize) {
        self.push(core, Event::FaultDone);
    }

    fn set_context(&mut self, core: usize, context: Context) {
        self.push(core, Event::Context(context));
    }

    fn set_identity(&mut self, root: u64, identity: Identity) {
        self.take_turns();
        self.machine.set_identity(root, identity);
    }

    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        self.take_turns();
        self.machine.set_segments(root, segments);
    }

    fn set_member(&mut self, core: usize, member: &Member) {
        self.push(core, Event::Member(Box::new(member.clone())));
    }

    fn private_copy(&mut self, root: u64, vaddr: u64) {
        self.take_turns();
        self.machine.private_copy(root, vaddr);
    }

    fn retire(&mut self, root: u64) {
        self.take_turns();
        self.machine.retire(root);
    }

    fn invalidate(&mut self, core: usize, what: Invalidation) {
        self.push(core, Event::Invalidate(what));
    }

    fn mark(&mut self, core: usize, mark: Mark) {
        match mark {
            // The region of interest is that of all cores.
            Mark::Start | Mark::Stop => {
                self.take_turns();
                self.machine.mark(core, mark);
            }
            Mark::RequestBegin { .. } | Mark::RequestEnd { .. } => {
                self.push(core, Event::Mark(mark));
            }
        }
    }
}

/// As [`super::replay`], with the cores in turns of at most `quantum` instructions.
pub fn replay_interleaved<R: Read>(
    mut reader: Reader<R>,
    machine: &mut Machine<SparseMemory>,
    quantum: u64,
) -> Result<u64, TraceError> {
    super::reader::check_fit(reader.header(), machine)?;
    let mut mixed = Interleaved {
        quantum: quantum.max(1),
        queues: (0..machine.cores()).map(|_| VecDeque::new()).collect(),
        queued: 0,
        core: 0,
        words: QuickMap::default(),
        blocks: Vec::new(),
        machine,
    };
    let accesses = reader.play(&mut mixed, |mixed, paddr, value| mixed.memory(paddr, value))?;
    mixed.take_turns();
    Ok(accesses)
}
