// SPDX-License-Identifier: GPL-2.0-or-later
use crate::entry::{attr, size_class, size_name, size_shift};
use crate::event::Context;
use crate::event::Fault;
use crate::format::Format;
use crate::memory::SparseMemory;

fn context(root: u64) -> Context {
    Context {
        paging: true,
        root,
        ..Context::default()
    }
}

#[test]
fn page_sizes_read_and_write_alike() {
    for (text, shift) in [
        ("4K", 12),
        ("64K", 16),
        ("1M", 20),
        ("16M", 24),
        ("1G", 30),
        ("16G", 34),
    ] {
        assert_eq!(size_shift(text), Some(shift));
        assert_eq!(size_name(shift), text);
    }
    for bad in ["", "4", "K", "3K", "2K", "4KB", "99999999999G"] {
        assert_eq!(size_shift(bad), None, "{bad}");
    }
}

#[test]
fn x86_64_has_three_sizes_and_four_or_five_levels() {
    let format = Format::builtin("x86-64").unwrap();
    assert_eq!(format.sizes(), [12, 21, 30]);
    let mut memory = SparseMemory::new();
    let vaddr = 0x7f12_3456_7890u64;
    let index = |shift: u32| (vaddr >> shift & 511) * 8;
    memory.write_u64(0x1000, 0x2000 | 7); // PML5, entry 0
    memory.write_u64(0x2000 + index(39), 0x3000 | 7);
    memory.write_u64(0x3000 + index(30), 0x4000 | 7);
    memory.write_u64(0x4000 + index(21), 0x5000 | 7);
    memory.write_u64(0x5000 + index(12), 0xabc_d000 | 1 << 63 | 0x105);
    let walk = format.walk(&memory, &context(0x2000), vaddr);
    assert_eq!(walk.steps().len(), 4);
    let page = walk.result.unwrap();
    assert_eq!(
        (page.frame, page.shift, size_class(page.attr)),
        (0xabc_d000, 12, 0)
    );
    assert_eq!(
        page.attr & 0xff,
        attr::USER | attr::NO_EXECUTE | attr::GLOBAL
    );
    assert_eq!(walk.above_leaf().unwrap().value, 0x5000 | 7);
    let five = Context {
        levels: 5,
        ..context(0x1000)
    };
    let deeper = format.walk(&memory, &five, vaddr);
    assert_eq!(
        (deeper.steps().len(), deeper.result.unwrap().frame),
        (5, 0xabc_d000)
    );
    // Large pages end the walk above.
    memory.write_u64(0x4000 + index(21), 0x4_0000_0000 | 0x87);
    let page = format
        .walk(&memory, &context(0x2000), vaddr)
        .result
        .unwrap();
    assert_eq!(
        (page.frame, page.shift, size_class(page.attr)),
        (0x4_0000_0000, 21, 1)
    );
    memory.write_u64(0x3000 + index(30), 0x80_0000_0000 | 0x83);
    let walk = format.walk(&memory, &context(0x2000), vaddr);
    let page = walk.result.unwrap();
    assert_eq!(
        (walk.steps().len(), page.frame, page.shift),
        (2, 0x80_0000_0000, 30)
    );
    assert_eq!(page.attr & attr::USER, 0, "the leaf denies user mode");
    // An address that is not canonical has no translation and reads nothing.
    let walk = format.walk(&memory, &context(0x2000), 1 << 47);
    assert_eq!(
        (walk.steps().len(), walk.result),
        (0, Err(Fault::NotPresent))
    );
    assert!(
        format
            .walk(&memory, &context(0x2000), u64::MAX << 47)
            .steps()
            .len()
            == 1
    );
}

