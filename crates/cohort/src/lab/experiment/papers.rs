// SPDX-License-Identifier: GPL-2.0-or-later
//! What the papers say: `papers/figures.toml`.

use crate::lab::Lab;
use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The papers' figures, by ITEM/VALUE; a text where the paper gives no number.
#[derive(Debug, Default)]
pub struct Papers(BTreeMap<String, Option<f64>>);

impl Papers {
    /// Those of a checkout.
    pub fn of(lab: &Lab) -> Result<Self> {
        Papers::read(&lab.path("papers/figures.toml"))
    }

    /// Reads a file; none is one without figures.
    pub fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Papers::default());
        }
        Self::parse(&files::read(path)?)
            .with_context(|| format!("{} does not hold papers' figures", path.display()))
    }

    /// Reads what such a file holds.
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            item: Vec<Item>,
        }
        #[derive(Deserialize)]
        struct Item {
            id: String,
            #[serde(default)]
            values: Vec<Value>,
        }
        #[derive(Deserialize)]
        struct Value {
            name: String,
            value: toml::Value,
        }
        let file: File = toml::from_str(text)?;
        let mut found = BTreeMap::new();
        for item in file.item {
            found.insert(item.id.clone(), None);
            for value in item.values {
                let number = match value.value {
                    toml::Value::Integer(number) => Some(number as f64),
                    toml::Value::Float(number) => Some(number),
                    _ => None,
                };
                found.insert(format!("{}/{}", item.id, value.name), number);
            }
        }
        Ok(Papers(found))
    }

    /// The figure; an outer nothing where there is no such id.
    pub fn get(&self, id: &str) -> Option<Option<f64>> {
        self.0.get(id).copied()
    }

    /// Fails unless there is such an id.
    pub fn require(&self, id: &str) -> Result<()> {
        if self.get(id).is_none() {
            bail!("papers/figures.toml has no `{id}`");
        }
        Ok(())
    }
}
