//! The last idempotency keys of a run.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The keys of accepted requests, oldest first, each with a record of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyRing<T> {
    list: VecDeque<(Arc<str>, T)>,
    /// The approximate memory of the keys and their records.
    bytes: usize,
}

/// The record of a request under a key.
pub(crate) trait KeyRecord {
    /// The approximate memory of the record beside its own size, in bytes.
    fn weight(&self) -> usize;
}

impl<T> Default for KeyRing<T> {
    fn default() -> Self {
        Self { list: VecDeque::new(), bytes: 0 }
    }
}

impl<T: KeyRecord> KeyRing<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.bytes
    }

    /// Adds a key. The oldest keys are dropped while there are more than `count_max`.
    pub(crate) fn remember(&mut self, key: Arc<str>, record: T, count_max: usize) {
        self.bytes += weight(&key, &record);
        self.list.push_back((key, record));
        while self.list.len() > count_max {
            self.drop_oldest();
        }
    }

    /// Drops the oldest keys whose records have expired.
    pub(crate) fn drop_expired(&mut self, has_expired: impl Fn(&T) -> bool) {
        while self.list.front().is_some_and(|(_, record)| has_expired(record)) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((key, record)) = self.list.pop_front() {
            self.bytes -= weight(&key, &record);
        }
    }

    /// The record of a key that fits, the newest first.
    pub(crate) fn find(&self, key: &str, fits: impl Fn(&T) -> bool) -> Option<&T> {
        let mut newest_first = self.list.iter().rev();
        newest_first.find(|(known, record)| &**known == key && fits(record)).map(|(_, record)| record)
    }

    /// Changes the newest record.
    pub(crate) fn change_newest(&mut self, change: impl FnOnce(&mut T)) {
        if let Some((_, record)) = self.list.back_mut() {
            let before = record.weight();
            change(record);
            self.bytes = self.bytes - before + record.weight();
        }
    }
}

fn weight(key: &str, record: &impl KeyRecord) -> usize {
    40 + key.len() + record.weight()
}
