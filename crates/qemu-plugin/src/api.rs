// SPDX-License-Identifier: GPL-2.0-or-later
//! Safe types around QEMU's calls. Use them from QEMU's callbacks only.

use crate::arch::{Arch, Cpu};
use crate::ffi;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};

/// What QEMU puts behind the name of a register's secure bank. An ARM processor with the security
/// extensions has two banks of some registers, and `vexpress-a9` boots its kernel in the secure state.
const SECURE: &str = "_S";

/// The value of the bank that the kernel uses: it leaves the other at 0.
fn in_use(mut banks: impl Iterator<Item = u64>) -> u64 {
    banks.find(|&value| value != 0).unwrap_or(0)
}

/// QEMU's handles of the registers that the plugin reads.
pub struct Registers {
    general: Vec<*mut ffi::Register>,
    /// All banks of each.
    named: BTreeMap<&'static str, Vec<*mut ffi::Register>>,
    buffer: *mut ffi::GByteArray,
}

impl Registers {
    /// Looks up the architecture's registers. Call it when the first vCPU is initialised.
    pub fn find(arch: &Arch) -> Result<Self> {
        let mut found = BTreeMap::new();
        // SAFETY: called in a vCPU's context, as QEMU asks for; the array holds `len` descriptors
        // whose names are QEMU's constants, and is freed once.
        unsafe {
            let array = ffi::qemu_plugin_get_registers();
            let registers = std::slice::from_raw_parts(
                (*array).data as *const ffi::RegDescriptor,
                (*array).len as usize,
            );
            for register in registers {
                let name = CStr::from_ptr(register.name).to_string_lossy().into_owned();
                found.entry(name).or_insert(register.handle);
            }
            ffi::g_array_free(array, 1);
        }
        let get = |name: &'static str| {
            found
                .get(name)
                .copied()
                .with_context(|| format!("QEMU's {} has no register {name}", arch.name))
        };
        let mut named = BTreeMap::new();
        for name in arch.system.iter().chain([&arch.pc, &arch.stack]) {
            let mut banks = vec![get(name)?];
            banks.extend(found.get(&format!("{name}{SECURE}")));
            named.insert(*name, banks);
        }
        Ok(Registers {
            general: arch
                .general
                .iter()
                .map(|name| get(name))
                .collect::<Result<_>>()?,
            named,
            // SAFETY: GLib allocates it or ends the process.
            buffer: unsafe { ffi::g_byte_array_new() },
        })
    }

    fn read(&self, handle: *mut ffi::Register) -> u64 {
        // SAFETY: the handle is QEMU's; the callbacks that come here have asked for registers; the
        // buffer is ours, used by one thread, and holds `len` bytes after the call.
        unsafe {
            ffi::g_byte_array_set_size(self.buffer, 0);
            if ffi::qemu_plugin_read_register(handle, self.buffer) <= 0 {
                return 0;
            }
            let mut bytes = [0; 8];
            let len = ((*self.buffer).len as usize).min(8);
            std::ptr::copy_nonoverlapping((*self.buffer).data, bytes.as_mut_ptr(), len);
            u64::from_le_bytes(bytes)
        }
    }
}

impl Cpu for Registers {
    fn general(&self, number: u8) -> u64 {
        self.general
            .get(usize::from(number))
            .map_or(0, |&handle| self.read(handle))
    }

    fn named(&self, name: &str) -> u64 {
        let banks = self.named.get(name).map_or(&[][..], Vec::as_slice);
        in_use(banks.iter().map(|&handle| self.read(handle)))
    }

    fn memory(&self, vaddr: u64, to: &mut [u8]) -> bool {
        // SAFETY: as above; QEMU makes the buffer long enough or returns false.
        unsafe {
            ffi::g_byte_array_set_size(self.buffer, 0);
            if !ffi::qemu_plugin_read_memory_vaddr(vaddr, self.buffer, to.len())
                || ((*self.buffer).len as usize) < to.len()
            {
                return false;
            }
            std::ptr::copy_nonoverlapping((*self.buffer).data, to.as_mut_ptr(), to.len());
        }
        true
    }
}

/// Finds which vCPU runs.
///
/// Callbacks have the vCPU's number as an argument, but it is wrong when all vCPUs share a thread:
/// QEMU then makes it a constant at translation (accel/tcg/plugin-gen.c, `gen_cpu_index`), so code
/// that one vCPU translated reports that vCPU on all. QEMU's variable `current_cpu` is right.
pub struct CurrentCpu {
    variable: *const *const c_void,
    known: Vec<*const c_void>,
    last: (*const c_void, usize),
}

impl CurrentCpu {
    /// Call it on the thread that runs the vCPUs: the variable is thread-local.
    pub fn new(vcpus: usize) -> Result<Self> {
        // SAFETY: the name ends in 0; the answer is null or this thread's copy of the variable.
        let variable = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"current_cpu".as_ptr()) };
        if variable.is_null() && vcpus > 1 {
            bail!(
                "this QEMU does not export its variable current_cpu, which tells the vCPUs of one \
                 thread apart: use a build with modules, such as Debian's, or one vCPU"
            );
        }
        Ok(CurrentCpu {
            variable: variable.cast(),
            known: vec![std::ptr::null(); vcpus],
            last: (std::ptr::null(), 0),
        })
    }

    /// Records that the current vCPU has this index.
    pub fn learn(&mut self, index: usize) -> Result<()> {
        if self.variable.is_null() {
            return Ok(());
        }
        // SAFETY: the variable lives as long as the thread, which is this one.
        let cpu = unsafe { *self.variable };
        if self.known.len() > 1 && (cpu.is_null() || self.known.contains(&cpu)) {
            bail!("QEMU's current_cpu is not vCPU {index}, which it initialises");
        }
        self.known[index] = cpu;
        Ok(())
    }

    /// The index of the vCPU that runs.
    #[inline(always)]
    pub fn index(&mut self) -> usize {
        if self.variable.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let cpu = unsafe { *self.variable };
        if cpu != self.last.0 {
            let index = self.known.iter().position(|&known| known == cpu);
            self.last = (cpu, index.unwrap_or(0));
        }
        self.last.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bank_that_the_kernel_has_written_counts() {
        for (banks, value) in [
            (&[7][..], 7),
            (&[0, 7], 7),
            (&[7, 0], 7),
            (&[0, 0], 0),
            (&[], 0),
        ] {
            assert_eq!(in_use(banks.iter().copied()), value, "{banks:?}");
        }
    }
}
