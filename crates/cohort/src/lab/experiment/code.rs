// SPDX-License-Identifier: GPL-2.0-or-later
//! The code of a source text: without its comments and with its white space folded, so that a
//! reworded comment or another line break leaves it the same.

use std::path::Path;

/// What begins a comment, and what a line break means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    /// C and Rust.
    C,
    /// Kconfig: its help texts are comments too.
    Kconfig,
    /// A `#` at the beginning of a line; indentation counts.
    Script,
    /// Every byte counts.
    Unknown,
}

fn language(name: &str) -> Language {
    let file = name.rsplit('/').next().unwrap_or(name);
    let suffix = Path::new(file).extension().unwrap_or_default();
    match suffix.to_str().unwrap_or_default() {
        "c" | "h" | "S" | "rs" => Language::C,
        "py" | "sh" => Language::Script,
        _ if file.starts_with("Kconfig") => Language::Kconfig,
        _ if file.starts_with("Makefile") || file.starts_with("Kbuild") => Language::Script,
        _ => Language::Unknown,
    }
}

/// The code of a whole file. The tests at the end of a Rust file are not part of it.
pub fn of(name: &str, text: &str) -> String {
    let text = match name.ends_with(".rs") {
        true => text.split("\n#[cfg(test)]\nmod tests {").next(),
        false => None,
    }
    .unwrap_or(text);
    fold(name, lines(name, text).iter().map(String::as_str))
}

/// The code of each line of a text; empty for a comment. A text may begin inside a comment, as the
/// hunk of a patch may.
pub fn lines(name: &str, text: &str) -> Vec<String> {
    match language(name) {
        Language::C => {
            let open = text.find("/*").unwrap_or(text.len());
            let inside = text.find("*/").is_some_and(|close| close < open);
            let whole = if inside {
                format!("/*{text}")
            } else {
                text.into()
            };
            uncommented(&whole).lines().map(String::from).collect()
        }
        Language::Kconfig => without_help(text),
        Language::Script => text
            .lines()
            .map(|line| match line.trim_start().strip_prefix('#') {
                Some(rest) if !rest.starts_with('!') => String::new(),
                _ => line.trim_end().into(),
            })
            .collect(),
        Language::Unknown => text.lines().map(String::from).collect(),
    }
}

/// Lines of code as one text. In C only the lines of the preprocessor stay lines.
pub fn fold<'a>(name: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let language = language(name);
    let mut folded = String::new();
    let mut directive = false;
    for line in lines {
        if line.trim().is_empty() && language != Language::Unknown {
            continue;
        }
        if language != Language::C {
            folded.push_str(line);
            folded.push('\n');
            continue;
        }
        let begins = !directive && line.trim_start().starts_with('#');
        if begins {
            folded.push('\n');
        }
        for word in line.split_whitespace() {
            folded.push_str(word);
            folded.push(' ');
        }
        let was = directive || begins;
        directive = was && line.trim_end().ends_with('\\');
        if was && !directive {
            folded.push('\n');
        }
    }
    folded
}

/// C without comments; every line break stays where it is.
fn uncommented(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = if rest.starts_with(b"//") {
            let end = position(rest, b"\n").unwrap_or(rest.len());
            at += end;
            continue;
        } else if rest.starts_with(b"/*") {
            let end = position(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4);
            kept.push(b' ');
            kept.extend(rest[..end].iter().filter(|byte| **byte == b'\n'));
            at += end;
            continue;
        } else if rest[0] == b'"' {
            closing(rest, b'"')
        } else if rest[0] == b'\'' && rest.get(1) == Some(&b'\\') {
            closing(rest, b'\'')
        } else if rest[0] == b'\'' && rest.get(2) == Some(&b'\'') {
            3
        } else {
            1
        };
        kept.extend(&rest[..end]);
        at += end;
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what)
}

/// The length of the literal that `text` begins with.
fn closing(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn without_help(text: &str) -> Vec<String> {
    let indent = |line: &str| -> usize {
        let space = line.chars().take_while(|c| c.is_whitespace());
        space.map(|c| if c == '\t' { 8 } else { 1 }).sum()
    };
    let mut help = None;
    text.lines()
        .map(|line| {
            let trimmed = line.trim();
            if let Some(own) = help {
                if trimmed.is_empty() || indent(line) > own {
                    return String::new();
                }
                help = None;
            }
            if trimmed == "help" {
                help = Some(indent(line));
            }
            match trimmed.split_once(' ') {
                _ if trimmed.starts_with('#') || trimmed == "help" => String::new(),
                // That there is a prompt counts, not its words.
                Some((kind @ ("bool" | "tristate" | "prompt"), rest)) => {
                    let after = rest.rsplit_once('"').map_or(rest, |(_, after)| after);
                    format!("{kind} \"\"{after}")
                }
                _ => trimmed.into(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reworded_comment_leaves_the_code_the_same_and_a_changed_statement_does_not() {
        let code = "/* Why. */\nint f(int a, // first\n\tint b)\n{\n\treturn a / b;\n}\n";
        let reworded = "/*\n * Another reason.\n */\nint f(int a, int b)\n{\n\treturn a / b;\n}\n";
        assert_eq!(of("a.c", code), of("a.c", reworded));
        assert_ne!(of("a.c", code), of("a.c", &code.replace("a / b", "b / a")));
        // What looks like a comment in a literal is none.
        let literal = "puts(\"/* a */\"); c = '\"'; // b\n";
        assert_eq!(of("a.c", literal), "puts(\"/* a */\"); c = '\"'; ");
        assert_eq!(
            of("a.rs", "fn f<'a>(x: &'a str) {} // c"),
            "fn f<'a>(x: &'a str) {} "
        );
    }

    #[test]
    fn a_directive_keeps_its_line() {
        let one = of("a.h", "#define A 1\nint a;\n");
        assert_ne!(one, of("a.h", "#define A 1 int a;\n"));
        assert_eq!(
            of("a.h", "#define A \\\n\t1\nint a;\n"),
            "\n#define A \\ 1 \nint a; "
        );
    }

    #[test]
    fn scripts_keep_indentation_and_lose_comments() {
        let text = "#!/bin/sh\n# why\nif a; then\n\n    b # c\nfi\n";
        assert_eq!(of("a.sh", text), "#!/bin/sh\nif a; then\n    b # c\nfi\n");
        assert_ne!(
            of("a.py", "if a:\n  b\nc\n"),
            of("a.py", "if a:\n  b\n  c\n")
        );
    }

    #[test]
    fn help_texts_and_tests_are_no_code() {
        let text = "config A\n\tbool \"Words\" if C\n\thelp\n\t  Words.\n\n\t  More.\n\nconfig B\n\tbool\n";
        assert_eq!(
            of("mm/Kconfig", text),
            "config A\nbool \"\" if C\nconfig B\nbool\n"
        );
        let rust = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(of("a.rs", rust), "fn f() {} ");
    }

    #[test]
    fn a_text_that_begins_inside_a_comment_is_understood() {
        let found = lines("a.c", " * words\n */\nint a;\n");
        assert_eq!(found.concat().trim(), "int a;");
    }
}
