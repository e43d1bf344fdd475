//! Rows of topics, as the store receives and returns them.

use std::collections::BTreeMap;

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{EventId, NodeId, RunId, StepKey, SubscriptionId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Pattern, Subscription, TopicEvent};
use serde::{Deserialize, Serialize};

use crate::item::{InboxInput, NewRun, SentInput};

/// An event with the state of its fan-out.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    pub event: TopicEvent,
    pub position: FanOutPosition,
    /// When the fan-out was done; none while the event is open.
    pub fanned_at: Option<Timestamp>,
    pub matched: MatchCounts,
}

impl EventRow {
    /// An event that was published now.
    pub fn open(event: TopicEvent) -> Self {
        Self { event, position: FanOutPosition::default(), fanned_at: None, matched: MatchCounts::default() }
    }
}

/// An event of a list: without its data, which can be large.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedEvent {
    pub id: EventId,
    pub topic: String,
    pub source: String,
    pub event_id: String,
    pub at: Timestamp,
    pub depth: u32,
    pub subject: Option<String>,
    pub extensions: Option<Payload>,
    /// The event of which this one is a replay.
    pub replay_of: Option<EventId>,
    pub matched: MatchCounts,
    /// When the fan-out was done; none while the event is open.
    pub fanned_at: Option<Timestamp>,
}

impl From<EventRow> for ListedEvent {
    fn from(EventRow { event, fanned_at, matched, .. }: EventRow) -> Self {
        Self {
            id: event.id,
            topic: event.topic,
            source: event.source,
            event_id: event.event_id,
            at: event.at,
            depth: event.depth,
            subject: event.subject,
            extensions: event.extensions,
            replay_of: event.replay_of.map(|(of, _)| of),
            matched,
            fanned_at,
        }
    }
}

/// A page of the events of a topic, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    pub events: Vec<TopicEvent>,
    /// Whether the page has reached its limit of events or of bytes, so that more events may follow.
    pub has_more: bool,
}

/// The number of targets that an event has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchCounts {
    pub workflows: u64,
    pub queues: u64,
    pub http: u64,
    pub waits: u64,
    /// Subscriptions that matched, and whose target refused the event, or whose expression failed.
    pub failed: u64,
}

impl MatchCounts {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            workflows: self.workflows + other.workflows,
            queues: self.queues + other.queues,
            http: self.http + other.http,
            waits: self.waits + other.waits,
            failed: self.failed + other.failed,
        }
    }
}

/// How far the fan-out of an event has come. The slices are made in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FanOutPosition {
    /// Subscriptions after this one; all of them if there is none.
    Subscriptions(Option<SubscriptionId>),
    /// Waits after this position; all of them if there is none.
    Waits(Option<WaitPosition>),
}

impl Default for FanOutPosition {
    fn default() -> Self {
        Self::Subscriptions(None)
    }
}

impl FanOutPosition {
    /// The position as the column of the event has it.
    pub(crate) fn to_text(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        serde_json::to_string(self).expect("a position is plain data")
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() { Some(Self::default()) } else { serde_json::from_str(text).ok() }
    }
}

/// A position among the waits for a topic: waits without hashes come first, then the others shape by shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitPosition {
    /// The hashes of the shape and of the values; none for a wait that an earlier release has written.
    pub hashes: Option<(i64, i64)>,
    pub run: RunId,
    pub step: StepKey,
}

/// The outcome of one event of a publish.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishOutcome {
    /// Written now, or by the same call whose outcome was unknown.
    Published,
    /// Written now, with its fan-out done: no subscription and no wait can match it.
    Unmatched,
    /// The source has published this id before: the first event.
    Known(Box<EventRow>),
    /// The source has published this id before, with another topic, other data or another subject.
    Reused(EventId),
}

impl PublishOutcome {
    /// Whether the event was written by this call.
    pub fn is_published(&self) -> bool {
        matches!(self, Self::Published | Self::Unmatched)
    }
}

