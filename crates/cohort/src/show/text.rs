// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers and tables as text.

use super::figure::FigureResult;
use comfy_table::{ContentArrangement, Table, TableComponent, presets};
use std::io::IsTerminal;

/// The widest table where the output is no terminal.
const WIDTH: u16 = 100;
/// No text is made narrower.
const WORDS: u16 = 20;
/// No table of results is made narrower: below this, columns break inside words.
const NARROWEST: u16 = 60;

/// A number as people read it: separated thousands, few digits behind the point. From 1e15 on with
/// an exponent: an `i64` does not hold every such number.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 {
        return format!("{value:e}");
    }
    if value == value.trunc() || size >= 1_000.0 {
        return thousands(value.round() as i64);
    }
    let digits = if size >= 100.0 {
        1
    } else if size >= 0.1 {
        2
    } else {
        4
    };
    format!("{value:.digits$}")
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// A number, or a dash where there is none.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or("-".into(), number)
}

/// The least and the most of several runs.
pub fn range([least, most]: [f64; 2]) -> String {
    format!("{} to {}", number(least), number(most))
}

/// A number with its range, if it has one.
pub fn ranged(value: Option<f64>, least_and_most: Option<[f64; 2]>) -> String {
    match least_and_most {
        Some(both) => format!("{} ({})", maybe(value), range(both)),
        None => maybe(value),
    }
}

/// The columns of the terminal that the output goes to, else [`WIDTH`].
pub fn columns() -> u16 {
    match window() {
        Some(size) if size.ws_col > 0 => size.ws_col.max(WORDS),
        _ => WIDTH,
    }
}

/// The lines of the terminal that the output goes to, if it goes to one that knows.
pub fn height() -> Option<u16> {
    window()
        .map(|size| size.ws_row)
        .filter(|&height| height > 0)
}

/// The size of the terminal that the output goes to.
fn window() -> Option<libc::winsize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    // SAFETY: winsize is four integers, for which zeros are valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes a winsize to the address given, which is `size`.
    let failed = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } != 0;
    (!failed).then_some(size)
}

/// An empty table as wide as the terminal, if that is wide enough: one rule below the heading, none between rows.
pub fn table() -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .remove_style(TableComponent::HorizontalLines)
        .remove_style(TableComponent::MiddleIntersections)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns().max(NARROWEST));
    table
}

/// A text as lines of at most `width` letters, broken between words; a longer word is a line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// A table of any content.
pub fn plain(heading: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut shown = table();
    shown.set_header(heading).add_rows(rows);
    format!("{shown}\n")
}

/// A label with its unit, if it has one.
pub fn with_unit(label: &str, unit: &str) -> String {
    match unit {
        "" => label.to_string(),
        unit => format!("{label} ({unit})"),
    }
}

/// A figure's heading and rows, as a table whatever its kind.
pub fn rows(figure: &FigureResult) -> (Vec<String>, Vec<Vec<String>>) {
    let mut heading = vec![figure.x_label.clone()];
    heading.extend(
        figure
            .series
            .iter()
            .map(|series| with_unit(&series.label, &series.unit)),
    );
    let rows = figure
        .x
        .iter()
        .enumerate()
        .map(|(at, x)| {
            let mut row = vec![x.text()];
            row.extend(figure.series.iter().map(|series| {
                let value = series.values.get(at).copied().flatten();
                ranged(value, series.spread(at))
            }));
            row
        })
        .collect();
    (heading, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        for (value, text) in [
            (0.0, "0"),
            (5900.0, "5,900"),
            (-1_234_567.0, "-1,234,567"),
            (2.1, "2.10"),
            (0.00321, "0.0032"),
            (1234.56, "1,235"),
            (123.45, "123.5"),
            (999_999_999_999_999.0, "999,999,999,999,999"),
            (1e15, "1e15"),
            (-1e308, "-1e308"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(maybe(None), "-");
    }
}
