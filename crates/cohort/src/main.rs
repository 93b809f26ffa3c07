// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort`: start programs in a cohort, see what sharing would save, and the lab that builds the
//! kernel and measures it.

// eprintln! panics where the standard error cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

// The lab's messages are for somebody who waits for it.
#[allow(clippy::print_stderr)]
mod lab;
mod manual;
mod model;
mod output;
mod run;
mod scan;
mod show;
mod top;
mod variation;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use output::note;
use std::io::Write;
use std::path::PathBuf;
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
    /// Show live what processes share, on a machine with Cohort's kernel.
    Top(top::Args),
    /// Build the kernel, boot it under QEMU, run the tests and the experiments.
    Lab(lab::Args),
    /// Show what the translation model's descriptions say, and where they have it from.
    Model(model::Args),
    /// Print the manual page, of a subcommand if one is named.
    Man {
        /// For instance `lab build`.
        subcommand: Vec<String>,
        /// Write the pages of all commands into this directory.
        #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
        dir: Option<PathBuf>,
    },
    /// Print completions for a shell.
    ///
    /// The shell asks this program for the names that there are, experiments among them.
    Completions {
        /// The shell.
        #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
        shell: String,
    },
}

/// The variable by which a shell's script asks for completions, and which nobody else sets.
const COMPLETE: &str = "_COHORT_COMPLETE";

fn main() -> ExitCode {
    CompleteEnv::with_factory(Cli::command)
        .var(COMPLETE)
        .complete();
    let (outcome, resumes) = match Cli::try_parse() {
        Ok(Cli { command }) => {
            let resumes = matches!(command, Command::Lab(_));
            (start(command), resumes)
        }
        Err(said) => (say_so(&said), false),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let full = error
                .chain()
                .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
                .any(|cause| cause.raw_os_error() == Some(libc::ENOSPC));
            let cure = if full && resumes {
                "; free some disk space and run the same command again, it goes on where it stopped"
            } else {
                ""
            };
            note!("cohort: {error:#}{cure}");
            ExitCode::FAILURE
        }
    }
}

fn start(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => Ok(run::main(&args)),
        Command::Scan(args) => scan::main(*args),
        Command::Top(args) => top::main(&args),
        Command::Lab(args) => lab::main(args),
        Command::Model(args) => model::main(&args).map(|()| ExitCode::SUCCESS),
        Command::Man { dir: Some(dir), .. } => {
            manual::pages(Cli::command(), &dir).map(|()| ExitCode::SUCCESS)
        }
        Command::Man { subcommand, .. } => manual::page(Cli::command(), &subcommand)
            .and_then(output::print)
            .map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => completions(&shell),
    }
}

/// Prints the help that was asked for, or what is wrong with the command line.
fn say_so(said: &clap::Error) -> anyhow::Result<ExitCode> {
    if said.use_stderr() {
        let _ = said.print();
    } else {
        let mut output = output::open()?;
        output::read_on(said.print().and_then(|()| output.flush()))?;
    }
    Ok(ExitCode::from(said.exit_code() as u8))
}

/// Prints the script that has a shell ask this program, which it finds by its name.
fn completions(shell: &str) -> anyhow::Result<ExitCode> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell).expect("clap takes no other shell");
    let mut text = Vec::new();
    shell.write_registration(COMPLETE, "cohort", "cohort", "cohort", &mut text)?;
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
