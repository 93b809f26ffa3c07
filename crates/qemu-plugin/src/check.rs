// SPDX-License-Identifier: GPL-2.0-or-later
//! The check mode: on every access the guest's page tables are walked anew and the result is
//! compared with the physical address that QEMU used.

use crate::ram::Ram;
use crate::target::Target;
use anyhow::{Result, bail};
use serde::Serialize;
use translation::{AccessKind, Context};

/// Complaints that are kept in words.
const WORDS: usize = 20;

/// Compares translations.
pub struct Checker {
    ram: Ram,
    checked: u64,
    wrong: u64,
    complaints: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Translations compared.
    pub checked: u64,
    /// Those that differed.
    pub wrong: u64,
    /// Accesses that the model compared with a walk of its own.
    pub model_checked: u64,
    /// Those that differed, 64 at most.
    pub model_wrong: u64,
}

/// A walk: what it read, and the physical address if it got there.
#[derive(Debug, PartialEq, Eq)]
pub struct Walk {
    /// Addresses and values of the entries, from the root on.
    pub entries: Vec<(u64, u64)>,
    /// The result.
    pub paddr: Option<u64>,
}

/// Bits of an x86-64 entry that are an address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

impl Checker {
    /// For a target that it can walk.
    pub fn new(target: &Target, ram: Ram) -> Result<Self> {
        if target.page_tables != "x86-64" {
            bail!(
                "check=on walks x86-64 page tables, not those of {}",
                target.name
            );
        }
        Ok(Checker {
            ram,
            checked: 0,
            wrong: 0,
            complaints: Vec::new(),
        })
    }

    /// Compares one access.
    pub fn access(&mut self, context: &Context, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let Some(paddr) = paddr else { return };
        self.checked += 1;
        let walk = walk(context, vaddr, |at| self.ram.read_u64(at));
        if walk.paddr == Some(paddr) {
            return;
        }
        self.wrong += 1;
        if self.complaints.len() < WORDS {
            self.complaints.push(format!(
                "{kind:?} at {vaddr:#x}: QEMU used {paddr:#x}, the page tables of {:#x} say {}; \
                 entries: {}",
                context.root,
                walk.paddr
                    .map_or("no translation".into(), |paddr| format!("{paddr:#x}")),
                walk.entries
                    .iter()
                    .map(|(at, value)| format!("[{at:#x}]={value:#x}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            ));
        }
    }

    /// The count, the model's own check beside it.
    pub fn verdict(&self, (model_checked, words): &(u64, Vec<String>)) -> Verdict {
        Verdict {
            checked: self.checked,
            wrong: self.wrong,
            model_checked: *model_checked,
            model_wrong: words.len() as u64,
        }
    }

    /// The first disagreements, in words.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

/// Walks x86-64 page tables (Intel SDM volume 3, 4.5).
fn walk(context: &Context, vaddr: u64, read: impl Fn(u64) -> Option<u64>) -> Walk {
    let mut walk = Walk {
        entries: Vec::new(),
        paddr: None,
    };
    if !context.paging {
        walk.paddr = Some(vaddr);
        return walk;
    }
    let mut table = context.root;
    let levels = if context.levels == 5 { 5 } else { 4 };
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let at = table + (vaddr >> shift & 511) * 8;
        let Some(entry) = read(at) else { return walk };
        walk.entries.push((at, entry));
        if entry & 1 == 0 {
            return walk;
        }
        let offset = (1u64 << shift) - 1;
        if level == 0 || (level <= 2 && entry & 0x80 != 0) {
            walk.paddr = Some(entry & ADDRESS & !offset | vaddr & offset);
            return walk;
        }
        table = entry & ADDRESS;
    }
    walk
}
