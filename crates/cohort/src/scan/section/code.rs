// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages of code: where they come from, which ran, and how much of them processes have in common
//! (EuroSys'16, Figures 2 and 3, Tables 1 and 2).

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, Value, percent, shorten};
use crate::scan::paper;
use crate::scan::part::Part;
use crate::show::number;
use cohort_snapshot::count::code::{self, Footprint, Origins, Sampled};
use serde::Serialize;

/// Processes whose code is compared pair by pair: those with most of it.
const PAIRS: usize = 8;

/// Code (EuroSys'16, Figure 2 and Table 2).
#[derive(Debug, Clone, Default, Serialize)]
pub struct Code {
    /// Pages in memory, added up over the processes.
    pub pages: Origins,
    /// Of those, pages used in the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Origins>,
    /// Where the processes were found running, where that was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    pub shared_percent: f64,
    /// How much of each one's code the others have.
    pub overlap: Overlap,
}

/// Percent of the code of the process in the row that the one in the column has as well.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overlap {
    pub processes: Vec<String>,
    /// Preloaded code, and all; for a process with itself it says how much is preloaded.
    pub percent: Vec<Vec<(f64, f64)>>,
    /// Means over all pairs, if there are any.
    pub mean_preloaded: Option<f64>,
    pub mean_all: Option<f64>,
}

impl Section for Code {
    fn count(input: &Input) -> Code {
        let (snapshot, zygotes) = (input.snapshot, input.zygotes);
        let (mut pages, mut used) = (Origins::default(), None::<Origins>);
        let mut sampled = None::<Sampled>;
        for &place in &input.group.members {
            let (all, active) = code::origins(snapshot, zygotes, place);
            pages += all;
            if let Some(active) = active {
                *used.get_or_insert_default() += active;
            }
            if let Some(found) = code::sampled(snapshot, zygotes, place) {
                *sampled.get_or_insert_default() += found;
            }
        }
        Code {
            pages,
            used,
            sampled,
            shared_percent: pages.shared_percent(),
            overlap: Overlap::new(input),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::new(
                "code",
                "pages of code in memory",
                Value::Count(self.pages.total()),
            ),
            Column::new(
                "code-preloaded",
                "of those, of libraries that the tree's first process has",
                Value::Count(self.pages.preloaded),
            ),
            Column::new(
                "code-loaded",
                "of other libraries",
                Value::Count(self.pages.loaded),
            ),
            Column::new(
                "code-program",
                "of the main program",
                Value::Count(self.pages.program),
            ),
            Column::new(
                "code-generated",
                "made at run time",
                Value::Count(self.pages.generated),
            ),
            Column::maybe(
                "code-used",
                "pages of code used in the interval",
                self.used.map(|used| used.total()),
            ),
            Column::maybe_percent(
                "overlap%",
                "percent of its code that another process has, on average",
                self.overlap.mean_all,
            ),
            Column::maybe_percent(
                "overlap-preloaded%",
                "of that, preloaded",
                self.overlap.mean_preloaded,
            ),
            Column::maybe(
                "samples-user",
                "samples outside of the kernel",
                self.sampled.map(|found| found.user()),
            ),
            Column::maybe(
                "samples-kernel",
                "samples in the kernel",
                self.sampled.map(|found| found.kernel as f64),
            ),
            Column::maybe(
                "samples-preloaded",
                "samples in preloaded libraries",
                self.sampled.map(|found| found.instructions.preloaded),
            ),
            Column::maybe(
                "samples-loaded",
                "samples in other libraries",
                self.sampled.map(|found| found.instructions.loaded),
            ),
            Column::maybe(
                "samples-program",
                "samples in the main program",
                self.sampled.map(|found| found.instructions.program),
            ),
            Column::maybe(
                "samples-generated",
                "samples in code made at run time",
                self.sampled.map(|found| found.instructions.generated),
            ),
            Column::maybe(
                "samples-pages",
                "pages of code with at least one",
                self.sampled.map(|found| found.pages.total()),
            ),
        ]
    }

    fn parts(&self, _: Scope) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.pages.total() > 0.0 {
            parts.push(self.origins());
        }
        if let Some(sampled) = &self.sampled {
            parts.push(samples(sampled));
        }
        if self.overlap.processes.len() > 1 {
            parts.push(overlap(&self.overlap));
        }
        parts
    }
}

impl Code {
    fn origins(&self) -> Part {
        let mut heading = vec!["", "pages", "%"];
        if self.used.is_some() {
            heading.extend(["used", "% of used"]);
        }
        let mut part = Part::new("Pages of code", &heading).after(paper::EUROSYS_2);
        let used = self.used.unwrap_or_default();
        for (label, pages, active) in [
            ("preloaded libraries", self.pages.preloaded, used.preloaded),
            ("other libraries", self.pages.loaded, used.loaded),
            ("main program", self.pages.program, used.program),
            ("made at run time", self.pages.generated, used.generated),
        ] {
            let mut cells = vec![number(pages), percent(pages, self.pages.total())];
            if self.used.is_some() {
                cells.extend([number(active), percent(active, used.total())]);
            }
            part.row(label, &cells);
        }
        part
    }
}

