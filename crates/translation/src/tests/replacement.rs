// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use super::sets::{Draws, Tree};
use crate::replacement::{Policy, Replacement};
use proptest::prelude::*;

/// LRU as a list of ways, the oldest first; FIFO is the same without uses.
fn compare_with_list(policy: Policy, ways: usize, steps: impl Iterator<Item = (bool, usize)>) {
    let mut replacement = Replacement::new(policy, 1, ways);
    let mut list: Vec<usize> = (0..ways).collect();
    for way in 0..ways {
        replacement.filled(0, way);
    }
    for (use_only, way) in steps {
        if use_only {
            replacement.used(0, way);
            if policy == Policy::Lru {
                list.retain(|&other| other != way);
                list.push(way);
            }
        } else {
            let victim = replacement.victim(0);
            assert_eq!(victim, list.remove(0));
            replacement.filled(0, victim);
            list.push(victim);
        }
    }
}

proptest! {
    #[test]
    fn lru_is_a_list_by_last_use(
        ways in 1usize..20,
        steps in prop::collection::vec((any::<bool>(), 0usize..1000), 0..300),
    ) {
        let steps = steps.into_iter().map(|(used, way)| (used, way % ways));
        compare_with_list(Policy::Lru, ways, steps);
    }

    #[test]
    fn fifo_is_a_list_by_fill(
        ways in 1usize..20,
        steps in prop::collection::vec((any::<bool>(), 0usize..1000), 0..300),
    ) {
        let steps = steps.into_iter().map(|(used, way)| (used, way % ways));
        compare_with_list(Policy::Fifo, ways, steps);
    }
}

#[test]
fn a_million_steps_of_lru_and_fifo_agree_with_lists() {
    for policy in [Policy::Lru, Policy::Fifo] {
        for ways in [1, 2, 3, 4, 8, 12, 18, 64] {
            let mut dice = Dice::new(ways as u64);
            let steps = (0..150_000).map(|_| (dice.below(3) > 0, dice.below(ways as u64) as usize));
            compare_with_list(policy, ways, steps);
        }
    }
}

#[test]
fn plru_is_a_tree_of_halves() {
    for ways in [1, 2, 4, 8, 16, 32, 64] {
        let mut replacement = Replacement::new(Policy::Plru, 1, ways);
        let mut tree = Tree::new(0..ways);
        let mut dice = Dice::new(ways as u64);
        for _ in 0..150_000 {
            let way = dice.below(ways as u64) as usize;
            replacement.used(0, way);
            tree.used(way);
            assert_eq!(replacement.victim(0), tree.victim());
        }
    }
}

#[test]
fn random_is_xorshift64_star_and_reaches_every_way() {
    let mut replacement = Replacement::new(Policy::Random, 4, 12);
    let mut draws = Draws::new();
    let mut drawn = [0; 12];
    for step in 0..12_000 {
        let set = step % 4;
        let way = draws.way(12);
        assert_eq!(replacement.victim(set), way);
        drawn[way] += 1;
    }
    assert!(drawn.iter().all(|&times| (800..1200).contains(&times)));
}
