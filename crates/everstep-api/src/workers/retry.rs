//! The retry policy in a `failed` report.

use everstep_core::retry::{Backoff, RetryPolicy};
use everstep_core::whole;
use schemars::JsonSchema;
use serde::Deserialize;

use super::report::DURATION_MAX_MS;

const ATTEMPTS_MAX: u32 = 1_000;

/// A retry policy. Default: 3 attempts with exponential backoff from 1 s up to 60 s and a jitter of 0.2.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerRetry")]
pub(super) struct WireRetry {
    /// The maximum number of attempts, including the first.
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    attempts: Option<u32>,
    backoff: Option<WireBackoff>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
struct WireBackoff {
    #[schemars(extend("enum" = ["fixed", "linear", "exp"]))]
    kind: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    base_ms: Option<u64>,
    #[serde(default, deserialize_with = "whole::optional")]
    max_ms: Option<u64>,
    /// The fraction of a delay by which it varies.
    #[schemars(range(min = 0.0, max = 1.0))]
    jitter: Option<f64>,
}

impl WireRetry {
    pub(super) fn check(self) -> Result<RetryPolicy, String> {
        let Self { attempts, backoff } = self;
        let WireBackoff { kind, base_ms, max_ms, jitter } = backoff.unwrap_or_default();
        let attempts = attempts.unwrap_or(3);
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            return Err(format!("retry.attempts: a step has 1 to {ATTEMPTS_MAX} attempts, not {attempts}"));
        }
        let backoff = match kind.as_deref() {
            None | Some("exp") => Backoff::Exp,
            Some("fixed") => Backoff::Fixed,
            Some("linear") => Backoff::Linear,
            Some(kind) => return Err(format!("retry.backoff.kind must be fixed, linear or exp, not {kind:?}")),
        };
        let base_ms = base_ms.unwrap_or(1_000);
        let max_ms = max_ms.unwrap_or_else(|| base_ms.max(60_000));
        if base_ms > max_ms || max_ms > DURATION_MAX_MS {
            return Err(format!("retry.backoff: baseMs must be at most maxMs, and maxMs at most {DURATION_MAX_MS}"));
        }
        let jitter = jitter.unwrap_or(0.2);
        if !(0.0..=1.0).contains(&jitter) {
            return Err(format!("retry.backoff.jitter must be a number from 0 to 1, not {jitter}"));
        }
        let non_retryable = Vec::new();
        Ok(RetryPolicy { max_attempts: attempts, backoff, base_ms, max_ms, multiplier: 2.0, jitter, non_retryable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_tried_three_times_if_nothing_is_said() {
        let policy = WireRetry::default().check().unwrap();
        assert_eq!((policy.max_attempts, policy.backoff, policy.jitter), (3, Backoff::Exp, 0.2));
        assert_eq!((policy.base_ms, policy.max_ms), (1_000, 60_000));
    }
}
