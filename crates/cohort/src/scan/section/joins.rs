// SPDX-License-Identifier: GPL-2.0-or-later
//! What processes that were not forked from one another would save by sharing tables, where that
//! was asked for.

use super::base::{Input, Scope, Section};
use crate::scan::cell::{Column, count, percent, shorten, size};
use crate::scan::part::Part;
use cohort_snapshot::count::group::Group;
use cohort_snapshot::count::joins::{self, File, Joins, Layout, PIECES_MAX, Same, Shared};
use cohort_snapshot::model::{Frames, Snapshot};
use serde::Serialize;

/// Pairs of groups and files in the JSON.
const LISTED: usize = 100;
/// Those in a part.
const ROWS: usize = 10;

/// What was asked for: how large the read-only part of a library must be, in KB, for its first
/// written page to begin a table.
#[derive(Debug, Clone, Copy)]
pub struct Boundary(pub u64);

impl Boundary {
    fn pages(self, snapshot: &Snapshot) -> u64 {
        (self.0 << 10).div_ceil(snapshot.page)
    }
}

/// Two groups that would use tables in common.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pair {
    /// Labels.
    pub groups: [String; 2],
    /// Tables that both would use, where mappings lie now.
    pub tables: u64,
    /// Tables of libraries that both would use at places of all groups.
    pub placed: u64,
}

/// What groups would share with each other.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JoinsReport {
    pub boundary_bytes: u64,
    pub pieces_max: u32,
    /// Zero pages count as private data, and files are told apart by device and inode.
    pub frames_hidden: bool,
    /// Pages that were left out count as holes.
    pub regions_left_out: bool,
    /// Tables that need not exist as another group has them.
    pub between: u64,
    /// The same for tables of libraries at places of all groups.
    pub between_placed: u64,
    pub pairs: Vec<Pair>,
    pub files: Vec<File>,
    /// Label, processes and figures of the groups to be shown.
    #[serde(skip)]
    rows: Vec<(String, usize, Joins)>,
}

/// None unless it was asked for, and then put in by [`JoinsReport::new`].
impl Section for Option<Joins> {
    fn count(_: &Input) -> Option<Joins> {
        None
    }

    fn columns(&self) -> Vec<Column> {
        let of = |pick: fn(&Joins) -> u64| self.as_ref().map(|joins| pick(joins) as f64);
        let part = |part: fn(&Joins) -> u64, whole: fn(&Joins) -> u64| {
            let joins = self.as_ref()?;
            Some(100.0 * part(joins) as f64 / (whole(joins) as f64).max(1.0))
        };
        vec![
            Column::maybe(
                "file-ptps",
                "tables with a page of a file (--joins)",
                of(|joins| joins.file_tables),
            ),
            Column::maybe(
                "clean-ptps",
                "of those, without private data",
                of(|joins| joins.clean),
            ),
            Column::maybe(
                "mixed-ptps",
                "of those, with private data in the same 2 MB",
                of(|joins| joins.mixed),
            ),
            Column::maybe(
                "clean-pieces",
                "most pieces of a clean table",
                of(|joins| joins.clean_pieces.most),
            ),
            Column::maybe(
                "join-address",
                "tables saved if processes not forked from one another share, at equal addresses",
                of(|joins| joins.same_address.saved),
            ),
            Column::maybe(
                "join-mapping",
                "tables saved at congruent addresses, if one mapping covers the 2 MB",
                of(|joins| joins.one_mapping.saved),
            ),
            Column::maybe(
                "join-file",
                "tables saved at congruent addresses, if one file covers the 2 MB",
                of(|joins| joins.one_file.saved),
            ),
            Column::maybe(
                "joins",
                "tables saved at congruent addresses, of at most 4 pieces",
                of(|joins| joins.pieces.saved),
            ),
            Column::maybe_percent(
                "join-found%",
                "entries of files that newcomers would find by that",
                part(|joins| joins.pieces.found, |joins| joins.entries),
            ),
            Column::maybe_percent(
                "mixed-found%",
                "entries that they would find if tables with private data were kept as well",
                part(|joins| joins.mixed_found, |joins| joins.entries),
            ),
            Column::maybe(
                "library-ptps",
                "tables of libraries",
                of(|joins| joins.places.now.tables),
            ),
            Column::maybe(
                "packed-left",
                "tables of libraries left if each has one place in the group",
                of(|joins| joins.places.packed.left),
            ),
            Column::maybe_percent(
                "packed-found%",
                "entries of libraries that newcomers would find by that",
                part(
                    |joins| joins.places.packed.shared.found,
                    |joins| joins.places.entries,
                ),
            ),
            Column::maybe(
                "places-left",
                "tables of libraries left if besides large ones have their data in other tables",
                of(|joins| joins.places.boundary.left),
            ),
            Column::maybe_percent(
                "places-found%",
                "entries of libraries that newcomers would find by that",
                part(
                    |joins| joins.places.boundary.shared.found,
                    |joins| joins.places.entries,
                ),
            ),
        ]
    }

