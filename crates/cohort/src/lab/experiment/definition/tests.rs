// SPDX-License-Identifier: GPL-2.0-or-later
//! Definitions that are read, and those that are refused.

use super::*;
use std::path::PathBuf;

/// An experiment in which all checks pass validation.
pub const GOOD: &str = r#"
name = "demo"
title = "A demonstration"
about = "Two ways."
paper = ["p.t4"]
[guest]
memory = 256
icount = true
timeout = 60
[[variant]]
name = "stock"
setup = ["put /sys/a never"]
command = "fork-cost"
rounds = 2
[[variant]]
name = "pure"
kernel = "pristine"
command = "fork-cost"
timeout = 5
[[check]]
name = "speed-up"
unit = "x"
measured = "min(stock:fork) / min(pure:fork)"
paper = "p.t4/speed-up"
aim = { op = ">=", value = 3 }
[[figure]]
title = "Table 4"
kind = "table"
x = ["stock", "pure"]
series = [{ label = "fork", y = "min({x}:fork)" }]
"#;

/// What its paper says.
pub const PAPERS: &str = "[[item]]\nid = \"p.t4\"\nvalues = [ { name = \"speed-up\", value = 2.1 \
        }, { name = \"words\", value = \"many\" } ]\n";

fn fake(text: &str) -> (tempfile::TempDir, Lab) {
    let (dir, lab) = Lab::fake();
    files::write(&lab.path("experiments/demo.toml"), text.as_bytes()).unwrap();
    files::write(&lab.path("papers/figures.toml"), PAPERS.as_bytes()).unwrap();
    (dir, lab)
}

fn error_of(text: &str) -> String {
    let (_dir, lab) = fake(text);
    let papers = Papers::of(&lab).unwrap();
    format!("{:#}", load(&lab, "demo", &papers).unwrap_err())
}

#[test]
fn an_experiment_is_read_and_becomes_jobs() {
    let (_dir, lab) = fake(GOOD);
    let papers = Papers::of(&lab).unwrap();
    assert_eq!(papers.get("p.t4/speed-up"), Some(Some(2.1)));
    assert_eq!(papers.get("p.t4/words"), Some(None));
    assert_eq!(papers.get("p.t4/none"), None);
    let experiment = load(&lab, "demo", &papers).unwrap();
    assert_eq!(experiment.kernels(), [Config::Bench, Config::Pristine]);
    let boots = experiment.boots();
    assert_eq!(boots.len(), 2);
    assert_eq!(boots[0].name, "demo-bench");
    let steps: Vec<_> = boots[0].steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(steps, ["stock.setup-1", "stock.1", "stock.2"]);
    assert_eq!(boots[1].kernel, Config::Pristine);
    assert_eq!(boots[1].steps[0].timeout, 5);
    let (_dir, disk) = fake(&GOOD.replace("memory = 256", "memory = 256\nrootfs = \"base\""));
    let disk = load(&disk, "demo", &papers).unwrap();
    assert_eq!(disk.boots()[1].steps[0].timeout, 500);
    assert_eq!(super::names(&lab).unwrap(), ["demo"]);
}

#[test]
fn an_experiment_like_another_says_what_differs() {
    let (_dir, lab) = fake(GOOD);
    let papers = Papers::of(&lab).unwrap();
    let write = |text: &str| {
        let text = format!("name = \"demo-armv7\"\n{text}");
        files::write(&lab.path("experiments/demo-armv7.toml"), text.as_bytes()).unwrap();
        load(&lab, "demo-armv7", &papers)
    };
    let found = write("like = \"demo\"\ntitle = \"Here\"\n[guest]\narch = \"armv7\"\n").unwrap();
    assert_eq!(
        (found.title.as_str(), found.about.as_str()),
        ("Here", "Two ways.")
    );
    assert_eq!((found.guest.arch.name, found.guest.memory), ("armv7", 256));
    assert_eq!(found.variants.len(), 2);
    assert!(found.words().contains("fork-cost") && found.words().contains("put"));
    let error = |text: &str| format!("{:#}", write(text).unwrap_err());
    assert!(error("like = \"none\"\n").contains("no such experiment"));
    assert!(error("like = \"demo-armv7\"\n").contains("which is like it"));
    assert!(error("like = \"demo\"\n[guest]\narch = \"z80\"\n").contains("z80"));
}

