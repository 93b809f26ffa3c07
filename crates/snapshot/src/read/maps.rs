// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the lines of `/proc/PID/maps`.

use super::mapping::mappings;
use crate::model::process::Reason;
use crate::model::region::{Backing, Files, Kind, Region};
use crate::model::word::{EXEC, SHARED, WRITE};
use std::ops::Range;

/// Parses `/proc/PID/maps`; regions come sorted and do not overlap.
///
/// `exe` is the program's path, which tells its code from libraries'; `wanted` picks regions.
pub fn parse(
    bytes: &[u8],
    page: u64,
    exe: &str,
    files: &Files,
    wanted: &dyn Fn(&Backing, Range<u64>) -> bool,
) -> Result<Vec<Region>, Reason> {
    let mut regions: Vec<Region> = Vec::new();
    for map in mappings(bytes)? {
        // Not in the process's own tables, and at an address that is none.
        if map.backing.path == "[vsyscall]" {
            continue;
        }
        let (start, end) = (map.address.start / page, map.address.end / page);
        if end <= start || regions.last().is_some_and(|last| last.end > start) {
            return Err(Reason::Unreadable(format!(
                "maps has a region that is empty or out of order at {:x}",
                map.address.start
            )));
        }
        let (backing, perms) = (map.backing, map.perms);
        if !wanted(&backing, map.address) {
            continue;
        }
        let kind = kind_of(&backing, perms, exe);
        let shareable = kind != Kind::Stack && (kind != Kind::Special || is_vdso(&backing));
        regions.push(Region {
            start,
            end,
            offset: map.offset / page,
            file: files.name(backing),
            perms,
            kind,
            shareable,
            present: 0,
            huge: 0,
            swapped: 0,
            anonymous: 0,
            referenced: None,
            small_windows: 0,
            large_windows: 0,
        });
    }
    Ok(regions)
}

fn is_vdso(backing: &Backing) -> bool {
    backing.path.starts_with("[vdso") || backing.path.starts_with("[vvar")
}

fn kind_of(backing: &Backing, perms: u8, exe: &str) -> Kind {
    let named = |name: &str| backing.path.starts_with(name);
    let driver = named("/dev/") && !named("/dev/zero") && !named("/dev/shm/");
    if is_vdso(backing) || named("[uprobes") || named("[sigpage") || driver {
        Kind::Special
    } else if perms & SHARED != 0 {
        Kind::Shared
    } else if perms & EXEC != 0 && !backing.is_file() {
        Kind::Generated
    } else if perms & EXEC != 0 && !exe.is_empty() && backing.path == exe {
        Kind::Program
    } else if perms & EXEC != 0 {
        Kind::Library
    } else if named("[heap") {
        Kind::Heap
    } else if named("[stack") {
        Kind::Stack
    } else if !backing.is_file() {
        Kind::Anonymous
    } else if perms & WRITE != 0 {
        Kind::Data
    } else {
        Kind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a02000 r--p 00000000 fe:00 11                         /usr/bin/cat
55d0c0a02000-55d0c0a07000 r-xp 00002000 fe:00 11                         /usr/bin/cat
55d0c0a07000-55d0c0a08000 rw-p 00007000 fe:00 11                         /usr/bin/cat
55d0c1b00000-55d0c1b21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 rwxp 00000000 00:00 0 
7f0000200000-7f0000300000 rw-s 00000000 00:01 7                          /dev/zero (deleted)
7f0000400000-7f0000500000 r-xp 00001000 fe:00 12                         /usr/lib/a b.so
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00040000-7ffc00042000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn regions_have_their_kinds() {
        let files = Files::default();
        let regions = parse(MAPS.as_bytes(), 4096, "/usr/bin/cat", &files, &|_, _| true).unwrap();
        let kinds: Vec<_> = regions.iter().map(|region| region.kind).collect();
        assert_eq!(
            kinds,
            [
                Kind::File,
                Kind::Program,
                Kind::Data,
                Kind::Heap,
                Kind::Generated,
                Kind::Shared,
                Kind::Library,
                Kind::Stack,
                Kind::Special
            ]
        );
        assert_eq!((regions[1].offset, regions[1].pages()), (2, 5));
        let files = files.finish();
        assert_eq!(files.len(), 7);
        assert_eq!(files[regions[6].file as usize].path, "/usr/lib/a b.so");
    }

    #[test]
    fn regions_out_of_order_are_refused() {
        let mut lines: Vec<_> = MAPS.lines().collect();
        lines.swap(1, 4);
        let text = lines.join("\n");
        let error = parse(text.as_bytes(), 4096, "", &Files::default(), &|_, _| true).unwrap_err();
        assert!(matches!(error, Reason::Unreadable(_)), "{error:?}");
    }

    #[test]
    fn a_path_may_look_like_anything() {
        for path in [
            "/SYSVno",
            "/SYSV",
            "/SYSV0000000é",
            "/SYSV00000000 (deleted)",
            "[stack:",
            "/a: 4 kB ",
            "",
        ] {
            let line = format!("1000-2000 r--p 00000000 fe:00 5    {path}\n");
            let files = Files::default();
            let regions = parse(line.as_bytes(), 4096, "", &files, &|_, _| true).unwrap();
            assert_eq!((regions.len(), &*files.finish()[0].path), (1, path));
        }
    }

    proptest! {
        #[test]
        fn damaged_maps_never_panic(cut in 0usize..900, at in 0usize..900, byte: u8) {
            let mut bytes = MAPS.as_bytes().to_vec();
            let place = at % bytes.len();
            bytes[place] = byte;
            bytes.truncate(cut.max(1));
            let _ = parse(&bytes, 4096, "/usr/bin/cat", &Files::default(), &|_, _| true);
        }
    }
}
