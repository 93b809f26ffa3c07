// SPDX-License-Identifier: GPL-2.0-or-later
//! The results of many tests, as data: `--tally FILE` writes them, the stages read them.

use crate::lab::host::files;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Changes when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Tests that passed, failed and were skipped.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    schema_version: u32,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that could not run here, or passed only in a second run.
    pub skipped: usize,
    /// The failed tests: a name, then what they said, one line each.
    pub failures: Vec<String>,
}

impl Tally {
    /// No test yet.
    pub fn new() -> Self {
        Tally {
            schema_version: SCHEMA_VERSION,
            ..Tally::default()
        }
    }

    /// Adds a test that failed.
    pub fn fail(&mut self, name: impl Into<String>, notes: &[String]) {
        self.failed += 1;
        self.failures.push(name.into());
        self.failures
            .extend(notes.iter().map(|note| format!("    {note}")));
    }

    /// Adds the tests of another.
    pub fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures.iter().cloned());
    }

    /// True if no test failed.
    pub fn good(&self) -> bool {
        self.failed == 0
    }

    /// Reads it from a file that [`Tally::write`] wrote.
    pub fn read(path: &Path) -> Result<Self> {
        serde_json::from_str(&files::read(path)?)
            .with_context(|| format!("{} is not a tally of this version", path.display()))
    }

    /// Writes it as JSON.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the tally cannot be JSON")?;
        files::write(path, (text + "\n").as_bytes())
    }
}

/// `N passed, N failed`, and `, N skipped` if any were.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_read_as_it_was_written_and_anything_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tally.json");
        let mut tally = Tally::new();
        tally.passed = 2;
        tally.fail("share: a child", &["three, not two".into()]);
        tally.write(&file).unwrap();
        assert_eq!(Tally::read(&file).unwrap(), tally);
        assert_eq!(tally.to_string(), "2 passed, 1 failed");
        assert!(!tally.good() && tally.failures.len() == 2);
        files::write(&file, b"2 passed").unwrap();
        let error = format!("{:#}", Tally::read(&file).unwrap_err());
        assert!(error.contains("tally.json"), "{error}");
    }
}
