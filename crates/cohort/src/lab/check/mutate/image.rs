// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes one function of a built kernel do nothing, in a copy of its image.
//!
//! The first bytes of the function become a return. That takes seconds where building the kernel
//! again takes minutes, and leaves every other byte as it was.

use anyhow::{Context, Result, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// What must be known of a processor to have a function do nothing.
struct Code {
    architecture: Architecture,
    /// Code that returns a value, or nothing.
    returns: fn(Option<i32>) -> Vec<u8>,
    /// Bytes of an entry of the kernel's jump table, which begins with the address of its code...
    jump_entry: usize,
    /// ...relative to itself.
    relative: bool,
}

const CODES: &[Code] = &[
    Code {
        architecture: Architecture::X86_64,
        returns: x86_64,
        jump_entry: 16,
        relative: true,
    },
    Code {
        architecture: Architecture::Aarch64,
        returns: aarch64,
        jump_entry: 16,
        relative: true,
    },
    Code {
        architecture: Architecture::Arm,
        returns: arm,
        jump_entry: 12,
        relative: false,
    },
];

/// A change of a kernel's code.
pub struct Edit {
    /// Where the code is in memory, and in the file.
    address: u64,
    offset: usize,
    /// What it was and what it is to be.
    old: Vec<u8>,
    new: Vec<u8>,
}

/// The image with every copy of `function` returning `value` at once, or nothing.
///
/// The compiler may keep a static function under another name (`NAME.isra.0`, `NAME.constprop.0`),
/// and in several copies. A function that it has put into all of its callers is an error.
pub fn without(image: &[u8], function: &str, value: Option<i32>) -> Result<Vec<u8>> {
    let mut changed = image.to_vec();
    for edit in edits(image, function, value)? {
        changed[edit.offset..edit.offset + edit.new.len()].copy_from_slice(&edit.new);
    }
    Ok(changed)
}

/// The same changes in the kernel's code as it is in memory from the address `base` on.
pub fn apply(raw: &mut [u8], base: u64, edits: &[Edit]) -> Result<()> {
    for edit in edits {
        let from = edit.address.checked_sub(base).map(|from| from as usize);
        let code = from.and_then(|from| raw.get_mut(from..from + edit.new.len()));
        match code {
            Some(code) if *code == *edit.old => code.copy_from_slice(&edit.new),
            _ => bail!("the image and vmlinux differ at {:#x}", edit.address),
        }
    }
    Ok(())
}

/// The address of a symbol.
pub fn address(image: &[u8], name: &str) -> Result<u64> {
    let file = object::File::parse(image).context("the kernel's image is not an ELF file")?;
    let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let found = found.with_context(|| format!("the kernel has no symbol {name}"))?;
    Ok(found.address())
}

/// The changes that [`without`] makes.
pub fn edits(image: &[u8], function: &str, value: Option<i32>) -> Result<Vec<Edit>> {
    let file = object::File::parse(image).context("the kernel's image is not an ELF file")?;
    let processor = CODES
        .iter()
        .find(|known| known.architecture == file.architecture())
        .with_context(|| format!("no function of {:?} can be left out", file.architecture()))?;
    let code = (processor.returns)(value);
    let mut edits = Vec::new();
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or_default();
        if symbol.kind() != SymbolKind::Text || !is_copy(name, function) {
            continue;
        }
        let at = symbol.address();
        if symbol.size() < code.len() as u64 {
            bail!("{name} is too short to be changed");
        }
        if let Some(site) = patched_at_boot(&file, processor, at, at + code.len() as u64)? {
            bail!("the kernel itself changes {name} at {site:#x}, where its return would stand");
        }
        let offset = offset(&file, at).with_context(|| format!("{name} has no code"))?;
        edits.push(Edit {
            address: at,
            offset,
            old: image[offset..offset + code.len()].to_vec(),
            new: code.clone(),
        });
    }
    if edits.is_empty() {
        bail!(
            "the kernel has no function {function}: it is gone, has another name, or the compiler has \
             put it into its callers"
        );
    }
    Ok(edits)
}

