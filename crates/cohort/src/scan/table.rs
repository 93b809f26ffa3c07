// SPDX-License-Identifier: GPL-2.0-or-later
//! The default form: a table of at most 100 columns.

use super::answer::duplicates;
use super::args::Show;
use super::report::{GroupReport, Report};
use crate::show::number;
use anyhow::{Result, bail};
use cohort_snapshot::count::entries::Watched;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

const WIDTH: u16 = 100;
/// Widest name of a group; the rest of the table is for numbers.
const NAME: usize = 26;

/// What a cell holds.
pub enum Value {
    /// Was not asked for.
    None,
    Text(String),
    Count(f64),
    Bytes(u64),
    Percent(f64),
}

/// A column of the table, which can also be sorted by.
pub struct Column {
    pub name: &'static str,
    pub help: &'static str,
    pub value: fn(&GroupReport) -> Value,
}

macro_rules! columns {
    ($($name:literal, $help:literal, $kind:ident, $value:expr;)*) => {
        /// All columns.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: $name,
            help: $help,
            value: |group: &GroupReport| {
                let value: fn(&GroupReport) -> _ = $value;
                columns!(@$kind value(group))
            },
        },)*];
    };
    (@Text $value:expr) => { Value::Text($value) };
    (@Count $value:expr) => { Value::Count($value as f64) };
    (@Bytes $value:expr) => { Value::Bytes($value) };
    (@Percent $value:expr) => { Value::Percent($value) };
    (@SomeBytes $value:expr) => { $value.map_or(Value::None, Value::Bytes) };
    (@SomeCount $value:expr) => { $value.map_or(Value::None, Value::Count) };
    (@SomePercent $value:expr) => { $value.map_or(Value::None, Value::Percent) };
}

