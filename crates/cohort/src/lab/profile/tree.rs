// SPDX-License-Identifier: GPL-2.0-or-later
//! The tree of calls that the plugin counted: read, cut down to one function's work, summed up.

use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The plugin's file.
#[derive(Debug, Deserialize)]
pub struct File {
    functions: Vec<String>,
    regions: Vec<Region>,
}

#[derive(Debug, Deserialize)]
struct Region {
    step: u64,
    user: u64,
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    function: usize,
    parent: usize,
    instructions: u64,
    calls: u64,
}

/// Instructions by path of calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Instructions outside the kernel.
    pub user: u64,
    /// Instructions and calls of each path, outermost function first.
    pub paths: BTreeMap<Vec<String>, (u64, u64)>,
}

/// What one function took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// In the function itself.
    pub own: u64,
    /// With all that it called.
    pub total: u64,
    /// How often it was called.
    pub calls: u64,
}

/// Reads the plugin's file.
pub fn read(path: &Path) -> Result<File> {
    let text = files::read(path)?;
    let file: File = serde_json::from_str(&text)
        .with_context(|| format!("{} is not of this plugin: `make build`", path.display()))?;
    for region in &file.regions {
        for (at, node) in region.nodes.iter().enumerate() {
            if node.function >= file.functions.len() || (at > 0 && node.parent >= at) {
                bail!("{} is not a profile: node {at} is wrong", path.display());
            }
        }
    }
    Ok(file)
}

impl File {
    /// All regions of the steps whose numbers are wanted, in one tree; none if there are none.
    pub fn calls(&self, wanted: impl Fn(u64) -> bool) -> Option<Calls> {
        let mut calls = Calls::default();
        let mut any = false;
        for region in self.regions.iter().filter(|region| wanted(region.step)) {
            any = true;
            calls.user += region.user;
            let mut paths: Vec<Vec<String>> = Vec::with_capacity(region.nodes.len());
            for (at, node) in region.nodes.iter().enumerate() {
                let mut path = Vec::new();
                if at > 0 {
                    path.clone_from(&paths[node.parent]);
                    path.push(self.functions[node.function].clone());
                    let entry = calls.paths.entry(path.clone()).or_default();
                    entry.0 += node.instructions;
                    entry.1 += node.calls;
                }
                paths.push(path);
            }
        }
        any.then_some(calls)
    }
}

impl Calls {
    /// Only what the outermost calls of a function did.
    pub fn under(self, function: &str) -> Calls {
        let mut under = Calls::default();
        for (path, (instructions, calls)) in self.paths {
            if let Some(at) = path.iter().position(|name| name == function) {
                let entry = under.paths.entry(path[at..].to_vec()).or_default();
                entry.0 += instructions;
                entry.1 += calls;
            }
        }
        under
    }

    /// Instructions in the kernel.
    pub fn kernel(&self) -> u64 {
        self.paths
            .values()
            .map(|(instructions, _)| instructions)
            .sum()
    }

    /// What each function took.
    pub fn functions(&self) -> BTreeMap<&str, Cost> {
        let mut costs: BTreeMap<&str, Cost> = BTreeMap::new();
        for (path, (instructions, calls)) in &self.paths {
            // One that calls itself counts once.
            for name in path.iter().map(String::as_str).collect::<BTreeSet<_>>() {
                costs.entry(name).or_default().total += instructions;
            }
            if let Some(last) = path.last() {
                let cost = costs.entry(last).or_default();
                cost.own += instructions;
                cost.calls += calls;
            }
        }
        costs
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn calls(paths: &[(&str, u64, u64)]) -> Calls {
        let path = |text: &str| text.split(';').map(String::from).collect::<Vec<_>>();
        Calls {
            user: 0,
            paths: paths.iter().map(|p| (path(p.0), (p.1, p.2))).collect(),
        }
    }

    #[test]
    fn regions_of_the_wanted_steps_are_added_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("profile.json");
        let region = |step: u64| {
            format!(
                r#"{{"step": {step}, "user": 5, "nodes": [
                    {{"function": 0, "parent": 0, "instructions": 0, "calls": 0}},
                    {{"function": 1, "parent": 0, "instructions": 10, "calls": 1}},
                    {{"function": 2, "parent": 1, "instructions": 7, "calls": 3}}]}}"#
            )
        };
        let text = |bad: &str| {
            let regions = [region(1), region(2), region(1)].join(",");
            format!(
                r#"{{"schema_version": 1, "functions": ["[unknown]", "a", "b"],
                    "regions": [{regions}{bad}]}}"#
            )
        };
        files::write(&path, text("").as_bytes()).unwrap();
        let file = read(&path).unwrap();
        let sum = file.calls(|step| step == 1).unwrap();
        assert_eq!(sum.user, 10);
        assert_eq!(sum.paths, calls(&[("a", 20, 2), ("a;b", 14, 6)]).paths);
        assert!(file.calls(|step| step == 3).is_none());
        let bad = r#", {"step": 1, "user": 0, "nodes": [
            {"function": 0, "parent": 0, "instructions": 0, "calls": 0},
            {"function": 1, "parent": 1, "instructions": 0, "calls": 0}]}"#;
        files::write(&path, text(bad).as_bytes()).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("node 1"));
    }

    #[test]
    fn a_functions_own_work_is_told_from_that_of_what_it_calls() {
        let all = calls(&[
            ("entry", 5, 1),
            ("entry;fork", 10, 2),
            ("entry;fork;copy", 100, 4),
            ("entry;fork;copy;copy", 50, 1),
            ("irq;copy", 1, 1),
        ]);
        let costs = all.functions();
        assert_eq!(
            costs["copy"],
            Cost {
                own: 151,
                total: 151,
                calls: 6
            }
        );
        assert_eq!(costs["entry"].total, 165);
        assert_eq!(all.kernel(), 166);
        let under = all.under("fork");
        assert_eq!(under.kernel(), 160);
        assert_eq!(under.functions()["fork"].calls, 2);
        assert!(!under.functions().contains_key("entry"));
    }
}
