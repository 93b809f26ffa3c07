// SPDX-License-Identifier: GPL-2.0-or-later
//! A run of the guest: follows what each core translates by and which process it runs, and sends
//! fetches, loads and stores to the engine.

mod events;
#[cfg(test)]
mod tests;

use crate::api::{CurrentCpu, Registers};
use crate::arch::op::Op;
use crate::arch::registers::Bytes;
use crate::arch::{Arch, Cpu};
use crate::args::Args;
use crate::audit::{Auditor, Now};
use crate::block::{Block, Event};
use crate::check::Checker;
use crate::cores::Cores;
use crate::engine::Engine;
use crate::kernel::{Kernel, read_kernel};
use crate::output::Output;
use crate::processes::Processes;
use crate::profile::Profiler;
use crate::ram::Ram;
use crate::regions::Regions;
use anyhow::{Context as _, Result};
use translation::{AccessKind, Member, Op as Instruction, Privilege, Sink};

/// What the auditor may read, without borrowing the auditor.
macro_rules! now {
    ($session:ident, $vcpu:ident) => {
        Now {
            arch: $session.arch,
            cpu: $session.cpu.as_deref(),
            kernel: $session.kernel.as_ref(),
            ram: $session.ram,
            core: &$session.cores[$vcpu],
            at: $session.output.instructions,
        }
    };
}

pub struct Session {
    args: Args,
    arch: &'static Arch,
    cpu: Option<Box<dyn Cpu>>,
    current: Option<CurrentCpu>,
    kernel: Option<Kernel>,
    cores: Cores,
    ram: Option<Ram>,
    engine: Engine,
    /// The number of the next block that is executed.
    blocks: u32,
    checker: Option<Checker>,
    auditor: Option<Auditor>,
    profiler: Option<Profiler>,
    processes: Processes,
    regions: Regions,
    /// The instruction at which the next census is due.
    census: u64,
    output: Output,
    active: bool,
    /// The kernel is one of BabelFish's: it has said what a core runs.
    members: bool,
}

impl Session {
    /// Prepares a run, and reports errors in the arguments before the guest starts.
    pub fn new(args: Args, arch: &'static Arch, vcpus: usize) -> Result<Self> {
        let kernel = args.kernel.as_deref();
        let kernel = kernel.map(|path| Kernel::read(path, arch)).transpose()?;
        let engine = Engine::prepare(&args, arch, vcpus)?;
        let profiler = match (&args.profile, &args.kernel) {
            (Some(file), Some(vmlinux)) => {
                let file = file.clone();
                Some(Profiler::new(vmlinux, file, arch.kernel, vcpus)?)
            }
            _ => None,
        };
        Ok(Session {
            active: args.whole,
            members: false,
            output: Output::new(args.model.as_deref(), vcpus),
            arch,
            cpu: None,
            current: None,
            kernel,
            cores: Cores::new(vcpus),
            ram: None,
            engine,
            blocks: 0,
            checker: None,
            auditor: None,
            profiler,
            processes: Processes::default(),
            regions: Regions::default(),
            census: u64::MAX,
            args,
        })
    }

