// SPDX-License-Identifier: GPL-2.0-or-later
//! What the papers say: `papers/figures.toml`.

use crate::lab::Lab;
use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The papers, and their figures by ITEM/VALUE; a text where the paper gives no number.
#[derive(Debug, Default)]
pub struct Papers {
    list: Vec<Paper>,
    /// Where in its paper an item is and what it shows, by its id.
    items: BTreeMap<String, String>,
    figures: BTreeMap<String, Option<f64>>,
}

/// A paper as it is cited.
#[derive(Debug, Clone, Deserialize)]
pub struct Paper {
    /// What the names of its items begin with.
    pub id: String,
    pub title: String,
    pub authors: String,
    pub venue: String,
    /// What it is about, in one sentence.
    pub about: String,
}

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
            paper: Vec<Paper>,
            #[serde(default)]
            item: Vec<Item>,
        }
        #[derive(Deserialize)]
        struct Item {
            id: String,
            #[serde(default, rename = "where")]
            place: String,
            #[serde(default)]
            title: String,
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
        let mut items = BTreeMap::new();
        for item in file.item {
            found.insert(item.id.clone(), None);
            let place = item.place.split(';').next().unwrap_or_default();
            items.insert(item.id.clone(), format!("{place}, {}", item.title));
            for value in item.values {
                let number = match value.value {
                    toml::Value::Integer(number) => Some(number as f64),
                    toml::Value::Float(number) => Some(number),
                    _ => None,
                };
                found.insert(format!("{}/{}", item.id, value.name), number);
            }
        }
        Ok(Papers {
            list: file.paper,
            items,
            figures: found,
        })
    }

    /// Where in its paper an item is and what it shows, in words.
    pub fn item(&self, id: &str) -> Option<&str> {
        self.items.get(id).map(String::as_str)
    }

    pub fn list(&self) -> &[Paper] {
        &self.list
    }

    /// The figure; an outer nothing where there is no such id.
    pub fn get(&self, id: &str) -> Option<Option<f64>> {
        self.figures.get(id).copied()
    }

    /// Fails unless there is such an id.
    pub fn require(&self, id: &str) -> Result<()> {
        if self.get(id).is_none() {
            bail!("papers/figures.toml has no `{id}`");
        }
        Ok(())
    }
}
