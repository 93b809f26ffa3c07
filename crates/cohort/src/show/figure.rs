// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure: a table or a plot, with its values.

use serde::{Deserialize, Serialize};

/// The kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A row for each x, a column for each series.
    Table,
    /// A group for each x, a bar for each series.
    Bar,
    /// A point for each x, a line for each series.
    Line,
    /// A box with whiskers for each x. There are five series: the least, the lower quartile, the
    /// median, the upper quartile and the most.
    Box,
}

/// A row, group or point.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum X {
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl X {
    /// As it stands in an expression and in a table.
    pub fn text(&self) -> String {
        match self {
            X::Number(number) => number.to_string(),
            X::Text(text) => text.clone(),
        }
    }
}

/// A table or plot with its values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FigureResult {
    /// Its title.
    pub title: String,
    /// What it is.
    pub kind: Kind,
    /// What the rows, groups or the axis are.
    pub x_label: String,
    /// What the values are.
    pub y_label: String,
    /// Logarithmic.
    pub log: bool,
    /// Rows, groups or points.
    pub x: Vec<X>,
    /// Columns, bars or lines.
    pub series: Vec<SeriesResult>,
}

/// One column, colour of bars, or line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeriesResult {
    /// Its name.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// A value for each x.
    pub values: Vec<Option<f64>>,
    /// The least and the most of each value over several runs; empty for one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Option<[f64; 2]>>,
    /// The least and the most of each value over other readings of the model that it is of, and over
    /// the runs; empty if it is of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Option<[f64; 2]>>,
}

impl SeriesResult {
    /// Between what the value at an x lies: its bounds, else its range.
    pub fn spread(&self, at: usize) -> Option<[f64; 2]> {
        let of = |list: &[Option<[f64; 2]>]| list.get(at).copied().flatten();
        of(&self.bounds).or_else(|| of(&self.ranges))
    }
}
