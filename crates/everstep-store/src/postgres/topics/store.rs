//! The port: the verbs that are one statement are here, the others in the files beside this one.

use async_trait::async_trait;
use everstep_core::ids::{EventId, NodeId, SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Subscription, TopicEvent, heads};
use uuid::Uuid;

use super::rows::{event_from_row, listed_event_from_row, subscription_from_row};
use crate::access::first_id;
use crate::error::Result;
use crate::ports::{EVENT_PAGE_BYTES, TopicStore};
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::topics::{
    EventPage, EventQuery, EventRow, EventSlice, ListedEvent, PublishOutcome, ResultPage, SliceOutcome,
    SubscriptionOutcome, SubscriptionQuery, UnmatchedEvents, WaitPage, WaitPosition, read_results, subscription_filter,
    target_json,
};
use crate::{numbers, texts};

/// Slices whose results are read at once.
const RESULT_SLICES_MAX: usize = 64;

/// An event counts as so many rows of a sweep: it is in several indexes, and has results.
const ROWS_OF_EVENT: usize = 4;

#[async_trait]
impl TopicStore for PostgresStore {
    /// A wait that is committed at the same time could miss the event, so that every event needs a fan-out.
    async fn publish(&self, events: &[TopicEvent], _: UnmatchedEvents) -> Result<Vec<PublishOutcome>> {
        self.publish_events(events).await
    }

