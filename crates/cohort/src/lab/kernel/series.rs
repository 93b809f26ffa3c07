// SPDX-License-Identifier: GPL-2.0-or-later
//! The hooks: which files a patch touches, and applying the series to copies of them.

use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The patches of `hooks/series`, in order. No directory or series means no patches.
pub fn read_series(hooks: &Path) -> Result<Vec<PathBuf>> {
    let series = hooks.join("series");
    if !series.exists() {
        return Ok(Vec::new());
    }
    let mut patches = Vec::new();
    for line in files::read(&series)?.lines() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let patch = hooks.join(name);
        if !patch.is_file() {
            bail!(
                "{} names {name}, which is not there: add the patch or remove the line",
                series.display()
            );
        }
        patches.push(patch);
    }
    Ok(patches)
}

/// A file that a patch changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Touched {
    /// Its path in the tree.
    pub path: String,
    /// The patch creates it.
    pub new: bool,
}

/// The files that a patch touches, from its `---`/`+++` lines.
pub fn touched(patch: &str) -> Vec<Touched> {
    let mut found: Vec<Touched> = Vec::new();
    let mut old = None;
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("--- ") {
            old = Some(name);
        } else if let (Some(name), Some(before)) = (line.strip_prefix("+++ "), old.take()) {
            let is_null = |name: &str| name.split('\t').next() == Some("/dev/null");
            let path = if is_null(name) { before } else { name };
            let path = path.split('\t').next().unwrap_or(path).trim();
            if let Some((_, path)) = path.split_once('/') {
                found.push(Touched {
                    path: path.to_string(),
                    new: is_null(before),
                });
            }
        } else {
            old = None;
        }
    }
    found
}

/// Applies one patch in `dir`. The error names the patch, the file and the kernel's version.
pub fn apply(patch: &Path, dir: &Path, version: &str) -> Result<()> {
    if let Some(line) = miscounted(&files::read(patch)?) {
        bail!(
            "{}: the hunk at line {line} does not have as many lines as it says, and `patch` would \
             drop what follows: correct the numbers behind its @@",
            patch.display()
        );
    }
    let input =
        std::fs::File::open(patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let output = Command::new("patch")
        .args(["-p1", "--batch", "--forward", "--no-backup-if-mismatch"])
        // One line of context may have moved on; with more, a hook could land anywhere.
        .args(["--fuzz=1", "--reject-file=-", "-d"])
        .arg(dir)
        .stdin(Stdio::from(input))
        .output()
        .context("cannot start patch: `cohort lab setup` installs it")?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    bail!(
        "{} does not apply to Linux {version}: {}; refresh the patch against this version, or \
         unpack the version that it was made for",
        patch.display(),
        why(&text)
            .or_else(|| why(&errors))
            .unwrap_or_else(|| format!("{} {}", text.trim(), errors.trim()))
    );
}

/// The line of the first hunk whose header does not fit its content. `patch` takes a line too many
/// for the end of the file's hunks, and drops later ones without a word.
fn miscounted(patch: &str) -> Option<usize> {
    let mut lines = patch.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let Some((mut old, mut new)) = hunk_size(line) else {
            continue;
        };
        while old > 0 || new > 0 {
            match lines.next().map(|(_, line)| line.bytes().next()) {
                // An editor may have removed the blank of an empty line.
                Some(Some(b' ') | None) if old > 0 && new > 0 => (old, new) = (old - 1, new - 1),
                Some(Some(b'-')) if old > 0 => old -= 1,
                Some(Some(b'+')) if new > 0 => new -= 1,
                Some(Some(b'\\')) => {}
                _ => return Some(at + 1),
            }
        }
        let more =
            |line: &str| line.starts_with([' ', '+']) || line.starts_with('-') && line != "-- ";
        if lines
            .peek()
            .is_some_and(|(_, line)| more(line) && !line.starts_with("--- "))
        {
            return Some(at + 1);
        }
    }
    None
}

/// How many lines a hunk has of the old and of the new file, from its header.
fn hunk_size(line: &str) -> Option<(usize, usize)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut size = |sign| -> Option<usize> {
        match words.next()?.strip_prefix(sign)?.split_once(',') {
            Some((_, lines)) => lines.parse().ok(),
            None => Some(1),
        }
    };
    Some((size('-')?, size('+')?))
}

