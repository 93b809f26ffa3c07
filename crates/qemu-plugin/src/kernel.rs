// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds in `vmlinux` where page faults enter the guest's kernel, and where it keeps the name and
//! number of the running process.
//!
//! The layout of `task_struct` depends on the kernel's configuration. It is read off the first
//! task, `init_task`, which `vmlinux` holds with known values: its name is "swapper" and it is its
//! own parent.

use crate::arch::{Arch, Cpu, FaultEntry, Linux, pointer};
use crate::ram::Ram;
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;

/// Reads the kernel's memory, also where user code runs: QEMU for ARM reads it for the kernel alone, so
/// there its tables, which `context` names, are walked. They are those of
/// [`crate::cores::Core::kernel_context`]. False if it cannot be read.
pub fn read_kernel(
    cpu: &dyn Cpu,
    ram: Option<Ram>,
    arch: &Arch,
    context: &translation::Context,
    at: u64,
    to: &mut [u8],
) -> bool {
    cpu.memory(at, to)
        || ram.is_some_and(|ram| ram.copy(to, at, |at| (arch.walk)(context, at, &ram).paddr))
}

/// Addresses in the kernel and byte offsets in its structures.
#[derive(Debug)]
pub struct Kernel {
    /// Addresses of the entries into the page fault handler.
    pub faults: Vec<(u64, &'static FaultEntry)>,
    /// Offset of the pointer to the running task in the processor's area (`Linux::area`).
    pub current: u64,
    /// Offset of `task_struct.comm`.
    pub comm: u64,
    /// Offset of `task_struct.real_parent`. `pid` and `tgid` stand before it.
    pub real_parent: u64,
    /// Bytes of a pointer.
    pub word: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The thread group's number.
    pub pid: u32,
    /// `comm` of the thread that was running.
    pub name: String,
}

impl Kernel {
    pub fn read(path: &Path, arch: &'static Arch) -> Result<Self> {
        let Some(linux) = &arch.linux else {
            bail!(
                "kernel={}: the plugin cannot follow the kernel of {} guests, leave it out",
                path.display(),
                arch.name
            );
        };
        let data =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&data, linux, arch.word).with_context(|| {
            format!(
                "{} is not a Linux kernel for {} with a symbol table",
                path.display(),
                arch.name
            )
        })
    }

    fn parse(data: &[u8], linux: &'static Linux, word: usize) -> Result<Self> {
        let file = object::File::parse(data).context("not an ELF file")?;
        let symbol = |name: &str| {
            file.symbols()
                .find(|symbol| symbol.name() == Ok(name))
                .with_context(|| format!("no symbol {name}"))
        };
        let init_task = symbol("init_task")?;
        let (address, size) = (init_task.address(), init_task.size());
        let bytes = file
            .sections()
            .find_map(|section| section.data_range(address, size).ok().flatten())
            .context("init_task has no contents")?;
        let (comm, real_parent) = offsets(bytes, address, word)?;
        Ok(Kernel {
            faults: linux
                .faults
                .iter()
                .map(|entry| Ok((symbol(entry.symbol)?.address(), entry)))
                .collect::<Result<_>>()?,
            current: symbol(linux.current)?.address(),
            comm,
            real_parent,
            word,
        })
    }

    /// The running task, by the address of the processor's own area; None if that is unknown.
    pub fn task(&self, area: u64, read: impl FnOnce(u64, &mut [u8]) -> bool) -> Option<u64> {
        pointer(self.word, self.current_at(area)?, read).filter(|&task| task != 0)
    }

    /// Where the pointer to the running task is, by the address of the processor's own area; None if
    /// that is unknown.
    pub fn current_at(&self, area: u64) -> Option<u64> {
        (area != 0).then(|| area.wrapping_add(self.current))
    }

