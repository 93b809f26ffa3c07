// SPDX-License-Identifier: GPL-2.0-or-later
//! No circle of imports between this crate's rooms.

#[path = "../../translation/tests/rooms.rs"]
mod rooms;
