// SPDX-License-Identifier: GPL-2.0-or-later
use super::sets::Sets;
use super::{Dice, POLICIES, turn};
use crate::entry::Entry;
use crate::entry::attr;
use crate::replacement::Policy;
use crate::tlb::{Array, Tlb};

/// One array: sets of entries with the tag they are under.
struct NaiveArray {
    sizes: Vec<u32>,
    sets: Sets<(Entry, u16)>,
}

/// A TLB that knows nothing of keys and masks.
struct Naive(Vec<NaiveArray>);

fn matches(entry: &Entry, context: u16, vaddr: u64, asked: u16) -> bool {
    let inside = vaddr >= entry.page && vaddr - entry.page < 1 << entry.shift;
    inside && (entry.attr & attr::GLOBAL != 0 || context == asked)
}

impl Naive {
    fn new(arrays: &[Array]) -> Self {
        Self(
            arrays
                .iter()
                .map(|array| NaiveArray {
                    sizes: array.sizes.clone(),
                    sets: Sets::new(array.entries, array.ways, turn(array.policy)),
                })
                .collect(),
        )
    }

    fn entries(&self) -> impl Iterator<Item = &(Entry, u16)> {
        let sets = self.0.iter().flat_map(|array| &array.sets.ways);
        sets.flatten().flatten()
    }

    /// All that match; there may be several.
    fn all(&self, vaddr: u64, asked: u16) -> Vec<Entry> {
        let mine = self
            .entries()
            .filter(|(entry, context)| matches(entry, *context, vaddr, asked));
        mine.map(|(entry, _)| *entry).collect()
    }

    fn used(&mut self, entry: &Entry) {
        let array = self.array(entry.shift).unwrap();
        let set = array.sets.set_of(entry.page >> entry.shift);
        let way = array.sets.find(set, |(held, _)| held == entry).unwrap();
        array.sets.used(set, way);
    }

    fn array(&mut self, shift: u32) -> Option<&mut NaiveArray> {
        let mut arrays = self.0.iter_mut();
        arrays.find(|array| array.sizes.contains(&shift))
    }

    fn insert(&mut self, entry: Entry, context: u16) -> Option<(Entry, u16)> {
        let array = self.array(entry.shift)?;
        let set = array.sets.set_of(entry.page >> entry.shift);
        array.sets.put(set, (entry, context))
    }

    fn remove_if(&mut self, which: impl Fn(&Entry, u16) -> bool) -> u64 {
        let arrays = self.0.iter_mut();
        arrays
            .map(|array| array.sets.remove_if(|(entry, tag)| which(entry, *tag)))
            .sum()
    }

    fn sorted(&self) -> Vec<(u64, u64, u32, u16, u16)> {
        let mut all: Vec<_> = self.entries().map(|(entry, _)| key(entry)).collect();
        all.sort_unstable();
        all
    }
}

fn key(entry: &Entry) -> (u64, u64, u32, u16, u16) {
    (
        entry.page,
        entry.frame,
        entry.shift,
        entry.owner,
        entry.attr,
    )
}

fn array(sizes: &[u32], entries: usize, ways: usize, policy: Policy) -> Array {
    Array {
        sizes: sizes.to_vec(),
        entries,
        ways,
        policy,
    }
}

