// SPDX-License-Identifier: GPL-2.0-or-later
//! The output in the form that was asked for.

use super::args::{Output, Show};
use super::cell::size;
use super::report::Report;
use super::{export, html, table};
use crate::show::number;
use anyhow::Result;
use cohort_snapshot::count::active::Watched;

/// The output; `watching` puts an object of JSON on one line.
pub fn render(report: &Report, show: &Show, watching: bool) -> Result<String> {
    let output = if show.json { Output::Json } else { show.output };
    Ok(match output {
        Output::Json if watching => serde_json::to_string(report)? + "\n",
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
        Output::Csv => export::csv(report, show)?,
        Output::Openmetrics => export::openmetrics(report),
        Output::Html => html::page(report, show)?,
        Output::Table => {
            let mut text = table::groups(report, show)?;
            text.push('\n');
            if show.details || report.content.is_some() {
                for part in report.parts() {
                    text.push_str(&part.text());
                    text.push('\n');
                }
            }
            text.push_str(&notes(report));
            text.push_str(&wrap(&report.answer));
            text
        }
    })
}

fn notes(report: &Report) -> String {
    let mut text = String::new();
    if let Some(cost) = &report.cost {
        text.push_str(&format!(
            "Read {} pages in {:.2} s: {:.2} s of processor time, {} of memory at most.\n",
            number(cost.pages as f64),
            cost.seconds,
            cost.cpu_seconds,
            size(cost.peak_bytes)
        ));
    }
    text.push_str(match report.total.entries.active.map(|active| active.by) {
        Some(Watched::Frames) => {
            "Active entries: known frame by frame, from the kernel's idle page tracking.\n"
        }
        Some(Watched::Regions) => {
            "Active entries: known region by region, as no idle page tracking is to be had here.\n"
        }
        None => "",
    });
    if let Some(ratio) = report.consistency.pss_over_kernel {
        text.push_str(&format!(
            "Proportional set size: {:.2} % of what the kernel's smaps says.\n",
            100.0 * ratio
        ));
    }
    text
}

/// Breaks a sentence into lines of at most 100 columns.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_string());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
