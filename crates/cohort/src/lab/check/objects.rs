// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab check-objects`: with its options off, the series changes no object of the kernel.
//!
//! For each architecture the files that the series changes, and all of `mm`, are compiled from the
//! stock source and from ours. What an object gives to the kernel, its sections with their
//! relocations, must be equal byte for byte: so a kernel without the options is the stock one, also
//! on an architecture that the series does not know. Two hooks fix bugs of the stock kernel; the
//! source to compare with has these.

use crate::lab::Lab;
use crate::lab::check::tally::Tally;
use crate::lab::guest::setup;
use crate::lab::host::files;
use crate::lab::host::process::{Event, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::build;
use crate::lab::kernel::source;
use crate::output::say;
use anyhow::{Context, Result, bail};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, SectionIndex, SymbolKind,
    elf,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel to compare.
struct Target {
    name: &'static str,
    /// `ARCH=` of the kernel's `make`.
    make: &'static str,
    /// `CROSS_COMPILE=`.
    cross: &'static str,
    /// The Debian package of the compiler.
    package: &'static str,
    /// The target of `make` that configures the kernel.
    config: &'static str,
    /// More options, after [`OPTIONS`].
    options: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target {
        name: "amd64",
        make: "x86",
        cross: "x86_64-linux-gnu-",
        package: "gcc",
        config: "x86_64_defconfig",
        options: &["CONFIG_NUMA_BALANCING=y"],
    },
    Target {
        name: "arm64",
        make: "arm64",
        cross: "aarch64-linux-gnu-",
        package: "gcc-aarch64-linux-gnu",
        config: "defconfig",
        options: &["CONFIG_ARM64_VA_BITS_48=y"],
    },
    Target {
        name: "arm64-39",
        make: "arm64",
        cross: "aarch64-linux-gnu-",
        package: "gcc-aarch64-linux-gnu",
        config: "defconfig",
        options: &["CONFIG_ARM64_VA_BITS_39=y"],
    },
    Target {
        name: "armv7",
        make: "arm",
        cross: "arm-linux-gnueabihf-",
        package: "gcc-arm-linux-gnueabihf",
        config: "multi_v7_defconfig",
        options: &[],
    },
    Target {
        name: "riscv",
        make: "riscv",
        cross: "riscv64-linux-gnu-",
        package: "gcc-riscv64-linux-gnu",
        config: "defconfig",
        options: &[],
    },
    Target {
        name: "m68k",
        make: "m68k",
        cross: "m68k-linux-gnu-",
        package: "gcc-m68k-linux-gnu",
        config: "multi_defconfig",
        options: &[],
    },
];

/// The series is off; what it hooks into is on, where the architecture has it.
const OPTIONS: &[&str] = &[
    "# CONFIG_COHORT is not set",
    "# CONFIG_REGION_ORDER is not set",
    "# CONFIG_KSM_SELECTIVE is not set",
    "CONFIG_DEBUG_INFO_NONE=y",
    "# CONFIG_WERROR is not set",
    "CONFIG_CGROUPS=y",
    "CONFIG_CGROUP_FREEZER=y",
    "CONFIG_FTRACE=y",
    "CONFIG_KSM=y",
    "CONFIG_MEMCG=y",
    "CONFIG_NAMESPACES=y",
    "CONFIG_SWAP=y",
    "CONFIG_TIME_NS=y",
    "CONFIG_TRANSPARENT_HUGEPAGE=y",
    "CONFIG_UPROBE_EVENTS=y",
    "CONFIG_USERFAULTFD=y",
];
/// A line that moved is no difference.
const FLAGS: &str = "-D__LINE__=0 -Wno-builtin-macro-redefined";
/// What is compiled whole: the files of `mm` include headers that the series changes.
const FOLDER: &str = "mm";
/// What every kernel has of these is compiled file by file.
const LARGE: &[&str] = &["fs", "kernel", "lib"];
/// The two sources below `out/linux`.
const SIDES: [&str; 2] = ["fixed", "cohort"];
/// Hooks that fix bugs of the stock kernel, whatever its options: both sides have them.
const FIXES: &[&str] = &[
    "0024-mm-lift-userfaultfd-s-protection-without-a-race.patch",
    "0040-mm-madvise-free-lazily-only-what-nobody-else-maps.patch",
];
/// How the name of a compiler's label begins.
const LABEL: &str = ".L";
/// With fewer objects than this the comparison has failed.
const ENOUGH: usize = 60;

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only this kernel: amd64, arm64, arm64-39, armv7, riscv, m68k. May be given again.
    #[arg(long = "arch", value_name = "NAME")]
    archs: Vec<String>,
}

