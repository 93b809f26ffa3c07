// SPDX-License-Identifier: GPL-2.0-or-later
//! The documents name only what exists: files, headings, commands with their options, experiments
//! and make targets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/*.md, by their path below the root.
fn documents() -> BTreeMap<String, String> {
    let mut names = vec!["README.md".to_string()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    assert!(names.len() > 5, "{names:?}");
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// The address of a heading, as web pages of the repository have it.
fn slug(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_';
    let text: String = heading.trim().chars().filter(|&c| kept(c)).collect();
    text.to_lowercase().replace(' ', "-")
}

fn headings(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && line.starts_with('#') {
            found.insert(slug(line.trim_start_matches('#')));
        }
    }
    found
}

/// What stands between `open` and `close` on one line of `text`.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts
        .filter_map(|part| part.split_once(close).map(|(inner, _)| inner))
        .filter(|inner| !inner.contains('\n'))
        .collect()
}

/// The code spans of a text's paragraphs, and the lines of its code blocks without their comments.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for paragraph in text.split("\n\n") {
        let mut prose = String::new();
        for line in paragraph.lines() {
            if line.starts_with("```") {
                fenced = !fenced;
            } else if fenced || line.starts_with("    ") {
                // An explanation stands two spaces or more behind its command, or behind a hash.
                let line = line.trim();
                let end = line.find("  ").or(line.find(" #")).unwrap_or(line.len());
                found.push(line[..end].to_string());
            } else {
                prose += line.trim();
                prose.push(' ');
            }
        }
        let spans = prose.split('`').skip(1).step_by(2);
        found.extend(spans.map(|span| span.trim().to_string()));
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut links = 0;
    for (name, text) in &documents {
        for link in between(text, "](", ')') {
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (file, heading) = match link.split_once('#') {
                Some((file, heading)) => (file, Some(heading)),
                None => (link, None),
            };
            let mut target = root().join(name);
            if !file.is_empty() {
                target = target.parent().unwrap().join(file);
            }
            assert!(target.exists(), "{name}: {link} is no file");
            if let Some(heading) = heading {
                let text = std::fs::read_to_string(&target).unwrap();
                assert!(
                    headings(&text).contains(heading),
                    "{name}: {link} is no heading"
                );
            }
        }
    }
    assert!(links > 20, "only {links} links found");
}

#[test]
fn files_that_are_named_exist() {
    let rooms = [
        "crates/",
        "kernel/",
        "guest/",
        "experiments/",
        "scripts/",
        "papers/",
        "docs/",
        ".ci/",
    ];
    let mut paths = 0;
    for (name, text) in documents() {
        for span in code(&text) {
            for word in span.split_whitespace() {
                let path = word.trim_end_matches([',', ';', '.', ')']);
                let is_path = rooms.iter().any(|room| path.starts_with(room));
                // A pattern or a placeholder in capitals stands for several files.
                let stands_for_some = path.contains(['*', '{', '<', '…'])
                    || path
                        .split(['/', '.', '-'])
                        .any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()));
                if is_path && !stands_for_some {
                    paths += 1;
                    assert!(root().join(path).exists(), "{name}: {path} does not exist");
                }
            }
        }
    }
    assert!(paths > 20, "only {paths} paths found");
}

/// Help of `cohort` subcommands, each asked for once.
struct Help(BTreeMap<Vec<String>, String>);

impl Help {
    fn of(&mut self, command: &[String]) -> &str {
        self.0.entry(command.to_vec()).or_insert_with(|| {
            let output = Command::new(env!("CARGO_BIN_EXE_cohort"))
                .args(command)
                .arg("--help")
                .output()
                .unwrap();
            assert!(output.status.success(), "{command:?} --help failed");
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// The subcommands below `command`.
    fn below(&mut self, command: &[String]) -> BTreeSet<String> {
        let help = self.of(command);
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let list = lines.take_while(|line| line.starts_with("  "));
        list.filter_map(|line| line.split_whitespace().next())
            .map(str::to_string)
            .collect()
    }

    /// Whether the help of `command` lists `option`.
    fn lists(&mut self, command: &[String], option: &str) -> bool {
        let help = self.of(command);
        let words = help.split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '='));
        words.into_iter().any(|word| word == option)
    }
}

/// The commands of `text` that start with `program`, as words.
fn commands(text: &str, program: &str) -> Vec<Vec<String>> {
    let of = |span: String| {
        let words: Vec<String> = span.split_whitespace().map(str::to_string).collect();
        let first = words.first()?.rsplit('/').next()?;
        (first == program).then(|| words[1..].to_vec())
    };
    code(text).into_iter().filter_map(of).collect()
}

#[test]
fn commands_have_the_options_that_are_named() {
    let mut help = Help(BTreeMap::new());
    let mut checked = 0;
    for (name, text) in documents() {
        for words in commands(&text, "cohort") {
            let said = words.join(" ");
            let mut command: Vec<String> = Vec::new();
            let mut words = words.into_iter().peekable();
            loop {
                let below = help.below(&command);
                match words.peek() {
                    Some(word) if below.contains(word) => command.extend(words.next()),
                    Some(word) if !below.is_empty() && !word.starts_with(['-', '…']) => {
                        panic!("{name}: cohort {said}: there is no command {word}")
                    }
                    _ => break,
                }
            }
            if command == ["lab", "run"]
                && let Some(experiment) = words.peek()
                && experiment.starts_with(|c: char| c.is_ascii_lowercase())
            {
                let file = format!("experiments/{experiment}.toml");
                assert!(root().join(&file).exists(), "{name}: {file} does not exist");
            }
            for word in words.take_while(|word| word != "--") {
                let word = word.trim_matches(['[', ']']);
                let option = word.split('=').next().unwrap();
                if !option.starts_with('-') {
                    continue;
                }
                checked += 1;
                assert!(
                    help.lists(&command, option),
                    "{name}: cohort {said}: {} has no {option}",
                    command.join(" ")
                );
            }
        }
    }
    assert!(checked > 30, "only {checked} options found");
}

#[test]
fn make_has_the_targets_that_are_named() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let mut checked = 0;
    for (name, text) in documents() {
        for words in commands(&text, "make") {
            // `make -C DIR …` and `make ARCH=…` are of the kernel's Makefile.
            let ours = |word: &&String| !word.starts_with('-') && !word.contains('=');
            let Some(target) = words.first().filter(ours) else {
                continue;
            };
            checked += 1;
            let rule = format!("\n{target}:");
            assert!(makefile.contains(&rule), "{name}: make {target}");
        }
    }
    assert!(checked > 5, "only {checked} targets found");
}