#[test]
fn a_level_that_denies_writing_denies_it_for_all_below() {
    let format = Format::builtin("x86-64").unwrap();
    let mut memory = SparseMemory::new();
    memory.write_u64(0x1000, 0x2000 | 7);
    memory.write_u64(0x2000, 0x3000 | 7);
    memory.write_u64(0x3000, 0x4000 | 5); // PMD: read-only, as the cohort kernel shares a table
    memory.write_u64(0x4000, 0x9000 | 7);
    let page = format
        .walk(&memory, &context(0x1000), 0x123)
        .result
        .unwrap();
    assert_eq!(page.attr & (attr::WRITE | attr::USER), attr::USER);
}

#[test]
fn armv7_has_four_sizes_domains_and_two_roots() {
    let format = Format::builtin("armv7-short").unwrap();
    assert_eq!(format.sizes(), [12, 16, 20, 24]);
    assert!(format.has_domains());
    let mut memory = SparseMemory::new();
    let l1 = 0x4000;
    // 1 MB at 0: a table in domain 3 with a small page (AP 011, nG) and a large page (AP 010).
    memory.write_u32(l1, 0x8000 | 3 << 5 | 1);
    memory.write_u32(0x8000 + 4, 0x0012_3000 | 1 << 11 | 3 << 4 | 2);
    for replica in 0..16 {
        memory.write_u32(
            0x8000 + (16 + replica) * 4,
            0x0055_0000 | 1 << 15 | 2 << 4 | 1,
        );
    }
    let small = format.walk(&memory, &context(l1), 0x1abc).result.unwrap();
    assert_eq!((small.frame, small.shift), (0x12_3000, 12));
    assert_eq!(small.attr >> attr::DOMAIN_SHIFT & 15, 3);
    assert_eq!(
        small.attr & 0xff,
        attr::WRITE | attr::USER | attr::USER_WRITE
    );
    let large = format.walk(&memory, &context(l1), 0x1_8abc).result.unwrap();
    assert_eq!(
        (large.frame, large.shift, size_class(large.attr)),
        (0x55_0000, 16, 1)
    );
    assert_eq!(
        large.attr & 0xff,
        attr::WRITE | attr::USER | attr::NO_EXECUTE | attr::GLOBAL,
        "AP 010: the user may only read"
    );
    // A section in domain 2, read-only for all (AP 111), and a supersection in domain 0.
    memory.write_u32(l1 + 4, 0x0700_0000 | 1 << 15 | 3 << 10 | 2 << 5 | 2);
    let section = format
        .walk(&memory, &context(l1), 0x10_0000)
        .result
        .unwrap();
    assert_eq!((section.frame, section.shift), (0x700_0000, 20));
    assert_eq!(section.attr >> attr::DOMAIN_SHIFT & 15, 2);
    assert_eq!(section.attr & 0xff, attr::USER | attr::GLOBAL);
    for replica in 0..16 {
        memory.write_u32(
            l1 + (16 + replica) * 4,
            0x0900_0000 | 1 << 18 | 1 << 10 | 0xf << 5 | 2,
        );
    }
    let super_section = format
        .walk(&memory, &context(l1), 0x01a0_0000)
        .result
        .unwrap();
    assert_eq!((super_section.frame, super_section.shift), (0x900_0000, 24));
    assert_eq!(super_section.attr >> attr::DOMAIN_SHIFT & 15, 0);
    // TTBCR.N = 1: the upper half goes through TTBR1.
    memory.write_u32(0x1_0000 + (0x900 * 4), 0x0300_0000 | 3 << 10 | 2);
    let split = Context {
        split: 1,
        root_high: 0x1_0000,
        ..context(l1)
    };
    assert_eq!(
        format
            .walk(&memory, &split, 0x9000_0000)
            .result
            .unwrap()
            .frame,
        0x300_0000
    );
    assert_eq!(
        format.walk(&memory, &split, 0x1abc).result.unwrap().frame,
        0x12_3000
    );
}

