// SPDX-License-Identifier: GPL-2.0-or-later
//! Architectures as data: what the lab needs to build and boot guests of each.
//!
//! A new architecture is a row of [`ALL`], a file in `kernel/config` if the lab builds kernels for
//! it, and a file of the plugin that names its registers.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine that QEMU emulates.
#[derive(Debug)]
pub struct Board {
    /// QEMU's `-M`, without a memory backend.
    pub machine: &'static str,
    /// QEMU's `-cpu`; a guest may name another.
    pub cpu: &'static str,
    /// Physical address of its memory, if that is not where the plugin's architecture has it.
    pub ram: Option<u64>,
    /// The last part of the names of virtio devices: `device` without PCI, else `pci`.
    pub bus: &'static str,
    /// The kernel's command line: console, reboot and panic.
    pub cmdline: &'static str,
    /// The guest's clock is the host's time stamp counter; the command line gives its rate.
    pub host_tsc: bool,
    /// The most memory that it takes, in MB; None if that is more than a guest is given.
    pub most_memory: Option<u64>,
}

/// Parameters of the kernel's build.
#[derive(Debug)]
pub struct KernelBuild {
    /// `ARCH=` of the kernel's `make`.
    pub make: &'static str,
    /// `CROSS_COMPILE=`; empty on a machine of the same architecture.
    pub cross: &'static str,
    /// The target of `make` that builds the image.
    pub target: &'static str,
    /// The image that QEMU boots, below the build's directory.
    pub image: &'static str,
    /// The device tree that QEMU is given, beside the image; None if the machine makes its own.
    pub tree: Option<&'static str>,
    /// The fragments of `kernel/config`; the later ones may unset what the others set.
    pub config: &'static [&'static str],
    /// What QEMU boots instead of a changed kernel whose image is not vmlinux.
    pub raw: Option<Raw>,
}

/// A kernel's code as it is in memory.
#[derive(Debug)]
pub struct Raw {
    /// Below the build's directory.
    pub image: &'static str,
    /// Bytes to put before it, and the instruction that jumps over them.
    pub lead: Option<(usize, u32)>,
}

#[derive(Debug)]
pub struct Facts {
    /// What the lab calls it.
    pub name: &'static str,
    /// What Debian calls it.
    pub debian: &'static str,
    /// The emulator's program.
    pub qemu: &'static str,
    /// The Debian package of the emulator.
    pub qemu_package: &'static str,
    /// The C compiler for guest programs.
    pub gcc: &'static str,
    /// Its options there.
    pub cflags: &'static [&'static str],
    /// Other packages that its guests need: name and reason.
    pub packages: &'static [(&'static str, &'static str)],
    /// The fuzzer runs on it: it needs pages of 4 KB.
    pub fuzzes: bool,
    /// The plugin knows the format of its page tables.
    pub walked: bool,
    /// The root file system of its guests when they run the kernel's selftests: a recipe.
    pub rootfs: &'static str,
    /// The one of its guests when they run the kernel's own tests, or under load. For another
    /// architecture than the lab's it also has the libraries that the tests are linked with, in
    /// `/static`.
    pub rootfs_tests: &'static str,
    /// The Rust target of `cohort` in its guests; None for this machine's own.
    pub rust: Option<&'static str>,
    /// Words to add to the kernel's command line under `-icount`.
    pub icount: &'static str,
    /// The smallest machine, for the lab's own kernels; they are configured for it.
    pub lab: Option<Board>,
    /// None if the lab builds no kernel for it.
    pub kernel: Option<KernelBuild>,
    /// A machine with PCI, for Debian's own kernels.
    pub pci: Board,
}

