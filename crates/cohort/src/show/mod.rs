// SPDX-License-Identifier: GPL-2.0-or-later
//! Showing things to people: numbers, tables, plots. Shared by the scan and the lab.

#[cfg(test)]
pub mod browser;
mod figure;
mod plot;
mod text;

pub use figure::{FigureResult, Kind, SeriesResult, X};
pub use plot::{Chart, Mark, svg};
pub use text::{
    columns, height, maybe, number, plain, range, ranged, rows, table, with_unit, wrap,
};
