// SPDX-License-Identifier: GPL-2.0-or-later
//! The program as it is installed: what `make install` puts where, without a checkout, and completed
//! by a shell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A copy of the program that has no checkout around it.
fn installed() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("cohort");
    // Not by this process: a program that another test starts meanwhile would inherit the open
    // file, and no file is run while somebody writes it.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_cohort")).arg(&program);
    assert!(copy.status().unwrap().success());
    (dir, program)
}

#[test]
fn without_a_checkout_the_lab_says_what_it_needs_and_what_is_left() {
    let (dir, program) = installed();
    for args in [["lab", "list"], ["lab", "shell"], ["lab", "setup"]] {
        let output = Command::new(&program)
            .args(args)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        for word in [
            "no checkout of Cohort",
            "--root",
            "cohort scan",
            "lab replay",
        ] {
            assert!(text.contains(word), "{args:?}: no {word} in {text}");
        }
    }
    // A checkout that is named does.
    let output = Command::new(&program)
        .args(["lab", "--root", CHECKOUT, "list"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("zygote-fork"));
}

/// What bash completes, asked in `dir`; None without bash.
fn completed(program: &Path, dir: &Path, words: &str, at: usize) -> Option<String> {
    let script = format!(
        "source <(cohort completions bash); COMP_WORDS=({words}); COMP_CWORD={at}; \
         _clap_complete_cohort cohort \"${{COMP_WORDS[{at}]}}\" x; echo \"${{COMPREPLY[@]}}\""
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &script])
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .current_dir(dir)
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_string())
}

#[test]
fn a_shell_completes_commands_and_the_names_of_experiments() {
    let (dir, program) = installed();
    let checkout = Path::new(CHECKOUT);
    let Some(found) = completed(&program, checkout, "cohort lab run superpage-str", 3) else {
        eprintln!("no bash: not tried");
        return;
    };
    assert_eq!(found, "superpage-stride");
    for (words, at, expected) in [
        ("cohort sc", 1, "scan"),
        ("cohort lab record superpage-str", 3, "superpage-stride"),
        ("cohort lab run --model pent", 4, "pentium4"),
        ("cohort lab rootfs cont", 3, "containers"),
        ("cohort lab build --config pris", 4, "pristine"),
    ] {
        let found = completed(&program, checkout, words, at).unwrap();
        assert_eq!(found, expected, "{words}");
    }
    // Elsewhere there are no experiments, and no error on the terminal.
    let found = completed(&program, dir.path(), "cohort lab run superpage-str", 3).unwrap();
    assert_eq!(found, "");
}

/// The regular files below `dir`, by their paths from there.
fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            );
        } else {
            let name = path.strip_prefix(dir).unwrap();
            found.insert(name.to_str().unwrap().to_string());
        }
    }
    found
}

fn install(prefix: &str) -> (tempfile::TempDir, BTreeSet<String>) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("make")
        .arg("install")
        .arg(format!("PREFIX={prefix}"))
        .arg(format!("DESTDIR={}", dir.path().display()))
        .arg(format!("COHORT={}", env!("CARGO_BIN_EXE_cohort")))
        .current_dir(CHECKOUT)
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = files(dir.path());
    (dir, found)
}

#[test]
fn make_install_puts_everything_below_its_prefix() {
    let (dir, found) = install("/opt/cohort");
    for file in [
        "bin/cohort",
        "lib/systemd/system/cohort-scan.service",
        "lib/systemd/system/cohort-scan.timer",
        "share/bash-completion/completions/cohort",
        "share/doc/cohort/examples/grafana/cohort-scan.json",
        "share/doc/cohort/examples/systemd/apache2.conf",
        "share/fish/vendor_completions.d/cohort.fish",
        "share/man/man1/cohort-lab-build.1",
        "share/man/man1/cohort.1",
        "share/zsh/site-functions/_cohort",
    ] {
        assert!(found.contains(&format!("opt/cohort/{file}")), "no {file}");
    }
    for file in &found {
        assert!(file.starts_with("opt/cohort/"), "{file} is elsewhere");
        let text = std::fs::read(dir.path().join(file)).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(
            file.ends_with("bin/cohort") || !text.contains("@BINDIR@"),
            "{file}"
        );
    }
    let unit = "opt/cohort/lib/systemd/system/cohort-scan.service";
    let unit = std::fs::read_to_string(dir.path().join(unit)).unwrap();
    assert!(
        unit.contains("'/opt/cohort/bin/cohort scan -o openmetrics"),
        "{unit}"
    );
    let (_dir, found) = install("/usr");
    assert!(found.contains("usr/share/zsh/vendor-completions/_cohort"));
}

/// What the unit's command writes, which is what node-exporter reads.
fn scan_of_the_unit() -> String {
    let unit = Path::new(CHECKOUT).join("packaging/systemd/cohort-scan.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let (dir, program) = installed();
    for line in unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart="))
    {
        let line = line.replace("@BINDIR@", program.parent().unwrap().to_str().unwrap());
        let ran = Command::new("sh")
            .args(["-c", &line])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(ran.success(), "{line}");
    }
    std::fs::read_to_string(dir.path().join("cohort.prom")).unwrap()
}

#[test]
fn the_dashboard_shows_only_gauges_that_the_timer_writes() {
    let gauges = scan_of_the_unit();
    let gauges: BTreeSet<&str> = gauges
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let dashboard = Path::new(CHECKOUT).join("packaging/grafana/cohort-scan.json");
    let text = std::fs::read_to_string(dashboard).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 5);
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let exprs = targets.map(|target| target["expr"].as_str().unwrap());
    let mut checked = 0;
    for expr in exprs {
        let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("cohort_")) {
            assert!(gauges.contains(name), "the dashboard shows {name}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
}
