// SPDX-License-Identifier: GPL-2.0-or-later
//! The model itself.

use crate::counters::{Counters, Report};
use crate::description::{Model, ModelError};
use crate::event::{AccessKind, Context, Identity, Invalidation, Mark, Segment, Sink};
use crate::memory::GuestMemory;

/// Why a translation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No translation: an entry on the way is not present.
    NotPresent,
    /// The entry does not allow this kind of access.
    Protection,
    /// A write to a page that the entry maps read-only and the cohort shares: BabelFish's CoW page
    /// fault (ISCA'20 Figure 8, step 6).
    CopyOnWrite,
    /// The domain of the entry is closed to this process (ARMv7).
    Domain,
}

/// A modelled machine with its cores.
pub struct Machine<M> {
    model: Model,
    memory: M,
    cores: Vec<Counters>,
}

impl<M: GuestMemory> Machine<M> {
    /// Makes a machine of `cores` cores that walks the page tables in `memory`.
    pub fn new(model: &Model, cores: usize, memory: M) -> Result<Self, ModelError> {
        Ok(Self {
            model: model.clone(),
            memory,
            cores: vec![Counters::default(); cores],
        })
    }

    /// The memory it was given.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory it was given, to be changed.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// All counters: of the region of interest if one was marked, else from the start.
    pub fn report(&self) -> Report {
        Report {
            model: self.model.name.clone(),
            total: Counters::default(),
            cores: self.cores.clone(),
        }
    }
}

impl<M: GuestMemory> Sink for Machine<M> {
    fn instructions(&mut self, core: usize, count: u64) {
        self.cores[core].instructions += count;
    }
    fn access(&mut self, core: usize, kind: AccessKind, _: u64, _: Option<u64>, _: u32) {
        let counters = &mut self.cores[core];
        match kind {
            AccessKind::Fetch => counters.fetches += 1,
            AccessKind::Read => counters.reads += 1,
            AccessKind::Write => counters.writes += 1,
        }
    }
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
