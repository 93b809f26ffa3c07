// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::lab::experiment::made_from::tests::fake;
use crate::lab::experiment::report::tests::results;
use crate::show::browser;
use std::path::Path;

fn of(lab: &Lab) -> Vec<(String, String)> {
    pages(lab, &Papers::of(lab).unwrap()).unwrap()
}

/// The pages of this checkout.
fn own() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    of(&Lab::find(Some(root)).unwrap())
}

#[test]
fn the_pages_are_whole_and_ask_for_nothing_from_outside() {
    let (_dir, lab) = fake();
    files::write(&lab.path("experiments/later.toml"), b"").unwrap();
    assert!(of(&lab).is_empty());

    let json = serde_json::to_string(&results()).unwrap();
    files::write(&lab.out("results/demo.json"), json.as_bytes()).unwrap();
    let pages = of(&lab);
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["report.html", "report/beyond.html"]);
    assert!(pages[0].1.contains("Not run yet: later."), "{}", pages[0].1);
    let page = &pages[1].1;
    assert!(page.contains("<svg") && page.contains("the last run in this checkout"));
    assert!(page.contains("old (of change 0123456789ab)"), "{page}");
    assert!(!page.contains("Flame graphs"), "{page}");
    files::write(&lab.out("profile/demo.html"), b"").unwrap();
    assert!(of(&lab)[1].1.contains("href=\"../profile/demo.html\""));
    for (_, html) in pages.iter().chain(&own()) {
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}

#[test]
fn an_experiment_that_has_not_run_is_shown_by_its_kept_result() {
    let pages = own();
    assert!(pages.len() > 4, "{}", pages.len());
    for (name, html) in &pages[1..] {
        assert!(html.contains("<svg") && html.contains("aims met"), "{name}");
    }
    let kept = pages
        .iter()
        .any(|(_, html)| html.contains("a kept result: Linux"));
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/results");
    assert!(kept || out.exists());
    // The summary leads to every page, and every page back.
    for (name, html) in &pages[1..] {
        assert!(pages[0].1.contains(&format!("href=\"{name}#")), "{name}");
        assert!(html.contains("href=\"../report.html\""), "{name}");
    }
}

#[test]
fn the_papers_values_are_drawn() {
    let pages = own();
    let (_, page) = pages
        .iter()
        .find(|(name, _)| name.contains("eurosys16"))
        .unwrap();
    for text in ["paper, mean: 38", "paper 47.6"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn no_label_covers_another_on_a_telephone_or_a_screen() {
    let dir = tempfile::tempdir().unwrap();
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let mut all = files::with_suffix(&pictures, ".svg").unwrap();
    for (name, html) in own() {
        let file = dir.path().join(name);
        // What is folded is looked at too.
        let open = html.replace("<details>", "<details open>");
        files::write(&file, open.as_bytes()).unwrap();
        all.push(file);
    }
    browser::check(&all);
}
