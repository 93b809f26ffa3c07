// SPDX-License-Identifier: GPL-2.0-or-later
//! The profile: instructions by kernel function and by the functions that called it.
//!
//! The plugin sees blocks of instructions, not calls. It keeps, for each kernel stack, the frames
//! that are open: a function's frame begins where the stack pointer stood at its first
//! instruction, and has ended once the stack pointer is above that. So returns, jumps from a
//! function's end to another function, interrupts and switches of the stack need no decoding. The
//! stack pointer is read only where the function changes.
//!
//! A block counts as a whole when it is entered. One that ends early, in a page fault of the
//! kernel on user memory, counts more instructions than it executed.

use crate::symbols::{Symbols, UNKNOWN};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Increase it when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;
/// A kernel stack has this alignment (16 KB, the least of x86-64's configurations). Stacks of
/// interrupts may be less aligned: the functions on them then begin a tree of their own.
const STACK_SHIFT: u32 = 14;
/// The node that all others are below; it stands for no function.
const ROOT: usize = 0;

/// Profiles what lies between the marks start and stop.
#[derive(Debug)]
pub struct Profiler {
    symbols: Symbols,
    path: PathBuf,
    kernel: u64,
    step: u64,
    open: Option<Tree>,
    done: Vec<Region>,
    cores: Vec<Running>,
    /// Frames by stack.
    stacks: HashMap<u64, Vec<Frame>>,
}

/// The function that a core runs, and the node that counts it.
#[derive(Debug, Clone, Copy)]
struct Running {
    function: Option<u32>,
    node: usize,
}

const NOWHERE: Running = Running {
    function: None,
    node: ROOT,
};

#[derive(Debug, Clone, Copy)]
struct Frame {
    function: u32,
    node: usize,
    /// The stack pointer at the function's first instruction.
    stack: u64,
}

#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    children: HashMap<(usize, u32), usize>,
    user: u64,
}

/// A function as called by those above it.
#[derive(Debug, Clone, Serialize)]
struct Node {
    function: u32,
    parent: usize,
    /// In the function itself.
    instructions: u64,
    /// How often its first instruction was executed.
    calls: u64,
}

/// The file's content.
#[derive(Debug, Serialize)]
struct Output<'a> {
    schema_version: u32,
    /// Names by number.
    functions: &'a [String],
    regions: &'a [Region],
}

#[derive(Debug, Serialize)]
struct Region {
    /// The argument of the last mark `step` before it.
    step: u64,
    /// Instructions outside the kernel.
    user: u64,
    /// The first is above all others and stands for no function.
    nodes: Vec<Node>,
}

impl Tree {
    fn new() -> Self {
        let root = Node {
            function: UNKNOWN,
            parent: ROOT,
            instructions: 0,
            calls: 0,
        };
        Tree {
            nodes: vec![root],
            ..Tree::default()
        }
    }

    fn child(&mut self, parent: usize, function: u32) -> usize {
        let nodes = &mut self.nodes;
        *self.children.entry((parent, function)).or_insert_with(|| {
            nodes.push(Node {
                function,
                parent,
                instructions: 0,
                calls: 0,
            });
            nodes.len() - 1
        })
    }
}

impl Profiler {
    /// Profiles a guest with the kernel `vmlinux`, whose half begins at `kernel`, into the file
    /// `path`.
    pub fn new(vmlinux: &Path, path: PathBuf, kernel: u64, cores: usize) -> Result<Self> {
        Ok(Self::with(Symbols::read(vmlinux)?, path, kernel, cores))
    }

    fn with(symbols: Symbols, path: PathBuf, kernel: u64, cores: usize) -> Self {
        Profiler {
            symbols,
            path,
            kernel,
            step: 0,
            open: None,
            done: Vec::new(),
            cores: vec![NOWHERE; cores],
            stacks: HashMap::new(),
        }
    }

    /// The function at an address, and whether it begins there.
    pub fn function(&self, vaddr: u64) -> (u32, bool) {
        self.symbols.at(vaddr)
    }

