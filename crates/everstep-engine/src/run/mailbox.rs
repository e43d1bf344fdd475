//! The inputs of a run that are not decided yet, and the receivers of their replies.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::run::{Input, Reply, State};
use everstep_core::time::Timestamp;
use everstep_store::{AuditRow, InboxId, InboxRow};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::requests;
use crate::workers::{self, Session};

/// The number of answered inbox rows that a run remembers.
const ANSWERED_ROWS_MAX: usize = 64;

/// An input, and the receiver of its reply.
pub(crate) struct Envelope {
    pub(crate) input: Input,
    pub(crate) reply_to: ReplyTo,
    /// The first entry that the input wrote, once it is decided; `None` if it wrote none.
    pub(crate) seq: Option<u64>,
    /// The inbox row that the input came from. The item that answers the input deletes the row.
    pub(crate) inbox: Option<InboxId>,
    /// The version that the run must have for the input to be accepted.
    pub(crate) expected: Option<u64>,
    /// The idempotency key of a signal or control.
    pub(crate) key: Option<String>,
    /// The workspace of the sender. A run of another workspace does not exist for it.
    pub(crate) workspace: Option<WorkspaceId>,
    /// The row of the audit that exists with the entry that the input writes.
    pub(crate) audit: Option<Arc<AuditRow>>,
    /// Notes for the sender the version that a request has got here.
    pub(crate) seen_version: Option<Arc<OnceLock<u32>>>,
    /// Whether it arrived while the run was read: the state that was read may be older than the input.
    pub(crate) is_late: bool,
}

impl Envelope {
    /// An input that needs no reply.
    pub(crate) fn new(input: Input) -> Self {
        Self {
            input,
            reply_to: ReplyTo::Discard,
            seq: None,
            inbox: None,
            expected: None,
            key: None,
            workspace: None,
            audit: None,
            seen_version: None,
            is_late: false,
        }
    }

    /// Decodes an inbox row. A row that cannot be decoded stays for a build that can decode it.
    pub(crate) fn from_row(arrival: &InboxRow) -> Option<Self> {
        match from_inbox(&arrival.input) {
            Ok((input, key)) => Some(Self { inbox: Some(arrival.id), key, ..Self::new(input) }),
            Err(error) => {
                tracing::error!(run = %arrival.run, %error, "an inbox row cannot be decoded; a build that knows its format can");
                None
            }
        }
    }

    /// The same input once more, for another sending. It has no receiver of a reply yet.
    pub(crate) fn repeat(&self) -> Self {
        Self {
            expected: self.expected,
            key: self.key.clone(),
            workspace: self.workspace,
            audit: self.audit.clone(),
            ..Self::new(self.input.clone())
        }
    }

    /// Gives a request without a version the version that the run has when the request arrives.
    pub(crate) fn see_version(&mut self, version_no: Option<u32>) {
        let version_no = version_no.unwrap_or(requests::FIRST_VERSION_NO);
        requests::fill_version(&mut self.input, Some(version_no));
        if let Some(seen) = &self.seen_version {
            let _ = seen.set(version_no);
        }
    }

    pub(crate) fn answer(self, answer: Result<Reply, Error>) {
        match self.reply_to {
            ReplyTo::Discard => {}
            // The caller may have stopped waiting.
            ReplyTo::Caller(reply) => _ = reply.send(answer),
            ReplyTo::Worker(session, n) => session.put(workers::report_reply(n, self.seq, answer)),
        }
    }
}

/// The receiver of the reply to an input.
pub(crate) enum ReplyTo {
    Discard,
    Caller(oneshot::Sender<Result<Reply, Error>>),
    /// The worker that sent a report, with the number of the report.
    Worker(Arc<Session>, u64),
}

impl ReplyTo {
    fn has_receiver(&self) -> bool {
        match self {
            Self::Discard => false,
            Self::Caller(_) | Self::Worker(..) => true,
        }
    }
}

/// The inputs of one run, in the order in which they are decided.
#[derive(Default)]
pub(crate) struct Mailbox {
    /// Decided before anything else, and alone in its item: a pause or a failure of the run.
    urgent: Option<Input>,
    /// Whether the last decision was cut because its item was full: the core derives the rest first.
    has_more: bool,
    waiting: VecDeque<Envelope>,
    /// Recently answered inbox rows. A read of the inbox that began before the answer still returns them.
    answered: VecDeque<InboxId>,
}

impl Mailbox {
    pub(crate) fn push(&mut self, envelope: Envelope) {
        self.waiting.push_back(envelope);
    }

    pub(crate) fn extend(&mut self, envelopes: impl IntoIterator<Item = Envelope>) {
        self.waiting.extend(envelopes);
    }

    pub(crate) fn set_urgent(&mut self, input: Option<Input>) {
        self.urgent = input;
    }

    pub(crate) fn take_urgent(&mut self) -> Option<Input> {
        self.urgent.take()
    }

    /// Whether the next item is to end the run, or to pause it for a reason outside its workflow.
    pub(crate) fn is_ending(&self) -> bool {
        let ends = |envelope: &Envelope| matches!(envelope.input, Input::Cancel { .. });
        self.urgent.is_some() || self.waiting.iter().any(ends)
    }

    /// Whether a caller waits for the end of the run.
    pub(crate) fn has_request_to_end(&self) -> bool {
        self.waiting.iter().any(requests_end)
    }

