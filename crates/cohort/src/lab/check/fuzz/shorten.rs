// SPDX-License-Identifier: GPL-2.0-or-later
//! Shortening a list that makes something fail: delta debugging (Zeller and Hildebrandt, 2002).

use anyhow::Result;
use std::ops::Range;

/// Finds a short part of `0..len` that still fails. `first_failing` is given candidates, each
/// the numbers that are kept, and tells which of them fails first; asking for many at once is
/// cheaper than one by one, since they share the start of a guest. It may end the search by
/// an error; then, or when `rounds` questions have been asked, the shortest so far is returned.
pub fn shorten(
    len: usize,
    rounds: usize,
    mut first_failing: impl FnMut(&[Vec<usize>]) -> Result<Option<usize>>,
) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..len).collect();
    let mut parts = 2;
    for _ in 0..rounds {
        if kept.len() < 2 {
            break;
        }
        parts = parts.min(kept.len());
        let candidates = candidates(&kept, parts);
        match first_failing(&candidates) {
            Ok(Some(which)) => {
                let alone = candidates[which].len() < kept.len() / 2 + 1 && parts == 2;
                kept = candidates[which].clone();
                parts = if alone { 2 } else { (parts - 1).max(2) };
            }
            Ok(None) if parts == kept.len() => break,
            Ok(None) => parts *= 2,
            Err(_) => break,
        }
    }
    kept
}

/// The rest of `kept` without each of its `parts` parts. The end comes first: a failure
/// is most often late, and what comes before it is cut away in large pieces.
fn candidates(kept: &[usize], parts: usize) -> Vec<Vec<usize>> {
    ranges(kept.len(), parts)
        .into_iter()
        .map(|cut| {
            kept.iter()
                .enumerate()
                .filter(|(at, _)| !cut.contains(at))
                .map(|(_, number)| *number)
                .collect()
        })
        .collect()
}

/// `0..len` in `parts` pieces that differ by one at most.
fn ranges(len: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts)
        .map(|part| part * len / parts..(part + 1) * len / parts)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn search(len: usize, needed: &[usize]) -> (Vec<usize>, usize) {
        let mut asked = 0;
        let found = shorten(len, 1_000, |candidates| {
            asked += 1;
            Ok(candidates
                .iter()
                .position(|kept| needed.iter().all(|number| kept.contains(number))))
        });
        (found, asked)
    }

    #[test]
    fn only_what_is_needed_is_left() {
        for needed in [vec![0], vec![999], vec![3, 500], vec![1, 2, 700, 998]] {
            let (found, asked) = search(1_000, &needed);
            assert_eq!(found, needed);
            assert!(asked < 120, "{asked} questions for {needed:?}");
        }
    }

    #[test]
    fn a_list_of_which_all_is_needed_stays() {
        assert_eq!(search(5, &[0, 1, 2, 3, 4]).0, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_error_ends_the_search_with_the_shortest_so_far() {
        let mut asked = 0;
        let found = shorten(64, 100, |candidates| {
            asked += 1;
            if asked == 3 {
                bail!("no time left");
            }
            Ok(candidates.iter().position(|kept| kept.contains(&63)))
        });
        assert_eq!(found.len(), 16);
        assert!(found.contains(&63));
    }

    #[test]
    fn pieces_cover_all_without_overlap() {
        for (len, parts) in [(7, 3), (10, 10), (5, 2)] {
            let all: Vec<usize> = ranges(len, parts).into_iter().flatten().collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}
