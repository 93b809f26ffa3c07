// SPDX-License-Identifier: GPL-2.0-or-later
//! The cores: what each translates by, which address space it runs, which faults it is handling.

use crate::arch::op::Mmu;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// One core.
#[derive(Debug, Default)]
pub struct Core {
    /// What it translates by.
    pub mmu: Mmu,
    /// Names the address space as it is now, see [`Cores::renew`].
    pub space: u64,
    /// The process is read when code of its own runs next: the kernel sets the root first.
    pub ask: bool,
    /// Stack pointers at the entry of the page faults under way, the innermost last.
    pub faults: Vec<u64>,
}

/// All of them.
#[derive(Debug)]
pub struct Cores {
    list: Vec<Core>,
    /// The name of each root's address space.
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
    /// This many.
    pub fn new(count: usize) -> Self {
        Cores {
            list: (0..count).map(|_| Core::default()).collect(),
            spaces: HashMap::new(),
            next_space: 1,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The core has a new root: it runs that root's address space.
    pub fn enter(&mut self, core: usize) {
        let root = self.list[core].mmu.context.root;
        match self.spaces.get(&root) {
            Some(&space) => self.list[core].space = space,
            None => self.renew(root),
        }
    }

    /// The address space of `root` has changed: what was at an address in it may be elsewhere.
    pub fn renew(&mut self, root: u64) {
        self.next_space += 1;
        self.spaces.insert(root, self.next_space);
        for core in &mut self.list {
            if core.mmu.context.root == root {
                core.space = self.next_space;
            }
        }
    }

    /// The same for every address space.
    pub fn renew_all(&mut self) {
        self.spaces.clear();
        for core in 0..self.list.len() {
            self.renew(self.list[core].mmu.context.root);
        }
    }
}
