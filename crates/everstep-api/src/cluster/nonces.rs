//! Remembers the nonces of accepted requests, so that no request is accepted twice.

use std::collections::{BTreeMap, HashSet};

use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::cluster::signature::CLOCK_SKEW_MAX;

/// Nonces in memory: about a minute of eight thousand requests a second.
const NONCES_MAX: usize = 500_000;

/// The nonces of requests that are still timely, by the second of their time.
#[derive(Default)]
pub(super) struct Nonces {
    seconds: BTreeMap<i64, HashSet<Uuid>>,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Fresh,
    Replayed,
    /// There is no room to store it, so the request is rejected.
    Full,
}

impl Nonces {
    /// Accepts a timely request once. `time` is when it was signed.
    pub(super) fn admit(&mut self, nonce: Uuid, time: Timestamp, now: Timestamp) -> Admission {
        let window = i64::try_from(CLOCK_SKEW_MAX.as_secs()).expect("a short time");
        // An older request is not timely, so its nonce need not be stored.
        let kept = self.seconds.split_off(&(second(now) - window - 1));
        let forgotten = std::mem::replace(&mut self.seconds, kept);
        self.count -= forgotten.values().map(HashSet::len).sum::<usize>();
        let nonces = self.seconds.entry(second(time)).or_default();
        if nonces.contains(&nonce) {
            return Admission::Replayed;
        }
        if self.count >= NONCES_MAX {
            return Admission::Full;
        }
        nonces.insert(nonce);
        self.count += 1;
        Admission::Fresh
    }
}

fn second(time: Timestamp) -> i64 {
    time.millis().div_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_nonce_enters_once_while_its_time_is_timely() {
        let mut nonces = Nonces::default();
        let nonce = Uuid::from_u128(1);
        assert_eq!(nonces.admit(nonce, at(100), at(70)), Admission::Fresh);
        for now in [70, 100, 130] {
            assert_eq!(nonces.admit(nonce, at(100), at(now)), Admission::Replayed, "{now}");
        }
        assert_eq!(nonces.admit(Uuid::from_u128(2), at(100), at(100)), Admission::Fresh);
        assert_eq!(nonces.count, 2);
    }

    #[test]
    fn old_nonces_are_removed() {
        let mut nonces = Nonces::default();
        for n in 0..100 {
            nonces.admit(Uuid::from_u128(n), at(100), at(100));
        }
        assert_eq!(nonces.count, 100);
        nonces.admit(Uuid::from_u128(1_000), at(140), at(140));
        assert_eq!((nonces.count, nonces.seconds.len()), (1, 1));
    }

    #[test]
    fn when_nothing_can_be_remembered_nothing_is_let_in() {
        let mut nonces = Nonces { count: NONCES_MAX, ..Nonces::default() };
        assert_eq!(nonces.admit(Uuid::from_u128(1), at(100), at(100)), Admission::Full);
        nonces.count = 0;
        assert_eq!(nonces.admit(Uuid::from_u128(1), at(100), at(100)), Admission::Fresh);
    }
}
