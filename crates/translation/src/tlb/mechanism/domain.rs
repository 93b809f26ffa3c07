// SPDX-License-Identifier: GPL-2.0-or-later
//! Domains (ARMv7), which EuroSys'16 gives the zygote's shared pages (section 3.2).
//!
//! An entry carries the number of its domain, and the core's DACR says what the running process may
//! do there: nothing, what the rights allow (*client*), or everything (*manager*). A closed domain
//! faults, or with `check = "miss"` does not match.

use super::{After, Counts as AllCounts, Drop, Figure, Looked, Lookup, Match, Mechanism, Setup};
use super::{Terms, Way};
use crate::entry::attr;
use crate::event::Fault;
use crate::memory::GuestMemory;
use crate::tally::counters;
use serde::Deserialize;

/// What the hardware does when an entry's domain is closed to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// A domain fault, as ARM's does.
    Fault,
    /// No match: the improvement that EuroSys'16 section 3.2.3 ends with.
    Miss,
}

/// `[domains]`, for page tables that have them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What a closed domain does.
    pub check: Check,
    /// Cycles that the handler of a domain fault takes, which a guest under QEMU never runs.
    pub handler_cycles: u64,
}

impl super::Part for Part {
    fn check(&self, _: &Setup) -> Result<(), String> {
        Ok(())
    }

    fn times(&self) -> Vec<(&'static str, u64)> {
        vec![("handler_cycles", self.handler_cycles)]
    }

    fn build(&self, machine: &Setup) -> Option<Box<dyn Mechanism>> {
        machine.format.has_domains().then(|| {
            Box::new(Domains {
                check: self.check,
                handler: self.handler_cycles * machine.ticks_per_cycle,
                fault: false,
            }) as Box<dyn Mechanism>
        })
    }
}

counters! {
    /// Domains' counters.
    Counts {
        /// Domain faults that the hardware would have taken on a translation left over by another
        /// process (EuroSys'16 section 3.2.3). The guest under QEMU did not take them.
        faults: u64,
    }
}

impl Counts {
    /// As [`super::Counts::figures`].
    pub fn figures(&self) -> Vec<Figure> {
        vec![("domain-faults", self.faults, "faults")]
    }
}

#[derive(Clone, Debug)]
struct Domains {
    check: Check,
    handler: u64,
    /// The lookup met a closed domain, though the access succeeded in the guest.
    fault: bool,
}

/// The DACR's two bits for an entry's domain.
fn access(dacr: u32, bits: u16) -> u32 {
    let domain = u32::from(bits >> attr::DOMAIN_SHIFT & 15);
    dacr >> (2 * domain) & 3
}

impl Mechanism for Domains {
    fn judges(&self, _: usize) -> bool {
        true
    }

    fn judge(
        &mut self,
        of: &Lookup,
        way: &Way,
        terms: &mut Terms,
        _: &dyn GuestMemory,
        _: &mut AllCounts,
    ) -> Match {
        const CLIENT: u32 = 1;
        const MANAGER: u32 = 3;
        match access(of.dacr, way.attr) {
            CLIENT => Match::Yes,
            MANAGER => {
                terms.checked = false;
                Match::Yes
            }
            _ if of.walked => Match::Fault(Fault::Domain),
            _ if self.check == Check::Miss => Match::No,
            // QEMU flushes its TLB when the DACR changes, so its guest never took this fault.
            _ if of.certain => {
                self.fault = true;
                Match::No
            }
            _ => Match::Fault(Fault::Domain),
        }
    }

    fn looked(&mut self, of: &Lookup, _: Looked, after: &mut After, counts: &mut AllCounts) {
        if std::mem::take(&mut self.fault) {
            // Slides page 12: the handler finds a domain fault in the status register and flushes
            // all entries with the faulting address; the access misses then, and is walked.
            counts.domains.faults += 1;
            after.time += self.handler;
            after.miss = true;
            after.drop = Some(Drop::Address { vaddr: of.vaddr });
        }
    }
}
