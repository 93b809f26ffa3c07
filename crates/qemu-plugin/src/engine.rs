// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends events to a model, to a trace, or nowhere.

use crate::arch::Arch;
use crate::args::Args;
use crate::ram::Ram;
use crate::regions::Counting;
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use translation::counters::Counters;
use translation::mechanism::babelfish::Source;
use translation::metrics::{Metric, of_census};
use translation::trace::{Header, Recorder};
use translation::{
    AccessKind, Context, Identity, Invalidation, Machine, Mark, Member, Model, Op, Report, Segment,
    Sink,
};

/// The sink, and what is needed to open it.
pub struct Engine {
    cores: usize,
    header: Header,
    model: Option<Model>,
    readings: Vec<Reading>,
    record: Option<PathBuf>,
    check: bool,
    sink: To,
    /// A machine for each of `readings`; they see what the model sees.
    others: Vec<Machine<Ram>>,
}

/// Another reading of the model, of which only the clock and the counts are of interest: each of its
/// figures bounds the model's.
struct Reading {
    label: String,
    model: Model,
}

/// A reading as its file has it.
#[derive(Deserialize)]
struct Written {
    label: String,
    /// A whole description, as TOML.
    description: String,
}

/// The readings of a file, a JSON list.
fn readings(path: &Path, page_tables: &str) -> Result<Vec<Reading>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let written: Vec<Written> = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a list of readings", path.display()))?;
    let load = |Written { label, description }| {
        let model = Model::parse(&label, &description)?.with_page_tables(page_tables)?;
        Ok(Reading { label, model })
    };
    written.into_iter().map(load).collect()
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
        let readings = match &args.readings {
            Some(path) => readings(path, arch.page_tables)?,
            None => Vec::new(),
        };
        Ok(Engine {
            cores,
            header: Header {
                cores,
                page_tables: arch.page_tables.into(),
                about: args.about.clone(),
            },
            model,
            readings,
            record: args.record.clone(),
            check: args.check,
            sink: To::Nowhere,
            others: Vec::new(),
        })
    }

    /// Opens the sink, now that the guest's memory is mapped.
    pub fn start(&mut self, ram: Ram) -> Result<()> {
        if let Some(model) = &self.model {
            let mut machine = Machine::new(model, self.cores, ram)?;
            machine.check_every_access(self.check);
            self.sink = To::Machine(Box::new(machine));
            for reading in &self.readings {
                let machine = Machine::new(&reading.model, self.cores, ram)
                    .with_context(|| format!("the reading {}", reading.label))?;
                self.others.push(machine);
            }
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

    /// Whether it wants to know what a BabelFish kernel does: its model heeds the kernel's marks, or a
    /// trace may be replayed under one that does.
    pub fn heeds_the_kernel(&self) -> bool {
        let fish = self
            .model
            .as_ref()
            .and_then(|model| model.mechanisms.babelfish.as_ref());
        self.record.is_some() || fish.is_some_and(|fish| fish.source == Source::Kernel)
    }

    /// Sentences for the first violations of what BabelFish's kernel promises.
    pub fn violations(&self) -> Vec<String> {
        let found = self.machine(0).map_or(&[][..], Machine::violations);
        found.iter().map(ToString::to_string).collect()
    }

    /// The labels of the model's other readings.
    pub fn labels(&self) -> Vec<String> {
        let labels = self.readings.iter().map(|reading| reading.label.clone());
        labels.collect()
    }

    /// The machine of a reading: 0 is the model as it is described.
    fn machine(&self, reading: usize) -> Option<&Machine<Ram>> {
        match (&self.sink, reading.checked_sub(1)) {
            (To::Machine(machine), None) => Some(machine),
            (_, None) => None,
            (_, Some(other)) => self.others.get(other),
        }
    }

    /// The model's counters; None without a model.
    pub fn report(&self) -> Option<Report> {
        self.machine(0).map(Machine::report)
    }

    /// The model's own check: accesses compared, and sentences for the first that differed.
    pub fn checked(&self) -> (u64, Vec<String>) {
        let Some(machine) = self.machine(0) else {
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
    fn readings(&self) -> usize {
        match &self.sink {
            To::Machine(_) => 1 + self.others.len(),
            _ => 0,
        }
    }
    fn counters(&self, reading: usize, core: usize) -> Counters {
        let machine = self.machine(reading);
        machine.map_or_else(Counters::default, |machine| machine.counters(core))
    }
    fn process(&self, core: usize) -> u32 {
        self.machine(0).map_or(0, |machine| machine.process(core))
    }
    fn process_counters(&self, reading: usize, process: u32) -> Counters {
        let machine = self.machine(reading);
        machine.map_or_else(Counters::default, |machine| {
            machine.process_counters(process)
        })
    }
    fn cores(&self) -> usize {
        self.cores
    }
    fn ticks_per_cycle(&self, reading: usize) -> u64 {
        self.machine(reading).map_or(1, Machine::ticks_per_cycle)
    }
    fn census(&self) -> Vec<Metric> {
        let machine = self.machine(0);
        machine.map_or_else(Vec::new, |machine| of_census(&machine.census()))
    }
}

/// Calls the same method of the open sink, and of the machines beside it.
macro_rules! forward {
    ($self:ident, $sink:ident => $call:expr) => {
        match &mut $self.sink {
            To::Machine($sink) => {
                $call;
                for $sink in &mut $self.others {
                    $call;
                }
            }
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
    fn set_member(&mut self, core: usize, member: &Member) {
        forward!(self, sink => sink.set_member(core, member))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::list;
    use crate::ram::Layout;

    const WHOLE: Layout = Layout {
        base: 0,
        low: u64::MAX,
        high: 0,
    };

    fn engine(readings: Option<&str>) -> Result<Engine> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("readings.json");
        std::fs::write(&path, readings.unwrap_or_default()).unwrap();
        let args = Args {
            model: Some("baseline".into()),
            readings: readings.map(|_| path),
            ..Args::default()
        };
        Engine::prepare(&args, list::find("x86_64").unwrap(), 2)
    }

    /// A reading of the model `baseline`, as JSON.
    fn reading(label: &str, change: &str) -> String {
        let description = format!(
            "name = \"r\"\nabout = \"a test\"\nbase = \"baseline\"\nsources = \"a test\"\n{change}\n"
        );
        serde_json::json!({ "label": label, "description": description }).to_string()
    }

    #[test]
    fn other_readings_see_what_the_model_sees_and_keep_their_own_time() {
        let slow = reading("slow memory", "[memory]\ncas = 99");
        let small = reading("small L1", "[cache.l1d]\nkb = 4\nways = 1");
        let mut engine = engine(Some(&format!("[{slow}, {small}]"))).unwrap();
        assert_eq!(engine.readings(), 0);
        engine.start(Ram::over(&[0; 512], WHOLE)).unwrap();
        assert_eq!((engine.readings(), engine.labels().len()), (3, 2));
        engine.set_context(1, Context::default());
        for round in 0..2 {
            for line in 0..256u64 {
                engine.instructions(1, 10);
                let vaddr = 0x10_0000 + line * 64;
                engine.access(1, AccessKind::Read, vaddr, Some(vaddr), 8);
            }
            assert_eq!(engine.counters(2, 1).reads, 256 * (round + 1));
        }
        let [plain, slow, small] = [0, 1, 2].map(|reading| engine.counters(reading, 1));
        assert_eq!(
            (slow.instructions, slow.cache),
            (plain.instructions, plain.cache)
        );
        assert!(slow.ticks > plain.ticks);
        assert!(small.cache[1].misses > plain.cache[1].misses);
        // Another core counts nothing.
        assert_eq!(engine.counters(1, 0).instructions, 0);
    }

    #[test]
    fn a_reading_that_is_no_model_is_named() {
        let bad = reading("bad", "[core]\nrob = 5000");
        for (text, word) in [
            (format!("[{bad}]"), "core.rob at most 4096"),
            ("{}".into(), "not a list of readings"),
        ] {
            let Err(error) = engine(Some(&text)) else {
                panic!("it was taken");
            };
            assert!(format!("{error:#}").contains(word), "{error:#}");
        }
        assert!(engine(None).is_ok());
    }
}
