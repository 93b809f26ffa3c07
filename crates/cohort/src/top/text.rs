// SPDX-License-Identifier: GPL-2.0-or-later
//! A frame as text.

use super::frame::{Frame, Group, Process};
use crate::scan::cell::{clean, count, plural, shorten, size};
use crate::scan::part::{lines, widths};
use crate::show::wrap;

/// Most letters of a user's and of a group's name.
const NAME: usize = 14;
/// A command is not made narrower than this.
const COMMAND: usize = 10;
/// Columns of the table of processes.
const COLUMNS: [&str; 11] = [
    "PID",
    "user",
    "group",
    "cohort",
    "shared",
    "owned",
    "saved",
    "open",
    "PMD",
    "borrowed kB",
    "command",
];
/// Those that hold words, or numbers that are names.
const TEXTS: [&str; 3] = ["user", "group", "command"];
/// Those that are left out first where the terminal is narrow.
const SPARE: [&str; 5] = ["PMD", "owned", "open", "user", "cohort"];

/// The frame in `width` columns: the head, and the tables of groups and of processes that are
/// wanted, with at most `rows` rows each.
pub fn frame(
    frame: &Frame,
    (groups, processes): (bool, bool),
    rows: usize,
    width: usize,
) -> String {
    let mut text = String::new();
    for line in head(frame) {
        text.push_str(&(wrap(&line, width).join("\n") + "\n"));
    }
    if frame.processes.is_empty() {
        let none = "No process is in a cohort or in a group; `cohort run -- CMD` starts one.";
        text.push_str(&(wrap(none, width).join("\n") + "\n"));
        return text;
    }
    if groups {
        text.push_str(&("\n".to_string() + &of_groups(&frame.groups, rows, width)));
        text.push_str(&more(frame.groups.len(), rows, "row", "rows"));
    }
    if processes {
        text.push_str(&("\n".to_string() + &of_processes(&frame.processes, rows, width)));
        text.push_str(&more(frame.processes.len(), rows, "process", "processes"));
    }
    text
}

/// Settings, what is shared now, what has happened, and who could not be read.
fn head(frame: &Frame) -> Vec<String> {
    let mode = |mode: &Option<String>, none: &str| mode.as_deref().unwrap_or(none).to_string();
    let total = &frame.total;
    let mut head = vec![
        format!(
            "Modes: fork {}, join {}. In cohorts or groups: {}, {} of them with shared tables.",
            mode(&frame.modes.fork, "not known"),
            mode(&frame.modes.join, "not in this kernel"),
            plural(total.processes, "process", "processes"),
            count(total.sharing as u64),
        ),
        format!(
            "Now: {} with {}; saved: {}, {}.",
            plural(total.tables as usize, "shared table", "shared tables"),
            plural(total.shared as usize, "use", "uses"),
            tables(total.saved),
            size(total.saved_bytes),
        ),
        events(frame),
    ];
    if frame.refused > 0 {
        // SAFETY: no memory is involved.
        let cure = match unsafe { libc::geteuid() } {
            0 => "this root lacks CAP_SYS_PTRACE, or is of another user namespace",
            _ => "run as root",
        };
        head.push(format!(
            "{} could not be read: {cure}.",
            plural(frame.refused, "process", "processes")
        ));
    }
    if let Some(why) = &frame.why {
        head.push(format!(
            "{} could not be read: {}.",
            plural(frame.unreadable - frame.refused, "process", "processes"),
            clean(why)
        ));
    }
    head
}

fn tables(number: u64) -> String {
    plural(number as usize, "table", "tables")
}

/// What has happened. Events that the kernel does not count are left out.
fn events(frame: &Frame) -> String {
    let event = |name: &str| frame.events.get(&format!("cohort_{name}")).copied();
    let mut said = Vec::new();
    if let Some(shared) = event("ptp_shared") {
        said.push(format!("{} shared at fork", tables(shared)));
    }
    if let Some(joined) = event("ptp_joined") {
        said.push(format!("{} joined", count(joined)));
    }
    let causes = ["fault", "map", "unmap", "change"]
        .map(|cause| (cause, event(&format!("ptp_unshared_{cause}")).unwrap_or(0)));
    let unshared = causes.iter().map(|(_, number)| number).sum();
    let causes = causes.map(|(cause, number)| format!("{cause} {}", count(number)));
    said.push(format!(
        "{} unshared ({})",
        count(unshared),
        causes.join(", ")
    ));
    for (name, what) in [("ptp_left", "left"), ("fault_filled", "entries filled")] {
        if let Some(number) = event(name) {
            said.push(format!("{} {what}", count(number)));
        }
    }
    let when = match frame.seconds {
        Some(seconds) => format!("In the last {seconds:.1} s"),
        None => "Since boot".into(),
    };
    format!("{when}: {}.", said.join(", "))
}

