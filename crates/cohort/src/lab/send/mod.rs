// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab series`: the patches that would be sent, in series, and what a maintainer would ask
//! of them first: do they apply, does checkpatch like them, does each build, does sparse find
//! anything new, and does each series pass its own tests without the later ones?

mod plan;
mod sparse;
mod tree;

use super::check::selftests;
use super::check::tally::Tally;
use crate::lab::Lab;
use crate::lab::arch::{self, Arch};
use crate::lab::experiment::kept;
use crate::lab::experiment::papers::Papers;
use crate::lab::guest::programs::SELFTESTS;
use crate::lab::guest::setup;
use crate::lab::host::files;
use crate::lab::host::process::{Event, output, run_logged};
use crate::lab::kernel::{series, source};
use crate::output::say;
use crate::show;
use anyhow::{Context, Result, bail};
use plan::{Patch, Plan, Series};
use sparse::Warnings;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tree::{Answer, Tree};

/// The width to which a text is wrapped.
const WIDTH: usize = 72;
/// A paragraph with a longer line is wrapped again: checkpatch allows no more.
const WIDEST: usize = 75;
/// What checkpatch says of every new file, and only a maintainer can answer.
const IGNORED: &str = "FILE_PATH_CHANGES";
/// What to write and what to ask.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("heads").multiple(true))]
pub struct Options {
    /// Where to write the patches, a directory per series. Files there named as patches are
    /// (NNNN-*.patch) are removed first, also those edited by hand; others stay.
    pub dir: PathBuf,
    /// Run `checkpatch --strict` on each patch.
    #[arg(long)]
    pub checkpatch: bool,
    /// Build the changed directories of the kernel after each series, or after each patch.
    #[arg(long, value_enum, value_name = "AFTER", group = "heads")]
    pub build: Option<After>,
    /// Check the files that each series touches with sparse; fail if it finds what it did not find
    /// before the series.
    #[arg(long, group = "heads")]
    pub sparse: bool,
    /// Boot the kernel at the end of each series that has selftests/cohort, and run these there,
    /// in a guest that shares at every fork.
    #[arg(long, group = "heads")]
    pub test: bool,
    /// Build, check with sparse and test this series alone; all are written.
    #[arg(long, value_name = "SERIES", requires = "heads")]
    pub only: Option<String>,
}

/// When to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum After {
    Series,
    Patch,
}

/// A git repository with the files that some patch touches.
struct Repository(PathBuf);

impl Repository {
    /// An empty one.
    fn create(dir: &Path) -> Result<Self> {
        files::remove(dir)?;
        files::make_dir(dir)?;
        let repository = Repository(dir.to_path_buf());
        repository.git(&["init", "--quiet", "--initial-branch=series"])?;
        Ok(repository)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new("git");
        // Nothing of the user's own settings, hooks and attributes.
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            // The same sources give the same patches.
            .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .args(["-c", "user.name=lab", "-c", "user.email=lab@localhost"])
            .args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"])
            .args(["-c", "commit.gpgsign=false", "-c", "gc.auto=0"])
            .arg("-C")
            .arg(&self.0)
            .args(arguments);
        git
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        output(&mut self.command(arguments))
    }

    fn commit(&self, message: &str, author: &str) -> Result<()> {
        let file = self.0.join(".git/message");
        files::write(&file, message.as_bytes())?;
        self.git(&["add", "--all"])?;
        self.git(&[
            "commit",
            "--quiet",
            "--no-verify",
            "--author",
            author,
            "--file",
            &file.to_string_lossy(),
        ])?;
        Ok(())
    }
}

