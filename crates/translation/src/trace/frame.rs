// SPDX-License-Identifier: GPL-2.0-or-later
//! The frame of a trace: head, blocks, end.

use super::{Header, TraceError, VERSION};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"COHORTTR";
/// Bytes of a block unpacked, about; a reader refuses more than twice that.
pub const BLOCK: usize = 1 << 18;
/// Bytes of a head at most.
const HEAD_MAX: u32 = 1 << 20;

/// Writes the head.
pub fn write_head(out: &mut impl Write, header: &Header) -> io::Result<()> {
    let text = toml::to_string(header).map_err(io::Error::other)?;
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(text.len() as u32).to_le_bytes())?;
    out.write_all(text.as_bytes())?;
    out.write_all(&checksum(VERSION, text.as_bytes()).to_le_bytes())
}

/// The checksum of a head. The version is under it since a wrong one may be an older one.
fn checksum(version: u16, text: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(text);
    if version >= 3 {
        hasher.update(&version.to_le_bytes());
    }
    hasher.finalize()
}

/// Writes a block that is not empty.
pub fn write_block(out: &mut impl Write, raw: &[u8]) -> io::Result<()> {
    let packed = lz4_flex::block::compress(raw);
    out.write_all(&(raw.len() as u32).to_le_bytes())?;
    out.write_all(&(packed.len() as u32).to_le_bytes())?;
    out.write_all(&crc32fast::hash(&packed).to_le_bytes())?;
    out.write_all(&packed)
}

/// Writes the end mark.
pub fn write_end(out: &mut impl Write, events: u64) -> io::Result<()> {
    out.write_all(&0u32.to_le_bytes())?;
    out.write_all(&events.to_le_bytes())?;
    out.write_all(&crc32fast::hash(&events.to_le_bytes()).to_le_bytes())?;
    out.flush()
}

/// Reads frames, and knows where it is.
pub struct Frames<R> {
    input: R,
    at: u64,
    packed: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// Before the head.
    pub fn new(input: R) -> Self {
        Self {
            input,
            at: 0,
            packed: Vec::new(),
        }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    fn fill(&mut self, buffer: &mut [u8], what: &'static str) -> Result<(), TraceError> {
        // `read_exact` does not say how much there was, so where the file ends.
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => return Err(TraceError::Truncated { at: self.at, what }),
                Ok(count) => {
                    filled += count;
                    self.at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn number(&mut self, what: &'static str) -> Result<u32, TraceError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes, what)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads the head.
    pub fn head(&mut self) -> Result<Header, TraceError> {
        const WHAT: &str = "in its head";
        let mut magic = [0; 8];
        match self.fill(&mut magic, WHAT) {
            // A file shorter than the magic is no trace at all.
            Err(TraceError::Truncated { .. }) => return Err(TraceError::Foreign),
            other => other?,
        }
        if magic != *MAGIC {
            return Err(TraceError::Foreign);
        }
        let mut version = [0; 2];
        self.fill(&mut version, WHAT)?;
        let found = u16::from_le_bytes(version);
        if !(1..=VERSION).contains(&found) {
            return Err(TraceError::Version { found });
        }
        let damaged = |what| TraceError::Damaged { at: 0, what };
        let length = self.number(WHAT)?;
        if length > HEAD_MAX {
            return Err(damaged("the length of its head is impossible"));
        }
        let mut text = vec![0; length as usize];
        self.fill(&mut text, WHAT)?;
        if self.number(WHAT)? != checksum(found, &text) {
            return Err(damaged("the checksum of its head is wrong"));
        }
        let text = String::from_utf8(text).map_err(|_| damaged("its head is not text"))?;
        toml::from_str(&text).map_err(|_| damaged("its head lacks facts"))
    }

    /// Reads the next block into `raw`. At the end gives the number of events; `raw` is empty then.
    pub fn block(&mut self, raw: &mut Vec<u8>) -> Result<Option<u64>, TraceError> {
        raw.clear();
        let at = self.at;
        let damaged = |what| TraceError::Damaged { at, what };
        let length = self.number("without its end mark")? as usize;
        if length == 0 {
            return self.end(at).map(Some);
        }
        let packed = self.number("in a block")? as usize;
        if length > 2 * BLOCK || packed > 4 * BLOCK {
            return Err(damaged("the length of a block is impossible"));
        }
        let checksum = self.number("in a block")?;
        let mut bytes = std::mem::take(&mut self.packed);
        bytes.resize(packed, 0);
        self.fill(&mut bytes, "in a block")?;
        if crc32fast::hash(&bytes) != checksum {
            return Err(damaged("the checksum of a block is wrong"));
        }
        raw.resize(length, 0);
        let unpacked = lz4_flex::block::decompress_into(&bytes, raw);
        self.packed = bytes;
        if !matches!(unpacked, Ok(whole) if whole == length) {
            return Err(damaged("a block does not unpack"));
        }
        Ok(None)
    }

    fn end(&mut self, at: u64) -> Result<u64, TraceError> {
        let mut events = [0; 8];
        self.fill(&mut events, "in its end mark")?;
        if self.number("in its end mark")? != crc32fast::hash(&events) {
            return Err(TraceError::Damaged {
                at,
                what: "the checksum of its end mark is wrong",
            });
        }
        if self.input.read(&mut [0])? != 0 {
            return Err(TraceError::Damaged {
                at: self.at,
                what: "something follows its end",
            });
        }
        Ok(u64::from_le_bytes(events))
    }
}
