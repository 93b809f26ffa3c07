// SPDX-License-Identifier: GPL-2.0-or-later
//! Cohort's translation model in QEMU: a plugin for an unmodified QEMU 10 that hands every
//! instruction fetch, load and store of a guest to `crates/translation`.

mod adapter;
mod api;
mod arch;
mod args;
mod audit;
mod block;
mod check;
mod cores;
mod engine;
mod ffi;
mod kernel;
mod mark;
mod output;
mod processes;
mod profile;
mod ram;
mod regions;
mod session;
mod symbols;
