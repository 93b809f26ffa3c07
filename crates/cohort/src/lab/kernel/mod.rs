// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernels: their source, our hooks and overlay, their configuration, the build.

pub mod build;
pub mod kconfig;
pub mod series;
pub mod source;
