// SPDX-License-Identifier: GPL-2.0-or-later
//! The map of this repository, and of papers that are made up.

use super::*;
use std::path::PathBuf;

fn here() -> Lab {
    Lab {
        root: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."),
        tarball: PathBuf::new(),
    }
}

fn experiments(lab: &Lab, papers: &Papers) -> Vec<Experiment> {
    let names = definition::names(lab).unwrap().into_iter();
    names
        .map(|name| definition::load(lab, &name, papers).unwrap())
        .collect()
}

#[test]
fn every_measurement_of_the_papers_has_an_experiment_or_a_sentence() {
    let lab = here();
    let papers = Papers::of(&lab).unwrap();
    let sentences = parse(&files::read(&lab.path(SENTENCES)).unwrap()).unwrap();
    let found = faults(&papers, &experiments(&lab, &papers), &sentences);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_map_of_this_repository_fits_a_page() {
    let lab = here();
    let map = map(&lab).unwrap();
    let text = text(&map, &Papers::of(&lab).unwrap());
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert_eq!(map.items.len(), Papers::of(&lab).unwrap().items().len());
}

/// Four measurements and a drawing.
const PAPERS: &str = r#"
[[paper]]
id = "p"
title = "A Paper"
authors = "N. N."
venue = "Conf 2000"
about = ""
[[item]]
id = "p.t4"
kind = "table"
title = "the cost of a fork"
values = [{ name = "speed-up", value = 2.1 }]
[[item]]
id = "p.abstract"
kind = "claim"
title = "summary"
[[item]]
id = "p.f2"
kind = "figure"
title = "area"
[[item]]
id = "p.f3"
kind = "figure"
title = "unheard of"
[[item]]
id = "p.f1"
kind = "figure"
experiment = "schematic"
title = "a drawing"
"#;

const SAID: &str = r#"
[[item]]
id = "p.abstract"
same = ["p.t4"]
[[item]]
id = "p.f2"
cannot = "There is no chip."
"#;

fn made_up() -> (Papers, Vec<Experiment>) {
    let experiment: Experiment = toml::from_str(definition::tests::GOOD).unwrap();
    (Papers::parse(PAPERS).unwrap(), vec![experiment])
}

#[test]
fn a_measurement_without_experiment_and_sentence_is_a_fault() {
    let (papers, experiments) = made_up();
    let found = |said: &str| faults(&papers, &experiments, &parse(said).unwrap());
    assert_eq!(found(SAID).len(), 1);
    assert!(found(SAID)[0].contains("p.f3"), "{:?}", found(SAID));
    let missing = "[[item]]\nid = \"p.f3\"\nmissing = \"It needs a year.\"\n";
    assert!(found(&format!("{SAID}{missing}")).is_empty());
    // What is measured needs no excuse, and neither does a drawing.
    for id in ["p.t4", "p.f1"] {
        let more = format!("{SAID}{missing}[[item]]\nid = \"{id}\"\ncannot = \"No.\"\n");
        assert!(found(&more)[0].contains(id));
    }
}

#[test]
fn a_sentence_is_one_of_three() {
    let item = |rest: &str| parse(&format!("[[item]]\nid = \"p.f2\"\n{rest}"));
    assert!(item("note = \"a\"\ncannot = \"b\"").is_ok());
    assert!(item("").is_err());
    assert!(item("missing = \"a\"\ncannot = \"b\"").is_err());
    assert!(item("cannot = \"a\"\n[[item]]\nid = \"p.f2\"\ncannot = \"b\"").is_err());
}

#[test]
fn an_item_has_the_worst_verdict_of_its_figures_and_of_those_that_it_repeats() {
    let (papers, experiments) = made_up();
    let map = Map::new(&papers, &experiments, &[], &parse(SAID).unwrap());
    let verdict = |id: &str| map.items.iter().find(|it| it.id == id).unwrap().verdict;
    assert_eq!(verdict("p.t4"), Some(Verdict::NotRun));
    assert_eq!(verdict("p.abstract"), Some(Verdict::NotRun));
    assert_eq!(verdict("p.f2"), Some(Verdict::Cannot));
    assert_eq!(verdict("p.f1"), None);
    let row = Row {
        experiment: "demo".into(),
        name: "speed-up".into(),
        unit: "x".into(),
        paper: Some(2.1),
        measured: Some(3.5),
        range: None,
        aim: ">= 3".into(),
        verdict: Verdict::Met,
        why: None,
        old: None,
    };
    let missed = Row {
        verdict: Verdict::Missed,
        ..row.clone()
    };
    let of = |rows: Vec<Row>| {
        let rows = [("p.t4", rows)].into();
        let sentences = parse(SAID).unwrap();
        Mapped::new(papers.item("p.abstract").unwrap(), &rows, &sentences).verdict
    };
    assert_eq!(of(vec![row.clone()]), Some(Verdict::Met));
    assert_eq!(of(vec![row, missed]), Some(Verdict::Missed));
}

#[test]
fn the_tables_say_what_the_paper_says_and_what_we_say() {
    let (papers, experiments) = made_up();
    let map = Map::new(&papers, &experiments, &[], &parse(SAID).unwrap());
    let text = text(&map, &papers);
    assert!(text.starts_with("A Paper (Conf 2000)\n"), "{text}");
    assert!(text.contains("f2: There is no chip."), "{text}");
    assert!(text.contains("abstract: repeats t4."), "{text}");
    assert!(!text.contains("a drawing"), "{text}");
    let noted = "[[item]]\nid = \"p.f1\"\nnote = \"Ours is blue.\"\n";
    let noted = Map::new(&papers, &experiments, &[], &parse(noted).unwrap());
    assert!(super::text(&noted, &papers).contains("f1: Ours is blue."));
    assert!(
        text.ends_with(
            "Of 4 items with a measurement: 0 met, 0 missed, 3 not run, 1 cannot. \
             1 more have nothing to measure.\n"
        ),
        "{text}"
    );
    let json = serde_json::to_value(&map).unwrap();
    assert_eq!(json["items"][0]["figures"][0]["paper"], 2.1);
    assert_eq!(json["items"][2]["verdict"], "cannot");
    assert_eq!(json["counts"]["not-run"], 3);
}
