// SPDX-License-Identifier: GPL-2.0-or-later
//! The used part of QEMU's plugin interface (`include/qemu/qemu-plugin.h`, version 4, QEMU 9.2 to
//! 10.0), and two GLib types in it.
//!
//! Declared by hand: Debian does not package the header, and the crates that bind it need a newer
//! compiler than this project.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface that is declared here.
pub const VERSION: c_int = 4;

/// Declares opaque types of QEMU.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// A translation block while it is translated.
    Tb,
    /// An instruction of such a block.
    Insn,
    /// The physical side of an access, valid during its callback.
    HwAddr,
    /// A register's handle, for `qemu_plugin_read_register`.
    Register,
}

/// GLib's `GArray`.
#[repr(C)]
pub struct GArray {
    pub data: *mut c_char,
    /// Number of elements.
    pub len: c_uint,
}

/// GLib's `GByteArray`.
#[repr(C)]
pub struct GByteArray {
    pub data: *mut u8,
    /// Number of elements.
    pub len: c_uint,
}

/// `qemu_info_t`.
#[repr(C)]
pub struct Info {
    /// The target's name, one of `qemu-system-*`.
    pub target_name: *const c_char,
    /// The oldest version of the interface that this QEMU supports.
    pub version_min: c_int,
    /// The version of its own interface.
    pub version_cur: c_int,
    /// True for qemu-system-*, false for user mode.
    pub system_emulation: bool,
    /// vCPUs at the start.
    pub smp_vcpus: c_int,
    /// vCPUs at most.
    pub max_vcpus: c_int,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub struct RegDescriptor {
    pub handle: *mut Register,
    pub name: *const c_char,
    /// GDB's name of its group, or null.
    pub feature: *const c_char,
}

/// The callback reads no registers.
pub const NO_REGS: c_uint = 0;
/// The callback reads registers.
pub const READS_REGS: c_uint = 1;
/// Report loads and stores.
pub const MEM_RW: c_uint = 3;
pub type SimpleCb = unsafe extern "C" fn(id: u64);
pub type VcpuCb = unsafe extern "C" fn(id: u64, vcpu: c_uint);
/// Called when a block is translated.
pub type TransCb = unsafe extern "C" fn(id: u64, tb: *mut Tb);
/// Called when an instruction or a block is executed.
pub type ExecCb = unsafe extern "C" fn(vcpu: c_uint, data: *mut c_void);
/// Called after a load or store.
pub type MemCb = unsafe extern "C" fn(vcpu: c_uint, info: u32, vaddr: u64, data: *mut c_void);
/// Called when QEMU exits.
pub type AtExitCb = unsafe extern "C" fn(id: u64, data: *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, cb: VcpuCb);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, cb: TransCb);
    pub fn qemu_plugin_register_flush_cb(id: u64, cb: SimpleCb);
    pub fn qemu_plugin_register_atexit_cb(id: u64, cb: AtExitCb, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: ExecCb,
        flags: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCb,
        flags: c_uint,
        rw: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_get_hwaddr(info: u32, vaddr: u64) -> *mut HwAddr;
    pub fn qemu_plugin_hwaddr_is_io(addr: *const HwAddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(addr: *const HwAddr) -> u64;
    pub fn qemu_plugin_get_registers() -> *mut GArray;
    pub fn qemu_plugin_read_register(register: *mut Register, to: *mut GByteArray) -> c_int;
    pub fn qemu_plugin_read_memory_vaddr(addr: u64, to: *mut GByteArray, len: usize) -> bool;

    pub fn g_byte_array_new() -> *mut GByteArray;
    pub fn g_byte_array_set_size(array: *mut GByteArray, len: c_uint) -> *mut GByteArray;
    pub fn g_array_free(array: *mut GArray, free_segment: c_int) -> *mut c_char;
}
