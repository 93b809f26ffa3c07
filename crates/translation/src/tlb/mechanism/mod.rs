// SPDX-License-Identifier: GPL-2.0-or-later
//! What hardware may add to a TLB, one file per mechanism.

pub mod babelfish;
