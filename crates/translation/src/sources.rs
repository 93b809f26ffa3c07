// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the constants of a description come from.
//!
//! Each constant of a description has a source, or is marked as assumed. The table `[sources]` says
//! it, by the constant's name or by a pattern that stands for many:
//!
//! ```toml
//! [sources]
//! core = "Table I"                      # all of [core]
//! "core.rob" = "section VI"             # but for this: the longest name counts
//! "tlb[*].ways" = "Table I"             # of every array
//! "cache.*.mshrs" = "assumed: no manual gives them"
//! "memory.cas" = { assumed = "DDR3 at that clock", range = [9, 18] }
//! "tlb[*].replacement" = { assumed = "not given", values = ["lru", "plru"] }
//! ```
//!
//! `sources = "TEXT"` gives all constants one source. A description with a `base` gives the sources
//! of what it says itself. A constant that a description leaves out has its default, which is an
//! assumption, unless `[sources]` names the constant itself: the source of a whole part (`core`, or
//! the one text for all) is that of what the part says, not of what it leaves out. Defaults that
//! follow from another constant (`core.fetch_ahead`, `core.stores`) do so where that one is given.
//! A constant without a source, and a source without a constant, are refused.

use serde::Serialize;
use toml::{Table, Value};

/// Keys of a description that are no constants.
const WORDS: [&str; 5] = ["name", "about", "base", "without", "sources"];
/// The order of a description's parts when they are listed; mechanisms follow.
const ORDER: [&str; 8] = [
    "page_tables",
    "tag",
    "fault_drops_page",
    "core",
    "tlb",
    "walk_cache",
    "cache",
    "memory",
];

/// A constant of a description, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constant {
    /// Its name, for instance `tlb[3].ways`.
    pub name: String,
    /// Its value, as TOML.
    pub value: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Source,
}

/// Where a constant comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Whether it is assumed.
    pub assumed: bool,
    /// The source; of an assumption, why this value.
    #[serde(rename = "source")]
    pub text: String,
    /// The values, as TOML, between which an assumed constant may lie; none if nobody said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub range: Vec<String>,
    /// The name or pattern by which the description gives the source. Constants of one pattern are
    /// varied together.
    #[serde(skip)]
    pub group: String,
}

/// The steps of a name: `tlb[3].ways` is `tlb`, `3`, `ways`.
type Path = Vec<String>;

fn path_of(name: &str) -> Path {
    let plain = name.replace('[', ".").replace(']', "");
    plain.split('.').map(str::to_owned).collect()
}

/// The name of a path.
fn name_of(path: &[String]) -> String {
    let mut name = String::new();
    for step in path {
        let number = step.bytes().all(|byte| byte.is_ascii_digit());
        match (number, name.is_empty()) {
            (true, _) => name.push_str(&format!("[{step}]")),
            (false, true) => name.push_str(step),
            (false, false) => name.push_str(&format!(".{step}")),
        }
    }
    name
}

/// A key of a description as it is written here: `tlb.3.ways` is `tlb[3].ways`.
pub fn canonical(name: &str) -> String {
    name_of(&path_of(name))
}

/// How well a pattern fits a path: the longer, and the fewer stars, the better. `None` if it does
/// not fit.
fn fits(pattern: &[String], path: &[String]) -> Option<(usize, usize)> {
    if pattern == ["*"] {
        return Some((0, 0));
    }
    let same = |(a, b): (&String, &String)| a == "*" || a == b;
    let all = pattern.len() <= path.len() && pattern.iter().zip(path).all(same);
    all.then(|| {
        let words = pattern.iter().filter(|step| *step != "*").count();
        (pattern.len(), words)
    })
}

/// Whether a pattern names a constant itself, not a part that it belongs to.
fn names(pattern: &[String], path: &[String]) -> bool {
    pattern.len() == path.len() && pattern.last() == path.last()
}