    /// What follows belongs to this step.
    pub fn step(&mut self, number: u64) {
        self.step = number;
    }

    /// A region starts. If one is open, it starts again.
    pub fn start(&mut self) {
        self.open = Some(Tree::new());
        self.cores.fill(NOWHERE);
        self.stacks.clear();
    }

    /// The open region stops, if there is one.
    pub fn stop(&mut self) {
        if let Some(tree) = self.open.take() {
            self.done.push(Region {
                step: self.step,
                user: tree.user,
                nodes: tree.nodes,
            });
        }
    }

    /// A core enters `instructions` instructions of user code.
    #[inline]
    pub fn user(&mut self, core: usize, instructions: u32) {
        if let Some(tree) = &mut self.open {
            tree.user += u64::from(instructions);
            self.cores[core].function = None;
        }
    }

    /// A core enters `instructions` instructions of a kernel function, at its first one if `entry`.
    /// `stack` reads the stack pointer.
    #[inline]
    pub fn kernel(
        &mut self,
        core: usize,
        (function, entry): (u32, bool),
        instructions: u32,
        stack: impl FnOnce() -> u64,
    ) {
        let Some(tree) = &mut self.open else { return };
        let running = &mut self.cores[core];
        if entry || running.function != Some(function) {
            let stack = stack();
            running.function = Some(function);
            // The entry of system calls still has the stack of the process.
            running.node = match stack < self.kernel {
                true => tree.child(ROOT, function),
                false => {
                    let frames = self.stacks.entry(stack >> STACK_SHIFT).or_default();
                    place(tree, frames, function, entry, stack)
                }
            };
            tree.nodes[running.node].calls += u64::from(entry);
        }
        tree.nodes[running.node].instructions += u64::from(instructions);
    }