/// Writes the series and asks what the options say; each answer is a test of the tally.
pub fn series(lab: &Lab, options: &Options) -> Result<Tally> {
    let plan = Plan::read(lab)?;
    if let Some(only) = &options.only
        && !plan.series.iter().any(|series| series.name == *only)
    {
        let names: Vec<_> = plan
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        bail!("there is no series {only}; there are: {}", names.join(", "));
    }
    if options.sparse {
        setup::install_missing(lab, &["sparse"], "cohort lab series DIR --sparse")?;
    }
    files::make_dir(&lab.out("series"))?;
    let _lock = files::Lock::take(&lab.out("series.lock"), "another run of `lab series`")?;
    // A directory that cannot be written must show before the kernel is unpacked.
    for number in 0..plan.series.len() {
        files::make_dir(&directory(&plan, number, &options.dir))?;
    }
    let version = source::pristine(lab)?;
    let written = write(lab, &plan, &version, &options.dir)?;
    let mut run = Run {
        lab,
        options,
        plan: &plan,
        applied: Repository::create(&lab.out("series/applied"))?,
        tree: None,
        tally: Tally::new(),
    };
    baseline(lab, &plan, &run.applied, &version)?;
    for (series, patches) in plan.series.iter().zip(&written) {
        if !run.series(series, patches)? {
            // What follows would fail for this one.
            return Ok(run.tally);
        }
    }
    let wrong = differences(lab, &run.applied, &version)?;
    run.count("all series make the lab's kernel".into(), wrong)?;
    Ok(run.tally)
}

/// The series, applied one after the other.
struct Run<'a> {
    lab: &'a Lab,
    options: &'a Options,
    plan: &'a Plan,
    /// What is applied so far.
    applied: Repository,
    /// For the architecture that was last built for.
    tree: Option<Tree<'a>>,
    tally: Tally,
}

impl Run<'_> {
    /// Prints and counts a test: it passed if nothing is wrong.
    fn count(&mut self, name: String, wrong: Vec<String>) -> Result<()> {
        say!("{} {name}", if wrong.is_empty() { "ok" } else { "not ok" })?;
        match wrong.is_empty() {
            true => self.tally.passed += 1,
            false => {
                for line in &wrong {
                    say!("    {line}")?;
                }
                self.tally.fail(name, &wrong);
            }
        }
        Ok(())
    }

    /// Applies a series and asks what the options say; false if a patch does not apply.
    fn series(&mut self, series: &Series, patches: &[PathBuf]) -> Result<bool> {
        let options = self.options;
        let arch = series.arch.unwrap_or(arch::LAB);
        let only = options.only.as_ref();
        let wanted = only.is_none_or(|only| *only == series.name);
        let touched = touched(patches)?;
        let before = match wanted && options.sparse {
            true => Some(self.sparse(arch, &touched)?),
            false => None,
        };
        for (number, patch) in patches.iter().enumerate() {
            let name = patch.strip_prefix(&options.dir).unwrap_or(patch);
            let name = name.display();
            let mut am = self
                .applied
                .command(&["am", "--quiet", "--whitespace=error-all"]);
            am.arg(patch.canonicalize().context("a patch is gone")?);
            let wrong = failure(&mut am, self.lab)?;
            let broken = !wrong.is_empty();
            self.count(format!("{name}: git am takes it"), wrong)?;
            if broken {
                return Ok(false);
            }
            if options.checkpatch {
                let wrong = checkpatch(self.lab, self.plan, patch)?;
                self.count(format!("{name}: checkpatch --strict"), wrong)?;
            }
            let last = number + 1 == patches.len();
            let due = match options.build {
                None => false,
                Some(After::Patch) => wanted,
                Some(After::Series) => wanted && last,
            };
            if due {
                let what = match last {
                    true => series.name.clone(),
                    false => name.to_string(),
                };
                let wrong = tree_of(self.lab, arch, &mut self.tree)?.build(&self.applied)?;
                self.count(format!("{what}: builds"), wrong)?;
            }
        }
        let wrong = absent_includes(&self.lab.path("kernel/overlay"), &self.applied.0)?;
        self.count(
            format!("{}: includes only what is there", series.name),
            wrong,
        )?;
        if let Some(before) = before {
            let after = self.sparse(arch, &touched)?;
            let wrong = added(self.plan, series, before, after);
            self.count(format!("{}: sparse finds nothing new", series.name), wrong)?;
        }
        if wanted && options.test {
            self.test(arch, series)?;
        }
        Ok(true)
    }

    /// What sparse says of what is applied so far.
    fn sparse(&mut self, arch: Arch, touched: &BTreeSet<String>) -> Result<Answer<Warnings>> {
        tree_of(self.lab, arch, &mut self.tree)?.sparse(&self.applied, touched)
    }

    /// Runs the selftests at the end of a series, if there are any by then: each case is a test.
    fn test(&mut self, arch: Arch, series: &Series) -> Result<()> {
        if !self.applied.0.join(SELFTESTS).join("Makefile").exists() {
            return Ok(());
        }
        let tree = tree_of(self.lab, arch, &mut self.tree)?;
        let bootable = match tree.bootable(&self.applied)? {
            Ok(bootable) => bootable,
            Err(wrong) => {
                let name = format!("{}: kernel and selftests build", series.name);
                return self.count(name, wrong);
            }
        };
        let name = format!("series-{}", series.name);
        let (kernel, programs) = (&bootable.image, &bootable.selftests);
        for test in selftests::run_all(self.lab, arch, name, kernel, programs)? {
            selftests::count(&mut self.tally, &series.name, &test);
            selftests::print(&series.name, &test)?;
        }
        Ok(())
    }
}

