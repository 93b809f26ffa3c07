// SPDX-License-Identifier: GPL-2.0-or-later
//! The rooms of this crate: each imports only from those above it in [`ORDER`].

use std::path::{Path, PathBuf};

/// Rooms from the one that imports nothing to the one that may import all.
const ORDER: &[&str] = &[
    "output",
    "show",
    "variation",
    "run",
    "scan",
    "top",
    "lab::host",
    "lab::arch",
    "lab::kernel",
    "lab::guest",
    "lab::package",
    "lab::experiment",
    "lab::profile",
    "lab::trace",
    "lab::check",
    "lab::send",
    "lab::cli",
    "manual",
];
/// Pairs that must not import each other though the order would allow one direction.
const APART: &[(&str, &str)] = &[
    ("lab", "scan"),
    ("lab", "top"),
    ("scan", "run"),
    ("scan", "lab"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            found.push(path);
        }
    }
}

/// The room of a path such as `lab::host::files`; None for `lab::Lab`, which all of the lab uses.
fn room(path: &str) -> Option<usize> {
    ORDER
        .iter()
        .position(|room| path == *room || path.starts_with(&format!("{room}::")))
}

/// What a file imports from this crate, by `crate::` in code; a test at its end counts too.
fn imports(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        paths("", rest, &mut found);
    }
    found
}

/// Adds the paths at the beginning of `text`, each behind `before`: `a::{b, c::D}` is two. Returns
/// the text behind them.
fn paths<'a>(before: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let (name, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let path = format!("{before}{name}");
    if !rest.starts_with('{') || !(path.is_empty() || path.ends_with("::")) {
        found.push(path.trim_end_matches("::").to_string());
        return rest;
    }
    while let Some(list) = rest.strip_prefix(['{', ',']) {
        let item = list.trim_start();
        rest = item;
        if !item.starts_with('}') {
            rest = paths(&path, item, found).trim_start();
        }
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// Every import of `text`, a file of the room `own`, that the order forbids.
fn forbidden(own: &str, text: &str) -> Vec<String> {
    let top = |path: &str| path.split("::").next().unwrap_or_default().to_string();
    imports(text)
        .into_iter()
        .filter(|path| {
            let up = match (room(own), room(path)) {
                (Some(own), Some(other)) => other > own,
                _ => false,
            };
            up || APART.contains(&(top(own).as_str(), top(path).as_str()))
        })
        .collect()
}

#[test]
fn no_import_runs_back_up() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut rooms = std::collections::BTreeSet::new();
    for file in &files {
        let own = file.strip_prefix(&src).unwrap().with_extension("");
        let own = own.to_string_lossy().replace('/', "::");
        rooms.extend(room(&own));
        let text = std::fs::read_to_string(file).unwrap();
        let wrong = forbidden(&own, &text);
        assert!(wrong.is_empty(), "{} imports {wrong:?}", file.display());
    }
    assert_eq!(rooms.len(), ORDER.len(), "a room of ORDER has no file");
}

#[test]
fn an_import_of_a_later_room_is_found() {
    let up = "use crate::lab::check::soak;\n";
    assert_eq!(forbidden("lab::guest::run", up), ["lab::check::soak"]);
    assert!(forbidden("lab::cli", up).is_empty());
    assert!(
        forbidden(
            "lab::guest::run",
            "use crate::lab::Lab;\n// crate::lab::cli\n"
        )
        .is_empty()
    );
    assert_eq!(
        forbidden("scan::html", "let x = crate::lab::Lab;"),
        ["lab::Lab"]
    );
    let list = "use crate::{\n    lab::{Lab, check::{soak, fuzz::log}},\n    show::X,\n};\n";
    assert_eq!(
        forbidden("lab::guest::run", list),
        ["lab::check::soak", "lab::check::fuzz::log"]
    );
}
