// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort`: start programs in a cohort, see what sharing would save, and the lab that builds the
//! kernel and measures it.

mod lab;
mod run;
mod scan;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Shared address translation for Linux.
#[derive(Parser)]
#[command(name = "cohort", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a program whose processes share address translations.
    Run(run::Args),
    /// See what sharing address translations would save on this machine.
    Scan(Box<scan::Args>),
    /// Build the kernel, boot it under QEMU, run the tests and the experiments.
    Lab(lab::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => Ok(run::main(&args)),
        Command::Scan(args) => scan::main(*args),
        Command::Lab(args) => lab::main(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let full = error
                .chain()
                .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
                .any(|cause| cause.raw_os_error() == Some(libc::ENOSPC));
            let cure = if full {
                "; free some disk space and run the same command again, it goes on where it stopped"
            } else {
                ""
            };
            eprintln!("cohort: {error:#}{cure}");
            ExitCode::FAILURE
        }
    }
}
