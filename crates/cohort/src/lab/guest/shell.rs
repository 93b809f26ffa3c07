// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab shell`: a guest with a shell on this terminal, or a guest that runs one command, whose
//! input, outputs and exit status are this program's. The kernel is the lab's or one's own.

use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::guest::job::Step;
use crate::lab::guest::packaged;
use crate::lab::guest::programs::{self, Program};
use crate::lab::guest::protocol::Ending;
use crate::lab::guest::rootfs;
use crate::lab::guest::run::{Machine, Spec};
use crate::lab::host::files;
use crate::lab::host::process::run_or_fail;
use crate::lab::kernel::build::{self, Config};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The exit status if CMD did not end by itself; containers' programs have the same.
const EXIT_GUEST: u8 = 125;
/// The exit status if it took too long, as of timeout(1).
const EXIT_TIMEOUT: u8 = 124;
/// Host seconds for a boot, beside those that CMD may take.
const BOOT: u64 = 300;
/// MB of memory, if the board takes so much.
const MEMORY: u64 = 2_048;
/// What a kernel needs, told to whoever brings one that does not get far.
const NEEDS: &str = "a kernel must have built in, or in its package's modules: BLK_DEV_INITRD, \
                     DEVTMPFS, SERIAL_8250_CONSOLE, VIRTIO_BLK, VIRTIO_CONSOLE, EXT4_FS, and \
                     VIRTIO_PCI or VIRTIO_MMIO with VIRTIO_MMIO_CMDLINE_DEVICES";

/// What to boot and to run.
#[derive(clap::Args)]
pub struct Options {
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Bench)]
    config: Config,
    /// The architecture of the kernel and its guest. Of another one than the lab's, /lab/bin has
    /// the selftests and the fuzzer alone.
    #[arg(long, value_name = "NAME", default_value = LAB.name, conflicts_with_all = ["kernel", "machine"])]
    arch: Arch,
    /// Your own kernel: an image (bzImage, vmlinux) or a Debian package (linux-image-*.deb), whose
    /// modules are loaded.
    #[arg(long, value_name = "IMAGE", conflicts_with = "config")]
    kernel: Option<PathBuf>,
    /// The machine; default: microvm for kernels whose configuration is beside the image and has
    /// virtio over MMIO, and for the lab's; else pci.
    #[arg(long, value_enum)]
    machine: Option<Kind>,
    /// The recipe of its root file system, in guest/rootfs; default: the architecture's.
    #[arg(long, add = rootfs::complete())]
    rootfs: Option<String>,
    /// Memory in MB; default: 2048, or what the architecture's board takes.
    #[arg(long)]
    memory: Option<u64>,
    /// Processors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Words to add to the kernel's command line.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    cmdline: String,
    /// Put this file into the guest's /lab/bin; may be given many times.
    #[arg(long, value_name = "FILE")]
    copy: Vec<PathBuf>,
    /// End the guest if CMD takes longer.
    #[arg(long, value_name = "SECONDS", requires = "command")]
    timeout: Option<u64>,
    /// Run this instead of a shell: one word is a line for the guest's shell, several are a program
    /// and its arguments. Its input, outputs and exit status are passed on.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// A machine of QEMU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The lab's: virtio over MMIO, no PCI.
    Microvm,
    /// One with PCI, as distributions' kernels expect.
    Pci,
}

/// What boots.
struct Kernel {
    image: PathBuf,
    kind: Kind,
    modules: Vec<Program>,
}

/// Boots the guest; the exit status is that of the command, if there is one.
pub fn shell(lab: &Lab, options: &Options) -> Result<ExitCode> {
    let arch = options.arch;
    let command = line(&options.command)?;
    let mut programs = own_files(&options.copy)?;
    let kernel = match &options.kernel {
        Some(path) => own_kernel(lab, path)?,
        None => Kernel {
            image: build::build_for(lab, arch, options.config)?.image,
            kind: Kind::Microvm,
            modules: Vec::new(),
        },
    };
    if arch == LAB {
        programs.extend(programs::workloads(lab)?);
        programs.push(programs::cohort()?);
    } else if arch.fuzzes {
        programs.push(programs::fuzz(lab, arch)?);
    }
    if options.kernel.is_none() && options.config != Config::Pristine {
        programs.extend(programs::selftests(lab, arch, options.config)?);
    }
    programs.push(Program {
        guest_path: STDIO.into(),
        file: lab.path("crates/cohort/guest/stdio.sh"),
        mode: 0o755,
    });
    programs.extend(kernel.modules);
    let image = rootfs::image(lab, options.rootfs.as_deref().unwrap_or(arch.rootfs))?;
    let interactive = if command.is_some() { "" } else { "lab.shell " };
    // Many may run at the same time, from scripts.
    let name = format!("shell-{}", std::process::id());
    let machine = match options.machine.unwrap_or(kernel.kind) {
        Kind::Microvm => Machine::of(arch)?,
        Kind::Pci => Machine::pci(LAB, "max"),
    };
    let spec = Spec {
        name: name.clone(),
        machine,
        kernel: &kernel.image,
        memory: options.memory.unwrap_or(machine.most_memory().min(MEMORY)),
        cpus: options.cpus,
        icount: false,
        rootfs: Some(&image),
        read_limit: None,
        cmdline: format!("{interactive}quiet {}", options.cmdline),
        init: &programs::init_for(lab, arch)?,
        programs: &programs,
        steps: match &command {
            Some(line) => vec![Step::new(STEP, options.timeout.unwrap_or(0), line)],
            None => Vec::new(),
        },
        plugin: None,
        limit: options
            .timeout
            .map_or(u64::MAX, |limit| limit.saturating_add(BOOT)),
    };
    let clean = || {
        for left in [format!("run/{name}"), own(), format!("{}.modules", own())] {
            files::remove(&lab.out(&left))?;
        }
        Ok::<_, anyhow::Error>(())
    };
    if command.is_none() {
        eprintln!("^A x or leaving the shell ends the guest; the programs are in /lab/bin");
        spec.shell(lab)?;
        clean()?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = spec.run_here(lab)?;
    let ending = outcome.report.find(STEP).map(|step| step.ending);
    if outcome.problem().is_none() {
        clean()?;
    }
    Ok(ExitCode::from(match ending {
        Some(Ending::Exit(status)) => status as u8,
        // As shells tell it.
        Some(Ending::Signal(number)) => 128 + number as u8,
        Some(Ending::Timeout) => {
            eprintln!("cohort: the command took longer than its time limit");
            EXIT_TIMEOUT
        }
        Some(Ending::Unfinished) | None => {
            let problem = outcome.problem();
            let problem = problem.unwrap_or_else(|| "the guest ended early".into());
            let needs = match (&options.kernel, ending) {
                (Some(_), None) => format!("; {NEEDS}"),
                _ => String::new(),
            };
            eprintln!("cohort: {problem}{needs}");
            EXIT_GUEST
        }
    }))
}

/// The job's only step.
const STEP: &str = "command";
/// What connects a command with the ports, in the guest.
const STDIO: &str = "/lab/stdio";

/// The guest's command line for CMD; none if there is no CMD.
fn line(command: &[String]) -> Result<Option<String>> {
    let line = match command {
        [] => return Ok(None),
        [line] => format!("{STDIO} /bin/sh -c {}", quoted(line)),
        words => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("{STDIO} {}", words.join(" "))
        }
    };
    if line.contains('\n') {
        bail!("the command has a line break: put it into a file, and give that with --copy");
    }
    Ok(Some(line))
}

