// SPDX-License-Identifier: GPL-2.0-or-later
//! A group's report in sections. A section is one file: its figures, columns, parts and plots.
//!
//! To add one, write a file beside these, name it below, and give it a line in the table.

mod base;
mod code;
mod content;
mod entries;
mod fork;
mod joins;
mod larger_pages;
mod memory;
mod ptps;
mod regions;

pub use base::{Bars, Scope, Section};
pub use content::{ContentReport, Merging};
pub use joins::{Boundary, JoinsReport};

use super::cell::{Column, Value};
use super::metrics::Metrics;
use super::part::Part;
use anyhow::{Result, bail};
use base::Input;
use cohort_snapshot::count::code::Zygotes;
use cohort_snapshot::count::content::program_of;
use cohort_snapshot::count::entries as counts;
use cohort_snapshot::count::group::Group;
use cohort_snapshot::count::joins::Joins;
use cohort_snapshot::model::Snapshot;
use serde::Serialize;

/// Makes the report of a group from a line per section: its name in the JSON and its type.
macro_rules! sections {
    ($($(#[$attribute:meta])* $name:ident: $section:ty,)*) => {
        /// What was found about a group.
        #[derive(Debug, Clone, Default, Serialize)]
        pub struct GroupReport {
            pub name: String,
            /// The name, with a number where several groups have it; the same after a restart.
            pub label: String,
            /// The process that the others descend from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub root: Option<i32>,
            pub processes: usize,
            pub pids: Vec<i32>,
            $($(#[$attribute])* pub $name: $section,)*
            /// The program of all members, if they have one.
            #[serde(skip)]
            pub program: Option<String>,
        }

        impl GroupReport {
            fn count(input: &Input) -> GroupReport {
                GroupReport {
                    $($name: <$section>::count(input),)*
                    ..GroupReport::default()
                }
            }

            /// In the order of the table.
            pub fn sections(&self) -> Vec<&dyn Section> {
                vec![$(&self.$name,)*]
            }
        }
    };
}

// In the order of the JSON, of the columns and of the parts.
sections! {
    entries: entries::Entries,
    contents: memory::Contents,
    ptps: ptps::Ptps,
    fork: fork::Fork,
    #[serde(flatten)]
    memory: memory::Memory,
    #[serde(skip)]
    active: entries::ActiveColumns,
    code: code::Code,
    larger_pages: larger_pages::LargerPages,
    regions: regions::Regions,
    #[serde(skip_serializing_if = "Option::is_none")]
    joins: Option<Joins>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merging: Option<Merging>,
}

impl GroupReport {
    pub fn new(snapshot: &Snapshot, zygotes: &Zygotes, group: &Group) -> GroupReport {
        let identities = || {
            let members = group.members.iter();
            members.map(|&place| &snapshot.processes[place].identity)
        };
        let mut names = identities().map(program_of);
        let first = names.next();
        let same = names.all(|name| Some(name) == first);
        GroupReport {
            name: group.name.clone(),
            label: group.label.clone(),
            root: group.root,
            processes: group.members.len(),
            pids: identities().map(|identity| identity.pid).collect(),
            program: first.filter(|_| same).map(str::to_string),
            ..GroupReport::count(&Input {
                snapshot,
                zygotes,
                group,
                counts: &counts::count(snapshot, &group.members),
            })
        }
    }

    /// The columns of all sections. Their names are the same for every group.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::text(
                "group",
                "what its processes have in common, or the first one's command line",
                &self.label,
            ),
            Column::new(
                "pid",
                "the first process, where groups are made of trees",
                match self.root {
                    Some(pid) => Value::Text(pid.to_string()),
                    None => Value::None,
                },
            ),
            Column::count("procs", "processes", self.processes as u64),
        ];
        let sections = self.sections().into_iter();
        columns.extend(sections.flat_map(|section| section.columns()));
        columns
    }

    /// The values of the columns at `places`.
    pub fn values(&self, places: &[usize]) -> Vec<Value> {
        let columns = self.columns();
        let value = |place: &usize| columns[*place].value.clone();
        places.iter().map(value).collect()
    }

    pub fn parts(&self, page_bytes: u64) -> Vec<Part> {
        let scope = Scope {
            processes: self.processes,
            page_bytes,
        };
        let sections = self.sections().into_iter();
        sections.flat_map(|section| section.parts(scope)).collect()
    }

    /// The parts that are about joining alone.
    pub fn join_parts(&self, page_bytes: u64) -> Vec<Part> {
        self.joins.parts(Scope {
            processes: self.processes,
            page_bytes,
        })
    }

    /// What joining would save, in a sentence, where that was asked for.
    pub fn join_sentence(&self, page_bytes: u64) -> Option<String> {
        Some(joins::sentence(self.joins.as_ref()?, page_bytes))
    }

    pub fn metrics(&self, text: &mut Metrics) {
        for section in self.sections() {
            section.metrics(text);
        }
    }
}

/// Where a column stands in [`GroupReport::columns`]; the error lists all.
pub fn place(name: &str) -> Result<usize> {
    let columns = GroupReport::default().columns();
    match columns.iter().position(|column| column.name == name) {
        Some(place) => Ok(place),
        None => bail!("there is no column {name}; there are:\n{}", help()),
    }
}

/// All columns and what they hold.
pub fn help() -> String {
    GroupReport::default()
        .columns()
        .iter()
        .map(|column| format!("  {:18} {}\n", column.name, column.help))
        .collect()
}
