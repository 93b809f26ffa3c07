// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries of an experiment's file that stand for many: `for` names lists, and the entry is there
//! once for each combination of their items.
//!
//! `[lists]` has the lists, whose items are strings, numbers or tables with a `name`. In every text
//! of such an entry `{LIST}` is the item (of a table its `name`), `{LIST.FIELD}` a field of it. An
//! entry's `for` is `["A", "B"]`, of which the last changes fastest, or names lists of its own:
//! `{ A = [1, 2], B = ["x", "y"] }`, in the order of the alphabet. `{each LIST: TEXT}` is TEXT for
//! every item, with commas between; TEXT may have another.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// Lists by name, or the items that one entry is made with.
type Bound<'a> = Vec<(String, &'a Value)>;

/// The file with all entries written out; none if there is nothing to write out.
pub fn expand(mut file: Table) -> Result<Option<Table>> {
    let lists = match file.remove("lists") {
        Some(Value::Table(lists)) => lists,
        Some(_) => bail!("`lists` is not a table"),
        None => Table::new(),
    };
    let mut any = !lists.is_empty();
    for key in ["variant", "check"] {
        if let Some(Value::Array(entries)) = file.get_mut(key) {
            any |= entries_of(entries, &lists).with_context(|| format!("in [[{key}]]"))?;
        }
    }
    if let Some(Value::Array(figures)) = file.get_mut("figure") {
        for figure in figures.iter_mut().filter_map(Value::as_table_mut) {
            for key in ["x", "series"] {
                if let Some(Value::Array(entries)) = figure.get_mut(key) {
                    any |= entries_of(entries, &lists).with_context(|| format!("in {key}"))?;
                }
            }
        }
    }
    Ok(any.then_some(file))
}

/// Writes out the entries of an array. Tells whether one had a `for`.
fn entries_of(entries: &mut Vec<Value>, lists: &Table) -> Result<bool> {
    let mut any = false;
    let mut written = Vec::new();
    for mut entry in std::mem::take(entries) {
        let axes = entry.as_table_mut().and_then(|table| table.remove("for"));
        let Some(axes) = axes else {
            each_text(&mut entry, &mut |text| eaches(text, lists))?;
            written.push(entry);
            continue;
        };
        any = true;
        let own = match axes {
            Value::Table(own) => own,
            Value::Array(names) => {
                for bound in combinations(&names_of(&names, lists)?)? {
                    written.push(bind(&entry, &bound, lists)?);
                }
                continue;
            }
            _ => bail!("`for` is neither a list of names nor a table of lists"),
        };
        let named = own.iter().map(|(name, list)| (name.clone(), list));
        for bound in combinations(&named.collect::<Vec<_>>())? {
            written.push(bind(&entry, &bound, lists)?);
        }
    }
    *entries = written;
    Ok(any)
}

fn names_of<'a>(names: &[Value], lists: &'a Table) -> Result<Bound<'a>> {
    let named = names.iter().map(|name| {
        let name = name.as_str().context("`for` names lists")?;
        Ok((name.to_string(), list_named(name, lists)?))
    });
    named.collect()
}

fn list_named<'a>(name: &str, lists: &'a Table) -> Result<&'a Value> {
    lists
        .get(name)
        .with_context(|| format!("[lists] has no `{name}`"))
}

/// All combinations of the items of lists; the last list changes fastest.
fn combinations<'a>(lists: &[(String, &'a Value)]) -> Result<Vec<Bound<'a>>> {
    let mut found: Vec<Bound> = vec![Vec::new()];
    for (name, list) in lists {
        let items = list
            .as_array()
            .with_context(|| format!("`{name}` is not a list"))?;
        found = found
            .iter()
            .flat_map(|bound| {
                items.iter().map(|item| {
                    let mut longer = bound.clone();
                    longer.push((name.clone(), item));
                    longer
                })
            })
            .collect();
    }
    Ok(found)
}

/// The entry for one combination. A table that is left with nothing but a `text` becomes that: the
/// x of a figure.
fn bind(entry: &Value, bound: &Bound<'_>, lists: &Table) -> Result<Value> {
    let mut entry = entry.clone();
    each_text(&mut entry, &mut |text| {
        let text = substitute(&eaches(text, lists)?, bound)?;
        match unbound(&text) {
            Some(name) => bail!("`{{{name}}}` in `{text}` is not in its `for`"),
            None => Ok(text),
        }
    })?;
    Ok(match entry.as_table().filter(|table| table.len() == 1) {
        Some(table) if table.contains_key("text") => table["text"].clone(),
        _ => entry,
    })
}

/// A word in braces that nothing stands for; `{x}` is the figure's.
fn unbound(text: &str) -> Option<&str> {
    text.split('{').skip(1).find_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let word = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        (name != "x" && !name.is_empty() && name.chars().all(word)).then_some(name)
    })
}

