// SPDX-License-Identifier: GPL-2.0-or-later
//! Which frames were used in an interval.

use serde::{Deserialize, Serialize};

/// Frames of one number of the bitmap.
pub(crate) const CHUNK: u64 = 64;

/// A set of frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSet {
    /// Number of a chunk of 64 frames and which of them, by number.
    pub(crate) chunks: Vec<(u64, u64)>,
}

impl FrameSet {
    /// From frames in any order.
    pub fn new(frames: impl IntoIterator<Item = u64>) -> FrameSet {
        let mut bits: hashbrown::HashMap<u64, u64> = hashbrown::HashMap::new();
        for frame in frames {
            *bits.entry(frame / CHUNK).or_default() |= 1 << (frame % CHUNK);
        }
        let mut chunks: Vec<(u64, u64)> = bits.into_iter().collect();
        chunks.sort_unstable();
        FrameSet { chunks }
    }

    /// Whether a frame is in it.
    #[inline]
    pub fn contains(&self, frame: u64) -> bool {
        self.chunks
            .binary_search_by_key(&(frame / CHUNK), |chunk| chunk.0)
            .is_ok_and(|place| self.chunks[place].1 >> (frame % CHUNK) & 1 == 1)
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().flat_map(|&(chunk, bits)| {
            (0..CHUNK)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| chunk * CHUNK + bit)
        })
    }

    /// Whether chunks are in order, as `contains` needs them.
    pub fn ordered(&self) -> bool {
        self.chunks.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }

    /// Chunks that follow one another without a gap, at most `most` at once.
    pub(crate) fn runs(&self, most: u64) -> impl Iterator<Item = &[(u64, u64)]> {
        self.chunks
            .chunk_by(|a, b| a.0 + 1 == b.0)
            .flat_map(move |run| run.chunks(most as usize))
    }
}

/// Changes of frames in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Used by nobody.
    pub idle: FrameSet,
    /// Used by somebody.
    pub used: FrameSet,
}