#[test]
fn a_mistake_is_said_to_be_of_the_file_that_has_it() {
    let like = "name = \"demo-armv7\"\nlike = \"demo\"\n";
    let error = |demo: &str, own: &str| {
        let (_dir, lab) = fake(demo);
        let papers = Papers::of(&lab).unwrap();
        files::write(&lab.path("experiments/demo-armv7.toml"), own.as_bytes()).unwrap();
        format!("{:#}", load(&lab, "demo-armv7", &papers).unwrap_err())
    };
    for (demo, why) in [
        (format!("nosuch = 1\n{GOOD}"), "line 1,"),
        (GOOD.replace("rounds = 2", "rounds = "), "line 14,"),
        (GOOD.replace("rounds = 2", "rounds = 0"), "no rounds"),
    ] {
        let error = error(&demo, like);
        assert!(
            error.contains("demo.toml") && error.contains(why),
            "{error}"
        );
        assert!(!error.contains("demo-armv7"), "{error}");
    }
    // The line of the merged text is in no file.
    let error = error(GOOD, &format!("{like}nosuch = 1\n"));
    assert!(
        error.contains("demo-armv7.toml") && error.contains("nosuch"),
        "{error}"
    );
    assert!(!error.contains("line"), "{error}");
}

#[test]
fn an_experiment_may_be_like_one_that_is_like_another() {
    let (_dir, lab) = fake(GOOD);
    let papers = Papers::of(&lab).unwrap();
    let write = |name: &str, text: &str| {
        let text = format!("name = \"{name}\"\n{text}");
        files::write(
            &lab.path(&format!("experiments/{name}.toml")),
            text.as_bytes(),
        )
        .unwrap();
    };
    write(
        "nearer",
        "like = \"demo\"\ntitle = \"Here\"\n[guest]\nmemory = 300\n",
    );
    write("nearest", "like = \"nearer\"\n[guest]\narch = \"armv7\"\n");
    let found = load(&lab, "nearest", &papers).unwrap();
    assert_eq!(
        (found.name.as_str(), found.title.as_str()),
        ("nearest", "Here")
    );
    assert_eq!((found.guest.arch.name, found.guest.memory), ("armv7", 300));
    write("nearer", "like = \"nearest\"\n");
    let error = format!("{:#}", load(&lab, "nearest", &papers).unwrap_err());
    assert!(error.contains("which is like it"), "{error}");
}

#[test]
fn variants_of_one_kernel_share_a_boot_unless_each_is_to_have_its_own() {
    let shared = GOOD.replace("kernel = \"pristine\"\n", "");
    let fresh = shared.replace("timeout = 60", "timeout = 60\nfresh = true");
    let boots = |text: &str| -> Vec<(String, Vec<String>)> {
        let (_dir, lab) = fake(text);
        let experiment = load(&lab, "demo", &Papers::of(&lab).unwrap()).unwrap();
        let boots = experiment.boots().into_iter();
        boots
            .map(|boot| {
                let variants = boot.variants.iter().map(|v| v.name.clone());
                (boot.name, variants.collect())
            })
            .collect()
    };
    let both = vec!["stock".to_string(), "pure".to_string()];
    assert_eq!(boots(&shared), [("demo-bench".into(), both)]);
    assert_eq!(
        boots(&fresh),
        [
            ("demo-stock".into(), vec!["stock".to_string()]),
            ("demo-pure".into(), vec!["pure".to_string()])
        ]
    );
}

#[test]
fn an_experiment_without_icount_runs_five_times() {
    let runs = |text: &str| {
        let (_dir, lab) = fake(text);
        let experiment = load(&lab, "demo", &Papers::of(&lab).unwrap());
        experiment.map(|experiment| experiment.runs())
    };
    assert_eq!(runs(GOOD).unwrap(), 1);
    let without = GOOD.replace("icount = true\n", "");
    assert_eq!(runs(&without).unwrap(), 5);
    let says = |number: u32| without.replace("[guest]", &format!("runs = {number}\n[guest]"));
    assert_eq!(runs(&says(9)).unwrap(), 9);
    let error = format!("{:#}", runs(&says(2)).unwrap_err());
    assert!(error.contains("at least 5"), "{error}");
}

