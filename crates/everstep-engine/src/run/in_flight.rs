//! An item on its way to the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use everstep_core::code::Report;
use everstep_core::ids::StepKey;
use everstep_core::journal::Entry;
use everstep_core::run::decide::SettledStep;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::TopicEvent;
use everstep_store::{InboxId, RunRow};
use tokio::sync::oneshot;

use super::mailbox::Envelope;
use crate::error::Error;
use crate::start::ShardReply;

/// An item on its way to the store, and the actions after its commit.
pub(crate) struct InFlight {
    /// The inputs that the item answers, with their replies.
    pub(crate) answered: Vec<(Envelope, Reply)>,
    /// The reply to a start.
    pub(crate) start: Option<oneshot::Sender<Result<ShardReply, Error>>>,
    /// The row that a start creates, if its caller requested it.
    pub(crate) row: Option<Box<RunRow>>,
    /// Tasks that are performed once the item is durable.
    pub(crate) dispatched: Vec<(StepKey, u32)>,
    pub(crate) entries: Vec<Entry>,
    /// For each entry, the step that it settles.
    pub(crate) settled: Vec<SettledStep>,
    /// The events that the item publishes.
    pub(crate) published: Vec<Arc<TopicEvent>>,
    /// Whether the item sends inputs to other runs.
    pub(crate) has_inbox_inputs: bool,
    /// The seq of the item's first entry, if it has entries.
    pub(crate) first_seq: Option<u64>,
    pub(crate) rest: Rest,
    /// The status that the run's row had; none before its start.
    pub(crate) before: Option<Status>,
    pub(crate) status: Status,
    /// The format of the item.
    pub(crate) format: u32,
    /// Whether the run is to end: if the item waits for space, the committer returns it.
    pub(crate) is_withdrawn: bool,
}

/// The state of ownership of a run after its item is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It stays with this node.
    Active,
    /// No node owns it until this time.
    Parked(Timestamp),
    Ended,
}

impl InFlight {
    /// Whether the item answers an inbox row.
    pub(super) fn answers_row(&self, row: InboxId) -> bool {
        self.answered.iter().any(|(envelope, _)| envelope.inbox == Some(row))
    }

    /// Whether the item answers any inbox row.
    pub(super) fn answers_rows(&self) -> bool {
        self.answered.iter().any(|(envelope, _)| envelope.inbox.is_some())
    }

    /// Whether the item resumes or retries the run.
    pub(super) fn wakes_run(&self) -> bool {
        let wakes = |input: &Input| matches!(input, Input::Resume | Input::Retry);
        self.answered.iter().any(|(envelope, reply)| reply.is_accepted() && wakes(&envelope.input))
    }

    /// Whether the run's own function has ended the run.
    pub(super) fn ends_by_report(&self) -> bool {
        let ends = |input: &Input| input.report().is_some_and(Report::is_end);
        self.answered.iter().any(|(envelope, reply)| reply.is_accepted() && ends(&envelope.input))
    }

    /// The tasks that the item dispatches.
    pub(super) fn fresh_tasks(&self) -> BTreeSet<(&StepKey, u32)> {
        self.dispatched.iter().map(|(step, attempt)| (step, *attempt)).collect()
    }
}
