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
    /// In the file's order.
    items: Vec<Item>,
    figures: BTreeMap<String, Option<f64>>,
}

/// A table, a figure or a claim.
#[derive(Debug, Clone, Deserialize)]
pub struct Item {
    /// PAPER.NAME.
    pub id: String,
    /// Where in its paper it is, best place first.
    #[serde(default, rename = "where")]
    pub place: String,
    /// `configuration`, `table`, `figure` or `claim`.
    #[serde(default)]
    kind: String,
    /// What it shows.
    #[serde(default)]
    pub title: String,
    /// What it is about, across papers.
    #[serde(default, rename = "experiment")]
    subject: String,
    #[serde(default)]
    values: Vec<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Value {
    name: String,
    value: toml::Value,
}

impl Item {
    /// It says what was measured: it is no drawing, no description of a machine or of a method, and
    /// not about other work.
    pub fn measured(&self) -> bool {
        let nothing = ["schematic", "platform", "related-work"];
        self.kind != "configuration" && !nothing.contains(&self.subject.as_str())
    }

    /// Where in its paper it is and what it shows, in words.
    pub fn words(&self) -> String {
        let place = self.place.split(';').next().unwrap_or_default();
        format!("{place}, {}", self.title)
    }
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
        let file: File = toml::from_str(text)?;
        let mut found = BTreeMap::new();
        for item in &file.item {
            found.insert(item.id.clone(), None);
            for value in &item.values {
                let number = match &value.value {
                    toml::Value::Integer(number) => Some(*number as f64),
                    toml::Value::Float(number) => Some(*number),
                    _ => None,
                };
                found.insert(format!("{}/{}", item.id, value.name), number);
            }
        }
        Ok(Papers {
            list: file.paper,
            items: file.item,
            figures: found,
        })
    }

    pub fn item(&self, id: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    /// All items, in the order of the file.
    pub fn items(&self) -> &[Item] {
        &self.items
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
