// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts tables of which one would serve several processes.

use super::view::View;
use serde::Serialize;

/// What processes would share by a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Tables that processes not forked from one another would use in common.
    pub tables: u64,
    /// Tables that need not exist as processes not forked from one another use another's.
    pub saved: u64,
    /// Tables besides that are those of a process that the user was forked from or with.
    pub forked: u64,
    /// Entries of pages of files that were there before whoever has them came: each of such a
    /// table counts once less than the families that have it. A family is a process with all that
    /// were forked from it.
    pub found: u64,
}

/// Counts by `key`, which is none for tables that may not be shared; `families` has a number per
/// member.
pub(super) fn shared<'a>(
    views: impl Iterator<Item = &'a View>,
    families: &[u32],
    key: impl Fn(&View) -> Option<(u64, u64)>,
) -> Shared {
    let mut uses: Vec<((u64, u64), u32, &View)> = views
        .filter_map(|view| Some((key(view)?, families[view.member as usize], view)))
        .collect();
    uses.sort_unstable_by_key(|(key, family, _)| (*key, *family));
    let mut shared = Shared::default();
    for users in uses.chunk_by(|a, b| a.0 == b.0) {
        if users.len() == 1 {
            continue;
        }
        let mut all = vec![0; users[0].2.bits.len()];
        let (mut count, mut families) = (0, 0);
        for family in users.chunk_by(|a, b| a.1 == b.1) {
            let mut own = vec![0; all.len()];
            for (_, _, view) in family {
                add(&mut own, &view.bits);
            }
            add(&mut all, &own);
            count += ones(&own);
            families += 1;
            shared.forked += family.len() as u64 - 1;
        }
        shared.tables += u64::from(families > 1);
        shared.saved += families - 1;
        shared.found += count - ones(&all);
    }
    shared
}

fn add(all: &mut [u64], own: &[u64]) {
    for (all, own) in all.iter_mut().zip(own) {
        *all |= own;
    }
}

fn ones(bits: &[u64]) -> u64 {
    bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
}
