// SPDX-License-Identifier: GPL-2.0-or-later
//! Where processes were found running.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The clock that decides when a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The processor's counter of cycles.
    Cycles,
    /// A timer.
    Timer,
}

/// Where one process was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// In the kernel, on its behalf.
    pub kernel: u64,
    /// In its own code: samples by page.
    pub pages: BTreeMap<u64, u64>,
}