/// A row of [`ALL`].
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arch(&'static Facts);

/// The architecture of the lab's kernels.
pub const LAB: Arch = Arch(&ALL[0]);

const ARM64_BOARD: Board = Board {
    // With memory for tags.
    machine: "virt,mte=on",
    // The architecture's own pointer authentication is slow under emulation.
    cpu: "max,pauth-impdef=on",
    ram: None,
    bus: "device",
    cmdline: "console=ttyAMA0 panic=-1 panic_on_warn=1 oops=panic random.trust_cpu=on",
    host_tsc: false,
    most_memory: None,
};

/// No accessed or dirty bit in hardware, no invalidation of ranges, no tags.
const ARM64_A72: Board = Board {
    machine: "virt",
    cpu: "cortex-a72,cntfrq=1000000000",
    ..ARM64_BOARD
};

const ARM64_KERNEL: KernelBuild = KernelBuild {
    make: "arm64",
    cross: "aarch64-linux-gnu-",
    target: "Image",
    image: "arch/arm64/boot/Image",
    tree: None,
    config: &["arm64"],
    raw: Some(Raw {
        image: "arch/arm64/boot/Image",
        lead: None,
    }),
};

/// Pages of 4 KB and addresses of 48 bits.
const ARM64: Facts = Facts {
    name: "arm64",
    debian: "arm64",
    qemu: "qemu-system-aarch64",
    qemu_package: "qemu-system-arm",
    gcc: "aarch64-linux-gnu-gcc",
    cflags: &[],
    packages: &[
        (
            "gcc-aarch64-linux-gnu",
            "compiles the guest's init and links cohort for arm64",
        ),
        (
            "libc6-dev-arm64-cross",
            "the guest's init and cohort are linked with it",
        ),
    ],
    fuzzes: true,
    walked: true,
    rootfs: "python-arm64",
    rootfs_tests: "kernel-tests-arm64",
    rust: Some("aarch64-unknown-linux-gnu"),
    icount: "",
    lab: Some(ARM64_BOARD),
    kernel: Some(ARM64_KERNEL),
    pci: Board {
        machine: "virt",
        cpu: "max",
        ram: None,
        bus: "pci",
        cmdline: "console=ttyAMA0 panic=-1 oops=panic random.trust_cpu=on",
        host_tsc: false,
        most_memory: None,
    },
};

const ARMV7_BOARD: Board = Board {
    // A kernel with short descriptors reaches addresses of 32 bits.
    machine: "virt,highmem=off",
    // One tick of its timer is one nanosecond, and under `-icount` one instruction.
    cpu: "cortex-a15,cntfrq=1000000000",
    ram: None,
    bus: "device",
    cmdline: "console=ttyAMA0 panic=-1 panic_on_warn=1 oops=panic random.trust_cpu=on",
    host_tsc: false,
    most_memory: None,
};

const ARMV7_KERNEL: KernelBuild = KernelBuild {
    make: "arm",
    cross: "arm-linux-gnueabihf-",
    target: "zImage",
    image: "arch/arm/boot/zImage",
    tree: None,
    config: &["armv7"],
    raw: Some(Raw {
        image: "arch/arm/boot/Image",
        // QEMU loads it 64 KB behind the begin of memory; it runs 32 KB behind a multiple of 2 MB.
        // b .+0x1f8000
        lead: Some((0x1f_8000, 0xea07_dffe)),
    }),
};

/// Short descriptors: tables of two levels.
const ARMV7: Facts = Facts {
    name: "armv7",
    debian: "armhf",
    qemu: "qemu-system-arm",
    qemu_package: "qemu-system-arm",
    gcc: "arm-linux-gnueabihf-gcc",
    // A mark is an instruction of ARM, not of Thumb.
    cflags: &["-marm"],
    packages: &[
        (
            "gcc-arm-linux-gnueabihf",
            "compiles the kernel and the guest's programs for armv7",
        ),
        (
            "libc6-dev-armhf-cross",
            "the guest's programs for armv7 are linked with it",
        ),
    ],
    fuzzes: true,
    walked: true,
    rootfs: "tools-armv7",
    rootfs_tests: "kernel-tests-armv7",
    rust: Some("armv7-unknown-linux-gnueabihf"),
    icount: "",
    lab: Some(ARMV7_BOARD),
    kernel: Some(ARMV7_KERNEL),
    pci: Board {
        machine: "virt,highmem=off",
        cpu: "cortex-a15",
        ram: None,
        bus: "pci",
        cmdline: "console=ttyAMA0 panic=-1 oops=panic random.trust_cpu=on",
        host_tsc: false,
        most_memory: None,
    },
};

/// Every architecture; the first is that of the machine that the lab runs on. Rows that differ in
/// the kernel's configuration alone are named like the architecture, with what differs behind it.
pub static ALL: &[Facts] = &[
    Facts {
        name: "amd64",
        debian: "amd64",
        qemu: "qemu-system-x86_64",
        qemu_package: "qemu-system-x86",
        gcc: "gcc",
        cflags: &[],
        packages: &[],
        fuzzes: true,
        walked: true,
        rootfs: "base",
        rootfs_tests: "base",
        rust: None,
        // One TSC tick is one instruction and one nanosecond. Do not calibrate the local APIC's
        // timer: that would spin for 200 million instructions.
        icount: "tsc_early_khz=1000000 nolapic_timer",
        lab: Some(Board {
            machine: "microvm,acpi=off,rtc=on,isa-serial=on",
            cpu: "max",
            ram: None,
            bus: "device",
            cmdline: "console=ttyS0 reboot=t panic=-1 panic_on_warn=1 oops=panic \
                      random.trust_cpu=on tsc=reliable no_timer_check",
            host_tsc: true,
            most_memory: None,
        }),
        kernel: Some(KernelBuild {
            make: "x86_64",
            cross: "",
            target: "vmlinux",
            image: "vmlinux",
            tree: None,
            config: &["x86_64"],
            raw: None,
        }),
        pci: Board {
            machine: "q35",
            cpu: "max",
            ram: None,
            bus: "pci",
            cmdline: "console=ttyS0 reboot=t panic=-1 oops=panic random.trust_cpu=on",
            host_tsc: false,
            most_memory: None,
        },
    },
    ARM64,
    Facts {
        name: "arm64-a72",
        lab: Some(ARM64_A72),
        ..ARM64
    },
    Facts {
        name: "arm64-39",
        lab: Some(ARM64_A72),
        kernel: Some(KernelBuild {
            config: &["arm64", "arm64-39"],
            ..ARM64_KERNEL
        }),
        ..ARM64
    },
    Facts {
        name: "arm64-16k",
        fuzzes: false,
        walked: false,
        kernel: Some(KernelBuild {
            config: &["arm64", "arm64-16k"],
            ..ARM64_KERNEL
        }),
        ..ARM64
    },
    ARMV7,
    Facts {
        name: "armv7-nopan",
        kernel: Some(KernelBuild {
            config: &["armv7", "armv7-nopan"],
            ..ARMV7_KERNEL
        }),
        ..ARMV7
    },
    Facts {
        name: "armv7-a9",
        lab: Some(Board {
            machine: "vexpress-a9",
            cpu: "cortex-a9",
            // hw/arm/vexpress.c
            ram: Some(0x6000_0000),
            most_memory: Some(1_024),
            ..ARMV7_BOARD
        }),
        kernel: Some(KernelBuild {
            tree: Some("dts/arm/vexpress-v2p-ca9.dtb"),
            config: &["armv7", "armv7-a9"],
            ..ARMV7_KERNEL
        }),
        ..ARMV7
    },
    Facts {
        name: "armv7-lpae",
        walked: false,
        lab: Some(Board {
            machine: "virt",
            ..ARMV7_BOARD
        }),
        kernel: Some(KernelBuild {
            config: &["armv7", "armv7-lpae"],
            ..ARMV7_KERNEL
        }),
        ..ARMV7
    },
];

impl std::ops::Deref for Arch {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        self.0
    }
}

