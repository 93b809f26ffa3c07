// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernel/series/series.toml`: which hooks and which files of the overlay make which patch of
//! which series.

use crate::lab::Lab;
use crate::lab::arch::Arch;
use crate::lab::host::files;
use crate::lab::kernel::series::read_series;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Its directory; patches that are not of the lab's kernel are here too.
pub const DIR: &str = "kernel/series";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    series: Vec<Series>,
    #[serde(default)]
    part: Vec<Part>,
    #[serde(default)]
    accepted: Vec<Accepted>,
}

/// What a series adds to a file: no earlier form of it, in the series before, has that.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    file: String,
    /// The series' name.
    series: String,
    #[serde(default)]
    edit: Vec<Edit>,
    #[serde(default)]
    without: Vec<String>,
}

/// What checkpatch or sparse says and stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    /// A part of the patch's path; for sparse, of the series' name.
    patch: String,
    /// A part of what is said.
    says: String,
    /// Why it stays.
    why: String,
}

/// What is sent as one thread of mails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its directory's name.
    pub name: String,
    /// The subject of the cover letter.
    pub title: String,
    /// What the cover letter says beside document and results.
    pub cover: String,
    /// A file of the overlay whose first section the cover letter begins with.
    pub doc: Option<String>,
    /// The architecture that its patches are built for; default: the lab's own.
    pub arch: Option<Arch>,
    /// Kept results that the cover letter quotes.
    #[serde(default)]
    pub experiments: Vec<String>,
    #[serde(rename = "patch")]
    pub patches: Vec<Patch>,
}

/// A patch: a hook, files of the overlay, or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// A patch in `kernel/hooks`, which says what the whole is.
    pub hook: Option<String>,
    /// Says it where there is no hook.
    pub subject: Option<String>,
    pub why: Option<String>,
    /// Paths of the overlay, or beginnings of paths with `*`.
    #[serde(default)]
    pub files: Vec<String>,
    /// Files of later patches, in an earlier form.
    #[serde(default)]
    pub early: Vec<Early>,
}

/// A file before a later patch completes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Early {
    /// Its path in the overlay.
    pub file: String,
    /// Texts that are replaced, each found once.
    #[serde(default)]
    pub edit: Vec<Edit>,
    /// What a document does not have yet: sections by their titles; paragraphs, points of a list,
    /// terms of a list of definitions and rows of a table by the beginning of their first lines.
    #[serde(default)]
    pub without: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub from: String,
    pub to: String,
}

/// The series, and which of the overlay's files each patch has.
#[derive(Debug)]
pub struct Plan {
    pub series: Vec<Series>,
    /// Files by position of series and patch.
    owned: BTreeMap<(usize, usize), Vec<String>>,
    accepted: Vec<Accepted>,
}

impl Plan {
    /// Reads it and checks that every hook and every file of the overlay is in one patch.
    pub fn read(lab: &Lab) -> Result<Self> {
        let path = lab.path(DIR).join("series.toml");
        let file: File = toml::from_str(&files::read(&path)?)
            .with_context(|| format!("{} is not a plan of series", path.display()))?;
        Self::checked(lab, file).with_context(|| format!("{} has a mistake", path.display()))
    }

    fn checked(lab: &Lab, mut file: File) -> Result<Self> {
        let mut hooks: BTreeMap<PathBuf, usize> = read_series(&lab.path("kernel/hooks"))?
            .into_iter()
            .map(|hook| (hook, 0))
            .collect();
        for patch in file.series.iter().flat_map(|series| &series.patches) {
            match (&patch.hook, &patch.subject, &patch.why) {
                (None, Some(_), Some(_)) => {}
                (Some(hook), None, None) => match hooks.get_mut(&hook_path(lab, hook)) {
                    Some(count) => *count += 1,
                    None if hook.starts_with("../series/") => {}
                    None => bail!("kernel/hooks/series has no {hook}"),
                },
                _ => bail!("a patch has either `hook`, or `subject` and `why`"),
            }
        }
        if let Some((hook, count)) = hooks.iter().find(|(_, count)| **count != 1) {
            bail!("{} is in {count} patches, not in one", hook.display());
        }
        if let Some(accepted) = file.accepted.iter().find(|a| a.why.trim().is_empty()) {
            bail!("nothing says why `{}` is accepted", accepted.says);
        }
        let owned = owned(lab, &file.series)?;
        for (at, early) in earlies(&file.series) {
            let owner = owned
                .iter()
                .find(|(_, files)| files.contains(&early.file))
                .map(|(owner, _)| *owner);
            if owner.is_none_or(|owner| owner <= at) {
                bail!(
                    "no later patch has {}, of which there is an earlier form",
                    early.file
                );
            }
        }
        for part in &file.part {
            leave_out(part, &mut file.series, &owned)?;
        }
        Ok(Plan {
            series: file.series,
            owned,
            accepted: file.accepted,
        })
    }

