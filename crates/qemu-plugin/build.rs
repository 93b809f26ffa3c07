// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's own symbols are found when it loads the plugin, not before.

fn main() {
    // A shared library may leave symbols open; the unit tests' program may not, and calls none.
    println!("cargo::rustc-link-arg=-Wl,--unresolved-symbols=ignore-all");
    println!("cargo::rerun-if-changed=build.rs");
}
