// SPDX-License-Identifier: GPL-2.0-or-later
use super::Dice;
use crate::assoc::Assoc;
use crate::order::Policy;

/// Sets as lists of tags, the next victim first.
struct Naive {
    ways: usize,
    lru: bool,
    sets: Vec<Vec<u64>>,
}

impl Naive {
    fn hit(&mut self, set: usize, tag: u64) -> bool {
        let list = &mut self.sets[set];
        let Some(place) = list.iter().position(|&held| held == tag) else {
            return false;
        };
        if self.lru {
            let tag = list.remove(place);
            list.push(tag);
        }
        true
    }

    fn insert(&mut self, set: usize, tag: u64) -> Option<u64> {
        let list = &mut self.sets[set];
        let old = (list.len() == self.ways).then(|| list.remove(0));
        list.push(tag);
        old
    }
}

#[test]
fn two_million_random_steps_agree_with_lists() {
    for (policy, sets, ways) in [
        (Policy::Lru, 1, 1),
        (Policy::Lru, 16, 8),
        (Policy::Lru, 4, 12),
        (Policy::Lru, 1, 24),
        (Policy::Fifo, 8, 4),
        (Policy::Fifo, 1, 32),
    ] {
        let mut real = Assoc::new(sets * ways, ways, policy);
        let lru = policy == Policy::Lru;
        let mut naive = Naive {
            ways,
            lru,
            sets: vec![Vec::new(); sets],
        };
        let mut dice = Dice::new((sets * ways) as u64);
        let range = (sets * ways * 3) as u64;
        for step in 0..350_000 {
            let tag = dice.below(range);
            let set = real.set_of(tag);
            assert_eq!(set, tag as usize % sets);
            match dice.below(40) {
                0 => {
                    if let Some(slot) = real.find(set, tag) {
                        real.remove(slot);
                    }
                    naive.sets[set].retain(|&held| held != tag);
                }
                1 if step % 997 == 0 => {
                    real.clear();
                    naive.sets.iter_mut().for_each(Vec::clear);
                }
                2..20 => {
                    assert_eq!(
                        real.find(set, tag).is_some(),
                        naive.sets[set].contains(&tag)
                    );
                }
                _ => {
                    let hit = real.hit(set, tag);
                    assert_eq!(hit.is_some(), naive.hit(set, tag), "step {step}");
                    if hit.is_none() {
                        let (slot, old) = real.insert(set, tag);
                        assert_eq!(old, naive.insert(set, tag), "step {step}");
                        assert_eq!(real.tag(slot), Some(tag));
                    }
                }
            }
        }
    }
}