/// What a publish does with an event that no subscription and no wait can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmatchedEvents {
    /// It needs a fan-out like every event.
    Open,
    /// Its fan-out is done when it is written, if the store can read subscriptions and waits in the transaction that
    /// writes it, and no other transaction can add one at the same time.
    Done,
}

/// A filter of events, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventQuery {
    pub topic: Option<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// Events before this one.
    pub before: Option<EventId>,
    pub limit: usize,
}

/// A filter of subscriptions, by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionQuery {
    /// Only those with exactly this pattern.
    pub pattern: Option<Pattern>,
    pub after: Option<SubscriptionId>,
    pub limit: usize,
}

/// The outcome of adding a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionOutcome {
    Added,
    /// The workspace has this number of subscriptions: nothing was written.
    QuotaReached(u64),
}

/// One result of an event's fan-out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum EventResult {
    /// A run was created, or a run that has the key of the start exists.
    Run { subscription: SubscriptionId, run: RunId },
    /// An open wait received the event.
    Wait { run: RunId, step: StepKey },
    /// The target of a subscription refused the event, or its expression failed.
    Failed { subscription: SubscriptionId, code: String, message: String },
}

/// Results of an event, in the order of its slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultPage {
    pub results: Vec<EventResult>,
    /// The slice after which the next page begins; none on the last page.
    pub next: Option<u32>,
}

/// An open wait that an event resolves.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchingWait {
    pub run: RunId,
    pub step: StepKey,
    pub position: WaitPosition,
}

/// One page of the waits that an event resolves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitPage {
    pub waits: Vec<MatchingWait>,
    /// Where the next page begins; none on the last page.
    pub next: Option<WaitPosition>,
}

/// A slice of the fan-out of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSlice {
    pub workspace: WorkspaceId,
    pub event: EventId,
    /// The position at which the slice begins: its gate.
    pub seen: FanOutPosition,
    /// The position after the slice; none if the fan-out is then done.
    pub next: Option<FanOutPosition>,
    /// The time of the slice.
    pub at: Timestamp,
    pub starts: Vec<StartRow>,
    /// Inputs for runs with open waits.
    pub inputs: Vec<InboxInput>,
    pub results: Vec<EventResult>,
    /// The workflows that the event could not start.
    pub dead_letters: Vec<DeadLetter>,
}

impl EventSlice {
    /// What the slice adds to the counts of its event.
    pub fn counts(&self) -> MatchCounts {
        let mut counts = MatchCounts::default();
        for result in &self.results {
            match result {
                EventResult::Run { .. } => counts.workflows += 1,
                EventResult::Wait { .. } => counts.waits += 1,
                EventResult::Failed { .. } => counts.failed += 1,
            }
        }
        counts
    }

    /// Whether a start has another key than that of its event and subscription, so that a run may have it.
    pub(crate) fn has_chosen_keys(&self) -> bool {
        let suffix = format!(":{}", self.event);
        let is_chosen = |(scope, key): &(String, String)| scope != Subscription::KEY_SCOPE || !key.ends_with(&suffix);
        self.starts.iter().any(|start| start.new.key.as_ref().is_some_and(is_chosen))
    }

    /// The results, in which each run that was not created is replaced by the one that has its key.
    pub(crate) fn results_with(&self, existing: &BTreeMap<RunId, RunId>) -> Vec<EventResult> {
        let mut results = self.results.clone();
        for result in &mut results {
            if let EventResult::Run { run, .. } = result
                && let Some(other) = existing.get(run)
            {
                *run = *other;
            }
        }
        results
    }
}

/// The row of a run without a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRow {
    pub run: RunId,
    pub new: NewRun,
    /// The node that begins it; none leaves it unowned.
    pub owner: Option<NodeId>,
    /// When an unowned run is due.
    pub wake_at: Timestamp,
    pub format: u32,
}

/// The outcome of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceOutcome {
    Written {
        /// The runs that were created, among the starts of the slice.
        started: Vec<RunId>,
        /// The outcomes of the inputs, in their order.
        sent: Vec<SentInput>,
    },
    /// The event has another position, or its fan-out is done: nothing was written.
    Stale,
}
