//! A fact with its position in the journal.

use std::sync::Arc;

use super::Event;
use crate::time::Timestamp;

/// A fact with its position in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
    /// The idempotency key of the signal or control that wrote it.
    pub key: Option<Arc<str>>,
}

impl Entry {
    pub fn new(seq: u64, at: Timestamp, event: Event) -> Self {
        Self { seq, at, event, key: None }
    }
}
