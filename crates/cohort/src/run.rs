// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort run`: mark this process as a zygote, then become the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The kernel has no Cohort (EX_UNAVAILABLE of sysexits.h).
pub const EXIT_NO_COHORT: u8 = 69;
/// The program is there but cannot be started, as shells say it.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program is not there, as shells say it.
pub const EXIT_NOT_FOUND: u8 = 127;

const PR_SET_COHORT: libc::c_int = 0x434f_4801;
const PR_COHORT_ZYGOTE: libc::c_ulong = 1;
const PR_COHORT_KEEP_EXEC: libc::c_ulong = 2;

/// Arguments of `cohort run`.
#[derive(clap::Args)]
pub struct Args {
    /// Make the program a zygote: its children share its page tables (the default).
    #[arg(long)]
    zygote: bool,
    /// Keep the role when the program itself executes another one (the default: the
    /// program is itself started by an exec).
    #[arg(long)]
    keep_exec: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Sets the role and becomes the program; returns only when that failed.
pub fn main(args: &Args) -> ExitCode {
    // Both flags are always set: the exec below would drop a role that is not kept.
    let _ = (args.zygote, args.keep_exec);
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
    fn failing_to_start_has_the_shells_exit_codes() {
        let gone = io::Error::from_raw_os_error(libc::ENOENT);
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(exit_code(&gone), 127);
        assert_eq!(exit_code(&denied), 126);
    }
}
