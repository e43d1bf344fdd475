//! A store of topics whose events wait for a gate.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::{EventId, NodeId, SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Subscription, TopicEvent};
use everstep_store::{
    Error, EventPage, EventQuery, EventRow, EventSlice, ListedEvent, PublishOutcome, Result, ResultPage, SliceOutcome,
    SubscriptionOutcome, SubscriptionQuery, TopicStore, UnmatchedEvents, WaitPage, WaitPosition,
};

use super::gate::StoreGate;

/// Publishes no events before its gate is open, and creates no runs if the gate refuses them.
pub(super) struct HeldTopics {
    pub(super) store: Arc<dyn TopicStore>,
    pub(super) gate: Arc<StoreGate>,
}

#[async_trait]
impl TopicStore for HeldTopics {
    async fn publish(&self, events: &[TopicEvent], unmatched: UnmatchedEvents) -> Result<Vec<PublishOutcome>> {
        self.gate.pass().await;
        self.store.publish(events, unmatched).await
    }

    async fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
        self.store.event(workspace, id).await
    }

    async fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>> {
        self.store.list_events(workspace, query).await
    }

    async fn events_since(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        since: Timestamp,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage> {
        self.store.events_since(workspace, topic, since, after, limit).await
    }

    async fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        period: (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64> {
        self.store.count_events(workspace, topic, period, limit).await
    }

    async fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage> {
        self.store.event_results(workspace, id, after, limit).await
    }

    async fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>> {
        self.store.open_events(before, after, limit).await
    }

    async fn count_open_events(&self) -> Result<u64> {
        self.store.count_open_events().await
    }

    async fn add_subscription(&self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome> {
        self.store.add_subscription(subscription, quota).await
    }

    async fn change_subscription(&self, subscription: &Subscription) -> Result<bool> {
        self.store.change_subscription(subscription).await
    }

    async fn pause_subscription(
        &self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>> {
        self.store.pause_subscription(workspace, id, paused_at).await
    }

    async fn delete_subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool> {
        self.store.delete_subscription(workspace, id).await
    }

    async fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>> {
        self.store.subscription(workspace, id).await
    }

    async fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>> {
        self.store.list_subscriptions(workspace, query).await
    }

    async fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>> {
        self.store.subscriptions_of(workspace, topic, after, limit).await
    }

    async fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage> {
        self.store.matching_waits(event, after, limit).await
    }

    async fn fan_out(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        if self.gate.refuses_starts() && slices.iter().any(|slice| !slice.starts.is_empty()) {
            return Err(Error::Refused("no starts are accepted".to_owned()));
        }
        self.store.fan_out(node, slices).await
    }

    async fn sweep_events(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.store.sweep_events(before, limit).await
    }
}
