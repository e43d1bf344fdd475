//! Slices of the fan-out of events: one statement, in which the row of each event is the gate of its slice.
//!
//! A start with a key that the subscription chooses may be left out, because a run has the key. The results of the slice
//! then name that run. So slices with such keys are written in a transaction of up to three statements: the slices, the
//! runs that have the keys, and the corrected results.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::ids::{NodeId, RunId};
use everstep_core::time::Timestamp;
use everstep_core::topics::Trigger;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::item::{InboxId, InboxInput, PendingStart, SentInput};
use crate::postgres::arrays::arrays;
use crate::postgres::columns;
use crate::postgres::connection::Connection;
use crate::postgres::dead_letter_arrays::DeadLetters;
use crate::postgres::errors::StatementError;
use crate::postgres::queries::{Param, Query, param, query};
use crate::postgres::search::RunTerms;
use crate::postgres::store::PostgresStore;
use crate::topics::{EventSlice, FanOutPosition, SliceOutcome, StartRow, pack_json, results_json};
use crate::{numbers, texts};

/// The number of times that slices are sent again after a conflict with another transaction.
const RETRIES_MAX: usize = 20;

arrays! {
    /// The events, which are gates.
    Gates {
        workspaces: "workspaces", Uuid;
        events: "events", Uuid;
        seen: "seen", String;
        next: "next", Option<String>;
        fanned_at: "fanned_at", Option<i64>;
        workflows: "workflows", i64;
        waits: "waits", i64;
        failed: "failed", i64;
    }
}

impl Gates<'_> {
    fn push(&mut self, slice: &EventSlice) {
        let counts = slice.counts();
        self.workspaces.push(slice.workspace.uuid());
        self.events.push(slice.event.uuid());
        self.seen.push(slice.seen.to_text());
        self.next.push(slice.next.as_ref().map(FanOutPosition::to_text));
        self.fanned_at.push(slice.next.is_none().then_some(slice.at).map(Timestamp::micros));
        self.workflows.push(numbers::clamp_seq(counts.workflows));
        self.waits.push(numbers::clamp_seq(counts.waits));
        self.failed.push(numbers::clamp_seq(counts.failed));
    }
}

arrays! {
    /// The rows of runs that begin later.
    Starts {
        events: "new_events", Uuid;
        ids: "new_ids", Uuid;
        owners: "new_owners", Option<Uuid>;
        wake_at: "new_wake_at", i64;
        formats: "new_formats", i32;
        workspaces: "new_workspaces", Uuid;
        workflows: "new_workflows", &'a str;
        versions: "new_versions", i32;
        lanes: "new_lanes", &'a str;
        scopes: "new_scopes", Option<&'a str>;
        keys: "new_keys", Option<&'a str>;
        parents: "new_parents", Option<Uuid>;
        retention_days: "new_retention_days", i64;
        is_test: "new_is_test", bool;
        created_at: "new_created_at", i64;
        tags: "new_tags", &'a str;
        inputs: "new_inputs", &'a str;
        triggers: "new_triggers", Option<String>;
        starts: "new_starts", Option<String>;
    }
}

impl<'a> Starts<'a> {
    fn push(&mut self, slice: &EventSlice, start: &'a StartRow) -> Result<()> {
        let new = &start.new;
        let key = new.key.as_ref();
        self.events.push(slice.event.uuid());
        self.ids.push(start.run.uuid());
        self.owners.push(start.owner.map(NodeId::uuid));
        self.wake_at.push(start.wake_at.micros());
        self.formats.push(numbers::checked_integer(start.format)?);
        self.workspaces.push(slice.workspace.uuid());
        self.workflows.push(&new.workflow);
        self.versions.push(numbers::checked_integer(new.version)?);
        self.lanes.push(&new.lane);
        self.scopes.push(key.map(|(scope, _)| scope.as_str()));
        self.keys.push(key.map(|(_, key)| key.as_str()));
        self.parents.push(new.parent.map(RunId::uuid));
        self.retention_days.push(new.retention_days.into());
        self.is_test.push(new.is_test);
        self.created_at.push(new.created_at.micros());
        self.tags.push(new.tags.json());
        self.inputs.push(new.input.json());
        self.triggers.push(new.trigger.as_ref().map(Trigger::to_json));
        self.starts.push(new.start.as_ref().map(PendingStart::to_json));
        Ok(())
    }
}

arrays! {
    /// Inputs for runs with open waits.
    Inputs {
        events: "input_events", Uuid;
        receivers: "input_receivers", Uuid;
        at: "input_at", i64;
        inputs: "input_inputs", &'a [u8];
    }
}

