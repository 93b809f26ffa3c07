// SPDX-License-Identifier: GPL-2.0-or-later
//! What sparse says of the files that a series touches, and what of it is new.
//!
//! Stock Linux has warnings, too. A series may not add any: a warning counts by its file and its
//! text, as the lines before it may have moved.

use std::collections::{BTreeMap, BTreeSet};

/// How often sparse says a text of a file, by both. Each line of what it says is a text of its own,
/// also those with the types that it expected and got.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Warnings(BTreeMap<(String, String), usize>);

impl Warnings {
    /// Those among the lines that `make` printed, of files below the directory `tree`.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a str>, tree: &str) -> Self {
        let mut found = BTreeMap::new();
        for (path, text) in lines.filter_map(warning) {
            let path = path.strip_prefix(tree).unwrap_or(path);
            let path = path.trim_start_matches('/');
            let count = found
                .entry((path.to_string(), without_lines(text)))
                .or_insert(0);
            // A header's is said again for each file that includes it.
            if *count == 0 || !path.ends_with(".h") {
                *count += 1;
            }
        }
        Warnings(found)
    }

    /// What is said more often than in `base`, one line per text. Also of files that no patch
    /// touches: what a function does with a lock may be said of a header's line.
    pub fn new_since(&self, base: &Warnings) -> Vec<String> {
        let before = |said| base.0.get(said).copied().unwrap_or(0);
        self.0
            .iter()
            .filter_map(|(said, &now)| match now.saturating_sub(before(said)) {
                0 => None,
                1 => Some(format!("{}: {}", said.0, said.1)),
                more => Some(format!("{}: {} ({more} times)", said.0, said.1)),
            })
            .collect()
    }
}

/// The C files of the kernel that a series touches, whether or not they are built: programs below
/// `tools` are not the kernel's.
pub fn sources(touched: &BTreeSet<String>) -> Vec<&str> {
    let paths = touched.iter().map(String::as_str);
    paths
        .filter(|path| path.ends_with(".c") && !path.starts_with("tools/"))
        .collect()
}

/// Path and text of a line `PATH:LINE:COLUMN: TEXT`.
fn warning(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.splitn(4, ':');
    let path = parts.next()?;
    for _ in 0..2 {
        parts.next()?.parse::<u32>().ok()?;
    }
    Some((path, parts.next()?.trim()))
}

/// A text without the numbers of lines that it names: those behind a colon.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(':');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == part.len() {
            plain.push(':');
        }
        plain.push_str(rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(base: &str, head: &str) -> Vec<String> {
        let of = |text: &str| Warnings::parse(text.lines(), "/out/linux");
        of(head).new_since(&of(base))
    }

    #[test]
    fn a_warning_that_moved_is_not_new_and_another_one_is() {
        let base = "  CHECK   /out/linux/mm/a.c\n\
                    /out/linux/mm/a.c:10:5: warning: context imbalance in 'f'\n";
        let moved = base.replace(":10:5:", ":12:9:");
        assert_eq!(new(base, &moved), [""; 0]);
        let other = base.replace("'f'", "'g'");
        assert_eq!(
            new(base, &other),
            ["mm/a.c: warning: context imbalance in 'g'"]
        );
        assert_eq!(new(&other, ""), [""; 0]);
    }

    #[test]
    fn a_second_of_the_same_text_is_new_but_not_where_a_header_is_included_again() {
        let one = "/out/linux/mm/a.c:10:5: warning: x\n";
        assert_eq!(new(one, &one.repeat(2)), ["mm/a.c: warning: x"]);
        assert_eq!(new(one, &one.repeat(3)), ["mm/a.c: warning: x (2 times)"]);
        let header = one.replace("a.c", "a.h");
        assert_eq!(new(&header, &header.repeat(2)), [""; 0]);
        assert_eq!(new("", &header.repeat(2)), ["mm/a.h: warning: x"]);
    }

    #[test]
    fn types_are_compared_too_and_lines_that_a_text_names_are_not() {
        let base = "/out/linux/mm/a.c:1:2: warning: redeclared (originally at mm/b.h:7)\n\
                    /out/linux/mm/a.c:1:2:    got int\n";
        assert_eq!(new(base, &base.replace("b.h:7", "b.h:8")), [""; 0]);
        assert_eq!(
            new(base, &base.replace("got int", "got long")),
            ["mm/a.c: got long"]
        );
    }

    #[test]
    fn only_lines_with_a_place_are_warnings() {
        for line in [
            "  CHECK   /out/linux/mm/a.c",
            "mm/a.c: note: in included file:",
        ] {
            assert_eq!(new("", line), [""; 0]);
        }
        let header = "/out/linux/include/linux/a.h:7:8: warning: context imbalance in 'f'";
        assert_eq!(
            new("", header),
            ["include/linux/a.h: warning: context imbalance in 'f'"]
        );
    }

    #[test]
    fn c_files_of_the_kernel_are_checked() {
        let touched: BTreeSet<String> = [
            "Documentation/mm/a.rst",
            "include/linux/a.h",
            "mm/a.c",
            "tools/testing/selftests/mm/a.c",
        ]
        .map(String::from)
        .into();
        assert_eq!(sources(&touched), ["mm/a.c"]);
    }
}
