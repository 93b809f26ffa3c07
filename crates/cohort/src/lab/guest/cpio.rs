// SPDX-License-Identifier: GPL-2.0-or-later
//! Writing a cpio archive (newc), the format of an initramfs.
//!
//! Every time in it is zero and inodes are numbered in order, so that the same content gives
//! the same archive and, counted in instructions, the same boot.

use std::collections::BTreeSet;

/// An archive that is being written.
pub struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
    dirs: BTreeSet<String>,
}

const DIR: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHAR: u32 = 0o020_000;

impl Cpio {
    /// An empty archive.
    pub fn new() -> Self {
        Cpio {
            bytes: Vec::new(),
            inode: 0,
            dirs: BTreeSet::new(),
        }
    }

    /// Adds a directory and those above it, each once.
    pub fn dir(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || self.dirs.contains(path) {
            return;
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent);
        }
        self.dirs.insert(path.to_string());
        self.entry(path, DIR | 0o755, (0, 0), &[]);
    }

    /// Adds a file and the directories above it.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent);
        }
        self.entry(path, FILE | (mode & 0o7777), (0, 0), content);
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent);
        }
        self.entry(path, CHAR | mode, (major, minor), &[]);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        let links = if mode & DIR == DIR { 2 } else { 1 };
        let size = u32::try_from(content.len()).expect("a file in the initramfs is below 4 GB");
        let name_size = name.len() as u32 + 1;
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        while self.bytes.len() % 4 != 0 {
            self.bytes.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn archive() -> Vec<u8> {
        let mut cpio = Cpio::new();
        cpio.device("/dev/console", 0o600, 5, 1);
        cpio.file("/init", 0o755, b"#!");
        cpio.file("/lab/bin/one", 0o755, b"12345");
        cpio.file("/lab/job", 0o644, b"");
        cpio.finish()
    }

    /// The entries as (name, mode, size), read by the format's definition.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let start = at + 6 + n * 8;
                let text = std::str::from_utf8(&bytes[start..start + 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec());
            let data = (at + 110 + name_size).next_multiple_of(4);
            found.push((name.unwrap(), mode, size));
            at = (data + size).next_multiple_of(4);
        }
        found
    }

    #[test]
    fn entries_come_with_their_directories_once_and_end_in_a_trailer() {
        let names: Vec<String> = entries(&archive()).into_iter().map(|e| e.0).collect();
        assert_eq!(
            names,
            [
                "dev",
                "dev/console",
                "init",
                "lab",
                "lab/bin",
                "lab/bin/one",
                "lab/job",
                "TRAILER!!!"
            ]
        );
        let one = entries(&archive()).remove(5);
        assert_eq!((one.1, one.2), (0o100_755, 5));
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        assert_eq!(archive(), archive());
    }

    #[test]
    fn another_reader_of_the_format_agrees() {
        let child = Command::new("cpio")
            .args(["--list", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        // The reader is not part of the set-up; the definition above is tested always.
        let Ok(mut child) = child else { return };
        child.stdin.take().unwrap().write_all(&archive()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("lab/bin/one"));
    }
}
