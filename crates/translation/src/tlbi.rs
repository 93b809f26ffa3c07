// SPDX-License-Identifier: GPL-2.0-or-later
//! What an instruction that invalidates translations names: by tag, address, size of page and kind of
//! entry, as the manuals say.

/// What an instruction drops from the TLBs of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// Entries of this tag; None: of every tag.
    pub tag: Option<u16>,
    /// Global entries too.
    pub global: bool,
    /// Entries of pages that have an address from the first to the last of these; None: of all.
    pub range: Option<(u64, u64)>,
    /// Entries of pages whose size, as a power of two, is from the first to the last of these, and on
    /// the way to them: a hint that the kernel has given (ARM's TTL). None: of all sizes.
    pub sizes: Option<(u32, u32)>,
    /// Which entries that point to tables.
    pub tables: Tables,
}

/// Entries that point to tables, of the tags that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// All (x86 INVLPG).
    All,
    /// Those on the way to the addresses (ARM TLBI VAE1).
    Above,
    /// None (ARM TLBI VALE1).
    Kept,
}

impl Drop {
    /// Everything (x86: CR4.PGE toggled, ARM TLBIALL).
    pub const ALL: Self = Self {
        tag: None,
        global: true,
        range: None,
        sizes: None,
        tables: Tables::All,
    };

    /// Everything but global entries (x86: CR3 without PCID).
    pub const BUT_GLOBAL: Self = Self {
        global: false,
        ..Self::ALL
    };

    /// Everything under a tag (x86: CR3 with PCID, ARM TLBIASID).
    pub const fn tag(tag: u16) -> Self {
        Self {
            tag: Some(tag),
            ..Self::BUT_GLOBAL
        }
    }

    /// A page under a tag, or a global one there, and all entries of the tag that point to tables
    /// (x86 INVLPG).
    pub const fn page(tag: u16, vaddr: u64) -> Self {
        Self {
            tag: Some(tag),
            range: Some((vaddr, vaddr)),
            ..Self::ALL
        }
    }

    /// It names an address of what begins here and covers this power of two.
    pub(crate) fn meets(&self, vaddr: u64, shift: u32) -> bool {
        self.range
            .is_none_or(|(first, last)| vaddr <= last && first <= vaddr | ((1 << shift) - 1))
    }

    /// It names pages of this size.
    pub(crate) fn is_of_size(&self, shift: u32) -> bool {
        self.sizes
            .is_none_or(|(first, last)| (first..=last).contains(&shift))
    }

    /// It names pages below an entry that points to a table and covers this power of two.
    pub(crate) fn is_below(&self, shift: u32) -> bool {
        self.sizes.is_none_or(|(_, last)| last < shift)
    }
}