    /// Takes note of a vCPU. Registers and memory can be looked up only when the first is there.
    pub fn vcpu(&mut self, index: usize) -> Result<()> {
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(CurrentCpu::new(self.cores.count())?),
        };
        current.learn(index)?;
        if self.cpu.is_some() {
            return Ok(());
        }
        self.cpu = Some(Box::new(Registers::find(self.arch)?));
        let ram = Ram::find(&self.args.ram, self.arch.layout.at(self.args.base))?;
        self.ram = Some(ram);
        self.engine.start(ram)?;
        if self.args.check {
            self.checker = Some(Checker::new(self.arch.walk, ram));
        }
        if self.args.audit {
            let (cores, vmlinux) = (self.cores.count(), self.args.kernel.as_deref());
            self.auditor = Some(Auditor::new(self.arch, cores, ram, vmlinux)?);
        }
        Ok(())
    }

    #[inline(always)]
    pub fn vcpu_now(&mut self) -> usize {
        self.current.as_mut().map_or(0, CurrentCpu::index)
    }

    /// True if loads and stores are of interest.
    pub fn wants_accesses(&self) -> bool {
        self.profiler.is_none()
    }

    /// True if accesses are to be reported.
    #[inline(always)]
    pub fn active(&self) -> bool {
        self.active
    }

    /// A new part of a block that begins at `vaddr`, at the host address `host`.
    pub fn block(&self, vaddr: u64, host: usize) -> Block {
        let kernel = vaddr >= self.arch.kernel;
        let function = match &self.profiler {
            Some(profiler) if kernel => profiler.function(vaddr),
            _ => (0, false),
        };
        Block {
            function,
            vaddr,
            paddr: self.ram.and_then(|ram| ram.physical(host)),
            size: 0,
            instructions: 0,
            code: Vec::new(),
            number: None,
            kernel,
            space: u64::MAX,
        }
    }

    /// What the instructions of a part of a block read and write.
    pub fn code(&self, instructions: &[Bytes]) -> Vec<Instruction> {
        match self.engine.follows_registers() {
            true => (self.arch.registers)(instructions),
            false => Vec::new(),
        }
    }

    /// QEMU has dropped all blocks: their numbers can be given again.
    pub fn flush(&mut self) {
        self.blocks = 0;
    }

    /// Why to watch an instruction; None if there is no reason.
    pub fn event(&self, vaddr: u64, bytes: &[u8]) -> Option<Event> {
        if self.profiler.is_some() {
            let op = (self.arch.decode)(bytes);
            return op.filter(|op| matches!(op, Op::Mark(_))).map(Event::Op);
        }
        match self.kernel.as_ref().and_then(|kernel| kernel.fault(vaddr)) {
            Some(entry) => Some(Event::PageFault(entry)),
            None => (self.arch.decode)(bytes).map(Event::Op),
        }
    }

    /// Called when QEMU executes a block's part.
    #[inline(always)]
    pub fn fetch(&mut self, block: &mut Block) {
        self.output.instructions += u64::from(block.instructions);
        if self.profiler.is_some() {
            self.profile(block);
            return;
        }
        if !self.active {
            return;
        }
        if self.output.instructions >= self.census {
            self.regions.census(&self.engine);
            self.census = self.regions.next_census();
        }
        let vcpu = self.vcpu_now();
        if block.space != self.cores[vcpu].space && !block.kernel {
            self.place(vcpu, block);
        }
        let context = &self.cores[vcpu].mmu.context;
        let kernel = context.privilege == Privilege::Kernel;
        if kernel != block.kernel || self.cores[vcpu].ask {
            self.turn(vcpu, block.kernel);
        }
        if let Some(checker) = &mut self.checker {
            let context = &self.cores[vcpu].mmu.context;
            checker.access(context, AccessKind::Fetch, block.vaddr, block.paddr);
        }
        if let Some(auditor) = &mut self.auditor {
            match (block.kernel, block.paddr) {
                (true, _) => auditor.enters(vcpu, block.vaddr),
                (false, Some(paddr)) => {
                    if auditor.access(vcpu, AccessKind::Fetch, block.vaddr, paddr) {
                        self.audit_noted(vcpu);
                    }
                }
                (false, None) => {}
            }
        }
        let engine = &mut self.engine;
        match block.number {
            Some(number) => engine.execute(vcpu, number),
            None if block.code.is_empty() => {
                engine.instructions(vcpu, u64::from(block.instructions));
            }
            None => {
                engine.define(self.blocks, &block.code);
                engine.execute(vcpu, self.blocks);
                block.number = Some(self.blocks);
                self.blocks += 1;
            }
        }
        if block.paddr.is_some() {
            engine.access(
                vcpu,
                AccessKind::Fetch,
                block.vaddr,
                block.paddr,
                block.size,
            );
        }
    }

    fn profile(&mut self, block: &Block) {
        let vcpu = self.vcpu_now();
        let (Some(profiler), Some(cpu)) = (&mut self.profiler, &self.cpu) else {
            return;
        };
        if block.kernel {
            let stack = || cpu.named(self.arch.stack);
            profiler.kernel(vcpu, block.function, block.instructions, stack);
        } else {
            profiler.user(vcpu, block.instructions);
        }
    }

    /// Called after a load or store by this instruction of the block's part that was executed last.
    #[inline(always)]
    pub fn access(&mut self, number: u32, vaddr: u64, paddr: u64, size: u32, store: bool) {
        let vcpu = self.vcpu_now();
        let kind = if store {
            AccessKind::Write
        } else {
            AccessKind::Read
        };
        if let Some(checker) = &mut self.checker {
            checker.access(&self.cores[vcpu].mmu.context, kind, vaddr, Some(paddr));
        }
        if let Some(auditor) = &mut self.auditor {
            let noted = auditor.access(vcpu, kind, vaddr, paddr);
            if store {
                let now = now!(self, vcpu);
                auditor.stored(vcpu, paddr, size, &now);
            }
            if noted {
                self.audit_noted(vcpu);
            }
        }
        self.engine.at(vcpu, number);
        self.engine.access(vcpu, kind, vaddr, Some(paddr), size);
    }

    /// Updates privilege and process before code of the kernel's half (`kernel`) or of the other.
    #[cold]
    fn turn(&mut self, vcpu: usize, kernel: bool) {
        // A booting kernel runs at low addresses too, so ask the processor.
        let mode = &self.arch.user_mode;
        let user = !kernel
            && match &self.cpu {
                Some(cpu) => cpu.named(mode.register) & mode.mask == mode.value,
                None => true,
            };
        if user {
            // User code runs again only after its faults are handled.
            self.close_faults(vcpu);
            if std::mem::take(&mut self.cores[vcpu].ask) {
                self.identify(vcpu);
            }
        }
        let privilege = if user {
            Privilege::User
        } else {
            Privilege::Kernel
        };
        if self.cores[vcpu].mmu.context.privilege != privilege {
            self.cores[vcpu].mmu.context.privilege = privilege;
            self.send_context(vcpu);
        }
        self.audit_turn(vcpu, user);
    }

    /// Audits what the cores can use now that one has entered or left the kernel.
    fn audit_turn(&mut self, vcpu: usize, user: bool) {
        let Some(auditor) = &mut self.auditor else {
            return;
        };
        if user {
            let processes = &self.processes;
            auditor.user(vcpu, &now!(self, vcpu), |root| processes.name(root));
        } else {
            auditor.kernel(vcpu);
        }
    }

    /// Reports what an access has shown at once.
    #[cold]
    fn audit_noted(&mut self, vcpu: usize) {
        let (processes, at) = (&self.processes, self.output.instructions);
        let root = self.cores[vcpu].mmu.context.root;
        if let Some(auditor) = &mut self.auditor {
            auditor.noted(root, at, |root| processes.name(root));
        }
    }

    /// Corrects the address of a block for this address space. Blocks of the kernel's half need no
    /// correction.
    #[cold]
    fn place(&mut self, vcpu: usize, block: &mut Block) {
        let Some(cpu) = &self.cpu else {
            return;
        };
        block.space = self.cores[vcpu].space;
        if !self.cores[vcpu].mmu.context.paging {
            return;
        }
        // The program counter may be that of the block's first page.
        let pc = cpu.named(self.arch.pc);
        let in_page = pc & !0xfff | block.vaddr & 0xfff;
        block.vaddr = if in_page < pc {
            in_page.wrapping_add(0x1000)
        } else {
            in_page
        };
        block.kernel = block.vaddr >= self.arch.kernel;
    }

    /// Reads which process runs. Call it before user code of that process.
    fn identify(&mut self, vcpu: usize) {
        let (Some(cpu), Some(kernel), Some(linux)) = (&self.cpu, &self.kernel, &self.arch.linux)
        else {
            return;
        };
        let area = cpu.named(linux.area);
        let context = self.cores[vcpu].kernel_context();
        let read = |at: u64, to: &mut [u8]| {
            read_kernel(cpu.as_ref(), self.ram, self.arch, &context, at, to)
        };
        let task = kernel.task(area, read);
        let Some(process) = task.and_then(|task| kernel.process(task, read)) else {
            return;
        };
        let root = self.cores[vcpu].mmu.context.root;
        if let Some(identity) = self.processes.seen(root, process) {
            self.cores.renew(root);
            self.send(|engine| engine.set_identity(root, identity));
        }
    }

    /// Calls the engine if the run is active.
    fn send(&mut self, tell: impl FnOnce(&mut Engine)) {
        if self.active {
            tell(&mut self.engine);
        }
    }

    fn send_context(&mut self, vcpu: usize) {
        let context = self.cores[vcpu].mmu.context;
        self.send(|engine| engine.set_context(vcpu, context));
        self.audit_context(vcpu);
    }

    fn audit_context(&mut self, vcpu: usize) {
        let (context, at) = (self.cores[vcpu].mmu.context, self.output.instructions);
        if let (true, Some(auditor)) = (self.active, &mut self.auditor) {
            auditor.context(vcpu, context, at);
        }
    }

    fn close_faults(&mut self, vcpu: usize) {
        while self.cores[vcpu].faults.pop().is_some() {
            self.send(|engine| engine.fault_done(vcpu));
        }
    }

    /// Makes the run active, and tells the engine the contexts and identities so far.
    fn activate(&mut self) {
        if std::mem::replace(&mut self.active, true) {
            return;
        }
        for (root, identity) in self.processes.identities() {
            self.engine.set_identity(root, identity);
        }
        for number in 0..self.cores.count() {
            let core = &mut self.cores[number];
            // An inactive run does not identify processes.
            core.ask = true;
            self.engine.set_context(number, core.mmu.context);
            if core.member != Member::default() {
                self.engine.set_member(number, &core.member);
            }
            self.audit_context(number);
        }
    }

    /// Writes the results after the guest has ended.
    pub fn finish(&mut self) -> Result<()> {
        self.output.report = self.engine.report();
        self.output.readings = self.engine.labels();
        for violation in self.engine.violations() {
            eprintln!("cohort-qemu: not this process's own: {violation}");
        }
        let model = self.engine.checked();
        self.engine.finish()?;
        if let Some(profiler) = &mut self.profiler {
            profiler.finish()?;
        }
        self.output.processes = self.processes.list();
        if let Some(checker) = &self.checker {
            for complaint in checker.complaints().iter().chain(&model.1) {
                eprintln!("cohort-qemu: {complaint}");
            }
            self.output.check = Some(checker.verdict(&model));
        }
        if let Some(auditor) = &self.auditor {
            let verdict = auditor.verdict();
            for finding in &verdict.findings {
                eprintln!("cohort-qemu: {} times: {}", finding.count, finding.first);
            }
            self.output.audit = Some(verdict);
        }
        if let Some(path) = &self.args.out {
            self.output
                .write(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
