// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a description cannot be used.

use std::path::PathBuf;

/// A description that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No built-in description has this name.
    #[error("no {what} is called {name:?}; there are: {known}")]
    Unknown {
        /// "model" or "page-table format".
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the description {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or not a model.
    #[error("the description {name:?} is not valid: {why}")]
    Invalid {
        /// Name or path of the description.
        name: String,
        /// Where and why.
        why: String,
    },
    /// The machine asked for cannot be made of this model.
    #[error("model {name:?}: {why}")]
    Machine {
        /// Name of the model.
        name: String,
        /// Why.
        why: String,
    },
}

/// A description's table as its type; an error names the place, for instance `tlb[3].ways`.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(table: toml::Table) -> Result<T, String> {
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
        let place = error.path().to_string();
        let cause = error.into_inner();
        let cause = cause.message();
        match place.as_str() {
            "." => cause.to_owned(),
            _ => format!("{place}: {cause}"),
        }
    })
}
