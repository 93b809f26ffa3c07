// SPDX-License-Identifier: GPL-2.0-or-later
//! Words of the field, explained where the report's pages use them.

use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A term, the forms of it as a regular expression, and what it means. Of two that begin alike the
/// longer one comes first.
const TERMS: &[(&str, &str, &str)] = &[
    (
        "PTP",
        "PTPs?",
        "page-table page: a page of a process's page tables. One of the last level has 512 entries \
         and maps 2 MB.",
    ),
    (
        "PTE",
        "PTEs?",
        "entry of a page table: where in memory one page of a process is.",
    ),
    (
        "PMD table",
        "PMD tables?",
        "page-table page one level up: its 512 entries point to PTPs and cover 1 GB.",
    ),
    (
        "zygote",
        "[Zz]ygotes?",
        "process that loads what its children need and then forks them.",
    ),
    (
        "cohort",
        "[Cc]ohorts?",
        "the processes that may share page tables: a zygote and its descendants; in tables, our \
         kernel with sharing switched on.",
    ),
    (
        "unshare",
        "[Uu]nshar(?:e|es|ed|ing)",
        "give a process its own copy of a page-table page that it shares.",
    ),
    (
        "stock",
        "[Ss]tock",
        "without our changes: Debian's kernel, or ours with sharing switched off, as the \
         experiment says.",
    ),
    (
        "pristine",
        "[Pp]ristine",
        "Debian's kernel, built from unchanged source.",
    ),
    (
        "page fault",
        "(?:page|file) faults?|faults?",
        "the processor finds no entry for an address and calls the kernel, which fills it in.",
    ),
    (
        "L2 TLB",
        "L2 TLBs?",
        "the second, larger level of a processor's cache of address translations.",
    ),
    (
        "TLB",
        "D?-?TLBs?",
        "translation lookaside buffer: a processor's cache of address translations.",
    ),
    (
        "walk",
        "walks?",
        "the processor reads page tables because its TLB does not have a translation.",
    ),
    (
        "mTHP",
        "mTHP",
        "multi-size THP: stock Linux's larger pages of sizes between 4 KB and 2 MB.",
    ),
    (
        "THP",
        "THP",
        "transparent huge pages: stock Linux's pages of 2 MB, given without being asked for.",
    ),
    (
        "KSM",
        "KSM",
        "the part of Linux that merges equal pages of processes.",
    ),
    (
        "ksmd",
        "ksmd",
        "the kernel's thread that looks for equal pages and merges them.",
    ),
    (
        "smart_scan",
        "smart_scan|smart",
        "stock KSM that skips pages which did not merge several times.",
    ),
    (
        "advisor",
        "advisor",
        "stock KSM that sets its own speed by what merging brings.",
    ),
    (
        "dormant",
        "dormant",
        "our KSM that scans only processes that have been idle.",
    ),
    (
        "Jaccard index",
        "Jaccard index",
        "of two sets: what both have, of what either has. 1 if they are equal.",
    ),
    (
        "optin",
        "optin",
        "sharing is allowed, for programs that ask for it.",
    ),
    (
        "model",
        "[Mm]odel",
        "program that computes what a processor's TLBs, page walks and caches would do, from the \
         memory accesses of a guest.",
    ),
    (
        "L1D, L1 I",
        "L1D|L1 I",
        "the processor's first and smallest cache, of data or of instructions.",
    ),
];

/// All terms as one expression, a group each.
static ANY: LazyLock<Regex> = LazyLock::new(|| {
    let groups = TERMS.iter().map(|(_, term, _)| format!("({term})"));
    let groups = groups.collect::<Vec<_>>().join("|");
    Regex::new(&format!(r"\b(?:{groups})\b")).expect("the terms are regular expressions")
});

/// A text for a page, with the first of each term explained to who points at it or touches it.
pub fn explain(text: &str) -> String {
    let text = escape(text);
    let mut seen = BTreeSet::new();
    let explained = ANY.replace_all(&text, |found: &regex::Captures| {
        let all = &found[0];
        let term = (0..TERMS.len()).find(|term| found.get(term + 1).is_some());
        match term.filter(|term| seen.insert(*term)) {
            Some(term) => format!(
                "<abbr tabindex=\"0\" title=\"{}\">{all}</abbr>",
                TERMS[term].2
            ),
            None => all.to_string(),
        }
    });
    explained.into_owned()
}

/// All terms with their meanings, in the order of the alphabet.
pub fn glossary() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = TERMS
        .iter()
        .map(|(name, _, meaning)| (*name, *meaning))
        .collect();
    all.sort_by_key(|(name, _)| name.to_lowercase());
    all
}

pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_term_is_explained() {
        let text = explain("<b> PTPs of a zygote, PTPs of mTHP, PTE");
        assert!(text.starts_with("&lt;b&gt; <abbr tabindex=\"0\" title=\"page-table page: a page"));
        assert_eq!(text.matches("<abbr").count(), 4, "{text}");
        assert!(text.contains("multi-size THP: stock Linux's"), "{text}");
    }

    #[test]
    fn words_that_only_contain_a_term_are_left_alone() {
        for text in ["stocks", "defaults", "crosswalk"] {
            assert_eq!(explain(text), text);
        }
    }

    #[test]
    fn explanations_can_stand_in_an_attribute() {
        for (_, _, meaning) in TERMS {
            assert_eq!(escape(meaning), *meaning);
        }
    }
}
