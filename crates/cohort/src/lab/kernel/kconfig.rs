// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel configuration fragments, and the check that the kernel took what was asked for.

use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// The value that a fragment asks for a symbol, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The value as in `.config`; `n` for a symbol that must be unset.
    pub value: String,
    /// `file:line` of the fragment.
    pub place: String,
}

/// Reads fragments given as (name, text), the later overriding the earlier.
pub fn parse_fragments(fragments: &[(String, String)]) -> Result<BTreeMap<String, Asked>> {
    let mut asked = BTreeMap::new();
    for (name, text) in fragments {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            match parse_line(line) {
                Line::Option(symbol, value) => {
                    asked.insert(symbol, Asked { value, place });
                }
                Line::Comment | Line::Blank => {}
                Line::Wrong => {
                    bail!("{place}: `{line}` is neither CONFIG_X=value nor `# CONFIG_X is not set`")
                }
            }
        }
    }
    Ok(asked)
}

/// Checks that `.config` holds everything that was asked for; the error names each symbol
/// that Kconfig dropped or changed, which it does silently.
pub fn check(asked: &BTreeMap<String, Asked>, config: &str) -> Result<()> {
    let mut got = BTreeMap::new();
    for line in config.lines() {
        if let Line::Option(symbol, value) = parse_line(line) {
            got.insert(symbol, value);
        }
    }
    let wrong: Vec<String> = asked
        .iter()
        .filter_map(|(symbol, asked)| {
            let got = got.get(symbol).map_or("n", String::as_str);
            (got != asked.value).then(|| {
                format!(
                    "{symbol} is {got} and not {} as {} asks",
                    asked.value, asked.place
                )
            })
        })
        .collect();
    if !wrong.is_empty() {
        bail!(
            "the kernel's configuration did not take {} option{}: {}; a dependency is missing or \
             the symbol has another name in this kernel",
            wrong.len(),
            if wrong.len() == 1 { "" } else { "s" },
            wrong.join("; ")
        );
    }
    Ok(())
}

enum Line {
    Option(String, String),
    Comment,
    Blank,
    Wrong,
}

fn parse_line(line: &str) -> Line {
    let line = line.trim();
    if line.is_empty() {
        return Line::Blank;
    }
    if let Some(comment) = line.strip_prefix('#') {
        let unset = comment.trim().strip_suffix(" is not set");
        return match unset.filter(|symbol| symbol.starts_with("CONFIG_") && !symbol.contains(' ')) {
            Some(symbol) => Line::Option(symbol.to_string(), "n".into()),
            None => Line::Comment,
        };
    }
    match line.split_once('=') {
        Some((symbol, value)) if symbol.starts_with("CONFIG_") && !symbol.contains(' ') => {
            Line::Option(symbol.to_string(), value.to_string())
        }
        _ => Line::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a fragment that no comment precedes, as line numbers. Options in a row
    /// share the comment above them.
    fn without_reason(text: &str) -> Vec<usize> {
        let mut reason = false;
        let mut bare = Vec::new();
        for (number, line) in text.lines().enumerate() {
            match parse_line(line) {
                Line::Comment => reason = true,
                Line::Blank => reason = false,
                Line::Option(..) if !reason => bare.push(number + 1),
                Line::Option(..) | Line::Wrong => {}
            }
        }
        bare
    }

    fn fragments(parts: &[(&str, &str)]) -> Vec<(String, String)> {
        parts
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect()
    }

    #[test]
    fn everything_asked_for_and_given_passes() {
        let asked = parse_fragments(&fragments(&[(
            "base.config",
            "# a reason\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"text\"\nCONFIG_D=16\n",
        )]))
        .unwrap();
        check(&asked, "CONFIG_A=y\nCONFIG_C=\"text\"\nCONFIG_D=16\n").unwrap();
    }

    #[test]
    fn a_silently_dropped_option_is_named_with_its_place() {
        let asked =
            parse_fragments(&fragments(&[("x.config", "# why\n\nCONFIG_COHORT=y\n")])).unwrap();
        let error = check(&asked, "# CONFIG_COHORT is not set\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("CONFIG_COHORT is n and not y as x.config:3"),
            "{error}"
        );
    }

    #[test]
    fn an_option_that_should_be_off_and_is_on_fails() {
        let asked =
            parse_fragments(&fragments(&[("x.config", "# CONFIG_SWAP is not set\n")])).unwrap();
        assert!(check(&asked, "CONFIG_SWAP=y\n").is_err());
        check(&asked, "").unwrap();
    }

    #[test]
    fn a_later_fragment_overrides_an_earlier_one() {
        let asked = parse_fragments(&fragments(&[
            ("base.config", "CONFIG_A=y\n"),
            ("debug.config", "# CONFIG_A is not set\n"),
        ]))
        .unwrap();
        check(&asked, "").unwrap();
        assert_eq!(asked["CONFIG_A"].place, "debug.config:1");
    }

    #[test]
    fn a_malformed_line_is_an_error_with_its_place() {
        let error = parse_fragments(&fragments(&[("x.config", "\nCONFIG A=y\n")]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("x.config:2"), "{error}");
    }

    #[test]
    fn an_option_without_a_reason_is_found() {
        assert!(without_reason("# why\nCONFIG_A=y\nCONFIG_B=y\n").is_empty());
        assert_eq!(without_reason("# why\nCONFIG_A=y\n\nCONFIG_B=y\n"), vec![4]);
    }

    #[test]
    fn every_option_of_the_project_has_a_reason() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/config");
        for file in crate::lab::host::files::with_suffix(&dir, ".config").unwrap() {
            let text = crate::lab::host::files::read(&file).unwrap();
            let bare = without_reason(&text);
            assert!(
                bare.is_empty(),
                "{}: no reason at lines {bare:?}",
                file.display()
            );
            parse_fragments(&[(file.display().to_string(), text)]).unwrap();
        }
    }
}
