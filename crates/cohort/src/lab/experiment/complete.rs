// SPDX-License-Identifier: GPL-2.0-or-later
//! The names that a shell completes: experiments, models, root file systems. Outside a checkout
//! there are only models.

use super::definition;
use crate::lab::Lab;
use crate::lab::guest::rootfs;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use translation::Model;

/// The experiments of the checkout.
pub fn experiments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_checkout(definition::names))
}

/// The root file systems of the checkout.
pub fn rootfs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_checkout(rootfs::names))
}

/// The built-in models.
pub fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        Model::builtin_names()
            .map(CompletionCandidate::new)
            .collect()
    })
}

/// A shell that completes shows no error: no checkout means no names.
fn of_checkout(names: fn(&Lab) -> anyhow::Result<Vec<String>>) -> Vec<CompletionCandidate> {
    let names = Lab::find(None).and_then(|lab| names(&lab));
    let names = names.unwrap_or_default().into_iter();
    names.map(CompletionCandidate::new).collect()
}
