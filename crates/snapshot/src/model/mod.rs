// SPDX-License-Identifier: GPL-2.0-or-later
//! What was read: who maps what.

pub mod region;
mod snapshot;
pub mod store;
pub mod word;

pub use snapshot::*;
