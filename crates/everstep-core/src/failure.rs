//! Failures of a user's workflow, as they are journaled.

use serde::{Deserialize, Serialize};

use crate::ids::StepKey;

/// Codes of the engine itself. Handlers and users add their own.
pub mod code {
    pub const CANCELLED: &str = "CANCELLED";
    pub const CHILD_CANCELLED: &str = "CHILD_CANCELLED";
    pub const CHILD_FAILED: &str = "CHILD_FAILED";
    pub const CONFLICT: &str = "CONFLICT";
    pub const CONTEXT_TOO_LARGE: &str = "CONTEXT_TOO_LARGE";
    pub const CRASH_LOOP: &str = "CRASH_LOOP";
    pub const END_ERROR: &str = "END_ERROR";
    pub const END_NOT_REACHED: &str = "END_NOT_REACHED";
    pub const EVENT_LOOP: &str = "EVENT_LOOP";
    pub const EXPRESSION_ERROR: &str = "EXPRESSION_ERROR";
    pub const EXPRESSION_TOO_COSTLY: &str = "EXPRESSION_TOO_COSTLY";
    pub const IDEMPOTENCY_KEY_REUSED: &str = "IDEMPOTENCY_KEY_REUSED";
    pub const INVALID_CONFIG: &str = "INVALID_CONFIG";
    pub const ITEM_FAILED: &str = "ITEM_FAILED";
    pub const JOURNAL_CONFLICT: &str = "JOURNAL_CONFLICT";
    pub const JOURNAL_TOO_LONG: &str = "JOURNAL_TOO_LONG";
    pub const JOURNAL_UNREADABLE: &str = "JOURNAL_UNREADABLE";
    pub const NONDETERMINISTIC: &str = "NONDETERMINISTIC";
    pub const PAYLOAD_TOO_DEEP: &str = "PAYLOAD_TOO_DEEP";
    pub const PAYLOAD_TOO_LARGE: &str = "PAYLOAD_TOO_LARGE";
    pub const PAYLOAD_UNREADABLE: &str = "PAYLOAD_UNREADABLE";
    pub const PERMISSION_DENIED: &str = "PERMISSION_DENIED";
    pub const RUN_CANCELLED: &str = "RUN_CANCELLED";
    pub const STEP_TIMEOUT: &str = "STEP_TIMEOUT";
    pub const STORE_REFUSED: &str = "STORE_REFUSED";
    pub const TOO_DEEP: &str = "TOO_DEEP";
    pub const TOO_MANY_ITEMS: &str = "TOO_MANY_ITEMS";
    pub const UNKNOWN_HANDLE: &str = "UNKNOWN_HANDLE";
    pub const UNKNOWN_KIND: &str = "UNKNOWN_KIND";
    pub const VALIDATION_ERROR: &str = "VALIDATION_ERROR";
    pub const WORKER_LOST: &str = "WORKER_LOST";
    pub const WORKFLOW_NOT_FOUND: &str = "WORKFLOW_NOT_FOUND";
}

/// Why a step or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{code}: {message}")]
pub struct Failure {
    pub code: String,
    pub message: String,
    /// Whether another attempt may succeed. The retry policy decides whether there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    /// The delay before the next attempt that the called service demands. The retry policy bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
    /// The HTTP status of the response, if a response is the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The step at which a run of a code workflow failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepKey>,
    /// The number of attempts of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl Failure {
    /// A failure that another attempt cannot repair.
    pub fn fatal(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retryable: false,
            retry_after_ms: None,
            status: None,
            step: None,
            attempts: None,
        }
    }

    /// A failure that another attempt may repair.
    pub fn transient(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::fatal(code, message) }
    }

    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }
}
