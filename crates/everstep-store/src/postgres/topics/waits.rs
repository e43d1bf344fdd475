//! Finds the waits that an event resolves.

use everstep_core::ids::RunId;
use everstep_core::topics::TopicEvent;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::Result;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::topics::{Candidate, SHAPES_MAX, WaitPage, WaitPosition, WaitScan, wanted_hashes};
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn find_waits(
        &self,
        event: &TopicEvent,
        after: Option<&WaitPosition>,
        limit: usize,
    ) -> Result<WaitPage> {
        let mut scan = WaitScan::new(event, limit);
        if texts::has_nul(&event.topic) {
            return Ok(scan.finish());
        }
        let hashes = after.and_then(|after| after.hashes);
        let (run, step) = start_after(after.filter(|_| hashes.is_none()));
        let rows = self
            .connections
            .query(
                query!("topics/matching_waits/1_shapes"),
                params! {
                    "workspace": event.workspace.uuid(),
                    "event": event.topic,
                    "from": hashes.map_or(i64::MIN, |(shape_hash, _)| shape_hash),
                    "shapes_max": numbers::clamp_limit(SHAPES_MAX + 1),
                    "run": run,
                    "step": step,
                    "unhashed_max": if hashes.is_none() { numbers::clamp_limit(scan.room) } else { 0 },
                },
            )
            .await?;
        let mut shapes = Vec::new();
        for row in &rows {
            match columns::get::<Option<i64>>(row, 0)? {
                Some(shape_hash) => shapes.push((shape_hash, columns::get(row, 1)?)),
                None => scan.offer(candidate(row, 2, None)?),
            }
        }
        if scan.is_full() || shapes.is_empty() {
            return Ok(scan.finish());
        }
        let after = after.filter(|_| hashes.is_some());
        let found = if shapes.len() > SHAPES_MAX {
            self.read_all_waits(event, after, scan.room).await?
        } else {
            self.read_hashed_waits(event, &shapes, after, scan.room).await?
        };
        for row in &found {
            scan.offer(candidate(row, 0, Some((columns::get(row, 3)?, columns::get(row, 4)?)))?);
        }
        Ok(scan.finish())
    }

    async fn read_hashed_waits(
        &self,
        event: &TopicEvent,
        shapes: &[(i64, String)],
        after: Option<&WaitPosition>,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let wanted = wanted_hashes(event, shapes, after.and_then(|after| after.hashes));
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (shape_hashes, match_hashes): (Vec<_>, Vec<_>) = wanted.iter().copied().unzip();
        let start = |wanted: &(i64, i64)| start_after(after.filter(|after| after.hashes == Some(*wanted)));
        let (runs, steps): (Vec<_>, Vec<_>) = wanted.iter().map(start).unzip();
        self.connections
            .query(
                query!("topics/matching_waits/2_hashed"),
                params! {
                    "shape_hashes": shape_hashes,
                    "match_hashes": match_hashes,
                    "runs": runs,
                    "steps": steps,
                    "workspace": event.workspace.uuid(),
                    "event": event.topic,
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await
    }

    async fn read_all_waits(&self, event: &TopicEvent, after: Option<&WaitPosition>, limit: usize) -> Result<Vec<Row>> {
        let (run, step) = start_after(after);
        let (shape_hash, match_hash) = after.and_then(|after| after.hashes).unwrap_or((i64::MIN, i64::MIN));
        self.connections
            .query(
                query!("topics/matching_waits/3_all"),
                params! {
                    "workspace": event.workspace.uuid(),
                    "event": event.topic,
                    "shape_hash": shape_hash,
                    "match_hash": match_hash,
                    "run": run,
                    "step": step,
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await
    }
}

/// The run and the step after which a page begins.
fn start_after(after: Option<&WaitPosition>) -> (Uuid, &str) {
    after.map_or((Uuid::nil(), ""), |after| (after.run.uuid(), after.step.as_str()))
}

/// A wait whose run, step and pattern are in this column and the two after it.
fn candidate(row: &Row, column: usize, hashes: Option<(i64, i64)>) -> Result<Candidate> {
    let run = RunId::from_uuid(columns::get(row, column)?);
    let pattern = columns::bytes_payload(columns::get(row, column + 2)?)?;
    Ok(Candidate::new(run, columns::get(row, column + 1)?, hashes, pattern))
}
