//! Limits the rate of requests with token buckets: a bucket is filled at its rate, and a request takes one token from
//! the bucket of its key or person, and one from that of its workspace.
//!
//! 1. A workspace has a bucket of its own, so that many keys do not multiply its share.
//! 2. A key with a limit above the server's default does not count against its workspace: an operator has granted it.
//! 3. When all buckets of a table are in use, the remaining callers share one.
//!
//! Each node counts only the requests that it receives.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// The capacity of a bucket: the tokens of this many seconds, so that a burst is allowed.
const BURST_SECONDS: f64 = 2.0;
/// Buckets in a table. A full bucket has the same effect as none, so full buckets are removed first.
const BUCKETS_MAX: usize = 10_000;
/// The search for full buckets is slow, so it happens at most this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The rate of a workspace, as a multiple of that of a key.
const WORKSPACE_RATE_FACTOR: u32 = 4;

/// Counts requests per key and per workspace.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// The rate limit of a key without its own limit; 0 for no limit.
    default_rate: u32,
    /// The rate limit of a workspace; 0 for no limit.
    workspace_rate: u32,
    tables: Mutex<Tables>,
}

/// The sender of a request, as the limiter counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    /// The key or the person.
    pub(crate) id: Uuid,
    pub(crate) workspace: Uuid,
    /// Requests per second, if the key has its own limit.
    pub(crate) own_rate: Option<u32>,
}

/// A request that is not allowed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// The time to wait before the next request.
    pub(crate) wait: Duration,
    pub(crate) bucket: BucketOwner,
}

/// The owner of an empty bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketOwner {
    Caller,
    Workspace,
}

#[derive(Debug, Default)]
struct Tables {
    callers: Table,
    workspaces: Table,
}

#[derive(Debug, Default)]
struct Table {
    buckets: HashMap<Uuid, Bucket>,
    /// The bucket of all that find no room.
    shared: Option<Bucket>,
    /// When full buckets were last removed to make room.
    swept_at: Option<Instant>,
}

impl Table {
    /// The bucket of an owner, filled; or the shared one, if there is no room for one more.
    fn bucket(&mut self, owner: Uuid, rate: f64, shared_rate: f64, now: Instant) -> &mut Bucket {
        let has_room = self.buckets.contains_key(&owner) || self.make_room(now);
        let (bucket, rate) = match has_room {
            true => (self.buckets.entry(owner).or_insert_with(|| Bucket::full(rate, now)), rate),
            false => (self.shared.get_or_insert_with(|| Bucket::full(shared_rate, now)), shared_rate),
        };
        bucket.fill(now);
        // A changed limit applies from now on.
        bucket.rate = rate;
        bucket
    }

    /// Whether there is room for one more bucket.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_late = |at: Instant| now.saturating_duration_since(at) >= SWEEP_INTERVAL;
        if self.buckets.len() >= BUCKETS_MAX && self.swept_at.is_none_or(is_late) {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.swept_at = Some(now);
        }
        self.buckets.len() < BUCKETS_MAX
    }
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    rate: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: f64, now: Instant) -> Self {
        Self { tokens: rate * BURST_SECONDS, rate, at: now }
    }

    fn fill(&mut self, now: Instant) {
        let refill = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + refill).min(self.rate * BURST_SECONDS);
        self.at = now;
    }

    fn is_full(&self, now: Instant) -> bool {
        let refill = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.tokens + refill >= self.rate * BURST_SECONDS
    }

    /// The time until a token is there.
    fn wait(&self) -> Option<Duration> {
        (self.tokens < 1.0).then(|| Duration::from_secs_f64((1.0 - self.tokens) / self.rate))
    }
}

impl RateLimiter {
    /// A workspace has four times the rate of a key.
    pub(crate) fn new(default_rate: u32) -> Self {
        let workspace_rate = default_rate.saturating_mul(WORKSPACE_RATE_FACTOR);
        Self { default_rate, workspace_rate, tables: Mutex::default() }
    }

    /// Sets the rate limit of a workspace; 0 for no limit.
    pub(crate) fn set_workspace_rate(&mut self, rate: u32) {
        self.workspace_rate = rate;
    }

    /// Whether a key's own limit is not higher than the default limit.
    pub(crate) fn is_within(&self, own: Option<u32>) -> bool {
        match own {
            None => true,
            Some(own) => self.default_rate == 0 || (1..=self.default_rate).contains(&own),
        }
    }

