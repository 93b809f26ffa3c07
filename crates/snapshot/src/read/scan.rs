// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads all processes that are wanted into one snapshot.

use super::frames::{self, FrameMap};
use super::idle::{Watch, forget_idle_code};
use super::memory::OwnPages;
use super::pace::Pace;
use super::pagemap::Pagemap;
use super::paths::{Paths, page_size};
use super::process;
use super::samples::Samples;
use super::walk::{Walked, Walker};
use crate::model::parents::{left_out, parents};
use crate::model::process::{Identity, Reason, Skipped};
use crate::model::region::{Backing, Files};
use crate::model::stats::TableStats;
use crate::model::store::{Store, TableId, Tables};
use crate::model::word::raw;
use crate::model::{Frames, Process, Sampling, Snapshot};
use hashbrown::HashMap;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use thiserror::Error;

/// Why there is no snapshot at all.
#[derive(Debug, Error)]
pub enum Error {
    /// The list of processes cannot be read.
    #[error("cannot list the processes in {path}; is it a mounted /proc?")]
    List {
        /// The tree.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// kpageflags or kpagecount broke off.
    #[error("cannot read what frames hold from {path}/kpageflags and kpagecount")]
    Frames {
        /// The tree.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The bitmap of idle pages broke off.
    #[error("cannot watch which pages are used in {path}")]
    Idle {
        /// The bitmap.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The scope and the options of a scan.
pub struct Options<'a> {
    /// Where /proc is.
    pub paths: Paths,
    /// Bytes in a page of the machine that it is of; a table holds an eighth as many entries.
    pub page: u64,
    /// Numbers of the processes to look at; all if there is no list. What is not in it costs
    /// nothing.
    pub only: Option<&'a [i32]>,
    /// Says which of those processes are wanted.
    #[allow(clippy::type_complexity)]
    pub select: &'a (dyn Fn(&[Identity]) -> Vec<bool> + Sync),
    /// Says which regions are wanted, from what they map and the bytes that they cover.
    #[allow(clippy::type_complexity)]
    pub region: &'a (dyn Fn(&Backing, std::ops::Range<u64>) -> bool + Sync),
    /// Seconds to watch which pages are used, 0 not to. Clears the accessed bits of the processes,
    /// which makes the kernel's reclaim believe for a while that they use less than they do.
    pub interval: f64,
    /// Seconds to sample the processors for, 0 not to; at the same time as the interval.
    pub samples: f64,
    /// Pages a second at most.
    pub rate: Option<f64>,
    /// Called after each process with how many are read, and of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Options<'_> {
    /// Everything below `paths`, as fast as can be.
    pub fn all(paths: Paths) -> Options<'static> {
        Options {
            paths,
            page: page_size(),
            only: None,
            select: &|identities| vec![true; identities.len()],
            region: &|_, _| true,
            interval: 0.0,
            samples: 0.0,
            rate: None,
            progress: &|_, _| {},
        }
    }
}

/// Scans. Processes that cannot be read are named in the snapshot; it fails only when nothing can.
pub fn scan(options: &Options) -> Result<Snapshot, Error> {
    let paths = &options.paths;
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (identities, mut skipped) = identities(paths, options.only)?;
    let wanted = (options.select)(&identities);
    let wanted: Vec<Identity> = identities
        .into_iter()
        .zip(wanted)
        .filter_map(|(identity, wanted)| wanted.then_some(identity))
        .collect();

    let own = own_frame(paths);
    let mut watch = None;
    if options.interval > 0.0 {
        watch = watch_frames(options, &own, &wanted)?;
        for identity in &wanted {
            // A process that refuses this also refuses to be read, and is noted then.
            let _ = std::fs::write(paths.pid(identity.pid).join("clear_refs"), "1");
        }
    }
    let faults = || -> HashMap<i32, u64> {
        let each = wanted.iter();
        each.filter_map(|identity| Some((identity.pid, process::faults(paths, identity.pid).ok()?)))
            .collect()
    };
    let watching = options.interval > 0.0;
    let before = watching.then(&faults);
    let mut sampling = wait(options.interval, options.samples);
    let after = watching.then(&faults);
    let reading = Instant::now();
    let found = Found::new(options);
    let walker = Walker {
        referenced: options.interval > 0.0,
        ..found.walker(options, &own)
    };
    let walked = walk_all(&walker, wanted, options.progress);
    let mut processes = Vec::with_capacity(walked.len());
    let mut huge_by_sum = 0;
    for walked in walked {
        match walked {
            Ok(walked) => {
                huge_by_sum += u32::from(walked.huge_by_sum);
                processes.push(walked.process);
            }
            Err(skip) => skipped.push(skip),
        }
    }
    if let Some((_, found)) = &mut sampling {
        for process in &mut processes {
            process.samples = Some(found.remove(&process.identity.pid).unwrap_or_default());
        }
    }
    // After smaps, which tells what each process used: this clears accessed bits.
    let activity = watch.map(Watch::end).transpose();
    let activity = activity.map_err(|source| idle_error(paths, source))?;
    for process in &mut processes {
        let at = |faults: &Option<HashMap<i32, u64>>| {
            faults.as_ref()?.get(&process.identity.pid).copied()
        };
        process.faulted = at(&after).and_then(|after| after.checked_sub(at(&before)?));
    }
    let tables = found.store.finish();
    drop_doubles(&mut processes, &tables, &mut skipped);
    skipped.sort_by_key(|skip| skip.pid);
    if let Some(activity) = &activity {
        forget_idle_code(&mut processes, &tables, options.page / 8, activity);
    }

    let (stats, looked_up) = stats(options, &own, &tables)?;
    let frames = match (own.visible, looked_up) {
        (true, true) => Frames::Visible,
        (true, false) => Frames::NumbersOnly,
        (false, _) => Frames::Hidden,
    };
    let uname = uname();
    Ok(Snapshot {
        time,
        host: uname.host,
        kernel: uname.kernel,
        machine: uname.machine,
        page: options.page,
        memory: process::memory(paths),
        frames,
        duration: reading.elapsed().as_secs_f64(),
        interval: options.interval,
        activity,
        sampling: sampling.map(|(how, _)| how),
        files: found.files.finish(),
        parents: parents(&processes, &tables, frames, own.zero),
        left_out: left_out(&processes, &mut |pid| process::identity(paths, pid).ok()?),
        regions_left_out: false,
        processes,
        tables,
        stats,
        skipped,
        zero: own.zero,
        huge_by_sum,
    })
}

fn walk_all(
    walker: &Walker,
    wanted: Vec<Identity>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Result<Walked, Skipped>> {
    let (total, done) = (wanted.len(), AtomicUsize::new(0));
    wanted
        .into_par_iter()
        .map(|identity| {
            let (pid, name) = (identity.pid, identity.name.clone());
            let walked = walker.walk(identity);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            walked.map_err(|reason| Skipped { pid, name, reason })
        })
        .collect()
}

/// The content of each table, by its name, and whether the frames could be looked up.
fn stats(
    options: &Options,
    own: &OwnFrame,
    tables: &Tables,
) -> Result<(Vec<TableStats>, bool), Error> {
    let paths = &options.paths;
    let ids = tables.ids();
    let map = if own.visible {
        FrameMap::read(paths, tables, &ids, own.merged).map_err(|source| Error::Frames {
            path: paths.proc().display().to_string(),
            source,
        })?
    } else {
        None
    };
    let mut stats = vec![TableStats::default(); tables.bound()];
    let slots = options.page / 8;
    let counted: Vec<_> = ids
        .par_iter()
        .map(|&id| frames::stats(tables.words(id), slots, map.as_ref(), own.zero))
        .collect();
    for (id, counted) in ids.into_iter().zip(counted) {
        stats[id as usize] = counted;
    }
    Ok((stats, map.is_some()))
}

fn idle_error(paths: &Paths, source: std::io::Error) -> Error {
    Error::Idle {
        path: paths.page_idle().display().to_string(),
        source,
    }
}

/// What the processes are read into.
struct Found {
    store: Store,
    files: Files,
    pace: Pace,
}

impl Found {
    fn new(options: &Options) -> Self {
        Found {
            store: Store::default(),
            files: Files::default(),
            pace: Pace::new(options.rate),
        }
    }

    /// Reads processes into this, whether or not their pages were referenced.
    fn walker<'a>(&'a self, options: &'a Options, own: &OwnFrame) -> Walker<'a> {
        Walker {
            paths: &options.paths,
            store: &self.store,
            region: options.region,
            files: &self.files,
            page: options.page,
            referenced: false,
            frames: own.visible,
            zero: own.zero,
            pace: &self.pace,
        }
    }
}

/// Calls the frames of all that is wanted idle, where the kernel keeps a bit for each.
fn watch_frames(
    options: &Options,
    own: &OwnFrame,
    wanted: &[Identity],
) -> Result<Option<Watch>, Error> {
    let paths = &options.paths;
    if !own.visible || !paths.page_idle().exists() {
        return Ok(None);
    }
    let found = Found::new(options);
    let walker = found.walker(options, own);
    wanted.par_iter().for_each(|identity| {
        // A process that cannot be read is named when it is read again.
        let _ = walker.walk(identity.clone());
    });
    let tables = found.store.finish();
    Watch::begin(paths, &tables, &tables.ids()).map_err(|source| idle_error(paths, source))
}

/// Lets time pass for what is watched meanwhile; samples of processes, if that was asked for.
#[allow(clippy::type_complexity)]
fn wait(
    interval: f64,
    seconds: f64,
) -> Option<(Sampling, BTreeMap<i32, crate::model::samples::Process>)> {
    let sampler = (seconds > 0.0)
        .then(|| std::thread::spawn(move || Samples::take(Duration::from_secs_f64(seconds))));
    std::thread::sleep(Duration::from_secs_f64(interval));
    let taken = match sampler?.join() {
        Ok(taken) => taken.map_err(|error| error.to_string()),
        Err(_) => Err("sampling the processors failed".into()),
    };
    let (clock, lost, found) = match taken {
        Ok(samples) => (Ok(samples.clock), samples.lost, samples.processes),
        Err(why) => (Err(why), 0, BTreeMap::new()),
    };
    let sampling = Sampling {
        seconds,
        clock,
        lost,
    };
    Some((sampling, found))
}

/// Why no snapshot has the process `pid`, though nothing is known to have failed.
pub fn absence(paths: &Paths, pid: i32) -> Reason {
    if is_own(paths, pid) {
        return Reason::Own;
    }
    match process::identity(paths, pid) {
        Ok(None) => Reason::Kernel,
        // It began meanwhile.
        Ok(Some(_)) => Reason::Vanished,
        Err(reason) => reason,
    }
}

/// The scan itself, which would only count its own memory.
fn is_own(paths: &Paths, pid: i32) -> bool {
    paths.is_real() && pid == std::process::id() as i32
}

fn identities(paths: &Paths, only: Option<&[i32]>) -> Result<(Vec<Identity>, Vec<Skipped>), Error> {
    let pids = match only {
        Some(only) => {
            let mut pids = only.to_vec();
            pids.sort_unstable();
            pids.dedup();
            pids
        }
        None => process::list(paths).map_err(|source| Error::List {
            path: paths.proc().display().to_string(),
            source,
        })?,
    };
    let (mut identities, mut skipped) = (Vec::new(), Vec::new());
    for pid in pids {
        if is_own(paths, pid) {
            continue;
        }
        match process::identity(paths, pid) {
            Ok(Some(identity)) => identities.push(identity),
            Ok(None) => {}
            Err(reason) => skipped.push(Skipped {
                pid,
                name: String::new(),
                reason,
            }),
        }
    }
    Ok((identities, skipped))
}

/// Leaves out processes that share another's whole address space: they have equal tables, with
/// pages in them that the kernel says are mapped once.
fn drop_doubles(processes: &mut Vec<Process>, tables: &Tables, skipped: &mut Vec<Skipped>) {
    let mut owners: HashMap<TableId, usize> = HashMap::new();
    let mut doubles: HashMap<usize, i32> = HashMap::new();
    for (place, process) in processes.iter().enumerate() {
        for table in &process.tables {
            let words = tables.words(table.id);
            if !words
                .iter()
                .any(|word| word.exclusive() && word.frame() != 0)
            {
                continue;
            }
            let owner = *owners.entry(table.id).or_insert(place);
            if owner != place {
                if processes[owner].tables == process.tables {
                    doubles.insert(place, processes[owner].identity.pid);
                }
                break;
            }
        }
    }
    let mut place = 0;
    processes.retain(|process| {
        let double = doubles.get(&place);
        place += 1;
        if let Some(&owner) = double {
            skipped.push(Skipped {
                pid: process.identity.pid,
                name: process.identity.name.clone(),
                reason: Reason::SharesMemoryOf(owner),
            });
        }
        double.is_none()
    });
}

struct OwnFrame {
    visible: bool,
    zero: Option<u64>,
    /// What kpageflags says of merged pages can be believed.
    merged: bool,
}

/// Whether we see frames, from two pages of our own: one written, one only read. In a tree that
/// is not the kernel's, they are visible if it has a kpageflags.
fn own_frame(paths: &Paths) -> OwnFrame {
    if !paths.is_real() {
        return OwnFrame {
            visible: paths.proc().join("kpageflags").exists(),
            zero: None,
            merged: true,
        };
    }
    let hidden = OwnFrame {
        visible: false,
        zero: None,
        merged: false,
    };
    let Some(memory) = OwnPages::map(2) else {
        return hidden;
    };
    // SAFETY: both pages are ours, readable and writable; volatile so that they are touched.
    unsafe {
        memory.start.write_volatile(1);
        memory.start.add(memory.length / 2).read_volatile();
    }
    let mut entries = [0; 2];
    let read = Pagemap::open(paths, std::process::id() as i32)
        .and_then(|pagemap| pagemap.read(memory.start as u64 / page_size(), &mut entries));
    let merged = !frames::says_merged(paths, entries[0] & raw::FRAME);
    drop(memory);
    if !matches!(read, Ok(2)) || entries[0] & raw::FRAME == 0 {
        return hidden;
    }
    let zero = entries[1] & raw::FRAME;
    OwnFrame {
        visible: true,
        zero: (entries[1] & raw::PRESENT != 0 && zero != 0).then_some(zero),
        merged,
    }
}

struct Uname {
    host: String,
    kernel: String,
    machine: String,
}

fn uname() -> Uname {
    // SAFETY: all zeros is a valid utsname, which the call then fills.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&mut names);
        names
    };
    let text = |bytes: &[libc::c_char]| {
        let bytes: Vec<u8> = bytes
            .iter()
            .take_while(|byte| **byte != 0)
            .map(|byte| *byte as u8)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Uname {
        host: text(&names.nodename),
        kernel: text(&names.release),
        machine: text(&names.machine),
    }
}