    /// What checkpatch says of a patch, or sparse of a series, is accepted, with a reason.
    pub fn accepts(&self, patch: &str, says: &str) -> bool {
        let fits = |a: &Accepted| patch.contains(&a.patch) && says.contains(&a.says);
        self.accepted.iter().any(fits)
    }

    /// The files of the overlay that a patch has in their final form.
    pub fn files(&self, series: usize, patch: usize) -> &[String] {
        self.owned.get(&(series, patch)).map_or(&[], Vec::as_slice)
    }
}

/// Takes a part from the forms that its file has in the series before the part's own.
fn leave_out(
    part: &Part,
    series: &mut [Series],
    owned: &BTreeMap<(usize, usize), Vec<String>>,
) -> Result<()> {
    let Some(own) = series.iter().position(|s| s.name == part.series) else {
        bail!("a part of {} is of no series: {}", part.file, part.series);
    };
    let has_early = |patch: &Patch| patch.early.iter().any(|early| early.file == part.file);
    let is_owner = |((number, _), files): (&(usize, usize), &Vec<String>)| {
        *number == own && files.contains(&part.file)
    };
    if !series[own].patches.iter().any(has_early) && !owned.iter().any(is_owner) {
        bail!(
            "{} does not touch {}, of which it has a part",
            part.series,
            part.file
        );
    }
    let before = series[..own].iter_mut().flat_map(|s| &mut s.patches);
    for early in before.flat_map(|patch| &mut patch.early) {
        if early.file == part.file {
            early.edit.extend_from_slice(&part.edit);
            early.without.extend_from_slice(&part.without);
        }
    }
    Ok(())
}

/// A hook's file.
pub fn hook_path(lab: &Lab, hook: &str) -> PathBuf {
    match hook.strip_prefix("../series/") {
        Some(own) => lab.path(DIR).join(own),
        None => lab.path("kernel/hooks").join(hook),
    }
}

fn earlies(series: &[Series]) -> impl Iterator<Item = ((usize, usize), &Early)> {
    series.iter().enumerate().flat_map(|(number, series)| {
        let patches = series.patches.iter().enumerate();
        patches
            .flat_map(move |(at, patch)| patch.early.iter().map(move |early| ((number, at), early)))
    })
}

/// Assigns each of the overlay's files to the patch with the longest pattern that fits.
fn owned(lab: &Lab, series: &[Series]) -> Result<BTreeMap<(usize, usize), Vec<String>>> {
    let mut patterns = Vec::new();
    for (number, series) in series.iter().enumerate() {
        for (at, patch) in series.patches.iter().enumerate() {
            for pattern in &patch.files {
                if patterns.iter().any(|(_, other, _)| *other == pattern) {
                    bail!("the pattern {pattern} is in two patches");
                }
                patterns.push(((number, at), pattern, false));
            }
        }
    }
    let overlay = lab.path("kernel/overlay");
    let mut owned: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for file in files::walk(&overlay)? {
        let path = file.strip_prefix(&overlay).unwrap_or(&file);
        let path = path.to_string_lossy().into_owned();
        let mut best = None;
        for (owner, pattern, used) in &mut patterns {
            if fits(pattern, &path) {
                *used = true;
                // The longest; a path is longer than a pattern of the same letters.
                best = best.max(Some((pattern.len(), !pattern.ends_with('*'), *owner)));
            }
        }
        let Some((_, _, owner)) = best else {
            bail!("no patch has {path}");
        };
        owned.entry(owner).or_default().push(path);
    }
    if let Some((_, pattern, _)) = patterns.iter().find(|(_, _, used)| !used) {
        bail!("the pattern {pattern} fits no file of the overlay");
    }
    Ok(owned)
}

fn fits(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern,
    }
}

