// SPDX-License-Identifier: GPL-2.0-or-later
//! Cohort's translation model in QEMU: a plugin for an unmodified QEMU 10 that hands every
//! instruction fetch, load and store of a guest to `crates/translation`.

pub mod adapter;
pub mod api;
pub mod arch;
pub mod args;
pub mod block;
pub mod check;
pub mod cores;
pub mod engine;
#[allow(missing_docs)]
pub mod ffi;
pub mod kernel;
pub mod mark;
pub mod output;
pub mod processes;
pub mod ram;
pub mod regions;
pub mod session;
