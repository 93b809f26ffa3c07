// SPDX-License-Identifier: GPL-2.0-or-later
//! The lines of `/proc/PID/maps`, and the values that smaps and smaps_rollup have below them.
//!
//! A path is in the hands of whoever is read, so no path has a meaning here.

use crate::model::process::Reason;
use crate::model::region::Backing;
use crate::model::word::{EXEC, READ, SHARED, WRITE};
use std::collections::HashMap;
use std::ops::Range;

/// A line of maps.
#[derive(Debug)]
pub struct Mapping {
    /// In bytes.
    pub address: Range<u64>,
    /// As [`crate::model::word`] has them.
    pub perms: u8,
    /// In the file, in bytes.
    pub offset: u64,
    /// The object that is mapped.
    pub backing: Backing,
    /// Values below the line, by their names; sizes in bytes.
    pub values: HashMap<String, u64>,
}

/// Parses maps, smaps or smaps_rollup.
pub fn mappings(bytes: &[u8]) -> Result<Vec<Mapping>, Reason> {
    // A file's name may be any bytes, but for newlines, which the kernel escapes.
    let text = String::from_utf8_lossy(bytes);
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.split_terminator('\n') {
        let damaged = || Reason::Unreadable("maps is not as the kernel writes it".into());
        // Addresses are in small letters.
        if line.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            let values = &mut found.last_mut().ok_or_else(damaged)?.values;
            values.extend(value(line));
        } else {
            found.push(mapping(line).ok_or_else(damaged)?);
        }
    }
    Ok(found)
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let mut word = || words.next();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let perms = [(b'r', READ), (b'w', WRITE), (b'x', EXEC), (b's', SHARED)];
    let letters = word()?.as_bytes();
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let number = |text| i32::from_str_radix(text, 16).ok();
    Some(Mapping {
        address: hex(start)?..hex(end)?,
        perms: perms
            .iter()
            .filter(|(letter, _)| letters.contains(letter))
            .fold(0, |all, (_, perm)| all | perm),
        offset,
        backing: Backing {
            device: (number(major)?, number(minor)?),
            inode: word()?.parse().ok()?,
            path: word().unwrap_or_default().trim_start().to_string(),
        },
        values: HashMap::new(),
    })
}

/// `Rss:  4 kB`; none for lines without a number, such as `VmFlags: rd wr`.
fn value(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        Some("kB") => 1024,
        _ => 1,
    };
    Some((name.to_string(), number.checked_mul(unit)?))
}
