// SPDX-License-Identifier: GPL-2.0-or-later
//! Streams of addresses, the same in every run.

use translation::AccessKind;

/// Where the data of all streams begin.
pub const DATA: u64 = 0x7f00_0000_0000;

/// NumPy's default generator: PCG64 (XSL-RR), seeded by its `SeedSequence`, so that a stream that
/// was made with it for another simulator can be made again here.
pub struct Numpy {
    state: u128,
    increment: u128,
    half: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

impl Numpy {
    /// `numpy.random.default_rng(seed)`.
    pub fn new(seed: u32) -> Self {
        let words = seed_sequence(seed);
        let wide = |at: usize| {
            let word = |at: usize| u128::from(words[at]) | u128::from(words[at + 1]) << 32;
            word(at) << 64 | word(at + 2)
        };
        let mut generator = Self {
            state: 0,
            increment: wide(4) << 1 | 1,
            half: None,
        };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(0));
        generator.step();
        generator
    }

    fn step(&mut self) {
        let product = self.state.wrapping_mul(MULTIPLIER);
        self.state = product.wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_half(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let next = self.next();
        self.half = Some((next >> 32) as u32);
        next as u32
    }

    /// `integers(0, end)` for an end that is a power of two of at most 32 bits.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end.is_power_of_two() && end <= 1 << 31);
        (u64::from(self.next_half()) * end) >> 32
    }
}

/// The first eight words of `SeedSequence(seed).generate_state`.
fn seed_sequence(seed: u32) -> [u32; 8] {
    const MULTIPLY_A: u32 = 0x931e_8875;
    const MULTIPLY_B: u32 = 0x58f3_8ded;
    let mut constant = 0x43b0_d7e5u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(MULTIPLY_A);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mix = |x: u32, y: u32| {
        let mixed = x
            .wrapping_mul(0xca01_f9dd)
            .wrapping_sub(y.wrapping_mul(0x4973_f715));
        mixed ^ mixed >> 16
    };
    let mut pool = [hash(seed), hash(0), hash(0), hash(0)];
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                pool[to] = mix(pool[to], hash(pool[from]));
            }
        }
    }
    let mut constant = 0x8b51_f9ddu32;
    std::array::from_fn(|number| {
        let value = pool[number % 4] ^ constant;
        constant = constant.wrapping_mul(MULTIPLY_B);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    })
}

/// xorshift64*.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A stream: what kind of access, and where.
pub type Stream = Vec<(AccessKind, u64)>;

/// Lines of 3 MB, again and again.
pub fn strided64(count: u64) -> Stream {
    let at = |i| DATA + i * 64 % (3 << 20);
    (0..count).map(|i| (AccessKind::Read, at(i))).collect()
}

/// A page and a line further each time, over 1,024 pages.
pub fn strided4160(count: u64) -> Stream {
    let at = |i| DATA + i * 4160 % (4160 * 1024);
    (0..count).map(|i| (AccessKind::Read, at(i))).collect()
}

/// Words of 64 MB, each as likely as any other.
pub fn random64m(count: u64) -> Stream {
    let mut numpy = Numpy::new(20_240_607);
    let mut at = || DATA + (numpy.below(64 << 20) >> 3 << 3);
    (0..count).map(|_| (AccessKind::Read, at())).collect()
}

/// Words of pages of which few are used often: the lower of two draws, twice.
pub fn skewed(count: u64, pages: u64, stores: bool) -> Stream {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut one = || {
        let page = (0..4).map(|_| dice.below(pages)).min().unwrap_or(0);
        let vaddr = DATA + page * 4096 + dice.below(512) * 8;
        match stores && dice.below(10) < 3 {
            true => (AccessKind::Write, vaddr),
            false => (AccessKind::Read, vaddr),
        }
    };
    (0..count).map(|_| one()).collect()
}

/// A walk over nodes of a line each, in an order that a permutation gives.
pub fn chase(count: u64, nodes: u64) -> Stream {
    let mut order: Vec<u64> = (0..nodes).collect();
    let mut dice = Dice(0xfeed_beef);
    for last in (1..nodes).rev() {
        order.swap(last as usize, dice.below(last + 1) as usize);
    }
    let at = |i: u64| DATA + order[(i % nodes) as usize] * 64;
    (0..count).map(|i| (AccessKind::Read, at(i))).collect()
}
