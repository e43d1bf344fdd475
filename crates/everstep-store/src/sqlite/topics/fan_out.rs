//! Slices of the fan-out of events, each gated by the row of its event.

use std::collections::BTreeMap;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::planted::{self, Bug};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::Trigger;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::events::read_event;
use crate::error::{Error, Result};
use crate::item::{InboxId, InboxInput, PendingStart, SentInput};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::sqlite::runs::find_keyed;
use crate::sqlite::{columns, dead_letters, search};
use crate::topics::{EventSlice, FanOutPosition, SliceOutcome, StartRow, pack_json, results_json};
use crate::{numbers, texts};

impl Database {
    pub fn fan_out(&mut self, node: NodeId, slices: &[EventSlice]) -> Result<Vec<SliceOutcome>> {
        for slice in slices {
            texts::check_slice(slice)?;
        }
        let tx = self.begin()?;
        let member = tx
            .prepare_cached(query!("commit/1_member"))?
            .query_row(named_params! { ":node": node.uuid().into_bytes() }, |_| Ok(()))
            .optional()?;
        if member.is_none() {
            return Err(Error::Fenced(node));
        }
        let outcomes = slices.iter().map(|slice| write_slice(&tx, slice)).collect::<Result<_>>()?;
        tx.commit()?;
        Ok(outcomes)
    }
}

fn write_slice(tx: &Connection, slice: &EventSlice) -> Result<SliceOutcome> {
    let Some(number) = open_gate(tx, slice)? else { return Ok(SliceOutcome::Stale) };
    let mut started = Vec::new();
    let mut existing = BTreeMap::new();
    for start in &slice.starts {
        if insert_start(tx, slice, start)? {
            started.push(start.run);
        } else if let Some(run) = find_by_key(tx, slice, start)? {
            existing.insert(start.run, run);
        }
    }
    let sent = slice.inputs.iter().map(|input| send(tx, input, slice.at)).collect::<Result<_>>()?;
    for letter in &slice.dead_letters {
        dead_letters::insert(tx, letter)?;
    }
    if !slice.results.is_empty() {
        let (codec, results) = pack_json(&results_json(&slice.results_with(&existing)));
        tx.prepare_cached(query!("topics/fan_out/2_results"))?.execute(named_params! {
            ":event": slice.event.uuid().into_bytes(),
            ":slice": number,
            ":workspace": slice.workspace.uuid().into_bytes(),
            ":codec": codec.number(),
            ":results": results,
        })?;
    }
    Ok(SliceOutcome::Written { started, sent })
}

/// Moves the position of the event. Returns the number of the slice; none if the gate is closed.
fn open_gate(tx: &Connection, slice: &EventSlice) -> Result<Option<u32>> {
    let counts = slice.counts();
    let mut seen = slice.seen.to_text();
    if planted::is_planted(Bug::FanOutWithoutCursorGate)
        && let Some(row) = read_event(tx, slice.workspace, slice.event)?
    {
        seen = row.position.to_text();
    }
    let mut statement = tx.prepare_cached(query!("topics/fan_out/1_gate"))?;
    let params = named_params! {
        ":workspace": slice.workspace.uuid().into_bytes(),
        ":id": slice.event.uuid().into_bytes(),
        ":seen": seen,
        ":next": slice.next.as_ref().map(FanOutPosition::to_text),
        ":fanned_at": slice.next.is_none().then_some(slice.at).map(Timestamp::micros),
        ":workflows": numbers::clamp_seq(counts.workflows),
        ":waits": numbers::clamp_seq(counts.waits),
        ":failed": numbers::clamp_seq(counts.failed),
    };
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Inserts the row of a run without a journal. `false`: a run with its id, or with its scope and key, exists.
fn insert_start(tx: &Connection, slice: &EventSlice, start: &StartRow) -> Result<bool> {
    let (run, new) = (start.run.uuid().into_bytes(), &start.new);
    let (scope, key) = new.key.as_ref().map(|(scope, key)| (scope.as_str(), key.as_str())).unzip();
    let inserted = tx.prepare_cached(query!("commit/2_start"))?.execute(named_params! {
        ":run": run,
        ":owner": start.owner.map(|owner| owner.uuid().into_bytes()),
        ":wake_at": start.wake_at.micros(),
        ":ended_at": None::<i64>,
        ":status": Status::Pending.as_str(),
        ":format": start.format,
        ":workspace": slice.workspace.uuid().into_bytes(),
        ":workflow": new.workflow,
        ":version": new.version,
        ":lane": new.lane,
        ":scope": scope,
        ":key": key,
        ":parent": new.parent.map(|parent: RunId| parent.uuid().into_bytes()),
        ":retention_days": new.retention_days,
        ":is_test": new.is_test,
        ":created_at": new.created_at.micros(),
        ":tags": new.tags.json(),
        ":error": None::<String>,
        ":input": new.input.json(),
        ":output": None::<Vec<u8>>,
    })?;
    if inserted == 1 && (new.trigger.is_some() || new.start.is_some()) {
        tx.prepare_cached(query!("commit/2_cause"))?.execute(named_params! {
            ":run": run,
            ":trigger": new.trigger.as_ref().map(Trigger::to_json),
            ":start": new.start.as_ref().map(PendingStart::to_json),
        })?;
    }
    if inserted == 1 {
        search::insert_terms(tx, slice.workspace, start.run, new)?;
    }
    Ok(inserted == 1)
}

/// The run that has the key of a start.
fn find_by_key(tx: &Connection, slice: &EventSlice, start: &StartRow) -> Result<Option<RunId>> {
    let Some((scope, key)) = &start.new.key else { return Ok(None) };
    find_keyed(tx, slice.workspace, scope, key)
}

/// Sends an input to a run that has not ended.
fn send(tx: &Connection, input: &InboxInput, at: Timestamp) -> Result<SentInput> {
    let to = input.to.uuid().into_bytes();
    let addressee = tx
        .prepare_cached(query!("commit/4_addressee"))?
        .query_row(named_params! { ":to": to }, |row| {
            let owner = columns::optional_uuid(row, 0)?.map(NodeId::from_uuid);
            Ok((owner, row.get::<_, [u8; 16]>(1)?, row.get::<_, bool>(2)?))
        })
        .optional()?;
    let Some((owner, workspace, false)) = addressee else { return Ok(SentInput { id: None, owner: None }) };
    tx.prepare_cached(query!("commit/4_inbox_input"))?.execute(named_params! {
        ":to": to,
        ":workspace": workspace,
        ":now": at.micros(),
        ":input": input.input,
    })?;
    Ok(SentInput { id: Some(InboxId(tx.last_insert_rowid())), owner })
}
