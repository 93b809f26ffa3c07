// SPDX-License-Identifier: GPL-2.0-or-later
//! Small file helpers. A write replaces the whole file at once or leaves the old one.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// All regular files below `path` (or `path` itself), sorted by name.
pub fn walk(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![path.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = path
            .metadata()
            .with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            let entries =
                fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            for entry in entries {
                todo.push(
                    entry
                        .with_context(|| format!("cannot read {}", path.display()))?
                        .path(),
                );
            }
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// All that is directly in `dir`, sorted; none if `dir` does not exist.
pub fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let failed = || format!("cannot read {}", dir.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(failed)? {
        found.push(entry.with_context(failed)?.path());
    }
    found.sort();
    Ok(found)
}

/// The files directly in `dir` whose names end in `suffix`, sorted; none if `dir` does not exist.
pub fn with_suffix(dir: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let mut found = entries(dir)?;
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_file() && name.ends_with(suffix)
    });
    Ok(found)
}

/// Reads a text file, with an error that names it.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Replaces a file at once: when interrupted, the old file or the whole new one is there.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    write_mode(path, content, 0o644)
}

/// As [`write()`], with the file's mode.
pub fn write_mode(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    make_parent(path)?;
    let new = sibling(path, ".new");
    let result = fs::write(&new, content)
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&new, path));
    result.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file only if its content or mode changes, so that `make` sees the old time otherwise.
/// Returns whether it was written.
pub fn write_if_changed(path: &Path, content: &[u8], mode: u32) -> Result<bool> {
    let same = fs::read(path).is_ok_and(|old| old == content)
        && path
            .metadata()
            .is_ok_and(|meta| meta.permissions().mode() & 0o777 == mode);
    if !same {
        write_mode(path, content, mode)?;
    }
    Ok(!same)
}

pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}

/// Removes a file or a directory with its content; a missing one is not an error.
pub fn remove(path: &Path) -> Result<()> {
    let result = if path.is_symlink() || path.is_file() {
        fs::remove_file(path)
    } else if path.exists() {
        fs::remove_dir_all(path)
    } else {
        Ok(())
    };
    result.with_context(|| format!("cannot remove {}", path.display()))
}

fn make_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), make_dir)
}

/// `path` with `suffix` added to its name.
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

/// A lock against other runs of the lab, held as long as this value.
///
/// Programs started while it is held inherit it: if we are interrupted, the next run waits until
/// the last of them is gone, as it may still write.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock `path`. If another run holds it, prints `waiting_for` and waits.
    pub fn take(path: &Path, waiting_for: &str) -> Result<Self> {
        make_parent(path)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(|| format!("cannot open the lock {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("waiting for another run to finish {waiting_for} ...");
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("cannot take the lock {}", path.display()))?;
        }
        fcntl_setfd(&file, FdFlags::empty())
            .with_context(|| format!("cannot let programs inherit the lock {}", path.display()))?;
        Ok(Lock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_file_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/down/file");
        assert!(write_if_changed(&path, b"one", 0o644).unwrap());
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert!(!write_if_changed(&path, b"one", 0o644).unwrap());
        assert_eq!(path.metadata().unwrap().modified().unwrap(), old);
        assert!(write_if_changed(&path, b"two", 0o644).unwrap());
        assert!(write_if_changed(&path, b"two", 0o755).unwrap());
        assert!(!sibling(&path, ".new").exists());
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plain");
        fs::write(&file, "").unwrap();
        let error = format!("{:#}", write(&file.join("below"), b"x").unwrap_err());
        assert!(error.contains("plain"), "{error}");
    }

    #[test]
    fn a_lock_lasts_until_the_programs_started_under_it_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::take(&path, "a test").unwrap();
        let free = || {
            let file = File::open(&path).unwrap();
            flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(lock);
        assert!(!free());
        drop(child.stdin.take());
        child.wait().unwrap();
        // A program that another test starts at this moment inherits the lock for a short time.
        let soon = (0..2400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            free()
        });
        assert!(soon);
    }

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        remove(&dir.path().join("nothing")).unwrap();
        let full = dir.path().join("full");
        write(&full.join("file"), b"x").unwrap();
        remove(&full).unwrap();
        assert!(!full.exists());
    }
}
