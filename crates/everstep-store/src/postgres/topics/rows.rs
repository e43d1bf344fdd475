//! Rows of events and subscriptions.

use everstep_core::ids::EventId;
use everstep_core::topics::Subscription;
use tokio_postgres::Row;

use crate::error::Result;
use crate::postgres::columns;
use crate::topics::{EventColumns, EventRow, ListedEvent, MatchCounts, SubscriptionColumns, payload};

/// In the order of `topics/event.sql`.
pub(super) fn event_from_row(row: &Row) -> Result<EventRow> {
    let columns = EventColumns {
        workspace: columns::get(row, 0)?,
        id: columns::get(row, 1)?,
        topic: columns::get(row, 2)?,
        source: columns::get(row, 3)?,
        event_id: columns::get(row, 4)?,
        at: columns::time(row, 5)?,
        depth: columns::integer(row, 6)?,
        subject: columns::get(row, 7)?,
        extensions: columns::get(row, 8)?,
        replay: columns::get::<Option<_>>(row, 9)?.zip(columns::get(row, 10)?),
        data: columns::unpack(row, 11)?,
        cursor: columns::get(row, 13)?,
        matched: MatchCounts {
            workflows: columns::seq(row, 14)?,
            waits: columns::seq(row, 15)?,
            failed: columns::seq(row, 16)?,
            ..MatchCounts::default()
        },
        fanned_at: columns::optional_time(row, 17)?,
    };
    columns.into_row()
}

/// In the order of `topics/list_events`.
pub(super) fn listed_event_from_row(row: &Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        id: EventId::from_uuid(columns::get(row, 0)?),
        topic: columns::get(row, 1)?,
        source: columns::get(row, 2)?,
        event_id: columns::get(row, 3)?,
        at: columns::time(row, 4)?,
        depth: columns::integer(row, 5)?,
        subject: columns::get(row, 6)?,
        extensions: columns::get::<Option<Vec<u8>>>(row, 7)?.map(payload).transpose()?,
        replay_of: columns::get::<Option<_>>(row, 8)?.map(EventId::from_uuid),
        matched: MatchCounts {
            workflows: columns::seq(row, 9)?,
            waits: columns::seq(row, 10)?,
            failed: columns::seq(row, 11)?,
            ..MatchCounts::default()
        },
        fanned_at: columns::optional_time(row, 12)?,
    })
}

/// In the order of `topics/subscription.sql`.
pub(super) fn subscription_from_row(row: &Row) -> Result<Subscription> {
    let columns = SubscriptionColumns {
        workspace: columns::get(row, 0)?,
        id: columns::get(row, 1)?,
        pattern: columns::get(row, 2)?,
        filter: columns::get(row, 3)?,
        target: columns::get(row, 4)?,
        input: columns::get(row, 5)?,
        origin: columns::get(row, 6)?,
        paused_at: columns::optional_time(row, 7)?,
        created_at: columns::time(row, 8)?,
    };
    columns.into_subscription()
}