#[test]
fn armv8_has_contiguous_pages_and_an_upper_root() {
    let format = Format::builtin("armv8-4k").unwrap();
    assert_eq!(format.sizes(), [12, 16, 21, 25, 30, 34]);
    let mut memory = SparseMemory::new();
    let leaf = |frame: u64, contiguous: u64| frame | contiguous << 52 | 1 << 11 | 1 << 10 | 0x43;
    memory.write_u64(0x1000, 0x2000 | 3);
    memory.write_u64(0x2000, 0x3000 | 3);
    memory.write_u64(0x3000, 0x4000 | 3);
    memory.write_u64(0x4000, leaf(0x9_9000, 0));
    for page in 16..32 {
        memory.write_u64(0x4000 + page * 8, leaf(0x20_0000 + (page - 16) * 0x1000, 1));
    }
    let small = format.walk(&memory, &context(0x1000), 0x10).result.unwrap();
    assert_eq!((small.frame, small.shift), (0x9_9000, 12));
    assert_eq!(
        small.attr & 0xff,
        attr::WRITE | attr::USER | attr::USER_WRITE
    );
    let contiguous = format
        .walk(&memory, &context(0x1000), 0x1_3456)
        .result
        .unwrap();
    assert_eq!((contiguous.frame, contiguous.shift), (0x20_0000, 16));
    // A block with the contiguous bit is 32 MB; its access flag must be set.
    memory.write_u64(0x3000 + 16 * 8, 0x4000_0000 | 1 << 52 | 1 << 10 | 0x41);
    let block = format
        .walk(&memory, &context(0x1000), 16 << 21 | 0x123)
        .result
        .unwrap();
    assert_eq!((block.frame, block.shift), (0x4000_0000, 25));
    memory.write_u64(0x3000 + 17 * 8, 0x4000_0000 | 1 << 52 | 0x41);
    let flagless = format.walk(&memory, &context(0x1000), 17 << 21).result;
    assert_eq!(flagless, Err(Fault::NotPresent));
    // 39-bit addresses in three levels, the upper half under TTBR1.
    let upper = Context {
        levels: 3,
        root_high: 0x2000,
        ..context(0x7000)
    };
    let walk = format.walk(&memory, &upper, 0xffff_ff80_0000_0010);
    assert_eq!(
        (walk.steps().len(), walk.result.unwrap().frame),
        (3, 0x9_9000)
    );
    assert_eq!(
        format.walk(&memory, &upper, 0x80_0000_0000).result,
        Err(Fault::NotPresent)
    );
}

#[test]
fn ia_32_has_pages_of_4_mb() {
    let format = Format::builtin("x86-32").unwrap();
    assert_eq!(format.sizes(), [12, 22]);
    let mut memory = SparseMemory::new();
    memory.write_u32(0x1004, 0x80_0000 | 0x87);
    memory.write_u32(0x1000, 0x2000 | 7);
    memory.write_u32(0x2004, 0x5000 | 7);
    let large = format
        .walk(&memory, &context(0x1000), 0x41_2345)
        .result
        .unwrap();
    assert_eq!((large.frame, large.shift), (0x80_0000, 22));
    let small = format
        .walk(&memory, &context(0x1000), 0x1234)
        .result
        .unwrap();
    assert_eq!((small.frame, small.shift), (0x5000, 12));
}

#[test]
fn a_bad_format_is_refused_with_its_reason() {
    let good = include_str!("../../formats/x86-32.toml");
    Format::parse("good", good).unwrap();
    for (from, to, says) in [
        (
            "entry_bytes = 4",
            "entry_bytes = 5",
            "entry_bytes must be 4 or 8",
        ),
        ("\"31:12\"", "\"12:31\"", "not a bit field"),
        ("0=1 7=0", "0=1 7=2", "not a test of bits"),
        ("\"4M\"", "\"4MB\"", "not a page size"),
        ("default_levels = 2", "default_levels = 3", "default_levels"),
        ("frame = \"31:22\",", "", "both `page` and `frame`"),
    ] {
        let error = Format::parse("bad", &good.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{from} -> {to}: {error}");
    }
}
