// SPDX-License-Identifier: GPL-2.0-or-later
//! The check mode: walk the guest's page tables at every access and compare the result with the
//! physical address that QEMU used.

use crate::arch::{Walk, Walker};
use crate::ram::Ram;
use serde::Serialize;
use translation::{AccessKind, Context};

/// Only this many differences are printed.
const PRINTED: usize = 20;

/// Compares translations and counts the differences.
pub struct Checker {
    ram: Ram,
    walk: Walker,
    checked: u64,
    wrong: u64,
    complaints: Vec<String>,
}

/// Counts of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Translations compared.
    pub checked: u64,
    /// Translations that differed from QEMU's.
    pub wrong: u64,
    /// Accesses that the model compared with its own walk.
    pub model_checked: u64,
    /// Accesses whose model walk differed, 64 at most.
    pub model_wrong: u64,
}

impl Checker {
    pub fn new(walk: Walker, ram: Ram) -> Self {
        Checker {
            ram,
            walk,
            checked: 0,
            wrong: 0,
            complaints: Vec::new(),
        }
    }

    /// Compares one access; does nothing where QEMU used no memory.
    pub fn access(&mut self, context: &Context, kind: AccessKind, vaddr: u64, paddr: Option<u64>) {
        let Some(paddr) = paddr else { return };
        self.checked += 1;
        let walk = match context.paging {
            true => (self.walk)(context, vaddr, &self.ram),
            false => Walk {
                entries: Vec::new(),
                paddr: Some(vaddr),
            },
        };
        if walk.paddr == Some(paddr) {
            return;
        }
        self.wrong += 1;
        if self.complaints.len() < PRINTED {
            self.complaints.push(format!(
                "{kind:?} at {vaddr:#x}: QEMU used {paddr:#x}, the page tables of {:#x} give {}; \
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

    /// The counts, with those of the model's own check: accesses compared, and the differences.
    pub fn verdict(&self, (model_checked, words): &(u64, Vec<String>)) -> Verdict {
        Verdict {
            checked: self.checked,
            wrong: self.wrong,
            model_checked: *model_checked,
            model_wrong: words.len() as u64,
        }
    }

    /// Sentences for the first differences.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Layout;

    #[test]
    fn accesses_are_counted_and_a_wrong_one_is_reported_with_its_entries() {
        // GIVEN a table of one level at 0x1000 that has a page at 0x5000 for one address
        let mut words = vec![0u64; 1024];
        let vaddr = 0x7890u64;
        words[512 + 7] = 0x5007;
        let walk: Walker = |context, vaddr, ram| {
            let at = context.root + (vaddr >> 12) * 8;
            let entry = ram.read_u64(at).unwrap();
            Walk {
                entries: vec![(at, entry)],
                paddr: (entry != 0).then_some(entry & !0xfff | vaddr & 0xfff),
            }
        };
        let layout = Layout {
            base: 0,
            low: u64::MAX,
            high: 0,
        };
        let mut checker = Checker::new(walk, Ram::over(&words, layout));
        let on = Context {
            paging: true,
            root: 0x1000,
            ..Context::default()
        };
        // WHEN QEMU used what the tables say, or nothing, or paging is off THEN nothing is wrong
        checker.access(&on, AccessKind::Read, vaddr, Some(0x5890));
        checker.access(&on, AccessKind::Read, vaddr, None);
        checker.access(&Context::default(), AccessKind::Fetch, 0x70, Some(0x70));
        let own = (5, Vec::new());
        assert_eq!(
            (checker.verdict(&own).checked, checker.verdict(&own).wrong),
            (2, 0)
        );
        // WHEN it used another page, or one where there is none THEN both are reported
        checker.access(&on, AccessKind::Write, vaddr, Some(0x4890));
        checker.access(&on, AccessKind::Read, vaddr + 0x1000, Some(0x5890));
        let expected = Verdict {
            checked: 4,
            wrong: 2,
            model_checked: 5,
            model_wrong: 1,
        };
        assert_eq!(checker.verdict(&(5, vec!["one".into()])), expected);
        let [first, second] = checker.complaints() else {
            panic!("{:?}", checker.complaints());
        };
        assert!(
            first.contains("Write at 0x7890: QEMU used 0x4890"),
            "{first}"
        );
        assert!(
            first.contains("give 0x5890") && first.contains("[0x1038]=0x5007"),
            "{first}"
        );
        assert!(second.contains("no translation"), "{second}");
    }
}
