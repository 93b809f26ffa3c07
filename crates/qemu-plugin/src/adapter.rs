// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's callbacks. When QEMU translates a block, they register what to watch in it; when QEMU
//! executes it, they hand what happened to the [`Session`].
//!
//! QEMU runs all vCPUs on one thread (`-accel tcg,thread=single`), so there is one session and no
//! lock. [`enter`] checks this and ends QEMU if there is a second thread.

use crate::arch::list;
use crate::arch::registers::Bytes;
use crate::args::Args;
use crate::block::{Block, Site};
use crate::ffi;
use crate::session::Session;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// The session, and the blocks and sites that translated code points at.
struct Plugin {
    session: UnsafeCell<Option<Session>>,
    // Boxes, because QEMU keeps the elements' addresses while the vectors grow.
    #[allow(clippy::vec_box)]
    blocks: UnsafeCell<Vec<Box<Block>>>,
    #[allow(clippy::vec_box)]
    sites: UnsafeCell<Vec<Box<Site>>>,
    thread: AtomicI32,
}

// SAFETY: `enter` lets only one thread use the cells.
unsafe impl Sync for Plugin {}

static PLUGIN: Plugin = Plugin {
    session: UnsafeCell::new(None),
    blocks: UnsafeCell::new(Vec::new()),
    sites: UnsafeCell::new(Vec::new()),
    thread: AtomicI32::new(0),
};

/// The version of the plugin interface that this plugin uses. QEMU reads it before it calls.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = ffi::VERSION;

/// Prints an error and ends QEMU: a running plugin has no other way to fail.
fn fail(why: &str) -> ! {
    eprintln!("cohort-qemu: {why}");
    // SAFETY: ends the process at once. QEMU's own handlers at exit would call the plugin again.
    unsafe { libc::_exit(1) }
}

/// The session, for a callback on the vCPUs' thread.
#[inline(always)]
fn session() -> &'static mut Session {
    // SAFETY: `qemu_plugin_install` sets it before any callback. Callbacks run one after another
    // on the one vCPU thread that `enter` has checked; none calls another or keeps the reference.
    match unsafe { &mut *PLUGIN.session.get() } {
        Some(session) => session,
        None => fail("QEMU called before the plugin was installed"),
    }
}

/// Ends QEMU unless all vCPUs share one thread.
fn enter() {
    // SAFETY: the call has no other effect.
    let own = unsafe { libc::gettid() };
    let first = PLUGIN
        .thread
        .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|other| other != own) {
        fail("QEMU runs its vCPUs on several threads: give it -accel tcg,thread=single");
    }
}

/// QEMU's entry point.
///
/// # Safety
/// QEMU calls it once, with a description of itself and the arguments of `-plugin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const ffi::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description and `argc` strings.
    let (info, target, args) = unsafe {
        let info = &*info;
        let args: Vec<String> = (0..argc as usize)
            .map(|n| CStr::from_ptr(*argv.add(n)).to_string_lossy().into_owned())
            .collect();
        let target = CStr::from_ptr(info.target_name).to_string_lossy();
        (info, target, args)
    };
    let made = if info.system_emulation {
        Args::parse(args.iter().map(String::as_str)).and_then(|args| {
            Session::new(args, list::find(&target)?, info.max_vcpus.max(1) as usize)
        })
    } else {
        Err(anyhow::anyhow!(
            "this plugin works with qemu-system-* only, not with user-mode QEMU"
        ))
    };
    match made {
        Ok(session) => {
            // SAFETY: nothing runs yet; the callbacks have the types that QEMU calls them with.
            unsafe {
                *PLUGIN.session.get() = Some(session);
                ffi::qemu_plugin_register_vcpu_init_cb(id, on_init);
                ffi::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
                ffi::qemu_plugin_register_flush_cb(id, on_flush);
                ffi::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
            }
            0
        }
        Err(error) => {
            eprintln!("cohort-qemu: {error:#}");
            1
        }
    }
}

unsafe extern "C" fn on_init(_id: u64, vcpu: c_uint) {
    enter();
    if let Err(error) = session().vcpu(vcpu as usize) {
        fail(&format!("{error:#}"));
    }
}

unsafe extern "C" fn on_flush(_id: u64) {
    // SAFETY: QEMU has dropped all translated code and runs none, so nothing points here.
    unsafe {
        (*PLUGIN.blocks.get()).clear();
        (*PLUGIN.sites.get()).clear();
    }
    session().flush();
}

unsafe extern "C" fn on_exit(_id: u64, _data: *mut c_void) {
    if let Err(error) = session().finish() {
        fail(&format!("{error:#}"));
    }
}

