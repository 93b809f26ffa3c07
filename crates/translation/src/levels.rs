// SPDX-License-Identifier: GPL-2.0-or-later
//! One value per level of TLB, for any number of levels.
//!
//! The first two levels stand apart from the others: most machines have no more, and nearly every access
//! ends there, so their values are found without a pointer.

use crate::tally::Tally;
use serde::{Serialize, Serializer};
use std::iter::Chain;
use std::ops::{Index, IndexMut};
use std::slice::{Iter, IterMut};

/// Levels that stand apart.
const FRONT: usize = 2;

/// One value per level, the first at index 0. A level that was never written has the default, and
/// is not to be read by index ([`Self::get`] says that there is none).
#[derive(Clone, Debug)]
pub struct Levels<T> {
    /// At least one.
    count: usize,
    front: [T; FRONT],
    behind: Vec<T>,
}

impl<T: Default> Default for Levels<T> {
    fn default() -> Self {
        Self::from_fn(1, |_| T::default())
    }
}

impl<T> Levels<T> {
    /// `count` levels, at least one, each with what `value` says of it.
    pub fn from_fn(count: usize, mut value: impl FnMut(usize) -> T) -> Self
    where
        T: Default,
    {
        let count = count.max(1);
        Self {
            count,
            front: std::array::from_fn(|level| match level < count {
                true => value(level),
                false => T::default(),
            }),
            behind: (FRONT..count).map(value).collect(),
        }
    }

    /// How many levels there are, at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The value of a level, if there is such a level.
    pub fn get(&self, level: usize) -> Option<&T> {
        (level < self.count).then(|| &self[level])
    }

    /// All values, the first level's first.
    pub fn iter(&self) -> Chain<Iter<'_, T>, Iter<'_, T>> {
        let front = self.count.min(FRONT);
        self.front[..front].iter().chain(&self.behind)
    }

    /// All values, to be changed.
    pub fn iter_mut(&mut self) -> Chain<IterMut<'_, T>, IterMut<'_, T>> {
        let front = self.count.min(FRONT);
        self.front[..front].iter_mut().chain(&mut self.behind)
    }
}

impl<T> Index<usize> for Levels<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, level: usize) -> &T {
        match level < FRONT {
            true => &self.front[level],
            false => &self.behind[level - FRONT],
        }
    }
}

impl<T: Clone + Default> IndexMut<usize> for Levels<T> {
    #[inline(always)]
    fn index_mut(&mut self, level: usize) -> &mut T {
        if level > 0 && level >= self.count {
            self.grow(level + 1);
        }
        match level < FRONT {
            true => &mut self.front[level],
            false => &mut self.behind[level - FRONT],
        }
    }
}

impl<T: Clone + Default> Levels<T> {
    #[cold]
    fn grow(&mut self, count: usize) {
        self.count = count;
        let behind = count.saturating_sub(FRONT);
        self.behind.resize(behind, T::default());
    }
}

/// Levels that one of the two lacks count as the default.
impl<T: Default + PartialEq> PartialEq for Levels<T> {
    fn eq(&self, other: &Self) -> bool {
        let none = T::default();
        let count = self.len().max(other.len());
        (0..count)
            .all(|level| self.get(level).unwrap_or(&none) == other.get(level).unwrap_or(&none))
    }
}

impl<T: Default + Eq> Eq for Levels<T> {}

impl<T: Clone + Default + Tally> Tally for Levels<T> {
    fn add_since(&mut self, new: &Self, old: &Self) {
        let none = T::default();
        for (level, new) in new.iter().enumerate() {
            self[level].add_since(new, old.get(level).unwrap_or(&none));
        }
    }
}

impl<T: Serialize> Serialize for Levels<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_were_never_written_are_the_default() {
        let mut some = Levels::<u64>::default();
        some[11] = 3;
        assert_eq!((some.len(), some[4], some.get(12)), (12, 0, None));
        some[11] = 0;
        assert_eq!(some, Levels::default());
    }

    #[test]
    fn sums_have_the_levels_of_what_is_added() {
        let old = Levels::from_fn(2, |level| level as u64);
        let new = Levels::from_fn(3, |level| 10 * level as u64);
        let mut sum = Levels::from_fn(1, |_| 1);
        sum.add_since(&new, &old);
        assert_eq!(sum.iter().copied().collect::<Vec<u64>>(), [1, 10 - 1, 20]);
    }
}
