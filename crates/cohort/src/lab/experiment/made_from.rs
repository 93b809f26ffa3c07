// SPDX-License-Identifier: GPL-2.0-or-later
//! What a result was made from: hashes of all sources that decide its figures.
//!
//! Comments, layout, tests and documentation are left out, so that a figure becomes old only
//! when something that can change it has changed.

use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::experiment::code;
use crate::lab::experiment::definition::Experiment;
use crate::lab::experiment::expr::Expr;
use crate::lab::experiment::papers::Papers;
use crate::lab::experiment::run::is_models;
use crate::lab::guest::rootfs;
use crate::lab::host::files;
use crate::lab::host::hash::{Hasher, short};
use crate::lab::kernel::build::{self, Config};
use crate::lab::kernel::kconfig;
use crate::lab::kernel::series;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A hash for each part, so that a difference can be named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MadeFrom {
    /// Overlay, hooks and configuration, as far as the experiment's kernels have them.
    pub kernel: String,
    /// The guest's init, the programs that the experiment runs, its root file system's recipe.
    pub programs: String,
    /// The part of the experiment's file that decides figures.
    pub experiment: String,
    /// The translation model's code and its description; none without a model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
}

impl MadeFrom {
    /// Of the sources as they are now. `experiment` is as it runs: under a translation model of the
    /// command line, named `model`, it is [`Experiment::modelled`].
    pub fn of(
        lab: &Lab,
        experiment: &Experiment,
        papers: &Papers,
        model: Option<&str>,
    ) -> Result<Self> {
        Ok(MadeFrom {
            kernel: kernel(lab, experiment.guest.arch, &experiment.kernels())?,
            programs: programs(lab, experiment)?,
            experiment: definition(experiment, papers, model.is_some())?,
            model: translation(lab, experiment, model)?,
        })
    }

    /// The parts that differ, in words; none if the sources are the same.
    pub fn differs(&self, now: &MadeFrom) -> Vec<&'static str> {
        let parts = [
            ("kernel", self.kernel != now.kernel),
            ("guest programs", self.programs != now.programs),
            ("experiment", self.experiment != now.experiment),
            ("model", self.model != now.model),
        ];
        let differ = parts.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(part, _)| part).collect()
    }
}

/// The first digits of a hash: enough to tell sources apart in a file.
fn finish(hasher: &Hasher) -> String {
    short(&hasher.finish()).to_string()
}

/// Adds the code of all files below `root`/`dir` but those that `skip` names by their path there.
fn add(hasher: &mut Hasher, root: &Path, dir: &str, skip: impl Fn(&str) -> bool) -> Result<()> {
    let dir = root.join(dir);
    if !dir.exists() {
        return Ok(());
    }
    for file in files::walk(&dir)? {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
        let below = file.strip_prefix(&dir).unwrap_or(&file).to_string_lossy();
        if !skip(&below) {
            hasher.part(&name, code::of(&name, &lossy(&file)?).as_bytes());
        }
    }
    Ok(())
}

