// SPDX-License-Identifier: GPL-2.0-or-later
//! Building kernels: four configurations, one build at a time, and nothing built twice.

use crate::lab::Lab;
use crate::lab::arch::{self, Arch};
use crate::lab::host::files;
use crate::lab::host::hash::{Hasher, short};
use crate::lab::host::process::{Event, output, run_or_fail};
use crate::lab::host::progress::Progress;
use crate::lab::kernel::kconfig;
use crate::lab::kernel::source;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that a cold build compiles when no earlier build has counted them.
const FIRST_ESTIMATE: u64 = 1_000;

/// The purpose of a kernel.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Config {
    /// Ours, without debug options: for measuring.
    Bench,
    /// Ours, with every check that the kernel has: for testing.
    Debug,
    /// Debian's source unchanged, configured as `bench`: what we compare with.
    Pristine,
    /// Ours as `bench`, but preemptible, with the kernel's tracer of what runs unpreempted.
    Stretch,
}

impl Config {
    /// The configuration's fragments in `kernel/config`. The architecture's are the last, and may
    /// unset what it does not have.
    fn fragments(self, arch: Arch) -> Result<Vec<&'static str>> {
        let own: &[&str] = match self {
            Config::Bench => &["cohort"],
            Config::Debug => &["cohort", "debug"],
            Config::Pristine => &[],
            Config::Stretch => &["cohort", "stretch"],
        };
        let mut all = vec!["base"];
        all.extend(own);
        all.extend(arch.build()?.config);
        Ok(all)
    }

    /// The directory below `out` that it is built in, and a name for logs.
    fn dir(self, arch: Arch) -> (String, String) {
        let name = self.name(arch);
        (format!("build/{name}"), name)
    }

    /// The name of files about it: `bench` on the lab's own architecture, else `ARCH-bench`.
    pub fn name(self, arch: Arch) -> String {
        format!("{}{self}", arch.mark())
    }

    /// The source tree it is built from.
    pub fn tree(self) -> &'static str {
        match self {
            Config::Bench | Config::Debug | Config::Stretch => "linux/cohort",
            Config::Pristine => "linux/pristine",
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Config::Bench => "bench",
            Config::Debug => "debug",
            Config::Pristine => "pristine",
            Config::Stretch => "stretch",
        })
    }
}

/// A kernel that is built: what it is exactly, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kernel {
    /// Its configuration.
    pub config: Config,
    /// Its version, for instance 6.12.48.
    pub version: String,
    /// The hash of overlay and hooks; none for a pristine kernel.
    pub change: Option<String>,
    /// The hash of its `.config`.
    pub config_hash: String,
    /// The compiler's first line of `--version`.
    pub compiler: String,
    /// The image.
    #[serde(skip)]
    pub image: PathBuf,
    /// The same kernel with its symbols.
    #[serde(skip)]
    pub symbols: PathBuf,
}

impl Kernel {
    /// The kernel in few words, for tables.
    pub fn describe(&self) -> String {
        match &self.change {
            Some(change) => format!(
                "{} ({}, change {})",
                self.version,
                self.config,
                short(change)
            ),
            None => format!("{} ({})", self.version, self.config),
        }
    }
}

/// Builds the kernel of `config` unless it is built already.
pub fn build(lab: &Lab, config: Config) -> Result<Kernel> {
    build_for(lab, arch::LAB, config)
}

/// As [`build`], for another architecture.
pub fn build_for(lab: &Lab, arch: Arch, config: Config) -> Result<Kernel> {
    let fragments = fragments_for(lab, arch, config)?;
    let compiler = output(Command::new(arch.gcc).arg("--version")).with_context(|| {
        format!("no C compiler for {arch}: `cohort lab setup --arch {arch}` installs it")
    })?;
    let compiler = compiler.lines().next().unwrap_or_default().to_string();
    // Asked before the lock is: if nothing must be built, do not wait for another build.
    if source::is_unpacked(lab)
        && is_built(
            lab,
            arch,
            config,
            &stamp(lab, config, &fragments, &compiler)?,
        )?
    {
        eprintln!("the {} kernel is up to date", config.dir(arch).1);
        return describe(lab, arch, config, compiler);
    }
    let _lock = files::Lock::take(&lab.out("kbuild.lock"), "the kernel build")?;
    let version = source::pristine(lab)?;
    // Again if the tree was edited while we waited or built: what is described is what is built.
    loop {
        if config != Config::Pristine {
            let written = source::cohort(lab, &version)?;
            if written > 0 {
                eprintln!("overlay and hooks: {written} files of Linux {version} written");
            }
        }
        let stamp = stamp(lab, config, &fragments, &compiler)?;
        if is_built(lab, arch, config, &stamp)? {
            break;
        }
        configure(lab, arch, config, &fragments)?;
        compile(lab, arch, config)?;
        let file = lab.out(&config.dir(arch).0).join("lab.stamp");
        files::write(&file, stamp.as_bytes())?;
    }
    describe(lab, arch, config, compiler)
}