/// All constants of a description, in the order of [`ORDER`].
fn leaves(table: &Table) -> Vec<(Path, &Value)> {
    fn below<'a>(path: Path, value: &'a Value, list: &mut Vec<(Path, &'a Value)>) {
        let tables = |values: &[Value]| !values.is_empty() && values.iter().all(Value::is_table);
        let step = |step: String| [path.clone(), vec![step]].concat();
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    below(step(key.clone()), value, list);
                }
            }
            Value::Array(values) if tables(values) => {
                for (number, value) in values.iter().enumerate() {
                    below(step(number.to_string()), value, list);
                }
            }
            _ => list.push((path, value)),
        }
    }
    let mut list = Vec::new();
    for (key, value) in table {
        if !WORDS.contains(&key.as_str()) {
            below(vec![key.clone()], value, &mut list);
        }
    }
    let place = |path: &Path| {
        let place = ORDER.iter().position(|part| *part == path[0]);
        place.unwrap_or(ORDER.len())
    };
    list.sort_by_key(|(path, _)| place(path));
    list
}

/// The defaults that a whole description (or, with `arrays`, its arrays alone) leaves out are
/// written into it. Returns their names.
fn fill(table: &mut Table, arrays: bool) -> Vec<Path> {
    let mut filled = Vec::new();
    let mut set = |table: &mut Table, path: &[&str], value: Value| {
        let key = path[path.len() - 1];
        if !table.contains_key(key) {
            table.insert(key.to_owned(), value);
            filled.push(path.iter().map(|step| (*step).to_owned()).collect());
        }
    };
    let lru = || Value::String("lru".to_owned());
    if let Some(Value::Array(tlbs)) = table.get_mut("tlb") {
        for (number, tlb) in tlbs.iter_mut().enumerate() {
            if let Value::Table(tlb) = tlb {
                let number = number.to_string();
                set(tlb, &["tlb", &number, "replacement"], lru());
                let never = Value::Boolean(false);
                set(tlb, &["tlb", &number, "flushed_on_switch"], never);
            }
        }
    }
    if arrays {
        return filled;
    }
    set(table, &["fault_drops_page"], Value::Boolean(false));
    if let Some(Value::Table(core)) = table.get_mut("core") {
        set(core, &["core", "walkers"], Value::Integer(1));
        if let Some(&Value::Integer(rob)) = core.get("rob") {
            set(core, &["core", "fetch_ahead"], Value::Integer(rob / 4));
            let stores = Value::Integer((rob / 5).max(1));
            set(core, &["core", "stores"], stores);
        }
    }
    if let Some(Value::Table(cache)) = table.get_mut("walk_cache") {
        set(cache, &["walk_cache", "replacement"], lru());
    }
    if let Some(Value::Table(memory)) = table.get_mut("memory") {
        set(memory, &["memory", "refresh_ns"], Value::Integer(0));
    }
    if let Some(Value::Table(caches)) = table.get_mut("cache") {
        for name in ["l1i", "l1d", "l2", "last"] {
            if let Some(Value::Table(cache)) = caches.get_mut(name) {
                set(cache, &["cache", name, "replacement"], lru());
                let back = Value::String("back".to_owned());
                set(cache, &["cache", name, "writes"], back);
            }
        }
    }
    filled
}

impl Source {
    fn default_of(path: &[String]) -> Self {
        Self {
            assumed: true,
            text: "the default".to_owned(),
            range: Vec::new(),
            group: name_of(path),
        }
    }

    /// What a value of `[sources]` says; `key` is its name or pattern.
    fn parse(key: &str, value: &Value) -> Result<Self, String> {
        let bad = |why: &str| format!("sources.{key:?}: {why}");
        let mut source = Self {
            assumed: false,
            text: String::new(),
            range: Vec::new(),
            group: canonical(key),
        };
        match value {
            Value::String(text) => {
                let text = text.trim();
                match text.strip_prefix("assumed") {
                    Some(why) if !why.starts_with(|c: char| c.is_alphanumeric()) => {
                        source.assumed = true;
                        source.text = why.trim_start_matches(':').trim().to_owned();
                    }
                    _ => source.text = text.to_owned(),
                }
                if source.text.is_empty() && !source.assumed {
                    return Err(bad("the source is empty"));
                }
            }
            Value::Table(table) => {
                for (word, value) in table {
                    match (word.as_str(), value) {
                        ("source", Value::String(text)) => source.text.clone_from(text),
                        ("assumed", Value::String(text)) => {
                            source.assumed = true;
                            source.text.clone_from(text);
                        }
                        ("group", Value::String(group)) => source.group.clone_from(group),
                        ("range", Value::Array(range)) if numbers(range) => {
                            source.range = range.iter().map(Value::to_string).collect();
                        }
                        ("values", Value::Array(values)) if !values.is_empty() => {
                            source.range = values.iter().map(Value::to_string).collect();
                        }
                        _ => {
                            return Err(bad(
                                "a source is a text, or a table of assumed = \"WHY\" and \
                                 range = [LEAST, MOST] or values = [...]",
                            ));
                        }
                    }
                }
                if !source.assumed && !source.range.is_empty() {
                    return Err(bad("only what is assumed has a range"));
                }
            }
            _ => return Err(bad("a source is a text or a table")),
        }
        Ok(source)
    }

