//! The port: selects the thread that writes or one of those that read.

use async_trait::async_trait;
use everstep_core::ids::{EventId, NodeId, SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Subscription, TopicEvent};

use crate::error::Result;
use crate::ports::TopicStore;
use crate::sqlite::disk::Purpose;
use crate::sqlite::store::SqliteStore;
use crate::topics::{
    EventPage, EventQuery, EventRow, EventSlice, ListedEvent, PublishOutcome, ResultPage, SliceOutcome,
    SubscriptionOutcome, SubscriptionQuery, UnmatchedEvents, WaitPage, WaitPosition,
};

/// An event counts as so many rows of a sweep: it is in several indexes, and has results.
const ROWS_OF_EVENT: usize = 4;

#[async_trait]
impl TopicStore for SqliteStore {
    async fn publish(&self, events: &[TopicEvent], unmatched: UnmatchedEvents) -> Result<Vec<PublishOutcome>> {
        let events = events.to_vec();
        self.write_for(Purpose::NewWork, move |database| database.publish(&events, unmatched)).await
    }

    async fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
        self.read(move |database| database.event(workspace, id)).await
    }

    async fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>> {
        let query = query.clone();
        self.read(move |database| database.list_events(workspace, &query)).await
    }

    async fn events_since(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        since: Timestamp,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage> {
        let topic = topic.to_owned();
        self.read(move |database| database.events_since(workspace, &topic, since, after, limit)).await
    }

    async fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        period: (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64> {
        let topic = topic.to_owned();
        self.read(move |database| database.count_events(workspace, &topic, period, limit)).await
    }

    async fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage> {
        self.read(move |database| database.event_results(workspace, id, after, limit)).await
    }

    async fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>> {
        self.read(move |database| database.open_events(before, after, limit)).await
    }

    async fn count_open_events(&self) -> Result<u64> {
        self.read(crate::sqlite::database::Database::count_open_events).await
    }

    async fn add_subscription(&self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome> {
        let subscription = subscription.clone();
        self.write_for(Purpose::NewWork, move |database| database.add_subscription(&subscription, quota)).await
    }

    async fn change_subscription(&self, subscription: &Subscription) -> Result<bool> {
        let subscription = subscription.clone();
        self.write_for(Purpose::NewWork, move |database| database.change_subscription(&subscription)).await
    }

    async fn pause_subscription(
        &self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>> {
        self.write(move |database| database.pause_subscription(workspace, id, paused_at)).await
    }

    async fn delete_subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool> {
        self.write(move |database| database.delete_subscription(workspace, id)).await
    }

    async fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>> {
        self.read(move |database| database.subscription(workspace, id)).await
    }

    async fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>> {
        let query = query.clone();
        self.read(move |database| database.list_subscriptions(workspace, &query)).await
    }

    async fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>> {
        let topic = topic.to_owned();
        self.read(move |database| database.subscriptions_of(workspace, &topic, after, limit)).await
    }

    async fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage> {
        let (event, after) = (event.clone(), after.cloned());
        self.read(move |database| database.matching_waits(&event, after.as_ref(), limit)).await
    }

    async fn fan_out(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        let slices = slices.to_vec();
        self.write_for(Purpose::NewWork, move |database| database.fan_out(node, &slices)).await
    }

    async fn sweep_events(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.sweep_all(limit, ROWS_OF_EVENT, move |database, batch| database.sweep_events(before, batch)).await
    }
}
