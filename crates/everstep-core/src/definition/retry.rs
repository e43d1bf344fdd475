//! Reads the retry policy of a node or of a side effect.

use serde_json::Value;

use super::{Fields, Problem};
use crate::retry::{Backoff, RetryPolicy};

/// Reads a retry policy. Fields that it does not have are those of the default.
pub(crate) fn read_retry(
    value: &Value,
    path: &str,
    node: Option<&str>,
    mut policy: RetryPolicy,
    problems: &mut Vec<Problem>,
) -> RetryPolicy {
    let Some(mut fields) = Fields::from_value(value, path, node, problems) else { return policy };
    if let Some(attempts) = fields.number(&["maxAttempts"], 1, 20) {
        policy.max_attempts = attempts as u32;
    }
    let backoffs = [("fixed", Backoff::Fixed), ("linear", Backoff::Linear), ("exp", Backoff::Exp)];
    if let Some(backoff) = fields.choice(&["backoff"], &backoffs) {
        policy.backoff = backoff;
    }
    if let Some(base) = fields.number(&["baseMs", "backoffMs"], 100, 86_400_000) {
        policy.base_ms = base;
    }
    if let Some(max) = fields.number(&["maxMs", "maxBackoffMs"], 100, 86_400_000) {
        policy.max_ms = max;
    }
    if let Some(multiplier) = fields.fraction(&["multiplier", "backoffMultiplier"], 1.0, 10.0) {
        policy.multiplier = multiplier;
    }
    if let Some(jitter) = fields.fraction(&["jitter"], 0.0, 1.0) {
        policy.jitter = jitter;
    }
    for code in fields.list(&["nonRetryable"]).unwrap_or_default() {
        match code.as_str() {
            Some(code) => policy.non_retryable.push(code.to_owned()),
            None => {
                let hint = "write for example [\"CARD_DECLINED\"]";
                fields.problem("nonRetryable", "expected a list of error codes", hint);
            }
        }
    }
    if policy.base_ms > policy.max_ms {
        let message = format!("baseMs ({}) is greater than maxMs ({})", policy.base_ms, policy.max_ms);
        fields.problem("baseMs", message, "increase maxMs; its default is 300000");
    }
    fields.finish();
    policy
}