/// The tree of an architecture: the one that is there, or a new one in its place.
fn tree_of<'a, 'b>(
    lab: &'a Lab,
    arch: Arch,
    tree: &'b mut Option<Tree<'a>>,
) -> Result<&'b Tree<'a>> {
    let new = match tree.take() {
        Some(tree) if tree.arch == arch => tree,
        _ => Tree::new(lab, arch)?,
    };
    Ok(tree.insert(new))
}

/// The files that patches touch.
fn touched(patches: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for patch in patches {
        let files = series::touched(&files::read(patch)?);
        all.extend(files.into_iter().map(|file| file.path));
    }
    Ok(all)
}

/// What sparse says after a series and not before, but for what is accepted.
fn added(
    plan: &Plan,
    series: &Series,
    before: Answer<Warnings>,
    after: Answer<Warnings>,
) -> Vec<String> {
    match (before, after) {
        (Ok(before), Ok(after)) => {
            let mut new = after.new_since(&before);
            new.retain(|line| !plan.accepts(&series.name, line));
            new
        }
        (Err(wrong), _) | (_, Err(wrong)) => wrong,
    }
}

/// What files of the overlay include of it that a tree does not have: it comes with a later series.
fn absent_includes(overlay: &Path, tree: &Path) -> Result<Vec<String>> {
    let mut absent = Vec::new();
    for file in files::walk(overlay)? {
        let path = file.strip_prefix(overlay).unwrap_or(&file);
        let dir = path.parent().unwrap_or(path);
        let is_c = path.extension().is_some_and(|end| end == "c" || end == "h");
        if !is_c || !tree.join(path).exists() {
            continue;
        }
        for line in files::read(&tree.join(path))?.lines() {
            let Some(name) = line.strip_prefix("#include \"") else {
                continue;
            };
            let name = name.split('"').next().unwrap_or(name);
            let included = dir.join(name);
            if overlay.join(&included).exists() && !tree.join(&included).exists() {
                absent.push(format!("{} includes {name}", path.display()));
            }
        }
    }
    absent.sort();
    Ok(absent)
}

/// Puts the files that hooks touch into a repository, as they are in the stock kernel.
fn baseline(lab: &Lab, plan: &Plan, repository: &Repository, version: &str) -> Result<()> {
    let pristine = lab.out("linux/pristine");
    for patch in plan.series.iter().flat_map(|series| &series.patches) {
        let Some(hook) = &patch.hook else { continue };
        for touched in series::touched(&files::read(&plan::hook_path(lab, hook))?) {
            let stock = pristine.join(&touched.path);
            if stock.exists() {
                copy(&stock, &repository.0.join(&touched.path))?;
            }
        }
    }
    repository.commit(&format!("Linux {version}\n"), "lab <lab@localhost>")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(dir) = to.parent() {
        files::make_dir(dir)?;
    }
    // With its mode: scripts are executable.
    std::fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Where the patches of a series are.
fn directory(plan: &Plan, number: usize, dir: &Path) -> PathBuf {
    dir.join(format!("{}-{}", number + 1, plan.series[number].name))
}

/// Patches as `git format-patch` names them, the cover letter first.
fn patches(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = files::with_suffix(dir, ".patch")?;
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        matches!(name, [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|c| c.is_ascii_digit()))
    });
    Ok(found)
}

