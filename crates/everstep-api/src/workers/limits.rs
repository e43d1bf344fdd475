//! Limits of the requests of a worker, and of the state of a session.

use std::time::Duration;

/// Bytes of a request or a frame of a worker.
pub(super) const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Reports in a request or a frame.
pub(super) const REPORTS_MAX: usize = 512;
/// How long the server holds a poll.
pub(super) const POLL_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a request with reports waits for the journal. Later replies are part of a later message.
pub(super) const REPORTS_WAIT_MAX: Duration = Duration::from_secs(30);

/// The maximum number of reports of a session that wait for the journal. A worker that sends more has to wait.
pub(super) const UNANSWERED_REPORTS_MAX: usize = 8 * REPORTS_MAX;
/// Messages that a session keeps until the worker confirms them with `seen`.
pub(super) const UNSEEN_MESSAGES_MAX: usize = 16_384;
/// Parts of messages that wait until the worker confirms earlier messages.
pub(super) const UNSENT_PARTS_MAX: usize = 8 * UNSEEN_MESSAGES_MAX;
