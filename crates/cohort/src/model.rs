// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort model`: what the translation model's descriptions say, and where they have it from.

use crate::output;
use crate::show;
use anyhow::{Context, Result};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde::Serialize;
use translation::Model;
use translation::sources::Constant;

/// Changes when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Arguments of `cohort model`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the built-in models.
    List,
    /// Print every constant of a model with its source, or the word "assumed".
    Describe {
        /// A built-in model's name or a TOML file.
        #[arg(add = ArgValueCandidates::new(names))]
        name: String,
        /// Print assumed constants alone.
        #[arg(long)]
        assumed: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn names() -> Vec<CompletionCandidate> {
    Model::builtin_names()
        .map(CompletionCandidate::new)
        .collect()
}

/// A description as JSON.
#[derive(Serialize)]
struct Described<'a> {
    schema_version: u32,
    name: &'a str,
    about: &'a str,
    constants: Vec<&'a Constant>,
}

/// Runs the subcommand.
pub fn main(args: &Args) -> Result<()> {
    match &args.command {
        Command::List => {
            let rows = Model::builtin_names()
                .map(|name| Ok(vec![name.to_owned(), Model::builtin(name)?.about]))
                .collect::<Result<_>>()?;
            output::print(show::plain(vec!["model".into(), "what".into()], rows))
        }
        Command::Describe {
            name,
            assumed,
            json,
        } => {
            let model = Model::load(name)?;
            let text = match json {
                true => as_json(&model, *assumed)?,
                false => as_table(&model, *assumed),
            };
            output::print(text)
        }
    }
}

fn chosen(model: &Model, assumed: bool) -> Vec<&Constant> {
    let all = model.constants.iter();
    all.filter(|constant| constant.source.assumed || !assumed)
        .collect()
}

fn as_json(model: &Model, assumed: bool) -> Result<String> {
    let described = Described {
        schema_version: SCHEMA_VERSION,
        name: &model.name,
        about: &model.about,
        constants: chosen(model, assumed),
    };
    let text =
        serde_json::to_string_pretty(&described).context("constants that JSON cannot hold")?;
    Ok(text + "\n")
}

/// A table of at most 100 columns, and one sentence with the answer.
fn as_table(model: &Model, assumed: bool) -> String {
    let heading = ["constant", "value", "source"].map(str::to_owned).into();
    let rows = chosen(model, assumed).into_iter().map(|constant| {
        let source = &constant.source;
        let mut text = match (source.assumed, source.text.is_empty()) {
            (false, _) => source.text.clone(),
            (true, true) => "assumed".to_owned(),
            (true, false) => format!("assumed: {}", source.text),
        };
        match source.range.as_slice() {
            [] => {}
            [least, most] if least.parse::<i64>().is_ok() => {
                text.push_str(&format!(" ({least} to {most})"));
            }
            values => text.push_str(&format!(" ({})", values.join(" or ").replace('"', ""))),
        }
        let value = constant.value.replace('"', "");
        vec![constant.name.clone(), value, text]
    });
    let count = model.constants.len();
    let of_those = model.constants.iter();
    let guessed = of_those.filter(|constant| constant.source.assumed).count();
    let table = show::plain(heading, rows.collect());
    format!(
        "{}\n{}\n\n{table}{guessed} of the {count} constants are assumed, {} have a source.\n",
        model.name,
        model.about,
        count - guessed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_of_every_model_is_in_its_table_of_100_columns() {
        for name in Model::builtin_names() {
            let model = Model::builtin(name).unwrap();
            let table = as_table(&model, false);
            for line in table.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            for constant in &model.constants {
                assert!(table.contains(&constant.name), "{name}: {}", constant.name);
            }
            let assumed = as_table(&model, true);
            assert!(assumed.lines().count() < table.lines().count(), "{name}");
        }
    }

    #[test]
    fn json_has_source_and_range() {
        let model = Model::builtin("pentium4").unwrap();
        let json = as_json(&model, false).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let of = |name: &str| {
            let mut constants = json["constants"].as_array().unwrap().iter();
            constants.find(|constant| constant["name"] == name).unwrap()
        };
        assert_eq!(of("cache.l2.cycles")["value"], "7");
        assert_eq!(of("cache.l2.cycles")["assumed"], false);
        assert!(
            of("cache.l2.cycles")["source"]
                .as_str()
                .unwrap()
                .contains("model 3")
        );
        assert_eq!(of("cache.l1d.writes")["value"], "\"through\"");
        assert_eq!(of("memory.cas")["range"], serde_json::json!(["2", "3"]));
    }
}
