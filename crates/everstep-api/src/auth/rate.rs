//! How many requests a key may send. A bucket per key is filled at the key's rate; a request takes one drop.
//!
//! Each node counts what it is asked itself.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// A bucket holds what flows into it in this time, so that a burst is let through.
const BURST: f64 = 2.0;
/// Buckets that are kept at once. A full one says no more than none, and is forgotten first.
const MOST: usize = 10_000;
/// Looking for full buckets takes a while, so it is done this often at most.
const SWEEP: Duration = Duration::from_secs(1);

/// Counts requests per key.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Requests per second of a key without a limit of its own; 0 for none.
    usual: u32,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    of_keys: HashMap<Uuid, Bucket>,
    /// When full buckets were last forgotten, for want of room.
    swept_at: Option<Instant>,
}

impl Buckets {
    /// Whether there is room for one more.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= SWEEP;
        if self.of_keys.len() >= MOST && self.swept_at.is_none_or(is_late) {
            self.of_keys.retain(|_, bucket| !bucket.is_full(now));
            self.swept_at = Some(now);
        }
        self.of_keys.len() < MOST
    }
}

#[derive(Debug)]
struct Bucket {
    drops: f64,
    rate: f64,
    at: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let flown = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.drops = (self.drops + flown).min(self.rate * BURST);
        self.at = now;
    }

    fn is_full(&self, now: Instant) -> bool {
        let flown = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.drops + flown >= self.rate * BURST
    }
}

impl Limiter {
    pub(crate) fn new(usual: u32) -> Self {
        Self { usual, buckets: Mutex::default() }
    }

    /// Whether a limit of a key's own lets through no more than the usual one.
    pub(crate) fn is_within(&self, own: Option<u32>) -> bool {
        match own {
            None => true,
            Some(own) => self.usual == 0 || (1..=self.usual).contains(&own),
        }
    }

    /// Takes one request of a key into account, or says how long it has to wait.
    pub(crate) fn take(&self, key: Uuid, own: Option<u32>, now: Instant) -> Result<(), Duration> {
        let rate = match own.unwrap_or(self.usual) {
            0 => return Ok(()),
            rate => f64::from(rate),
        };
        let mut buckets = self.buckets.lock().expect("no holder of the lock panics");
        // So many busy keys at once are more than are counted.
        if !buckets.of_keys.contains_key(&key) && !buckets.make_room(now) {
            return Ok(());
        }
        let bucket = buckets.of_keys.entry(key).or_insert(Bucket { drops: rate * BURST, rate, at: now });
        bucket.fill(now);
        // A limit that was changed counts from now on.
        bucket.rate = rate;
        if bucket.drops < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.drops) / rate));
        }
        bucket.drops -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let (limiter, key, start) = (Limiter::new(10), Uuid::from_u128(1), Instant::now());
        let take = |millis| limiter.take(key, None, start + Duration::from_millis(millis));
        assert_eq!((0..30).filter(|_| take(0).is_ok()).count(), 20);
        assert_eq!(take(0), Err(Duration::from_millis(100)));
        assert_eq!((0..30).filter(|_| take(500).is_ok()).count(), 5);
        // However long it rests, it saves up no more than a burst.
        assert_eq!((0..90).filter(|_| take(60_000).is_ok()).count(), 20);
    }

    #[test]
    fn keys_do_not_share_and_their_own_limit_wins() {
        let (limiter, now) = (Limiter::new(1), Instant::now());
        let let_through = |key, own| (0..100).filter(|_| limiter.take(Uuid::from_u128(key), own, now).is_ok()).count();
        assert_eq!(let_through(1, None), 2);
        assert_eq!(let_through(2, None), 2);
        assert_eq!(let_through(3, Some(5)), 10);
        assert_eq!(let_through(4, Some(0)), 100);
        assert_eq!((0..100).filter(|_| Limiter::new(0).take(Uuid::from_u128(1), None, now).is_ok()).count(), 100);
    }

    #[test]
    fn a_limit_of_its_own_may_be_more_than_usual() {
        let limiter = Limiter::new(10);
        assert!([None, Some(1), Some(10)].into_iter().all(|own| limiter.is_within(own)));
        assert!(![Some(0), Some(11)].into_iter().any(|own| limiter.is_within(own)));
        assert!(Limiter::new(0).is_within(Some(0)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (limiter, start) = (Limiter::new(10), Instant::now());
        for key in 0..3 * MOST as u128 {
            limiter.take(Uuid::from_u128(key), None, start).unwrap();
        }
        assert_eq!(limiter.buckets.lock().unwrap().of_keys.len(), MOST);
        // Those that rest make room.
        limiter.take(Uuid::from_u128(u128::MAX), None, start + Duration::from_secs(1)).unwrap();
        assert_eq!(limiter.buckets.lock().unwrap().of_keys.len(), 1);
    }
}
