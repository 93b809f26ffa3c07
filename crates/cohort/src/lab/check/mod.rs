// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that need a guest, each with a verdict of its own.

pub mod arm64;
pub mod audit;
pub mod fuzz;
pub mod groups;
pub mod mmtests;
pub mod mutate;
pub mod native;
pub mod objects;
pub mod packages;
pub mod scan_kernels;
pub mod selftests;
pub mod soak;
pub mod stages;
pub mod tally;
pub mod translations;
