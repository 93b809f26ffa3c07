// SPDX-License-Identifier: GPL-2.0-or-later
//! The one walker that reads every format, beside a walker for each that is written down from its
//! manual, on tables of random entries: each entry read, the page, and every right.

use super::Dice;
use crate::entry::attr;
use crate::event::Context;
use crate::format::{Format, Walk};
use crate::memory::{GuestMemory, SparseMemory};

/// What a walk read, and the page if there is one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    read: Vec<(u64, u64)>,
    page: Option<Page>,
}

#[derive(Debug, PartialEq, Eq)]
struct Page {
    frame: u64,
    shift: u32,
    write: bool,
    user: bool,
    user_write: bool,
    execute: bool,
    global: bool,
    domain: u64,
}

/// The model's walk in the same words.
fn seen(walk: &Walk) -> Seen {
    let page = walk.result.ok().map(|page| Page {
        frame: page.frame,
        shift: page.shift,
        write: page.attr & attr::WRITE != 0,
        user: page.attr & attr::USER != 0,
        user_write: page.attr & attr::USER_WRITE != 0,
        execute: page.attr & attr::NO_EXECUTE == 0,
        global: page.attr & attr::GLOBAL != 0,
        domain: u64::from(page.attr >> attr::DOMAIN_SHIFT & 15),
    });
    let steps = walk.steps().iter();
    Seen {
        read: steps.map(|step| (step.paddr, step.value)).collect(),
        page,
    }
}

fn bit(entry: u64, number: u32) -> bool {
    entry >> number & 1 == 1
}

/// Reads an entry of 4 or 8 bytes.
fn read(memory: &SparseMemory, seen: &mut Seen, at: u64, bytes: u64) -> Option<u64> {
    let entry = match bytes {
        4 => u64::from(memory.read_u32(at)?),
        _ => memory.read_u64(at)?,
    };
    seen.read.push((at, entry));
    Some(entry)
}

/// Intel SDM volume 3, 4.3 to 4.5: `levels` are what an entry covers, which of them may end the
/// walk, and whether they have rights.
fn intel(
    memory: &SparseMemory,
    mut table: u64,
    vaddr: u64,
    bytes: u64,
    levels: &[(u32, bool, bool)],
) -> Seen {
    let mut seen = Seen::default();
    let (mut write, mut user, mut execute) = (true, true, true);
    let entries = 4096 / bytes;
    for &(shift, large, rights) in levels {
        let at = table + (vaddr >> shift) % entries * bytes;
        let Some(entry) = read(memory, &mut seen, at, bytes) else {
            return seen;
        };
        if !bit(entry, 0) {
            return seen;
        }
        if rights {
            write &= bit(entry, 1);
            user &= bit(entry, 2);
            execute &= bytes == 4 || !bit(entry, 63);
        }
        let address = entry & 0x000f_ffff_ffff_f000;
        if shift == 12 || large && bit(entry, 7) {
            seen.page = Some(Page {
                frame: address >> shift << shift,
                shift,
                write,
                user,
                user_write: write && user,
                execute,
                global: bit(entry, 8),
                domain: 0,
            });
            return seen;
        }
        table = address;
    }
    seen
}

fn x86_64(memory: &SparseMemory, context: &Context, vaddr: u64) -> Seen {
    let all = [
        (48, false, true),
        (39, false, true),
        (30, true, true),
        (21, true, true),
        (12, true, true),
    ];
    let (levels, bits) = match context.levels {
        5 => (&all[..], 57),
        _ => (&all[1..], 48),
    };
    let high = vaddr >> (bits - 1);
    if high != 0 && high != u64::MAX >> (bits - 1) {
        return Seen::default();
    }
    intel(
        memory,
        context.root & 0x000f_ffff_ffff_f000,
        vaddr,
        8,
        levels,
    )
}

