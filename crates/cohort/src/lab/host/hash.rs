// SPDX-License-Identifier: GPL-2.0-or-later
//! Content hashes: what was built is valid while its sources have the same hash.

use crate::lab::host::files::walk;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Hashes named parts. Each name and content is length-prefixed, so that different lists of parts
/// never hash the same bytes.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn part(&mut self, name: &str, content: &[u8]) -> &mut Self {
        for bytes in [name.as_bytes(), content] {
            self.0.update((bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
        }
        self
    }

    /// Adds a file, or every file below a directory: relative name, executable or not, content. A
    /// missing path adds nothing.
    pub fn path(&mut self, path: &Path) -> Result<&mut Self> {
        if !path.exists() {
            return Ok(self);
        }
        for file in walk(path)? {
            let content =
                std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let mode = file
                .metadata()
                .with_context(|| format!("cannot read {}", file.display()))?
                .permissions()
                .mode();
            let name = file.strip_prefix(path).unwrap_or(&file).to_string_lossy();
            let kind = if mode & 0o111 != 0 { "x" } else { "-" };
            self.part(&format!("{kind}{name}"), &content);
        }
        Ok(self)
    }

    /// The hash as hexadecimal digits.
    pub fn finish(&self) -> String {
        self.0
            .clone()
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The first 12 digits of a hash, for names and tables.
pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(path: &Path) -> String {
        Hasher::new().path(path).unwrap().finish()
    }

    #[test]
    fn a_hash_changes_with_content_name_and_mode_and_not_with_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "one").unwrap();
        let first = hash(dir.path());
        std::fs::write(&file, "one").unwrap();
        assert_eq!(first, hash(dir.path()));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let executable = hash(dir.path());
        assert_ne!(first, executable);
        std::fs::rename(&file, dir.path().join("b")).unwrap();
        let renamed = hash(dir.path());
        assert_ne!(executable, renamed);
        std::fs::write(dir.path().join("b"), "two").unwrap();
        assert_ne!(renamed, hash(dir.path()));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let one = Hasher::new().part("a", b"bc").finish();
        let other = Hasher::new().part("ab", b"c").finish();
        assert_ne!(one, other);
    }
}
