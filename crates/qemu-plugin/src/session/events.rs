// SPDX-License-Identifier: GPL-2.0-or-later
//! What the session does when a watched instruction is executed.

use super::Session;
use crate::arch::FaultEntry;
use crate::arch::op::{Op, Operand, Reach, Scope, SystemRegister};
use crate::block::{Event, Site};
use crate::mark::Mark;
use std::mem::replace;
use std::ops::Range;
use translation::tlbi::Drop;
use translation::{Invalidation, Member, Privilege, Sink, abi};

impl Session {
    /// Called before QEMU executes a watched instruction.
    pub fn event_at(&mut self, site: &Site) {
        let vcpu = self.vcpu_now();
        // What looks like an instruction of the kernel's in a program is another (of Thumb, on ARM),
        // or fails.
        let privilege = self.cores[vcpu].mmu.context.privilege;
        let user = privilege == Privilege::User && site.next < self.arch.kernel;
        match site.what {
            Event::Op(
                Op::Return
                | Op::Halt
                | Op::Write { .. }
                | Op::Invalidate { .. }
                | Op::UnknownFlush(_),
            ) if user => {}
            Event::PageFault(entry) => self.page_fault(vcpu, entry),
            Event::Op(Op::Return) => self.exception_return(vcpu),
            Event::Op(Op::Halt) => self.halt(vcpu),
            Event::Op(Op::Write { to, from }) => {
                let value = self.general(from);
                self.write(vcpu, to, value);
            }
            Event::Op(Op::Invalidate {
                scope,
                reach,
                exact,
            }) => {
                let current = self.cores[vcpu].mmu.context.asid;
                let drop = exact.drop(current, site.next, |number| self.general(number));
                self.audit_invalidation(vcpu, exact.reach, drop);
                self.invalidate(vcpu, scope, reach, drop, site.next);
            }
            Event::Op(Op::UnknownFlush(form)) => {
                if let (true, Some(auditor)) = (self.active, &mut self.auditor) {
                    auditor.unknown_flush(form);
                }
            }
            Event::Op(Op::Mark(code)) => {
                let argument = self.general(self.arch.mark_argument);
                let kernel = site.next > self.arch.kernel;
                match Mark::from_code(code) {
                    // A program may execute anything: it is not obeyed.
                    Some(mark) if mark.is_of_the_kernel() && !kernel => {}
                    Some(mark) => self.mark(vcpu, mark, argument),
                    None => self.output.unknown_marks += 1,
                }
            }
        }
    }

    /// Drops entries; `exact` is what the manual says. `next` is the address of the next instruction.
    fn invalidate(&mut self, vcpu: usize, scope: Scope, reach: Reach, exact: Drop, next: u64) {
        let address = |operand: Operand| operand.address(next, |number| self.general(number));
        let (what, page) = match scope {
            Scope::Page(operand) => {
                let vaddr = address(operand);
                (Invalidation::Page { vaddr }, Some(vaddr))
            }
            Scope::Exact => {
                let first = exact.range.map(|(first, _)| first);
                (Invalidation::Exact(exact), first)
            }
            Scope::All => (Invalidation::All, None),
        };
        // Kernel code is at the same address in every space.
        let user = page.is_none_or(|vaddr| vaddr < self.arch.kernel);
        match (scope, reach) {
            _ if !user => {}
            // It may name the tag of an address space that does not run.
            (Scope::Exact, _) | (_, Reach::Machine) => self.cores.renew_all(),
            (_, Reach::Core) => {
                let root = self.cores[vcpu].mmu.context.root;
                self.cores.renew(root);
            }
        }
        for core in self.reached(vcpu, reach) {
            self.send(|engine| engine.invalidate(core, what));
        }
    }

    /// The cores that a flush of this core reaches.
    pub fn reached(&self, vcpu: usize, reach: Reach) -> Range<usize> {
        match reach {
            Reach::Core => vcpu..vcpu + 1,
            Reach::Machine => 0..self.cores.count(),
        }
    }

    /// Has the auditor drop what the manual says.
    fn audit_invalidation(&mut self, vcpu: usize, reach: Reach, drop: Drop) {
        let at = self.output.instructions;
        let cores = self.reached(vcpu, reach);
        let (true, Some(auditor)) = (self.active, &mut self.auditor) else {
            return;
        };
        for core in cores {
            auditor.invalidate(core, drop, "", at);
        }
    }

