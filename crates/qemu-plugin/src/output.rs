// SPDX-License-Identifier: GPL-2.0-or-later
//! What the plugin writes at the end: JSON that depends on the guest alone, not on the host's speed.

use crate::check::Verdict;
use crate::processes::Listed;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use translation::Report;

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
    regions: Vec<Region>,
    /// Every process that ran.
    pub processes: Vec<Listed>,
    /// Translations against QEMU's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Verdict>,
    /// The model's counters at the end.
    pub report: Option<Report>,
    #[serde(skip)]
    opened: Option<(u64, u64)>,
}

/// What lies between a start and a stop.
#[derive(Debug, Serialize)]
struct Region {
    /// The start's argument.
    id: u64,
    /// Instructions, of all cores.
    instructions: u64,
    /// The model's counters at the stop: of this region and those before it.
    report: Option<Report>,
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
            processes: Vec::new(),
            check: None,
            report: None,
            opened: None,
        }
    }

    /// The region `id` starts.
    pub fn open(&mut self, id: u64) {
        self.opened = Some((id, self.instructions));
    }

    /// The open region stops, if there is one.
    pub fn close(&mut self, report: Option<Report>) {
        if let Some((id, from)) = self.opened.take() {
            self.regions.push(Region {
                id,
                instructions: self.instructions - from,
                report,
            });
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
