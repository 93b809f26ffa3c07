// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort run`: mark this process as a zygote, or as one whose pages may be merged, then become
//! the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The kernel has no Cohort, or cannot merge (EX_UNAVAILABLE of sysexits.h).
pub const EXIT_NO_COHORT: u8 = 69;
/// The program is there but cannot be started, as shells say it.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program is not there, as shells say it.
pub const EXIT_NOT_FOUND: u8 = 127;

const PR_SET_COHORT: libc::c_int = 0x434f_4801;
const PR_COHORT_ZYGOTE: libc::c_ulong = 1;
const PR_COHORT_KEEP_EXEC: libc::c_ulong = 2;

// Since Linux 6.4; libc has no name for it yet.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;

/// Arguments of `cohort run`.
#[derive(clap::Args)]
pub struct Args {
    /// Make the program a zygote: its children share its page tables (the default without
    /// --merge).
    #[arg(long)]
    zygote: bool,
    /// Keep the role when the program itself executes another one (the default: the
    /// program is itself started by an exec).
    #[arg(long)]
    keep_exec: bool,
    /// Let the kernel merge equal pages (KSM) of the program and its children, also after they
    /// execute other programs. Needs no Cohort in the kernel; with --zygote it does both.
    #[arg(long)]
    merge: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Sets the role and becomes the program; returns only when that failed.
pub fn main(args: &Args) -> ExitCode {
    if args.zygote || args.keep_exec || !args.merge {
        // Both flags are always set: the exec below would drop a role that is not kept.
        if let Err(error) = set_role(PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC) {
            eprintln!("cohort: {}", no_cohort(&error));
            return ExitCode::from(EXIT_NO_COHORT);
        }
        if mode(Path::new("/")).as_deref() == Some("never") {
            eprintln!(
                "cohort: sharing is switched off on this machine, so the program runs unshared; \
                 `echo optin > /sys/kernel/mm/cohort/enabled` as root switches it on"
            );
        }
    }
    if args.merge {
        if let Err(error) = set_merge() {
            eprintln!("cohort: {}", no_merging(&error));
            return ExitCode::from(EXIT_NO_COHORT);
        }
        if let Some(hint) = ksmd_idle(Path::new("/")) {
            eprintln!("cohort: {hint}");
        }
    }
    let program = &args.command[0];
    let error = Command::new(program).args(&args.command[1..]).exec();
    eprintln!(
        "cohort: cannot start {}: {}",
        Path::new(program).display(),
        plain(&error)
    );
    ExitCode::from(exit_code(&error))
}

fn set_role(flags: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: prctl with this option takes four integers and touches no memory of ours.
    if unsafe { libc::prctl(PR_SET_COHORT, flags, zero, zero, zero) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Turns merging on for this process; it is kept over fork and exec.
fn set_merge() -> io::Result<()> {
    let (on, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: prctl with this option takes four integers and touches no memory of ours.
    if unsafe { libc::prctl(PR_SET_MEMORY_MERGE, on, zero, zero, zero) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn no_merging(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel cannot merge the pages of whole programs: it is older than 6.4, or was \
         built without CONFIG_KSM"
            .into()
    } else {
        format!("the kernel refused to merge: {}", plain(error))
    }
}

/// What to do for pages to be merged at all, if ksmd has not been started.
fn ksmd_idle(root: &Path) -> Option<&'static str> {
    let run = std::fs::read_to_string(root.join("sys/kernel/mm/ksm/run")).ok()?;
    (run.trim() != "1").then_some(
        "nothing is merged on this machine, so the program runs as it would without; \
         `echo 1 > /sys/kernel/mm/ksm/run` as root starts it",
    )
}

fn no_cohort(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel has no Cohort; build one with `cohort lab build` and try the program in \
         `cohort lab shell`, or install the kernel package as README.md describes"
            .into()
    } else {
        format!(
            "the kernel refused to start a cohort: {}; see `dmesg`",
            plain(error)
        )
    }
}

/// The machine's sharing mode: the bracketed word, if the kernel has Cohort.
fn mode(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("sys/kernel/mm/cohort/enabled")).ok()?;
    let word = text.split_once('[')?.1.split_once(']')?.0;
    Some(word.to_string())
}

fn exit_code(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound {
        EXIT_NOT_FOUND
    } else {
        EXIT_NOT_EXECUTABLE
    }
}

/// An error's words without the number that Rust appends.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_the_bracketed_word() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(mode(root.path()), None);
        let dir = root.path().join("sys/kernel/mm/cohort");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("enabled"), "always optin [never]\n").unwrap();
        assert_eq!(mode(root.path()).as_deref(), Some("never"));
    }

    #[test]
    fn a_kernel_without_cohort_is_told_apart_from_a_refusal() {
        let missing = no_cohort(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(missing.contains("has no Cohort"), "{missing}");
        assert!(missing.contains("cohort lab build"), "{missing}");
        let refused = no_cohort(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(refused.contains("Operation not permitted"), "{refused}");
    }

    #[test]
    fn an_idle_ksmd_is_told_of_and_a_running_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ksmd_idle(root.path()), None);
        let dir = root.path().join("sys/kernel/mm/ksm");
        std::fs::create_dir_all(&dir).unwrap();
        for (run, told) in [("0\n", true), ("1\n", false), ("2\n", true)] {
            std::fs::write(dir.join("run"), run).unwrap();
            assert_eq!(ksmd_idle(root.path()).is_some(), told, "{run}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_merge_is_told_apart_from_a_refusal() {
        let old = no_merging(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(old.contains("older than 6.4"), "{old}");
        let refused = no_merging(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(refused.contains("Operation not permitted"), "{refused}");
    }

    #[test]
    fn failing_to_start_has_the_shells_exit_codes() {
        let gone = io::Error::from_raw_os_error(libc::ENOENT);
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(exit_code(&gone), 127);
        assert_eq!(exit_code(&denied), 126);
    }
}
