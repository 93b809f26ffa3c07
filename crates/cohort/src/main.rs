// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort`: start programs in a cohort, see what sharing would save, and the lab that builds the
//! kernel and measures it.

mod lab;
mod output;
mod run;
mod scan;
mod show;

use anyhow::bail;
use clap::{CommandFactory, Parser, Subcommand};
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
    /// Print the manual page, of a subcommand if one is named.
    Man {
        /// For instance `scan`.
        subcommand: Option<String>,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => Ok(run::main(&args)),
        Command::Scan(args) => scan::main(*args),
        Command::Lab(args) => lab::main(args),
        Command::Man { subcommand } => man(subcommand.as_deref()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cohort", &mut text);
            output::print(text).map(|()| ExitCode::SUCCESS)
        }
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

/// Prints a manual page made from the definition of the command line.
fn man(subcommand: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    // Makes the names of subcommands whole: `cohort-scan`.
    command.build();
    let command = match subcommand {
        None => command,
        Some(name) => match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => bail!("there is no subcommand {name}"),
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
