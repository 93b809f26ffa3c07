// SPDX-License-Identifier: GPL-2.0-or-later
//! What figures are drawn beside: a stock kernel, which is 100 %, and the papers' values.
//!
//! Nothing here decides a figure: a result stays what it is when these change.

use crate::lab::experiment::definition::Figure;
use crate::lab::experiment::expr::{Expr, Figures};
use crate::lab::experiment::papers::Papers;
use crate::show::{FigureResult, Mark, X};
use serde::Deserialize;

/// A figure beside stock's, which is 100 %.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// What ours takes less of.
    pub label: String,
    pub of_stock: OfStock,
}

/// How a figure says what ours takes of what stock takes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfStock {
    /// In per cent, less than stock by.
    Saved,
    /// In per cent, of stock's.
    Share,
    /// Stock over ours.
    Over,
    /// Ours over stock.
    Times,
}

impl OfStock {
    /// In per cent of stock's.
    pub fn percent(self, figure: f64) -> f64 {
        match self {
            OfStock::Saved => 100.0 - figure,
            OfStock::Share => figure,
            OfStock::Over => 100.0 / figure,
            OfStock::Times => 100.0 * figure,
        }
    }
}

/// A value of a paper in a plot.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperLine {
    /// The expression that it is, without metrics.
    pub value: String,
    /// The row, group or point; default: each.
    pub x: Option<X>,
    /// The series; default: the first.
    pub series: Option<String>,
    /// The value is in per cent of what is measured in this group, or in this series.
    pub of: Option<String>,
    /// Whose value it is.
    #[serde(default = "paper")]
    pub label: String,
}

fn paper() -> String {
    "paper".into()
}

impl PaperLine {
    /// The value's expression, if what the line names is in its figure.
    pub fn validate(&self, figure: &Figure) -> Result<Expr, String> {
        let series = |name: &String| figure.series.iter().any(|series| series.label == *name);
        let x = |name: &String| figure.x.iter().any(|x| x.text() == *name);
        if let Some(name) = self.series.iter().find(|name| !series(name)) {
            return Err(format!("there is no series `{name}`"));
        }
        if let Some(x) = self.x.iter().find(|x| !figure.x.contains(x)) {
            return Err(format!("there is no x `{}`", x.text()));
        }
        if let Some(name) = self.of.iter().find(|name| !x(name) && !series(name)) {
            return Err(format!("there is neither an x nor a series `{name}`"));
        }
        Expr::parse(&self.value)
    }

    /// Where the line is in a figure as it was measured. What was not measured has no line.
    pub fn marks(&self, shown: &FigureResult, papers: &Papers) -> Vec<Mark> {
        let series = |name: &str| shown.series.iter().position(|it| it.label == name);
        let own = self.series.as_deref().map_or(Some(0), series);
        let value = Expr::parse(&self.value).and_then(|expr| expr.evaluate(papers));
        let (Some(own), Ok(value)) = (own, value) else {
            return Vec::new();
        };
        let measured = |series: usize, at: usize| *shown.series[series].values.get(at)?;
        let mark = |at: usize| {
            let whole = match self.of.as_deref() {
                None => 100.0,
                Some(of) => match series(of) {
                    Some(other) => measured(other, at)?,
                    None => measured(own, shown.x.iter().position(|x| x.text() == of)?)?,
                },
            };
            Some(Mark {
                label: self.label.clone(),
                series: own,
                at,
                value: value * whole / 100.0,
            })
        };
        let here = |at: &usize| self.x.as_ref().is_none_or(|x| *x == shown.x[*at]);
        (0..shown.x.len()).filter(here).filter_map(mark).collect()
    }
}

impl Figures for Papers {
    fn values(&self, variant: &str, metric: &str) -> Result<Vec<f64>, String> {
        Err(format!("{variant}:{metric} is not of a paper"))
    }

    fn paper(&self, id: &str) -> Result<f64, String> {
        let value = self.get(id).flatten();
        value.ok_or_else(|| format!("papers/figures.toml has no number `{id}`"))
    }
}