/// Writes all series below `dir`; returns the patches of each, without cover letters.
fn write(lab: &Lab, plan: &Plan, version: &str, dir: &Path) -> Result<Vec<Vec<PathBuf>>> {
    let repository = Repository::create(&lab.out("series/made"))?;
    baseline(lab, plan, &repository, version)?;
    let author = author(lab)?;
    let mut written = Vec::new();
    for (number, series) in plan.series.iter().enumerate() {
        let base = repository.git(&["rev-parse", "HEAD"])?;
        for (at, patch) in series.patches.iter().enumerate() {
            add(
                lab,
                plan,
                (number, at),
                patch,
                &repository,
                version,
                &author,
            )
            .with_context(|| format!("in the series {}", series.name))?;
        }
        let to = directory(plan, number, dir);
        files::make_dir(&to)?;
        for before in patches(&to)? {
            files::remove(&before)?;
        }
        let to = to.canonicalize().context("a directory is gone")?;
        repository.git(&[
            "format-patch",
            "--quiet",
            "--no-signature",
            "--no-renames",
            "--cover-letter",
            &format!("--from={author}"),
            "--output-directory",
            &to.to_string_lossy(),
            base.trim(),
        ])?;
        let mut patches = patches(&to)?;
        let letter = patches.remove(0);
        let text = files::read(&letter)?;
        let cover = cover(lab, plan, number, version, &repository)?;
        let text = text
            .replacen("From: lab <lab@localhost>", &format!("From: {author}"), 1)
            .replacen("*** SUBJECT HERE ***", &series.title, 1)
            .replacen("*** BLURB HERE ***", cover.trim_end(), 1);
        files::write(&letter, text.as_bytes())?;
        written.push(patches);
    }
    Ok(written)
}

/// Adds one patch to the repository, as a commit.
fn add(
    lab: &Lab,
    plan: &Plan,
    (series, at): (usize, usize),
    patch: &Patch,
    repository: &Repository,
    version: &str,
    author: &str,
) -> Result<()> {
    let mut message = None;
    if let Some(hook) = &patch.hook {
        let path = plan::hook_path(lab, hook);
        series::apply(&path, &repository.0, version)?;
        message = Some(message_of(&files::read(&path)?).with_context(|| {
            format!(
                "{} has no line `Subject:` before a line `---`",
                path.display()
            )
        })?);
    }
    let overlay = lab.path("kernel/overlay");
    for file in plan.files(series, at) {
        copy(&overlay.join(file), &repository.0.join(file))?;
    }
    for early in &patch.early {
        let content = early.content(&overlay)?;
        files::write(&repository.0.join(&early.file), content.as_bytes())?;
    }
    let message = match (message, &patch.subject, &patch.why) {
        (Some(message), _, _) => message,
        (None, Some(subject), Some(why)) => {
            let why: Vec<String> = why.trim().split("\n\n").map(wrap).collect();
            let why = why.join("\n\n");
            format!("{subject}\n\n{why}\n\nSigned-off-by: {author}\n")
        }
        _ => bail!("a patch without a message"),
    };
    repository.commit(&message, author)
}

/// Who signs: the author of the first hook.
fn author(lab: &Lab) -> Result<String> {
    let hooks = series::read_series(&lab.path("kernel/hooks"))?;
    let first = hooks.first().context("kernel/hooks/series is empty")?;
    let text = files::read(first)?;
    let line = text.lines().find_map(|line| line.strip_prefix("From: "));
    let author = line.with_context(|| format!("{} has no line `From:`", first.display()))?;
    Ok(author.trim().to_string())
}