fn x86_32(memory: &SparseMemory, context: &Context, vaddr: u64) -> Seen {
    if vaddr >> 32 != 0 {
        return Seen::default();
    }
    let levels = [(22, true, true), (12, true, true)];
    intel(memory, context.root & 0xffff_f000, vaddr, 4, &levels)
}

fn x86_pae(memory: &SparseMemory, context: &Context, vaddr: u64) -> Seen {
    if vaddr >> 32 != 0 {
        return Seen::default();
    }
    let levels = [(30, false, false), (21, true, true), (12, true, true)];
    intel(memory, context.root & 0xffff_ffe0, vaddr, 8, &levels)
}

/// Arm ARM for ARMv7-A, B3.5.
fn armv7(memory: &SparseMemory, context: &Context, vaddr: u64) -> Seen {
    let mut seen = Seen::default();
    if vaddr >> 32 != 0 {
        return seen;
    }
    let split = u32::from(context.split);
    let upper = split > 0 && vaddr >> (32 - split) != 0;
    let root = if upper {
        context.root_high
    } else {
        context.root
    };
    let at = (root & 0xffff_ff80) + (vaddr >> 20) * 4;
    let Some(first) = read(memory, &mut seen, at, 4) else {
        return seen;
    };
    let domain = first >> 5 & 15;
    // Table B3-8, without the access flag: in kernel mode written; in user mode used, written.
    let rights = |ap: u64| match ap {
        1 => (true, false, false),
        2 => (true, true, false),
        3 => (true, true, true),
        6 | 7 => (false, true, false),
        _ => (false, false, false),
    };
    let (entry, shift, ap, execute, global, domain) = match first & 3 {
        0 => return seen,
        1 => {
            let at = (first & 0xffff_fc00) + (vaddr >> 12 & 255) * 4;
            let Some(second) = read(memory, &mut seen, at, 4) else {
                return seen;
            };
            let ap = second >> 4 & 3 | (second >> 9 & 1) << 2;
            let (shift, never) = match second & 3 {
                0 => return seen,
                1 => (16, 15),
                _ => (12, 0),
            };
            let global = !bit(second, 11);
            (second, shift, ap, !bit(second, never), global, domain)
        }
        _ => {
            let ap = first >> 10 & 3 | (first >> 15 & 1) << 2;
            let (shift, domain) = match bit(first, 18) {
                true => (24, 0),
                false => (20, domain),
            };
            (first, shift, ap, !bit(first, 4), !bit(first, 17), domain)
        }
    };
    let (write, user, user_write) = rights(ap);
    seen.page = Some(Page {
        frame: entry >> shift << shift,
        shift,
        write,
        user,
        user_write,
        execute,
        global,
        domain,
    });
    seen
}

/// Arm ARM for A-profile, D8.3, 4 KB granule. Of a table's two execute-never bits each is for one
/// mode, and here a page may be executed if either may: both must be set.
fn armv8(memory: &SparseMemory, context: &Context, vaddr: u64) -> Seen {
    let mut seen = Seen::default();
    let (levels, bits) = match context.levels {
        3 => (&[30, 21, 12][..], 39),
        _ => (&[39, 30, 21, 12][..], 48),
    };
    let upper = bit(vaddr, 55);
    let reach = (1u64 << 56) - (1 << bits);
    if vaddr & reach != if upper { reach } else { 0 } {
        return seen;
    }
    let root = if upper {
        context.root_high
    } else {
        context.root
    };
    let mut table = root & 0xffff_ffff_fffe;
    let (mut write, mut user, mut execute) = (true, true, true);
    for &shift in levels {
        let at = table + (vaddr >> shift) % 512 * 8;
        let Some(entry) = read(memory, &mut seen, at, 8) else {
            return seen;
        };
        let address = entry & 0xffff_ffff_f000;
        match (shift, entry & 3) {
            (12, 3) | (21 | 30, 1) => {
                if !bit(entry, 10) {
                    return seen;
                }
                let shift = if bit(entry, 52) { shift + 4 } else { shift };
                let of_user = bit(entry, 6);
                write &= !bit(entry, 7);
                user &= of_user;
                execute &= !bit(entry, if of_user { 54 } else { 53 });
                seen.page = Some(Page {
                    frame: address >> shift << shift,
                    shift,
                    write,
                    user,
                    user_write: write && user,
                    execute,
                    global: !bit(entry, 11),
                    domain: 0,
                });
                return seen;
            }
            (13.., 3) => {
                write &= !bit(entry, 62);
                user &= !bit(entry, 61);
                execute &= !(bit(entry, 60) && bit(entry, 59));
                table = address;
            }
            _ => return seen,
        }
    }
    seen
}

