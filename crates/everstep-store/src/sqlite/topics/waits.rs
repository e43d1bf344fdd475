//! Finds the waits that an event resolves.

use everstep_core::ids::RunId;
use everstep_core::topics::TopicEvent;
use rusqlite::{Connection, Row, named_params};

use crate::error::Result;
use crate::numbers;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::topics::{Candidate, SHAPES_MAX, WaitPage, WaitPosition, WaitScan, wanted_hashes};

impl Database {
    pub fn matching_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<WaitPage> {
        let tx = self.begin_read()?;
        let mut scan = WaitScan::new(event, limit);
        let hashes = after.and_then(|after| after.hashes);
        if hashes.is_none() {
            offer_unhashed(&tx, event, after, &mut scan)?;
        }
        let after = after.filter(|_| hashes.is_some());
        if !scan.is_full() {
            let shapes = read_shapes(&tx, event, hashes.map_or(i64::MIN, |(shape_hash, _)| shape_hash))?;
            if shapes.len() > SHAPES_MAX {
                offer_all(&tx, event, after, &mut scan)?;
            } else {
                for wanted in wanted_hashes(event, &shapes, hashes) {
                    offer_hashed(&tx, event, wanted, after, &mut scan)?;
                    if scan.is_full() {
                        break;
                    }
                }
            }
        }
        Ok(scan.finish())
    }
}

fn offer_unhashed(
    tx: &Connection,
    event: &TopicEvent,
    after: Option<&WaitPosition>,
    scan: &mut WaitScan<'_>,
) -> Result<()> {
    let (run, step) = start_after(after);
    let mut statement = tx.prepare_cached(query!("topics/matching_waits/1_unhashed"))?;
    let mut found = statement.query(named_params! {
        ":workspace": event.workspace.uuid().into_bytes(),
        ":event": event.topic,
        ":run": run,
        ":step": step,
        ":limit": numbers::clamp_limit(scan.room),
    })?;
    while let Some(row) = found.next()? {
        scan.offer(candidate_from_row(row, None)?);
    }
    Ok(())
}

/// The shapes of the waits for an event, from a hash on; one more than are searched one by one.
fn read_shapes(tx: &Connection, event: &TopicEvent, from: i64) -> Result<Vec<(i64, String)>> {
    let mut statement = tx.prepare_cached(query!("topics/matching_waits/2_shapes"))?;
    let params = named_params! {
        ":workspace": event.workspace.uuid().into_bytes(),
        ":event": event.topic,
        ":from": from,
        ":limit": numbers::clamp_limit(SHAPES_MAX + 1),
    };
    let shapes = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(shapes.collect::<rusqlite::Result<_>>()?)
}

fn offer_hashed(
    tx: &Connection,
    event: &TopicEvent,
    wanted: (i64, i64),
    after: Option<&WaitPosition>,
    scan: &mut WaitScan<'_>,
) -> Result<()> {
    let (run, step) = start_after(after.filter(|after| after.hashes == Some(wanted)));
    let mut statement = tx.prepare_cached(query!("topics/matching_waits/3_hashed"))?;
    let mut found = statement.query(named_params! {
        ":workspace": event.workspace.uuid().into_bytes(),
        ":event": event.topic,
        ":shape_hash": wanted.0,
        ":match_hash": wanted.1,
        ":run": run,
        ":step": step,
        ":limit": numbers::clamp_limit(scan.room),
    })?;
    while let Some(row) = found.next()? {
        scan.offer(candidate_from_row(row, Some(wanted))?);
    }
    Ok(())
}

fn offer_all(tx: &Connection, event: &TopicEvent, after: Option<&WaitPosition>, scan: &mut WaitScan<'_>) -> Result<()> {
    let (run, step) = start_after(after);
    let (shape_hash, match_hash) = after.and_then(|after| after.hashes).unwrap_or((i64::MIN, i64::MIN));
    let mut statement = tx.prepare_cached(query!("topics/matching_waits/4_all"))?;
    let mut found = statement.query(named_params! {
        ":workspace": event.workspace.uuid().into_bytes(),
        ":event": event.topic,
        ":from": shape_hash,
        ":shape_hash": shape_hash,
        ":match_hash": match_hash,
        ":run": run,
        ":step": step,
        ":limit": numbers::clamp_limit(scan.room),
    })?;
    while let Some(row) = found.next()? {
        scan.offer(candidate_from_row(row, Some((row.get(3)?, row.get(4)?)))?);
    }
    Ok(())
}

/// The run and the step after which a page begins.
fn start_after(after: Option<&WaitPosition>) -> ([u8; 16], &str) {
    after.map_or(([0; 16], ""), |after| (after.run.uuid().into_bytes(), after.step.as_str()))
}

/// In the order of `topics/matching_waits/1_unhashed.sql`.
fn candidate_from_row(row: &Row<'_>, hashes: Option<(i64, i64)>) -> Result<Candidate> {
    let run = RunId::from_uuid(columns::uuid(row, 0)?);
    Ok(Candidate::new(run, row.get(1)?, hashes, columns::payload(2, row.get(2)?)?))
}