fn lossy(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn kernel(lab: &Lab, arch: Arch, configs: &[Config]) -> Result<String> {
    let mut hasher = Hasher::new();
    if configs.iter().any(|config| *config != Config::Pristine) {
        // KUnit's tests are in the debug kernel alone.
        let kunit = configs.contains(&Config::Debug);
        let own = format!("arch/{}/", arch.source());
        let foreign = |name: &str| name.starts_with("arch/") && !name.starts_with(&own);
        let apart = |name: &str| {
            name.starts_with("tools/") || name.starts_with("Documentation/") || foreign(name)
        };
        add(&mut hasher, &lab.root, "kernel/overlay", |name| {
            apart(name) || (!kunit && name.contains("/tests/"))
        })?;
        let mut changes: BTreeMap<String, String> = BTreeMap::new();
        for patch in series::read_series(&lab.path("kernel/hooks"))? {
            for (file, change) in changed(&files::read(&patch)?) {
                if !apart(&file) {
                    changes.entry(file).or_default().push_str(&change);
                }
            }
        }
        for (file, change) in &changes {
            hasher.part(file, change.as_bytes());
        }
    }
    let mut configs = configs.to_vec();
    configs.sort_by_key(ToString::to_string);
    for config in configs {
        for (symbol, asked) in kconfig::parse_fragments(&build::fragments_for(lab, arch, config)?)?
        {
            hasher.part(&format!("{config} {symbol}"), asked.value.as_bytes());
        }
    }
    Ok(finish(&hasher))
}

/// The code that a patch adds and removes, for each file in the order of its hunks.
fn changed(patch: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut hunk: Vec<&str> = Vec::new();
    let mut left = (0, 0);
    let mut file = String::new();
    for line in patch.lines() {
        if left != (0, 0) {
            left.0 -= usize::from(!line.starts_with(['+', '\\']) && left.0 > 0);
            left.1 -= usize::from(!line.starts_with(['-', '\\']) && left.1 > 0);
            hunk.push(line);
            if left == (0, 0) {
                found.push((file.clone(), of_hunk(&file, &hunk)));
                hunk.clear();
            }
        } else if let Some(name) = line.strip_prefix("+++ ") {
            let name = name.split('\t').next().unwrap_or(name).trim();
            file = name.split_once('/').map_or(name, |(_, name)| name).into();
        } else if let Some(counts) = line.strip_prefix("@@ -") {
            let count = |range: Option<&str>| -> usize {
                let range = range.unwrap_or_default();
                let count = range.split_once(',').map_or("1", |(_, count)| count);
                count.parse().unwrap_or(0)
            };
            let mut words = counts.split_whitespace();
            left = (count(words.next()), count(words.next()));
        }
    }
    found
}

fn of_hunk(file: &str, hunk: &[&str]) -> String {
    let mut text = String::new();
    // Each side is read with its context: a comment may begin or end there.
    for (own, other) in [('-', '+'), ('+', '-')] {
        let side: Vec<&str> = hunk
            .iter()
            .copied()
            .filter(|line| !line.starts_with([other, '\\']))
            .collect();
        let content: Vec<&str> = side.iter().map(|l| l.get(1..).unwrap_or("")).collect();
        let code = code::lines(file, &content.join("\n"));
        let own_code = side
            .iter()
            .zip(&code)
            .filter(|(line, _)| line.starts_with(own))
            .map(|(_, code)| code.as_str());
        text.push(own);
        text.push_str(&code::fold(file, own_code));
        text.push('\n');
    }
    text
}

/// The files that become a guest's programs, and how commands name them.
struct Source {
    /// Words of a command or of another program that name it; none for what all are made with.
    names: Vec<String>,
    files: Vec<PathBuf>,
}

fn sources(lab: &Lab) -> Result<Vec<Source>> {
    let dir = lab.path("guest/workloads");
    let mut found: BTreeMap<String, Source> = BTreeMap::new();
    if !dir.exists() {
        return Ok(Vec::new());
    }
    for file in files::walk(&dir)? {
        let path = file.strip_prefix(&dir).unwrap_or(&file).to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or(&path).to_string();
        let stem = name.split('.').next().unwrap_or(&name).to_string();
        let (key, names) = match path.split_once('/') {
            Some(("lib", _)) => ("lib/".to_string(), Vec::new()),
            Some(("files", _)) => (path.to_string(), vec![stem, name]),
            Some((folder, _)) => {
                let plain = folder.split('.').next().unwrap_or(folder);
                (folder.to_string(), vec![plain.to_string()])
            }
            None if name.ends_with(".c") => (name, vec![stem]),
            None => ("lib/".to_string(), Vec::new()),
        };
        let source = found.entry(key).or_insert_with(|| Source {
            names,
            files: Vec::new(),
        });
        source.files.push(file);
    }
    Ok(found.into_values().collect())
}

/// True if a command or a program runs the scan.
fn names_scan(texts: &[String]) -> bool {
    texts.iter().any(|text| text.contains("cohort scan"))
}

fn programs(lab: &Lab, experiment: &Experiment) -> Result<String> {
    let mut hasher = Hasher::new();
    add(&mut hasher, &lab.root, "guest/init", |_| false)?;
    let mut left = sources(lab)?;
    let commands = experiment.variants.iter().flat_map(|variant| {
        let commands = variant.setup.iter().chain([&variant.command]);
        commands.cloned().collect::<Vec<_>>()
    });
    // A program may run or read the files that it names.
    let mut todo: Vec<String> = commands.collect();
    // Of the command line, a guest that scans nothing runs `cohort run` alone.
    let mut scans = false;
    let mut parts = BTreeMap::new();
    while !left.is_empty() {
        scans |= names_scan(&todo);
        let words: BTreeSet<&str> = todo
            .iter()
            .flat_map(|text| {
                text.split(|c: char| !(c.is_alphanumeric() || ['_', '-', '.'].contains(&c)))
            })
            .collect();
        let named = |source: &Source| {
            source.names.is_empty() || source.names.iter().any(|n| words.contains(n.as_str()))
        };
        let (used, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(named);
        left = rest;
        if used.is_empty() {
            break;
        }
        todo = Vec::new();
        for source in &used {
            for file in &source.files {
                let name = file.strip_prefix(&lab.root).unwrap_or(file);
                let name = name.to_string_lossy().into_owned();
                let code = code::of(&name, &lossy(file)?);
                // What all are made with knows none of them, whatever words it has.
                if !source.names.is_empty() {
                    todo.push(code.clone());
                }
                parts.insert(name, code);
            }
        }
    }
    scans |= names_scan(&todo);
    for (name, code) in &parts {
        hasher.part(name, code.as_bytes());
    }
    if experiment.guest.cohort {
        if scans {
            add(&mut hasher, &lab.root, "crates/snapshot/src", |_| false)?;
        }
        // Experiments read the scan's JSON and metrics: the layout of text and plots changes neither,
        // nor do manual pages.
        add(&mut hasher, &lab.root, "crates/cohort/src", |name| {
            let apart = ["lab/", "show/", "manual.rs"];
            apart.iter().any(|part| name.starts_with(part)) || (!scans && name != "run.rs")
        })?;
    }
    if let Some(name) = &experiment.guest.rootfs {
        rootfs::recipe(lab, name)?;
        let text = files::read(&lab.path(&format!("guest/rootfs/{name}.toml")))?;
        let mut recipe: toml::Table = toml::from_str(&text)?;
        recipe.remove("reason");
        hasher.part("rootfs", recipe.to_string().as_bytes());
    }
    Ok(finish(&hasher))
}

fn definition(experiment: &Experiment, papers: &Papers, model: bool) -> Result<String> {
    let mut hasher = Hasher::new();
    let modelled = model || experiment.variants.iter().any(|v| v.model.is_some());
    // A limit on the time of the host changes no figure.
    let mut guest = serde_json::to_value(&experiment.guest)?;
    guest.as_object_mut().map(|guest| guest.remove("timeout"));
    hasher.part("guest", guest.to_string().as_bytes());
    if modelled {
        let regions = format!("{:?}", experiment.regions);
        hasher.part("regions", regions.as_bytes());
    }
    hasher.part("runs", experiment.runs().to_string().as_bytes());
    for variant in &experiment.variants {
        let mut variant = serde_json::to_value(variant)?;
        variant.as_object_mut().map(|it| it.remove("timeout"));
        hasher.part("variant", variant.to_string().as_bytes());
    }
    let mut expressions: Vec<(String, String)> = Vec::new();
    for check in &experiment.checks {
        // Its name and unit too: they are kept with the figure, and say what it is.
        let said = format!("{} {} {}", check.name, check.unit, check.aim.text());
        expressions.push((check.measured.clone(), said));
    }
    for figure in &experiment.figures {
        for x in &figure.x {
            for series in &figure.series {
                expressions.push((series.y.replace("{x}", &x.text()), String::new()));
            }
        }
    }
    for (expression, aim) in expressions {
        if is_models(&expression) && !modelled {
            continue;
        }
        let words: Vec<&str> = expression.split_whitespace().collect();
        hasher.part(&words.join(" "), aim.as_bytes());
        let mut ids = Vec::new();
        let parsed = Expr::parse(&expression).map_err(anyhow::Error::msg)?;
        parsed.names(&mut |_| (), &mut |id| ids.push(id.to_string()));
        for id in ids {
            let value = format!("{:?}", papers.get(&id));
            hasher.part(&id, value.as_bytes());
        }
    }
    Ok(finish(&hasher))
}

fn translation(lab: &Lab, experiment: &Experiment, model: Option<&str>) -> Result<Option<String>> {
    let named = experiment
        .variants
        .iter()
        .filter_map(|v| v.model.as_deref());
    let names: BTreeSet<&str> = named.chain(model).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut hasher = Hasher::new();
    let tests = |name: &str| name.starts_with("tests/") || name.contains("/tests/");
    for dir in ["translation/src", "translation/formats", "qemu-plugin/src"] {
        add(&mut hasher, &lab.root, &format!("crates/{dir}"), tests)?;
    }
    for name in names {
        let mut table = translation::Model::table(&in_checkout(lab, name))?;
        // Where a number comes from changes no result.
        table.remove("sources");
        hasher.part("model", table.to_string().as_bytes());
    }
    Ok(Some(finish(&hasher)))
}

/// A model's file as the checkout has it; the name of a built-in is left as it is.
fn in_checkout(lab: &Lab, model: &str) -> String {
    let file = lab.path(model);
    match !Path::new(model).exists() && model.ends_with(".toml") && file.exists() {
        true => file.to_string_lossy().into_owned(),
        false => model.into(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::lab::experiment::definition;

    /// A checkout with a kernel, a workload and the experiment `demo`.
    pub fn fake() -> (tempfile::TempDir, Lab) {
        let (dir, lab) = Lab::fake();
        for (path, text) in [
            ("experiments/demo.toml", definition::tests::GOOD),
            ("papers/figures.toml", definition::tests::PAPERS),
            ("kernel/overlay/mm/a.c", "/* Why. */\nint a;\n"),
            ("kernel/overlay/mm/cohort/tests/a.h", "int test;\n"),
            ("kernel/overlay/tools/test.c", "int test;\n"),
            ("kernel/overlay/arch/arm/a.h", "int arm;\n"),
            ("kernel/overlay/arch/x86/a.h", "int x86;\n"),
            ("kernel/hooks/series", "0001-a.patch\n"),
            (
                "kernel/hooks/0001-a.patch",
                "mm: a hook\n---\n--- a/mm/b.c\n+++ b/mm/b.c\n@@ -1,3 +1,5 @@ f()\n int b;\n+/* A \
                 word. */\n+hook();\n int c;\n int d;\n--- a/Documentation/b.rst\n+++ b/Documentation/b.rst\n@@ -1 \
                 +1,2 @@\n Words.\n+What the manual says.\n",
            ),
            ("kernel/config/base.config", "# Why.\nCONFIG_A=y\n"),
            ("kernel/config/x86_64.config", "# CONFIG_B is not set\n"),
            ("kernel/config/cohort.config", "CONFIG_C=y\n"),
            ("guest/init/init.c", "int main;\n"),
            ("guest/workloads/lib.h", "int lib; char *it = \"other\";\n"),
            ("guest/workloads/fork-cost.c", "int fork; // Why.\n"),
            ("guest/workloads/other.c", "int other;\n"),
            ("guest/workloads/files/part.py", "part = 1\n"),
        ] {
            files::write(&lab.path(path), text.as_bytes()).unwrap();
        }
        (dir, lab)
    }

    /// Replaces words in a file of a checkout.
    pub fn edit(lab: &Lab, path: &str, from: &str, to: &str) {
        let text = files::read(&lab.path(path)).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        files::write(&lab.path(path), text.replacen(from, to, 1).as_bytes()).unwrap();
    }

    /// The sources of the experiment `demo` of a checkout.
    pub fn now(lab: &Lab, model: Option<&str>) -> MadeFrom {
        let papers = Papers::of(lab).unwrap();
        let experiment = definition::load(lab, "demo", &papers).unwrap();
        MadeFrom::of(lab, &experiment, &papers, model).unwrap()
    }

    #[test]
    fn a_result_is_old_when_something_that_decides_its_figures_has_changed() {
        let same: &[&str] = &[];
        for (path, from, to, differs) in [
            ("kernel/overlay/mm/a.c", "Why", "The reason", same),
            ("kernel/overlay/mm/a.c", "int a", "long a", &["kernel"]),
            ("kernel/overlay/tools/test.c", "int", "long", same),
            ("kernel/overlay/arch/arm/a.h", "int", "long", same),
            ("kernel/overlay/arch/x86/a.h", "int", "long", &["kernel"]),
            ("kernel/overlay/mm/cohort/tests/a.h", "int", "long", same),
            ("kernel/hooks/0001-a.patch", "a hook", "the hook", same),
            ("kernel/hooks/0001-a.patch", "A word", "Two words", same),
            ("kernel/hooks/0001-a.patch", "int c", "int e", same),
            ("kernel/hooks/0001-a.patch", "@@ -1", "@@ -9", same),
            ("kernel/hooks/0001-a.patch", "hook()", "call()", &["kernel"]),
            ("kernel/hooks/0001-a.patch", "b/mm/b", "b/mm/c", &["kernel"]),
            ("kernel/config/base.config", "Why", "Because", same),
            ("kernel/config/base.config", "=y", "=m", &["kernel"]),
            (
                "kernel/config/x86_64.config",
                "# CONFIG_B is not set",
                "CONFIG_B=y",
                &["kernel"],
            ),
            ("guest/init/init.c", "main", "exit", &["guest programs"]),
            ("guest/workloads/lib.h", "lib", "l", &["guest programs"]),
            ("guest/workloads/fork-cost.c", "Why", "Because", same),
            (
                "guest/workloads/fork-cost.c",
                "int",
                "long",
                &["guest programs"],
            ),
            ("guest/workloads/other.c", "int", "long", same),
            ("experiments/demo.toml", "A demonstration", "Another", same),
            (
                "experiments/demo.toml",
                "timeout = 60",
                "timeout = 90",
                same,
            ),
            (
                "experiments/demo.toml",
                "\"speed-up\"",
                "\"ratio\"",
                &["experiment"],
            ),
            (
                "experiments/demo.toml",
                "value = 3",
                "value = 4",
                &["experiment"],
            ),
            (
                "experiments/demo.toml",
                "rounds = 2",
                "rounds = 3",
                &["experiment"],
            ),
            (
                "experiments/demo.toml",
                "min({x}",
                "max({x}",
                &["experiment"],
            ),
        ] {
            let (_dir, lab) = fake();
            let before = now(&lab, None);
            edit(&lab, path, from, to);
            assert_eq!(before.differs(&now(&lab, None)), differs, "{path}: {to}");
        }
    }

    #[test]
    fn code_of_the_command_line_counts_where_a_guest_runs_it() {
        let (_dir, lab) = fake();
        let papers = Papers::of(&lab).unwrap();
        let mut runs = definition::load(&lab, "demo", &papers).unwrap();
        runs.guest.cohort = true;
        let mut scans = definition::load(&lab, "demo", &papers).unwrap();
        scans.guest.cohort = true;
        scans.variants[0].command = "cohort scan --json".to_string();
        let now = |lab: &Lab| [&runs, &scans].map(|it| programs(lab, it).unwrap());
        let files = [
            // A change of the file changes a guest that runs `cohort run`, and one that scans.
            ("cohort/src/scan/a.rs", [false, true]),
            ("cohort/src/show/a.rs", [false, false]),
            ("cohort/src/lab/a.rs", [false, false]),
            ("cohort/src/run.rs", [true, true]),
            ("snapshot/src/a.rs", [false, true]),
        ];
        for (file, _) in files {
            super::files::write(&lab.path("crates").join(file), b"fn a() {}\n").unwrap();
        }
        for (file, changes) in files {
            let before = now(&lab);
            edit(&lab, &format!("crates/{file}"), "a()", "b()");
            let after = now(&lab);
            assert_eq!([0, 1].map(|i| before[i] != after[i]), changes, "{file}");
        }
    }

    #[test]
    fn a_program_that_another_one_names_is_part_of_it() {
        let (_dir, lab) = fake();
        edit(
            &lab,
            "guest/workloads/fork-cost.c",
            "int fork",
            "run(\"/lab/files/part.py\")",
        );
        let before = now(&lab, None);
        edit(&lab, "guest/workloads/files/part.py", "1", "2");
        assert_eq!(before.differs(&now(&lab, None)), ["guest programs"]);
    }

    #[test]
    fn a_model_counts_only_under_a_model() {
        let (_dir, lab) = fake();
        let (plain, modelled) = (now(&lab, None), now(&lab, Some("zen4")));
        assert_eq!(plain.model, None);
        let code = lab.path("crates/translation/src/lib.rs");
        files::write(&code, b"fn walk() {}\n").unwrap();
        assert_eq!(plain, now(&lab, None));
        assert_eq!(modelled.differs(&now(&lab, Some("zen4"))), ["model"]);
        assert_eq!(modelled.differs(&now(&lab, Some("cortex-a9"))), ["model"]);
    }
}
