// SPDX-License-Identifier: GPL-2.0-or-later
//! Last-level page tables, and what sharing them would save.

use super::base::{Bars, Input, Scope, Section};
use crate::scan::cell::{Column, count, size};
use crate::scan::part::Part;
use cohort_snapshot::count::entries;
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Ptps {
    #[serde(flatten)]
    pub counts: entries::Ptps,
    /// Memory saved if equal tables were kept once, as they are now.
    pub identical_bytes: u64,
    /// Memory saved if Cohort's kernel had forked these processes.
    pub saved_bytes: u64,
    /// Memory saved if besides the first of them had touched all of its memory before it forked.
    pub touched_bytes: u64,
    /// As `identical_bytes`, with code and data in tables apart.
    pub apart_bytes: u64,
}

impl Section for Ptps {
    fn count(input: &Input) -> Ptps {
        let (counts, page) = (input.counts.ptps, input.snapshot.page);
        Ptps {
            counts,
            identical_bytes: (counts.tables - counts.distinct) * page,
            saved_bytes: (counts.tables - counts.kept + counts.uppers_saved) * page,
            touched_bytes: (counts.tables - counts.lineages + counts.uppers_saved) * page,
            apart_bytes: (counts.apart - counts.apart_distinct) * page,
        }
    }

    fn columns(&self) -> Vec<Column> {
        let counts = &self.counts;
        vec![
            Column::count("ptps", "last-level page tables", counts.tables),
            Column::count(
                "same",
                "tables equal to one of another process now",
                counts.identical,
            ),
            Column::count(
                "distinct",
                "tables left if equal ones are kept once",
                counts.distinct,
            ),
            Column::count(
                "left",
                "tables left if Cohort's kernel had forked these processes",
                counts.kept,
            ),
            Column::count(
                "uppers",
                "tables of the level above that this would do without",
                counts.uppers_saved,
            ),
            Column::bytes("saves", "memory that both save", self.saved_bytes),
            Column::count(
                "touched",
                "tables left if the first process had touched all before it forked",
                counts.lineages,
            ),
            Column::bytes(
                "touched-saves",
                "memory that this saves",
                self.touched_bytes,
            ),
            Column::bytes(
                "saves-now",
                "memory saved if equal tables are kept once",
                self.identical_bytes,
            ),
            Column::count("apart", "tables with code and data apart", counts.apart),
            Column::count(
                "apart-same",
                "of those, equal to one of another process",
                counts.apart_identical,
            ),
            Column::bytes(
                "apart-saves",
                "memory saved if equal ones of those are kept once",
                self.apart_bytes,
            ),
        ]
    }

    fn parts(&self, scope: Scope) -> Vec<Part> {
        let counts = &self.counts;
        let mut part = Part::new(
            "Last-level page tables",
            &["", "tables", "equal to another's", "left", "saved"],
        );
        let apart = format!(
            "with code and data apart at {} MB",
            (scope.page_bytes * scope.page_bytes / 8) >> 20
        );
        for (label, tables, same, left, saved) in [
            (
                "as they are",
                counts.tables,
                Some(counts.identical),
                counts.distinct,
                self.identical_bytes,
            ),
            (
                apart.as_str(),
                counts.apart,
                Some(counts.apart_identical),
                counts.apart_distinct,
                self.apart_bytes,
            ),
            (
                "forked by Cohort's kernel",
                counts.tables,
                None,
                counts.kept,
                self.saved_bytes,
            ),
            (
                "and all touched before the first fork",
                counts.tables,
                None,
                counts.lineages,
                self.touched_bytes,
            ),
        ] {
            let same = same.map_or("-".into(), count);
            part.row(label, &[count(tables), same, count(left), size(saved)]);
        }
        if counts.uppers_saved > 0 {
            let saved = size(counts.uppers_saved * scope.page_bytes);
            let cells = [String::new(), String::new(), String::new(), saved];
            part.row("of that, tables of the level above", &cells);
        }
        vec![part]
    }

    fn bars(&self) -> Option<Bars> {
        Some(Bars {
            title: "Last-level page tables",
            unit: "tables",
            bars: vec![
                ("now", self.counts.tables),
                ("left if equal ones are kept once", self.counts.distinct),
                ("left if Cohort's kernel had forked them", self.counts.kept),
            ],
        })
    }
}
