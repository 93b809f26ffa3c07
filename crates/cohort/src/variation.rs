// SPDX-License-Identifier: GPL-2.0-or-later
//! Models with changes in their descriptions: the configurations of a sweep, and the readings of a
//! model that bound its figures.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};
use translation::Model;

/// A model with changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Configuration {
    /// A built-in's name or a file.
    pub model: String,
    /// Keys and values, as in `--vary`.
    pub set: Vec<(String, String)>,
}

/// A key of a description and the values that it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    key: String,
    values: Vec<String>,
}

impl std::str::FromStr for Vary {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((key, values)) = text.split_once('=') else {
            bail!("`{text}` is not KEY=VALUE,VALUE,…, for instance tlb.4.entries=768,1536");
        };
        let Some(values) = split(values) else {
            bail!("`{text}` opens a quote or a bracket that it does not close");
        };
        if key.split('.').any(str::is_empty) || values.iter().any(String::is_empty) {
            bail!("`{text}` has an empty key or value");
        }
        Ok(Vary {
            key: key.to_string(),
            values,
        })
    }
}

/// Values between commas; a comma within quotes or brackets is a value's own. None where one of
/// these is left open, or closed without having been opened.
fn split(text: &str) -> Option<Vec<String>> {
    let mut values = vec![String::new()];
    let (mut quote, mut closing) = (None, Vec::new());
    for c in text.chars() {
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => closing.push(']'),
            (None, '{') => closing.push('}'),
            (None, ']' | '}') => {
                closing.pop().filter(|&end| end == c)?;
            }
            (None, ',') if closing.is_empty() => {
                values.push(String::new());
                continue;
            }
            (None, _) => {}
        }
        values.last_mut()?.push(c);
    }
    (quote.is_none() && closing.is_empty())
        .then(|| values.iter().map(|v| v.trim().to_owned()).collect())
}

/// Every model with every combination of values.
pub fn all(models: &[String], vary: &[Vary]) -> Vec<Configuration> {
    let mut list: Vec<Configuration> = models
        .iter()
        .map(|model| Configuration {
            model: model.clone(),
            set: Vec::new(),
        })
        .collect();
    for Vary { key, values } in vary {
        list = list
            .into_iter()
            .flat_map(|configuration| {
                values.iter().map(move |value| {
                    let mut next = configuration.clone();
                    next.set.push((key.clone(), value.clone()));
                    next
                })
            })
            .collect();
    }
    list
}

/// A configuration that takes other values for what its model assumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The configuration.
    pub configuration: Configuration,
    /// What is assumed otherwise: a name or pattern of the model's `[sources]`, and the value.
    pub label: String,
}

/// The model with each of its assumed constants at each end of its range, or at each value that it
/// may have; one pattern of its `[sources]` at a time, the constants of a pattern together. What is
/// assumed without a range stays as it is.
pub fn assumed(model: &str) -> Result<Vec<Alternative>> {
    let constants = Configuration {
        model: model.to_owned(),
        set: Vec::new(),
    }
    .load()?
    .constants;
    let guesses = constants.iter().filter(|constant| constant.source.assumed);
    let mut groups: Vec<(&str, Vec<_>)> = Vec::new();
    for constant in guesses.filter(|constant| !constant.source.range.is_empty()) {
        let group = constant.source.group.as_str();
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, list)) => list.push(constant),
            None => groups.push((group, vec![constant])),
        }
    }
    let mut list = Vec::new();
    for (group, constants) in groups {
        for value in &constants[0].source.range {
            if constants.iter().all(|constant| constant.value == *value) {
                continue;
            }
            let set = constants.iter();
            let configuration = Configuration {
                model: model.to_owned(),
                set: set.map(|c| (c.name.clone(), value.clone())).collect(),
            };
            let label = format!("{group}={}", value.replace('"', ""));
            // A range that the model cannot have is a mistake of its description.
            configuration.load().with_context(|| label.clone())?;
            list.push(Alternative {
                configuration,
                label,
            });
        }
    }
    Ok(list)
}

/// The readings of a model that say what dependences between instructions can cost: each miss waited
/// for before the next instruction, and no instruction waiting for another's result.
pub fn dependences(model: &str) -> Result<Vec<Alternative>> {
    let ends = [("core.rob", "0"), ("core.dependences", "false")];
    let of = |(key, value): (&str, &str)| {
        let configuration = Configuration {
            model: model.to_owned(),
            set: vec![(key.to_owned(), value.to_owned())],
        };
        configuration.load()?;
        let label = format!("{key}={value}");
        Ok(Alternative {
            configuration,
            label,
        })
    };
    ends.into_iter().map(of).collect()
}

/// Which other readings of a model run beside it, to bound its figures.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Bounds {
    /// None: half the time.
    #[default]
    None,
    /// Two: every miss waited for, and no instruction waiting for another.
    Dependences,
    /// These, and each assumed constant at the ends of its range: many times slower.
    Assumed,
}

