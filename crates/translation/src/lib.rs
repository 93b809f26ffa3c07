// SPDX-License-Identifier: GPL-2.0-or-later
//! A timing model of address translation: TLBs, page-walk caches, the cache hierarchy and DRAM,
//! driven by what a real kernel does and reading that kernel's own page tables.
//!
//! A source of events calls the methods of [`Sink`]; [`Machine`] is the model behind it, built from
//! a [`Model`], which is a parsed TOML description. [`trace::Recorder`] is the other sink: it
//! writes the events to a file that [`trace::replay`] gives to any number of machines later.
//!
//! ```
//! use translation::{AccessKind, Context, Machine, Model, Sink, SparseMemory};
//!
//! let model = Model::builtin("babelfish-isca20").unwrap();
//! let mut memory = SparseMemory::new();
//! // One 2 MB page at 0: page tables at 0x1000, 0x2000 and 0x3000.
//! memory.write_u64(0x1000, 0x2000 | 7);
//! memory.write_u64(0x2000, 0x3000 | 7);
//! memory.write_u64(0x3000, 0x40_0000 | 0x87);
//! let mut machine = Machine::new(&model, 1, memory).unwrap();
//! machine.set_context(0, Context { paging: true, root: 0x1000, ..Context::default() });
//! machine.instructions(0, 4);
//! machine.access(0, AccessKind::Read, 0x1234, Some(0x40_1234), 8);
//! let report = machine.report();
//! assert_eq!(report.total.reads, 1);
//! assert_eq!(report.total.walks, 1);
//! assert_eq!(report.total.unexplained, 0);
//! ```
//!
//! How the model works, what it leaves out and how to add a design is in `docs/model.md`.

pub mod abi;
pub(crate) mod assoc;
pub mod audit;
pub(crate) mod cache;
pub mod census;
pub mod code;
pub mod counters;
pub mod description;
pub(crate) mod dram;
pub(crate) mod entry;
pub mod error;
pub mod event;
pub mod format;
pub(crate) mod hash;
pub mod levels;
pub mod machine;
pub mod memory;
pub mod metrics;
mod pool;
mod prefetch;
pub mod replacement;
pub mod report;
pub(crate) mod requests;
pub mod sources;
pub(crate) mod tally;
pub mod time;
pub(crate) mod tlb;
pub mod tlbi;
pub mod trace;
pub mod violation;

/// The guide, whose examples are compiled and run as tests.
#[doc = include_str!("../README.md")]
pub mod guide {}

#[cfg(test)]
mod tests;

pub use code::Op;
pub use counters::Counters;
pub use description::Model;
pub use error::ModelError;
pub use event::{
    AccessKind, Context, Fault, Identity, Invalidation, Mark, Member, Privilege, Segment, Sink,
};
pub use machine::Machine;
pub use memory::{GuestMemory, SparseMemory};
pub use report::Report;
pub use tlb::mechanism;
pub use violation::Violation;