/// A word that the shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn own_files(paths: &[PathBuf]) -> Result<Vec<Program>> {
    let own = |path: &PathBuf| {
        let name = path.file_name().filter(|_| path.is_file());
        let name = name.with_context(|| format!("{} is not a file to copy", path.display()))?;
        Ok(Program {
            guest_path: format!("/lab/bin/{}", name.to_string_lossy()),
            file: path.clone(),
            mode: 0o755,
        })
    };
    paths.iter().map(own).collect()
}

/// A kernel that is not the lab's.
fn own_kernel(lab: &Lab, path: &Path) -> Result<Kernel> {
    if !path.is_file() {
        bail!("there is no kernel image {}", path.display());
    }
    if path.extension().is_some_and(|end| end == "deb") {
        return packaged_kernel(lab, path);
    }
    Ok(Kernel {
        image: path.to_path_buf(),
        kind: configuration(path).map_or(Kind::Pci, |text| kind(&text)),
        modules: Vec::new(),
    })
}

/// Where a kernel's package is unpacked, below `out`.
fn own() -> String {
    format!("packages/own-{}", std::process::id())
}

fn packaged_kernel(lab: &Lab, package: &Path) -> Result<Kernel> {
    let tree = lab.out(&own());
    files::remove(&tree)?;
    files::make_dir(&tree)?;
    run_or_fail(
        Command::new("dpkg").arg("-x").arg(package).arg(&tree),
        &lab.log("packages-own"),
        &format!("{} does not unpack", package.display()),
        |_| (),
    )?;
    let boot = files::walk(&tree.join("boot"))
        .with_context(|| format!("{} has no kernel in /boot", package.display()))?;
    let config = packaged::only(&boot, "config-")?;
    Ok(Kernel {
        image: packaged::only(&boot, "vmlinuz-")?,
        kind: kind(&files::read(&config)?),
        modules: packaged::modules(&tree, &lab.out(&format!("{}.modules", own())))?,
    })
}

/// The configuration of an image: beside it, as in a kernel's tree or in /boot.
fn configuration(image: &Path) -> Option<String> {
    let dir = image.canonicalize().ok()?.parent()?.to_path_buf();
    let name = image.file_name()?.to_string_lossy();
    let (_, version) = name.split_once('-').unwrap_or(("", ""));
    [
        dir.join(format!("config-{version}")),
        dir.join(".config"),
        // arch/x86/boot/bzImage
        dir.join("../../../.config"),
    ]
    .iter()
    .find_map(|path| std::fs::read_to_string(path).ok())
}

/// The machine for a kernel of that configuration.
fn kind(config: &str) -> Kind {
    let mmio = "CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y";
    match config.lines().any(|line| line == mmio) {
        true => Kind::Microvm,
        false => Kind::Pci,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_line_and_several_are_a_program_with_arguments() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            line(&words).unwrap()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["ls | wc"]).unwrap(), "/lab/stdio /bin/sh -c 'ls | wc'");
        assert_eq!(
            of(&["echo", "it's", "a  b"]).unwrap(),
            "/lab/stdio 'echo' 'it'\\''s' 'a  b'"
        );
        assert!(line(&["a\nb".into()]).is_err());
    }

    #[test]
    fn the_machine_follows_the_configuration_beside_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            files::write(&dir.path().join(path), text.as_bytes()).unwrap();
            dir.path().join(path)
        };
        let mmio = "CONFIG_A=y\nCONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y\n";
        let image = write("tree/arch/x86/boot/bzImage", "");
        assert_eq!(configuration(&image), None);
        write("tree/.config", mmio);
        assert_eq!(
            configuration(&image).map(|text| kind(&text)),
            Some(Kind::Microvm)
        );
        let image = write("boot/vmlinuz-6.1", "");
        write("boot/config-6.1", "CONFIG_VIRTIO_PCI=m\n");
        assert_eq!(
            configuration(&image).map(|text| kind(&text)),
            Some(Kind::Pci)
        );
    }
}