    /// The entry into the page fault handler at this address.
    pub fn fault(&self, vaddr: u64) -> Option<&'static FaultEntry> {
        let found = self.faults.iter().find(|(at, _)| *at == vaddr)?;
        Some(found.1)
    }

    /// Reads the process of the task at `task`. None if the memory cannot be read or holds no
    /// plausible process.
    pub fn process(
        &self,
        task: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> Option<Process> {
        let mut word = |at: u64| {
            let mut bytes = [0; 8];
            read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
        };
        // The stack canary may stand between them. Read as two numbers it is not plausible.
        let pid = [8, 8 + self.word as u64]
            .into_iter()
            .filter_map(|back| word(task + self.real_parent - back))
            .map(|pair| ((pair & 0xffff_ffff) as u32, (pair >> 32) as u32))
            .find(|&(pid, group)| (1..1 << 22).contains(&pid) && (1..1 << 22).contains(&group))?
            .1;
        let mut name = [0; 16];
        if !read(task + self.comm, &mut name) {
            return None;
        }
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
        Some(Process {
            pid,
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
        })
    }
}

/// Finds the offsets of comm and real_parent in the bytes of `init_task`, which is at `address`.
fn offsets(bytes: &[u8], address: u64, word: usize) -> Result<(u64, u64)> {
    let comm = bytes
        .windows(8)
        .position(|window| window == b"swapper\0")
        .context("init_task is not named swapper")?;
    let own = &address.to_le_bytes()[..word];
    let real_parent = bytes
        .chunks_exact(word)
        .zip(bytes.chunks_exact(word).skip(1))
        .position(|(first, second)| first == own && second == own)
        .context("init_task is not its own parent")?
        * word;
    Ok((comm as u64, real_parent as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(canary: bool) -> (Vec<u8>, Kernel) {
        let mut bytes = vec![0u8; 256];
        let own = 0xffff_ffff_81a0_90c0u64;
        // An empty list's head points at itself too, but is not the parent.
        bytes[16..24].copy_from_slice(&(own + 16).to_le_bytes());
        bytes[24..32].copy_from_slice(&(own + 16).to_le_bytes());
        let parent = if canary { 80 } else { 72 };
        bytes[parent..parent + 8].copy_from_slice(&own.to_le_bytes());
        bytes[parent + 8..parent + 16].copy_from_slice(&own.to_le_bytes());
        bytes[200..208].copy_from_slice(b"swapper\0");
        let (comm, real_parent) = offsets(&bytes, own, 8).unwrap();
        let kernel = Kernel {
            faults: Vec::new(),
            current: 0,
            comm,
            real_parent,
            word: 8,
        };
        bytes[64..68].copy_from_slice(&301u32.to_le_bytes());
        bytes[68..72].copy_from_slice(&300u32.to_le_bytes());
        if canary {
            bytes[72..80].copy_from_slice(&0x9c1f_2a00_7711_aa00u64.to_le_bytes());
        }
        bytes[200..208].copy_from_slice(b"apache2\0");
        (bytes, kernel)
    }

    #[test]
    fn the_process_is_found_with_and_without_a_canary() {
        for canary in [false, true] {
            let (bytes, kernel) = task(canary);
            let base = 0xffff_8880_0000_1000u64;
            let process = kernel.process(base, |at, to| {
                let from = (at - base) as usize;
                to.copy_from_slice(&bytes[from..from + to.len()]);
                true
            });
            assert_eq!(
                process,
                Some(Process {
                    pid: 300,
                    name: "apache2".into()
                })
            );
        }
    }

    #[test]
    fn unreadable_memory_gives_no_process() {
        let (_, kernel) = task(false);
        assert_eq!(kernel.process(0, |_, _| false), None);
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused() {
        static LINUX: Linux = Linux {
            area: "area",
            kernel_area: "area",
            current: "running",
            faults: &[],
            taken_off: 0,
        };
        assert!(Kernel::parse(b"#!/bin/sh", &LINUX, 8).is_err());
        assert!(offsets(&[0; 64], 1, 8).is_err());
    }
}
