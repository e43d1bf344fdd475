//! Why an op fails.

use crate::failure::{Failure, code};

/// A failed op. Nothing was written; the same op may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct OpFailure {
    pub code: &'static str,
    pub message: String,
    /// After a conflict: the stored revision; 0 if the record is absent.
    pub revision: Option<u64>,
}

impl OpFailure {
    /// An input that no state accepts.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: code::VALIDATION_ERROR, message: message.into(), revision: None }
    }

    /// A state that is not as the op expects it.
    pub(super) fn conflict(message: impl Into<String>, revision: u64) -> Self {
        Self { code: code::CONFLICT, message: message.into(), revision: Some(revision) }
    }

    /// Another input under a key that the author or the caller has chosen.
    pub(super) fn key_reused() -> Self {
        let message = "another op with a different input has used this idempotency key; choose another key";
        Self { code: code::IDEMPOTENCY_KEY_REUSED, message: message.to_owned(), revision: None }
    }

    /// The same failure of one part of an op.
    pub(super) fn at_part(self, part: &str, index: usize) -> Self {
        Self { message: format!("{part} {index}: {}", self.message), ..self }
    }
}

impl From<OpFailure> for Failure {
    /// No attempt of the step repairs it.
    fn from(failure: OpFailure) -> Self {
        Self::fatal(failure.code, failure.message)
    }
}