/// The image that is `given`, of which nothing more is known, or that of `config`, built.
pub fn image_for(
    lab: &Lab,
    arch: Arch,
    config: Config,
    given: Option<&Path>,
) -> Result<(PathBuf, Option<Kernel>)> {
    match given {
        Some(image) if image.is_file() => Ok((image.to_path_buf(), None)),
        Some(image) => bail!("there is no kernel image {}", image.display()),
        None => {
            let kernel = build_for(lab, arch, config)?;
            Ok((kernel.image.clone(), Some(kernel)))
        }
    }
}

/// The hash of all that a kernel is made from.
fn stamp(
    lab: &Lab,
    config: Config,
    fragments: &[(String, String)],
    compiler: &str,
) -> Result<String> {
    let mut stamp = Hasher::new();
    stamp.part("source", source::identity(lab)?.as_bytes());
    stamp.part("compiler", compiler.as_bytes());
    if config != Config::Pristine {
        stamp.part("change", source::change_hash(lab)?.as_bytes());
    }
    for (name, text) in fragments {
        stamp.part(name, text.as_bytes());
    }
    Ok(stamp.finish())
}

fn is_built(lab: &Lab, arch: Arch, config: Config, stamp: &str) -> Result<bool> {
    let dir = lab.out(&config.dir(arch).0);
    Ok(dir.join(arch.build()?.image).exists()
        && std::fs::read_to_string(dir.join("lab.stamp")).is_ok_and(|old| old == stamp))
}

fn describe(lab: &Lab, arch: Arch, config: Config, compiler: String) -> Result<Kernel> {
    let dir = lab.out(&config.dir(arch).0);
    Ok(Kernel {
        config,
        version: source::version(&lab.out("linux/pristine"))?,
        change: match config {
            Config::Pristine => None,
            Config::Bench | Config::Debug | Config::Stretch => Some(source::change_hash(lab)?),
        },
        config_hash: Hasher::new().path(&dir.join(".config"))?.finish(),
        compiler,
        image: dir.join(arch.build()?.image),
        symbols: dir.join("vmlinux"),
    })
}

/// A built kernel has an option.
pub fn has_option(lab: &Lab, arch: Arch, config: Config, option: &str) -> Result<bool> {
    let text = files::read(&lab.out(&config.dir(arch).0).join(".config"))?;
    Ok(text.lines().any(|line| line == format!("{option}=y")))
}

/// Whether a kernel is to be built with an option: the last fragment that names it decides.
pub fn sets_option(lab: &Lab, arch: Arch, config: Config, option: &str) -> Result<bool> {
    let fragments = fragments_for(lab, arch, config)?;
    let (on, off) = (format!("{option}=y"), format!("# {option} is not set"));
    let mut lines = fragments.iter().flat_map(|(_, text)| text.lines()).rev();
    Ok(lines.find(|line| *line == on || *line == off) == Some(&on))
}

/// The texts of the configuration's fragments.
pub fn fragments_for(lab: &Lab, arch: Arch, config: Config) -> Result<Vec<(String, String)>> {
    config
        .fragments(arch)?
        .iter()
        .map(|name| {
            let name = format!("kernel/config/{name}.config");
            let text = files::read(&lab.path(&name))?;
            Ok((name, text))
        })
        .collect()
}

/// The kernel's headers for programs, of a built configuration: returns their directory. The caller
/// holds the lock of the kernel build.
pub fn headers(lab: &Lab, arch: Arch, config: Config) -> Result<PathBuf> {
    run_or_fail(
        make_for(lab, arch, config)?.arg("headers"),
        &lab.log("headers"),
        "the kernel's headers could not be made",
        |_| (),
    )?;
    Ok(lab.out(&config.dir(arch).0).join("usr/include"))
}

