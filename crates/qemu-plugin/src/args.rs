// SPDX-License-Identifier: GPL-2.0-or-later
//! The plugin's arguments, as `-plugin FILE,NAME=VALUE,…` gives them.

use anyhow::{Result, bail};
use std::path::PathBuf;

/// The user's options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Args {
    /// The file of the guest's memory, or the directory in which QEMU makes it.
    pub ram: String,
    /// Physical address of the memory's first byte; None: as on the architecture's usual machine.
    pub base: Option<u64>,
    /// The model: a built-in name or a TOML file. Without one, accesses are only counted.
    pub model: Option<String>,
    /// A file with other readings of the model, which bound its figures: they count beside it.
    pub readings: Option<PathBuf>,
    /// Where the counters go, as JSON.
    pub out: Option<PathBuf>,
    /// The kernel's `vmlinux`, for names of processes and page faults.
    pub kernel: Option<PathBuf>,
    /// Record a trace here.
    pub record: Option<PathBuf>,
    /// Profile the kernel's functions into this file, and do nothing else.
    pub profile: Option<PathBuf>,
    /// The content of the trace, in words.
    pub about: String,
    /// Compare every translation with QEMU's.
    pub check: bool,
    /// Audit the guest's TLB flushes.
    pub audit: bool,
    /// Follow the guest from its first instruction on, not from the first mark on.
    pub whole: bool,
}

impl Args {
    /// Reads arguments of the form NAME=VALUE.
    pub fn parse<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut parsed = Args::default();
        for arg in args {
            let Some((name, value)) = arg.split_once('=') else {
                bail!("the argument `{arg}` is not NAME=VALUE");
            };
            let switch = || match value {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => bail!("`{name}` must be on or off, not `{value}`"),
            };
            match name {
                "ram" => parsed.ram = value.to_string(),
                "base" => parsed.base = Some(address(value)?),
                "model" => parsed.model = Some(value.to_string()),
                "readings" => parsed.readings = Some(value.into()),
                "out" => parsed.out = Some(value.into()),
                "kernel" => parsed.kernel = Some(value.into()),
                "record" => parsed.record = Some(value.into()),
                "profile" => parsed.profile = Some(value.into()),
                "about" => parsed.about = value.to_string(),
                "check" => parsed.check = switch()?,
                "audit" => parsed.audit = switch()?,
                "whole" => parsed.whole = switch()?,
                _ => bail!(
                    "unknown argument `{name}`; the arguments are ram, base, model, readings, out, \
                     kernel, record, profile, about, check, audit and whole"
                ),
            }
        }
        if parsed.ram.is_empty() {
            bail!("`ram=FILE` is missing: the file of the guest's memory");
        }
        if parsed.profile.is_some() && parsed.kernel.is_none() {
            bail!("`profile` needs `kernel=VMLINUX`, which has the functions' names");
        }
        if parsed.audit && parsed.kernel.is_none() {
            bail!("`audit` needs `kernel=VMLINUX`, to know which task runs");
        }
        if parsed.readings.is_some() && parsed.model.is_none() {
            bail!("`readings` needs `model`, whose readings they are");
        }
        let others = parsed.model.is_some() || parsed.record.is_some() || parsed.audit;
        if parsed.profile.is_some() && others {
            bail!("`profile` excludes `model`, `record` and `audit`");
        }
        Ok(parsed)
    }
}

/// Reads the address of a page, written in hexadecimal.
fn address(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x");
    match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(address) if address & 0xfff == 0 => Ok(address),
        _ => bail!("`base` must be the address of a page, such as 0x40000000, not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let args = Args::parse(["ram=/dev/shm/a=b", "model=baseline", "check=on"]).unwrap();
        assert_eq!(args.ram, "/dev/shm/a=b");
        assert_eq!(args.model.as_deref(), Some("baseline"));
        assert!(args.check && !args.whole && args.out.is_none());
        assert_eq!(args.base, None);
        let args = Args::parse(["ram=x", "base=0x60000000"]).unwrap();
        assert_eq!(args.base, Some(0x6000_0000));
        // QEMU has already replaced each doubled comma with one.
        let about = "x, stock, Linux 6.12.1 (bench, change a=b)";
        let args = Args::parse(["ram=x", &format!("about={about}")]).unwrap();
        assert_eq!(args.about, about);
    }

    #[test]
    fn a_mistake_is_named() {
        for (args, word) in [
            (vec!["ram=x", "modell=y"], "`modell`"),
            (vec!["ram=x", "check=yes"], "`yes`"),
            (vec!["ram=x", "check"], "NAME=VALUE"),
            (vec!["ram=x", "base=60000000"], "`60000000`"),
            (vec!["ram=x", "base=0x60000100"], "address of a page"),
            (vec!["check=on"], "`ram=FILE`"),
            (vec!["ram=x", "readings=r"], "needs `model`"),
            (vec!["ram=x", "profile=p"], "`kernel=VMLINUX`"),
            (vec!["ram=x", "audit=on"], "`kernel=VMLINUX`"),
            (
                vec!["ram=x", "kernel=k", "model=m", "profile=p"],
                "excludes",
            ),
            (
                vec!["ram=x", "kernel=k", "audit=on", "profile=p"],
                "excludes",
            ),
        ] {
            let error = Args::parse(args).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