impl Bounds {
    /// The readings of a model.
    pub fn readings(self, model: &str) -> Result<Vec<Alternative>> {
        let mut readings = match self {
            Bounds::None => Vec::new(),
            Bounds::Dependences => dependences(model)?,
            Bounds::Assumed => [dependences(model)?, assumed(model)?].concat(),
        };
        for reading in &mut readings {
            // It becomes part of a metric's name.
            reading.label.retain(|c| !c.is_whitespace());
        }
        Ok(readings)
    }
}

impl Configuration {
    /// The model as described and changed.
    pub fn load(&self) -> Result<Model> {
        Ok(Model::from_table(&self.name(), self.table()?)?)
    }

    /// Its whole description, without a base.
    pub fn table(&self) -> Result<Table> {
        // With what the bases say: a key may be one that the description itself does not name.
        let mut table = Model::table(&self.model)?;
        for (key, value) in &self.set {
            set(&mut table, key, value).with_context(|| format!("{key}={value}"))?;
            translation::sources::changed(&mut table, key, value);
        }
        Ok(table)
    }

    /// The same from any working directory: a model that is a file by its whole path.
    pub fn absolute(mut self) -> Result<Self> {
        if !Model::builtin_names().any(|name| name == self.model) {
            let path = std::path::absolute(&self.model)
                .with_context(|| format!("cannot tell where {} is", self.model))?;
            self.model = path.display().to_string();
        }
        Ok(self)
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        let mut name = self.model.clone();
        for (key, value) in &self.set {
            name.push_str(&format!(" {key}={value}"));
        }
        name
    }
}

