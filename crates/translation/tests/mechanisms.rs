// SPDX-License-Identifier: GPL-2.0-or-later
//! A mechanism is one file, and one line in the list of `mod.rs`.

use std::path::{Path, PathBuf};

/// Mechanisms that nothing else in the crate knows. (BabelFish and domains have counters that the
/// report had before there were mechanisms.)
const ALONE: [&str; 4] = ["victim", "tlb_prefetch", "next_line", "unified_walk_cache"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list.extend(sources(&path));
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            list.push(path);
        }
    }
    list
}

#[test]
fn a_mechanism_is_one_file_and_one_line() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src);
    for name in ALONE {
        let own = src.join(format!("tlb/mechanism/{name}.rs"));
        assert!(files.contains(&own), "{}", own.display());
        let mut lines = Vec::new();
        for file in files.iter().filter(|file| **file != own) {
            let text = std::fs::read_to_string(file).unwrap();
            let entry = format!("{name}: {name},");
            let says = |line: &&str| line.contains(&entry) || line.contains(&format!("{name}::"));
            lines.extend(text.lines().filter(says).map(str::to_owned));
        }
        assert_eq!(lines.len(), 1, "{name}: {lines:#?}");
    }
}
