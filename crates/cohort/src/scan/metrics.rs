// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes OpenMetrics' text format.

use super::cell::clean;

/// Families of gauges, each with all of its samples behind its heading.
#[derive(Default)]
pub struct Metrics {
    text: String,
    name: String,
}

impl Metrics {
    /// Begins a family of gauges, to which all samples belong until the next.
    pub fn family(&mut self, name: &str, unit: &str, help: &str) {
        self.name = match unit {
            "" => format!("cohort_scan_{name}"),
            unit => format!("cohort_scan_{name}_{unit}"),
        };
        let name = &self.name;
        self.text
            .push_str(&format!("# TYPE {name} gauge\n# HELP {name} {help}\n"));
        if !unit.is_empty() {
            self.text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
    }

    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        self.text
            .push_str(&format!("{}{labels} {value}\n", self.name));
    }

    pub fn finish(self) -> String {
        self.text + "# EOF\n"
    }
}

fn escape(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"")
}
