// SPDX-License-Identifier: GPL-2.0-or-later
//! A TLB entry: page, frame, rights, and what else travels from a page table into a TLB.

/// Entries a walk reads at most.
pub const LEVELS_MAX: usize = 5;
/// Page sizes a format has at most.
pub const SIZES_MAX: usize = 8;

/// Rights and kind of a page; the low bits of a TLB entry.
pub mod attr {
    /// May be written (in kernel mode).
    pub const WRITE: u16 = 1;
    /// May be used in user mode.
    pub const USER: u16 = 1 << 1;
    /// May be written in user mode.
    pub const USER_WRITE: u16 = 1 << 2;
    /// Instructions may not be fetched.
    pub const NO_EXECUTE: u16 = 1 << 3;
    /// Belongs to every address space.
    pub const GLOBAL: u16 = 1 << 4;
    /// Bits 5 to 7: what a mechanism keeps there (BabelFish's O and ORPC).
    pub const MECHANISM_SHIFT: u32 = 5;
    /// Bits 8 to 11: the domain.
    pub const DOMAIN_SHIFT: u32 = 8;
    /// Bits 12 to 14: the number of the page size in the format.
    pub const SIZE_SHIFT: u32 = 12;
}

/// The number of the page size in attribute bits.
#[inline(always)]
pub fn size_class(bits: u16) -> usize {
    usize::from(bits >> attr::SIZE_SHIFT) % SIZES_MAX
}

/// Parses `"4K"`, `"16M"`, `"1G"` into the power of two.
pub(crate) fn size_shift(text: &str) -> Option<u32> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    let shift = number
        .is_power_of_two()
        .then(|| number.trailing_zeros() + unit)?;
    (12..=40).contains(&shift).then_some(shift)
}

/// The name of a page size, the reverse of what descriptions write.
pub(crate) fn size_name(shift: u32) -> String {
    let (unit, name) = match shift {
        30.. => (30, "G"),
        20.. => (20, "M"),
        _ => (10, "K"),
    };
    format!("{}{name}", 1u64 << (shift - unit))
}

/// A translation as a TLB holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Virtual address of the page's first byte (of the cohort's layout where that is used).
    pub page: u64,
    /// Physical address of the page's first byte.
    pub frame: u64,
    /// Size of the page as a power of two.
    pub shift: u32,
    /// [`attr`] bits.
    pub attr: u16,
    /// The address space that brought it in.
    pub owner: u16,
    /// What a mechanism keeps in it (BabelFish's PC bitmask).
    pub extra: u32,
}
