// SPDX-License-Identifier: GPL-2.0-or-later
//! Things of which there are a few and which a request takes for a time: miss status holding
//! registers, page walkers, places of a store buffer.
//!
//! Requests come in program order, but need not begin in it: a load that waits for its address
//! begins long after one behind it that does not. So each place knows, beside the time when it is
//! free for good, one gap before it was last taken. How long a request takes is known only when it has
//! its place; one that takes longer than the gap delays whoever comes next.

/// One place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// It is free from `gap` to `from`, taken from there to `until`, then free again.
    gap: u64,
    from: u64,
    until: u64,
    /// What it is taken for.
    what: u64,
}

/// A place that was chosen: its number and the time from which it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    place: usize,
    /// When it is free, not before the time that was asked for.
    pub at: u64,
}

/// All places.
#[derive(Clone, Debug)]
pub struct Pool {
    places: Vec<Place>,
    /// Where to look first: behind the place that was taken last.
    next: usize,
    /// The longest wait that makes sense. Whoever would wait longer sees another core's future,
    /// whose clock runs ahead by a time slice of the source, and does not wait.
    horizon: u64,
}

impl Pool {
    /// `count` places (at least one).
    pub fn new(count: usize, horizon: u64) -> Self {
        Self {
            places: vec![Place::default(); count.max(1)],
            next: 0,
            horizon,
        }
    }

    /// The place that is free first at or after `time`.
    #[inline]
    pub fn claim(&self, time: u64) -> Claim {
        let count = self.places.len();
        let mut best = Claim {
            place: self.next,
            at: u64::MAX,
        };
        let (mut number, first) = (self.next, &self.places[self.next]);
        if first.until <= time {
            return Claim {
                place: number,
                at: time,
            };
        }
        for _ in 0..count {
            let place = &self.places[number];
            let in_gap = place.gap.max(time);
            let at = match in_gap < place.from {
                true => in_gap,
                false => place.until.max(time),
            };
            if at < best.at {
                best = Claim { place: number, at };
                if at == time {
                    break;
                }
            }
            number += 1;
            if number == count {
                number = 0;
            }
        }
        if best.at - time > self.horizon {
            best.at = time;
        }
        best
    }

    /// The claimed place is taken for `what` until then.
    #[inline]
    pub fn take(&mut self, claim: Claim, until: u64, what: u64) {
        let place = &mut self.places[claim.place];
        if claim.at >= place.until {
            place.gap = place.until;
            (place.from, place.until) = (claim.at, until);
            place.what = what;
        } else if claim.at < place.from {
            place.gap = until;
            // Where the gap is too short, what was to follow is delayed by as much.
            place.until += until.saturating_sub(place.from);
        }
        self.next = claim.place + 1;
        if self.next == self.places.len() {
            self.next = 0;
        }
    }

    /// Until when a place is taken for `what`, if one is at `time`.
    pub fn taken_for(&self, what: u64, time: u64) -> Option<u64> {
        let mut places = self.places.iter();
        let found = places.find(|place| place.what == what && place.until > time);
        found.map(|place| place.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pool: &mut Pool, time: u64, ticks: u64) -> u64 {
        let claim = pool.claim(time);
        pool.take(claim, claim.at + ticks, 0);
        claim.at
    }

    #[test]
    fn a_request_waits_for_the_first_place_that_becomes_free() {
        let mut pool = Pool::new(2, u64::MAX);
        assert_eq!(take(&mut pool, 0, 100), 0);
        assert_eq!(take(&mut pool, 10, 60), 10);
        assert_eq!(take(&mut pool, 20, 100), 70);
        assert_eq!(take(&mut pool, 20, 5), 100);
        assert_eq!(take(&mut pool, 20, 5), 105);
    }

    #[test]
    fn a_request_that_begins_earlier_takes_the_time_before_one_that_waits() {
        // GIVEN one place, taken from 1000 on for a load that waits for its address WHEN a load
        // behind it begins at 10 THEN it need not wait.
        let mut pool = Pool::new(1, u64::MAX);
        assert_eq!(take(&mut pool, 1000, 100), 1000);
        assert_eq!(take(&mut pool, 10, 100), 10);
        assert_eq!(take(&mut pool, 20, 100), 110);
        assert_eq!(take(&mut pool, 1000, 100), 1100);
    }

    #[test]
    fn a_request_longer_than_the_time_before_another_delays_what_follows() {
        // GIVEN one place, taken from 100 to 200 WHEN a request that begins at 50 takes 100 THEN the
        // place is free after both took their time, at 250, and not at 200.
        let mut pool = Pool::new(1, u64::MAX);
        assert_eq!(take(&mut pool, 100, 100), 100);
        assert_eq!(take(&mut pool, 50, 100), 50);
        assert_eq!(take(&mut pool, 60, 10), 250);
    }

    #[test]
    fn what_another_clock_took_in_its_future_is_free() {
        let mut pool = Pool::new(1, 200);
        for time in [9_800, 9_900] {
            assert_eq!(take(&mut pool, time, 100), time);
        }
        assert_eq!(pool.claim(9_850).at, 10_000);
        assert_eq!(pool.claim(9_700).at, 9_700);
    }

    #[test]
    fn what_is_under_way_is_found() {
        let mut pool = Pool::new(2, u64::MAX);
        let claim = pool.claim(5);
        pool.take(claim, 50, 7);
        assert_eq!(pool.taken_for(7, 49), Some(50));
        assert_eq!(pool.taken_for(7, 50), None);
        assert_eq!(pool.taken_for(8, 5), None);
    }

    /// Against a simulation of each place by itself, with requests that begin in order.
    #[test]
    fn random_requests_agree_with_places_one_by_one() {
        let mut state = 1u64;
        let mut dice = |sides: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % sides
        };
        for count in [1, 3, 16] {
            let mut pool = Pool::new(count, u64::MAX);
            let mut places = vec![0u64; count];
            let mut now = 0;
            for step in 0..500_000 {
                // Now and then the queue that more requests than places make is let go.
                now += if step % 1_000 == 0 {
                    1_000_000
                } else {
                    dice(30)
                };
                let took = 1 + dice(200);
                let place = places.iter_mut().min().unwrap();
                let begins = now.max(*place);
                assert_eq!(take(&mut pool, now, took), begins);
                *place = begins + took;
            }
        }
    }
}