/// Subject and text of a patch file, as a commit message.
fn message_of(patch: &str) -> Option<String> {
    let (head, _) = patch.split_once("\n---\n")?;
    let subject = head
        .lines()
        .find_map(|line| line.strip_prefix("Subject: "))?;
    let (_, body) = head.split_once("\n\n")?;
    // Lists and examples stay as they are.
    let plain = |text: &str| {
        let list = text
            .lines()
            .any(|line| line.starts_with([' ', '\t', '-', '*', '>']));
        !list && !text.starts_with("Signed-off-by:")
    };
    let paragraph = |text: &str| match text.lines().any(|line| line.len() > WIDEST) {
        true if plain(text) => wrap(text),
        _ => text.to_string(),
    };
    let body: Vec<String> = body.trim().split("\n\n").map(paragraph).collect();
    Some(format!("{subject}\n\n{}\n", body.join("\n\n")))
}

/// The text of a cover letter: the document's introduction, what the plan says, the results.
fn cover(
    lab: &Lab,
    plan: &Plan,
    number: usize,
    version: &str,
    repository: &Repository,
) -> Result<String> {
    let series = &plan.series[number];
    let mut text = String::new();
    if let Some(doc) = &series.doc {
        // As it is at the end of this series.
        let doc = files::read(&repository.0.join(doc))?;
        text.push_str(&format!("{}\n\n", introduction(&doc)));
    }
    for paragraph in series.cover.trim().split("\n\n") {
        text.push_str(&format!("{}\n\n", wrap(paragraph)));
    }
    let base = match number {
        0 => format!("This is based on Linux {version}."),
        _ => format!(
            "This is based on Linux {version} with the series before it, the last of which is \
             \"{}\".",
            plan.series[number - 1].title
        ),
    };
    text.push_str(&format!("{}\n\n", wrap(&base)));
    text.push_str(&results(lab, &series.experiments)?);
    Ok(text)
}

/// The first section of a document, without its title.
fn introduction(rst: &str) -> String {
    let lines: Vec<&str> = rst.lines().collect();
    let is_rule = |line: &&str| line.len() > 2 && line.chars().all(|c| "=-~".contains(c));
    let rules: Vec<usize> = (0..lines.len()).filter(|&at| is_rule(&lines[at])).collect();
    // A title may have a rule above it too.
    let first = match rules[..] {
        [above, below, ..] if below == above + 2 => below,
        [below, ..] => below,
        [] => return wrap(rst.trim()),
    };
    let end = rules
        .iter()
        .find(|&&at| at > first)
        .map_or(lines.len(), |&at| at - 1);
    lines[first + 1..end].join("\n").trim().replace("``", "")
}

/// Of an experiment with more checks a cover letter has those alone that miss their aims.
const MOST_CHECKS: usize = 30;

/// A table of the kept results of these experiments.
fn results(lab: &Lab, experiments: &[String]) -> Result<String> {
    let mut text = String::new();
    let all = kept::all(lab)?;
    let papers = Papers::of(lab)?;
    for name in experiments {
        let kept = all
            .iter()
            .find(|kept| kept.experiment == *name && kept.model.is_none());
        let Some(kept) = kept else {
            bail!("no result of {name} is kept, which a cover letter is to quote");
        };
        let day = kept.date.split(' ').next().unwrap_or_default();
        let old = kept::old(lab, &papers, (name, None), &kept.made_from, kept.change())?;
        let old = old.map_or(String::new(), |why| format!("; {why}"));
        let head = format!("Measured by the experiment {name} ({day}{old}):");
        text.push_str(&format!("{}\n\n", wrap(&head)));
        let all_shown = kept.checks.len() <= MOST_CHECKS;
        let mut met = 0;
        for check in &kept.checks {
            let measured = format!("{} {}", show::maybe(check.measured), check.unit);
            let missed = match check.met() {
                Some(false) => format!(" (missed: {})", check.aim),
                Some(true) if !all_shown => {
                    met += 1;
                    continue;
                }
                _ => String::new(),
            };
            let measured = measured.trim();
            text.push_str(&format!("  {:<54} {measured}{missed}\n", check.name));
        }
        if met > 0 {
            text.push_str(&format!("  {met} more, which meet their aims\n"));
        }
        text.push('\n');
    }
    if !text.is_empty() {
        text.push_str(&wrap(
            "The figures are of the kernel with all series. The guests run under QEMU's emulation, \
             counting instructions; no figure is a time on hardware.",
        ));
        text.push('\n');
    }
    Ok(text)
}

fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// How a command ended, and what it said.
fn said(command: &mut Command, lab: &Lab) -> Result<(ExitStatus, Vec<String>)> {
    let mut lines = Vec::new();
    let status = run_logged(command, &lab.log("series"), |event| {
        if let Event::Line(line) = event {
            lines.push(line.to_string());
        }
    })?;
    Ok((status, lines))
}

/// What a command that failed said; nothing if it did not fail.
fn failure(command: &mut Command, lab: &Lab) -> Result<Vec<String>> {
    let (status, mut lines) = said(command, lab)?;
    if status.success() {
        return Ok(Vec::new());
    }
    let last = lines.len().saturating_sub(20);
    let mut said = lines.split_off(last);
    said.push(status.to_string());
    Ok(said)
}

/// What `checkpatch --strict` has against a patch.
fn checkpatch(lab: &Lab, plan: &Plan, patch: &Path) -> Result<Vec<String>> {
    let tree = lab.out("linux/pristine");
    let mut command = Command::new("perl");
    command
        .arg(tree.join("scripts/checkpatch.pl"))
        .args(["--strict", "--terse", "--no-summary", "--quiet"])
        .arg(format!("--ignore={IGNORED}"))
        .arg("--root")
        .arg(&tree)
        .arg(patch.canonicalize().context("a patch is gone")?);
    // It runs a program that wants a library of Python's, and goes on without.
    command.stderr(Stdio::null());
    // It leaves a list of names in the working directory.
    command.current_dir(lab.out("series"));
    let output = command.output().context("cannot start perl")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    // Each line begins with the patch's own name.
    let line = |line: &str| match line.split_once(".patch:") {
        Some((_, rest)) => rest.to_string(),
        None => line.to_string(),
    };
    Ok(said
        .lines()
        .map(line)
        .filter(|line| !plan.accepts(&patch.to_string_lossy(), line))
        .collect())
}

