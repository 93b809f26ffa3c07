// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `cohort scan`.

use cohort_snapshot::group::By;
use regex::Regex;
use std::path::PathBuf;

/// Arguments of `cohort scan`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub show: Show,
}

/// Which processes.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Which processes")]
pub struct Select {
    /// Only these processes.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<i32>,
    /// Only these processes and all that descend from them.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub tree: Vec<i32>,
    /// Only processes of these users (name or number).
    #[arg(short, long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,
    /// Only processes whose program's path matches.
    #[arg(short, long, value_name = "REGEX")]
    pub exe: Option<Regex>,
    /// Only processes whose control group matches; a container has one of its own.
    #[arg(long, value_name = "REGEX")]
    pub cgroup: Option<Regex>,
    /// Only processes whose name or command line matches.
    #[arg(short = 'm', long = "match", value_name = "REGEX")]
    pub pattern: Option<Regex>,
}

/// How to read.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Reading")]
pub struct Reading {
    /// Read with this niceness.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=19))]
    pub nice: i32,
    /// Read at most this many pages a second.
    #[arg(long, value_name = "PAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Read with this many threads; by default one a processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Compare with the kernel's own smaps_rollup for every process.
    #[arg(long)]
    pub check: bool,
    /// Read another tree than /proc.
    #[arg(long, value_name = "DIR", hide = true)]
    pub proc: Option<PathBuf>,
}

/// What to show.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Show {
    /// What the processes of a group have in common.
    #[arg(short, long, value_enum, default_value_t = GroupBy::Tree)]
    pub by: GroupBy,
    /// Columns; `help` lists them.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// The column to sort by.
    #[arg(short, long, value_name = "NAME", default_value = "saves")]
    pub sort: String,
    /// Sort the other way round.
    #[arg(short, long)]
    pub reverse: bool,
    /// Sizes with units rather than in kB.
    #[arg(short = 'k', long)]
    pub units: bool,
    /// A row with the totals.
    #[arg(short, long)]
    pub totals: bool,
    /// At most this many rows.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Everything as JSON, with a schema_version.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Another form.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// See [`By`].
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupBy {
    /// All processes together.
    Machine,
    /// Forked from one another without an exec.
    Tree,
    /// Control group or container.
    Cgroup,
    /// User.
    User,
    /// Program.
    Exe,
    /// Each process alone.
    Process,
}

impl From<GroupBy> for By {
    fn from(by: GroupBy) -> By {
        match by {
            GroupBy::Machine => By::Machine,
            GroupBy::Tree => By::Tree,
            GroupBy::Cgroup => By::Cgroup,
            GroupBy::User => By::User,
            GroupBy::Exe => By::Exe,
            GroupBy::Process => By::Process,
        }
    }
}

/// A form of output.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Tables for people.
    Table,
    /// One object.
    Json,
}
