// SPDX-License-Identifier: GPL-2.0-or-later
//! Access to the machine that the lab runs on: files, processes, packages, progress.

pub mod apt;
pub mod files;
pub mod hash;
pub mod process;
pub mod progress;
