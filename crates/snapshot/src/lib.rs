// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads `/proc` into a model of who maps what, and counts what is duplicated in it.
//!
//! What this does not do: change anything on the machine (only watching which pages are used
//! clears their accessed bits), need a kernel of ours, or hold a lock while it reads. A snapshot
//! is therefore not of one instant; it says itself how consistent it is.
//!
//! Three rooms, each of which imports from those before it alone: [`model`], what a snapshot holds;
//! [`read`], which fills it from `/proc` and from captures; [`count`], which counts what is
//! duplicated in it.

pub mod count;
pub mod fake;
pub mod model;
pub mod read;

pub use read::paths::{Paths, page_size};
