// SPDX-License-Identifier: GPL-2.0-or-later
//! The cores: what each translates by, which address space it runs, which faults it is handling.

use crate::arch::op::Mmu;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use translation::{Context, Member};

#[derive(Debug, Default)]
pub struct Core {
    pub mmu: Mmu,
    /// The root of the last process: it stays while there is none.
    pub ran: u64,
    /// The name of the current address space; a new one after [`Cores::renew`].
    pub space: u64,
    /// True from a change of root until user code runs: only then is the new process readable.
    pub ask: bool,
    /// Stack pointers at the entry of the page faults being handled, the innermost last.
    pub faults: Vec<u64>,
    /// What runs, as BabelFish's kernel says.
    pub member: Member,
    /// The last second root by which the kernel's memory could be read. With page-table isolation
    /// (arm64 `kpti=on`) it is another one while user code runs.
    pub kernel_root: Option<u64>,
}

impl Core {
    /// How the core translates the kernel's addresses, also while user code runs.
    pub fn kernel_context(&self) -> Context {
        let context = self.mmu.context;
        Context {
            root_high: self.kernel_root.unwrap_or(context.root_high),
            ..context
        }
    }
}

/// All cores, and the names of the address spaces they run.
#[derive(Debug)]
pub struct Cores {
    list: Vec<Core>,
    /// Root to name.
    spaces: HashMap<u64, u64>,
    next_space: u64,
}

impl Index<usize> for Cores {
    type Output = Core;
    #[inline(always)]
    fn index(&self, core: usize) -> &Core {
        &self.list[core]
    }
}

impl IndexMut<usize> for Cores {
    #[inline(always)]
    fn index_mut(&mut self, core: usize) -> &mut Core {
        &mut self.list[core]
    }
}

impl Cores {
    pub fn new(count: usize) -> Self {
        Cores {
            list: (0..count).map(|_| Core::default()).collect(),
            spaces: HashMap::new(),
            next_space: 1,
        }
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Updates the core's address space after its root changed.
    pub fn enter(&mut self, core: usize) {
        let root = self.list[core].mmu.context.root;
        match self.spaces.get(&root) {
            Some(&space) => self.list[core].space = space,
            None => self.renew(root),
        }
    }

    /// Gives the address space of `root` a new name: code in it may now be at another address, and
    /// blocks must be placed again.
    pub fn renew(&mut self, root: u64) {
        self.next_space += 1;
        self.spaces.insert(root, self.next_space);
        for core in &mut self.list {
            if core.mmu.context.root == root {
                core.space = self.next_space;
            }
        }
    }

    /// Does the same for every address space.
    pub fn renew_all(&mut self) {
        self.spaces.clear();
        for core in 0..self.list.len() {
            self.renew(self.list[core].mmu.context.root);
        }
    }
}
