// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments: their files, runs and results, and the report of them.

pub mod code;
pub mod compare;
pub mod complete;
pub mod definition;
pub mod expr;
pub mod kept;
pub mod made_from;
pub mod map;
mod matrix;
mod page;
pub mod papers;
pub mod print;
pub mod report;
pub mod results;
pub mod run;
mod terms;
