//! Whether a failed attempt is retried, and after which delay. One policy for all styles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The maximum number of attempts, including the first.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub base_ms: u64,
    pub max_ms: u64,
    /// The factor by which each delay of an exponential backoff grows.
    pub multiplier: f64,
    /// The fraction of a delay, from 0 to 1, by which it varies.
    pub jitter: f64,
    /// Failures with one of these codes are final.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub non_retryable: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Backoff {
    Fixed,
    Linear,
    Exp,
}

impl RetryPolicy {
    /// The default of graph nodes: three attempts, with delays of 1 s and 2 s.
    pub fn graph() -> Self {
        Self {
            max_attempts: 3,
            backoff: Backoff::Exp,
            base_ms: 1_000,
            max_ms: 300_000,
            multiplier: 2.0,
            jitter: 0.0,
            non_retryable: Vec::new(),
        }
    }

    /// The default of steps of code workflows: three attempts, with delays of 1 s and 2 s, each changed by up to
    /// a fifth. No delay is longer than 60 s.
    pub fn code() -> Self {
        Self { max_ms: 60_000, jitter: 0.2, ..Self::graph() }
    }

    /// The default of side effects of state machines: three attempts, with delays of 0.5 s and 1 s.
    pub fn delivery() -> Self {
        Self { base_ms: 500, ..Self::graph() }
    }

    /// Whether another attempt of a delivery follows after this many failed ones. Any failure may pass: a target that
    /// refuses a request today may be repaired before the next attempt.
    pub fn delivers_again(&self, failures: u32, failure: &Failure) -> bool {
        failures < self.max_attempts && !self.non_retryable.contains(&failure.code)
    }

    /// Whether another attempt follows after this many failed ones.
    pub fn retries(&self, failures: u32, failure: &Failure) -> bool {
        failure.retryable && failures < self.max_attempts && !self.non_retryable.contains(&failure.code)
    }

    /// The delay after the `failures`th failed attempt (1 is the first). The seed selects the delay within the jitter,
    /// so that every replay computes the same delay.
    pub fn delay(&self, failures: u32, seed: u64) -> Duration {
        let n = failures.max(1);
        let base = self.base_ms as f64;
        let plain = match self.backoff {
            Backoff::Fixed => base,
            Backoff::Linear => base * f64::from(n),
            Backoff::Exp => base * self.multiplier.powi(i32::try_from(n - 1).unwrap_or(i32::MAX)),
        };
        let capped = plain.min(self.max_ms as f64);
        // Uniformly from -1 to 1.
        let spread = (mix(seed) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let jittered = (capped * (1.0 + self.jitter * spread)).clamp(0.0, self.max_ms as f64);
        Duration::from_micros((jittered * 1_000.0) as u64)
    }
}

/// A seed that every decision about this attempt computes alike.
pub(crate) fn seed(run: u128, step: &str, attempt: u32) -> u64 {
    let start = (run as u64) ^ ((run >> 64) as u64).rotate_left(32) ^ u64::from(attempt);
    step.bytes().fold(mix(start), |hash, byte| mix(hash ^ u64::from(byte)))
}

/// SplitMix64's finaliser: spreads a number over all 64 bits.
pub fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_nodes_wait_one_two_and_four_seconds() {
        let policy = RetryPolicy::graph();
        let delays: Vec<_> = (1..=3).map(|n| policy.delay(n, 7).as_millis()).collect();
        assert_eq!(delays, [1_000, 2_000, 4_000]);
    }

    #[test]
    fn delays_stay_within_jitter_and_maximum() {
        let policy = RetryPolicy { jitter: 0.2, max_ms: 3_000, ..RetryPolicy::graph() };
        for seed in 0..1_000 {
            let first = policy.delay(1, seed).as_millis();
            assert!((800..=1_200).contains(&first), "{first}");
            assert!(policy.delay(9, seed).as_millis() <= 3_000);
        }
        let spread = (0..100).map(|seed| policy.delay(1, seed).as_micros()).collect::<std::collections::BTreeSet<_>>();
        assert!(spread.len() > 90);
    }

    #[test]
    fn final_failures_are_not_retried() {
        let policy = RetryPolicy { non_retryable: vec!["CARD_DECLINED".into()], ..RetryPolicy::graph() };
        assert!(policy.retries(1, &Failure::transient("IO", "")));
        assert!(!policy.retries(3, &Failure::transient("IO", "")));
        assert!(!policy.retries(1, &Failure::fatal("IO", "")));
        assert!(!policy.retries(1, &Failure::transient("CARD_DECLINED", "")));
    }
}