    /// Writes the file, under another name first, so that it appears complete or not at all.
    pub fn finish(&mut self) -> Result<()> {
        let output = Output {
            schema_version: SCHEMA_VERSION,
            functions: self.symbols.names(),
            regions: &self.done,
        };
        let text = serde_json::to_string(&output).context("cannot turn the profile into JSON")?;
        let mut part = self.path.as_os_str().to_owned();
        part.push(".part");
        std::fs::write(&part, text + "\n")
            .and_then(|()| std::fs::rename(&part, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Ends the frames that are over, and returns the node of the function that runs now.
fn place(
    tree: &mut Tree,
    frames: &mut Vec<Frame>,
    function: u32,
    entry: bool,
    stack: u64,
) -> usize {
    while let Some(top) = frames.last() {
        // At the same place of the stack another function has been jumped to, not called.
        let replaced = top.stack == stack && (entry || top.function != function);
        if top.stack >= stack && !replaced {
            break;
        }
        frames.pop();
    }
    match frames.last() {
        Some(top) if !entry && top.function == function => top.node,
        top => {
            let parent = top.map_or(ROOT, |top| top.node);
            let node = tree.child(parent, function);
            frames.push(Frame {
                function,
                node,
                stack,
            });
            node
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::tests::alphabet;

    const HALF: u64 = 0xffff_8000_0000_0000;
    const STACK: u64 = 0xffff_c900_0000_4000;

    fn profiler() -> Profiler {
        let mut profiler = Profiler::with(alphabet(5), PathBuf::new(), HALF, 2);
        profiler.start();
        profiler
    }

    /// Runs ten instructions of the function at its first instruction (`+a`) or later (`a`), with
    /// the stack pointer so many bytes below the stack's end.
    fn run(profiler: &mut Profiler, what: &str, depth: u64) {
        let entry = what.starts_with('+');
        let letter = what.trim_start_matches('+').as_bytes()[0];
        let at = u32::from(letter - b'a') + 1;
        profiler.kernel(0, (at, entry), 10, || STACK - depth);
    }

    /// Each path with its instructions and calls, sorted.
    fn paths(profiler: &mut Profiler) -> Vec<(String, u64, u64)> {
        profiler.stop();
        let nodes = &profiler.done.last().unwrap().nodes;
        let name = |node: &Node| profiler.symbols.names()[node.function as usize].clone();
        let mut all: Vec<_> = nodes[1..]
            .iter()
            .map(|node| {
                let (mut path, mut parent) = (name(node), node.parent);
                while parent != ROOT {
                    path = format!("{};{path}", name(&nodes[parent]));
                    parent = nodes[parent].parent;
                }
                (path, node.instructions, node.calls)
            })
            .collect();
        all.sort();
        all
    }

    fn expect(profiler: &mut Profiler, expected: &[(&str, u64, u64)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(path, instructions, calls)| (path.to_string(), instructions, calls))
            .collect();
        assert_eq!(paths(profiler), expected);
    }

    #[test]
    fn a_call_is_below_its_caller_and_a_return_goes_back() {
        let mut p = profiler();
        run(&mut p, "+a", 0x10);
        run(&mut p, "a", 0x40);
        run(&mut p, "+b", 0x48);
        run(&mut p, "+c", 0x60);
        run(&mut p, "b", 0x58);
        run(&mut p, "a", 0x40);
        run(&mut p, "+c", 0x48);
        run(&mut p, "a", 0x40);
        let paths = [
            ("a", 40, 1),
            ("a;b", 20, 1),
            ("a;b;c", 10, 1),
            ("a;c", 10, 1),
        ];
        expect(&mut p, &paths);
    }

    #[test]
    fn a_function_that_pushes_nothing_and_calls_keeps_its_frame() {
        let mut p = profiler();
        run(&mut p, "+a", 0x10);
        run(&mut p, "+b", 0x18);
        run(&mut p, "a", 0x10);
        expect(&mut p, &[("a", 20, 1), ("a;b", 10, 1)]);
    }

    #[test]
    fn a_jump_to_another_function_takes_the_callers_place() {
        let mut p = profiler();
        run(&mut p, "+a", 0x10);
        run(&mut p, "+b", 0x28);
        run(&mut p, "+c", 0x28);
        run(&mut p, "a", 0x20);
        expect(&mut p, &[("a", 20, 1), ("a;b", 10, 1), ("a;c", 10, 1)]);
    }

    #[test]
    fn a_function_that_calls_itself_is_below_itself() {
        let mut p = profiler();
        run(&mut p, "+a", 0x10);
        run(&mut p, "+a", 0x30);
        run(&mut p, "+b", 0x50);
        run(&mut p, "a", 0x48);
        expect(&mut p, &[("a", 10, 1), ("a;a", 20, 1), ("a;a;b", 10, 1)]);
    }

    #[test]
    fn stacks_are_kept_apart_and_user_code_is_no_function() {
        let mut p = profiler();
        run(&mut p, "+a", 0x10);
        // An interrupt, on a stack of its own.
        p.kernel(0, (4, true), 5, || STACK + 0x8000 - 0x10);
        run(&mut p, "a", 0x30);
        p.user(0, 7);
        // The entry from user code has the process's stack.
        p.kernel(0, (5, true), 3, || 0x7fff_0000);
        run(&mut p, "+b", 0x20);
        let paths = [("a", 20, 1), ("b", 10, 1), ("d", 5, 1), ("e", 3, 1)];
        // `a` was entered at 0x10, so that `b` at 0x20 looks like its callee.
        let mut with_b_below = paths;
        with_b_below[1].0 = "a;b";
        expect(&mut p, &with_b_below);
        assert_eq!(p.done[0].user, 7);
    }

    #[test]
    fn nothing_is_counted_outside_a_region_and_regions_have_their_step() {
        let mut p = profiler();
        p.stop();
        run(&mut p, "+a", 0x10);
        p.step(3);
        p.start();
        run(&mut p, "b", 0x20);
        run(&mut p, "c", 0x10);
        expect(&mut p, &[("b", 10, 0), ("c", 10, 0)]);
        assert_eq!((p.done.len(), p.done[1].step), (2, 3));
        assert_eq!(p.done[0].nodes.len(), 1);
    }
}
