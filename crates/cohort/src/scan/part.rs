// SPDX-License-Identifier: GPL-2.0-or-later
//! A titled table of text, of which the details, the page and the difference are made.

use super::cell::shorten;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// A first column is not made narrower than this.
const LABEL: usize = 10;

/// A heading of no more letters stays on one line.
const SHORT: usize = 10;

/// `rows` have as many cells as `heading`; the first is their label.
#[derive(Default)]
pub struct Part {
    pub title: String,
    /// The figure or table of a paper that this is after, for a footnote.
    pub paper: Option<&'static str>,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Part {
    pub fn new(title: &str, heading: &[&str]) -> Part {
        Part {
            title: title.into(),
            paper: None,
            heading: heading.iter().map(|cell| cell.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// The same with a footnote that names what it is after.
    pub fn after(self, paper: &'static str) -> Part {
        Part {
            paper: Some(paper),
            ..self
        }
    }

    pub fn row(&mut self, label: &str, cells: &[String]) {
        let mut row = vec![label.to_string()];
        row.extend_from_slice(cells);
        self.rows.push(row);
    }

    /// As text of at most `width` columns; `note` is the number of its footnote.
    pub fn text(&self, width: usize, note: Option<usize>) -> String {
        let note = note.map_or(String::new(), |note| format!(" [{note}]"));
        let text = &[0][..];
        format!(
            "{}{note}\n{}",
            self.title,
            lines(&self.heading, &self.rows, text, width)
        )
    }
}

/// Columns that a table takes at least: its first column can be cut, numbers and words cannot.
pub fn least(heading: &[String], rows: &[Vec<String>]) -> usize {
    let widths = widths(heading, rows);
    widths[0].min(LABEL) + widths[1..].iter().map(|width| width + 1).sum::<usize>()
}

/// For each column the widest of its cells and of the words of its heading.
pub fn widths(heading: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let letters = |text: &str| text.chars().count();
    let each = heading.iter().enumerate();
    each.map(|(column, name)| {
        let cells = rows.iter().map(|row| letters(&row[column]));
        // A long heading is broken between its words.
        let words = name.split_whitespace().map(letters);
        let least = match letters(name) {
            short if short <= SHORT => short,
            _ => words.max().unwrap_or(0),
        };
        cells.max().unwrap_or(0).max(least)
    })
    .collect()
}

/// A table in which no number is broken: the first column is cut to what the others leave of
/// `width`. All but the columns `text` stand to the right.
pub fn lines(heading: &[String], rows: &[Vec<String>], text: &[usize], width: usize) -> String {
    let widths = widths(heading, rows);
    let others: usize = widths[1..].iter().map(|width| width + 1).sum();
    let label = widths[0].min(width.saturating_sub(others).max(LABEL));
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(label + others) as u16)
        .set_header(heading);
    table.add_rows(rows.iter().map(|row| {
        let mut row = row.clone();
        row[0] = shorten(&row[0], label);
        row
    }));
    for (number, column) in table.column_iter_mut().enumerate() {
        let before = u16::from(number > 0);
        column.set_padding((before, 0));
        let least = if number == 0 { label } else { widths[number] } as u16;
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
            least + before,
        )));
        if !text.contains(&number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut shown = String::new();
    for line in table.lines() {
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_broken_however_narrow() {
        let mut part = Part::new(
            "Windows",
            &[
                "",
                "pages",
                "64 KB full %",
                "waste",
                "entries saved",
                "2 MB full %",
                "waste",
            ],
        );
        let cells = [
            "12,345,678",
            "100",
            "1,023 MB",
            "12,345,678",
            "100",
            "1,023 MB",
        ];
        let cells = cells.map(String::from);
        part.row("a label that is much longer than others are", &cells);
        for width in [60, 80, 100, 200] {
            let text = part.text(width, None);
            for cell in &cells {
                assert!(text.contains(cell.as_str()), "{width}: {text}");
            }
            let wide = text.lines().map(|line| line.chars().count()).max();
            assert!(wide.unwrap() <= width, "{width}: {text}");
        }
        assert!(part.text(200, Some(3)).starts_with("Windows [3]\n"));
    }
}
