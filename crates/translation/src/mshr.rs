// SPDX-License-Identifier: GPL-2.0-or-later
//! Miss status holding registers: how many misses a cache can have under way.

/// The registers of a core's caches, or of a cache that several cores share.
#[derive(Clone, Debug)]
pub struct Mshrs {
    limit: usize,
    /// A register that stays taken for longer than this from now was taken at another core's
    /// clock, which runs ahead by a time slice of the source: it is not taken *now*.
    horizon: u64,
    /// When each taken register becomes free.
    free: Vec<u64>,
}

impl Mshrs {
    /// `limit` registers (at least one). `horizon` is the longest time, in ticks, that a miss can
    /// be under way; of a single core's registers it does not matter.
    pub fn new(limit: usize, horizon: u64) -> Self {
        Self {
            limit: limit.max(1),
            horizon,
            free: Vec::with_capacity(limit),
        }
    }

    /// How many ticks from `now` until a register is free.
    pub fn wait(&mut self, now: u64) -> u64 {
        let last = now.saturating_add(self.horizon);
        self.free.retain(|&free| free > now && free <= last);
        // Filled by waiting requests there may be more than registers: each waits its turn.
        match self.free.len().checked_sub(self.limit) {
            None => 0,
            Some(late) => {
                let (_, &mut first, _) = self.free.select_nth_unstable(late);
                first - now
            }
        }
    }

    /// One is taken until then.
    pub fn take(&mut self, until: u64) {
        self.free.push(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_the_first_register_that_becomes_free() {
        let mut mshrs = Mshrs::new(2, u64::MAX);
        assert_eq!(mshrs.wait(0), 0);
        mshrs.take(100);
        assert_eq!(mshrs.wait(10), 0);
        mshrs.take(70);
        assert_eq!(mshrs.wait(20), 50);
        // It takes the one that is free at 70; the next waits for the one that is free at 100.
        mshrs.take(170);
        assert_eq!(mshrs.wait(20), 80);
        assert_eq!(mshrs.wait(69), 31);
        assert_eq!(mshrs.wait(70), 30);
        assert_eq!(mshrs.wait(100), 0);
    }

    #[test]
    fn what_another_clock_took_in_its_future_is_free() {
        let mut mshrs = Mshrs::new(1, 200);
        mshrs.take(10_000);
        assert_eq!(mshrs.wait(9_900), 100);
        assert_eq!(mshrs.wait(50), 0);
    }

    /// Against a simulation of each register by itself.
    #[test]
    fn random_misses_agree_with_registers_one_by_one() {
        let mut state = 1u64;
        let mut dice = |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % sides
        };
        for limit in [1, 3, 16] {
            let mut mshrs = Mshrs::new(limit, u64::MAX);
            let mut registers = vec![0u64; limit];
            let mut now = 0;
            for step in 0..500_000 {
                // Now and then the queue that more requests than registers make is let go.
                now += if step % 1_000 == 0 {
                    1_000_000
                } else {
                    dice(30)
                };
                let took = 1 + dice(200);
                let register = registers.iter_mut().min().unwrap();
                let begins = now.max(*register);
                assert_eq!(mshrs.wait(now), begins - now);
                mshrs.take(begins + took);
                *register = begins + took;
            }
        }
    }
}