/// Compares the objects of each kernel: a test per kernel.
pub fn run(lab: &Lab, options: &Options) -> Result<Tally> {
    let targets = chosen(&options.archs)?;
    let mut compilers: Vec<&str> = targets.iter().map(|target| target.package).collect();
    compilers.dedup();
    setup::install_missing(lab, &compilers, "cohort lab check-objects")?;
    let _lock = files::Lock::take(&lab.out("kbuild.lock"), "the kernel build")?;
    let version = source::pristine(lab)?;
    source::fixed(lab, &version, FIXES)?;
    source::cohort(lab, &version)?;
    let mut tally = Tally::new();
    for target in targets {
        let objects = objects(lab, target)?;
        for side in SIDES {
            compile(lab, target, side, &objects)?;
        }
        let (equal, notes) = compare(lab, target)?;
        if notes.is_empty() {
            tally.passed += 1;
            say!("ok {}: {equal} objects are the stock kernel's", target.name)?;
        } else {
            say!(
                "not ok {}: {equal} objects are equal, not these:",
                target.name
            )?;
            for note in &notes {
                say!("    {note}")?;
            }
            tally.fail(format!("objects of {}", target.name), &notes);
        }
    }
    Ok(tally)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Target>> {
    for name in names {
        if !TARGETS.iter().any(|target| target.name == name) {
            let all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            bail!(
                "there is no kernel `{name}` to compare; there are: {}",
                all.join(", ")
            );
        }
    }
    let wanted = |target: &&Target| names.is_empty() || names.iter().any(|n| n == target.name);
    Ok(TARGETS.iter().filter(wanted).collect())
}

/// Folders with files that the series changes: `make` compiles there what the configuration has. Of
/// the largest folders, [`LARGE`], the files alone.
fn objects(lab: &Lab, target: &Target) -> Result<BTreeSet<String>> {
    let pristine = lab.out("linux/pristine");
    let ours = files::read(&lab.out("linux/cohort.files"))?;
    let own = format!("arch/{}/", target.make);
    let mut objects: BTreeSet<String> = ours
        .lines()
        .filter(|path| !path.starts_with("arch/") || path.starts_with(&own))
        .filter(|path| !path.starts_with("tools/") && pristine.join(path).exists())
        .filter_map(|path| {
            let stem = path.strip_suffix(".c")?;
            let (folder, _) = stem.rsplit_once('/')?;
            Some(match LARGE.contains(&folder) {
                true => format!("{stem}.o"),
                false => format!("{folder}/"),
            })
        })
        .collect();
    objects.insert(format!("{FOLDER}/"));
    Ok(objects)
}

/// Below `out`.
fn dir(target: &Target, side: &str) -> String {
    format!("objects/{}/{side}", target.name)
}

fn make(lab: &Lab, target: &Target, side: &str) -> Command {
    let tree = format!("linux/{side}");
    let mut make = build::make_with(lab, target.make, target.cross, &tree, &dir(target, side));
    // Hide the name of the source's folder, too.
    let plain = format!("-fmacro-prefix-map=../../../linux/{side}/=");
    make.arg(format!("KCFLAGS={FLAGS} {plain}"))
        .arg(format!("KAFLAGS={plain}"));
    make
}

fn compile(lab: &Lab, target: &Target, side: &str, objects: &BTreeSet<String>) -> Result<()> {
    let (name, dir) = (target.name, lab.out(&dir(target, side)));
    files::make_dir(&dir)?;
    let log = lab.log(&format!("objects-{name}-{side}"));
    let failed = format!("the {side} kernel of {name} could not be configured");
    run_or_fail(
        make(lab, target, side).arg(target.config),
        &log,
        &failed,
        |_| (),
    )?;
    let file = dir.join(".config");
    let mut config = files::read(&file)?;
    for option in OPTIONS.iter().chain(target.options) {
        // The last line of an option counts.
        config.push_str(option);
        config.push('\n');
    }
    files::write(&file, config.as_bytes())?;
    run_or_fail(
        make(lab, target, side).arg("olddefconfig"),
        &log,
        &failed,
        |_| (),
    )?;
    let config = files::read(&file)?;
    if let Some(on) = still_on(&config) {
        bail!(
            "{on} is on though it was switched off: see {}",
            file.display()
        );
    }
    let mut progress = Progress::new(
        &format!("compiling {name}'s objects from the {side} source"),
        "files",
        None,
    );
    run_or_fail(
        make(lab, target, side).arg("prepare").args(objects),
        &log,
        &format!("objects of the {side} kernel of {name} did not build"),
        |event| match event {
            Event::Line(line) if line.starts_with("  CC ") => progress.step(),
            Event::Line(_) => {}
            Event::Tick => progress.tick(),
        },
    )?;
    progress.finish(&format!("compiled {name}'s objects from the {side} source"));
    Ok(())
}

/// An option of [`OPTIONS`] that was to be off.
fn still_on(config: &str) -> Option<&'static str> {
    OPTIONS
        .iter()
        .filter_map(|option| option.strip_prefix("# ")?.strip_suffix(" is not set"))
        .find(|option| {
            let on = format!("{option}=");
            config.lines().any(|line| line.starts_with(&on))
        })
}

