// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab deb`: Debian packages of the host tools and of the kernel, in `out/deb`.

pub mod kernel;
pub mod tools;

use crate::lab::Lab;
use crate::lab::host::process::output;
use std::process::Command;

/// Where the packages are, below `out`.
pub const DIR: &str = "deb";

/// The version of a package: this program's, and in a git checkout the time of the last commit, so
/// that a later build is an upgrade.
pub fn version(lab: &Lab) -> String {
    let own = env!("CARGO_PKG_VERSION");
    let time = output(
        Command::new("git")
            .args(["log", "-1", "--date=format-local:%Y%m%d%H%M%S"])
            .arg("--format=%cd")
            .env("TZ", "UTC")
            .current_dir(&lab.root),
    );
    match time.as_deref().map(str::trim) {
        Ok(time) if !time.is_empty() => format!("{own}+git{time}"),
        _ => own.into(),
    }
}
