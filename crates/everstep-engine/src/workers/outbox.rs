//! The messages for one worker.
//!
//! **Invariant**: batches are numbered, and kept until the worker acknowledges them. A lost batch is sent
//! again, so that no message is lost.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::message::WorkerMessage;

const BATCH_MESSAGES_MAX: usize = 1_024;
/// Bytes after which a batch takes no more messages.
pub(super) const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of batches that were sent and not seen, after which no more are sent.
pub(super) const UNSEEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Messages on their way to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerBatch {
    /// Counts from 1.
    pub m: u64,
    pub messages: Vec<WorkerMessage>,
}

impl WorkerBatch {
    /// Its approximate size in bytes.
    fn size(&self) -> usize {
        self.messages.iter().map(WorkerMessage::size).sum()
    }
}

/// The messages and reports of a session that are in progress.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Reports without a reply.
    pub unanswered: usize,
    /// Batches that were sent and that the worker has not acknowledged yet.
    pub unseen: usize,
    /// Messages that are in no batch yet.
    pub unsent: usize,
}

#[derive(Default)]
pub(super) struct Outbox {
    unsent: Vec<WorkerMessage>,
    /// Whether `unsent` contains more than replies to reports.
    has_more_than_replies: bool,
    sent: VecDeque<Arc<WorkerBatch>>,
    /// The bytes of `sent`.
    sent_bytes: usize,
    /// The number of the last batch.
    last: u64,
    /// The number of the last batch when [`Outbox::overdue`] was called.
    asked: u64,
    /// Reports without a reply.
    unanswered: BTreeSet<u64>,
    /// Whether messages were added since the carrier was notified.
    is_unflushed: bool,
}

impl Outbox {
    /// Adds a message. Returns whether it is the first since the carrier was notified.
    pub(super) fn put(&mut self, message: WorkerMessage) -> bool {
        match message.replies_to() {
            Some(n) => _ = self.unanswered.remove(&n),
            None => self.has_more_than_replies = true,
        }
        self.unsent.push(message);
        !std::mem::replace(&mut self.is_unflushed, true)
    }

    /// Ends the time since the carrier was notified. Returns whether messages were added in it.
    pub(super) fn flush(&mut self) -> bool {
        std::mem::take(&mut self.is_unflushed)
    }

    /// Makes a batch of the waiting messages.
    pub(super) fn next_batch(&mut self) -> Option<Arc<WorkerBatch>> {
        if self.unsent.is_empty() || self.is_full() {
            return None;
        }
        let mut bytes = 0;
        let fits = |message: &&WorkerMessage| {
            let has_room = bytes < BATCH_BYTES_MAX;
            bytes += message.size();
            has_room
        };
        let count = self.unsent.iter().take(BATCH_MESSAGES_MAX).take_while(fits).count();
        let rest = self.unsent.split_off(count);
        self.last += 1;
        let batch = Arc::new(WorkerBatch { m: self.last, messages: std::mem::replace(&mut self.unsent, rest) });
        self.has_more_than_replies = self.unsent.iter().any(|message| message.replies_to().is_none());
        self.sent_bytes += batch.size();
        self.sent.push_back(Arc::clone(&batch));
        Some(batch)
    }

    /// Records that the worker has seen all batches up to this one. Returns whether batches can be sent now that could
    /// not be sent before.
    pub(super) fn seen(&mut self, m: u64) -> bool {
        let was_full = self.is_full();
        while let Some(batch) = self.sent.front().filter(|batch| batch.m <= m) {
            self.sent_bytes -= batch.size();
            self.sent.pop_front();
        }
        was_full && !self.is_full()
    }

    /// Batches that were sent and that the worker has not acknowledged yet.
    pub(super) fn unseen(&self) -> Vec<Arc<WorkerBatch>> {
        self.sent.iter().cloned().collect()
    }

    /// Batches that the worker had not acknowledged at the last call, and has not acknowledged yet. Later ones may
    /// still be in flight.
    pub(super) fn overdue(&mut self) -> Vec<Arc<WorkerBatch>> {
        let asked = std::mem::replace(&mut self.asked, self.last);
        self.sent.iter().take_while(|batch| batch.m <= asked).cloned().collect()
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog { unanswered: self.unanswered.len(), unseen: self.sent.len(), unsent: self.unsent.len() }
    }

    pub(super) fn expect(&mut self, reports: impl Iterator<Item = u64>) {
        self.unanswered.extend(reports);
    }

    /// Whether every report has a reply.
    pub(super) fn has_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Whether a batch can be made.
    pub(super) fn has_batch(&self) -> bool {
        !self.unsent.is_empty() && !self.is_full()
    }

    /// Whether a batch can be made that contains more than replies to reports.
    pub(super) fn has_turn_news(&self) -> bool {
        self.has_more_than_replies && !self.is_full()
    }

    pub(super) fn has_more_than_replies(&self) -> bool {
        self.has_more_than_replies
    }

    /// Drops all messages: the session has ended.
    pub(super) fn clear(&mut self) {
        self.unsent.clear();
        self.sent.clear();
        self.sent_bytes = 0;
        self.unanswered.clear();
    }

    /// Whether the worker must acknowledge batches before it receives more.
    fn is_full(&self) -> bool {
        self.sent_bytes > UNSEEN_BYTES_MAX
    }
}
