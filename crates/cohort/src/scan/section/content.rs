// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages that are equal in content, where contents were looked at (selective memory deduplication,
//! Figures 5 to 7, Tables II and III).

use super::base::{Input, Section};
use crate::scan::cell::{Column, count, percent, shorten, size};
use crate::scan::metrics::Metrics;
use crate::scan::paper;
use crate::scan::part::Part;
use cohort_snapshot::count::content::{Content, Pages, Program};
use serde::Serialize;

/// Equal pages (selective memory deduplication, Figures 5 to 7, Tables II and III).
#[derive(Debug, Clone, Default, Serialize)]
pub struct ContentReport {
    /// What the last look found.
    pub last: Content,
    /// For each look but the first, how alike each program's profile was to the one before
    /// (Jaccard's index).
    pub stability: Vec<Vec<(String, f64)>>,
    /// How alike the profiles of two programs are.
    pub similarity: Vec<(String, String, f64)>,
}

/// What merging would find in a group. A page is equal to one of any process, in the group or not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Merging {
    #[serde(flatten)]
    pub pages: Pages,
    /// Memory that merging would free; of all processes only, as a page freed is no group's alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<u64>,
    /// The profile of the program, where all members run one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// How alike its profile was from look to look, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<f64>,
}

/// None until [`ContentReport::of`] is put in: contents are read after everything is counted.
impl Section for Option<Merging> {
    fn count(_: &Input) -> Option<Merging> {
        None
    }

    fn columns(&self) -> Vec<Column> {
        let of = |pick: fn(&Merging) -> Option<f64>| self.as_ref().and_then(pick);
        vec![
            Column::maybe(
                "merge-read",
                "anonymous pages whose contents were read (--content)",
                of(|merging| Some(merging.pages.mergeable as f64)),
            ),
            Column::maybe(
                "merge-equal",
                "of those, equal to a page in another frame",
                of(|merging| Some(merging.pages.equal as f64)),
            ),
            Column::maybe(
                "merge-same-page",
                "of those, with a copy at the same virtual page",
                of(|merging| Some(merging.pages.same_address as f64)),
            ),
            Column::maybe(
                "merge-zeros",
                "equal pages that are zeros",
                of(|merging| Some(merging.pages.zeros as f64)),
            ),
            Column::maybe(
                "merge-changed",
                "pages that changed while they were compared",
                of(|merging| Some(merging.pages.changed as f64)),
            ),
            Column::maybe(
                "merge-unreadable",
                "anonymous pages that could not be read",
                of(|merging| Some(merging.pages.unreadable as f64)),
            ),
            Column::maybe_bytes(
                "merge-frees",
                "memory that merging would free, of all processes",
                self.as_ref().and_then(|merging| merging.freed_bytes),
            ),
            Column::maybe(
                "merge-profile",
                "virtual pages that are likely to merge, of the one program",
                of(|merging| Some(merging.program.as_ref()?.profile as f64)),
            ),
            Column::maybe_percent(
                "merge-skipped%",
                "what a scan by this profile would skip",
                of(|merging| Some(merging.program.as_ref()?.skipped_percent)),
            ),
            Column::maybe_percent(
                "merge-in-vain%",
                "what a common profile would scan in vain",
                of(|merging| Some(merging.program.as_ref()?.false_positive_percent)),
            ),
            Column::maybe(
                "merge-stability",
                "how alike the profile was from look to look (Jaccard)",
                of(|merging| merging.stability),
            ),
        ]
    }
}

impl ContentReport {
    /// How alike a program's profile was to that of the look before, on average.
    pub fn stability_of(&self, program: &str) -> Option<f64> {
        let looks = self.stability.iter().flatten();
        let alike: Vec<f64> = looks
            .filter(|(name, _)| name == program)
            .map(|(_, alike)| *alike)
            .collect();
        (!alike.is_empty()).then(|| alike.iter().sum::<f64>() / alike.len() as f64)
    }

    /// What concerns a group: its processes, and the program that all of them run.
    pub fn of(&self, pids: &[i32], program: Option<&str>) -> Merging {
        let mut merging = Merging::default();
        for pid in pids {
            merging.pages += self.last.processes.get(pid).copied().unwrap_or_default();
        }
        if let Some(name) = program {
            let programs = &mut self.last.programs.iter();
            merging.program = programs.find(|program| program.name == name).cloned();
            merging.stability = self.stability_of(name);
        }
        merging
    }

