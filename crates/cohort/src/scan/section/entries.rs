// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries of page tables, by class (BabelFish, Figure 9).

use super::base::{Bars, Input, Scope, Section};
use crate::scan::cell::{Column, count, percent};
use crate::scan::paper;
use crate::scan::part::Part;
use crate::show::number;
use cohort_snapshot::count::active::{Active, Watched};
use cohort_snapshot::count::entries::Entries as Classes;
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Entries {
    pub total: u64,
    #[serde(flatten)]
    pub classes: Classes,
    /// Different entries among the shareable ones.
    pub distinct: u64,
    /// Left if each is kept once.
    pub once: u64,
    /// Those used in the interval, where one was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
}

impl Entries {
    /// Percent of entries that would go if each was kept once, to one digit behind the point.
    pub fn duplicates(&self) -> f64 {
        let percent = 100.0 * (self.total - self.once) as f64 / self.total.max(1) as f64;
        (percent * 10.0).round() / 10.0
    }
}

impl Section for Entries {
    fn count(input: &Input) -> Entries {
        let counts = input.counts;
        Entries {
            total: counts.entries.total(),
            classes: counts.entries,
            distinct: counts.distinct,
            once: counts.once(),
            active: counts.active,
        }
    }

    fn columns(&self) -> Vec<Column> {
        let classes = &self.classes;
        vec![
            Column::count(
                "entries",
                "entries of page tables, those of huge pages and swap included",
                self.total,
            ),
            Column::count(
                "shareable",
                "entries equal to one of another process of the group",
                classes.shareable,
            ),
            Column::count("unshareable", "entries equal to none", classes.unshareable),
            Column::count("huge", "entries of huge pages", classes.huge),
            Column::count("swapped", "entries of swap", classes.swapped),
            Column::count(
                "unknown",
                "entries that cannot be compared as frames are hidden",
                classes.unknown,
            ),
            Column::count("once", "entries left if each is kept once", self.once),
            Column::percent(
                "dup%",
                "percent of entries that would go",
                self.duplicates(),
            ),
        ]
    }

    fn parts(&self, _: Scope) -> Vec<Part> {
        let mut part = Part::new("Entries", &["", "entries", "%"]).after(paper::BABELFISH_9);
        let total = self.total as f64;
        for (label, value) in [
            ("shareable", self.classes.shareable),
            ("unshareable", self.classes.unshareable),
            ("huge", self.classes.huge),
            ("in swap", self.classes.swapped),
            ("unknown, as frames are hidden", self.classes.unknown),
            ("total", self.total),
            ("left if each is kept once", self.once),
        ] {
            part.row(label, &[count(value), percent(value as f64, total)]);
        }
        if let Some(active) = &self.active {
            let label = match active.by {
                Watched::Frames => "active, known frame by frame",
                Watched::Regions => "active, known region by region",
            };
            for (label, value) in [
                (label, active.total),
                ("active and shareable, at least", active.shareable_low),
                ("active and shareable, at most", active.shareable_high),
                ("active, about, if each is kept once", active.once),
            ] {
                part.row(label, &[number(value.round()), percent(value, total)]);
            }
        }
        vec![part]
    }

    fn bars(&self) -> Option<Bars> {
        Some(Bars {
            title: "Entries by class",
            unit: "entries",
            bars: vec![
                ("shareable", self.classes.shareable),
                ("unshareable", self.classes.unshareable),
                ("huge", self.classes.huge),
                ("left if each is kept once", self.once),
            ],
        })
    }
}

/// The columns of [`Entries::active`], which stand behind those of memory.
#[derive(Debug, Clone, Default)]
pub struct ActiveColumns(Option<Active>);

impl Section for ActiveColumns {
    fn count(input: &Input) -> ActiveColumns {
        ActiveColumns(input.counts.active)
    }

    fn columns(&self) -> Vec<Column> {
        let of = |pick: fn(&Active) -> f64| self.0.as_ref().map(pick);
        vec![
            Column::maybe(
                "active",
                "entries used in the interval",
                of(|active| active.total),
            ),
            Column::maybe(
                "active-frames",
                "1 if it is known which frames were used, 0 if only how many of each region",
                of(|active| f64::from(u8::from(active.by == Watched::Frames))),
            ),
            Column::maybe(
                "active-least",
                "of those, shareable at least",
                of(|active| active.shareable_low),
            ),
            Column::maybe(
                "active-most",
                "of those, shareable at most",
                of(|active| active.shareable_high),
            ),
            Column::maybe(
                "active-once",
                "about as many left if each is kept once",
                of(|active| active.once),
            ),
        ]
    }
}
