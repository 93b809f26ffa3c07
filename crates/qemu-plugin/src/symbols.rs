// SPDX-License-Identifier: GPL-2.0-or-later
//! The functions of the guest's kernel, by address, from the symbol table of `vmlinux`.

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::HashMap;
use std::path::Path;

/// The function number of code that no symbol covers.
pub const UNKNOWN: u32 = 0;

/// No function is longer than this, in bytes.
const LONGEST: u64 = 1 << 16;

/// Functions sorted by address. Functions of one name have one number, and so do the parts of a
/// function that the compiler has moved out of its way (`NAME.cold`).
#[derive(Debug)]
pub struct Symbols {
    /// Address and function number, sorted.
    starts: Vec<(u64, u32)>,
    names: Vec<String>,
}

impl Symbols {
    pub fn read(path: &Path) -> Result<Self> {
        let data =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = object::File::parse(&*data)
            .with_context(|| format!("{} is not an ELF file", path.display()))?;
        let code: Vec<_> = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .map(|section| section.index())
            .collect();
        let found = file.symbols().filter_map(|symbol| {
            let section = symbol.section_index()?;
            // Code written in assembly may have symbols without a type.
            let function = symbol.kind() == SymbolKind::Text
                || symbol.kind() == SymbolKind::Unknown && symbol.is_global();
            (function && code.contains(&section)).then_some(())?;
            Some((symbol.address(), symbol.name().ok()?.to_string()))
        });
        let symbols = Self::new(found.collect());
        if symbols.starts.is_empty() {
            bail!("{} has no symbols of functions", path.display());
        }
        Ok(symbols)
    }

    fn new(mut found: Vec<(u64, String)>) -> Self {
        // Of several names of one address the first in the alphabet is the function's.
        found.sort();
        found.dedup_by_key(|(address, _)| *address);
        let mut names = vec!["[unknown]".to_string()];
        let mut numbers = HashMap::new();
        let mut starts = Vec::new();
        for (address, name) in found {
            let name = name.strip_suffix(".cold").unwrap_or(&name);
            let number = *numbers.entry(name.to_string()).or_insert_with(|| {
                names.push(name.to_string());
                names.len() as u32 - 1
            });
            starts.push((address, number));
        }
        Symbols { starts, names }
    }

    /// The number of the function that holds this address, and whether it begins there.
    pub fn at(&self, address: u64) -> (u32, bool) {
        let after = self.starts.partition_point(|&(start, _)| start <= address);
        match after.checked_sub(1).map(|at| self.starts[at]) {
            Some((start, number)) => (number, start == address),
            None => (UNKNOWN, false),
        }
    }

    /// The function that holds this address and the offset in it, if the address may be code.
    pub fn place(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.starts.partition_point(|&(start, _)| start <= address);
        let (start, number) = self.starts[after.checked_sub(1)?];
        let offset = address - start;
        (offset < LONGEST).then_some((&self.names[number as usize], offset))
    }

    /// All names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Functions `a` at 0x…1000, `b` at 0x…2000 and so on.
    pub fn alphabet(count: u8) -> Symbols {
        let at = |n: u8| 0xffff_ffff_8100_0000 + (u64::from(n) + 1) * 0x1000;
        let name = |n: u8| char::from(b'a' + n).to_string();
        Symbols::new((0..count).map(|n| (at(n), name(n))).collect())
    }

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = Symbols::new(vec![
            (0x30, "late".into()),
            (0x10, "early".into()),
            (0x10, "alias_of_early".into()),
            (0x50, "late.cold".into()),
        ]);
        let name = |address| symbols.names()[symbols.at(address).0 as usize].as_str();
        assert_eq!(name(0x8), "[unknown]");
        assert_eq!(name(0x10), "alias_of_early");
        assert_eq!(name(0x2f), "alias_of_early");
        assert_eq!(name(0x30), "late");
        assert_eq!(name(0x55), "late");
        assert!(symbols.at(0x30).1 && !symbols.at(0x31).1);
        assert_eq!(symbols.place(0x31), Some(("late", 1)));
        assert_eq!(
            (symbols.place(0x8), symbols.place(0x5000_0000)),
            (None, None)
        );
    }
}
