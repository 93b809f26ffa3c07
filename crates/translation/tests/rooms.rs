// SPDX-License-Identifier: GPL-2.0-or-later
//! No circle of imports: a room (a file or folder of `src`) never reaches itself through `use`.
//!
//! The check reads the source of the crate that compiles this file. Another crate gets it with a
//! test file that takes it as a module: `#[path = "../../translation/tests/rooms.rs"] mod rooms;`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The Rust files in a folder and below it, but for unit tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| !path.ends_with("tests"));
    let (folders, mut files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| self::files(folder)));
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    files
}

/// The room of a file; the crate's root is not one.
fn room(src: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(src).unwrap();
    let first = Path::new(inside.iter().next()?);
    let name = first.file_stem()?.to_str()?.to_owned();
    (name != "lib" && name != "main").then_some(name)
}

/// Which rooms each room names in a `crate::` path, comments and its unit tests aside.
fn imports(src: &Path) -> Imports {
    let mut all = Imports::new();
    for file in files(src) {
        let Some(from) = room(src, &file) else {
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join(" ");
        let to = all.entry(from).or_default();
        for path in code.split("crate::").skip(1) {
            // `crate::{a::X, b::Y}` names a room at each start of an item of the list.
            let list = path
                .strip_prefix('{')
                .and_then(|list| list.split(';').next());
            let items = list
                .unwrap_or(path)
                .split(if list.is_some() { ',' } else { '\n' });
            to.extend(items.filter_map(|item| {
                let mut names = item
                    .trim()
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'));
                names.next().map(str::to_owned)
            }));
        }
    }
    all
}

/// The rooms that reach themselves.
fn in_circles(imports: &Imports) -> Vec<&String> {
    let reaches_itself = |start: &&String| {
        let mut seen = BTreeSet::new();
        let mut next = vec![*start];
        while let Some(room) = next.pop() {
            for to in imports.get(room).into_iter().flatten() {
                if to == *start && room != to {
                    return true;
                }
                if seen.insert(to) {
                    next.push(to);
                }
            }
        }
        false
    };
    imports.keys().filter(reaches_itself).collect()
}

#[test]
fn no_room_imports_itself_through_others() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let imports = imports(&src);
    assert!(imports.len() > 1, "no rooms in {}", src.display());
    let circle = in_circles(&imports);
    assert!(
        circle.is_empty(),
        "circles run through {circle:?} of {imports:#?}"
    );
}
