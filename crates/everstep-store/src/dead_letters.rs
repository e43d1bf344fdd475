//! Rows of dead letters.

use everstep_core::dead_letter::{DeadLetter, DeadLetterAttempt};

/// The places of the secrets in the config of a dead letter, as its column has them.
pub(crate) fn secrets_json(letter: &DeadLetter) -> String {
    serde_json::to_string(&letter.secrets).expect("pointers are plain data")
}

/// Attempts, as their column has them.
pub(crate) fn attempts_json(attempts: &[DeadLetterAttempt]) -> String {
    serde_json::to_string(attempts).expect("attempts are plain data")
}
