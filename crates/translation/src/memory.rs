// SPDX-License-Identifier: GPL-2.0-or-later
//! Guest-physical memory, as far as the page walker reads it.

use crate::hash::QuickMap;
use crate::prefetch::prefetch;

/// Read access to guest-physical memory. Values are little endian, addresses aligned to the size.
///
/// QEMU's adapter implements it on the memory-mapped file behind
/// `-object memory-backend-file,share=on`; tests and traces have their own below.
pub trait GuestMemory {
    /// The 32-bit word at `paddr`, or `None` where the guest has no memory.
    fn read_u32(&self, paddr: u64) -> Option<u32>;
    /// The 64-bit word at `paddr`, or `None` where the guest has no memory.
    fn read_u64(&self, paddr: u64) -> Option<u64>;
    /// The word at `paddr` will be read soon.
    fn expect(&self, _paddr: u64) {}
}

impl<M: GuestMemory + ?Sized> GuestMemory for &M {
    fn read_u32(&self, paddr: u64) -> Option<u32> {
        (**self).read_u32(paddr)
    }
    fn read_u64(&self, paddr: u64) -> Option<u64> {
        (**self).read_u64(paddr)
    }
    fn expect(&self, paddr: u64) {
        (**self).expect(paddr);
    }
}

/// Memory that holds only the words that were written: for tests, and for traces, which carry the
/// page-table entries that were read and nothing else. A word that was never written reads as 0.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    pages: QuickMap<u64, Box<[u64; 512]>>,
}

impl SparseMemory {
    /// Empty memory: every word is 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a 64-bit word; the low three bits of the address are ignored.
    pub fn write_u64(&mut self, paddr: u64, value: u64) {
        let page = self
            .pages
            .entry(paddr >> 12)
            .or_insert_with(|| Box::new([0; 512]));
        page[(paddr >> 3) as usize & 511] = value;
    }

    /// Writes a 32-bit word; the low two bits of the address are ignored.
    pub fn write_u32(&mut self, paddr: u64, value: u32) {
        let shift = (paddr & 4) * 8;
        let old = self.read_u64(paddr & !7).unwrap_or(0);
        let new = old & !(0xffff_ffff << shift) | u64::from(value) << shift;
        self.write_u64(paddr & !7, new);
    }
}

impl GuestMemory for SparseMemory {
    fn read_u32(&self, paddr: u64) -> Option<u32> {
        let word = self.read_u64(paddr & !7)?;
        Some((word >> ((paddr & 4) * 8)) as u32)
    }

    fn read_u64(&self, paddr: u64) -> Option<u64> {
        let page = self.pages.get(&(paddr >> 12));
        Some(page.map_or(0, |page| page[(paddr >> 3) as usize & 511]))
    }

    fn expect(&self, paddr: u64) {
        if let Some(page) = self.pages.get(&(paddr >> 12)) {
            prefetch(&page[..], (paddr >> 3) as usize & 511, 1);
        }
    }
}
