// SPDX-License-Identifier: GPL-2.0-or-later
//! The job that the guest's init runs: one step per line.

use anyhow::{Result, bail};

/// One step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// A word; the report is by this name.
    pub name: String,
    /// Seconds of guest time that it may take.
    pub timeout: u64,
    /// The command.
    pub command: String,
}

impl Step {
    /// A step from its three parts.
    pub fn new(name: impl Into<String>, timeout: u64, command: impl Into<String>) -> Self {
        Step {
            name: name.into(),
            timeout,
            command: command.into(),
        }
    }
}

/// Writes steps in the guest's format; an error if the format cannot carry one.
pub fn write(steps: &[Step]) -> Result<String> {
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        if step.name.is_empty() || step.name.contains(char::is_whitespace) {
            bail!("the step's name `{}` must be one word", step.name);
        }
        if steps[..number].iter().any(|other| other.name == step.name) {
            bail!("two steps are named {}", step.name);
        }
        if step.command.trim().is_empty() || step.command.contains('\n') {
            bail!(
                "the command of step {} must be one line that is not empty",
                step.name
            );
        }
        text.push_str(&format!(
            "{}\t{}\t{}\n",
            step.name, step.timeout, step.command
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_line_of_three_fields() {
        let steps = [
            Step::new("stock.1", 30, "fork-cost --mb 4"),
            Step::new("shared", 5, "echo a | wc"),
        ];
        assert_eq!(
            write(&steps).unwrap(),
            "stock.1\t30\tfork-cost --mb 4\nshared\t5\techo a | wc\n"
        );
    }

    #[test]
    fn what_the_format_cannot_carry_is_an_error() {
        for step in [
            Step::new("two words", 1, "true"),
            Step::new("", 1, "true"),
            Step::new("a", 1, " "),
            Step::new("a", 1, "one\ntwo"),
        ] {
            assert!(write(std::slice::from_ref(&step)).is_err(), "{step:?}");
        }
        let twice = [Step::new("a", 1, "true"), Step::new("a", 1, "true")];
        assert!(write(&twice).unwrap_err().to_string().contains("named a"));
    }
}