/// Sets a value; a number in the key counts the elements of an array from 0: `tlb.4.ways` or, as
/// errors and `cohort model describe` write it, `tlb[4].ways`.
fn set(table: &mut Table, key: &str, value: &str) -> Result<()> {
    let key = &key.replace('[', ".").replace(']', "");
    let value = match format!("value = {value}").parse::<Table>() {
        Ok(mut parsed) => parsed.remove("value").unwrap_or(Value::Boolean(false)),
        // A word is a text: its quotes would have to be kept from the shell.
        Err(_) => Value::String(value.into()),
    };
    let (last, way) = {
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        (last, parts)
    };
    let mut at: Option<&mut Value> = None;
    for part in way {
        let next = match at {
            None => Some(
                table
                    .entry(part)
                    .or_insert_with(|| Value::Table(Table::new())),
            ),
            Some(Value::Array(list)) => part.parse().ok().and_then(|n: usize| list.get_mut(n)),
            Some(Value::Table(table)) => table.get_mut(part),
            Some(_) => None,
        };
        at = Some(next.with_context(|| format!("the description has no `{part}` there"))?);
    }
    match at {
        None => table.insert(last.into(), value),
        Some(Value::Table(table)) => table.insert(last.into(), value),
        Some(_) => bail!("`{last}` is not the name of a value there"),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vary(text: &str) -> Vary {
        text.parse().unwrap()
    }

    #[test]
    fn every_combination_is_there_once() {
        let models = ["baseline".to_string(), "larger-tlb".to_string()];
        let list = all(
            &models,
            &[vary("core.rob=64,128"), vary("core.clock_mhz=1,2,3")],
        );
        assert_eq!(list.len(), 12);
        let mut names: Vec<_> = list.iter().map(Configuration::name).collect();
        assert_eq!(names[0], "baseline core.rob=64 core.clock_mhz=1");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12);
    }

    #[test]
    fn a_changed_value_is_in_the_model() {
        let mut configuration = Configuration {
            model: "babelfish-isca20".into(),
            set: vec![
                ("core.rob".into(), "64".into()),
                ("tlb.0.entries".into(), "32".into()),
            ],
        };
        let model = configuration.load().unwrap();
        assert_eq!(model.core.rob, 64);
        assert_eq!(model.tlb[0].entries, 32);
        let plain = Model::builtin("babelfish-isca20").unwrap();
        assert_eq!(plain.tlb[1], model.tlb[1]);
        // What does not exist, or cannot be, is refused by name.
        for (key, value, word) in [
            ("tlb.99.entries", "32", "99"),
            ("tlb[0].ways", "5", "tlb[0].ways: 64 entries in 5 ways"),
            ("core.robb", "1", "robb"),
            ("tlb.0.entries", "33", "33"),
            ("name.x", "1", "x"),
        ] {
            configuration.set = vec![(key.into(), value.into())];
            let error = format!("{:#}", configuration.load().unwrap_err());
            assert!(error.contains(word), "{key}: {error}");
        }
    }

    #[test]
    fn what_a_base_says_can_be_varied() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine.toml");
        let text = "name = \"mine\"\nabout = \"a test\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\n[core]\nrob = 32\n";
        std::fs::write(&file, text).unwrap();
        for model in ["baseline".to_string(), file.display().to_string()] {
            let of = |set: &[(&str, &str)]| Configuration {
                model: model.clone(),
                set: set
                    .iter()
                    .map(|(k, v)| (k.to_string(), v.to_string()))
                    .collect(),
            };
            let plain = of(&[]).load().unwrap();
            let set = [
                ("tlb.4.entries", "768"),
                ("cache.l2.kb", "512"),
                ("core.issue_width", "4"),
                ("core.walkers", "2"),
            ];
            let changed = of(&set).load().unwrap();
            assert_eq!(changed.tlb[4].entries, 768);
            assert_eq!(changed.cache.l2.as_ref().map(|l2| l2.kb), Some(512));
            assert_eq!(changed.core.issue_width, 4);
            assert_eq!(changed.core.walkers, 2);
            // What was not named is as it was, in this description and in its bases.
            assert_eq!(
                (changed.core.rob, &changed.tlb[..4]),
                (plain.core.rob, &plain.tlb[..4])
            );
            let error = format!("{:#}", of(&[("babelfish.aslr", "sw")]).load().unwrap_err());
            assert!(error.contains("aslr"), "{error}");
        }
    }

    #[test]
    fn what_every_built_in_model_assumes_can_be_varied() {
        for name in Model::builtin_names() {
            let list = assumed(name).unwrap();
            assert!(list.len() > 5, "{name}: {list:#?}");
            let plain = Model::builtin(name).unwrap();
            for alternative in &list {
                let model = alternative.configuration.load().unwrap();
                let changed = model
                    .constants
                    .iter()
                    .zip(&plain.constants)
                    .filter(|(new, old)| new.value != old.value);
                assert!(changed.count() > 0, "{name}: {}", alternative.label);
            }
        }
        let labels: Vec<_> = assumed("pentium4").unwrap();
        let labels: Vec<_> = labels.iter().map(|other| other.label.as_str()).collect();
        // All caches together, by the pattern; the value that it has is not among them.
        assert!(labels.contains(&"cache.*.replacement=plru"), "{labels:?}");
        assert!(!labels.contains(&"cache.*.replacement=lru"), "{labels:?}");
    }

    #[test]
    fn the_readings_of_every_built_in_model_can_be_written_down_and_read() {
        for name in Model::builtin_names() {
            assert!(Bounds::None.readings(name).unwrap().is_empty());
            let readings = Bounds::Assumed.readings(name).unwrap();
            let labels: Vec<_> = readings.iter().map(|one| one.label.as_str()).collect();
            assert_eq!(labels[..2], ["core.rob=0", "core.dependences=false"]);
            assert!(
                labels.len() > 7 && !labels.concat().contains(' '),
                "{labels:?}"
            );
            for reading in readings {
                let text = reading.configuration.table().unwrap().to_string();
                let read = Model::parse(&reading.label, &text).unwrap();
                let model = reading.configuration.load().unwrap();
                assert_eq!((read.core, read.tlb), (model.core, model.tlb));
                assert_eq!((read.cache, read.memory), (model.cache, model.memory));
            }
        }
    }

    #[test]
    fn a_model_of_a_file_has_its_whole_path() {
        let list = all(
            &["baseline".into(), "./mine.toml".into(), "/m/a.toml".into()],
            &[vary("core.rob=64")],
        );
        let list: Vec<_> = list.into_iter().map(|c| c.absolute().unwrap()).collect();
        let here = std::env::current_dir().unwrap().join("mine.toml");
        let models: Vec<_> = list.iter().map(|c| c.model.as_str()).collect();
        assert_eq!(models, ["baseline", here.to_str().unwrap(), "/m/a.toml"]);
        assert!(list.iter().all(|c| c.set.len() == 1));
    }

    #[test]
    fn what_is_no_variation_is_refused() {
        for text in [
            "core.rob",
            "core.rob=",
            "=1",
            "a..b=1",
            "a=1,,2",
            "a=[1,2",
            "a=1]",
            "a=[1},2",
            "a=\"1,2",
        ] {
            assert!(text.parse::<Vary>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_may_be_a_list_or_a_table() {
        let of = |text| vary(text).values;
        assert_eq!(
            of(r#"tlb.3.pages=["1G"],["2M", "1G"]"#),
            [r#"["1G"]"#, r#"["2M", "1G"]"#]
        );
        assert_eq!(of("about='a, b',\"c]\""), ["'a, b'", "\"c]\""]);
        assert_eq!(
            of("x={ a = 1, b = [2, 3] }, 4"),
            ["{ a = 1, b = [2, 3] }", "4"]
        );
        let varied = all(
            &["pentium4".into()],
            &[vary(r#"tlb.1.pages=["4K"],["4K","2M","4M"]"#)],
        );
        let sizes: Vec<_> = varied
            .iter()
            .map(|c| c.load().unwrap().tlb[1].pages.len())
            .collect();
        assert_eq!(sizes, [1, 3]);
    }
}
