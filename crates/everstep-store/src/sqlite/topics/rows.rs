//! Rows of events and subscriptions.

use everstep_core::ids::EventId;
use everstep_core::topics::Subscription;
use rusqlite::Row;

use crate::error::Result;
use crate::pack;
use crate::sqlite::columns;
use crate::topics::{EventColumns, EventRow, ListedEvent, MatchCounts, SubscriptionColumns, payload};

/// In the order of `topics/event.sql`.
pub(super) fn event_from_row(row: &Row<'_>) -> Result<EventRow> {
    let data = row.get_ref(12)?.as_blob().map_err(rusqlite::Error::from)?;
    let columns = EventColumns {
        workspace: columns::uuid(row, 0)?,
        id: columns::uuid(row, 1)?,
        topic: row.get(2)?,
        source: row.get(3)?,
        event_id: row.get(4)?,
        at: columns::time(row, 5)?,
        depth: row.get(6)?,
        subject: row.get(7)?,
        extensions: row.get(8)?,
        replay: columns::optional_uuid(row, 9)?.zip(columns::optional_uuid(row, 10)?),
        data: pack::unpack(row.get(11)?, data)?,
        cursor: row.get(13)?,
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
pub(super) fn listed_event_from_row(row: &Row<'_>) -> Result<ListedEvent> {
    Ok(ListedEvent {
        id: EventId::from_uuid(columns::uuid(row, 0)?),
        topic: row.get(1)?,
        source: row.get(2)?,
        event_id: row.get(3)?,
        at: columns::time(row, 4)?,
        depth: row.get(5)?,
        subject: row.get(6)?,
        extensions: row.get::<_, Option<Vec<u8>>>(7)?.map(payload).transpose()?,
        replay_of: columns::optional_uuid(row, 8)?.map(EventId::from_uuid),
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
pub(super) fn subscription_from_row(row: &Row<'_>) -> Result<Subscription> {
    let columns = SubscriptionColumns {
        workspace: columns::uuid(row, 0)?,
        id: columns::uuid(row, 1)?,
        pattern: row.get(2)?,
        filter: row.get(3)?,
        target: row.get(4)?,
        input: row.get(5)?,
        origin: row.get(6)?,
        paused_at: columns::optional_time(row, 7)?,
        created_at: columns::time(row, 8)?,
    };
    columns.into_subscription()
}

/// Reads all rows of a statement.
pub(super) fn collect<T>(mut rows: rusqlite::Rows<'_>, read: impl Fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}