    fn to_value(&self) -> Value {
        let mut table = Table::new();
        let key = if self.assumed { "assumed" } else { "source" };
        table.insert(key.to_owned(), Value::String(self.text.clone()));
        table.insert("group".to_owned(), Value::String(self.group.clone()));
        if !self.range.is_empty() {
            let value = |text: &String| match format!("v = {text}").parse::<Table>() {
                Ok(mut table) => table.remove("v").unwrap_or(Value::Boolean(false)),
                Err(_) => Value::String(text.clone()),
            };
            let values = self.range.iter().map(value).collect();
            table.insert("values".to_owned(), Value::Array(values));
        }
        Value::Table(table)
    }
}

/// Whether these are the least and the most of a range.
fn numbers(range: &[Value]) -> bool {
    match range {
        [Value::Integer(least), Value::Integer(most)] => least <= most,
        _ => false,
    }
}

/// The patterns of `[sources]` with what they say.
fn patterns(table: &mut Table) -> Result<Vec<(Path, Source)>, String> {
    match table.remove("sources") {
        None => Ok(Vec::new()),
        Some(text @ Value::String(_)) => {
            let source = Source::parse("*", &text)?;
            Ok(vec![(path_of("*"), source)])
        }
        Some(Value::Table(sources)) => sources
            .iter()
            .map(|(key, value)| Ok((path_of(key), Source::parse(key, value)?)))
            .collect(),
        Some(_) => Err("sources must be a text or a table".to_owned()),
    }
}

/// The source of each constant, by the pattern that fits it best. Returns which patterns were used.
fn match_all<'a>(
    table: &Table,
    patterns: &'a [(Path, Source)],
    filled: &[Path],
) -> Result<(Vec<Constant>, Vec<&'a Path>), String> {
    let mut used = Vec::new();
    let mut constants = Vec::new();
    for (path, value) in leaves(table) {
        let left_out = filled.contains(&path);
        let fitting = patterns
            .iter()
            .filter(|(pattern, _)| !left_out || names(pattern, &path))
            .filter_map(|entry| Some((fits(&entry.0, &path)?, entry)));
        let best = fitting.max_by_key(|&(how_well, _)| how_well);
        let source = match best {
            Some((_, (pattern, source))) => {
                used.push(pattern);
                source.clone()
            }
            None if left_out => Source::default_of(&path),
            None => {
                let name = name_of(&path);
                return Err(format!(
                    "{name} has no source: name one in [sources], or write there that it is \
                     assumed: {name:?} = \"assumed: WHY\""
                ));
            }
        };
        constants.push(Constant {
            name: name_of(&path),
            value: value.to_string(),
            source,
        });
    }
    Ok((constants, used))
}

/// Gives each constant of one file's own table its source, written out by name in `sources`.
pub(crate) fn resolve(own: &mut Table, has_base: bool) -> Result<(), String> {
    let patterns = patterns(own)?;
    let filled = fill(own, has_base);
    let (constants, used) = match_all(own, &patterns, &filled)?;
    for (pattern, _) in &patterns {
        // One source for all may be written into a description that says nothing itself.
        if !used.contains(&pattern) && *pattern != ["*"] {
            let name = name_of(pattern);
            return Err(format!(
                "sources.{name:?}: no constant of the description gets its source from this"
            ));
        }
    }
    let named = constants
        .iter()
        .map(|constant| (constant.name.clone(), constant.source.to_value()));
    own.insert("sources".to_owned(), Value::Table(named.collect()));
    Ok(())
}

/// The sources of a description and its base, by name, once both are merged into `merged`.
pub(crate) fn merge(merged: &Table, base: Option<Value>, own: Option<Value>) -> Value {
    let table = |value: Option<Value>| match value {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    };
    let (mut base, mut own) = (table(base), table(own));
    let named = leaves(merged).into_iter().filter_map(|(path, _)| {
        let name = name_of(&path);
        let source = own.remove(&name).or_else(|| base.remove(&name))?;
        Some((name, source))
    });
    Value::Table(named.collect())
}

