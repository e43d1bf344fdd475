//! Limits the rate of requests of a key with a token bucket: it is filled at the key's rate, and a request takes one
//! token.
//!
//! Each node counts only the requests that it receives.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// The capacity of a bucket: the tokens of this many seconds, so that a burst is allowed.
const BURST_SECONDS: f64 = 2.0;
/// Buckets in memory. A full bucket has the same effect as none, so full buckets are removed first.
const BUCKETS_MAX: usize = 10_000;
/// The search for full buckets is slow, so it happens at most this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Counts requests per key.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// The rate limit of a key without its own limit; 0 for no limit.
    default_rate: u32,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_key: HashMap<Uuid, Bucket>,
    /// When full buckets were last removed to make room.
    swept_at: Option<Instant>,
}

impl Buckets {
    /// Whether there is room for one more bucket.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= SWEEP_INTERVAL;
        if self.by_key.len() >= BUCKETS_MAX && self.swept_at.is_none_or(is_late) {
            self.by_key.retain(|_, bucket| !bucket.is_full(now));
            self.swept_at = Some(now);
        }
        self.by_key.len() < BUCKETS_MAX
    }
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    rate: f64,
    at: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let refill = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + refill).min(self.rate * BURST_SECONDS);
        self.at = now;
    }

    fn is_full(&self, now: Instant) -> bool {
        let refill = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.tokens + refill >= self.rate * BURST_SECONDS
    }
}

impl RateLimiter {
    pub(crate) fn new(default_rate: u32) -> Self {
        Self { default_rate, buckets: Mutex::default() }
    }

    /// Whether a key's own limit is not higher than the default limit.
    pub(crate) fn is_within(&self, own: Option<u32>) -> bool {
        match own {
            None => true,
            Some(own) => self.default_rate == 0 || (1..=self.default_rate).contains(&own),
        }
    }

    /// Counts one request of a key, or returns the time to wait before the next one.
    pub(crate) fn count_request(&self, key: Uuid, own: Option<u32>, now: Instant) -> Result<(), Duration> {
        let rate = match own.unwrap_or(self.default_rate) {
            0 => return Ok(()),
            rate => f64::from(rate),
        };
        let mut buckets = self.buckets.lock().expect("no holder of the lock panics");
        // More keys are busy than there are buckets: the request is not limited.
        if !buckets.by_key.contains_key(&key) && !buckets.make_room(now) {
            return Ok(());
        }
        let bucket = buckets.by_key.entry(key).or_insert(Bucket { tokens: rate * BURST_SECONDS, rate, at: now });
        bucket.fill(now);
        // A changed limit applies from now on.
        bucket.rate = rate;
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) / rate));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let (limiter, key, start) = (RateLimiter::new(10), Uuid::from_u128(1), Instant::now());
        let take = |millis| limiter.count_request(key, None, start + Duration::from_millis(millis));
        assert_eq!((0..30).filter(|_| take(0).is_ok()).count(), 20);
        assert_eq!(take(0), Err(Duration::from_millis(100)));
        assert_eq!((0..30).filter(|_| take(500).is_ok()).count(), 5);
        // An idle key accumulates no more than a burst.
        assert_eq!((0..90).filter(|_| take(60_000).is_ok()).count(), 20);
    }

    #[test]
    fn keys_do_not_share_and_their_own_limit_wins() {
        let (limiter, now) = (RateLimiter::new(1), Instant::now());
        let let_through =
            |key, own| (0..100).filter(|_| limiter.count_request(Uuid::from_u128(key), own, now).is_ok()).count();
        assert_eq!(let_through(1, None), 2);
        assert_eq!(let_through(2, None), 2);
        assert_eq!(let_through(3, Some(5)), 10);
        assert_eq!(let_through(4, Some(0)), 100);
        assert_eq!(
            (0..100).filter(|_| RateLimiter::new(0).count_request(Uuid::from_u128(1), None, now).is_ok()).count(),
            100
        );
    }

    #[test]
    fn a_limit_of_its_own_may_be_more_than_usual() {
        let limiter = RateLimiter::new(10);
        assert!([None, Some(1), Some(10)].into_iter().all(|own| limiter.is_within(own)));
        assert!(![Some(0), Some(11)].into_iter().any(|own| limiter.is_within(own)));
        assert!(RateLimiter::new(0).is_within(Some(0)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (limiter, start) = (RateLimiter::new(10), Instant::now());
        for key in 0..3 * BUCKETS_MAX as u128 {
            limiter.count_request(Uuid::from_u128(key), None, start).unwrap();
        }
        assert_eq!(limiter.buckets.lock().unwrap().by_key.len(), BUCKETS_MAX);
        // Idle keys make room.
        limiter.count_request(Uuid::from_u128(u128::MAX), None, start + Duration::from_secs(1)).unwrap();
        assert_eq!(limiter.buckets.lock().unwrap().by_key.len(), 1);
    }
}
