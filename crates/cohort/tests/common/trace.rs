// SPDX-License-Identifier: GPL-2.0-or-later
//! A small trace, for tests that replay one.

use std::path::Path;
use translation::trace::{Header, Recorder};
use translation::{AccessKind, Context, Sink, SparseMemory};

/// Records `accesses` loads, `stride` pages apart, from `pages` (at most 512) pages of one process.
pub fn record(path: &Path, accesses: u64, stride: u64, pages: u64) {
    let mut memory = SparseMemory::new();
    memory.write_u64(0x1000, 0x2000 | 7);
    memory.write_u64(0x2000, 0x3000 | 7);
    memory.write_u64(0x3000, 0x4000 | 7);
    for page in 0..512 {
        memory.write_u64(0x4000 + 8 * page, (page + 16) << 12 | 7);
    }
    let header = Header {
        cores: 1,
        page_tables: "x86-64".into(),
        about: "a test".into(),
    };
    let out = std::fs::File::create(path).unwrap();
    let mut recorder = Recorder::new(&header, memory, out).unwrap();
    let context = Context {
        paging: true,
        root: 0x1000,
        ..Context::default()
    };
    recorder.set_context(0, context);
    for n in 0..accesses {
        let vaddr = n * stride % pages * 4096 + n % 64 * 8;
        recorder.instructions(0, 1);
        recorder.access(0, AccessKind::Read, vaddr, Some(vaddr + 0x10000), 8);
    }
    recorder.finish().unwrap();
}
