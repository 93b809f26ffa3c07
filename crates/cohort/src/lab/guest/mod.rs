// SPDX-License-Identifier: GPL-2.0-or-later
//! Guests: what they are made of, how they boot, run a job and report.

pub mod cpio;
pub mod job;
pub mod packaged;
pub mod plugin;
pub mod programs;
pub mod protocol;
pub mod rootfs;
pub mod run;
pub mod setup;
pub mod shell;
mod stdio;