/// All objects below the directories of both sides: how many are equal, and what is not.
fn compare(lab: &Lab, target: &Target) -> Result<(usize, Vec<String>)> {
    let [stock, ours] = SIDES.map(|side| lab.out(&dir(target, side)));
    let all: BTreeSet<PathBuf> = [&stock, &ours]
        .into_iter()
        .map(|dir| compiled(dir))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    let mut equal = 0;
    let mut notes = Vec::new();
    for path in all {
        let name = path.display();
        match (
            std::fs::read(stock.join(&path)),
            std::fs::read(ours.join(&path)),
        ) {
            (Ok(stock), Ok(ours)) => match differences(&stock, &ours)
                .with_context(|| format!("{name} of {}", target.name))?
            {
                none if none.is_empty() => equal += 1,
                found => notes.push(format!("{name}: {}", found.join(", "))),
            },
            (Ok(_), Err(_)) => notes.push(format!("{name}: in the stock kernel alone")),
            (Err(_), _) => notes.push(format!("{name}: not in the stock kernel")),
        }
    }
    if equal + notes.len() < ENOUGH {
        notes.push(format!(
            "only {} objects were compared",
            equal + notes.len()
        ));
    }
    Ok((equal, notes))
}

/// Objects that a C compiler made for the kernel, not for this machine.
fn compiled(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let host = ["scripts", "tools", "usr", "certs"];
    Ok(files::walk(dir)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "o"))
        .filter_map(|path| Some(path.strip_prefix(dir).ok()?.to_path_buf()))
        .filter(|path| !host.iter().any(|folder| path.starts_with(folder)))
        // Links of other objects.
        .filter(|path| path.file_name().is_some_and(|name| name != "built-in.o"))
        .collect())
}