/// Takes the sources out of a whole description, and gives all its constants with theirs.
pub(crate) fn take(table: &mut Table) -> Result<Vec<Constant>, String> {
    let patterns = patterns(table)?;
    let filled = fill(table, false);
    Ok(match_all(table, &patterns, &filled)?.0)
}

/// Marks a constant of a whole description as changed by whoever made a variant of it.
pub fn changed(table: &mut Table, key: &str, value: &str) {
    let sources = table
        .entry("sources")
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(sources) = sources {
        let text = Value::String(format!("assumed: {value}, set for this run"));
        sources.insert(canonical(key), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_name_counts_and_a_star_less_than_a_word() {
        let mut own = table(
            "[core]\nrob = 1\nwalkers = 2\n[cache.l1d]\nkb = 1\nmshrs = 2\n[cache.l2]\nmshrs = 3\n\
             [sources]\ncore = \"a\"\n\"core.rob\" = \"b\"\ncache = \"c\"\n\
             \"cache.*.mshrs\" = { assumed = \"d\", range = [1, 9] }\n\"cache.l2.mshrs\" = \"e\"\n",
        );
        resolve(&mut own, false).unwrap();
        let constants = take(&mut own).unwrap();
        let of = |name: &str| {
            let mut found = constants.iter().filter(|constant| constant.name == name);
            found
                .next()
                .unwrap_or_else(|| panic!("no {name}"))
                .source
                .clone()
        };
        assert_eq!(
            (of("core.rob").text, of("core.walkers").text),
            ("b".into(), "a".into())
        );
        assert_eq!(
            (of("cache.l1d.kb").text, of("cache.l2.mshrs").text),
            ("c".into(), "e".into())
        );
        let mshrs = of("cache.l1d.mshrs");
        assert!(mshrs.assumed && mshrs.group == "cache.*.mshrs");
        assert_eq!(mshrs.range, ["1", "9"]);
    }

    #[test]
    fn a_constant_without_a_source_is_refused_and_so_is_the_reverse() {
        for (text, says) in [
            ("[core]\nrob = 1\n", "core.rob has no source"),
            (
                "[[tlb]]\nways = 1\n[[tlb]]\nways = 2\n[sources]\n\"tlb[0]\" = \"a\"\n",
                "tlb[1].ways has no source",
            ),
            (
                "[core]\nrob = 1\n[sources]\ncore = \"a\"\n\"core.robb\" = \"b\"\n",
                "core.robb",
            ),
            ("[core]\nrob = 1\n[sources]\ncore = \"\"\n", "empty"),
            (
                "[core]\nrob = 1\n[sources]\ncore = 3\n",
                "a text or a table",
            ),
            (
                "[core]\nrob = 1\n[sources]\ncore = { source = \"a\", range = [1, 2] }\n",
                "only what is assumed",
            ),
            (
                "[core]\nrob = 1\n[sources]\ncore = { assumed = \"a\", range = [2, 1] }\n",
                "LEAST, MOST",
            ),
        ] {
            let error = resolve(&mut table(text), true).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn defaults_are_assumed_and_may_have_a_source() {
        let mut own = table(
            "[core]\nrob = 1\n[[tlb]]\nways = 1\n[sources]\ncore = \"a\"\n\"tlb[*].ways\" = \"b\"\n\
             \"tlb[*].replacement\" = \"c\"\n",
        );
        resolve(&mut own, false).unwrap();
        let constants = take(&mut own).unwrap();
        let lines: Vec<_> = constants
            .iter()
            .map(|c| (c.name.as_str(), c.value.as_str(), c.source.assumed))
            .collect();
        assert_eq!(
            lines,
            [
                ("fault_drops_page", "false", true),
                // The source of a part is not that of what it leaves to the default.
                ("core.fetch_ahead", "0", true),
                ("core.rob", "1", false),
                ("core.stores", "1", true),
                ("core.walkers", "1", true),
                ("tlb[0].flushed_on_switch", "false", true),
                ("tlb[0].replacement", "\"lru\"", false),
                ("tlb[0].ways", "1", false),
            ]
        );
    }
}