    pub(crate) fn set_more(&mut self, has_more: bool) {
        self.has_more = has_more;
    }

    /// Whether nothing is left to decide.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.has_more
    }

    /// The next input to decide: the rest of a full item, then a due timer, then the input that has waited longest.
    pub(crate) fn next(&mut self, state: &State, now: Timestamp) -> Option<Envelope> {
        if std::mem::take(&mut self.has_more) {
            return Some(Envelope::new(Input::Settle));
        }
        match state.first_due(now) {
            Some((step, attempt)) => Some(Envelope::new(Input::Timer { step, attempt })),
            None => self.waiting.pop_front(),
        }
    }

    /// Takes all waiting inputs, for a run that leaves memory or is loaded again.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<Envelope> {
        std::mem::take(&mut self.waiting)
    }

    /// Drops inputs that this node generated itself and that no caller waits for.
    pub(crate) fn drop_generated(&mut self) {
        self.waiting.retain(|envelope| envelope.reply_to.has_receiver() || envelope.inbox.is_some());
    }

    /// Drops all waiting inputs, as a planted bug does.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Attempts whose result waits here.
    pub(crate) fn reported_tasks(&self) -> BTreeSet<(&StepKey, u32)> {
        let results = self.waiting.iter().filter_map(|envelope| {
            let Input::Result { step, attempt, .. } = &envelope.input else { return None };
            Some((step, *attempt))
        });
        results.collect()
    }

    /// Children whose end waits here.
    pub(crate) fn ended_children(&self) -> BTreeSet<RunId> {
        let ended = self.waiting.iter().filter_map(|envelope| {
            let Input::ChildEnded { child, .. } = &envelope.input else { return None };
            Some(*child)
        });
        ended.collect()
    }

    /// Whether an inbox row waits here or was recently answered.
    pub(crate) fn has_row(&self, row: InboxId) -> bool {
        self.answered.contains(&row) || self.waiting.iter().any(|envelope| envelope.inbox == Some(row))
    }

    pub(crate) fn remember_answered(&mut self, answered: &[(Envelope, Reply)]) {
        self.answered.extend(answered.iter().filter_map(|(envelope, _)| envelope.inbox));
        let excess = self.answered.len().saturating_sub(ANSWERED_ROWS_MAX);
        self.answered.drain(..excess);
    }
}

/// An input in the inbox, with the idempotency key that its sender has given it. A build that does not know this form
/// leaves the row for one that does.
#[derive(Serialize, Deserialize)]
struct KeyedRow {
    keyed: KeyedInput,
}

#[derive(Serialize, Deserialize)]
struct KeyedInput {
    key: String,
    input: Input,
}

/// The form of an input in the inbox.
pub(super) fn to_inbox(input: &Input, key: Option<&str>) -> Vec<u8> {
    let bytes = match key {
        None => serde_json::to_vec(input),
        Some(key) => serde_json::to_vec(&KeyedRow { keyed: KeyedInput { key: key.to_owned(), input: input.clone() } }),
    };
    bytes.expect("inputs are plain data")
}

/// Reads a row of the inbox: an input, and its key.
fn from_inbox(bytes: &[u8]) -> serde_json::Result<(Input, Option<String>)> {
    serde_json::from_slice(bytes).map(|input| (input, None)).or_else(|error| {
        let row: KeyedRow = serde_json::from_slice(bytes).map_err(|_| error)?;
        Ok((row.keyed.input, Some(row.keyed.key)))
    })
}

/// Whether a caller requests the end of the run. A cancellation from the inbox has no caller, and is read again with the
/// run.
pub(crate) fn requests_end(envelope: &Envelope) -> bool {
    envelope.inbox.is_none() && matches!(envelope.input, Input::Cancel { .. })
}

/// Whether an input follows from the run's state, so that a reload finds it again.
pub(crate) fn is_derived(input: &Input) -> bool {
    match input {
        Input::Start { .. } | Input::TaskLost { .. } | Input::Timer { .. } | Input::Settle => true,
        Input::Result { .. }
        | Input::ChildEnded { .. }
        | Input::ChildStarted { .. }
        | Input::Signal { .. }
        | Input::BufferedSignal { .. }
        | Input::Event { .. }
        | Input::BeginTurn { .. }
        | Input::LoseTurn { .. }
        | Input::Report { .. }
        | Input::SetContext { .. }
        | Input::Pause { .. }
        | Input::Resume
        | Input::Cancel { .. }
        | Input::Retry
        | Input::Transition(_)
        | Input::Assign(_)
        | Input::Fail { .. } => false,
    }
}

/// Whether an input is the result of an action of the run in memory. A run that has left memory does not need it.
pub(crate) fn is_own_result(input: &Input) -> bool {
    match input {
        Input::Result { .. } | Input::ChildStarted { .. } | Input::ChildEnded { .. } | Input::LoseTurn { .. } => true,
        Input::Start { .. }
        | Input::Event { .. }
        | Input::TaskLost { .. }
        | Input::Timer { .. }
        | Input::Signal { .. }
        | Input::BufferedSignal { .. }
        | Input::BeginTurn { .. }
        | Input::Report { .. }
        | Input::SetContext { .. }
        | Input::Pause { .. }
        | Input::Resume
        | Input::Cancel { .. }
        | Input::Retry
        | Input::Transition(_)
        | Input::Assign(_)
        | Input::Fail { .. }
        | Input::Settle => false,
    }
}