impl Early {
    /// The earlier form's content.
    pub fn content(&self, overlay: &Path) -> Result<String> {
        let mut text = files::read(&overlay.join(&self.file))?;
        for edit in &self.edit {
            let count = text.matches(&edit.from).count();
            if count != 1 {
                bail!(
                    "{DIR}/series.toml replaces `{}` in {}, which has it {count} times: change the \
                     text there to what the file says now",
                    edit.from.trim(),
                    self.file
                );
            }
            text = text.replacen(&edit.from, &edit.to, 1);
        }
        for begin in &self.without {
            text = without(&text, begin).with_context(|| {
                format!(
                    "{DIR}/series.toml leaves `{begin}` out of {}, in which no line begins so",
                    self.file
                )
            })?;
        }
        Ok(text)
    }
}

/// A document without the sections, items and paragraphs whose first lines begin so; none if there
/// is not one.
fn without(text: &str, begin: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    let indented = |at: usize| line(at).starts_with([' ', '\t']);
    let is_title = |at: usize| {
        let rule = line(at + 1);
        !rule.is_empty() && rule.len() == line(at).len() && rule.chars().all(|c| c == '=')
    };
    // Where the block ends that begins there.
    let end = |at: usize| {
        let is_item = line(at).starts_with("* ") || line(at).contains("  ") || indented(at + 1);
        let mut after = at + 1..lines.len();
        let end = match is_item {
            _ if is_title(at) => after.find(|next| is_title(*next)),
            true => after.find(|next| !indented(*next)),
            false => after.find(|next| line(*next).is_empty()).map(|at| at + 1),
        };
        end.unwrap_or(lines.len())
    };
    let mut kept = String::new();
    let mut at = 0;
    let mut found = false;
    while at < lines.len() {
        if line(at).starts_with(begin) {
            found = true;
            at = end(at);
        } else {
            kept.push_str(line(at));
            kept.push('\n');
            at += 1;
        }
    }
    found.then_some(kept)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A checkout with one hook, three files and this plan.
    pub fn lab(plan: &str) -> (tempfile::TempDir, Lab) {
        let (dir, lab) = Lab::fake();
        let write = |path: &str, text: &str| files::write(&lab.path(path), text.as_bytes());
        write("kernel/hooks/series", "0001-mm-call.patch\n").unwrap();
        write(
            "kernel/hooks/0001-mm-call.patch",
            "From: A B <a@b.c>\nSubject: mm: call\n\nWhy.\n\nSigned-off-by: A B <a@b.c>\n---\n\n\
             --- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -1,3 +1,4 @@\n one\n+hook\n two\n three\n",
        )
        .unwrap();
        write("kernel/overlay/mm/cohort/core.c", "core\nfor later\n").unwrap();
        write("kernel/overlay/mm/cohort/upper.c", "upper\n").unwrap();
        write(
            "kernel/overlay/mm/doc.rst",
            "Top\n===\n\nWhat it is.\n\nNext\n====\n",
        )
        .unwrap();
        write("kernel/series/series.toml", plan).unwrap();
        write("out/linux/pristine/mm/memory.c", "one\ntwo\nthree\n").unwrap();
        (dir, lab)
    }

    pub const PLAN: &str = r#"
        [[series]]
        name = "first"
        title = "mm: do it"
        doc = "mm/doc.rst"
        cover = "Said by hand."
        [[series.patch]]
        hook = "0001-mm-call.patch"
        files = ["mm/*"]
        [[series.patch.early]]
        file = "mm/cohort/core.c"
        edit = [{ from = "for later\n", to = "" }]
        [[series]]
        name = "second"
        title = "mm: do more"
        cover = "More."
        [[series.patch]]
        subject = "mm/cohort: add upper"
        why = "Because."
        files = ["mm/cohort/upper.c", "mm/cohort/core*"]
    "#;

    #[test]
    fn what_checkpatch_says_is_accepted_for_a_reason_and_for_its_patch_only() {
        let accepted = |why: &str| {
            format!("{PLAN}\n[[accepted]]\npatch = \"-call\"\nsays = \"BIT\"\nwhy = \"{why}\"\n")
        };
        let (_dir, lab) = lab(&accepted("No macro there."));
        let plan = Plan::read(&lab).unwrap();
        assert!(plan.accepts("1-first/0001-mm-call.patch", "12: CHECK: Prefer BIT"));
        assert!(!plan.accepts("1-first/0001-mm-call.patch", "12: CHECK: other"));
        assert!(!plan.accepts("2-second/0001-mm.patch", "12: CHECK: Prefer BIT"));
        let (_dir, lab) = super::tests::lab(&accepted(""));
        assert!(Plan::read(&lab).is_err());
    }

    fn mistake(from: &str, to: &str) -> String {
        assert!(PLAN.contains(from));
        let (_dir, lab) = lab(&PLAN.replace(from, to));
        format!("{:#}", Plan::read(&lab).unwrap_err())
    }

    #[test]
    fn the_longest_pattern_has_a_file() {
        let (_dir, lab) = lab(PLAN);
        let plan = Plan::read(&lab).unwrap();
        assert_eq!(plan.files(0, 0), ["mm/doc.rst"]);
        assert_eq!(plan.files(1, 0), ["mm/cohort/core.c", "mm/cohort/upper.c"]);
    }

    #[test]
    fn what_is_in_no_patch_or_in_two_is_named() {
        assert!(mistake("\"mm/*\"", "").contains("no patch has mm/doc.rst"));
        assert!(mistake("mm/cohort/core*", "mm/none*").contains("mm/none*"));
        assert!(mistake("mm/cohort/core*", "mm/*").contains("in two patches"));
        assert!(
            mistake(
                "hook = \"0001-mm-call.patch\"",
                "subject = \"a\"\nwhy = \"b\""
            )
            .contains("in 0 patches")
        );
        assert!(mistake("0001-mm-call", "0002-mm-none").contains("0002-mm-none"));
        assert!(mistake("file = \"mm/cohort/core.c\"", "file = \"mm/doc.rst\"").contains("later"));
    }

    #[test]
    fn a_part_is_in_no_form_before_its_series() {
        let part = |part: &str| format!("{PLAN}\n[[part]]\nfile = \"mm/cohort/core.c\"\n{part}");
        let read = |text: String| {
            let (dir, lab) = lab(&text);
            let plan = Plan::read(&lab)?;
            let text = plan.series[0].patches[0].early[0].content(&lab.path("kernel/overlay"));
            drop(dir);
            text
        };
        let own = "series = \"second\"\nedit = [{ from = \"core\", to = \"CORE\" }]";
        assert_eq!(read(part(own)).unwrap(), "CORE\n");
        let mistake = |text: &str| format!("{:#}", read(part(text)).unwrap_err());
        assert!(mistake("series = \"none\"").contains("is of no series: none"));
        assert!(mistake("series = \"second\"\nwithout = [\"x\"]").contains("no line begins so"));
        let doc = part("series = \"second\"")
            .replace("mm/cohort/core.c\"\nseries", "mm/doc.rst\"\nseries");
        let error = format!("{:#}", read(doc).unwrap_err());
        assert!(
            error.contains("second does not touch mm/doc.rst"),
            "{error}"
        );
    }

    #[test]
    fn a_document_can_lack_sections_items_and_paragraphs() {
        let text =
            "A\n=\n\nOne.\nTwo.\n\nBee\n===\n\n* x\n  y\n* z\n\nC\n=\n\nrow  1\nrow  2\nend\n";
        let lacks = |begin: &str| without(text, begin).unwrap_or_default();
        assert_eq!(
            lacks("Bee"),
            "A\n=\n\nOne.\nTwo.\n\nC\n=\n\nrow  1\nrow  2\nend\n"
        );
        assert!(lacks("C").ends_with("* z\n\n"));
        assert!(lacks("* x").contains("===\n\n* z\n"));
        assert!(lacks("row").ends_with("=\n\nend\n"));
        assert!(lacks("One").starts_with("A\n=\n\nBee\n"));
        assert!(without(text, "none").is_none());
    }

    #[test]
    fn an_earlier_form_replaces_what_it_finds_once() {
        let (_dir, lab) = lab(PLAN);
        let plan = Plan::read(&lab).unwrap();
        let early = &plan.series[0].patches[0].early[0];
        let overlay = lab.path("kernel/overlay");
        assert_eq!(early.content(&overlay).unwrap(), "core\n");
        files::write(&overlay.join(&early.file), b"core\n").unwrap();
        let error = early.content(&overlay).unwrap_err().to_string();
        assert!(
            error.contains("0 times") && error.contains("core.c"),
            "{error}"
        );
    }
}
