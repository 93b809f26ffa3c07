// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends events to a model, to a trace, or nowhere.

use crate::arch::Arch;
use crate::args::Args;
use crate::ram::Ram;
use crate::regions::Counting;
use anyhow::{Context as _, Result, bail};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use translation::counters::Counters;
use translation::metrics::{Metric, of_census};
use translation::trace::{Header, Recorder};
use translation::{
    AccessKind, Context, Identity, Invalidation, Machine, Mark, Model, Op, Report, Segment, Sink,
};

/// The sink, and what is needed to open it.
pub struct Engine {
    cores: usize,
    header: Header,
    model: Option<Model>,
    record: Option<PathBuf>,
    check: bool,
    sink: To,
}

enum To {
    Nowhere,
    Machine(Box<Machine<Ram>>),
    Trace(Box<Recorder<Ram, BufWriter<File>>>),
}

impl Engine {
    /// Reads the model's description and checks the arguments; [`Engine::start`] opens the sink.
    pub fn prepare(args: &Args, arch: &Arch, cores: usize) -> Result<Self> {
        if args.model.is_some() && args.record.is_some() {
            bail!("model= and record= exclude each other: a trace can be replayed under any model");
        }
        // A model of another machine walks this guest's tables.
        let model = match args.model.as_deref() {
            Some(model) => Some(Model::load(model)?.with_page_tables(arch.page_tables)?),
            None => None,
        };
        Ok(Engine {
            cores,
            header: Header {
                cores,
                page_tables: arch.page_tables.into(),
                about: args.about.clone(),
            },
            model,
            record: args.record.clone(),
            check: args.check,
            sink: To::Nowhere,
        })
    }

    /// Opens the sink, now that the guest's memory is mapped.
    pub fn start(&mut self, ram: Ram) -> Result<()> {
        if let Some(model) = &self.model {
            let mut machine = Machine::new(model, self.cores, ram)?;
            machine.check_every_access(self.check);
            self.sink = To::Machine(Box::new(machine));
        } else if let Some(path) = &self.record {
            let file =
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            let recorder = Recorder::new(&self.header, ram, BufWriter::new(file))
                .with_context(|| format!("cannot write {}", path.display()))?;
            self.sink = To::Trace(Box::new(recorder));
        }
        Ok(())
    }

    /// Whether it wants to know what instructions read and write.
    pub fn follows_registers(&self) -> bool {
        self.model.is_some() || self.record.is_some()
    }

    /// The model's counters; None without a model.
    pub fn report(&self) -> Option<Report> {
        match &self.sink {
            To::Machine(machine) => Some(machine.report()),
            _ => None,
        }
    }

    /// The model's own check: accesses compared, and sentences for the first that differed.
    pub fn checked(&self) -> (u64, Vec<String>) {
        let To::Machine(machine) = &self.sink else {
            return (0, Vec::new());
        };
        let words = machine.mismatches().iter().map(|mismatch| {
            let entries: Vec<_> = mismatch
                .walk
                .steps()
                .iter()
                .map(|step| format!("[{:#x}]={:#x}", step.paddr, step.value))
                .collect();
            let held = mismatch
                .held
                .map(|held| format!("a TLB held {held:#x}, which no walk brought in, "))
                .unwrap_or_default();
            format!(
                "core {}, {:?} at {:#x}: QEMU used {:#x?}, {held}the model's walk gives {:x?}; \
                 entries: {}",
                mismatch.core,
                mismatch.kind,
                mismatch.vaddr,
                mismatch.paddr.unwrap_or_default(),
                mismatch.walk.result,
                entries.join(" ")
            )
        });
        (machine.checked(), words.collect())
    }

    /// Closes a trace and writes it to disk.
    pub fn finish(&mut self) -> Result<()> {
        if let To::Trace(recorder) = std::mem::replace(&mut self.sink, To::Nowhere) {
            let file = recorder.finish().context("cannot write the trace")?;
            file.into_inner()
                .map_err(|error| error.into_error())
                .and_then(|file| file.sync_all())
                .context("cannot write the trace")?;
        }
        Ok(())
    }
}

impl Counting for Engine {
    fn counters(&self, core: usize) -> Option<Counters> {
        match &self.sink {
            To::Machine(machine) => Some(machine.counters(core)),
            _ => None,
        }
    }
    fn process(&self, core: usize) -> u32 {
        match &self.sink {
            To::Machine(machine) => machine.process(core),
            _ => 0,
        }
    }
    fn process_counters(&self, process: u32) -> Option<Counters> {
        match &self.sink {
            To::Machine(machine) => Some(machine.process_counters(process)),
            _ => None,
        }
    }
    fn cores(&self) -> usize {
        self.cores
    }
    fn ticks_per_cycle(&self) -> u64 {
        match &self.sink {
            To::Machine(machine) => machine.ticks_per_cycle(),
            _ => 1,
        }
    }
    fn census(&self) -> Vec<Metric> {
        match &self.sink {
            To::Machine(machine) => of_census(&machine.census()),
            _ => Vec::new(),
        }
    }
}

/// Calls the same method of the open sink.
macro_rules! forward {
    ($self:ident, $sink:ident => $call:expr) => {
        match &mut $self.sink {
            To::Machine($sink) => $call,
            To::Trace($sink) => $call,
            To::Nowhere => {}
        }
    };
}

impl Sink for Engine {
    #[inline]
    fn instructions(&mut self, core: usize, count: u64) {
        forward!(self, sink => sink.instructions(core, count))
    }
    fn define(&mut self, block: u32, code: &[Op]) {
        forward!(self, sink => sink.define(block, code))
    }
    #[inline]
    fn execute(&mut self, core: usize, block: u32) {
        forward!(self, sink => sink.execute(core, block))
    }
    #[inline]
    fn at(&mut self, core: usize, instruction: u32) {
        forward!(self, sink => sink.at(core, instruction))
    }
    #[inline]
    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32) {
        forward!(self, sink => sink.access(core, kind, vaddr, paddr, size))
    }
    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64) {
        forward!(self, sink => sink.fault(core, kind, vaddr))
    }
    fn fault_done(&mut self, core: usize) {
        forward!(self, sink => sink.fault_done(core))
    }
    fn set_context(&mut self, core: usize, context: Context) {
        forward!(self, sink => sink.set_context(core, context))
    }
    fn set_identity(&mut self, root: u64, identity: Identity) {
        forward!(self, sink => sink.set_identity(root, identity))
    }
    fn set_segments(&mut self, root: u64, segments: &[Segment]) {
        forward!(self, sink => sink.set_segments(root, segments))
    }
    fn private_copy(&mut self, root: u64, vaddr: u64) {
        forward!(self, sink => sink.private_copy(root, vaddr))
    }
    fn retire(&mut self, root: u64) {
        forward!(self, sink => sink.retire(root))
    }
    fn invalidate(&mut self, core: usize, what: Invalidation) {
        forward!(self, sink => sink.invalidate(core, what))
    }
    fn mark(&mut self, core: usize, mark: Mark) {
        forward!(self, sink => sink.mark(core, mark))
    }
}
