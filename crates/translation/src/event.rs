// SPDX-License-Identifier: GPL-2.0-or-later
//! The events that drive the model: what a source (QEMU, a trace, a test) says, and when.
//!
//! A source calls the methods of [`Sink`] in the order in which the guest does things. The two
//! that come millions of times per second, [`Sink::instructions`] and [`Sink::access`], are plain
//! calls; nothing is allocated for them.

use crate::code::Op;
use crate::tlbi::Drop;
use serde::{Deserialize, Serialize};

/// The purpose of an access. Fetches use the instruction side of TLBs and caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum AccessKind {
    /// The processor reads instructions.
    Fetch = 0,
    /// A load.
    Read = 1,
    /// A store, and every read-modify-write.
    Write = 2,
}

/// With which rights a core runs; decides whether user and supervisor rights are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// The source does not know: neither is checked.
    #[default]
    Unknown,
    /// User mode.
    User,
    /// Kernel mode.
    Kernel,
}

/// The registers of a core that decide how it translates. All of them are set together: a source
/// says after each change what holds from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Whether translation is on (x86 CR0.PG, ARM SCTLR.M). Off: physical equals virtual.
    pub paging: bool,
    /// Physical address of the root table, low bits clear (x86 CR3 without PCID, ARM TTBR0). It is
    /// also the name of the address space: one root, one address space. If it is `root_high`, no
    /// process's tables are in use.
    pub root: u64,
    /// The second root of architectures that have one (ARM TTBR1), else 0.
    pub root_high: u64,
    /// ARMv7 TTBCR.N: how many high address bits must be 0 for `root`. 0 elsewhere.
    pub split: u8,
    /// Levels of the tables in use: 4 or 5 on x86-64 (CR4.LA57), 3 or 4 on ARMv8. 0 takes the
    /// format's default.
    pub levels: u8,
    /// The tag that the hardware gives (ARM ASID, x86 PCID). Used by models that say
    /// `tag = "hardware"`; with `tag = "address-space"` the model numbers the roots itself, which
    /// is how it models PCID on a QEMU that has none.
    pub asid: u16,
    /// ARMv7 domain access control register, two bits a domain. 0 elsewhere.
    pub dacr: u32,
    /// The rights of the code that runs.
    pub privilege: Privilege,
}

impl Context {
    /// The root is a process's. ARM's kernels have none of its tables in use on their way from one
    /// process to the next, because they cannot write root and tag together, and arm64's also while
    /// software keeps user space from the kernel. The address space stays what it was: that is no
    /// switch.
    pub fn has_process(&self) -> bool {
        self.root_high == 0 || self.root != self.root_high
    }
}

/// Which translations are given up by an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// One page of the current address space, global or not (x86 INVLPG, ARM TLBIMVA).
    Page {
        /// An address in the page.
        vaddr: u64,
    },
    /// One page whatever the tag (ARM TLBIMVAA).
    PageAllSpaces {
        /// An address in the page.
        vaddr: u64,
    },
    /// One page, but only entries that a cohort shares (O bit clear): what BabelFish's kernel does
    /// on a write to a copy-on-write page (ISCA'20 section III-A). Needs no current space.
    SharedPage {
        /// An address in the page.
        vaddr: u64,
        /// The cohort (CCID).
        cohort: u32,
    },
    /// Pages that processes of a CCID share: mark 9 of BabelFish's kernel.
    SharedPages {
        /// Whose.
        ccid: u16,
        /// The first, by the group's address.
        vaddr: u64,
        /// How many, as a power of two.
        order: u8,
    },
    /// All that processes of a CCID share: mark 10 of BabelFish's kernel.
    Ccid {
        /// Whose.
        ccid: u16,
    },
    /// All of one address space but the global entries (x86 INVPCID type 1, ARM TLBIASID).
    AddressSpace {
        /// Its root, as in [`Context::root`].
        root: u64,
    },
    /// What an instruction names by the tag that the hardware gives, [`Context::asid`] (ARM TLBI in
    /// all its forms).
    Exact(Drop),
    /// Every entry of every address space but the global ones (x86: CR3 written without PCID).
    AllButGlobal,
    /// Everything (x86: CR4.PGE toggled, ARM TLBIALL).
    All,
}

/// Marks from inside the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The region of interest begins: from here on counters count for the report.
    Start,
    /// The region of interest ends. It may begin again; the parts add up.
    Stop,
    /// A request begins; `id` is chosen by the guest and names it until its end.
    RequestBegin {
        /// Names the request among those under way.
        id: u64,
    },
    /// The request ends, on any core.
    RequestEnd {
        /// As at its begin. An end without a begin is counted and otherwise ignored.
        id: u64,
    },
}

/// The process that uses an address space.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Identity {
    /// The guest's process id (thread group), 0 for none.
    pub process: u32,
    /// The cohort it belongs to, which is BabelFish's CCID; 0 for none. Processes without a
    /// cohort share no translation.
    pub cohort: u32,
}

/// One segment of a process whose layout differs from its cohort's (ASLR-HW, ISCA'20 section
/// IV-D): addresses in `start..end` become `address + offset` between L1 and L2 TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// The entry of `diff_i_offset[]`: what is added, modulo 2^64.
    pub offset: u64,
}