    fn parts(&self, scope: Scope) -> Vec<Part> {
        match self {
            Some(joins) => vec![rules(joins, scope), pieces(joins), layouts(joins)],
            None => Vec::new(),
        }
    }
}

/// What all processes save by each rule.
fn rules(joins: &Joins, scope: Scope) -> Part {
    let heading = [
        "",
        "in common",
        "saved",
        "memory",
        "% of files'",
        "found",
        "%",
    ];
    let title = format!(
        "Tables that processes not forked from one another would share, of {} with pages of files",
        count(joins.file_tables)
    );
    let mut part = Part::new(&title, &heading);
    let row = |part: &mut Part, label: &str, shared: Shared| {
        part.row(
            label,
            &[
                count(shared.tables),
                count(shared.saved),
                size(shared.saved * scope.page_bytes),
                percent(shared.saved as f64, joins.file_tables as f64),
                count(shared.found),
                percent(shared.found as f64, joins.entries as f64),
            ],
        );
    };
    row(&mut part, "at equal addresses", joins.same_address);
    row(&mut part, "congruent, one mapping", joins.one_mapping);
    row(&mut part, "congruent, one file", joins.one_file);
    let pieces = format!("congruent, at most {PIECES_MAX} pieces");
    row(&mut part, &pieces, joins.pieces);
    let none = || String::from("-");
    let found = percent(joins.mixed_found as f64, joins.entries as f64);
    part.row(
        "and private data kept apart",
        &[
            none(),
            none(),
            none(),
            none(),
            count(joins.mixed_found),
            found,
        ],
    );
    part
}

fn pieces(joins: &Joins) -> Part {
    let heading = [
        "", "tables", "1", "2 to 4", "5 to 8", "9 to 16", "more", "most",
    ];
    let mut part = Part::new("Pieces of tables with pages of files", &heading);
    for (label, tables, pieces) in [
        ("without private data", joins.clean, joins.clean_pieces),
        ("with private data", joins.mixed, joins.mixed_pieces),
    ] {
        let cells = [
            tables,
            pieces.one,
            pieces.up_to_4,
            pieces.up_to_8,
            pieces.up_to_16,
            pieces.more,
            pieces.most,
        ];
        part.row(label, &cells.map(count));
    }
    part
}

fn layouts(joins: &Joins) -> Part {
    let places = &joins.places;
    let title = format!("Tables of {} libraries", count(places.libraries));
    let heading = ["", "tables", "left", "entries found", "%"];
    let mut part = Part::new(&title, &heading);
    let boundary = format!(
        "and data of the {} large ones apart",
        count(places.at_boundary)
    );
    let each: [(&str, Layout); 3] = [
        ("where they lie", places.now),
        ("at one place each", places.packed),
        (&boundary, places.boundary),
    ];
    for (label, layout) in each {
        let found = layout.shared.found;
        part.row(
            label,
            &[
                count(layout.tables),
                count(layout.left),
                count(found),
                percent(found as f64, places.entries as f64),
            ],
        );
    }
    part
}

