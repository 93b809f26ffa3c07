// SPDX-License-Identifier: GPL-2.0-or-later
//! A snapshot in one compressed file, to be examined on another machine.
//!
//! A line with the format's number, then gzip of the model in postcard's encoding. A capture may
//! come from anywhere: all that the rest of this crate relies on is checked when it is read.

use crate::model::activity::Activity;
use crate::model::parents::parents;
use crate::model::process::Skipped;
use crate::model::region::Backing;
use crate::model::stats::TableStats;
use crate::model::store::{Store, TableId};
use crate::model::word::Word;
use crate::model::{Frames, Process, Sampling, Snapshot};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use thiserror::Error;

/// The first line of a capture; the number changes with the format.
pub const MAGIC: &[u8] = b"COHORT-SCAN 4\n";
/// Larger numbers than these are not addresses, counts or bytes of any machine; sums of as many as
/// fit into memory do not overflow.
const LIMIT: u64 = 1 << 44;
/// The most that a capture may unfold to, as a multiple of its own size: deflate's limit.
const UNFOLD: u64 = 1100;

/// Why a capture cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("cannot {what} {path}")]
    Io {
        /// The failed act, as a verb.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// It is none, or another version's.
    #[error(
        "{path} is not a capture of this version of cohort scan (its first line should be COHORT-SCAN 4)"
    )]
    Magic {
        /// The file.
        path: String,
    },
    /// It is damaged.
    #[error("{path} is damaged: {why}; take the capture again")]
    Damaged {
        /// The file.
        path: String,
        /// The mistake in it.
        why: String,
    },
}

/// A snapshot without anything that only this program's memory gives a meaning.
#[derive(Serialize, Deserialize)]
struct Body {
    time: u64,
    host: String,
    kernel: String,
    machine: String,
    page: u64,
    memory: Option<u64>,
    frames: Frames,
    duration: f64,
    interval: f64,
    activity: Option<Activity>,
    sampling: Option<Sampling>,
    files: Vec<Backing>,
    processes: Vec<Process>,
    /// Place of each table, its words as differences, and what it holds.
    tables: Vec<(u64, Vec<u64>, TableStats)>,
    skipped: Vec<Skipped>,
    left_out: Vec<(i32, i32)>,
    regions_left_out: bool,
    zero: Option<u64>,
    huge_by_sum: u32,
}

/// Writes `snapshot` to a stream.
pub fn write_to(snapshot: &Snapshot, mut output: impl Write) -> io::Result<()> {
    output.write_all(MAGIC)?;
    let mut packed = GzEncoder::new(output, Compression::fast());
    let bytes = postcard::to_stdvec(&body(snapshot)).map_err(io::Error::other)?;
    packed.write_all(&bytes)?;
    packed.finish()?.flush()
}

/// Writes `snapshot` to `path`, which appears whole or not at all, and which only this user may
/// read. The file that a link leads to is replaced, and not the link.
pub fn save(snapshot: &Snapshot, path: &Path) -> Result<(), Error> {
    let fail = |source| Error::Io {
        what: "write",
        path: path.display().to_string(),
        source,
    };
    // A device would be replaced by the file that takes its name.
    if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(fail(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is there, and is not a plain file",
        )));
    }
    replace(snapshot, path).map_err(fail)
}

fn replace(snapshot: &Snapshot, path: &Path) -> io::Result<()> {
    let target = match path.is_symlink() {
        true => path.canonicalize()?,
        false => path.to_path_buf(),
    };
    let dir = match target.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    // Of a name that nobody can have taken beforehand.
    let part = tempfile::NamedTempFile::new_in(dir)?;
    write_to(snapshot, io::BufWriter::new(part.as_file()))?;
    part.as_file().sync_all()?;
    part.persist(target)?;
    Ok(())
}