/// Walks a million random addresses of `width` bits in tables of random entries, many of which
/// point to one another. Every page size of the format must have been met.
fn compare(
    name: &str,
    context: &Context,
    width: u32,
    own: fn(&SparseMemory, &Context, u64) -> Seen,
) {
    const BYTES: u64 = 0x4_0000;
    let format = Format::builtin(name).unwrap();
    let mut dice = Dice::new(7 + u64::from(context.levels) + u64::from(context.split));
    let mut word = || dice.below(1 << 32) << 32 | dice.below(1 << 32);
    let mut sizes = std::collections::BTreeMap::new();
    for round in 0..20 {
        let mut memory = SparseMemory::new();
        for at in (0..BYTES).step_by(4) {
            // One in four may point anywhere, where there is no memory; the others stay here.
            let low = word() as u32;
            let low = match word() % 4 {
                0 => low,
                _ => low & (BYTES as u32 - 1),
            };
            // Three of four are valid.
            let valid = word() as u32 & 3;
            memory.write_u32(at, low | valid);
            if format.entry_bytes == 8 && at % 8 == 4 {
                // The upper half has no address but in one of eight, and any flags.
                let flags = word() as u32;
                let high = match word() % 8 {
                    0 => flags,
                    _ => flags & 0xfff0_0000,
                };
                memory.write_u32(at, high);
            }
        }
        for _ in 0..50_000 {
            let vaddr = match word() % 16 {
                0 => word(),
                _ => match format.entry_bytes == 8 && width > 32 {
                    // The upper half of the addresses, too.
                    true => ((word() as i64) << (64 - width) >> (64 - width)) as u64,
                    false => word() >> (64 - width),
                },
            };
            let walk = format.walk(&memory, context, vaddr);
            let expected = own(&memory, context, vaddr);
            assert_eq!(seen(&walk), expected, "{name}, round {round}: {vaddr:#x}");
            if let Some(page) = expected.page {
                *sizes.entry(page.shift).or_insert(0u32) += 1;
            }
        }
    }
    let met: Vec<u32> = sizes.keys().copied().collect();
    assert_eq!(met, format.sizes(), "{name}: {sizes:?}");
    assert!(
        sizes.values().all(|&times| times > 100),
        "{name}: {sizes:?}"
    );
}

fn context(levels: u8) -> Context {
    Context {
        paging: true,
        root: 0x1_8000,
        root_high: 0x2_4000,
        levels,
        ..Context::default()
    }
}

#[test]
fn x86_64_agrees_with_its_manual_on_two_million_walks() {
    compare("x86-64", &context(4), 48, x86_64);
    compare("x86-64", &context(5), 57, x86_64);
}

#[test]
fn ia_32_agrees_with_its_manual_on_two_million_walks() {
    compare("x86-32", &context(2), 32, x86_32);
    compare("x86-pae", &context(3), 32, x86_pae);
}

#[test]
fn armv7_agrees_with_its_manual_on_three_million_walks() {
    for split in [0, 1, 3] {
        let context = Context {
            split,
            ..context(2)
        };
        compare("armv7-short", &context, 32, armv7);
    }
}

#[test]
fn armv8_agrees_with_its_manual_on_two_million_walks() {
    compare("armv8-4k", &context(3), 39, armv8);
    compare("armv8-4k", &context(4), 48, armv8);
}
