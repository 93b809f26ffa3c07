// SPDX-License-Identifier: GPL-2.0-or-later
//! What entries map, and the memory that the kernel charges for it.
//!
//! The figures are at two places of the JSON, so there are two sections: the first prints the part,
//! the second has the columns of both.

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, count, percent, size};
use crate::scan::part::Part;
use cohort_snapshot::count::entries::Contents as Counts;
use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Contents {
    #[serde(flatten)]
    pub counts: Counts,
    #[serde(skip)]
    memory: Memory,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Memory {
    pub resident_bytes: u64,
    pub proportional_bytes: u64,
    /// Page tables of all levels, as the kernel counts them.
    pub table_bytes: u64,
    #[serde(skip)]
    contents: Counts,
}

impl Section for Contents {
    fn count(input: &Input) -> Contents {
        Contents {
            counts: input.counts.contents,
            memory: Memory::count(input),
        }
    }

    fn parts(&self, scope: Scope) -> Vec<Part> {
        let counts = &self.counts;
        let mut part = Part::new("What entries map", &["", "entries", "%"]);
        for (label, value) in [
            ("private memory", counts.private),
            ("to be copied when written", counts.cow),
            ("merged", counts.ksm),
            ("files", counts.file),
            ("shared memory", counts.shared),
            ("the zero page", counts.zero),
            ("the kernel's and devices'", counts.special),
            ("swap", counts.swapped),
            ("huge pages", counts.huge),
        ] {
            if value > 0 {
                let share = percent(value as f64, counts.total() as f64);
                part.row(label, &[count(value), share]);
            }
        }
        for (label, cell) in [
            ("memory charged", size(self.memory.resident_bytes)),
            (
                "its proportional share",
                size(self.memory.proportional_bytes),
            ),
            ("bytes in a page", count(scope.page_bytes)),
        ] {
            part.row(label, &[cell, String::new()]);
        }
        vec![part]
    }
}

impl Section for Memory {
    fn count(input: &Input) -> Memory {
        let (counts, page) = (input.counts, input.snapshot.page);
        Memory {
            resident_bytes: counts.resident * page,
            // In 4096ths of a page, a sum that may not fit into 64 bits as bytes.
            proportional_bytes: ((u128::from(counts.proportional) * u128::from(page)) >> 12) as u64,
            table_bytes: input.sum(|process| process.identity.table_bytes),
            contents: counts.contents,
        }
    }

    fn columns(&self) -> Vec<Column> {
        let contents = &self.contents;
        vec![
            Column::count("private", "anonymous pages mapped once", contents.private),
            Column::count(
                "cow",
                "anonymous pages to be copied when written",
                contents.cow,
            ),
            Column::count("ksm", "merged pages", contents.ksm),
            Column::count("file", "pages of files in private regions", contents.file),
            Column::count("shared", "pages of shared regions", contents.shared),
            Column::count("zero", "entries of the zero page", contents.zero),
            Column::count(
                "special",
                "the kernel's pages and devices'",
                contents.special,
            ),
            Column::bytes(
                "rss",
                "memory charged to the processes",
                self.resident_bytes,
            ),
            Column::bytes("pss", "the processes' share of it", self.proportional_bytes),
            Column::bytes(
                "tables",
                "page tables of all levels, as the kernel counts them",
                self.table_bytes,
            ),
        ]
    }
}