fn body(snapshot: &Snapshot) -> Body {
    // Only tables that a process still has: those of doubles may have been left out.
    let mut order: Vec<TableId> = snapshot
        .processes
        .iter()
        .flat_map(|process| process.tables.iter().map(|table| table.id))
        .collect();
    order.sort_unstable_by_key(|&id| (snapshot.tables.index(id), id));
    order.dedup();
    let mut places = vec![0; snapshot.tables.bound()];
    for (place, &id) in order.iter().enumerate() {
        places[id as usize] = place as TableId;
    }
    let mut processes = snapshot.processes.clone();
    for table in processes.iter_mut().flat_map(|process| &mut process.tables) {
        table.id = places[table.id as usize];
    }
    Body {
        time: snapshot.time,
        host: snapshot.host.clone(),
        kernel: snapshot.kernel.clone(),
        machine: snapshot.machine.clone(),
        page: snapshot.page,
        memory: snapshot.memory,
        frames: snapshot.frames,
        duration: snapshot.duration,
        interval: snapshot.interval,
        activity: snapshot.activity.clone(),
        sampling: snapshot.sampling.clone(),
        files: snapshot.files.clone(),
        processes,
        tables: order
            .into_iter()
            .map(|id| {
                let mut before = 0;
                let words = snapshot.tables.words(id).iter().map(|word| {
                    let difference = word.0.wrapping_sub(before);
                    before = word.0;
                    difference
                });
                (
                    snapshot.tables.index(id),
                    words.collect(),
                    *snapshot.stats(id),
                )
            })
            .collect(),
        skipped: snapshot.skipped.clone(),
        left_out: snapshot.left_out.clone(),
        regions_left_out: snapshot.regions_left_out,
        zero: snapshot.zero,
        huge_by_sum: snapshot.huge_by_sum,
    }
}

/// Reads a capture from a file.
pub fn load(path: &Path) -> Result<Snapshot, Error> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => read_from(file, &name),
        Err(source) => Err(Error::Io {
            what: "read",
            path: name,
            source,
        }),
    }
}

/// Reads a capture from a stream, which errors call `name`.
pub fn read_from(mut input: impl Read, name: &str) -> Result<Snapshot, Error> {
    let fail = |source| Error::Io {
        what: "read",
        path: name.into(),
        source,
    };
    let damaged = |why: String| Error::Damaged {
        path: name.into(),
        why,
    };
    // What is none is refused before the rest of it is waited for.
    let mut magic = [0; MAGIC.len()];
    match input.read_exact(&mut magic) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(fail(error)),
        Ok(()) if magic == MAGIC => {}
        _ => return Err(Error::Magic { path: name.into() }),
    }
    let mut packed = Vec::new();
    input.read_to_end(&mut packed).map_err(fail)?;
    let mut bytes = Vec::new();
    GzDecoder::new(packed.as_slice())
        .take((packed.len() as u64).saturating_mul(UNFOLD))
        .read_to_end(&mut bytes)
        .map_err(|error| damaged(error.to_string()))?;
    drop(packed);
    let body: Body = postcard::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
    drop(bytes);
    unfold(body).map_err(|why| damaged(why.to_string()))
}

fn unfold(body: Body) -> Result<Snapshot, &'static str> {
    check(&body)?;
    let store = Store::default();
    let slots = (body.page / 8) as usize;
    let mut ids = Vec::with_capacity(body.tables.len());
    let mut found = Vec::with_capacity(body.tables.len());
    let mut words = Vec::new();
    for (index, differences, stats) in &body.tables {
        words.clear();
        let mut before = 0u64;
        for difference in differences {
            before = before.wrapping_add(*difference);
            words.push(Word(before));
        }
        check_table(*index, &words, stats, slots)?;
        let id = store.insert(*index, &words);
        ids.push(id);
        found.push((id, *stats));
    }
    let tables = store.finish();
    if tables.len() != ids.len() {
        return Err("it has a table twice");
    }
    let mut stats = vec![TableStats::default(); tables.bound()];
    for (id, found) in found {
        stats[id as usize] = found;
    }
    let mut processes = body.processes;
    for process in &mut processes {
        let mut before = None;
        for table in &mut process.tables {
            table.id = *ids
                .get(table.id as usize)
                .ok_or("a process has a table that is not there")?;
            let index = tables.index(table.id);
            if before.is_some_and(|before| before >= index) {
                return Err("a process has tables out of order");
            }
            before = Some(index);
        }
    }
    Ok(Snapshot {
        time: body.time,
        host: body.host,
        kernel: body.kernel,
        machine: body.machine,
        page: body.page,
        memory: body.memory,
        frames: body.frames,
        duration: body.duration,
        interval: body.interval,
        activity: body.activity,
        sampling: body.sampling,
        files: body.files,
        parents: parents(&processes, &tables, body.frames, body.zero),
        processes,
        tables,
        stats,
        skipped: body.skipped,
        left_out: body.left_out,
        regions_left_out: body.regions_left_out,
        zero: body.zero,
        huge_by_sum: body.huge_by_sum,
    })
}

