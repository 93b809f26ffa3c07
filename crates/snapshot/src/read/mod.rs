// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads `/proc`, and captures of it.

pub mod capture;
pub mod frames;
pub mod idle;
pub mod mapping;
pub mod maps;
pub(crate) mod memory;
pub mod pace;
pub mod pagemap;
pub mod paths;
pub mod process;
pub mod samples;
pub mod scan;
pub mod sharing;
pub mod walk;
