// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets of ways and which way goes next, as plainly as can be: what the references of TLBs, caches
//! and walk caches are made of, here and in `tests/model/`. Nothing of the model is used in it.

/// Which way goes, in a description's words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    Lru,
    Fifo,
    Plru,
    Random,
}

/// The tree of pseudo-LRU as nested halves: each remembers which side was used last.
#[derive(Clone)]
pub enum Tree {
    Leaf(usize),
    Node {
        left_was_last: bool,
        left: Box<Tree>,
        right: Box<Tree>,
    },
}

impl Tree {
    pub fn new(ways: std::ops::Range<usize>) -> Self {
        if ways.len() == 1 {
            return Self::Leaf(ways.start);
        }
        let middle = ways.start + ways.len() / 2;
        let (left, right) = (ways.start..middle, middle..ways.end);
        // At first everything points left, so the right side counts as used last.
        Self::Node {
            left_was_last: false,
            left: Box::new(Self::new(left)),
            right: Box::new(Self::new(right)),
        }
    }

    fn holds(&self, way: usize) -> bool {
        match self {
            Self::Leaf(mine) => *mine == way,
            Self::Node { left, right, .. } => left.holds(way) || right.holds(way),
        }
    }

    pub fn used(&mut self, way: usize) {
        if let Self::Node {
            left_was_last,
            left,
            right,
        } = self
        {
            *left_was_last = left.holds(way);
            let side = if *left_was_last { left } else { right };
            side.used(way);
        }
    }

    pub fn victim(&self) -> usize {
        match self {
            Self::Leaf(way) => *way,
            Self::Node {
                left_was_last: true,
                right,
                ..
            } => right.victim(),
            Self::Node { left, .. } => left.victim(),
        }
    }
}

/// Vigna's xorshift64*, of which the upper 32 bits are a fraction of the ways.
#[derive(Clone)]
pub struct Draws(u64);

impl Draws {
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub fn way(&mut self, ways: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let upper = self.0.wrapping_mul(2_685_821_657_736_338_717) / (1 << 32);
        (upper * ways as u64 / (1 << 32)) as usize
    }
}

/// What is known of the ways of a set.
#[derive(Clone)]
enum Known {
    /// LRU and FIFO: the ways, the next to go first.
    List(Vec<usize>),
    Tree(Tree),
    Nothing,
}

/// An array: sets of ways, and one sequence of draws for all of them.
#[derive(Clone)]
pub struct Sets<T> {
    turn: Turn,
    pub ways: Vec<Vec<Option<T>>>,
    known: Vec<Known>,
    draws: Draws,
}

impl<T> Sets<T> {
    pub fn new(entries: usize, ways: usize, turn: Turn) -> Self {
        let known = || match turn {
            Turn::Lru | Turn::Fifo => Known::List((0..ways).collect()),
            Turn::Plru => Known::Tree(Tree::new(0..ways)),
            Turn::Random => Known::Nothing,
        };
        let empty = || (0..ways).map(|_| None).collect();
        Self {
            turn,
            ways: (0..entries / ways).map(|_| empty()).collect(),
            known: (0..entries / ways).map(|_| known()).collect(),
            draws: Draws::new(),
        }
    }

    /// The set that a number falls into.
    pub fn set_of(&self, number: u64) -> usize {
        (number % self.ways.len() as u64) as usize
    }

    pub fn way(&mut self, set: usize, way: usize) -> &mut Option<T> {
        &mut self.ways[set][way]
    }

    /// The first way of a set with such an entry.
    pub fn find(&self, set: usize, which: impl Fn(&T) -> bool) -> Option<usize> {
        self.ways[set]
            .iter()
            .position(|way| way.as_ref().is_some_and(&which))
    }

    /// An entry was used. FIFO does not care.
    pub fn used(&mut self, set: usize, way: usize) {
        if self.turn != Turn::Fifo {
            self.last(set, way);
        }
    }

    fn last(&mut self, set: usize, way: usize) {
        match &mut self.known[set] {
            Known::List(ways) => {
                ways.retain(|&other| other != way);
                ways.push(way);
            }
            Known::Tree(tree) => tree.used(way),
            Known::Nothing => {}
        }
    }

    /// Puts an entry into the first empty way, or else into that of the next to go, which is given.
    pub fn put(&mut self, set: usize, entry: T) -> Option<T> {
        let empty = self.ways[set].iter().position(Option::is_none);
        let way = empty.unwrap_or_else(|| match &self.known[set] {
            Known::List(ways) => ways[0],
            Known::Tree(tree) => tree.victim(),
            Known::Nothing => self.draws.way(self.ways[set].len()),
        });
        self.last(set, way);
        self.ways[set][way].replace(entry)
    }

    /// Empties the ways with such an entry: how many.
    pub fn remove_if(&mut self, which: impl Fn(&T) -> bool) -> u64 {
        let mut removed = 0;
        for way in self.ways.iter_mut().flatten() {
            if way.as_ref().is_some_and(&which) {
                *way = None;
                removed += 1;
            }
        }
        removed
    }
}