fn compare(arrays: &[Array], steps: u64, seed: u64) {
    let mut real = Tlb::new(arrays);
    let mut naive = Naive::new(arrays);
    let mut dice = Dice::new(seed);
    let sizes: Vec<u32> = arrays
        .iter()
        .flat_map(|array| array.sizes.clone())
        .collect();
    let mut serial = 0;
    for step in 0..steps {
        // A few places in each of several large pages.
        let page = dice.below(2) << 30 | dice.below(3) << 21 | dice.below(20) << 12;
        let vaddr = page | dice.below(4096);
        let context = dice.below(3) as u16;
        match dice.below(100) {
            0 => {
                let there =
                    |entry: &Entry, _: u16| vaddr >> entry.shift == entry.page >> entry.shift;
                let mine = |entry: &Entry, tag: u16| there(entry, tag) && tag == context;
                assert_eq!(
                    real.remove_page(vaddr, |_, tag| tag == context),
                    naive.remove_if(mine),
                    "step {step}"
                );
            }
            1 => {
                let drop = |entry: &Entry, tag: u16| {
                    tag == context && entry.attr & attr::GLOBAL == 0 && entry.owner % 4 == 0
                };
                assert_eq!(real.remove_if(drop), naive.remove_if(drop), "step {step}");
            }
            2 if step % 50 == 0 => {
                assert_eq!(real.clear(), naive.remove_if(|_, _| true));
            }
            _ => {
                let expected = naive.all(vaddr, context);
                let probe = Tlb::probe(vaddr, context);
                if let Some(slot) = real.guess(vaddr, probe) {
                    let guessed = real.entry(slot).unwrap();
                    assert!(expected.contains(&guessed), "step {step}: a wrong guess");
                }
                let found = real.find(vaddr, probe, |_, _| true);
                assert_eq!(found.is_some(), !expected.is_empty(), "step {step}");
                if let Some(slot) = found {
                    let entry = real.entry(slot).unwrap();
                    assert!(expected.contains(&entry), "step {step}");
                    let offset = vaddr & ((1 << entry.shift) - 1);
                    assert_eq!(real.translate(slot, vaddr), entry.frame + offset);
                    real.used(slot);
                    naive.used(&entry);
                } else {
                    serial += 1;
                    let size = sizes[dice.below(sizes.len() as u64) as usize];
                    let global = dice.below(10) == 0;
                    let entry = Entry {
                        page: vaddr >> size << size,
                        frame: serial << 30,
                        shift: size,
                        attr: if global { attr::GLOBAL } else { attr::WRITE },
                        owner: (serial % 1000) as u16,
                        extra: serial as u32,
                    };
                    // A global entry is held under no tag.
                    let tag = if global { 0 } else { context };
                    assert_eq!(
                        real.insert(&entry, tag),
                        naive.insert(entry, tag),
                        "step {step}"
                    );
                }
            }
        }
        if step % 4096 == 0 {
            let mut all: Vec<_> = real.entries().map(|entry| key(&entry)).collect();
            all.sort_unstable();
            assert_eq!(all, naive.sorted(), "step {step}");
        }
    }
}

#[test]
fn random_steps_agree_with_lists_in_split_arrays() {
    let arrays = [
        array(&[12], 64, 4, Policy::Lru),
        array(&[21], 4, 2, Policy::Lru),
        array(&[30], 2, 2, Policy::Lru),
    ];
    compare(&arrays, 500_000, 1);
}

#[test]
fn random_steps_agree_with_lists_where_sizes_share_sets() {
    compare(&[array(&[12, 21], 32, 4, Policy::Lru)], 300_000, 2);
    compare(&[array(&[12, 21, 30], 32, 2, Policy::Fifo)], 300_000, 3);
}

#[test]
fn random_steps_agree_with_lists_when_fully_associative() {
    compare(&[array(&[12, 21, 30], 24, 24, Policy::Lru)], 400_000, 4);
    compare(&[array(&[12, 21], 16, 16, Policy::Fifo)], 400_000, 5);
}

#[test]
fn random_steps_agree_with_lists_whichever_way_goes() {
    for (policy, _) in POLICIES {
        // Split by size, sets that sizes share, and no sets at all.
        let split = [
            array(&[12], 32, 4, policy),
            array(&[21], 4, 2, policy),
            array(&[30], 2, 2, policy),
        ];
        compare(&split, 60_000, 6);
        compare(&[array(&[12, 21], 32, 4, policy)], 60_000, 7);
        compare(&[array(&[12, 21, 30], 16, 16, policy)], 60_000, 8);
    }
}

#[test]
fn a_large_page_is_held_in_pieces_of_the_largest_size_there_is() {
    let tlb = Tlb::new(&[
        array(&[12, 16], 16, 4, Policy::Lru),
        array(&[21], 4, 4, Policy::Lru),
    ]);
    assert_eq!(tlb.size_for(12), Some(12));
    assert_eq!(tlb.size_for(20), Some(16));
    assert_eq!(tlb.size_for(30), Some(21));
    let only_large = Tlb::new(&[array(&[21], 4, 4, Policy::Lru)]);
    assert_eq!(only_large.size_for(12), None);
}
