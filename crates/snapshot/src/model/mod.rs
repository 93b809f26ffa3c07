// SPDX-License-Identifier: GPL-2.0-or-later
//! What was read: who maps what.

pub mod activity;
pub mod parents;
pub mod process;
pub mod region;
pub mod samples;
pub mod sharing;
mod snapshot;
pub mod stats;
pub mod store;
pub mod word;

pub use snapshot::*;
