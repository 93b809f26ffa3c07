// SPDX-License-Identifier: GPL-2.0-or-later
//! The model seen from outside: the papers' own examples, closed forms, properties, traces.

mod babelfish;
mod closed_forms;
mod descriptions;
mod domains;
mod exact;
mod figure7;
mod figure8;
mod group;
mod naive;
mod os;
mod processes;
mod properties;
#[path = "../../src/tests/sets.rs"]
mod sets;
mod traces;