unsafe extern "C" fn on_translate(_id: u64, tb: *mut ffi::Tb) {
    enter();
    // SAFETY: QEMU's handles are valid during this call. The block that is kept from one
    // instruction to the next is boxed in PLUGIN.
    unsafe {
        let mut current: Option<*mut Block> = None;
        let mut code: Vec<Bytes> = Vec::new();
        for index in 0..ffi::qemu_plugin_tb_n_insns(tb) {
            let insn = ffi::qemu_plugin_tb_get_insn(tb, index);
            let vaddr = ffi::qemu_plugin_insn_vaddr(insn);
            let size = ffi::qemu_plugin_insn_size(insn);
            let block = match current {
                Some(block) if (*block).vaddr >> 12 == vaddr >> 12 => block,
                before => {
                    if let Some(before) = before {
                        (*before).code = session().code(&code);
                    }
                    code.clear();
                    watch_fetch(insn, vaddr)
                }
            };
            current = Some(block);
            (*block).instructions += 1;
            // Bytes of an instruction in the next page belong to that page's part.
            let left = 0x1000 - ((*block).vaddr as u32 & 0xfff);
            (*block).size = ((*block).size + size as u32).min(left);
            let bytes = bytes(insn, vaddr, size);
            let number = code.len();
            code.push(bytes);
            watch_event(insn, bytes);
            if !session().wants_accesses() {
                continue;
            }
            ffi::qemu_plugin_register_vcpu_mem_cb(
                insn,
                on_access,
                ffi::NO_REGS,
                ffi::MEM_RW,
                std::ptr::without_provenance_mut(number),
            );
        }
        if let Some(block) = current {
            (*block).code = session().code(&code);
        }
    }
}

/// The bytes of an instruction.
///
/// # Safety
/// `insn` is an instruction of the block that QEMU is translating.
unsafe fn bytes(insn: *mut ffi::Insn, vaddr: u64, size: usize) -> Bytes {
    let mut bytes = [0u8; 16];
    // SAFETY: the handle is valid; QEMU writes no more than the bytes' length.
    let len = unsafe { ffi::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len()) };
    Bytes::new(vaddr, &bytes[..len.min(size)])
}

/// Begins a part of a block at this instruction, and has QEMU call [`on_fetch`] before it.
///
/// # Safety
/// `insn` is an instruction of the block that QEMU is translating.
unsafe fn watch_fetch(insn: *mut ffi::Insn, vaddr: u64) -> *mut Block {
    // SAFETY: the handle is valid. What is handed to QEMU stays boxed in PLUGIN's vectors until
    // `on_flush`, when no code refers to it.
    unsafe {
        let host = ffi::qemu_plugin_insn_haddr(insn) as usize;
        let blocks = &mut *PLUGIN.blocks.get();
        blocks.push(Box::new(session().block(vaddr, host)));
        let block: *mut Block = &mut **blocks.last_mut().expect("just pushed");
        ffi::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fetch, ffi::READS_REGS, block.cast());
        block
    }
}

/// Has QEMU call [`on_event`] before this instruction, if there is a reason to watch it.
///
/// # Safety
/// `insn` is an instruction of the block that QEMU is translating.
unsafe fn watch_event(insn: *mut ffi::Insn, bytes: Bytes) {
    let Some(what) = session().event(bytes.vaddr, bytes.get()) else {
        return;
    };
    // SAFETY: as above.
    unsafe {
        let sites = &mut *PLUGIN.sites.get();
        sites.push(Box::new(Site {
            what,
            next: bytes.vaddr.wrapping_add(bytes.size as u64),
        }));
        let site: *mut Site = &mut **sites.last_mut().expect("just pushed");
        ffi::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_event, ffi::READS_REGS, site.cast());
    }
}

unsafe extern "C" fn on_fetch(_vcpu: c_uint, data: *mut c_void) {
    // SAFETY: `data` is a Block of PLUGIN's that lives until the next flush; nothing else refers
    // to it while translated code runs.
    let block = unsafe { &mut *data.cast::<Block>() };
    session().fetch(block);
}

unsafe extern "C" fn on_event(_vcpu: c_uint, data: *mut c_void) {
    // SAFETY: as above, for a Site.
    let site = unsafe { &*data.cast::<Site>() };
    session().event_at(site);
}

unsafe extern "C" fn on_access(_vcpu: c_uint, info: u32, vaddr: u64, data: *mut c_void) {
    let session = session();
    if !session.active() {
        return;
    }
    // SAFETY: the handle is obtained and used within the callback that it is valid for.
    let (paddr, size, store) = unsafe {
        let hardware = ffi::qemu_plugin_get_hwaddr(info, vaddr);
        if hardware.is_null() || ffi::qemu_plugin_hwaddr_is_io(hardware) {
            return;
        }
        (
            ffi::qemu_plugin_hwaddr_phys_addr(hardware),
            1 << ffi::qemu_plugin_mem_size_shift(info),
            ffi::qemu_plugin_mem_is_store(info),
        )
    };
    session.access(data.addr() as u32, vaddr, paddr, size, store);
}
