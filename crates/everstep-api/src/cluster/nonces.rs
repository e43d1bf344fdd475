//! Remembers what was let in, so that nothing is let in twice.

use std::collections::{BTreeMap, HashSet};

use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::cluster::signature::WINDOW;

/// Nonces that are remembered at once: about a minute of eight thousand requests a second.
const MOST: usize = 500_000;

/// The nonces of the requests that would still be timely, by the second of their time.
#[derive(Default)]
pub(super) struct Nonces {
    seconds: BTreeMap<i64, HashSet<Uuid>>,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Fresh,
    Replayed,
    /// There is no room to remember it, so it is not let in.
    Full,
}

impl Nonces {
    /// Lets a timely request in once. `time` is when it was signed.
    pub(super) fn enter(&mut self, nonce: Uuid, time: Timestamp, now: Timestamp) -> Entry {
        let window = i64::try_from(WINDOW.as_secs()).expect("a short time");
        // What is older is not timely any more, so it need not be remembered.
        let kept = self.seconds.split_off(&(second(now) - window - 1));
        let forgotten = std::mem::replace(&mut self.seconds, kept);
        self.count -= forgotten.values().map(HashSet::len).sum::<usize>();
        let nonces = self.seconds.entry(second(time)).or_default();
        if nonces.contains(&nonce) {
            return Entry::Replayed;
        }
        if self.count >= MOST {
            return Entry::Full;
        }
        nonces.insert(nonce);
        self.count += 1;
        Entry::Fresh
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
        assert_eq!(nonces.enter(nonce, at(100), at(70)), Entry::Fresh);
        for now in [70, 100, 130] {
            assert_eq!(nonces.enter(nonce, at(100), at(now)), Entry::Replayed, "{now}");
        }
        assert_eq!(nonces.enter(Uuid::from_u128(2), at(100), at(100)), Entry::Fresh);
        assert_eq!(nonces.count, 2);
    }

    #[test]
    fn what_is_not_timely_any_more_is_forgotten() {
        let mut nonces = Nonces::default();
        for n in 0..100 {
            nonces.enter(Uuid::from_u128(n), at(100), at(100));
        }
        assert_eq!(nonces.count, 100);
        nonces.enter(Uuid::from_u128(1_000), at(140), at(140));
        assert_eq!((nonces.count, nonces.seconds.len()), (1, 1));
    }

    #[test]
    fn when_nothing_can_be_remembered_nothing_is_let_in() {
        let mut nonces = Nonces { count: MOST, ..Nonces::default() };
        assert_eq!(nonces.enter(Uuid::from_u128(1), at(100), at(100)), Entry::Full);
        nonces.count = 0;
        assert_eq!(nonces.enter(Uuid::from_u128(1), at(100), at(100)), Entry::Fresh);
    }
}
