//! Publishes events, reads them, and deletes old ones.

use std::collections::BTreeMap;

use everstep_core::ids::{EventId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{TopicEvent, heads};
use rusqlite::{Connection, Statement, named_params, params};
use uuid::Uuid;

use super::rows::{collect, event_from_row, listed_event_from_row};
use crate::access::first_id;
use crate::error::Result;
use crate::ports::EVENT_PAGE_BYTES;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::topics::{
    EventPage, EventQuery, EventRow, ListedEvent, PublishOutcome, ResultPage, UnmatchedEvents, pack_json, read_results,
};
use crate::{numbers, pack, texts};

impl Database {
    pub fn publish(&mut self, events: &[TopicEvent], unmatched: UnmatchedEvents) -> Result<Vec<PublishOutcome>> {
        for event in events {
            texts::check_event(event)?;
        }
        let tx = self.begin()?;
        let mut outcomes = Vec::with_capacity(events.len());
        let mut insert = tx.prepare_cached(query!("topics/publish/1_insert"))?;
        // Many events of a batch have the same topic.
        let mut topics = BTreeMap::new();
        for event in events {
            let is_done = unmatched == UnmatchedEvents::Done && event.replay_of.is_none() && {
                let topic = (event.workspace, event.topic.as_str());
                let has_targets = match topics.get(&topic) {
                    Some(has_targets) => *has_targets,
                    None => *topics.entry(topic).or_insert(has_targets(&tx, event)?),
                };
                !has_targets
            };
            outcomes.push(match execute_insert(&mut insert, event, is_done.then_some(event.at))? {
                true if is_done => PublishOutcome::Unmatched,
                true => PublishOutcome::Published,
                false => known_outcome(&tx, event)?,
            });
        }
        drop(insert);
        tx.commit()?;
        Ok(outcomes)
    }

    pub fn event(&self, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
        read_event(&self.connection, workspace, id)
    }

    pub fn list_events(&self, workspace: WorkspaceId, query: &EventQuery) -> Result<Vec<ListedEvent>> {
        let (from, to) = query.bounds();
        let (from, to) = (from.into_bytes(), to.into_bytes());
        let workspace = workspace.uuid().into_bytes();
        let limit = numbers::clamp_limit(query.limit);
        let mut statement;
        let found = match &query.topic {
            Some(topic) => {
                statement = self.connection.prepare_cached(query!("topics/list_events/2_of_topic"))?;
                statement.query(named_params! {
                    ":workspace": workspace, ":topic": topic, ":from": from, ":to": to, ":limit": limit,
                })?
            }
            None => {
                statement = self.connection.prepare_cached(query!("topics/list_events/1_all"))?;
                statement.query(named_params! {
                    ":workspace": workspace, ":from": from, ":to": to, ":limit": limit,
                })?
            }
        };
        collect(found, listed_event_from_row)
    }

    pub fn events_since(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        since: Timestamp,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<EventPage> {
        let first = first_id(since);
        let after = after.map_or(first, |after| after.uuid().max(first));
        let mut statement = self.connection.prepare_cached(query!("topics/events_since"))?;
        let mut found = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":topic": topic,
            ":after": after.into_bytes(),
            ":since": since.micros(),
            ":limit": numbers::clamp_limit(limit),
        })?;
        let mut page = EventPage::default();
        let mut bytes = 0;
        while !page.has_more
            && let Some(row) = found.next()?
        {
            let event = event_from_row(row)?.event;
            bytes += event.size();
            page.events.push(event);
            page.has_more = bytes >= EVENT_PAGE_BYTES || page.events.len() >= limit;
        }
        Ok(page)
    }

    pub fn count_events(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        (from, to): (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(query!("topics/count_events"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":topic": topic,
            ":from": first_id(from).into_bytes(),
            ":to": first_id(to).into_bytes(),
            ":limit": numbers::clamp_limit(limit),
        };
        Ok(statement.query_row(params, |row| crate::sqlite::columns::seq(row, 0))?)
    }

    pub fn event_results(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<ResultPage> {
        let mut statement = self.connection.prepare_cached(query!("topics/event_results"))?;
        let mut found = statement.query(named_params! {
            ":event": bytes(id),
            ":workspace": workspace.uuid().into_bytes(),
            ":after": after.unwrap_or_default(),
            ":limit": i64::MAX,
        })?;
        let mut page = ResultPage::default();
        let mut last = None;
        while let Some(row) = found.next()? {
            if page.results.len() >= limit {
                page.next = last;
                break;
            }
            let stored = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            page.results.extend(read_results(&pack::unpack(row.get(1)?, stored)?)?);
            last = Some(row.get(0)?);
        }
        Ok(page)
    }

    pub fn open_events(&self, before: Timestamp, after: Option<EventId>, limit: usize) -> Result<Vec<EventRow>> {
        let mut statement = self.connection.prepare_cached(query!("topics/open_events"))?;
        let found = statement.query(named_params! {
            ":after": after.map_or(Uuid::nil(), EventId::uuid).into_bytes(),
            ":before": first_id(before).into_bytes(),
            ":limit": numbers::clamp_limit(limit),
        })?;
        collect(found, event_from_row)
    }

    pub fn count_open_events(&self) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(query!("topics/count_open_events"))?;
        Ok(statement.query_row([], |row| crate::sqlite::columns::seq(row, 0))?)
    }

    pub fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        let tx = self.begin()?;
        let mut statement = tx.prepare_cached(query!("topics/sweep_events/1_old"))?;
        let params = named_params! { ":before": first_id(before).into_bytes(), ":limit": numbers::clamp_limit(limit) };
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let old: Vec<([u8; 16], [u8; 16])> = statement.query_map(params, read)?.collect::<rusqlite::Result<_>>()?;
        drop(statement);
        for (workspace, id) in &old {
            tx.prepare_cached(query!("topics/sweep_events/2_results"))?.execute(named_params! { ":id": id })?;
            tx.prepare_cached(query!("topics/sweep_events/3_event"))?
                .execute(named_params! { ":workspace": workspace, ":id": id })?;
        }
        tx.commit()?;
        Ok(old.len())
    }
}

pub(super) fn read_event(connection: &Connection, workspace: WorkspaceId, id: EventId) -> Result<Option<EventRow>> {
    let mut statement = connection.prepare_cached(query!("topics/event"))?;
    let mut found = statement.query(named_params! { ":workspace": workspace.uuid().into_bytes(), ":id": bytes(id) })?;
    found.next()?.map(event_from_row).transpose()
}

/// Whether a subscription or a wait may match the events of a topic.
fn has_targets(tx: &Connection, event: &TopicEvent) -> Result<bool> {
    let workspace = event.workspace.uuid().into_bytes();
    let mut waits = tx.prepare_cached(query!("topics/publish/3_has_waits"))?;
    if waits.exists(named_params! { ":workspace": workspace, ":event": event.topic })? {
        return Ok(true);
    }
    let mut subscriptions = tx.prepare_cached(query!("topics/publish/4_has_subscriptions"))?;
    for head in heads(&event.topic) {
        if subscriptions.exists(named_params! { ":workspace": workspace, ":head": head })? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Publishes an event in a transaction, with the time at which its fan-out was done, if it is. `false`: its id, or its
/// source and event id, are known.
pub(in crate::sqlite) fn insert_event(
    tx: &Connection,
    event: &TopicEvent,
    fanned_at: Option<Timestamp>,
) -> rusqlite::Result<bool> {
    let mut insert = tx.prepare_cached(query!("topics/publish/1_insert"))?;
    execute_insert(&mut insert, event, fanned_at)
}

fn execute_insert(
    insert: &mut Statement<'_>,
    event: &TopicEvent,
    fanned_at: Option<Timestamp>,
) -> rusqlite::Result<bool> {
    let (codec, data) = pack_json(event.data.json());
    let (replay_of, replay_to) = event.replay_of.unzip();
    // By position, in the order of the statement: SQLite searches a named parameter among all of them.
    let inserted = insert.execute(params![
        event.workspace.uuid().into_bytes(),
        bytes(event.id),
        event.topic,
        event.source,
        event.event_id,
        event.at.micros(),
        fanned_at.map(Timestamp::micros),
        event.depth,
        event.subject,
        event.extensions.as_ref().map(|extensions| extensions.json().as_bytes()),
        replay_of.map(bytes),
        replay_to.map(|to| to.uuid().into_bytes()),
        codec.number(),
        data,
    ])?;
    Ok(inserted == 1)
}

/// The outcome of an event that was not inserted.
fn known_outcome(tx: &Connection, event: &TopicEvent) -> Result<PublishOutcome> {
    let mut statement = tx.prepare_cached(query!("topics/publish/2_known"))?;
    let mut found = statement.query(named_params! {
        ":workspace": event.workspace.uuid().into_bytes(),
        ":source": event.source,
        ":event_id": event.event_id,
    })?;
    match found.next()? {
        Some(row) => Ok(PublishOutcome::of_known(event, event_from_row(row)?)),
        // Its own id is known, under another source or event id: no caller chooses such an id.
        None => Ok(PublishOutcome::Reused(event.id)),
    }
}

fn bytes(id: EventId) -> [u8; 16] {
    id.uuid().into_bytes()
}
