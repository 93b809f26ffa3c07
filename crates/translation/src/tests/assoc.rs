// SPDX-License-Identifier: GPL-2.0-or-later
use super::sets::Sets;
use super::{Dice, turn};
use crate::assoc::Assoc;
use crate::replacement::Policy;

#[test]
fn two_million_random_steps_agree_with_lists() {
    for (policy, sets, ways) in [
        (Policy::Lru, 1, 1),
        (Policy::Lru, 16, 8),
        (Policy::Lru, 4, 12),
        (Policy::Lru, 1, 24),
        (Policy::Fifo, 8, 4),
        (Policy::Fifo, 1, 32),
        (Policy::Plru, 8, 4),
        (Policy::Plru, 1, 16),
        (Policy::Random, 8, 3),
        (Policy::Random, 1, 24),
    ] {
        let mut real = Assoc::new(sets * ways, ways, policy);
        let mut naive = Sets::new(sets * ways, ways, turn(policy));
        let mut dice = Dice::new((sets * ways) as u64);
        let range = (sets * ways * 3) as u64;
        for step in 0..200_000 {
            let tag = dice.below(range);
            let set = real.set_of(tag);
            assert_eq!(set, naive.set_of(tag));
            let there = naive.find(set, |&held| held == tag);
            match dice.below(40) {
                0 => {
                    if let Some(slot) = real.find(set, tag) {
                        real.remove(slot);
                    }
                    naive.remove_if(|&held| held == tag);
                }
                1 if step % 997 == 0 => {
                    real.clear();
                    naive.remove_if(|_| true);
                }
                2..20 => {
                    assert_eq!(real.find(set, tag).is_some(), there.is_some());
                }
                _ => {
                    let hit = real.hit(set, tag);
                    assert_eq!(hit.is_some(), there.is_some(), "step {step}");
                    if let Some(way) = there {
                        naive.used(set, way);
                    } else {
                        let (slot, old) = real.insert(set, tag);
                        assert_eq!(old, naive.put(set, tag), "step {step}");
                        assert_eq!(real.tag(slot), Some(tag));
                    }
                }
            }
        }
    }
}
