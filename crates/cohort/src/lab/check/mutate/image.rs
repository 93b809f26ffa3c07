// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes one function of a built kernel do nothing, in a copy of its image.
//!
//! The first bytes of the function become a return. That takes seconds where building the kernel
//! again takes minutes, and leaves every other byte as it was.

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// Bytes of an entry of the kernel's jump table: two relative addresses and a key.
const JUMP_ENTRY: usize = 16;

/// The image with every copy of `function` returning `value` at once, or nothing.
///
/// The compiler may keep a static function under another name (`NAME.isra.0`, `NAME.constprop.0`),
/// and in several copies. A function that it has put into all of its callers is an error.
pub fn without(image: &[u8], function: &str, value: Option<i32>) -> Result<Vec<u8>> {
    let file = object::File::parse(image).context("the kernel's image is not an ELF file")?;
    let code = code(value);
    let mut changed = image.to_vec();
    let mut found = false;
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or_default();
        if symbol.kind() != SymbolKind::Text || !is_copy(name, function) {
            continue;
        }
        let at = symbol.address();
        if symbol.size() < code.len() as u64 {
            bail!("{name} is too short to be changed");
        }
        if let Some(site) = patched_at_boot(&file, at, at + code.len() as u64)? {
            bail!("the kernel itself changes {name} at {site:#x}, where its return would stand");
        }
        let offset = offset(&file, at).with_context(|| format!("{name} has no code"))?;
        changed[offset..offset + code.len()].copy_from_slice(&code);
        found = true;
    }
    if !found {
        bail!(
            "the kernel has no function {function}: it is gone, has another name, or the compiler has \
             put it into its callers"
        );
    }
    Ok(changed)
}

/// `name` is the function itself or one of the compiler's copies of it.
fn is_copy(name: &str, function: &str) -> bool {
    match name.strip_prefix(function) {
        Some("") => true,
        Some(rest) => rest.starts_with('.') && !rest.starts_with(".cold"),
        None => false,
    }
}

/// x86-64 code that returns.
fn code(value: Option<i32>) -> Vec<u8> {
    let mut code = match value {
        None => Vec::new(),
        // xor %eax,%eax
        Some(0) => vec![0x31, 0xc0],
        // mov $value,%rax, with its sign
        Some(value) => [&[0x48, 0xc7, 0xc0], value.to_le_bytes().as_slice()].concat(),
    };
    code.push(0xc3);
    code
}

/// Where an address is in the file.
fn offset(file: &object::File, address: u64) -> Option<usize> {
    file.sections().find_map(|section| {
        let (start, _) = section.file_range()?;
        let within = address.checked_sub(section.address())?;
        (within < section.size()).then_some((start + within) as usize)
    })
}

/// A place in the range that the kernel's static branches change while it runs.
fn patched_at_boot(file: &object::File, start: u64, end: u64) -> Result<Option<u64>> {
    let address = |name: &str| {
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
        found.map(|symbol| symbol.address())
    };
    let bounds = (
        address("__start___jump_table"),
        address("__stop___jump_table"),
    );
    let (Some(from), Some(to)) = bounds else {
        return Ok(None);
    };
    let table = file
        .sections()
        .find_map(|section| section.data_range(from, to - from).ok().flatten())
        .context("the kernel's jump table has no contents")?;
    for (number, entry) in table.chunks_exact(JUMP_ENTRY).enumerate() {
        let relative = i32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
        let own = from + (number * JUMP_ENTRY) as u64;
        let site = own.wrapping_add_signed(i64::from(relative));
        if (start..end).contains(&site) {
            return Ok(Some(site));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::host::files;
    use std::process::Command;

    /// A program whose functions return 7, and nothing.
    fn program(dir: &std::path::Path) -> std::path::PathBuf {
        let source = dir.join("p.c");
        files::write(
            &source,
            b"__attribute__((noinline,noclone)) int seven(int a) { __asm__ volatile(\"nop\\n nop\\n \
              nop\\n nop\\n nop\\n nop\\n nop\\n nop\"); return a + 7; }\n\
              int main(int argc, char **argv) { return seven(argc - 1); }\n",
        )
        .unwrap();
        let file = dir.join("p");
        let status = Command::new("gcc")
            .args(["-O2", "-fcf-protection=none", "-o"])
            .arg(&file)
            .arg(&source)
            .status()
            .unwrap();
        assert!(status.success());
        file
    }

    #[test]
    fn a_function_that_does_nothing_returns_what_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = program(dir.path());
        let image = std::fs::read(&file).unwrap();
        let run = |image: &[u8]| {
            let changed = dir.path().join("changed");
            files::write_mode(&changed, image, 0o755).unwrap();
            Command::new(&changed).status().unwrap().code()
        };
        assert_eq!(run(&image), Some(7));
        assert_eq!(run(&without(&image, "seven", Some(0)).unwrap()), Some(0));
        assert_eq!(
            run(&without(&image, "seven", Some(-12)).unwrap()),
            Some(244)
        );
        // Without a value the register keeps what it had.
        assert_ne!(run(&without(&image, "seven", None).unwrap()), Some(7));
        let error = without(&image, "eight", None).unwrap_err().to_string();
        assert!(error.contains("eight"), "{error}");
    }

    #[test]
    fn copies_of_a_function_are_it_and_its_cold_part_is_not() {
        for (name, copy) in [
            ("find", true),
            ("find.isra.0", true),
            ("find.constprop.0.isra.1", true),
            ("find.cold", false),
            ("find_next", false),
            ("__find", false),
        ] {
            assert_eq!(is_copy(name, "find"), copy, "{name}");
        }
    }
}
