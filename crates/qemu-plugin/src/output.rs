// SPDX-License-Identifier: GPL-2.0-or-later
//! The JSON that the plugin writes at the end. It depends on the guest alone, not on the host's
//! speed.

use crate::audit;
use crate::check::Verdict;
use crate::processes::Listed;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use translation::Report;
use translation::metrics::Metric;

/// Increase it when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// The file's content.
#[derive(Debug, Serialize)]
pub struct Output {
    schema_version: u32,
    /// The model's name or file.
    model: Option<String>,
    cores: usize,
    /// The labels of other readings of the model, in the order that each part has them in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<String>,
    /// All instructions that the guest executed, marks or not.
    pub instructions: u64,
    /// All page faults that entered the kernel.
    pub page_faults: u64,
    /// Marks with an unknown code.
    pub unknown_marks: u64,
    /// One per pair of start and stop, in order.
    pub regions: Vec<Part>,
    /// One per pair of begin and end, in the order of their ends.
    pub requests: Vec<Part>,
    /// Every process that ran.
    pub processes: Vec<Listed>,
    /// Translations compared with QEMU's; absent without `check=on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Verdict>,
    /// What the flush audit found; absent without `audit=on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<audit::Verdict>,
    /// The model's counters at the end; null without a model.
    pub report: Option<Report>,
}

/// A region or a request.
#[derive(Debug, Serialize)]
pub struct Part {
    /// The argument of the last mark `step` before it; 0 if there was none.
    pub step: u64,
    /// The argument of its first mark.
    pub id: u64,
    /// Counters: of all cores for a region; for a request, of the process that began it, on all
    /// cores that it ran on.
    pub metrics: Vec<Metric>,
    /// The same counters under each other reading of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Vec<Metric>>,
}

impl Output {
    pub fn new(model: Option<&str>, cores: usize) -> Self {
        Output {
            schema_version: SCHEMA_VERSION,
            model: model.map(String::from),
            cores,
            readings: Vec::new(),
            instructions: 0,
            page_faults: 0,
            unknown_marks: 0,
            regions: Vec::new(),
            requests: Vec::new(),
            processes: Vec::new(),
            check: None,
            audit: None,
            report: None,
        }
    }

    /// Writes the file under another name first, so that it appears complete or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text =
            serde_json::to_string_pretty(self).context("cannot turn the counters into JSON")?;
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        std::fs::write(&part, text + "\n")?;
        std::fs::rename(&part, path)?;
        Ok(())
    }
}
