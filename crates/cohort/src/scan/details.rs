// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything about one group, as text: one part a question.

use super::report::{ContentReport, GroupReport, Report};
use super::table::{shorten, size};
use crate::show::number;
use cohort_snapshot::count::code::Sampled;
use cohort_snapshot::count::entries::Watched;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A titled table for people: what all forms with text are made of.
pub struct Part {
    pub title: String,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Part {
    fn new(title: &str, heading: &[&str]) -> Part {
        Part {
            title: title.into(),
            heading: heading.iter().map(|cell| cell.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    fn row(&mut self, label: &str, cells: &[String]) {
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

/// All parts about a group.
pub fn parts(report: &Report, group: &GroupReport) -> Vec<Part> {
    let mut parts = vec![
        entries(group),
        contents(report, group),
        ptps(report, group),
        fork(group),
    ];
    if group.code.pages.total() > 0.0 {
        parts.push(code(group));
    }
    if let Some(sampled) = &group.code.sampled {
        parts.push(samples(sampled));
    }
    if group.code.overlap.processes.len() > 1 {
        parts.push(overlap(group));
    }
    if !group.larger_pages.is_empty() {
        parts.push(fill(group));
        parts.push(regions(group));
    }
    if let Some(found) = &report.content {
        parts.extend(content(report, found));
    }
    parts
}

/// Pages equal in content.
fn content(report: &Report, found: &ContentReport) -> Vec<Part> {
    let last = &found.last;
    let mut equal = Part::new("Pages equal in content", &["", "pages", "%"]);
    for (label, value) in [
        ("anonymous pages that were read", last.mergeable),
        ("equal to a page in another frame", last.equal),
        (
            "of those, with a copy at the same virtual page",
            last.same_address,
        ),
        ("of those, zeros", last.zeros),
        ("changed while they were compared", last.changed),
        ("could not be read", last.unreadable),
    ] {
        equal.row(
            label,
            &[count(value), percent(value as f64, last.mergeable as f64)],
        );
    }
    let freed = last.frames_saved * report.page_bytes;
    equal.row(
        "memory that merging would free",
        &[size(freed), String::new()],
    );
    for (kind, pages) in &last.kinds {
        let cells = [count(*pages), percent(*pages as f64, last.mergeable as f64)];
        equal.row(&format!("equal pages in {}", kind.label()), &cells);
    }
    let heading = [
        "",
        "mergeable",
        "profile",
        "skipped %",
        "in vain %",
        "stability",
    ];
    let mut programs = Part::new(
        "Virtual pages that are likely to merge, by program",
        &heading,
    );
    for program in last.programs.iter().take(12) {
        let stability = found
            .stability_of(&program.name)
            .map_or("-".into(), |alike| format!("{alike:.2}"));
        programs.row(
            &shorten(&program.name, 26),
            &[
                count(program.mergeable),
                count(program.profile),
                format!("{:.1}", program.skipped_percent),
                format!("{:.1}", program.false_positive_percent),
                stability,
            ],
        );
    }
    let mut alike = Part::new(
        "Programs with the most alike profiles",
        &["", "and", "similarity"],
    );
    let mut pairs: Vec<_> = found.similarity.iter().collect();
    pairs.sort_by(|a, b| b.2.total_cmp(&a.2));
    for (one, other, similarity) in pairs.into_iter().take(8) {
        alike.row(
            &shorten(one, 40),
            &[shorten(other, 40), format!("{similarity:.2}")],
        );
    }
    vec![equal, programs, alike]
}

fn count(value: u64) -> String {
    number(value as f64)
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.1}", 100.0 * part / whole.max(1.0))
}

fn entries(group: &GroupReport) -> Part {
    let entries = &group.entries;
    let mut part = Part::new("Entries (BabelFish, Figure 9)", &["", "entries", "%"]);
    let total = entries.total as f64;
    for (label, value) in [
        ("shareable", entries.classes.shareable),
        ("unshareable", entries.classes.unshareable),
        ("huge", entries.classes.huge),
        ("in swap", entries.classes.swapped),
        ("unknown, as frames are hidden", entries.classes.unknown),
        ("total", entries.total),
        ("left if each is kept once", entries.once),
    ] {
        part.row(label, &[count(value), percent(value as f64, total)]);
    }
    if let Some(active) = &entries.active {
        let label = match active.by {
            Watched::Frames => "active, known frame by frame",
            Watched::Regions => "active, known region by region",
        };
        for (label, value) in [
            (label, active.total),
            ("active and shareable, at least", active.shareable_low),
            ("active and shareable, at most", active.shareable_high),
            ("active, about, if each is kept once", active.once),
        ] {
            part.row(label, &[number(value.round()), percent(value, total)]);
        }
    }
    part
}

fn contents(report: &Report, group: &GroupReport) -> Part {
    let contents = &group.contents;
    let mut part = Part::new("What entries map", &["", "entries", "%"]);
    for (label, value) in [
        ("private memory", contents.private),
        ("to be copied when written", contents.cow),
        ("merged", contents.ksm),
        ("files", contents.file),
        ("shared memory", contents.shared),
        ("the zero page", contents.zero),
        ("the kernel's and devices'", contents.special),
        ("swap", contents.swapped),
        ("huge pages", contents.huge),
    ] {
        if value > 0 {
            part.row(
                label,
                &[count(value), percent(value as f64, contents.total() as f64)],
            );
        }
    }
    let page = report.page_bytes;
    part.row(
        "memory charged",
        &[size(group.resident_bytes), String::new()],
    );
    part.row(
        "its proportional share",
        &[size(group.proportional_bytes), String::new()],
    );
    part.row("bytes in a page", &[count(page), String::new()]);
    part
}

fn ptps(report: &Report, group: &GroupReport) -> Part {
    let ptps = &group.ptps.counts;
    let mut part = Part::new(
        "Last-level page tables",
        &["", "tables", "equal to another's", "left", "saved"],
    );
    let row = |tables: u64, same: String, left: u64, saved: u64| {
        [count(tables), same, count(left), size(saved)]
    };
    part.row(
        "as they are",
        &row(
            ptps.tables,
            count(ptps.identical),
            ptps.distinct,
            group.ptps.identical_bytes,
        ),
    );
    part.row(
        &format!(
            "with code and data apart at {} MB",
            (report.page_bytes * report.page_bytes / 8) >> 20
        ),
        &row(
            ptps.apart,
            count(ptps.apart_identical),
            ptps.apart_distinct,
            group.ptps.apart_bytes,
        ),
    );
    part.row(
        "forked by Cohort's kernel",
        &row(ptps.tables, "-".into(), ptps.kept, group.ptps.saved_bytes),
    );
    part.row(
        "and all touched before the first fork",
        &row(
            ptps.tables,
            "-".into(),
            ptps.lineages,
            group.ptps.touched_bytes,
        ),
    );
    if ptps.uppers_saved > 0 {
        let saved = size(ptps.uppers_saved * report.page_bytes);
        let cells = [String::new(), String::new(), String::new(), saved];
        part.row("of that, tables of the level above", &cells);
    }
    part
}

fn fork(group: &GroupReport) -> Part {
    let mut part = Part::new("If each process forked once", &["", "sum", "a process"]);
    let each = |sum: u64| number((sum as f64 / group.processes.max(1) as f64).round());
    for (label, value) in [
        ("entries that stock fork copies", group.fork.copied),
        ("entries that it leaves out", group.fork.left),
        (
            "faults to get those back, at most",
            group.fork.faults_avoided,
        ),
        (
            "faults that they had been spared already",
            group.fork.faults_saved,
        ),
    ] {
        part.row(label, &[count(value), each(value)]);
    }
    part
}

fn code(group: &GroupReport) -> Part {
    let code = &group.code;
    let mut heading = vec!["", "pages", "%"];
    if code.used.is_some() {
        heading.extend(["used", "% of used"]);
    }
    let mut part = Part::new("Pages of code (EuroSys'16, Figure 2)", &heading);
    let used = code.used.unwrap_or_default();
    for (label, pages, active) in [
        ("preloaded libraries", code.pages.preloaded, used.preloaded),
        ("other libraries", code.pages.loaded, used.loaded),
        ("main program", code.pages.program, used.program),
        ("made at run time", code.pages.generated, used.generated),
    ] {
        let mut cells = vec![number(pages), percent(pages, code.pages.total())];
        if code.used.is_some() {
            cells.extend([number(active), percent(active, used.total())]);
        }
        part.row(label, &cells);
    }
    part
}

fn samples(sampled: &Sampled) -> Part {
    let mut part = Part::new(
        "Samples of the processors (EuroSys'16, Table 1, Figures 2 and 3)",
        &["", "samples", "%", "pages", "%"],
    );
    let user = sampled.user();
    let (kernel, elsewhere) = (sampled.kernel as f64, sampled.elsewhere as f64);
    for (label, samples) in [("user", user), ("kernel", kernel)] {
        let share = percent(samples, user + kernel);
        part.row(
            label,
            &[number(samples), share, String::new(), String::new()],
        );
    }
    let (samples, pages) = (sampled.instructions, sampled.pages);
    for (label, samples, pages) in [
        (
            "preloaded libraries",
            samples.preloaded,
            Some(pages.preloaded),
        ),
        ("other libraries", samples.loaded, Some(pages.loaded)),
        ("main program", samples.program, Some(pages.program)),
        ("made at run time", samples.generated, Some(pages.generated)),
        ("elsewhere", elsewhere, None),
    ] {
        let in_pages = pages.map_or([String::new(), String::new()], |pages| {
            [number(pages), percent(pages, sampled.pages.total())]
        });
        let [count, share] = in_pages;
        part.row(
            &format!("user: {label}"),
            &[number(samples), percent(samples, user), count, share],
        );
    }
    part
}

fn overlap(group: &GroupReport) -> Part {
    let overlap = &group.code.overlap;
    let title = format!(
        "% of the row's code that the column has: preloaded (all); mean {:.1} ({:.1}) (EuroSys'16, \
         Table 2)",
        overlap.mean_preloaded, overlap.mean_all
    );
    let columns = overlap.processes.len().min(5);
    let mut part = Part::new(&title, &[""]);
    let pid = |name: &str| {
        let pid = name.rsplit('(').next().unwrap_or(name);
        pid.trim_end_matches(')').to_string()
    };
    part.heading
        .extend(overlap.processes[..columns].iter().map(|name| pid(name)));
    for (row, (name, cells)) in overlap.processes.iter().zip(&overlap.percent).enumerate() {
        let cells: Vec<String> = cells[..columns]
            .iter()
            .enumerate()
            .map(|(column, (preloaded, all))| match column == row {
                true => "-".into(),
                false => format!("{preloaded:.1} ({all:.1})"),
            })
            .collect();
        part.row(&shorten(name, 18), &cells);
    }
    part
}

/// What `windows` gives, behind the name of what it is about.
const WINDOW_COLUMNS: [&str; 8] = [
    "",
    "pages",
    "64 KB full %",
    "waste",
    "entries saved",
    "2 MB full %",
    "waste",
    "saved",
];

fn fill(group: &GroupReport) -> Part {
    let mut part = Part::new(
        "Larger pages, by kind of region (EuroSys'16, Figure 4)",
        &WINDOW_COLUMNS,
    );
    for kind in &group.larger_pages {
        part.row(kind.kind.label(), &windows(&kind.small, &kind.large));
    }
    part
}

fn regions(group: &GroupReport) -> Part {
    let mut part = Part::new("Larger pages, the regions with most pages", &WINDOW_COLUMNS);
    for region in group.regions.iter().take(10) {
        let name = match region.path.as_str() {
            "" => format!("[{}]", region.kind.label()),
            path => path.to_string(),
        };
        part.row(&shorten(&name, 20), &windows(&region.small, &region.large));
    }
    part
}

fn windows(small: &super::sections::Windows, large: &super::sections::Windows) -> Vec<String> {
    vec![
        count(small.pages),
        format!("{:.0}", small.full_percent),
        size(small.wasted_bytes),
        count(small.entries_saved),
        format!("{:.0}", large.full_percent),
        size(large.wasted_bytes),
        count(large.entries_saved),
    ]
}