/// What an object gives to the kernel: name, content and relocations of its sections, and the names
/// of their functions.
fn differences(stock: &[u8], ours: &[u8]) -> Result<Vec<String>> {
    let (stock, ours) = (object::File::parse(stock)?, object::File::parse(ours)?);
    let (one, two) = (sections(&stock)?, sections(&ours)?);
    let mut found = Vec::new();
    for (place, (name, text, index)) in two.iter().enumerate() {
        match one.get(place) {
            Some((other, content, from)) if other == name => {
                if content != text {
                    found.push(what(&stock, *from, &ours, *index, name)?);
                }
            }
            _ => {
                found.push(format!("section {name}"));
                return Ok(found);
            }
        }
    }
    if let Some((name, _, _)) = one.get(two.len()) {
        found.push(format!("no section {name}"));
    }
    Ok(found)
}

type Section = (String, String, SectionIndex);

/// The sections that are in memory, in the order of their names.
fn sections(file: &object::File) -> Result<Vec<Section>> {
    let mut all = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            bail!("no ELF object");
        };
        let name = section.name()?.to_string();
        if sh_flags.0 & elf::SHF_ALLOC.0 == 0 || name.starts_with(".note") {
            continue;
        }
        let text = content(file, section.index(), 0, u64::MAX)?;
        all.push((name, text, section.index()));
    }
    all.sort_by(|(name, text, _), (other, content, _)| (name, text).cmp(&(other, content)));
    Ok(all)
}

/// Bytes and relocations of a part of a section.
fn content(file: &object::File, index: SectionIndex, from: u64, to: u64) -> Result<String> {
    let section = file.section_by_index(index)?;
    let data = section.data()?;
    let end = (data.len() as u64).min(to);
    let mut text = format!(
        "{} {:x?}",
        section.size().min(to) - from,
        &data[from.min(end) as usize..end as usize]
    );
    for (at, relocation) in section.relocations() {
        if at < from || at >= to {
            continue;
        }
        let target = match relocation.target() {
            RelocationTarget::Symbol(symbol) => {
                let symbol = file.symbol_by_index(symbol)?;
                match symbol.kind() {
                    SymbolKind::Section => match symbol.section_index() {
                        Some(section) => file.section_by_index(section)?.name()?.to_string(),
                        None => "?".into(),
                    },
                    _ if symbol.name()?.starts_with(LABEL) => label(file, &symbol, index, from)?,
                    _ => plain(symbol.name()?).to_string(),
                }
            }
            other => format!("{other:?}"),
        };
        let (at, kind) = (at - from, relocation.flags());
        write!(text, "\n{at:x} {kind:?} {target} {:x}", relocation.addend())?;
    }
    Ok(text)
}

/// The place of a compiler's label, relative to the part if both are in one section. RISC-V keeps
/// such labels for its linker; their numbers depend on what the compiler has read before.
fn label(
    file: &object::File,
    symbol: &object::Symbol,
    part: SectionIndex,
    from: u64,
) -> Result<String> {
    let section = symbol.section_index().context("a label in no section")?;
    let start = if section == part { from } else { 0 };
    let at = symbol.address().wrapping_sub(start);
    Ok(format!(
        "{}+{at:x}",
        file.section_by_index(section)?.name()?
    ))
}