    /// `page` is the bytes of a page.
    pub fn parts(&self, page: u64) -> Vec<Part> {
        let last = &self.last;
        let mut equal =
            Part::new("Pages equal in content", &["", "pages", "%"]).after(paper::MERGING);
        for (label, value) in [
            ("anonymous pages that were read", last.mergeable),
            ("equal to a page in another frame", last.equal),
            (
                "of those, with a copy at the same virtual page",
                last.same_address,
            ),
            ("of those, zeros", last.zeros),
            ("changed while they were compared", last.changed),
            ("could not be read", last.unreadable),
        ] {
            equal.row(
                label,
                &[count(value), percent(value as f64, last.mergeable as f64)],
            );
        }
        let freed = last.frames_saved * page;
        equal.row(
            "memory that merging would free",
            &[size(freed), String::new()],
        );
        for (kind, pages) in &last.kinds {
            let cells = [count(*pages), percent(*pages as f64, last.mergeable as f64)];
            equal.row(&format!("equal pages in {}", kind.label()), &cells);
        }
        let heading = [
            "",
            "mergeable",
            "profile",
            "skipped %",
            "in vain %",
            "stability",
        ];
        let mut programs = Part::new(
            "Virtual pages that are likely to merge, by program",
            &heading,
        );
        for program in last.programs.iter().take(12) {
            let stability = self
                .stability_of(&program.name)
                .map_or("-".into(), |alike| format!("{alike:.2}"));
            programs.row(
                &shorten(&program.name, 26),
                &[
                    count(program.mergeable),
                    count(program.profile),
                    format!("{:.1}", program.skipped_percent),
                    format!("{:.1}", program.false_positive_percent),
                    stability,
                ],
            );
        }
        let mut alike = Part::new(
            "Programs with the most alike profiles",
            &["", "and", "similarity"],
        );
        let mut pairs: Vec<_> = self.similarity.iter().collect();
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2));
        for (one, other, similarity) in pairs.into_iter().take(8) {
            alike.row(
                &shorten(one, 40),
                &[shorten(other, 40), format!("{similarity:.2}")],
            );
        }
        vec![equal, programs, alike]
    }

    pub fn metrics(&self, text: &mut Metrics, page: u64) {
        let last = &self.last;
        text.family(
            "content_pages",
            "",
            "anonymous pages by what their contents are",
        );
        for (state, pages) in [
            ("mergeable", last.mergeable),
            ("equal", last.equal),
            ("same_address", last.same_address),
            ("zeros", last.zeros),
            ("changed", last.changed),
            ("unreadable", last.unreadable),
        ] {
            text.sample(&[("state", state)], pages as f64);
        }
        text.family("content_freed", "bytes", "memory that merging would free");
        text.sample(&[], (last.frames_saved * page) as f64);
        text.family("content_equal_pages", "", "equal pages by kind of region");
        for (kind, pages) in &last.kinds {
            text.sample(&[("kind", kind.label())], *pages as f64);
        }
        type Pick = fn(&Program) -> f64;
        let picks: [(&str, &str, &str, Pick); 4] = [
            (
                "content_mergeable",
                "",
                "virtual pages that may merge, by program",
                |p| p.mergeable as f64,
            ),
            ("content_profile", "", "of those, equal to another", |p| {
                p.profile as f64
            }),
            (
                "content_skipped",
                "percent",
                "what a scan by the profile would skip",
                |p| p.skipped_percent,
            ),
            (
                "content_in_vain",
                "percent",
                "what a common profile would scan in vain",
                |p| p.false_positive_percent,
            ),
        ];
        for (name, unit, help, pick) in picks {
            text.family(name, unit, help);
            for program in &last.programs {
                text.sample(&[("program", &program.name)], pick(program));
            }
        }
        text.family(
            "content_stability",
            "",
            "how alike a profile was to the look before (Jaccard)",
        );
        for (look, programs) in self.stability.iter().enumerate() {
            for (program, alike) in programs {
                let look = (look + 2).to_string();
                text.sample(&[("program", program), ("look", &look)], *alike);
            }
        }
        text.family(
            "content_similarity",
            "",
            "how alike the profiles of two programs are",
        );
        for (one, other, alike) in &self.similarity {
            text.sample(&[("program", one), ("other", other)], *alike);
        }
    }
}