columns! {
    "group", "what its processes have in common", Text, |g| g.name.clone();
    "procs", "processes", Count, |g| g.processes;
    "entries", "entries of page tables, those of huge pages and swap included", Count,
        |g| g.entries.total;
    "shareable", "entries equal to one of another process of the group", Count,
        |g| g.entries.classes.shareable;
    "unshareable", "entries equal to none", Count, |g| g.entries.classes.unshareable;
    "huge", "entries of huge pages", Count, |g| g.entries.classes.huge;
    "swapped", "entries of swap", Count, |g| g.entries.classes.swapped;
    "unknown", "entries that cannot be compared as frames are hidden", Count,
        |g| g.entries.classes.unknown;
    "once", "entries left if each is kept once", Count, |g| g.entries.once;
    "dup%", "percent of entries that would go", Percent, duplicates;
    "ptps", "last-level page tables", Count, |g| g.ptps.counts.tables;
    "same", "tables equal to one of another process now", Count, |g| g.ptps.counts.identical;
    "distinct", "tables left if equal ones are kept once", Count, |g| g.ptps.counts.distinct;
    "left", "tables left if Cohort's kernel had forked these processes", Count,
        |g| g.ptps.counts.kept;
    "uppers", "tables of the level above that this would do without", Count,
        |g| g.ptps.counts.uppers_saved;
    "saves", "memory that both save", Bytes, |g| g.ptps.saved_bytes;
    "touched", "tables left if the first process had touched all before it forked", Count,
        |g| g.ptps.counts.lineages;
    "touched-saves", "memory that this saves", Bytes, |g| g.ptps.touched_bytes;
    "saves-now", "memory saved if equal tables are kept once", Bytes, |g| g.ptps.identical_bytes;
    "apart", "tables with code and data apart", Count, |g| g.ptps.counts.apart;
    "apart-same", "of those, equal to one of another process", Count,
        |g| g.ptps.counts.apart_identical;
    "apart-saves", "memory saved if equal ones of those are kept once", Bytes,
        |g| g.ptps.apart_bytes;
    "copied", "entries that stock fork copies if each process forks once", Count,
        |g| g.fork.copied;
    "faults", "faults that those children are spared", Count, |g| g.fork.faults_avoided;
    "faults-saved", "faults that these processes had been spared, forked by Cohort's kernel", Count,
        |g| g.fork.faults_saved;
    "private", "anonymous pages mapped once", Count, |g| g.contents.private;
    "cow", "anonymous pages to be copied when written", Count, |g| g.contents.cow;
    "ksm", "merged pages", Count, |g| g.contents.ksm;
    "file", "pages of files in private regions", Count, |g| g.contents.file;
    "shared", "pages of shared regions", Count, |g| g.contents.shared;
    "zero", "entries of the zero page", Count, |g| g.contents.zero;
    "special", "the kernel's pages and devices'", Count, |g| g.contents.special;
    "rss", "memory charged to the processes", Bytes, |g| g.resident_bytes;
    "pss", "the processes' share of it", Bytes, |g| g.proportional_bytes;
    "tables", "page tables of all levels, as the kernel counts them", Bytes, |g| g.table_bytes;
    "active", "entries used in the interval", SomeCount, |g| Some(g.entries.active?.total);
    "active-frames", "1 if it is known which frames were used, 0 if only how many of each region",
        SomeCount, |g| Some(f64::from(u8::from(g.entries.active?.by == Watched::Frames)));
    "active-least", "of those, shareable at least", SomeCount,
        |g| Some(g.entries.active?.shareable_low);
    "active-most", "of those, shareable at most", SomeCount,
        |g| Some(g.entries.active?.shareable_high);
    "active-once", "about as many left if each is kept once", SomeCount,
        |g| Some(g.entries.active?.once);
    "code", "pages of code in memory", Count, |g| g.code.pages.total();
    "code-preloaded", "of those, of libraries that the tree's first process has", Count,
        |g| g.code.pages.preloaded;
    "code-loaded", "of other libraries", Count, |g| g.code.pages.loaded;
    "code-program", "of the main program", Count, |g| g.code.pages.program;
    "code-generated", "made at run time", Count, |g| g.code.pages.generated;
    "code-used", "pages of code used in the interval", SomeCount, |g| Some(g.code.used?.total());
    "overlap%", "percent of its code that another process has, on average", Percent,
        |g| g.code.overlap.mean_all;
    "overlap-preloaded%", "of that, preloaded", Percent, |g| g.code.overlap.mean_preloaded;
    "samples-user", "samples outside of the kernel", SomeCount, |g| Some(g.code.sampled?.user());
    "samples-kernel", "samples in the kernel", SomeCount,
        |g| Some(g.code.sampled?.kernel as f64);
    "samples-preloaded", "samples in preloaded libraries", SomeCount,
        |g| Some(g.code.sampled?.instructions.preloaded);
    "samples-loaded", "samples in other libraries", SomeCount,
        |g| Some(g.code.sampled?.instructions.loaded);
    "samples-program", "samples in the main program", SomeCount,
        |g| Some(g.code.sampled?.instructions.program);
    "samples-generated", "samples in code made at run time", SomeCount,
        |g| Some(g.code.sampled?.instructions.generated);
    "samples-pages", "pages of code with at least one", SomeCount,
        |g| Some(g.code.sampled?.pages.total());
    "full-64k%", "how full pages of 64 KB would be", SomePercent, |g| g.full(|fill| &fill.small);
    "waste-64k", "memory that pages of 64 KB would take beyond what is used", Bytes,
        |g| g.windows(|fill| fill.small.wasted_bytes);
    "spared-64k", "entries that they would spare", Count,
        |g| g.windows(|fill| fill.small.entries_saved);
    "full-2m%", "how full pages of 2 MB would be", SomePercent, |g| g.full(|fill| &fill.large);
    "waste-2m", "memory that pages of 2 MB would take beyond what is used", Bytes,
        |g| g.windows(|fill| fill.large.wasted_bytes);
    "spared-2m", "entries that they would spare", Count,
        |g| g.windows(|fill| fill.large.entries_saved);
    "merge-read", "anonymous pages whose contents were read (--content)", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.mergeable as f64);
    "merge-equal", "of those, equal to a page in another frame", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.equal as f64);
    "merge-same-page", "of those, with a copy at the same virtual page", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.same_address as f64);
    "merge-zeros", "equal pages that are zeros", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.zeros as f64);
    "merge-changed", "pages that changed while they were compared", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.changed as f64);
    "merge-unreadable", "anonymous pages that could not be read", SomeCount,
        |g| Some(g.merging.as_ref()?.pages.unreadable as f64);
    "merge-frees", "memory that merging would free, of all processes", SomeBytes,
        |g| g.merging.as_ref()?.freed_bytes;
    "merge-profile", "virtual pages that are likely to merge, of the one program", SomeCount,
        |g| Some(g.merging.as_ref()?.program.as_ref()?.profile as f64);
    "merge-skipped%", "what a scan by this profile would skip", SomePercent,
        |g| Some(g.merging.as_ref()?.program.as_ref()?.skipped_percent);
    "merge-in-vain%", "what a common profile would scan in vain", SomePercent,
        |g| Some(g.merging.as_ref()?.program.as_ref()?.false_positive_percent);
    "merge-stability", "how alike the profile was from look to look (Jaccard)", SomeCount,
        |g| g.merging.as_ref()?.stability;
}