#[test]
fn a_variant_may_have_words_for_its_kernel() {
    let text = GOOD
        .replace(
            "timeout = 60",
            "timeout = 60\nfresh = true\ncmdline = \"a=1\"",
        )
        .replace("timeout = 5", "timeout = 5\ncmdline = \"b=2\"");
    let (_dir, lab) = fake(&text);
    let experiment = load(&lab, "demo", &Papers::of(&lab).unwrap()).unwrap();
    let words: Vec<Vec<String>> = experiment
        .boots()
        .iter()
        .map(|boot| boot.cmdline.split_whitespace().map(String::from).collect())
        .collect();
    assert_eq!(words, [vec!["a=1"], vec!["a=1", "b=2"]]);
}

#[test]
fn under_a_model_a_variant_may_have_less_to_do() {
    let text = GOOD.replacen(
        "command = \"fork-cost\"",
        "command = \"fork-cost\"\nmodel_command = \"fork-cost --rounds 1\"",
        1,
    );
    let (_dir, lab) = fake(&text);
    let papers = Papers::of(&lab).unwrap();
    let commands = |experiment: &Experiment| -> Vec<String> {
        let variants = experiment.variants.iter();
        variants.map(|v| v.command.clone()).collect()
    };
    let plain = load(&lab, "demo", &papers).unwrap();
    assert_eq!(commands(&plain), ["fork-cost", "fork-cost"]);
    assert!(!plain.guest.fresh);
    let modelled = plain.modelled();
    assert_eq!(commands(&modelled), ["fork-cost --rounds 1", "fork-cost"]);
    // What one variant leaves in the model's TLBs is not the next one's.
    assert!(modelled.guest.fresh);
    assert!(modelled.guest.icount);
    let (_dir, lab) = fake(&text.replace("--rounds 1\"", "--rounds 1\\n\""));
    let error = format!("{:#}", load(&lab, "demo", &papers).unwrap_err());
    assert!(error.contains("one line"), "{error}");
}

#[test]
fn a_run_is_refused_that_would_not_be_under_the_model_of_the_command_line() {
    let papers = Papers::parse(PAPERS).unwrap();
    let plain: Experiment = toml::from_str(GOOD).unwrap();
    plain.validate("demo", &papers).unwrap();
    for (model, check) in [(None, false), (Some("zen4"), false), (Some("zen4"), true)] {
        plain.accepts(model, check).unwrap();
    }
    let error = plain.accepts(None, true).unwrap_err().to_string();
    assert!(error.contains("--model"), "{error}");

    let mut slow = plain;
    slow.variants[0].read_limit = Some(10);
    slow.accepts(None, false).unwrap();
    let error = slow.accepts(Some("zen4"), false).unwrap_err().to_string();
    assert!(error.contains("read_limit"), "{error}");

    let text = GOOD
        .replace("name = \"stock\"", "name = \"stock\"\nmodel = \"baseline\"")
        .replace("name = \"pure\"", "name = \"pure\"\nmodel = \"larger-tlb\"");
    let named: Experiment = toml::from_str(&text).unwrap();
    named.validate("demo", &papers).unwrap();
    named.accepts(None, false).unwrap();
    named.accepts(None, true).unwrap();
    let error = named.accepts(Some("zen4"), false).unwrap_err().to_string();
    assert!(error.contains("baseline and larger-tlb"), "{error}");
}