    async fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
        let row = self
            .connections
            .query_opt(query!("topics/event"), params! { "workspace": workspace.uuid(), "id": id.uuid() })
            .await?;
        row.as_ref().map(event_from_row).transpose()
    }

    async fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>> {
        let (from, to) = query.bounds();
        let (workspace, limit) = (workspace.uuid(), numbers::clamp_limit(query.limit));
        let rows = match &query.topic {
            Some(topic) if texts::has_nul(topic) => return Ok(Vec::new()),
            Some(topic) => {
                self.connections
                    .query(
                        query!("topics/list_events/2_of_topic"),
                        params! {
                            "workspace": workspace, "topic": topic.as_str(), "from": from, "to": to, "limit": limit,
                        },
                    )
                    .await?
            }
            None => {
                self.connections
                    .query(
                        query!("topics/list_events/1_all"),
                        params! { "workspace": workspace, "from": from, "to": to, "limit": limit },
                    )
                    .await?
            }
        };
        rows.iter().map(listed_event_from_row).collect()
    }

    async fn events_since(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        since: Timestamp,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage> {
        if texts::has_nul(topic) {
            return Ok(EventPage::default());
        }
        let first = first_id(since);
        let after = after.map_or(first, |after| after.uuid().max(first));
        let rows = self
            .connections
            .query(
                query!("topics/events_since"),
                params! {
                    "workspace": workspace.uuid(),
                    "topic": topic,
                    "after": after,
                    "since": since.micros(),
                    "limit": numbers::clamp_limit(limit),
                    "bytes": numbers::clamp_limit(EVENT_PAGE_BYTES),
                },
            )
            .await?;
        let mut page = EventPage::default();
        let mut bytes = 0;
        for row in &rows {
            // Stored data are compressed: the page can end before the last row.
            let event = event_from_row(row)?.event;
            bytes += event.size();
            page.events.push(event);
            let found = numbers::size(columns::get(row, 18)?);
            page.has_more = page.events.len() < found || found >= limit;
            if bytes >= EVENT_PAGE_BYTES {
                page.has_more = true;
                break;
            }
        }
        Ok(page)
    }

    async fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        (from, to): (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64> {
        if texts::has_nul(topic) {
            return Ok(0);
        }
        let (workspace, from, to) = (workspace.uuid(), first_id(from), first_id(to));
        let limit = numbers::clamp_limit(limit);
        let params = params! { "workspace": workspace, "topic": topic, "from": from, "to": to, "limit": limit };
        columns::seq(&self.connections.query_one(query!("topics/count_events"), params).await?, 0)
    }

    async fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage> {
        let rows = self
            .connections
            .query(
                query!("topics/event_results"),
                params! {
                    "event": id.uuid(),
                    "after": numbers::checked_integer(after.unwrap_or_default())?,
                    "workspace": workspace.uuid(),
                    "limit": numbers::clamp_limit(RESULT_SLICES_MAX),
                },
            )
            .await?;
        let mut page = ResultPage::default();
        let mut last = None;
        for row in &rows {
            if page.results.len() >= limit {
                page.next = last;
                return Ok(page);
            }
            page.results.extend(read_results(&columns::unpack(row, 1)?)?);
            last = Some(columns::integer(row, 0)?);
        }
        page.next = last.filter(|_| rows.len() == RESULT_SLICES_MAX);
        Ok(page)
    }

    async fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>> {
        let rows = self
            .connections
            .query(
                query!("topics/open_events"),
                params! {
                    "after": after.map_or(Uuid::nil(), EventId::uuid),
                    "before": first_id(before),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        rows.iter().map(event_from_row).collect()
    }

    async fn count_open_events(&self) -> Result<u64> {
        let row = self.connections.query_one(query!("topics/count_open_events"), params! {}).await?;
        columns::seq(&row, 0)
    }

    async fn add_subscription(&self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome> {
        self.add_one_subscription(subscription, quota).await
    }

    async fn change_subscription(&self, subscription: &Subscription) -> Result<bool> {
        texts::check_subscription(subscription)?;
        Ok(self
            .connections
            .execute(
                query!("topics/change_subscription"),
                params! {
                    "pattern": subscription.pattern.as_str(),
                    "head": subscription.pattern.head(),
                    "filter": subscription_filter(subscription),
                    "target": target_json(&subscription.target),
                    "input": subscription.input.as_ref().map(|input| input.json().as_bytes()),
                    "workspace": subscription.workspace.uuid(),
                    "id": subscription.id.uuid(),
                },
            )
            .await?
            == 1)
    }

    async fn pause_subscription(
        &self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>> {
        let row = self
            .connections
            .query_opt(
                query!("topics/pause_subscription"),
                params! {
                    "paused_at": paused_at.map(Timestamp::micros),
                    "workspace": workspace.uuid(),
                    "id": id.uuid(),
                },
            )
            .await?;
        row.as_ref().map(subscription_from_row).transpose()
    }

    async fn delete_subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool> {
        Ok(self
            .connections
            .execute(query!("topics/delete_subscription"), params! { "workspace": workspace.uuid(), "id": id.uuid() })
            .await?
            == 1)
    }

    async fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>> {
        let row = self
            .connections
            .query_opt(query!("topics/subscription"), params! { "workspace": workspace.uuid(), "id": id.uuid() })
            .await?;
        row.as_ref().map(subscription_from_row).transpose()
    }

    async fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>> {
        let after = query.after.map_or(Uuid::nil(), SubscriptionId::uuid);
        let (workspace, limit) = (workspace.uuid(), numbers::clamp_limit(query.limit));
        let rows = match &query.pattern {
            Some(pattern) => {
                self.connections
                    .query(
                        query!("topics/list_subscriptions/2_of_pattern"),
                        params! {
                            "workspace": workspace, "head": pattern.head(), "after": after, "pattern": pattern.as_str(),
                            "limit": limit,
                        },
                    )
                    .await?
            }
            None => {
                self.connections
                    .query(
                        query!("topics/list_subscriptions/1_all"),
                        params! { "workspace": workspace, "after": after, "limit": limit },
                    )
                    .await?
            }
        };
        rows.iter().map(subscription_from_row).collect()
    }

    async fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>> {
        if texts::has_nul(topic) {
            return Ok(Vec::new());
        }
        let rows = self
            .connections
            .query(
                query!("topics/subscriptions_of"),
                params! {
                    "heads": heads(topic),
                    "workspace": workspace.uuid(),
                    "after": after.map_or(Uuid::nil(), SubscriptionId::uuid),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        rows.iter().map(subscription_from_row).collect()
    }

    async fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage> {
        self.find_waits(event, after, limit).await
    }

    async fn fan_out(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        self.write_slices(node, slices).await
    }

    async fn sweep_events(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let before = first_id(before);
        self.sweep_all(limit, ROWS_OF_EVENT, query!("topics/sweep_events"), params! { "before": before }).await
    }
}
