//! The port of topics: events, subscriptions, and the fan-out of events.

use async_trait::async_trait;
use everstep_core::ids::{EventId, NodeId, SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Subscription, TopicEvent};

use crate::error::Result;
use crate::topics::{
    EventPage, EventQuery, EventRow, EventSlice, ListedEvent, PublishOutcome, ResultPage, SliceOutcome,
    SubscriptionOutcome, SubscriptionQuery, UnmatchedEvents, WaitPage, WaitPosition,
};

/// The size of the events at which a page of them ends.
pub const EVENT_PAGE_BYTES: usize = 1024 * 1024;

/// Every promise here is proved by `everstep_testkit::contract::topics`.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// Publishes events in one durable transaction. Each outcome has its event's index.
    ///
    /// * An event whose source and event id are known is not published again. Its outcome is the first one's row, or
    ///   `Reused` if topic, data or subject differ.
    /// * After an error the outcome is unknown; the same events may be sent again. Those that had been written are then
    ///   answered `Published`. After `Refused` and `Full` nothing was written.
    async fn publish(&self, events: &[TopicEvent], unmatched: UnmatchedEvents) -> Result<Vec<PublishOutcome>>;

    async fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>>;

    /// Events without their data, newest first. Paging is by keyset.
    async fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>>;

    /// The events of a topic from a time on, oldest first, after `after`. For a wait that looks back.
    ///
    /// A page ends at `limit` events, or with the event with which their sizes reach [`EVENT_PAGE_BYTES`].
    async fn events_since(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        since: Timestamp,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage>;

    /// The number of events of a topic that were published from the first time on and before the second, to the
    /// millisecond, counted to a limit.
    async fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        period: (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64>;

    /// Results of an event's fan-out, by slices, after the slice `after`.
    async fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage>;

    /// At most `limit` events whose fan-out is not done and that were published before `before`, oldest first, after
    /// `after`; of all workspaces.
    async fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>>;

    /// The number of events whose fan-out is not done.
    async fn count_open_events(&self) -> Result<u64>;

    /// Adds a subscription, unless the workspace has `quota` of them.
    async fn add_subscription(&self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome>;

    /// Replaces the pattern, the filter, the target and the input of a subscription that a caller has created. `false`:
    /// no such subscription exists.
    async fn change_subscription(&self, subscription: &Subscription) -> Result<bool>;

    /// Pauses a subscription at a time, or resumes it with `None`. One that is paused keeps its time. Returns it.
    async fn pause_subscription(
        &self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>>;

    /// Deletes a subscription that a caller has created. `false`: no such subscription exists.
    async fn delete_subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool>;

    async fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>>;

    /// Subscriptions by id. Paging is by keyset.
    async fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>>;

    /// Subscriptions whose head is one of the heads of a topic, by id, after `after`: every subscription whose pattern
    /// matches the topic is among them. Paused ones are left out.
    async fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>>;

    /// Open waits that an event resolves, after a position. At most `limit` of them; a page may be short or empty and
    /// still have a next page.
    ///
    /// * A wait belongs to it if it names the topic as its event, and the data contains its match.
    /// * Waits that an earlier release has written are among them.
    async fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage>;

    /// Writes slices of the fan-out of events in one durable transaction. Each outcome has its slice's index.
    ///
    /// * The row of an event is the gate of its slice: if its fan-out is done or has another position than the slice has
    ///   seen, nothing of the slice is written ([`SliceOutcome::Stale`]).
    /// * Nothing is written if `node` is not a live member ([`crate::Error::Fenced`]).
    /// * A start is a row of a run without a journal. If a run with its scope and key exists, the row is left out.
    /// * A dead letter exists with its slice or not at all.
    /// * An input for a run that has ended or does not exist is dropped.
    /// * After an error the outcome is unknown; the same slices may be sent again, and are stale if they had been
    ///   written.
    /// * No two slices of one call belong to the same event.
    async fn fan_out(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>>;

    /// Deletes at most `limit` events, with their results, that were published before `before` and whose fan-out is
    /// done. Returns their number.
    async fn sweep_events(&self, before: Timestamp, limit: usize) -> Result<usize>;
}