#[test]
fn a_missing_experiment_lists_those_that_there_are() {
    let (_dir, lab) = fake(GOOD);
    let error = load(&lab, "nope", &Papers::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`nope`") && error.contains("demo"),
        "{error}"
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let change = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        error_of(&GOOD.replacen(from, to, 1))
    };
    for (error, word) in [
        (error_of("name = "), "demo.toml is not an experiment"),
        (change("memory = 256", "memry = 256"), "memry"),
        (change("name = \"demo\"", "name = \"other\""), "`other`"),
        (
            change("icount = true", "icount = true\ncpus = 2"),
            "cpus = 1",
        ),
        (
            error_of(
                &GOOD
                    .replace("timeout = 60", "timeout = 60\nfresh = true")
                    .replace("rounds = 2", "rounds = 2\nread_limit = 1"),
            ),
            "needs a `rootfs`",
        ),
        (
            change("min(pure:fork)", "min(none:fork)"),
            "no variant `none`",
        ),
        (change("min(stock:fork)", "least(stock:fork)"), "least"),
        (change("p.t4/speed-up", "p.t4/slow-down"), "p.t4/slow-down"),
        (change("\"p.t4\"]", "\"p.t9\"]"), "p.t9"),
        (change("op = \">=\"", "op = \"=>\""), "=>"),
        (change("name = \"pure\"", "name = \"stock\""), "named stock"),
        (change("name = \"pure\"", "name = \"Pure.1\""), "Pure.1"),
        (change("rounds = 2", "rounds = 0"), "no rounds"),
        (
            change("rounds = 2", "rounds = 2\ncmdline = \"a\""),
            "boot of its own",
        ),
        (
            change("kind = \"table\"", "kind = \"line\""),
            "numbers as x",
        ),
        (change("kind = \"table\"", "kind = \"box\""), "five series"),
        (change("{x}:fork", "{x}x:fork"), "no variant `stockx`"),
        (
            change("kernel = \"pristine\"", "kernel = \"prestine\""),
            "prestine",
        ),
    ] {
        assert!(error.contains(word), "no {word} in: {error}");
        assert!(error.contains("demo.toml"), "{error}");
    }
}

#[test]
fn aims_compare_as_they_read() {
    let aim = |op, value| Aim { op, value };
    assert!(aim(Op::AtLeast, 3.0).met(3.0) && !aim(Op::AtLeast, 3.0).met(2.9));
    assert!(aim(Op::AtMost, 3.0).met(3.0) && !aim(Op::AtMost, 3.0).met(3.1));
    assert!(aim(Op::More, 3.0).met(3.1) && !aim(Op::More, 3.0).met(3.0));
    assert!(aim(Op::Less, 3.0).met(2.9) && !aim(Op::Less, 3.0).met(3.0));
    assert!(aim(Op::Equal, 1.0).met(1.0) && !aim(Op::Equal, 1.0).met(2.0));
    assert!(aim(Op::Near, 4.0).met(3.81) && aim(Op::Near, 4.0).met(4.19));
    assert!(!aim(Op::Near, 4.0).met(3.79) && !aim(Op::Near, 4.0).met(4.21));
    assert_eq!(aim(Op::AtLeast, 3.0).text(), ">= 3");
    let all = [
        Op::AtLeast,
        Op::AtMost,
        Op::More,
        Op::Less,
        Op::Equal,
        Op::Near,
    ];
    for op in all {
        let aim = aim(op, -0.1);
        assert_eq!(Aim::parse(&aim.text()), Some(aim));
    }
    for text in ["", ">=", "3", "=> 3", ">= three"] {
        assert_eq!(Aim::parse(text), None, "{text}");
    }
}

#[test]
fn every_experiment_of_the_project_is_without_mistake() {
    let lab = Lab {
        root: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."),
        tarball: PathBuf::from("none"),
    };
    let papers = Papers::of(&lab).unwrap();
    for name in super::names(&lab).unwrap() {
        let experiment = load(&lab, &name, &papers).unwrap_or_else(|e| panic!("{e:#}"));
        if let Some(rootfs) = &experiment.guest.rootfs {
            crate::lab::guest::rootfs::recipe(&lab, rootfs).unwrap_or_else(|e| panic!("{e:#}"));
        }
    }
}

#[test]
fn entries_that_are_written_once_stand_for_all_of_theirs() {
    let lab = Lab {
        root: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."),
        tarball: PathBuf::from("none"),
    };
    let papers = Papers::of(&lab).unwrap();
    for (name, count, last, measured) in [
        (
            "off-cost",
            137,
            "ordered: brk, large: more instructions by",
            "100 * (min(ordered:brk-large) / min(pristine:brk-large) - 1)",
        ),
        (
            "steady-state",
            21,
            "chromium: entries copied, of stock's",
            "100 * chromium-cohort:pte-copied / chromium-stock:pte-copied",
        ),
    ] {
        let experiment = load(&lab, name, &papers).unwrap();
        assert_eq!(experiment.checks.len(), count, "{name}");
        let check = experiment.checks.iter().find(|check| check.name == last);
        assert_eq!(check.expect(last).measured, measured);
    }
}