impl JoinsReport {
    /// Also returns what was counted of all processes and of each group. The parts show at most
    /// `rows` groups.
    pub fn new(
        snapshot: &Snapshot,
        groups: &[Group],
        boundary: Boundary,
        rows: usize,
    ) -> (JoinsReport, Joins, Vec<Joins>) {
        let same = Same::new(snapshot);
        let pages = boundary.pages(snapshot);
        let of = |members: &[usize]| joins::count(snapshot, &same, members, pages);
        let all = of(&(0..snapshot.processes.len()).collect::<Vec<_>>());
        let each: Vec<Joins> = groups.iter().map(|group| of(&group.members)).collect();
        let members: Vec<&[usize]> = groups.iter().map(|group| &group.members[..]).collect();
        let found = joins::between(snapshot, &same, &members, pages);
        let label = |group: usize| groups[group].label.clone();
        let pairs = found.pairs.iter().take(LISTED).map(|pair| Pair {
            groups: pair.groups.map(label),
            tables: pair.tables,
            placed: pair.placed,
        });
        let mut shown: Vec<(String, usize, Joins)> = groups
            .iter()
            .zip(&each)
            .map(|(group, joins)| (group.label.clone(), group.members.len(), *joins))
            .collect();
        shown.sort_by_key(|(_, _, joins)| {
            let saved = joins.pieces.saved.max(joins.same_address.saved);
            std::cmp::Reverse((saved, joins.file_tables))
        });
        shown.truncate(rows);
        let report = JoinsReport {
            boundary_bytes: boundary.0 << 10,
            pieces_max: PIECES_MAX,
            frames_hidden: snapshot.frames == Frames::Hidden,
            regions_left_out: snapshot.regions_left_out,
            between: found.saved,
            between_placed: found.placed,
            pairs: pairs.collect(),
            files: found.files.into_iter().take(LISTED).collect(),
            rows: shown,
        };
        (report, all, each)
    }

    /// Those of the groups; all processes have parts of their own, see [`Section::parts`].
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = vec![self.groups()];
        if self.between > 0 || self.between_placed > 0 {
            parts.push(self.between());
            parts.push(self.files());
        }
        parts
    }

    fn groups(&self) -> Part {
        let heading = [
            "",
            "procs",
            "ptps",
            "of files",
            "clean",
            "same address %",
            "one mapping %",
            "one file %",
            "4 pieces %",
            "found %",
        ];
        let title = "Tables saved by joining, in % of those of files, by group";
        let mut part = Part::new(title, &heading);
        for (label, processes, joins) in &self.rows {
            let saved = |shared: Shared| percent(shared.saved as f64, joins.file_tables as f64);
            part.row(
                label,
                &[
                    count(*processes as u64),
                    count(joins.tables),
                    count(joins.file_tables),
                    count(joins.clean),
                    saved(joins.same_address),
                    saved(joins.one_mapping),
                    saved(joins.one_file),
                    saved(joins.pieces),
                    percent(joins.pieces.found as f64, joins.entries as f64),
                ],
            );
        }
        part
    }

    fn between(&self) -> Part {
        let heading = ["", "and", "tables in common", "of libraries, at places"];
        let mut part = Part::new("Tables that groups would use in common", &heading);
        for pair in self.pairs.iter().take(ROWS) {
            let [one, other] = &pair.groups;
            let cells = [shorten(other, 34), count(pair.tables), count(pair.placed)];
            part.row(one, &cells);
        }
        let cells = [
            String::new(),
            count(self.between),
            count(self.between_placed),
        ];
        part.row("saved between all groups", &cells);
        part
    }

    fn files(&self) -> Part {
        let heading = ["", "groups", "saved", "as a library, at places"];
        let mut part = Part::new("Files in those tables", &heading);
        for file in self.files.iter().take(ROWS) {
            let cells = [file.groups, file.saved, file.placed];
            part.row(&file.path, &cells.map(count));
        }
        part
    }

    /// What is missing from the figures.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.frames_hidden {
            notes.push(
                "Joins: lower bounds, as page frames are hidden: zero pages count as private data, \
                 and a file that containers map through two overlays as two; run it as root."
                    .into(),
            );
        }
        if self.regions_left_out {
            notes.push(
                "Joins: upper bounds, as --mapping leaves out what else lies in the same tables."
                    .into(),
            );
        }
        notes
    }
}

/// The sentence of the answer.
pub fn sentence(joins: &Joins, page_bytes: u64) -> String {
    if joins.pieces.saved == 0 {
        return "No process could join a table of one that it was not forked from.".into();
    }
    format!(
        "If processes joined tables of others that they were not forked from, {} tables ({}) would \
         not be needed, {} % of those with pages of files, and {} % of the entries of these pages \
         would be there already.",
        count(joins.pieces.saved),
        size(joins.pieces.saved * page_bytes),
        percent(joins.pieces.saved as f64, joins.file_tables as f64),
        percent(joins.pieces.found as f64, joins.entries as f64),
    )
}