fn of_groups(groups: &[Group], rows: usize, width: usize) -> String {
    let heading = [
        "group or cohort",
        "processes",
        "cohorts",
        "tables",
        "saved",
        "saved kB",
        "PMD",
        "borrowed kB",
    ];
    let cells = groups.iter().take(rows).map(|group| {
        let sums = &group.sums;
        vec![
            label(group),
            count(sums.processes as u64),
            count(sums.cohorts as u64),
            count(sums.tables),
            count(sums.saved),
            count(sums.saved_bytes / 1024),
            count(sums.pmd),
            count(sums.borrowed_bytes / 1024),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    lines(&heading.map(String::from), &cells, &[0], width)
}

/// A group's name and number.
fn label(group: &Group) -> String {
    let number = match (group.group, group.cohort) {
        (Some(number), _) => format!("group {number}"),
        (_, Some(number)) => format!("cohort {number}"),
        _ => "in none".into(),
    };
    match group.name.as_str() {
        "" => number,
        name => format!("{name} ({number})"),
    }
}

fn of_processes(processes: &[Process], rows: usize, width: usize) -> String {
    let mut hidden = Vec::new();
    // A kernel without groups has no figures for them.
    if processes.iter().all(|process| process.group.is_none()) {
        hidden.push("group");
    }
    if processes.iter().all(|process| process.open.is_none()) {
        hidden.push("open");
    }
    let mut spare = SPARE.iter();
    loop {
        let pick = |cells: [String; COLUMNS.len()]| -> Vec<String> {
            let named = COLUMNS.iter().zip(cells);
            named
                .filter(|(name, _)| !hidden.contains(*name))
                .map(|(_, cell)| cell)
                .collect()
        };
        let heading = pick(COLUMNS.map(String::from));
        let shown = processes.iter().take(rows);
        let mut cells: Vec<Vec<String>> = shown.map(|process| pick(row(process))).collect();
        let last = heading.len() - 1;
        let widths = &widths(&heading, &cells)[..last];
        let others: usize = widths.iter().map(|width| width + 1).sum();
        if others + COMMAND > width
            && let Some(name) = spare.next()
        {
            hidden.push(name);
            continue;
        }
        // The command has what the others leave.
        for row in &mut cells {
            row[last] = shorten(&row[last], width.saturating_sub(others).max(COMMAND));
        }
        let texts: Vec<usize> = (0..=last)
            .filter(|&column| TEXTS.contains(&heading[column].as_str()))
            .collect();
        return lines(&heading, &cells, &texts, width);
    }
}

/// A cell for each of [`COLUMNS`].
fn row(process: &Process) -> [String; COLUMNS.len()] {
    let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let group = match process.group_name.as_str() {
        "" => number(process.group.filter(|&group| group > 0)),
        name => shorten(name, NAME),
    };
    let command = match process.command.as_str() {
        "" => &process.name,
        command => command,
    };
    [
        process.pid.to_string(),
        shorten(&process.user, NAME),
        group,
        number(Some(process.cohort).filter(|&cohort| cohort > 0)),
        count(process.shared),
        count(process.owned),
        count(process.saved),
        process.open.map_or("-".into(), count),
        count(process.pmd),
        count(process.borrowed_bytes / 1024),
        command.to_string(),
    ]
}

/// A line about the rows that are not shown.
fn more(all: usize, rows: usize, one: &str, many: &str) -> String {
    match all.saturating_sub(rows) {
        0 => String::new(),
        left => format!(
            "and {} more: --lines or a taller terminal shows them\n",
            plural(left, one, many)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Modes;
    use super::super::frame::tests::{member, reading};
    use super::*;
    use cohort_snapshot::model::sharing::Sharing;

    fn sharing() -> Sharing {
        Sharing {
            cohort: 12,
            shared_tables: 9,
            owned_tables: 4,
            ..Sharing::default()
        }
    }

    fn shown(members: Vec<(&str, Sharing)>, rows: usize, width: usize) -> String {
        let pids = 10..;
        let members = pids
            .zip(members)
            .map(|(pid, (name, sharing))| member(pid, name, sharing))
            .collect();
        let now = reading(members, &[("cohort_ptp_shared", 7)]);
        frame(
            &Frame::new(&now, None, Modes::default()),
            (true, true),
            rows,
            width,
        )
    }

    #[test]
    fn no_line_is_wider_than_asked_whatever_names_there_are() {
        let name = "a-name-of-32-letters-and-with-\x1b[2J";
        let wide = Sharing {
            cohort: 1_234_567_890,
            group: Some(1_234_567),
            group_name: name.into(),
            shared_tables: 12_345_678,
            open_tables: Some(123_456),
            borrowed: 123_456_789 << 10,
            ..Sharing::default()
        };
        for width in [80, 100, 200] {
            let text = shown(vec![(name, wide.clone())], 20, width);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest.unwrap() <= width, "{width}: {text}");
            assert!(!text.contains('\x1b'), "{text}");
            for number in ["12,345,678", "123,456,789", "1234567890"] {
                assert!(text.contains(number), "{number}: {text}");
            }
            assert_eq!(text.contains("owned"), width > 80, "{width}: {text}");
        }
    }

    #[test]
    fn a_kernel_without_groups_has_no_columns_for_them() {
        let text = shown(vec![("a", sharing())], 20, 100);
        assert!(text.contains("join not in this kernel"), "{text}");
        assert!(!text.contains("open") && text.contains("owned"), "{text}");
        assert!(!text.contains("joined"), "{text}");
        let groups = Sharing {
            group: Some(0),
            open_tables: Some(1),
            ..sharing()
        };
        let text = shown(vec![("a", groups)], 20, 100);
        assert!(text.contains("open"), "{text}");
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let text = shown(vec![("a", sharing()), ("b", sharing())], 1, 100);
        assert!(text.contains("and 1 process more"), "{text}");
        assert_eq!(text.matches("--lines").count(), 1, "{text}");
    }

    #[test]
    fn a_machine_where_nobody_shares_says_how_to_begin() {
        let text = shown(vec![], 20, 100);
        assert!(text.contains("cohort run -- CMD"), "{text}");
        assert!(text.contains("Since boot: 7 tables shared"), "{text}");
    }
}
