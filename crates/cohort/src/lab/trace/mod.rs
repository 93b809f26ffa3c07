// SPDX-License-Identifier: GPL-2.0-or-later
//! Traces of what guests access: recorded, replayed under models, measured.

pub mod bench;
pub mod joblist;
pub mod sweep;
