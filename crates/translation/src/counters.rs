// SPDX-License-Identifier: GPL-2.0-or-later
//! What the model counts.

use serde::Serialize;

/// The counters of a core, a process, a cohort or all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Instructions executed.
    pub instructions: u64,
    /// Instruction fetches, as the source gave them.
    pub fetches: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// All that a machine counted, ready to be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The model's name.
    pub model: String,
    /// All cores together.
    pub total: Counters,
    /// One a core.
    pub cores: Vec<Counters>,
}
