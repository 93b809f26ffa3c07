// SPDX-License-Identifier: GPL-2.0-or-later
//! Descriptions of machines: TOML in, a checked [`Model`] out.

use std::path::{Path, PathBuf};

/// A description that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No built-in description has this name.
    #[error("no model is called {name:?}; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the model {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or not a model.
    #[error("the model {name:?} is not valid: {why}")]
    Invalid {
        /// Name or path of the description.
        name: String,
        /// Where and why.
        why: String,
    },
}

/// A machine's description, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
}

impl Model {
    /// The names of the built-in descriptions.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        ["babelfish-isca20"].into_iter()
    }

    /// A built-in description.
    pub fn builtin(name: &str) -> Result<Self, ModelError> {
        Ok(Self {
            name: name.to_owned(),
        })
    }

    /// Parses a description; `name` is for its error messages.
    pub fn parse(name: &str, _text: &str) -> Result<Self, ModelError> {
        Ok(Self {
            name: name.to_owned(),
        })
    }

    /// Reads a description from a file.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text = std::fs::read_to_string(path).map_err(|source| ModelError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// A built-in name, or the path of a file if it contains a `/` or ends in `.toml`.
    pub fn load(name_or_path: &str) -> Result<Self, ModelError> {
        if name_or_path.contains('/') || name_or_path.ends_with(".toml") {
            Self::read(Path::new(name_or_path))
        } else {
            Self::builtin(name_or_path)
        }
    }
}