    /// Counts one request. A request that is not allowed takes no token.
    pub(crate) fn count_request(&self, requester: Requester, now: Instant) -> Result<(), Excess> {
        let rate = requester.own_rate.unwrap_or(self.default_rate);
        let workspace_rate = if self.is_within(requester.own_rate) { self.workspace_rate } else { 0 };
        if rate == 0 && workspace_rate == 0 {
            return Ok(());
        }
        let shared_rate = f64::from(self.workspace_rate.max(rate));
        let mut tables = self.tables.lock().expect("no holder of the lock panics");
        let Tables { callers, workspaces } = &mut *tables;
        let mut caller = (rate > 0).then(|| callers.bucket(requester.id, f64::from(rate), shared_rate, now));
        let mut workspace = (workspace_rate > 0)
            .then(|| workspaces.bucket(requester.workspace, f64::from(workspace_rate), shared_rate, now));
        for (bucket, owner) in [(&caller, BucketOwner::Caller), (&workspace, BucketOwner::Workspace)] {
            if let Some(wait) = bucket.as_ref().and_then(|bucket| bucket.wait()) {
                return Err(Excess { wait, bucket: owner });
            }
        }
        for bucket in [&mut caller, &mut workspace].into_iter().flatten() {
            bucket.tokens -= 1.0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requester with this number, in a workspace of its own.
    fn alone(number: u128, own_rate: Option<u32>) -> Requester {
        Requester { id: Uuid::from_u128(number), workspace: Uuid::from_u128(number), own_rate }
    }

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let (limiter, start) = (RateLimiter::new(10), Instant::now());
        let take = |millis| limiter.count_request(alone(1, None), start + Duration::from_millis(millis));
        assert_eq!((0..30).filter(|_| take(0).is_ok()).count(), 20);
        assert_eq!(take(0), Err(Excess { wait: Duration::from_millis(100), bucket: BucketOwner::Caller }));
        assert_eq!((0..30).filter(|_| take(500).is_ok()).count(), 5);
        // An idle key accumulates no more than a burst.
        assert_eq!((0..90).filter(|_| take(60_000).is_ok()).count(), 20);
    }

    #[test]
    fn keys_do_not_share_and_their_own_limit_wins() {
        let (limiter, now) = (RateLimiter::new(1), Instant::now());
        let let_through = |key, own| (0..100).filter(|_| limiter.count_request(alone(key, own), now).is_ok()).count();
        assert_eq!(let_through(1, None), 2);
        assert_eq!(let_through(2, None), 2);
        assert_eq!(let_through(3, Some(5)), 10);
        assert_eq!(let_through(4, Some(0)), 100);
        let unlimited = RateLimiter::new(0);
        assert_eq!((0..100).filter(|_| unlimited.count_request(alone(1, None), now).is_ok()).count(), 100);
    }

    #[test]
    fn the_keys_of_a_workspace_share_its_bucket() {
        let (limiter, now, workspace) = (RateLimiter::new(10), Instant::now(), Uuid::from_u128(7));
        let count = |key: u128, own_rate| {
            limiter.count_request(Requester { id: Uuid::from_u128(key), workspace, own_rate }, now)
        };
        assert_eq!((0..500).filter(|number| count(*number, None).is_ok()).count(), 80, "four times two seconds");
        assert_eq!(count(500, None).unwrap_err().bucket, BucketOwner::Workspace);
        // An operator has granted this key more, and another workspace has its own bucket.
        assert_eq!((0..300).filter(|_| count(600, Some(100)).is_ok()).count(), 200);
        assert_eq!(limiter.count_request(alone(8, None), now), Ok(()));
        // A rejected request takes no token of its key.
        let later = now + Duration::from_secs(2);
        let key = Requester { id: Uuid::from_u128(501), workspace, own_rate: None };
        assert_eq!((0..50).filter(|_| limiter.count_request(key, later).is_ok()).count(), 20);
    }

    #[test]
    fn a_limit_of_its_own_may_be_more_than_usual() {
        let limiter = RateLimiter::new(10);
        assert!([None, Some(1), Some(10)].into_iter().all(|own| limiter.is_within(own)));
        assert!(![Some(0), Some(11)].into_iter().any(|own| limiter.is_within(own)));
        assert!(RateLimiter::new(0).is_within(Some(0)));
    }

    #[test]
    fn callers_without_a_bucket_share_one_and_what_is_remembered_is_bounded() {
        let (limiter, start) = (RateLimiter::new(10), Instant::now());
        let count = |key: u128| limiter.count_request(alone(key, None), start);
        let most = BUCKETS_MAX as u128;
        assert!((0..most).all(|key| count(key).is_ok()));
        assert_eq!((most..3 * most).filter(|key| count(*key).is_ok()).count(), 80, "the shared bucket");
        assert!(count(0).is_ok(), "a caller with a bucket is not affected");
        let remembered = || limiter.tables.lock().unwrap().callers.buckets.len();
        assert_eq!(remembered(), BUCKETS_MAX);
        // Idle keys make room.
        limiter.count_request(alone(u128::MAX, None), start + Duration::from_secs(1)).unwrap();
        assert_eq!(remembered(), 1);
    }
}