/// `make` of the source tree `tree` in the directory `dir`, both below `out`, with the compiler's
/// cache.
pub fn make_in(lab: &Lab, tree: &str, dir: &str) -> Command {
    let target = arch::LAB.build();
    let target = target.expect("the lab builds kernels for its own architecture");
    make_with(lab, target.make, target.cross, tree, dir)
}

/// `make` for a configuration of an architecture.
pub fn make_for(lab: &Lab, arch: Arch, config: Config) -> Result<Command> {
    let (dir, _) = config.dir(arch);
    let target = arch.build()?;
    Ok(make_with(
        lab,
        target.make,
        target.cross,
        config.tree(),
        &dir,
    ))
}

/// As [`make_in`], with `ARCH=` and `CROSS_COMPILE=` of any architecture.
pub fn make_with(lab: &Lab, arch: &str, cross: &str, tree: &str, dir: &str) -> Command {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(lab.out(tree))
        .arg(format!("O={}", lab.out(dir).display()))
        .arg(format!("ARCH={arch}"))
        .arg(format!("CROSS_COMPILE={cross}"))
        .arg(format!("-j{jobs}"))
        .arg(format!("CC=ccache {cross}gcc"))
        .arg("HOSTCC=ccache gcc")
        // The same source gives the same kernel, whoever builds it and when.
        .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01")
        .env("KBUILD_BUILD_USER", "cohort")
        .env("KBUILD_BUILD_HOST", "lab")
        // Another checkout of the project finds the same objects in the cache.
        .env("CCACHE_BASEDIR", &lab.root)
        .env("CCACHE_NOHASHDIR", "1")
        .env("CCACHE_SLOPPINESS", "time_macros")
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    make
}

fn configure(lab: &Lab, arch: Arch, config: Config, fragments: &[(String, String)]) -> Result<()> {
    let (dir, name) = config.dir(arch);
    let dir = lab.out(&dir);
    files::make_dir(&dir)?;
    let asked = kconfig::parse_fragments(fragments)?;
    let all: String = fragments.iter().map(|(_, text)| text.as_str()).collect();
    let wanted = dir.join("lab.config");
    files::write(&wanted, all.as_bytes())?;
    run_or_fail(
        make_for(lab, arch, config)?
            .arg("allnoconfig")
            .env("KCONFIG_ALLCONFIG", &wanted),
        &lab.log(&format!("config-{name}")),
        &format!("the {name} kernel could not be configured"),
        |_| (),
    )?;
    kconfig::check(&asked, &files::read(&dir.join(".config"))?)
}

fn compile(lab: &Lab, arch: Arch, config: Config) -> Result<()> {
    let (dir, name) = config.dir(arch);
    let dir = lab.out(&dir);
    let target = arch.build()?;
    let total_file = dir.join("lab.total");
    let known: Option<u64> = std::fs::read_to_string(&total_file)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let before = compiled(&dir);
    let cold = before == 0;
    // After a full build only make knows how much of it a change undoes.
    let total = match known {
        Some(_) if dir.join(target.image).exists() => None,
        known => Some(
            known
                .unwrap_or(FIRST_ESTIMATE)
                .saturating_sub(before)
                .max(1),
        ),
    };
    // The kernel's build names it below its directory of device trees.
    let tree = target.tree.map(|tree| tree.trim_start_matches("dts/"));
    let mut progress = Progress::new(&format!("building the {name} kernel"), "files", total);
    run_or_fail(
        make_for(lab, arch, config)?.arg(target.target).args(tree),
        &lab.log(&format!("build-{name}")),
        &format!("the {name} kernel did not build"),
        |event| match event {
            Event::Line(line) => {
                let kind = line.split_whitespace().next().unwrap_or_default();
                if line.starts_with("  ") && matches!(kind, "CC" | "AS" | "HOSTCC") {
                    progress.step();
                }
            }
            Event::Tick => progress.tick(),
        },
    )?;
    progress.finish(&format!("built the {name} kernel"));
    if cold || known.is_none() {
        files::write(&total_file, compiled(&dir).to_string().as_bytes())?;
    }
    Ok(())
}

/// Object files that are there, counted by the command files that kbuild keeps of them.
fn compiled(dir: &std::path::Path) -> u64 {
    let Ok(all) = files::walk(dir) else { return 0 };
    all.iter()
        .filter(|path| path.to_string_lossy().ends_with(".o.cmd"))
        .count() as u64
}