/// `name` is the function itself or one of the compiler's copies of it.
fn is_copy(name: &str, function: &str) -> bool {
    match name.strip_prefix(function) {
        Some("") => true,
        Some(rest) => rest.starts_with('.') && !rest.starts_with(".cold"),
        None => false,
    }
}

/// A return of 64-bit ARM.
fn aarch64(value: Option<i32>) -> Vec<u8> {
    let half = |value: i32, shift: u32| (value as u32 >> shift & 0xffff) << 5;
    let mut words = match value {
        None => Vec::new(),
        // movn x0 or movz x0, then movk x0 with the upper half
        Some(value) if value < 0 => {
            vec![0x9280_0000 | half(!value, 0), 0xf2a0_0000 | half(value, 16)]
        }
        Some(value) => vec![0xd280_0000 | half(value, 0), 0xf2a0_0000 | half(value, 16)],
    };
    words.push(0xd65f_03c0);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A return of 32-bit ARM.
fn arm(value: Option<i32>) -> Vec<u8> {
    let half = |value: u32| (value >> 12 & 0xf) << 16 | value & 0xfff;
    let mut words = match value.map(|value| value as u32) {
        None => Vec::new(),
        // movw r0, movt r0
        Some(value) => vec![
            0xe300_0000 | half(value & 0xffff),
            0xe340_0000 | half(value >> 16),
        ],
    };
    words.push(0xe12f_ff1e);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// x86-64 code that returns.
fn x86_64(value: Option<i32>) -> Vec<u8> {
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
fn patched_at_boot(
    file: &object::File,
    processor: &Code,
    start: u64,
    end: u64,
) -> Result<Option<u64>> {
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
    for (number, entry) in table.chunks_exact(processor.jump_entry).enumerate() {
        let first = i32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
        let own = from + (number * processor.jump_entry) as u64;
        let site = match processor.relative {
            true => own.wrapping_add_signed(i64::from(first)),
            false => u64::from(first as u32),
        };
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
            let [written, changed] = ["written", "changed"].map(|name| dir.path().join(name));
            files::write_mode(&written, image, 0o755).unwrap();
            // A program that another test starts meanwhile inherits what this process writes, and
            // no file is run while somebody writes it.
            let copied = Command::new("cp").args([&written, &changed]).status();
            assert!(copied.unwrap().success());
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
    fn returns_of_other_processors_are_their_instructions() {
        let words = |code: Vec<u8>| -> Vec<u32> {
            let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
            code.chunks(4).map(word).collect()
        };
        assert_eq!(words(arm(None)), [0xe12f_ff1e]);
        // movw r0, #0xfff4; movt r0, #0xffff
        let minus = [0xe30f_0ff4, 0xe34f_0fff, 0xe12f_ff1e];
        assert_eq!(words(arm(Some(-12))), minus);
        assert_eq!(words(aarch64(None)), [0xd65f_03c0]);
        // mov x0, #-12; movk x0, #0xffff, lsl #16
        let minus = [0x9280_0160, 0xf2bf_ffe0, 0xd65f_03c0];
        assert_eq!(words(aarch64(Some(-12))), minus);
        let one = [0xd280_0020, 0xf2a0_0000, 0xd65f_03c0];
        assert_eq!(words(aarch64(Some(1))), one);
    }

    #[test]
    fn code_in_memory_is_changed_where_it_is_what_it_was() {
        let edits = [Edit {
            address: 0x8004,
            offset: 0,
            old: vec![1, 2],
            new: vec![7, 8],
        }];
        let mut raw = [0, 0, 0, 0, 1, 2, 3];
        apply(&mut raw, 0x8000, &edits).unwrap();
        assert_eq!(raw, [0, 0, 0, 0, 7, 8, 3]);
        assert!(apply(&mut raw, 0x8000, &edits).is_err());
        assert!(apply(&mut raw, 0x9000, &edits).is_err());
        assert!(apply(&mut raw[..5], 0x8000, &edits).is_err());
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