fn samples(sampled: &Sampled) -> Part {
    let mut part = Part::new(
        "Samples of the processors",
        &["", "samples", "%", "pages", "%"],
    )
    .after(paper::EUROSYS_SAMPLES);
    let user = sampled.user();
    let (kernel, elsewhere) = (sampled.kernel as f64, sampled.elsewhere as f64);
    for (label, samples) in [("user", user), ("kernel", kernel)] {
        let share = percent(samples, user + kernel);
        part.row(
            label,
            &[number(samples), share, String::new(), String::new()],
        );
    }
    let (samples, pages) = (sampled.instructions, sampled.pages);
    for (label, samples, pages) in [
        (
            "preloaded libraries",
            samples.preloaded,
            Some(pages.preloaded),
        ),
        ("other libraries", samples.loaded, Some(pages.loaded)),
        ("main program", samples.program, Some(pages.program)),
        ("made at run time", samples.generated, Some(pages.generated)),
        ("elsewhere", elsewhere, None),
    ] {
        let in_pages = pages.map_or([String::new(), String::new()], |pages| {
            [number(pages), percent(pages, sampled.pages.total())]
        });
        let [count, share] = in_pages;
        part.row(
            &format!("user: {label}"),
            &[number(samples), percent(samples, user), count, share],
        );
    }
    part
}

fn overlap(overlap: &Overlap) -> Part {
    let title = format!(
        "% of the row's code that the column has: preloaded (all); mean {:.1} ({:.1})",
        overlap.mean_preloaded.unwrap_or_default(),
        overlap.mean_all.unwrap_or_default()
    );
    let columns = overlap.processes.len().min(5);
    let mut part = Part::new(&title, &[""]).after(paper::EUROSYS_TABLE_2);
    let pid = |name: &str| {
        let pid = name.rsplit('(').next().unwrap_or(name);
        pid.trim_end_matches(')').to_string()
    };
    part.heading
        .extend(overlap.processes[..columns].iter().map(|name| pid(name)));
    for (row, (name, cells)) in overlap.processes.iter().zip(&overlap.percent).enumerate() {
        let cells: Vec<String> = cells[..columns]
            .iter()
            .enumerate()
            .map(|(column, (preloaded, all))| match column == row {
                true => "-".into(),
                false => format!("{preloaded:.1} ({all:.1})"),
            })
            .collect();
        part.row(&shorten(name, 18), &cells);
    }
    part
}

impl Overlap {
    fn new(input: &Input) -> Overlap {
        let (snapshot, zygotes) = (input.snapshot, input.zygotes);
        let code = |place: &usize| -> u64 {
            let regions = &snapshot.processes[*place].regions;
            let code = regions.iter().filter(|region| region.kind.code());
            code.map(|region| u64::from(region.present)).sum()
        };
        // Of each program the process with most code first, then the rest.
        let mut places = input.group.members.clone();
        places.sort_by_key(|place| std::cmp::Reverse(code(place)));
        let mut seen = std::collections::HashSet::new();
        let (first, others): (Vec<usize>, Vec<usize>) = places
            .into_iter()
            .partition(|place| seen.insert(&snapshot.processes[*place].identity.exe));
        let places: Vec<usize> = first.into_iter().chain(others).take(PAIRS).collect();
        let prints: Vec<Footprint> = places
            .iter()
            .map(|place| Footprint::new(snapshot, zygotes, *place))
            .collect();
        let percent: Vec<Vec<(f64, f64)>> = prints
            .iter()
            .map(|row| prints.iter().map(|column| row.overlap(column)).collect())
            .collect();
        let pairs: Vec<(f64, f64)> = percent
            .iter()
            .enumerate()
            .flat_map(|(row, cells)| {
                let others = cells
                    .iter()
                    .enumerate()
                    .filter(move |(column, _)| *column != row);
                others.map(|(_, cell)| *cell)
            })
            .collect();
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            let sum: f64 = pairs.iter().map(pick).sum();
            (!pairs.is_empty()).then(|| sum / pairs.len() as f64)
        };
        Overlap {
            processes: places
                .iter()
                .map(|place| {
                    let identity = &snapshot.processes[*place].identity;
                    format!("{} ({})", identity.name, identity.pid)
                })
                .collect(),
            mean_preloaded: mean(|pair| pair.0),
            mean_all: mean(|pair| pair.1),
            percent,
        }
    }
}
