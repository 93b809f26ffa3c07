// SPDX-License-Identifier: GPL-2.0-or-later
//! What the plugin writes at the end: JSON that depends on the guest alone, not on the host's speed.

use crate::check::Verdict;
use crate::processes::Listed;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use translation::Report;
use translation::metrics::Metric;

/// Changes when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The output.
#[derive(Debug, Serialize)]
pub struct Output {
    schema_version: u32,
    /// The model's name or file.
    model: Option<String>,
    cores: usize,
    /// Instructions that the guest executed, all of them.
    pub instructions: u64,
    /// Page faults that entered the kernel, all of them.
    pub page_faults: u64,
    /// Marks whose code nobody knows.
    pub unknown_marks: u64,
    /// One for each start and stop, in order.
    pub regions: Vec<Part>,
    /// One for each begin and end, in the order of their ends.
    pub requests: Vec<Part>,
    /// Every process that ran.
    pub processes: Vec<Listed>,
    /// Translations against QEMU's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Verdict>,
    /// The model's counters at the end.
    pub report: Option<Report>,
}

/// A region or a request.
#[derive(Debug, Serialize)]
pub struct Part {
    /// The number of the last mark `step` before it, 0 without.
    pub step: u64,
    /// The argument of its first mark.
    pub id: u64,
    /// What was counted in it: a region on all cores, a request of the process that began it, on
    /// whatever cores that ran.
    pub metrics: Vec<Metric>,
}

impl Output {
    /// Nothing seen yet.
    pub fn new(model: Option<&str>, cores: usize) -> Self {
        Output {
            schema_version: SCHEMA_VERSION,
            model: model.map(String::from),
            cores,
            instructions: 0,
            page_faults: 0,
            unknown_marks: 0,
            regions: Vec::new(),
            requests: Vec::new(),
            processes: Vec::new(),
            check: None,
            report: None,
        }
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("counters that JSON cannot hold")?;
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        std::fs::write(&part, text + "\n")?;
        std::fs::rename(&part, path)?;
        Ok(())
    }
}