impl<'a> Inputs<'a> {
    fn push(&mut self, slice: &EventSlice, input: &'a InboxInput) {
        self.events.push(slice.event.uuid());
        self.receivers.push(input.to.uuid());
        self.at.push(slice.at.micros());
        self.inputs.push(&input.input);
    }
}

arrays! {
    /// The results of slices.
    Results {
        events: "result_events", Uuid;
        workspaces: "result_workspaces", Uuid;
        codecs: "result_codecs", i16;
        results: "result_results", &'a [u8];
    }
}

arrays! {
    /// The keys of starts that were left out.
    Keys {
        runs: "runs", Uuid;
        workspaces: "workspaces", Uuid;
        scopes: "scopes", &'a str;
        keys: "keys", &'a str;
    }
}

impl<'a> Keys<'a> {
    fn push(&mut self, slice: &EventSlice, start: &'a StartRow) {
        if let Some((scope, key)) = &start.new.key {
            self.runs.push(start.run.uuid());
            self.workspaces.push(slice.workspace.uuid());
            self.scopes.push(scope);
            self.keys.push(key);
        }
    }
}

arrays! {
    /// The results of slices that are written again.
    Replaced {
        events: "events", Uuid;
        workspaces: "workspaces", Uuid;
        codecs: "codecs", i16;
        results: "results", &'a [u8];
    }
}

impl PostgresStore {
    pub(super) async fn write_slices(&self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        for slice in slices {
            texts::check_slice(slice)?;
        }
        if slices.is_empty() {
            return Ok(Vec::new());
        }
        // Two statements lock the same events and keys in the same order.
        let mut order: Vec<_> = (0..slices.len()).collect();
        order.sort_by_key(|index| slices[*index].event);
        let packed: Vec<_> = slices.iter().map(|slice| pack_json(&results_json(&slice.results))).collect();
        let (mut gates, mut starts, mut inputs, mut results) =
            (Gates::default(), Starts::default(), Inputs::default(), Results::default());
        let (mut dead_letters, mut run_terms) = (DeadLetters::default(), RunTerms::default());
        let mut first_inputs = vec![0; slices.len()];
        for index in order {
            let slice = &slices[index];
            gates.push(slice);
            for start in &slice.starts {
                starts.push(slice, start)?;
                run_terms.push(slice.workspace, start.run, &start.new);
            }
            first_inputs[index] = inputs.events.len();
            for input in &slice.inputs {
                inputs.push(slice, input);
            }
            for letter in &slice.dead_letters {
                dead_letters.push(slice.event.uuid(), letter);
            }
            if !slice.results.is_empty() {
                let (codec, bytes) = &packed[index];
                results.events.push(slice.event.uuid());
                results.workspaces.push(slice.workspace.uuid());
                results.codecs.push(codec.number().into());
                results.results.push(bytes);
            }
        }
        let node_id = node.uuid();
        let mut params: Vec<Param<'_>> = vec![param("node", &node_id)];
        params.extend(gates.params());
        params.extend(starts.params());
        params.extend(inputs.params());
        params.extend(results.params());
        if !dead_letters.is_empty() {
            params.extend(dead_letters.params());
        }
        if !run_terms.is_empty() {
            params.extend(run_terms.params());
        }
        let statement = match (dead_letters.is_empty(), run_terms.is_empty()) {
            (true, true) => query!("topics/fan_out"),
            (false, true) => query!("topics/fan_out" with "topics/fan_out_dead_letters"),
            (true, false) => query!("topics/fan_out" with "topics/fan_out_terms"),
            (false, false) => query!("topics/fan_out" with "topics/fan_out_dead_letters", "topics/fan_out_terms"),
        };
        let row = if slices.iter().any(EventSlice::has_chosen_keys) {
            self.write_with_keys(statement, &params, slices).await?
        } else {
            self.connections.query_one(statement, &params).await?
        };
        if !columns::get::<bool>(&row, 0)? {
            return Err(Error::Fenced(node));
        }
        let sent = read_sent(&row, inputs.events.len())?;
        read_outcomes(&row, slices, &first_inputs, &sent)
    }