fn substitute(text: &str, bound: &Bound<'_>) -> Result<String> {
    let mut text = text.to_string();
    for (name, item) in bound {
        text = text.replace(
            &format!("{{{name}}}"),
            &shown(item, "name").unwrap_or_default(),
        );
        for field in item.as_table().into_iter().flat_map(Table::keys) {
            let shown = shown(item, field).with_context(|| {
                format!("the field `{field}` of `{name}` is neither a text nor a number")
            })?;
            text = text.replace(&format!("{{{name}.{field}}}"), &shown);
        }
    }
    Ok(text)
}

/// An item as a text; of a table its field.
fn shown(item: &Value, field: &str) -> Option<String> {
    match item {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Table(fields) => shown(fields.get(field)?, field),
        _ => None,
    }
}

/// Writes out every `{each LIST: TEXT}`.
fn eaches(text: &str, lists: &Table) -> Result<String> {
    const BEGIN: &str = "{each ";
    let Some((before, rest)) = text.split_once(BEGIN) else {
        return Ok(text.into());
    };
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    let parts = end.and_then(|end| Some((rest[..end].split_once(": ")?, &rest[end + 1..])));
    let Some(((name, body), after)) = parts else {
        bail!("`{BEGIN}` in `{text}` is not `{{each LIST: TEXT}}`");
    };
    let list = [(name.to_string(), list_named(name, lists)?)];
    let all = combinations(&list)?;
    let all = all.iter().map(|bound| substitute(body, bound));
    let all = all.collect::<Result<Vec<_>>>()?.join(", ");
    let all = eaches(&all, lists)?;
    Ok(format!("{before}{all}{}", eaches(after, lists)?))
}

fn each_text(value: &mut Value, change: &mut dyn FnMut(&str) -> Result<String>) -> Result<()> {
    match value {
        Value::String(text) => *text = change(text)?,
        Value::Array(items) => {
            for item in items {
                each_text(item, change)?;
            }
        }
        Value::Table(fields) => {
            for (_, field) in fields.iter_mut() {
                each_text(field, change)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<Option<Table>> {
        super::expand(toml::from_str(text).unwrap())
    }

    fn texts(file: &Table, key: &str, field: &str) -> Vec<String> {
        let entries = file[key].as_array().unwrap().iter();
        entries
            .map(|entry| entry[field].as_str().unwrap().to_string())
            .collect()
    }

    #[test]
    fn an_entry_is_there_once_for_each_combination() {
        let file = expand(
            "[lists]\nprogram = ['a', 'b']\nkind = [{ name = 'stock', run = '' }, { name = \
             'large', run = 'cohort run ' }]\n[[variant]]\nfor = ['program', 'kind']\nname = \
             '{program}-{kind}'\ncommand = '{kind.run}{program}'\n[[variant]]\nname = 'last'\n\
             command = 'c'\n[[check]]\nfor = { size = [1, 2] }\nname = '{size} MB'\nmeasured = \
             'a-stock:n-{size}'\n[[check]]\nname = 'all'\nmeasured = 'mean({each program: \
             {program}-large:n}) + 1'\n[[check]]\nname = 'both'\nmeasured = 'max({each program: \
             {each kind: {program}-{kind}:n}})'\n[[figure]]\nx = [{ for = ['program', 'kind'], text = \
             '{program}-{kind}' }, 'last']\nseries = [{ for = { n = [1, 2] }, y = '{x}:m{n}' }]\n",
        )
        .unwrap()
        .unwrap();
        let names = ["a-stock", "a-large", "b-stock", "b-large", "last"];
        assert_eq!(texts(&file, "variant", "name"), names);
        let commands = ["a", "cohort run a", "b", "cohort run b", "c"];
        assert_eq!(texts(&file, "variant", "command"), commands);
        assert_eq!(
            texts(&file, "check", "name"),
            ["1 MB", "2 MB", "all", "both"]
        );
        let mean = "mean(a-large:n, b-large:n) + 1";
        let both = "max(a-stock:n, a-large:n, b-stock:n, b-large:n)";
        assert_eq!(
            texts(&file, "check", "measured"),
            ["a-stock:n-1", "a-stock:n-2", mean, both]
        );
        let figure = &file["figure"].as_array().unwrap()[0];
        let x: Vec<_> = figure["x"].as_array().unwrap().iter().collect();
        assert_eq!(
            x.iter().filter_map(|x| x.as_str()).collect::<Vec<_>>(),
            names
        );
        let figure = figure.as_table().unwrap();
        assert_eq!(texts(figure, "series", "y"), ["{x}:m1", "{x}:m2"]);
    }

    #[test]
    fn a_file_without_lists_is_left_alone_and_mistakes_are_named() {
        assert!(expand("[[check]]\nname = 'a'\n").unwrap().is_none());
        let error = |text: &str| format!("{:#}", expand(text).unwrap_err());
        let of = |entry: &str| error(&format!("[lists]\na = [1]\n[[check]]\n{entry}"));
        assert!(of("for = ['b']\nname = 'c'").contains("no `b`"));
        assert!(of("for = ['a']\nname = '{b}'").contains("`{b}`"));
        assert!(of("for = 3").contains("neither"));
        assert!(of("for = { b = 3 }").contains("`b` is not a list"));
        assert!(of("name = '{each a}'").contains("{each LIST: TEXT}"));
    }
}