/// A symbol without the number that the compiler gives to one of several of a name.
fn plain(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

/// A section that differs, with the functions in it that do.
fn what(
    stock: &object::File,
    from: SectionIndex,
    ours: &object::File,
    index: SectionIndex,
    name: &str,
) -> Result<String> {
    let functions = |file: &object::File, section| -> Result<Vec<(String, String)>> {
        file.symbols()
            .filter(|symbol| symbol.section_index() == Some(section))
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| {
                let start = symbol.address() & !1;
                let text = content(file, section, start, start + symbol.size())?;
                Ok((symbol.name()?.to_string(), text))
            })
            .collect()
    };
    let (one, two) = (functions(stock, from)?, functions(ours, index)?);
    let changed: Vec<&str> = two
        .iter()
        .filter(|function| !one.contains(function))
        .map(|(name, _)| name.as_str())
        .collect();
    Ok(match changed.is_empty() {
        true => name.to_string(),
        false => format!("{name} ({})", changed.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The object of a C source, compiled as the kernel's are.
    fn compile(source: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("x.c"), dir.path().join("x.o"));
        files::write(&from, source.as_bytes()).unwrap();
        let status = Command::new("gcc")
            .args([
                "-O2",
                "-c",
                "-fno-asynchronous-unwind-tables",
                "-D__LINE__=0",
                "-Wno-builtin-macro-redefined",
            ])
            .arg("-o")
            .args([&to, &from])
            .status()
            .unwrap();
        assert!(status.success());
        std::fs::read(to).unwrap()
    }

    const STOCK: &str = "int g(int);\nstatic int n;\nint f(int a) { n = a; return g(a) + __LINE__; }\n\
                         int *h(void) { return &n; }\n";

    #[test]
    fn a_line_that_moved_is_no_difference() {
        let moved = STOCK.replace("static", "\n\n/* more */ static");
        let found = differences(&compile(STOCK), &compile(&moved)).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn other_code_another_callee_and_another_section_are_differences() {
        let of = |old: &str, new: &str| {
            assert!(STOCK.contains(old));
            differences(&compile(STOCK), &compile(&STOCK.replace(old, new))).unwrap()
        };
        assert_eq!(of("g(a) +", "g(a) + 2 +"), [".text (f)"]);
        let callee = of("g(", "k(").join(" ");
        assert!(callee.contains(".text (f)"), "{callee}");
        assert!(!of("static int n", "static int n = 3").is_empty());
        assert!(!of("int *h(void)", "int m[9]; int *h(void)").is_empty());
    }

    #[test]
    fn the_number_of_a_label_is_no_difference_and_its_place_is() {
        let of = |labels: &str| {
            let top = format!("__asm__(\".text\\n{labels}\");\n");
            compile(&(top + STOCK))
        };
        // The relocation for an entry of a table names the label.
        let stock = of("nop; keep_7: nop\\n.data; .long keep_7@GOTPCREL\\n.text");
        let moved = of("keep_7: nop; nop\\n.data; .long keep_7@GOTPCREL\\n.text");
        let renamed = |object: &[u8], to: &[u8; 6]| {
            let at = object.windows(6).position(|name| name == b"keep_7");
            let mut object = object.to_vec();
            let at = at.unwrap();
            object[at..at + 6].copy_from_slice(to);
            object
        };
        let one = renamed(&stock, b".L1234");
        let found = differences(&one, &renamed(&stock, b".L4321")).unwrap();
        assert!(found.is_empty(), "{found:?}");
        let found = differences(&one, &renamed(&moved, b".L1234")).unwrap();
        assert!(!found.is_empty());
    }

    #[test]
    fn an_option_that_stays_on_is_named() {
        let off = "CONFIG_COHORT_NAME=y\n# CONFIG_COHORT is not set\nCONFIG_KSM=y\n";
        assert_eq!(still_on(off), None);
        assert_eq!(still_on("CONFIG_COHORT=y\n"), Some("CONFIG_COHORT"));
    }

    #[test]
    fn a_number_after_a_name_is_the_compilers() {
        assert_eq!(plain("warned.17"), "warned");
        assert_eq!(plain("f.isra.0"), "f.isra");
        assert_eq!(plain("f.part"), "f.part");
        assert_eq!(plain("init_mm"), "init_mm");
    }

    #[test]
    fn a_kernel_that_is_not_known_is_refused_with_those_that_are() {
        let error = chosen(&["sparc".into()]).err().unwrap().to_string();
        assert!(
            error.contains("sparc") && error.contains("riscv"),
            "{error}"
        );
        assert_eq!(chosen(&[]).unwrap().len(), TARGETS.len());
        assert_eq!(chosen(&["m68k".into()]).unwrap()[0].make, "m68k");
    }
}