    /// Writes slices, and the runs that have the keys of starts into their results. Returns the row of the statement.
    async fn write_with_keys(&self, statement: &Query, params: &[Param<'_>], slices: &[EventSlice]) -> Result<Row> {
        let mut retries = 0;
        loop {
            // The connection is returned to the pool before another is requested.
            let written = {
                let connection = self.connections.get().await?;
                write_in_transaction(&connection, statement, params, slices).await
            };
            match written {
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                written => return Ok(written?),
            }
        }
    }
}

async fn write_in_transaction(
    connection: &Connection<'_>,
    statement: &Query,
    params: &[Param<'_>],
    slices: &[EventSlice],
) -> Result<Row, StatementError> {
    connection.begin("begin").await?;
    let row = connection.query(statement, params).await?.pop().expect("the statement always returns a row");
    let left_out = find_left_out(&row, slices)?;
    if !left_out.is_empty() {
        let mut keys = Keys::default();
        left_out.iter().for_each(|(slice, start)| keys.push(slice, start));
        let params: Vec<Param<'_>> = keys.params().collect();
        let found = connection.query(query!("topics/fan_out_keys"), &params).await?;
        let mut existing = BTreeMap::new();
        for pair in &found {
            let (run, other) = (columns::get(pair, 0)?, columns::get(pair, 1)?);
            existing.insert(RunId::from_uuid(run), RunId::from_uuid(other));
        }
        if existing.len() < keys.runs.len() {
            // The sweeper has deleted the run that had the key: the start is possible now.
            connection.rollback().await?;
            return Err(Error::Unavailable("the run that had the key of a start was deleted".to_owned()).into());
        }
        replace_results(connection, &left_out, &existing).await?;
    }
    connection.commit().await?;
    Ok(row)
}

/// The starts with a key that were left out, with their slices.
fn find_left_out<'a>(row: &Row, slices: &'a [EventSlice]) -> Result<Vec<(&'a EventSlice, &'a StartRow)>> {
    let opened: BTreeSet<Uuid> = columns::list(row, 1)?.into_iter().collect();
    let started: BTreeSet<Uuid> = columns::list(row, 2)?.into_iter().collect();
    let written = slices.iter().filter(|slice| opened.contains(&slice.event.uuid()));
    let starts = written.flat_map(|slice| slice.starts.iter().map(move |start| (slice, start)));
    Ok(starts.filter(|(_, start)| start.new.key.is_some() && !started.contains(&start.run.uuid())).collect())
}

/// Writes the results of slices again, with the runs that exist.
async fn replace_results(
    connection: &Connection<'_>,
    left_out: &[(&EventSlice, &StartRow)],
    existing: &BTreeMap<RunId, RunId>,
) -> Result<(), StatementError> {
    let slices: BTreeMap<Uuid, &EventSlice> = left_out.iter().map(|(slice, _)| (slice.event.uuid(), *slice)).collect();
    let packed: Vec<_> = slices.values().map(|slice| pack_json(&results_json(&slice.results_with(existing)))).collect();
    let mut replaced = Replaced::default();
    for (slice, (codec, bytes)) in slices.values().zip(&packed) {
        replaced.events.push(slice.event.uuid());
        replaced.workspaces.push(slice.workspace.uuid());
        replaced.codecs.push(codec.number().into());
        replaced.results.push(bytes);
    }
    let params: Vec<Param<'_>> = replaced.params().collect();
    connection.execute(query!("topics/fan_out_results"), &params).await?;
    Ok(())
}

/// The outcomes of all inputs, in the order of the statement.
fn read_sent(row: &Row, inputs: usize) -> Result<Vec<SentInput>> {
    let mut sent = vec![SentInput { id: None, owner: None }; inputs];
    let (places, ids, owners): (Vec<i64>, Vec<i64>, Vec<Option<Uuid>>) =
        (columns::list(row, 3)?, columns::list(row, 4)?, columns::list(row, 5)?);
    for ((place, id), owner) in places.into_iter().zip(ids).zip(owners) {
        let place = numbers::size(place).checked_sub(1).and_then(|place| sent.get_mut(place));
        let place = place.ok_or_else(|| Error::Corrupt("an inbox input without a position".to_owned()))?;
        *place = SentInput { id: Some(InboxId(id)), owner: owner.map(NodeId::from_uuid) };
    }
    Ok(sent)
}

fn read_outcomes(
    row: &Row,
    slices: &[EventSlice],
    first_inputs: &[usize],
    sent: &[SentInput],
) -> Result<Vec<SliceOutcome>> {
    let opened: BTreeSet<Uuid> = columns::list(row, 1)?.into_iter().collect();
    let started: BTreeSet<Uuid> = columns::list(row, 2)?.into_iter().collect();
    let outcome = |(slice, first): (&EventSlice, &usize)| {
        if !opened.contains(&slice.event.uuid()) {
            return SliceOutcome::Stale;
        }
        let runs = slice.starts.iter().map(|start| start.run);
        SliceOutcome::Written {
            started: runs.filter(|run| started.contains(&run.uuid())).collect(),
            sent: sent[*first..*first + slice.inputs.len()].to_vec(),
        }
    };
    Ok(slices.iter().zip(first_inputs).map(outcome).collect())
}