/// How many segments a process has at most: "In Linux, a process has 7 segments".
pub const SEGMENTS_MAX: usize = 7;

/// What BabelFish's kernel says of the process that a core runs: its `struct cohort_bf_space`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The CCID whose shared entries it may use; 0 for none.
    pub ccid: u16,
    /// Its number in the `pid_list`s of MaskPages.
    pub pid: u32,
    /// The physical address of the directory of its CCID's MaskPages.
    pub group: u64,
    /// Where its addresses differ from the group's, at most [`SEGMENTS_MAX`].
    pub segments: Vec<Segment>,
}

impl Member {
    /// The group's address for one of the process's.
    pub fn group_address(&self, vaddr: u64) -> u64 {
        let inside = |part: &&Segment| (part.start..part.end).contains(&vaddr);
        let inside = self.segments.iter().find(inside);
        inside.map_or(vaddr, |part| vaddr.wrapping_add(part.offset))
    }
}

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

/// A consumer of events: the model ([`crate::Machine`]) or a trace being recorded
/// ([`crate::trace::Recorder`]).
///
/// `core` counts from 0 and must be below the number of cores the sink was made for; a larger one
/// is a bug of the caller and panics.
pub trait Sink {
    /// `count` instructions were executed on `core`. Call it before the accesses of these
    /// instructions or after, but always the same way; a basic block at once is what it is for.
    fn instructions(&mut self, core: usize, count: u64);

    /// Gives a block of code a number, until that is given to another. Numbers should begin at 0: a
    /// sink keeps a table as long as the largest.
    fn define(&mut self, block: u32, code: &[Op]);

    /// `core` executes a block of code that was defined; a number that was not is a bug of the
    /// caller and panics. This counts its instructions, in place of [`Sink::instructions`]. Its
    /// fetch comes next, then its accesses.
    fn execute(&mut self, core: usize, block: u32);

    /// The loads and stores that follow, up to the next of these three calls, are made by this
    /// instruction of the block (from 0); a fetch does not come between. Without this call their addresses depend on nothing.
    fn at(&mut self, core: usize, instruction: u32);

    /// An access that *succeeded* in the guest: `size` bytes from `vaddr`, and, if the source
    /// knows, the physical address of the first of them. A translation of the model that disagrees
    /// with a given `paddr` is stale, is dropped and counted. A fetch of a basic block may be one
    /// access with its whole size: it is split at cache lines and at pages.
    ///
    /// Leave accesses to devices out.
    fn access(&mut self, core: usize, kind: AccessKind, vaddr: u64, paddr: Option<u64>, size: u32);

    /// A source that reads ahead knows of an access that will come soon and probably miss. A sink may
    /// get what it will need for it from the host's memory; what it counts must not change.
    fn expect(&mut self, _core: usize, _vaddr: u64, _paddr: Option<u64>) {}

    /// An access that did *not* succeed: the guest takes a page fault at `vaddr`. From here until
    /// [`Sink::fault_done`] the instructions of `core` count as its handling. Faults nest.
    fn fault(&mut self, core: usize, kind: AccessKind, vaddr: u64);

    /// The handler of the innermost fault returns.
    fn fault_done(&mut self, core: usize);

    /// `core` translates by `context` from now on. A changed root or tag is a context switch, unless
    /// the root is no process's ([`Context::has_process`]):
    /// counted, and it flushes the TLBs that the description calls `flushed_on_switch`. It is not
    /// an invalidation: whether the guest meant one (x86 CR3 written without PCID) the source
    /// says with [`Sink::invalidate`] or, to model a processor with PCID, does not say.
    fn set_context(&mut self, core: usize, context: Context);

    /// The address space with this root belongs to `identity`, on every core, until told
    /// otherwise. May come before the root is first used. A root that changes its process is a
    /// new address space in old memory: its old entries are dropped everywhere.
    fn set_identity(&mut self, root: u64, identity: Identity);

    /// The segments of the address space under ASLR-HW (at most [`SEGMENTS_MAX`]; more are a bug
    /// of the caller and panic). Without this call its layout is its cohort's.
    fn set_segments(&mut self, root: u64, segments: &[Segment]);

    /// What runs on `core` from here on, as BabelFish's kernel says: mark 8. Only a machine that
    /// takes what is shared from the kernel (`babelfish.source = "kernel"`) heeds it, and
    /// [`Invalidation::SharedPages`] and [`Invalidation::Ccid`].
    fn set_member(&mut self, core: usize, member: &Member);

    /// BabelFish's kernel gave the address space its own copy of the page at `vaddr`: it takes its
    /// place in the `pid_list` of the MaskPage if it has none, its bit is set in the PC bitmask, and
    /// the shared entry of the page is invalidated in all TLBs (ISCA'20 section III-A). Kernels
    /// without BabelFish need not call it (see `docs/model.md`).
    fn private_copy(&mut self, root: u64, vaddr: u64);

    /// The address space is gone: its entries are dropped everywhere.
    fn retire(&mut self, root: u64);

    /// `core` invalidates translations of its own TLBs and walk caches. A broadcast (ARM's inner
    /// shareable variants) is one call for each core; x86's shootdowns come from the guest as one
    /// event on each core anyway.
    fn invalidate(&mut self, core: usize, what: Invalidation);

    /// A mark from the guest.
    fn mark(&mut self, core: usize, mark: Mark);
}
