// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures with a name, and their text in tables.

use crate::show::number;

/// A figure, or none where it was not asked for.
#[derive(Clone)]
pub enum Value {
    None,
    Text(String),
    Count(f64),
    Bytes(u64),
    Percent(f64),
}

/// A figure of a group under a name that `-c` and `-s` take.
pub struct Column {
    pub name: &'static str,
    pub help: &'static str,
    pub value: Value,
}

impl Column {
    pub fn new(name: &'static str, help: &'static str, value: Value) -> Column {
        Column { name, help, value }
    }

    pub fn text(name: &'static str, help: &'static str, text: &str) -> Column {
        Column::new(name, help, Value::Text(text.to_string()))
    }

    pub fn count(name: &'static str, help: &'static str, count: u64) -> Column {
        Column::new(name, help, Value::Count(count as f64))
    }

    pub fn bytes(name: &'static str, help: &'static str, bytes: u64) -> Column {
        Column::new(name, help, Value::Bytes(bytes))
    }

    pub fn percent(name: &'static str, help: &'static str, percent: f64) -> Column {
        Column::new(name, help, Value::Percent(percent))
    }

    /// A count that may not have been asked for.
    pub fn maybe(name: &'static str, help: &'static str, count: Option<f64>) -> Column {
        Column::new(name, help, count.map_or(Value::None, Value::Count))
    }

    /// A percentage that may not have been asked for.
    pub fn maybe_percent(name: &'static str, help: &'static str, percent: Option<f64>) -> Column {
        Column::new(name, help, percent.map_or(Value::None, Value::Percent))
    }

    /// A size that may not have been asked for.
    pub fn maybe_bytes(name: &'static str, help: &'static str, bytes: Option<u64>) -> Column {
        Column::new(name, help, bytes.map_or(Value::None, Value::Bytes))
    }
}

impl Value {
    /// None for text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::None | Value::Text(_) => None,
            Value::Count(value) | Value::Percent(value) => Some(*value),
            Value::Bytes(bytes) => Some(*bytes as f64),
        }
    }

    /// The unit of a number; None for text.
    pub fn unit(&self) -> Option<&'static str> {
        match self {
            Value::None | Value::Text(_) => None,
            Value::Count(_) => Some(""),
            Value::Percent(_) => Some("percent"),
            Value::Bytes(_) => Some("bytes"),
        }
    }

    /// The cell of a table; sizes with units, or in kB.
    pub fn cell(&self, units: bool) -> String {
        match self {
            Value::None => "-".into(),
            Value::Text(text) => clean(text),
            Value::Count(count) => number(*count),
            Value::Bytes(bytes) if units => size(*bytes),
            Value::Bytes(bytes) => number((bytes / 1024) as f64),
            Value::Percent(percent) => format!("{percent:.1}"),
        }
    }
}

pub fn count(value: u64) -> String {
    number(value as f64)
}

/// `part` of `whole` in percent, with one digit behind the point and no sign.
pub fn percent(part: f64, whole: f64) -> String {
    format!("{:.1}", 100.0 * part / whole.max(1.0))
}

/// A count with its noun.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{} {noun}", number(count as f64))
}

/// A name without control characters, which a terminal would obey.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Cuts a long name in its middle: its two ends say most. Control characters do not stay.
pub fn shorten(text: &str, width: usize) -> String {
    let clean: Vec<char> = clean(text).chars().collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    // Of a command line the beginning says most.
    let head = match clean.contains(&' ') {
        true => width * 2 / 3,
        false => width / 3,
    };
    let tail: String = clean[clean.len() - (width - head - 1)..].iter().collect();
    let head: String = clean[..head].iter().collect();
    format!("{head}…{tail}")
}

/// A size with its unit, to three digits.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if value < 1000.0 || unit == "TB" {
            let digits = if value < 10.0 && unit != "B" { 1 } else { 0 };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    unreachable!("the last unit takes any value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_names_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4096), "4.0 KB");
        assert_eq!(size(300 << 20), "300 MB");
        let long = shorten("/usr/lib/postgresql/17/bin/a-very-long-program", 26);
        assert!(long.chars().count() == 26 && long.ends_with("program"));
        assert_eq!(shorten("a\x1b[2J", 26), "a?[2J");
    }
}