    fn general(&self, number: u8) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.general(number))
    }

    /// Writes a system register.
    fn write(&mut self, vcpu: usize, register: &SystemRegister, value: u64) {
        let audited = self.auditor.as_ref().filter(|_| self.active);
        let dropped = audited.and_then(|audited| {
            (audited.flushes().written)(register, &self.cores[vcpu].mmu, value)
        });
        let mmu = &mut self.cores[vcpu].mmu;
        let before = mmu.context;
        let flush = (register.write)(mmu, value);
        let context = self.cores[vcpu].mmu.context;
        if context.root_high != before.root_high {
            self.learn_kernel_root(vcpu);
        }
        if context.root != before.root && context.has_process() {
            if replace(&mut self.cores[vcpu].ran, context.root) != context.root {
                // Another process runs. Faults of the previous one end here for the model.
                self.close_faults(vcpu);
                self.cores[vcpu].ask = true;
            }
            self.cores.enter(vcpu);
        }
        if context != before {
            self.send_context(vcpu);
        }
        if let (Some(drop), Some(auditor)) = (dropped, &mut self.auditor) {
            auditor.invalidate(vcpu, drop, register.name, self.output.instructions);
        }
        if let Some(what) = flush {
            self.cores.renew(context.root);
            self.send(|engine| engine.invalidate(vcpu, what));
        }
    }

    /// Notes the second root if the kernel's memory can be read by it. With page-table isolation the
    /// kernel sets it twice on each way through: to its own tables, and before it returns to user mode
    /// to others that have the entry code alone.
    fn learn_kernel_root(&mut self, vcpu: usize) {
        let (Some(cpu), Some(kernel), Some(linux), Some(ram)) =
            (&self.cpu, &self.kernel, &self.arch.linux, &self.ram)
        else {
            return;
        };
        let context = &self.cores[vcpu].mmu.context;
        let at = kernel.current_at(cpu.named(linux.kernel_area));
        if at.is_some_and(|at| (self.arch.walk)(context, at, ram).paddr.is_some()) {
            self.cores[vcpu].kernel_root = Some(context.root_high);
        }
    }

    fn page_fault(&mut self, vcpu: usize, entry: &FaultEntry) {
        let Some(cpu) = &self.cpu else {
            return;
        };
        self.output.page_faults += 1;
        if !self.active {
            return;
        }
        let (kind, vaddr) = (entry.read)(&**cpu);
        if let Some(auditor) = &mut self.auditor {
            auditor.fault(vcpu, vaddr);
        }
        self.cores[vcpu].faults.push(cpu.named(self.arch.stack));
        self.send(|engine| engine.fault(vcpu, kind, vaddr));
    }

    /// Ends the faults whose stack frame this return from an exception pops.
    fn exception_return(&mut self, vcpu: usize) {
        if self.cores[vcpu].faults.is_empty() {
            return;
        }
        let (Some(cpu), Some(linux)) = (&self.cpu, &self.arch.linux) else {
            return;
        };
        // Stacks grow down: an inner fault has a lower address.
        let frame = cpu.named(self.arch.stack);
        while let Some(&stack) = self.cores[vcpu].faults.last() {
            if stack.wrapping_add(linux.taken_off) > frame {
                break;
            }
            self.cores[vcpu].faults.pop();
            self.send(|engine| engine.fault_done(vcpu));
        }
    }

    /// The core waits for an interrupt: until then it does nothing in the kernel. The next block of
    /// the kernel's code ends that.
    fn halt(&mut self, vcpu: usize) {
        if self.active && self.members && self.engine.heeds_the_kernel() {
            self.cores[vcpu].mmu.context.privilege = Privilege::Unknown;
            self.send_context(vcpu);
        }
    }

    /// The kernel says what the core runs: its `struct cohort_bf_space` is read now, as the hardware
    /// would. One of another format is a mark with an unknown meaning.
    fn runs(&mut self, vcpu: usize, paddr: u64) {
        let member = match (paddr, &self.ram) {
            (0, _) => Some(Member::default()),
            (_, Some(ram)) => abi::member(ram, paddr),
            (_, None) => None,
        };
        self.output.unknown_marks += u64::from(member.is_none());
        let member = member.unwrap_or_default();
        self.members = true;
        self.cores[vcpu].member = member.clone();
        self.send(|engine| engine.set_member(vcpu, &member));
    }

    fn mark(&mut self, vcpu: usize, mark: Mark, argument: u64) {
        use translation::Mark as Told;
        if let Some(profiler) = &mut self.profiler {
            match mark {
                Mark::Step => profiler.step(argument),
                Mark::Start => profiler.start(),
                Mark::Stop => profiler.stop(),
                _ => {}
            }
        }
        match mark {
            Mark::Warm => self.activate(),
            Mark::Step => self.regions.step(argument),
            Mark::Start => {
                self.activate();
                self.engine.mark(vcpu, Told::Start);
                let instructions = self.output.instructions;
                self.regions.start(argument, instructions, &self.engine);
                self.census = self.regions.next_census();
            }
            Mark::Stop => {
                self.send(|engine| engine.mark(vcpu, Told::Stop));
                let part = self.regions.stop(self.output.instructions, &self.engine);
                self.output.regions.extend(part);
                self.census = u64::MAX;
            }
            Mark::Begin => {
                self.send(|engine| engine.mark(vcpu, Told::RequestBegin { id: argument }));
                self.regions.begin(argument, vcpu, &self.engine);
            }
            Mark::End => {
                self.send(|engine| engine.mark(vcpu, Told::RequestEnd { id: argument }));
                let part = self.regions.end(argument, vcpu, &self.engine);
                self.output.requests.extend(part);
            }
            Mark::Cohort => {
                let root = self.cores[vcpu].mmu.context.root;
                let identity = self.processes.join(root, argument as u32);
                self.send(|engine| engine.set_identity(root, identity));
            }
            Mark::Space => self.runs(vcpu, argument),
            Mark::SharedPages => {
                let what = Invalidation::SharedPages {
                    ccid: (argument >> 52) as u16,
                    vaddr: argument & 0x000f_ffff_ffff_f000,
                    order: (argument & 0xfff).min(64) as u8,
                };
                self.send(|engine| engine.invalidate(vcpu, what));
            }
            Mark::Ccid => {
                let ccid = argument as u16;
                self.send(|engine| engine.invalidate(vcpu, Invalidation::Ccid { ccid }));
            }
        }
    }
}