impl PartialEq for Arch {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Arch {}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What the kernel, QEMU or Debian call an architecture of another name here.
const ALSO: &[(&str, &str)] = &[
    ("x86_64", "amd64"),
    ("aarch64", "arm64"),
    ("armhf", "armv7"),
];

impl std::str::FromStr for Arch {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let also = ALSO.iter().find(|(other, _)| *other == name);
        let name = also.map_or(name, |(_, name)| name);
        match Arch::all().find(|arch| arch.name == name) {
            Some(arch) => Ok(arch),
            None => bail!("unknown architecture {name}; known are: {}", names()),
        }
    }
}

impl TryFrom<String> for Arch {
    type Error = anyhow::Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<Arch> for String {
    fn from(arch: Arch) -> String {
        arch.name.into()
    }
}

fn names() -> String {
    let names: Vec<_> = Arch::all().map(|arch| arch.name).collect();
    names.join(", ")
}

impl Arch {
    pub fn all() -> impl Iterator<Item = Arch> {
        ALL.iter().map(Arch)
    }

    /// The machine for Debian's own kernels.
    pub fn board(self) -> &'static Board {
        &self.0.pci
    }

    pub fn facts(self) -> &'static Facts {
        self.0
    }

    /// How its kernels are built.
    pub fn build(self) -> Result<&'static KernelBuild> {
        match &self.0.kernel {
            Some(build) => Ok(build),
            None => bail!("the lab builds no kernel for {self}"),
        }
    }

    /// Its directory in the kernel's source, below `arch`.
    pub fn source(self) -> &'static str {
        match &self.0.kernel {
            // The kernel's build takes both words of x86 for one directory.
            Some(build) if build.make == "x86_64" => "x86",
            Some(build) => build.make,
            None => self.0.name,
        }
    }

    /// The name of results about it: `NAME` for the lab's own architecture, else `NAME-ARCH`.
    pub fn results(self, name: &str) -> String {
        if self == LAB {
            name.into()
        } else {
            format!("{name}-{self}")
        }
    }

    /// The prefix of the names of its files: empty for the lab's own architecture, else `NAME-`.
    pub fn mark(self) -> String {
        if self == LAB {
            String::new()
        } else {
            format!("{}-", self.name)
        }
    }

    /// The directory in `out` for what is built for it: `guest` for the lab's own architecture,
    /// else `guest/NAME`.
    pub fn dir(self) -> String {
        if self == LAB {
            "guest".into()
        } else {
            format!("guest/{}", self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_is_found_by_its_name_and_another_is_refused() {
        for facts in ALL {
            assert_eq!(facts.name.parse::<Arch>().unwrap().name, facts.name);
        }
        for (other, name) in ALSO {
            assert_eq!(other.parse::<Arch>().unwrap().name, *name);
        }
        let error = "m68k".parse::<Arch>().unwrap_err().to_string();
        assert!(error.contains("m68k") && error.contains("amd64"), "{error}");
    }

    #[test]
    fn the_labs_architecture_has_a_machine_and_a_kernel() {
        assert!(LAB.lab.is_some() && LAB.kernel.is_some());
        assert_eq!(LAB.dir(), "guest");
        assert_eq!(LAB.results("soak"), "soak");
        let other: Arch = "armv7".parse().unwrap();
        assert_eq!(other.results("soak"), "soak-armv7");
    }

    #[test]
    fn no_file_but_this_table_names_an_architecture_in_a_match() {
        let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lab");
        for file in crate::lab::host::files::walk(&src).unwrap() {
            let text = std::fs::read_to_string(&file).unwrap();
            for facts in ALL {
                let arm = format!("\"{}\" =>", facts.name);
                assert!(!text.contains(&arm), "{} has {arm}", file.display());
            }
        }
    }
}