/// The file and lines that `patch` could not find, from its output.
fn why(output: &str) -> Option<String> {
    let mut file = "a file";
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("patching file ") {
            file = name.trim();
        }
        if let Some((hunk, at)) = line.split_once(" FAILED at ") {
            return Some(format!(
                "{} of {file} at line {} does not apply there",
                hunk.to_lowercase(),
                at.trim_end_matches('.').split('.').next().unwrap_or(at)
            ));
        }
        if line.contains("malformed patch") || line.contains("Only garbage was found") {
            return Some(format!("it is not a well-formed patch ({line})"));
        }
        if line.contains("previously applied") {
            return Some(format!("{file} has the change already"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "mm: call the hook\n\nWhy it is needed.\n---\n mm/memory.c | 1 +\n\n\
        diff --git a/mm/memory.c b/mm/memory.c\n--- a/mm/memory.c\n+++ b/mm/memory.c\n\
        @@ -1,3 +1,4 @@\n one\n+hook\n two\n three\n";

    #[test]
    fn a_series_is_read_in_order_without_comments() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_series(&dir.path().join("none")).unwrap().is_empty());
        files::write(&dir.path().join("0001-a.patch"), b"").unwrap();
        files::write(&dir.path().join("0002-b.patch"), b"").unwrap();
        files::write(
            &dir.path().join("series"),
            b"# the hooks\n0002-b.patch\n\n0001-a.patch # late\n",
        )
        .unwrap();
        let names: Vec<_> = read_series(dir.path())
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["0002-b.patch", "0001-a.patch"]);
        files::write(&dir.path().join("series"), b"0003-c.patch\n").unwrap();
        let error = read_series(dir.path()).unwrap_err().to_string();
        assert!(error.contains("0003-c.patch"), "{error}");
    }

    #[test]
    fn a_hunk_with_a_wrong_number_of_lines_is_refused() {
        let two = format!("{PATCH}@@ -9,2 +10,3 @@\n nine\n+more\n ten\n");
        assert_eq!(miscounted(PATCH), None);
        assert_eq!(miscounted(&two), None);
        // One line more than the header says: `patch` would drop the second hunk.
        let dir = tempfile::tempdir().unwrap();
        let patch = dir.path().join("0001-a.patch");
        let long = two.replace("-1,3 +1,4", "-1,2 +1,3");
        files::write(&patch, long.as_bytes()).unwrap();
        let error = apply(&patch, dir.path(), "6.12").unwrap_err().to_string();
        let line = PATCH.lines().position(|line| line.starts_with("@@"));
        let line = line.unwrap() + 1;
        assert!(
            error.contains(&format!("0001-a.patch: the hunk at line {line} ")),
            "{error}"
        );
        assert_eq!(
            miscounted(&two.replace("-1,3 +1,4", "-1,4 +1,5")),
            Some(line)
        );
    }

    #[test]
    fn the_files_of_a_patch_are_found() {
        let patch = format!("{PATCH}--- /dev/null\n+++ b/mm/new.c\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(
            touched(&patch),
            [
                Touched {
                    path: "mm/memory.c".into(),
                    new: false
                },
                Touched {
                    path: "mm/new.c".into(),
                    new: true
                }
            ]
        );
    }

    #[test]
    fn a_removed_line_that_looks_like_a_header_is_none() {
        assert!(touched("@@ -1,2 +1 @@\n--- a comment in Lua\n kept\n").is_empty());
    }

    #[test]
    fn a_patch_applies_and_one_that_does_not_says_where() {
        let dir = tempfile::tempdir().unwrap();
        let patch = dir.path().join("0001-call.patch");
        files::write(&patch, PATCH.as_bytes()).unwrap();
        let tree = dir.path().join("tree");
        files::write(&tree.join("mm/memory.c"), b"one\ntwo\nthree\n").unwrap();
        apply(&patch, &tree, "6.12.1").unwrap();
        assert_eq!(
            files::read(&tree.join("mm/memory.c")).unwrap(),
            "one\nhook\ntwo\nthree\n"
        );

        files::write(&tree.join("mm/memory.c"), b"all\nis\nother\n").unwrap();
        let error = apply(&patch, &tree, "6.12.99").unwrap_err().to_string();
        for word in [
            "0001-call.patch",
            "mm/memory.c",
            "line 1",
            "6.12.99",
            "refresh",
        ] {
            assert!(error.contains(word), "no {word} in: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
}
