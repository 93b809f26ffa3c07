// SPDX-License-Identifier: GPL-2.0-or-later
//! A titled table of text, of which the details, the page and the difference are made.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// `rows` have as many cells as `heading`; the first is their label.
pub struct Part {
    pub title: String,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Part {
    pub fn new(title: &str, heading: &[&str]) -> Part {
        Part {
            title: title.into(),
            heading: heading.iter().map(|cell| cell.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, label: &str, cells: &[String]) {
        let mut row = vec![label.to_string()];
        row.extend_from_slice(cells);
        self.rows.push(row);
    }

    /// As text of at most 100 columns.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(100)
            .set_header(&self.heading)
            .add_rows(&self.rows);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("{}\n", self.title);
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
