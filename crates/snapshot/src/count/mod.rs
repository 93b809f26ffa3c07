// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts what is duplicated in a snapshot.

pub mod code;
pub mod content;
pub mod entries;
pub mod group;
pub mod kin;
