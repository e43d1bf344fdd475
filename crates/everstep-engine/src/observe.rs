//! The port to metrics and traces.

use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::{Delivery, Entry, Event};
use everstep_core::records::Verb;
use everstep_core::run::decide::SettledStep;
use everstep_core::run::{Input, Parent, Reply, State};
use everstep_core::status::Status;
use everstep_core::story::{self, Update};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::EventRow;

use crate::run::Envelope;

/// Receives each committed item.
///
/// The loop that owns the run calls it, once per item and after its commit, and no run of that loop continues before it
/// returns: it must be cheap and must never block. It copies the data that it keeps, and defers work that takes longer
/// than a few additions. An item whose outcome stays unknown to this node is not observed.
pub trait Observe: Send + Sync {
    fn committed(&self, item: &CommittedItem<'_>);

    /// Ended runs were deleted because their retention has passed.
    fn swept(&self, _runs: usize) {}

    /// A batch of ops of the data store was applied; so many of them were folded again because of another node.
    fn ops_applied(&self, _ops: usize, _redone: usize) {}

    /// The caller of an op receives its answer.
    fn op_answered(&self, _op: &AnsweredOp) {}

    /// Expired records were deleted.
    fn records_expired(&self, _records: usize) {}

    /// Events were published, by callers or by runs.
    fn events_published(&self, _events: usize) {}

    /// The fan-out of an event is done: the row has the time of its end and the number of its results.
    fn event_fanned(&self, _event: &EventRow) {}

    /// Subscriptions and waits have matched events. The result is `run`, `wait` or `failed`.
    fn subscriptions_matched(&self, _result: &'static str, _count: usize) {}

    /// A side effect of a run was delivered, or is dead.
    fn event_ended(&self, _event: &EndedEvent<'_>) {}
}

/// A side effect with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedEvent<'a> {
    pub workflow: Option<&'a str>,
    pub kind: &'a str,
    pub outcome: EventOutcome,
}

/// How a side effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// One of its first attempts succeeded.
    Delivered,
    /// All of them failed: it is a dead letter.
    Dead,
    /// A requeue of the dead letter succeeded.
    Requeued,
}

impl EventOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Requeued => "requeued",
        }
    }
}

/// An op of the data store with its answer.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredOp {
    pub verb: Verb,
    /// `ok`, or the code of the failure.
    pub outcome: &'static str,
    /// The time since the caller sent it.
    pub elapsed: Duration,
}

/// One applied item.
#[derive(Clone, Copy)]
pub struct CommittedItem<'a> {
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub workflow: &'a str,
    pub version: u32,
    /// The workflow and the state after the item; none if this build cannot read the run.
    pub(crate) folded: Option<(&'a Workflow, &'a State)>,
    /// Test runs are neither listed nor counted.
    pub is_test: bool,
    /// The step that started the run.
    pub parent: Option<&'a Parent>,
    /// The time of the first entry. A run that has not begun has none.
    pub started_at: Timestamp,
    /// When the run's row was created.
    pub created_at: Timestamp,
    /// The status that the run's row had; none for a run whose row is new.
    pub before: Option<Status>,
    pub after: Status,
    pub entries: &'a [Entry],
    pub(crate) settled: &'a [SettledStep],
    pub(crate) answered: &'a [(Envelope, Reply)],
}

impl CommittedItem<'_> {
    /// Whether the run begins with this item.
    pub(crate) fn begins(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.seq == 1)
    }

    /// The signals that the run has accepted with this item: their names, each with the seq and the time of an entry.
    pub fn signals(&self) -> impl Iterator<Item = (&str, u64, Timestamp)> {
        let accepted = self.answered.iter().filter(|(_, reply)| matches!(reply, Reply::Accepted | Reply::Buffered));
        let names = accepted.filter_map(|(envelope, _)| {
            let (Input::Signal { event, .. } | Input::BufferedSignal { event, .. }) = &envelope.input else {
                return None;
            };
            Some(event.as_str())
        });
        names.zip(self.entries).map(|(name, entry)| (name, entry.seq, entry.at))
    }

    /// The changes of the item. An update that settles a step contains the time at which it began, unless the run was
    /// failed or paused from outside its workflow.
    pub fn updates(&self) -> impl Iterator<Item = Update<'_>> {
        self.steps().filter_map(|(entry, settled)| story::observe(entry, settled, self.folded))
    }

    /// The deliveries that succeeded with this item.
    pub(crate) fn delivered(&self) -> impl Iterator<Item = &Delivery> {
        let completed = self.steps().filter(|(entry, _)| matches!(entry.event, Event::StepCompleted { .. }));
        completed.filter_map(|(_, settled)| settled?.delivery.as_deref())
    }

    /// The entries, each with the step that it settles.
    fn steps(&self) -> impl Iterator<Item = (&Entry, Option<&SettledStep>)> {
        let settled = self.settled.iter().map(Some).chain(std::iter::repeat(None));
        self.entries.iter().zip(settled)
    }
}

/// Observes nothing.
pub struct NoObserver;

impl Observe for NoObserver {
    fn committed(&self, _: &CommittedItem<'_>) {}
}
