// SPDX-License-Identifier: GPL-2.0-or-later
//! Traces: record the events of a run once, replay them under many descriptions.
//!
//! A trace holds the events of [`crate::Sink`] and, before the access that first needs them, the
//! page-table entries that a walk reads (with the line around each), so that a replay needs no
//! guest memory. The form, all numbers little endian:
//!
//! ```text
//! 8 bytes   "COHORTTR"
//! u16       version
//! u32       length of the head, then that many bytes of TOML (`Header`), then u32 the CRC-32 of
//!           them and, since version 3, of the version
//! blocks:   u32 length unpacked (never 0), u32 length packed, u32 CRC-32 of the packed bytes,
//!           the packed bytes (LZ4)
//! end:      u32 0, u64 number of events, u32 CRC-32 of these eight bytes; nothing follows
//! ```
//!
//! Every byte is under a checksum and the end is marked, so a file that was cut off, damaged or
//! belongs to something else is refused. Inside a block, events are coded as in `code.rs`.

mod code;
mod frame;
mod interleave;
mod reader;
mod recorder;

pub use interleave::replay_interleaved;
pub use reader::{Reader, replay};
pub use recorder::Recorder;

use std::io;

/// The version of the form that is written. All from 1 on are read.
///
/// Version 3 has what BabelFish's kernel says: processes, what is dropped, MaskPages.
///
/// Version 2 has blocks of code with the registers of each instruction. In a trace of version 1 the
/// instructions are only counted, so that in a replay nothing waits for anything's result: its times
/// are those of a program without dependences, its counts are the same.
pub const VERSION: u16 = 3;

/// An error of a trace, or of writing one.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Reading or writing failed.
    #[error("the trace cannot be read or written")]
    Io(#[from] io::Error),
    /// It does not begin as a trace does.
    #[error("this is not a trace of the translation model (it does not begin with COHORTTR)")]
    Foreign,
    /// It is a trace of another version.
    #[error(
        "the trace has version {found}, this program reads versions 1 to {VERSION}: record it anew"
    )]
    Version {
        /// The version it has.
        found: u16,
    },
    /// It ends before its end mark.
    #[error("the trace is truncated: it ends at byte {at}, {what}; record it anew")]
    Truncated {
        /// Where: how many bytes there are.
        at: u64,
        /// In the middle of what.
        what: &'static str,
    },
    /// Its content is not what was written.
    #[error("the trace is damaged at byte {at}: {what}; record it anew")]
    Damaged {
        /// Where its block begins.
        at: u64,
        /// How it is seen.
        what: &'static str,
    },
    /// It is not for this machine.
    #[error("the trace does not fit the machine: {0}")]
    Unfit(String),
}

/// Facts about the run, kept at the head of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Header {
    /// Cores of the guest.
    pub cores: usize,
    /// Name of the page-table format, as in a model's `page_tables`.
    pub page_tables: String,
    /// Free text: the experiment, the kernel, the workload.
    pub about: String,
}
