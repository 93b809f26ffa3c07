// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `cohort scan`.

use cohort_snapshot::count::group::By;
use regex::Regex;
use std::path::PathBuf;

/// Arguments of `cohort scan`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub looking: Looking,
    #[command(flatten)]
    pub show: Show,
}

/// What else there is to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Write what a scan reads into one compressed file, to be analysed anywhere.
    ///
    /// It holds names, command lines and mapped paths of processes, and no content of memory.
    Capture(Box<CaptureArgs>),
    /// Show what changed between two captures.
    Diff {
        /// The older one.
        before: PathBuf,
        /// The newer one.
        after: PathBuf,
        /// What the processes of a group have in common.
        #[arg(short, long, value_enum, default_value_t = GroupBy::Tree)]
        by: GroupBy,
        /// At most this many groups.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        rows: usize,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure a fork; the scan runs this to have a process of its own.
    #[command(hide = true)]
    ForkTime(super::fork_time::Args),
    /// Measure the scan itself on processes that it makes.
    Benchmark(super::benchmark::Args),
}

/// Arguments of `cohort scan capture`.
#[derive(clap::Args)]
pub struct CaptureArgs {
    /// The file, or `-` for the standard output; show it with `cohort scan --from FILE`.
    pub file: PathBuf,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub reading: Reading,
}

/// What to look at, and how often.
#[derive(clap::Args)]
#[command(next_help_heading = "Looking")]
pub struct Looking {
    /// Analyse a capture instead of this machine; `-` is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mapping", "interval", "samples", "content", "rounds", "gap", "check", "watch", "count", "nice", "rate"])]
    pub from: Option<PathBuf>,
    /// Find pages that are equal in content; reads all anonymous memory of the processes.
    #[arg(long)]
    pub content: bool,
    /// Look at contents this many times, to see whether equal pages stay so.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "content",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds between those.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, requires = "content", value_parser = seconds)]
    pub gap: f64,
    /// Predict what processes that were not forked from one another would save if they joined each
    /// other's page tables; groups by program unless --by is given.
    #[arg(long)]
    pub joins: bool,
    /// With --joins: a library that is only read in so many KB has its first written page at the
    /// beginning of a table, where the group gives libraries their places.
    #[arg(long, value_name = "KB", default_value_t = 1024, requires = "joins",
        value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub boundary: u64,
    /// Scan again every so many seconds, until ^C. JSON then has one object per line; the forms
    /// html and openmetrics, which are of one scan, are not taken.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<f64>,
    /// Stop after this many scans.
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
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
    /// Only what these processes map of files whose path matches; `[heap]`, `[stack]` and the like
    /// are paths as well.
    #[arg(long, value_name = "REGEX")]
    pub mapping: Option<Regex>,
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
    /// Watch for this many seconds which pages are used; clears accessed bits.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<f64>,
    /// Sample the processors for this many seconds, to see which code runs.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub samples: Option<f64>,
    /// Compare with the kernel's own smaps_rollup for every process.
    #[arg(long)]
    pub check: bool,
    /// Shows no progress, as something else is on the screen.
    #[arg(skip)]
    pub quiet: bool,
    /// Read another tree than /proc.
    #[arg(long, value_name = "DIR", hide = true)]
    pub proc: Option<PathBuf>,
}

/// What to show.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Show {
    /// What the processes of a group have in common.
    #[arg(short, long, value_enum, default_value_t = GroupBy::Tree,
        default_value_if("joins", clap::builder::ArgPredicate::Equals("true".into()), "exe"))]
    pub by: GroupBy,
    /// Everything about all processes that were scanned: entries, page tables, code, larger pages.
    #[arg(short, long)]
    pub details: bool,
    /// Columns; `help` lists them.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = shown)]
    pub columns: Vec<String>,
    /// The column to sort by.
    #[arg(short, long, value_name = "NAME", default_value = "saves", value_parser = sorted)]
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
    /// A line a group, with a heading; all columns unless -c names some, sizes in bytes.
    Csv,
    /// For Prometheus.
    Openmetrics,
    /// A page with plots that needs no other file.
    Html,
}

impl Default for Show {
    fn default() -> Self {
        Show {
            by: GroupBy::Tree,
            details: false,
            columns: Vec::new(),
            sort: "saves".into(),
            reverse: false,
            units: false,
            totals: false,
            rows: 20,
            json: false,
            output: Output::Table,
        }
    }
}

/// A column, or the question which there are.
fn shown(name: &str) -> Result<String, String> {
    if name == "help" {
        return Ok(name.into());
    }
    sorted(name)
}

/// A column.
fn sorted(name: &str) -> Result<String, String> {
    match super::section::place(name) {
        Ok(_) => Ok(name.into()),
        Err(_) => Err("there is no such column; `-c help` lists them".into()),
    }
}

/// A time that makes sense: a positive number, at most a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("give a number of seconds above 0 and up to 86400".into()),
    }
}
