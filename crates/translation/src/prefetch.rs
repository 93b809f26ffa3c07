// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks the host for memory that will be needed: the sets of a large cache are seldom in the host's
//! own caches, and an access that misses needs several of them. Changes nothing but the time.

/// Bytes of a line of the host, about.
const LINE: usize = 64;

/// The elements of a range will be needed soon.
#[inline(always)]
pub fn prefetch<T>(list: &[T], first: usize, count: usize) {
    if first >= list.len() {
        return;
    }
    let at = list.as_ptr().wrapping_add(first).cast::<u8>();
    let mut offset = 0;
    while offset < count * size_of::<T>() {
        line(at.wrapping_add(offset));
        offset += LINE;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch may be of any address, and reads nothing that the program sees.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn line(_: *const u8) {}
