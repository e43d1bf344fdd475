//! The keys of ops: an op is applied once per key.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use uuid::Builder;

use crate::ids::{RunId, StepKey};
use crate::planted::{self, Bug};
use crate::time::Timestamp;

/// The idempotency key of an op within its workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(Arc<str>);

impl OpKey {
    /// A step of a run. The step key contains the iteration path and not the attempt: a step is activated once per run,
    /// so all its attempts are one op.
    pub fn of_step(run: RunId, step: &StepKey) -> Self {
        let step = if planted::is_planted(Bug::OpKeyWithoutIteration) { step.node_name() } else { step.as_str() };
        Self(format!("r:{run}:{step}").into())
    }

    /// A key that the author of a workflow has chosen. It replaces the key of the step.
    pub fn of_author(verb: &str, idempotency_key: &str) -> Self {
        Self(format!("k:{verb}:{idempotency_key}").into())
    }

    /// A key that the caller of a request has chosen.
    pub fn of_caller(caller: &str, idempotency_key: &str) -> Self {
        Self(format!("h:{caller}:{idempotency_key}").into())
    }

    /// A request without a key. Its random key makes it safe to resend the op. Keys are in the order of their times, so
    /// that the index of keys grows at one end.
    pub fn of_request(now: Timestamp, random: u128) -> Self {
        let mut tail = [0; 10];
        tail.copy_from_slice(&random.to_be_bytes()[6..]);
        let id = Builder::from_unix_timestamp_millis(now.millis().max(0).cast_unsigned(), &tail).into_uuid();
        Self(format!("q:{}", id.simple()).into())
    }

    /// A key as a database stores it.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the author or the caller has chosen the key, so that another input under it is a mistake.
    pub fn is_chosen(&self) -> bool {
        self.0.starts_with("k:") || self.0.starts_with("h:")
    }
}

impl Borrow<str> for OpKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_requests_are_in_the_order_of_their_times() {
        let key = |millis, random| OpKey::of_request(Timestamp::from_millis(millis), random);
        assert!(key(1, u128::MAX) < key(2, 0));
        assert!(key(2, 0) < key(1_000, 0));
        assert_ne!(key(1, 1), key(1, 2));
        assert!(!key(1, 1).is_chosen());
    }
}
