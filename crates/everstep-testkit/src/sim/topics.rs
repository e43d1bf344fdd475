//! The port of topics behind the simulated wire.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::{EventId, NodeId, RunId, SubscriptionId, WorkspaceId};
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Subscription, TopicEvent};
use everstep_store::sqlite::Database;
use everstep_store::{
    Error, EventPage, EventQuery, EventRow, EventSlice, FanOutPosition, ListedEvent, PublishOutcome, Result,
    ResultPage, SliceOutcome, SubscriptionOutcome, SubscriptionQuery, TopicStore, UnmatchedEvents, WaitPage,
    WaitPosition,
};

use super::wire::SimStore;

#[async_trait]
impl TopicStore for SimStore {
    async fn publish(&self, events: &[TopicEvent], unmatched: UnmatchedEvents) -> Result<Vec<PublishOutcome>> {
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        let (store, events): (_, Arc<[TopicEvent]>) = (self.clone(), events.into());
        self.call("publish", move |db| {
            let outcomes = db.publish(&events, unmatched)?;
            let mut ledger = store.ledger();
            for (event, _) in events.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_published()) {
                ledger.order.note_event(event.id);
            }
            drop(ledger);
            Ok(outcomes)
        })
        .await
    }

    async fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
        self.call("event", move |db| db.event(workspace, id)).await
    }

    async fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>> {
        let query = query.clone();
        self.call("list_events", move |db| db.list_events(workspace, &query)).await
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
        self.call("events_since", move |db| db.events_since(workspace, &topic, since, after, limit)).await
    }

    async fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        period: (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64> {
        let topic = topic.to_owned();
        self.call("count_events", move |db| db.count_events(workspace, &topic, period, limit)).await
    }

    async fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage> {
        self.call("event_results", move |db| db.event_results(workspace, id, after, limit)).await
    }

    async fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>> {
        self.call("open_events", move |db| db.open_events(before, after, limit)).await
    }

    async fn count_open_events(&self) -> Result<u64> {
        self.call("count_open_events", move |db| db.count_open_events()).await
    }

    async fn add_subscription(&self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome> {
        let (store, subscription) = (self.clone(), subscription.clone());
        self.call("add_subscription", move |db| {
            // A second call finds the row of the first one.
            let is_known = db.subscription(subscription.workspace, subscription.id)?.is_some();
            let outcome =
                if is_known { SubscriptionOutcome::Added } else { db.add_subscription(&subscription, quota)? };
            store.watch_subscriptions(db);
            Ok(outcome)
        })
        .await
    }

    async fn change_subscription(&self, subscription: &Subscription) -> Result<bool> {
        let (store, subscription) = (self.clone(), subscription.clone());
        self.call("change_subscription", move |db| {
            let is_changed = db.change_subscription(&subscription)?;
            store.watch_subscriptions(db);
            Ok(is_changed)
        })
        .await
    }

    async fn pause_subscription(
        &self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>> {
        let store = self.clone();
        self.call("pause_subscription", move |db| {
            let subscription = db.pause_subscription(workspace, id, paused_at)?;
            store.watch_subscriptions(db);
            Ok(subscription)
        })
        .await
    }

    async fn delete_subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool> {
        let store = self.clone();
        self.call("delete_subscription", move |db| {
            let is_deleted = db.delete_subscription(workspace, id)?;
            store.watch_subscriptions(db);
            Ok(is_deleted)
        })
        .await
    }

    async fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>> {
        self.call("subscription", move |db| db.subscription(workspace, id)).await
    }

    async fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>> {
        let query = query.clone();
        self.call("list_subscriptions", move |db| db.list_subscriptions(workspace, &query)).await
    }

    async fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>> {
        let topic = topic.to_owned();
        self.call("subscriptions_of", move |db| db.subscriptions_of(workspace, &topic, after, limit)).await
    }

    async fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage> {
        let (event, after) = (event.clone(), after.cloned());
        self.call("matching_waits", move |db| db.matching_waits(&event, after.as_ref(), limit)).await
    }

    async fn fan_out(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        if planted::is_planted(Bug::CursorBeforeSlice) {
            return self.fan_out_in_two(node, slices).await;
        }
        self.write_slices(node, slices.into()).await
    }

    async fn sweep_events(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.call("sweep_events", move |db| db.sweep_events(before, limit)).await
    }
}

impl SimStore {
    async fn write_slices(&self, node: NodeId, slices: Arc<[EventSlice]>) -> Result<Vec<SliceOutcome>> {
        let store = self.clone();
        self.call("fan_out", move |db| {
            let outcomes = db.fan_out(node, &slices)?;
            store.watch_claims(node, &owned(node, &slices, &outcomes));
            store.watch_slices(db, &slices, &outcomes);
            Ok(outcomes)
        })
        .await
    }

    /// The planted bug: one transaction moves the positions of the events, and another one writes the rows.
    async fn fan_out_in_two(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        let end = |slice: &EventSlice| slice.next.clone().unwrap_or(FanOutPosition::Waits(None));
        let moves = slices.iter().map(|slice| EventSlice {
            next: Some(end(slice)),
            starts: Vec::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            ..slice.clone()
        });
        let moved = self.write_slices(node, moves.collect()).await?;
        let rest = slices.iter().zip(&moved).filter(|(_, outcome)| **outcome != SliceOutcome::Stale);
        let rest = rest.map(|(slice, _)| EventSlice { seen: end(slice), ..slice.clone() });
        let mut written = self.write_slices(node, rest.collect()).await?.into_iter();
        let outcomes = moved.into_iter().map(|outcome| match outcome {
            SliceOutcome::Written { .. } => written.next().expect("each slice has an outcome"),
            SliceOutcome::Stale => SliceOutcome::Stale,
        });
        Ok(outcomes.collect())
    }

    /// Records the runs that slices have created, and checks the waits of an event whose fan-out is done.
    fn watch_slices(&self, db: &Database, slices: &[EventSlice], outcomes: &[SliceOutcome]) {
        for (slice, outcome) in slices.iter().zip(outcomes) {
            let SliceOutcome::Written { started, .. } = outcome else { continue };
            self.executor.note(|| format!("event {}: slice to {:?}, {started:?}", slice.event, slice.next));
            let mut ledger = self.ledger();
            ledger.triggered.extend(started);
            ledger.pending.extend(started);
            // A client sends an input to a run that its node has not begun yet.
            for run in started.iter().filter(|_| self.executor.chance(10)) {
                ledger.bothered.push(*run);
                ledger.bother.notify_one();
            }
            if slice.next.is_none() {
                ledger.order.note_fanned(slice.event);
            }
            drop(ledger);
            self.watch_source(db, slice.event);
            if slice.next.is_none() {
                self.watch_fanned(db, slice.event);
            }
        }
    }
}

/// The runs that slices have created and that the node owns.
fn owned(node: NodeId, slices: &[EventSlice], outcomes: &[SliceOutcome]) -> Vec<RunId> {
    let written = slices.iter().zip(outcomes).filter_map(|(slice, outcome)| match outcome {
        SliceOutcome::Written { started, .. } => Some((slice, started)),
        SliceOutcome::Stale => None,
    });
    let owned = written.flat_map(|(slice, started)| {
        slice.starts.iter().filter(move |start| start.owner == Some(node) && started.contains(&start.run))
    });
    owned.map(|start| start.run).collect()
}
