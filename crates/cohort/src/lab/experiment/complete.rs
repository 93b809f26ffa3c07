// SPDX-License-Identifier: GPL-2.0-or-later
//! The names that a shell completes: experiments of the checkout, and models.

use super::definition;
use crate::lab::Lab;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use translation::Model;

/// The experiments of the checkout. A shell that completes shows no error: no checkout means no
/// names.
pub fn experiments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = Lab::find(None).and_then(|lab| definition::names(&lab));
        let names = names.unwrap_or_default().into_iter();
        names.map(CompletionCandidate::new).collect()
    })
}

/// The built-in models.
pub fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        Model::builtin_names()
            .map(CompletionCandidate::new)
            .collect()
    })
}