/// The columns shown when none are named.
const DEFAULT: &[&str] = &[
    "group",
    "procs",
    "entries",
    "shareable",
    "huge",
    "once",
    "dup%",
    "ptps",
    "left",
    "saves",
];

/// The column of a name, or an error that lists all.
pub fn column(name: &str) -> Result<&'static Column> {
    match COLUMNS.iter().find(|column| column.name == name) {
        Some(column) => Ok(column),
        None => bail!("there is no column {name}; there are:\n{}", help()),
    }
}

/// All columns and what they hold.
pub fn help() -> String {
    COLUMNS
        .iter()
        .map(|column| format!("  {:18} {}\n", column.name, column.help))
        .collect()
}

/// The columns that are wanted.
pub fn columns(show: &Show) -> Result<Vec<&'static Column>> {
    if show.columns.is_empty() {
        return DEFAULT.iter().map(|name| column(name)).collect();
    }
    show.columns.iter().map(|name| column(name)).collect()
}

/// Sorts groups as asked: largest first, names from A on.
pub fn sort(groups: &mut [GroupReport], show: &Show) -> Result<()> {
    let column = column(&show.sort)?;
    groups.sort_by(|a, b| {
        let order = match ((column.value)(a), (column.value)(b)) {
            (Value::Text(a), Value::Text(b)) => a.cmp(&b),
            (a, b) => amount(&b).total_cmp(&amount(&a)),
        };
        if show.reverse { order.reverse() } else { order }
    });
    Ok(())
}

fn amount(value: &Value) -> f64 {
    match value {
        Value::None | Value::Text(_) => 0.0,
        Value::Count(value) | Value::Percent(value) => *value,
        Value::Bytes(bytes) => *bytes as f64,
    }
}

/// The table of groups.
pub fn groups(report: &Report, show: &Show) -> Result<String> {
    let columns = columns(show)?;
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    table.set_header(columns.iter().map(|column| {
        match ((column.value)(&report.total), show.units) {
            (Value::Bytes(_), false) => format!("{} kB", column.name),
            _ => column.name.to_string(),
        }
    }));
    for group in report.groups.iter().take(show.rows) {
        table.add_row(
            columns
                .iter()
                .map(|column| cell((column.value)(group), show.units)),
        );
    }
    if show.totals {
        table.add_row(
            columns
                .iter()
                .map(|column| cell((column.value)(&report.total), show.units)),
        );
    }
    for (place, column) in columns.iter().enumerate() {
        if let (Some(shown), false) = (
            table.column_mut(place),
            matches!((column.value)(&report.total), Value::Text(_)),
        ) {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if report.groups.len() > show.rows {
        text.push_str(&format!(
            " and {} more groups: -n shows more\n",
            report.groups.len() - show.rows
        ));
    }
    Ok(text)
}

/// What a cell shows.
pub fn cell(value: Value, units: bool) -> String {
    match value {
        Value::None => "-".into(),
        Value::Text(text) => shorten(&text, NAME),
        Value::Count(count) => number(count),
        Value::Bytes(bytes) if units => size(bytes),
        Value::Bytes(bytes) => number((bytes / 1024) as f64),
        Value::Percent(percent) => format!("{percent:.1}"),
    }
}

/// Cuts a long name in its middle: a path's two ends say most. Control characters of a process's
/// name do not reach the terminal.
pub fn shorten(text: &str, width: usize) -> String {
    let clean: Vec<char> = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    let head: String = clean[..width / 3].iter().collect();
    let tail: String = clean[clean.len() - (width - width / 3 - 1)..]
        .iter()
        .collect();
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
    fn default_columns_are_there_and_names_differ() {
        for name in DEFAULT {
            column(name).unwrap();
        }
        let mut names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
        assert!(column("nope").is_err_and(|error| error.to_string().contains("shareable")));
    }

    #[test]
    fn sizes_and_names_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4096), "4.0 KB");
        assert_eq!(size(300 << 20), "300 MB");
        let long = shorten("/usr/lib/postgresql/17/bin/a-very-long-program", NAME);
        assert!(long.chars().count() == NAME && long.ends_with("program"));
        assert_eq!(shorten("a\x1b[2J", NAME), "a?[2J");
    }
}
