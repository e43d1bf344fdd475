//! Publishes events: many in one statement.

use std::collections::BTreeSet;

use everstep_core::ids::{EventId, SubscriptionId};
use everstep_core::topics::TopicEvent;
use uuid::Uuid;

use super::rows::event_from_row;
use crate::error::{Error, Result};
use crate::postgres::arrays::arrays;
use crate::postgres::columns;
use crate::postgres::queries::{Param, params, query};
use crate::postgres::store::PostgresStore;
use crate::topics::{PublishOutcome, pack_json};
use crate::{numbers, texts};

/// The number of times that an event is inserted while its namesake is being deleted.
const PASSES_MAX: usize = 10;

/// The bytes of an event's data, as they are stored.
struct PackedEvent<'a> {
    event: &'a TopicEvent,
    codec: i16,
    data: Vec<u8>,
}

impl<'a> PackedEvent<'a> {
    fn new(event: &'a TopicEvent) -> Self {
        let (codec, data) = pack_json(event.data.json());
        Self { event, codec: codec.number().into(), data }
    }
}

arrays! {
    /// Events that are published.
    EventColumns {
        workspaces: "workspaces", Uuid;
        ids: "ids", Uuid;
        topics: "topics", &'a str;
        sources: "sources", &'a str;
        event_ids: "event_ids", &'a str;
        at: "at", i64;
        depths: "depths", i32;
        subjects: "subjects", Option<&'a str>;
        extensions: "extensions", Option<&'a [u8]>;
        replays_of: "replays_of", Option<Uuid>;
        replays_to: "replays_to", Option<Uuid>;
        codecs: "codecs", i16;
        data: "data", &'a [u8];
    }
}

impl<'a> EventColumns<'a> {
    fn push(&mut self, packed: &'a PackedEvent<'_>) -> Result<()> {
        let event = packed.event;
        let (replay_of, replay_to) = event.replay_of.unzip();
        self.workspaces.push(event.workspace.uuid());
        self.ids.push(event.id.uuid());
        self.topics.push(&event.topic);
        self.sources.push(&event.source);
        self.event_ids.push(&event.event_id);
        self.at.push(event.at.micros());
        self.depths.push(numbers::checked_integer(event.depth)?);
        self.subjects.push(event.subject.as_deref());
        self.extensions.push(event.extensions.as_ref().map(|extensions| extensions.json().as_bytes()));
        self.replays_of.push(replay_of.map(EventId::uuid));
        self.replays_to.push(replay_to.map(SubscriptionId::uuid));
        self.codecs.push(packed.codec);
        self.data.push(&packed.data);
        Ok(())
    }
}

impl PostgresStore {
    pub(super) async fn publish_events(&self, events: &[TopicEvent]) -> Result<Vec<PublishOutcome>> {
        for event in events {
            texts::check_event(event)?;
        }
        let packed: Vec<_> = events.iter().map(PackedEvent::new).collect();
        let mut outcomes: Vec<Option<PublishOutcome>> = vec![None; events.len()];
        for _ in 0..PASSES_MAX {
            let missing: Vec<_> = (0..events.len()).filter(|index| outcomes[*index].is_none()).collect();
            if missing.is_empty() {
                break;
            }
            let written = self.insert_events(missing.iter().map(|index| &packed[*index])).await?;
            let (written, known): (Vec<_>, Vec<_>) =
                missing.into_iter().partition(|index| written.contains(&events[*index].id.uuid()));
            for index in written {
                outcomes[index] = Some(PublishOutcome::Published);
            }
            self.read_known(events, &known, &mut outcomes).await?;
        }
        let outcomes: Option<Vec<_>> = outcomes.into_iter().collect();
        outcomes.ok_or_else(|| Error::Unavailable("events with the same ids are being deleted".to_owned()))
    }

    /// Inserts events. Returns the ids of those that were written.
    async fn insert_events<'a>(&self, packed: impl Iterator<Item = &'a PackedEvent<'a>>) -> Result<BTreeSet<Uuid>> {
        let mut sorted: Vec<_> = packed.collect();
        sorted.sort_by_key(|packed| (packed.event.workspace, &packed.event.source, &packed.event.event_id));
        let mut columns = EventColumns::default();
        for packed in sorted {
            columns.push(packed)?;
        }
        let params: Vec<Param<'_>> = columns.params().collect();
        let rows = self.connections.query(query!("topics/publish/1_insert"), &params).await?;
        rows.iter().map(|row| columns::get(row, 0)).collect()
    }

    /// Sets the outcomes of events that were not written, by the events that have their sources and ids.
    async fn read_known(
        &self,
        events: &[TopicEvent],
        known: &[usize],
        outcomes: &mut [Option<PublishOutcome>],
    ) -> Result<()> {
        if known.is_empty() {
            return Ok(());
        }
        let wanted = || known.iter().map(|index| &events[*index]);
        let rows = self
            .connections
            .query(
                query!("topics/publish/2_known"),
                params! {
                    "workspaces": wanted().map(|event| event.workspace.uuid()).collect::<Vec<_>>(),
                    "sources": wanted().map(|event| event.source.as_str()).collect::<Vec<_>>(),
                    "event_ids": wanted().map(|event| event.event_id.as_str()).collect::<Vec<_>>(),
                },
            )
            .await?;
        for row in &rows {
            let place = numbers::size(columns::get(row, 18)?);
            let index = place.checked_sub(1).and_then(|place| known.get(place));
            let index = *index.ok_or_else(|| Error::Corrupt("an event without a place".to_owned()))?;
            outcomes[index] = Some(PublishOutcome::of_known(&events[index], event_from_row(row)?));
        }
        Ok(())
    }
}