fn check(body: &Body) -> Result<(), &'static str> {
    let sane = |ok: bool, why| if ok { Ok(()) } else { Err(why) };
    sane(
        [4096, 16384, 65536].contains(&body.page),
        "its pages have a size that no machine has",
    )?;
    sane(
        [body.duration, body.interval]
            .iter()
            .all(|seconds| (0.0..LIMIT as f64).contains(seconds)),
        "its times are no times",
    )?;
    let orders = body
        .activity
        .as_ref()
        .is_none_or(|activity| activity.idle.ordered() && activity.used.ordered());
    sane(orders, "frames that were watched are out of order")?;
    let slots = body.page / 8;
    for process in &body.processes {
        let mut end = 0;
        for region in &process.regions {
            let pages = region.end.wrapping_sub(region.start);
            let huge = u64::from(region.huge) * slots;
            sane(
                region.start >= end && region.end > region.start && region.end < LIMIT,
                "a process has regions out of order",
            )?;
            sane(
                (region.file as usize) < body.files.len()
                    && u64::from(region.present) + u64::from(region.swapped) <= pages
                    && huge <= u64::from(region.present)
                    && region.referenced.unwrap_or(0) <= region.present,
                "a region holds more than it can",
            )?;
            end = region.end;
        }
        if let Some(samples) = &process.samples {
            sane(
                samples.kernel < LIMIT
                    && samples
                        .pages
                        .iter()
                        .all(|(page, count)| *page < 1 << 52 && *count < LIMIT),
                "a process was sampled where none can be",
            )?;
        }
        for run in &process.code {
            sane(
                (run.region as usize) < process.regions.len()
                    && (run.file as usize) < body.files.len(),
                "code is in no region",
            )?;
        }
        sane(
            [
                process.fork_copies,
                process.fork_leaves,
                process.fork_faults,
                process.identity.table_bytes,
                process.identity.faults,
                process.faulted.unwrap_or(0),
            ]
            .iter()
            .all(|number| *number < LIMIT),
            "a process has numbers that no machine has",
        )?;
    }
    Ok(())
}

fn check_table(
    index: u64,
    words: &[Word],
    stats: &TableStats,
    slots: usize,
) -> Result<(), &'static str> {
    let huge = words.iter().filter(|word| word.huge()).count();
    let swapped = words
        .iter()
        .filter(|word| !word.huge() && word.swapped())
        .count();
    if words.is_empty()
        || index >= LIMIT
        || words
            .windows(2)
            .any(|pair| pair[0].slot() >= pair[1].slot())
        || words.iter().any(|word| word.slot() >= slots)
        || words.iter().any(|word| word.huge() && word.swapped())
        || huge > 0 && words.len() > 1
    {
        return Err("a table is not as tables are");
    }
    if stats.entries() != words.len() as u64
        || usize::from(stats.huge) != huge
        || usize::from(stats.swapped) != swapped
        || usize::from(stats.resident) > slots
        || stats.proportional > (slots as u64) << 12
    {
        return Err("a table holds another number of entries than it says");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeProcess, write_process};
    use crate::read::paths::Paths;
    use crate::read::scan::{Options, scan};

    #[test]
    fn times_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        write_process(
            dir.path(),
            &FakeProcess {
                pid: 5,
                ..FakeProcess::default()
            },
        )
        .unwrap();
        let snapshot = scan(&Options::all(Paths::new(dir.path()))).unwrap();
        for (seconds, sound) in [
            (5.0, true),
            (-5.0, false),
            (1e300, false),
            (-1e300, false),
            (f64::NAN, false),
        ] {
            let mut body = body(&snapshot);
            body.duration = seconds;
            assert_eq!(check(&body).is_ok(), sound, "{seconds}");
        }
    }
}
