// SPDX-License-Identifier: GPL-2.0-or-later
//! What the load is and what may be left of it, `guest/soak/load.toml`.

use crate::lab::Lab;
use crate::lab::guest::protocol::Metric;
use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Where the load and the guest's scripts are.
pub const DIR: &str = "guest/soak";

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The guest's memory in MB.
    pub memory: u64,
    /// The memory control group's limit, as the kernel reads it.
    pub group: String,
    /// The phases, one after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
    /// The metrics that are compared.
    #[serde(rename = "limit")]
    pub limits: Vec<Limit>,
}

/// Stressors that run at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// One word.
    pub name: String,
    pub reason: String,
    /// Of stress-ng.
    pub options: String,
}

/// The difference that one metric may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The metric's name.
    pub name: String,
    /// It may have grown by this, in the metric's unit.
    more: Option<u64>,
    /// It may have shrunk by this.
    less: Option<u64>,
    /// Why not 0, or why 0.
    reason: String,
}

impl Limit {
    /// A sentence that says by how much the last value exceeds its limits against the first.
    pub fn exceeded(&self, metric: &Metric) -> Vec<String> {
        let (Some(first), Some(last)) = (metric.values.first(), metric.values.last()) else {
            return vec!["it was not measured".into()];
        };
        let grown = last - first;
        let good = self.more.is_none_or(|more| grown <= more as f64)
            && self.less.is_none_or(|less| -grown <= less as f64);
        if good {
            return Vec::new();
        }
        vec![
            format!("{first} before and {last} after, in {}", metric.unit),
            format!("round by round: {:?}", metric.values),
            format!("allowed for: {}", self.reason),
        ]
    }

    /// The limit in words.
    pub fn allowed(&self) -> String {
        match (self.more, self.less) {
            (Some(more), _) => format!("at most {more} more"),
            (None, Some(less)) => format!("at most {less} less"),
            (None, None) => String::new(),
        }
    }
}

/// Reads and checks the file.
pub fn load(lab: &Lab) -> Result<Load> {
    let path = lab.path(DIR).join("load.toml");
    let load = parse(&files::read(&path)?);
    load.with_context(|| format!("{} is not a description of a load", path.display()))
}

/// Reads and checks a load.
pub fn parse(text: &str) -> Result<Load> {
    let load: Load = toml::from_str(text)?;
    for (number, phase) in load.phases.iter().enumerate() {
        let Phase { name, options, .. } = phase;
        if name.is_empty() || name.contains(char::is_whitespace) {
            bail!("a phase's name must be one word: `{name}`");
        }
        if load.phases[..number]
            .iter()
            .any(|other| other.name == *name)
        {
            bail!("two phases are named {name}");
        }
        if options.trim().is_empty() || options.contains('\n') {
            bail!("the options of phase {name} must be one line");
        }
    }
    if load.phases.is_empty() {
        bail!("it has no phase");
    }
    for limit in &load.limits {
        if limit.reason.trim().is_empty() || limit.more.is_some() == limit.less.is_some() {
            bail!(
                "the limit {} needs a reason, and either `more` or `less`",
                limit.name
            );
        }
    }
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Limit {
        toml::from_str(&format!("name = 'a'\nreason = 'r'\n{text}")).unwrap()
    }

    fn metric(values: &[f64]) -> Metric {
        Metric {
            unit: "kB".into(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn the_load_of_the_checkout_is_good() {
        let load = parse(include_str!("../../../../../../guest/soak/load.toml")).unwrap();
        for name in ["fork", "vm", "mmap", "tlb"] {
            assert!(load.phases.iter().any(|phase| phase.name == name), "{name}");
        }
    }

    #[test]
    fn first_and_last_are_compared_up_to_the_limit() {
        let more = limit("more = 10");
        assert!(more.exceeded(&metric(&[5.0, 99.0, 15.0])).is_empty());
        assert!(more.exceeded(&metric(&[50.0, 1.0])).is_empty());
        let notes = more.exceeded(&metric(&[5.0, 16.0]));
        assert!(
            notes[0].contains("16") && notes[2].contains('r'),
            "{notes:?}"
        );
        let less = limit("less = 10");
        assert!(less.exceeded(&metric(&[50.0, 40.0])).is_empty());
        assert_eq!(less.exceeded(&metric(&[50.0, 39.0])).len(), 3);
        assert!(!less.exceeded(&metric(&[])).is_empty());
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_name() {
        let good = "memory = 1\ngroup = '1M'\n[[phase]]\nname = 'a'\nreason = 'r'\n\
            options = '--a 1'\n";
        let limit = "[[limit]]\nname = 'MemFree'\n";
        let whole = "[[limit]]\nname = 'MemFree'\nmore = 1\nreason = 'r'\n";
        let cases = [
            (good.replace("'a'", "'a b'") + whole, "a b"),
            (good.replace("'--a 1'", "' '") + whole, "phase a"),
            (format!("{good}{limit}reason = 'r'\n"), "MemFree"),
            (format!("{good}{limit}reason = ''\nmore = 1\n"), "MemFree"),
            (format!("{good}{limit}reason = 'r'\nmore = -1\n"), "-1"),
        ];
        for (text, word) in cases {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(word), "{error} has no {word}");
        }
    }
}
