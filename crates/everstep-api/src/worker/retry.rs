//! When a worker wants a failed attempt to be tried again.

use everstep_core::retry::{Backoff, RetryPolicy};
use schemars::JsonSchema;
use serde::Deserialize;

use super::report::LONGEST;

const ATTEMPTS: u32 = 1_000;

/// When a failed attempt is tried again: three attempts, 1 s and up to 60 s apart, give or take a fifth, if nothing is
/// said.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerRetry")]
pub(super) struct Retry {
    /// All attempts, the first included.
    #[schemars(range(min = 1, max = 1_000))]
    attempts: Option<u32>,
    backoff: Option<Delays>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
struct Delays {
    #[schemars(extend("enum" = ["fixed", "linear", "exp"]))]
    kind: Option<String>,
    base_ms: Option<u64>,
    max_ms: Option<u64>,
    /// The part of a delay by which it varies.
    #[schemars(range(min = 0.0, max = 1.0))]
    jitter: Option<f64>,
}

impl Retry {
    pub(super) fn check(self) -> Result<RetryPolicy, String> {
        let Self { attempts, backoff } = self;
        let Delays { kind, base_ms, max_ms, jitter } = backoff.unwrap_or_default();
        let attempts = attempts.unwrap_or(3);
        if !(1..=ATTEMPTS).contains(&attempts) {
            return Err(format!("retry.attempts: there are 1 to {ATTEMPTS} attempts, not {attempts}"));
        }
        let backoff = match kind.as_deref() {
            None | Some("exp") => Backoff::Exp,
            Some("fixed") => Backoff::Fixed,
            Some("linear") => Backoff::Linear,
            Some(kind) => return Err(format!("retry.backoff.kind is fixed, linear or exp, not {kind:?}")),
        };
        let base_ms = base_ms.unwrap_or(1_000);
        let max_ms = max_ms.unwrap_or_else(|| base_ms.max(60_000));
        if base_ms > max_ms || max_ms > LONGEST {
            return Err(format!("retry.backoff: baseMs is at most maxMs, and that at most {LONGEST}"));
        }
        let jitter = jitter.unwrap_or(0.2);
        if !(0.0..=1.0).contains(&jitter) {
            return Err(format!("retry.backoff.jitter is a part from 0 to 1, not {jitter}"));
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
        let policy = Retry::default().check().unwrap();
        assert_eq!((policy.max_attempts, policy.backoff, policy.jitter), (3, Backoff::Exp, 0.2));
        assert_eq!((policy.base_ms, policy.max_ms), (1_000, 60_000));
    }
}