/// The files in which the applied series differ from the lab's kernel.
fn differences(lab: &Lab, applied: &Repository, version: &str) -> Result<Vec<String>> {
    let staging = lab.out("series/staging");
    files::remove(&staging)?;
    let ours = source::stage(lab, &lab.out("linux/pristine"), &staging, version)?;
    let mut wrong = Vec::new();
    for path in &ours {
        let read = |dir: &Path| std::fs::read(dir.join(path)).ok();
        if read(&staging) != read(&applied.0) {
            wrong.push(format!("{path} differs"));
        }
    }
    // Files of the series alone are tests for the stock kernel.
    let listed = applied.git(&["ls-files"])?;
    let stock = lab.out("linux/pristine");
    let extra: BTreeSet<&str> = listed
        .lines()
        .filter(|path| !ours.contains(*path))
        .filter(|path| {
            let same =
                std::fs::read(stock.join(path)).ok() == std::fs::read(applied.0.join(path)).ok();
            !same && !path.starts_with("tools/testing/selftests/mm/")
        })
        .collect();
    wrong.extend(
        extra
            .iter()
            .map(|path| format!("{path} is not in the lab's kernel")),
    );
    files::remove(&staging)?;
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_all(lab: &Lab) -> Vec<Vec<PathBuf>> {
        let plan = Plan::read(lab).unwrap();
        write(lab, &plan, "6.12.7", &lab.out("sent")).unwrap()
    }

    #[test]
    fn a_series_that_is_not_there_is_refused_before_anything_is_written() {
        let (_dir, lab) = plan::tests::lab(plan::tests::PLAN);
        let options = Options {
            dir: lab.out("sent"),
            checkpatch: false,
            build: Some(After::Patch),
            sparse: false,
            test: false,
            only: Some("nosuch".into()),
        };
        let problem = series(&lab, &options).unwrap_err().to_string();
        assert!(problem.contains("there is no series nosuch"), "{problem}");
        assert!(!lab.out("sent").exists());
    }

    #[test]
    fn each_series_has_a_cover_letter_and_patches_that_git_takes() {
        let (_dir, lab) = plan::tests::lab(plan::tests::PLAN);
        let written = write_all(&lab);
        assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        let first = files::read(&written[0][0]).unwrap();
        assert!(first.contains("From: A B <a@b.c>"), "{first}");
        assert!(first.contains("Subject: [PATCH 1/1] mm: call"));
        assert!(first.contains("+hook") && !first.contains("for later"));
        let letters = files::with_suffix(&lab.out("sent/1-first"), ".patch").unwrap();
        let letter = files::read(&letters[0]).unwrap();
        assert!(letter.contains("[PATCH 0/1] mm: do it"), "{letter}");
        assert!(letter.contains("What it is.\n\nSaid by hand.\n\nThis is based on Linux 6.12.7."));
        assert!(!letter.contains("***"), "{letter}");

        let plan = Plan::read(&lab).unwrap();
        let applied = Repository::create(&lab.out("applied")).unwrap();
        baseline(&lab, &plan, &applied, "6.12.7").unwrap();
        for patch in written.iter().flatten() {
            let mut am = applied.command(&["am", "--quiet"]);
            assert_eq!(failure(am.arg(patch), &lab).unwrap(), [""; 0]);
        }
        assert_eq!(differences(&lab, &applied, "6.12.7").unwrap(), [""; 0]);
        files::write(&applied.0.join("mm/cohort/core.c"), b"other\n").unwrap();
        let wrong = differences(&lab, &applied, "6.12.7").unwrap();
        assert_eq!(wrong, ["mm/cohort/core.c differs"]);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_reported_before_the_kernel_is_unpacked() {
        let (_dir, lab) = plan::tests::lab(plan::tests::PLAN);
        files::write(&lab.out("plain"), b"").unwrap();
        let options = Options {
            dir: lab.out("plain"),
            checkpatch: false,
            build: None,
            sparse: false,
            test: false,
            only: None,
        };
        let problem = format!("{:#}", series(&lab, &options).unwrap_err());
        assert!(problem.contains("cannot create"), "{problem}");
        assert!(problem.contains("plain/1-first"), "{problem}");
    }

    #[test]
    fn one_series_alone_is_asked_something() {
        let takes = |words: &str| {
            let command = <Options as clap::Args>::augment_args(clap::Command::new("series"));
            let words = format!("series sent {words}");
            command.try_get_matches_from(words.split(' ')).is_ok()
        };
        assert!(!takes("--only first"));
        assert!(takes("--only first --sparse"));
        assert!(takes("--only first --build patch --sparse --test"));
    }

    #[test]
    fn a_header_of_a_later_series_is_absent_and_one_of_the_stock_kernel_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (overlay, tree) = (dir.path().join("overlay"), dir.path().join("tree"));
        let text = b"#include <linux/mm.h>\n#include \"../internal.h\"\n#include \"group.h\"\n";
        for path in [
            "overlay/mm/upper.c",
            "tree/mm/upper.c",
            "overlay/mm/group.c",
        ] {
            files::write(&dir.path().join(path), text).unwrap();
        }
        files::write(&overlay.join("mm/group.h"), b"").unwrap();
        let wrong = absent_includes(&overlay, &tree).unwrap();
        assert_eq!(wrong, ["mm/upper.c includes group.h"]);
        files::write(&tree.join("mm/group.h"), b"").unwrap();
        assert_eq!(absent_includes(&overlay, &tree).unwrap(), [""; 0]);
    }

    #[test]
    fn what_sparse_says_anew_is_wrong_unless_it_is_accepted() {
        let accepted = "\n[[accepted]]\npatch = \"first\"\nsays = \"in 'f'\"\nwhy = \"Stock's.\"\n";
        let (_dir, lab) = plan::tests::lab(&format!("{}{accepted}", plan::tests::PLAN));
        let written = write_all(&lab);
        let plan = Plan::read(&lab).unwrap();
        let touched = touched(&written[0]).unwrap();
        assert_eq!(
            touched.iter().collect::<Vec<_>>(),
            ["mm/cohort/core.c", "mm/doc.rst", "mm/memory.c"]
        );
        let says = |name: &str| {
            let line = format!("mm/memory.c:1:2: warning: imbalance in '{name}'");
            Ok(Warnings::parse(std::iter::once(line.as_str()), "/tree"))
        };
        let added =
            |number: usize, before, after| added(&plan, &plan.series[number], before, after);
        assert_eq!(added(0, says("g"), says("g")), [""; 0]);
        assert_eq!(added(0, says("g"), says("f")), [""; 0]);
        let new = ["mm/memory.c: warning: imbalance in 'f'"];
        assert_eq!(added(1, says("g"), says("f")), new);
        let broken = || Err(vec!["mm/memory.c: error".into()]);
        assert_eq!(added(0, says("g"), broken()), ["mm/memory.c: error"]);
        assert_eq!(added(0, broken(), says("g")), ["mm/memory.c: error"]);
    }

    #[test]
    fn only_patches_are_replaced() {
        let (_dir, lab) = plan::tests::lab(plan::tests::PLAN);
        let own = ["notes.txt", "reply.patch", "001-a.patch"];
        for name in own.into_iter().chain(["0007-gone.patch"]) {
            files::write(&lab.out(&format!("sent/1-first/{name}")), b"").unwrap();
        }
        let written = write_all(&lab);
        assert_eq!(written[0].len(), 1);
        for name in own {
            assert!(lab.out(&format!("sent/1-first/{name}")).exists(), "{name}");
        }
        assert!(!lab.out("sent/1-first/0007-gone.patch").exists());
    }

    #[test]
    fn the_same_sources_give_the_same_patches() {
        let (_dir, lab) = plan::tests::lab(plan::tests::PLAN);
        let read = |written: Vec<Vec<PathBuf>>| -> Vec<String> {
            written
                .iter()
                .flatten()
                .map(|path| files::read(path).unwrap())
                .collect()
        };
        let first = read(write_all(&lab));
        assert_eq!(first, read(write_all(&lab)));
    }

    #[test]
    fn a_message_with_a_long_line_is_wrapped_and_a_list_is_not() {
        let long = "word ".repeat(15) + "ends";
        let patch = format!(
            "From: A\nSubject: mm: s\n\n{long}\nafter it.\n\nShort.\nKept.\n\n- {long}\n\n\
             Signed-off-by: {long}\n---\n+x\n"
        );
        let message = message_of(&patch).unwrap();
        let list = format!("\n\n- {long}\n\nSigned-off-by: {long}\n");
        let rest = message.strip_suffix(&list).unwrap();
        assert!(rest.lines().all(|line| line.len() <= WIDTH), "{rest}");
        assert!(rest.starts_with("mm: s\n\nword") && rest.contains("ends after it."));
        assert!(rest.ends_with("\n\nShort.\nKept."));
    }

    #[test]
    fn a_document_gives_its_first_section() {
        let rst = ".. SPDX\n\n===\nTop\n===\n\nOne ``word``.\n\nTwo.\n\nNext\n====\nThree.\n";
        assert_eq!(introduction(rst), "One word.\n\nTwo.");
        assert_eq!(introduction("Top\n===\n\nOne.\n"), "One.");
    }

    #[test]
    fn the_plan_of_this_repository_has_every_hook_and_every_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lab = Lab::find(Some(root)).unwrap();
        let plan = Plan::read(&lab).unwrap();
        let overlay = lab.path("kernel/overlay");
        for series in &plan.series {
            for early in series.patches.iter().flat_map(|patch| &patch.early) {
                early.content(&overlay).unwrap();
            }
            results(&lab, &series.experiments).unwrap();
        }
    }
}
