//! Runs: claiming them, reading them, and what waits for them.

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::FORMAT;
use everstep_core::time::Timestamp;
use futures_util::future;
use uuid::Uuid;

use super::arrays;
use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::{Error, Result};
use crate::item::{InboxId, Wait};
use crate::journal::Readable;
use crate::rows::{Arrival, Loaded, RunRow, Snapshot, StoredEntry};
use crate::{numbers, pack, texts};

/// Reads of one transaction see one moment.
const READ: &str = "begin isolation level repeatable read read only";

impl PostgresStore {
    pub(super) async fn claim(&self, node: NodeId, lane: &str, now: Timestamp, limit: usize) -> Result<Vec<RunId>> {
        let (lane, limit) = if texts::has_nul(lane) { ("", 0) } else { (lane, limit) };
        let row = self
            .heartbeat
            .query_one(
                query!("claim_runs"),
                params! {
                    "node": node.uuid(),
                    "lane": lane,
                    "now": now.micros(),
                    "format": arrays::small(FORMAT)?,
                    "limit": numbers::limit(limit),
                },
            )
            .await?;
        if !rows::get::<bool>(&row, 0)? {
            return Err(Error::Fenced(node));
        }
        Ok(rows::list::<Uuid>(&row, 1)?.into_iter().map(RunId::from_uuid).collect())
    }

    pub(super) async fn read_owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        let runs = self.heartbeat.query(query!("owned_runs"), params! { "node": node.uuid() }).await?;
        runs.iter().map(|row| rows::get(row, 0).map(RunId::from_uuid)).collect()
    }

    pub(super) async fn read_next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        if texts::has_nul(lane) {
            return Ok(None);
        }
        let row = self
            .connections
            .query_opt(query!("next_wake"), params! { "lane": lane, "format": arrays::small(FORMAT)? })
            .await?;
        let wake = row.map(|row| rows::time(&row, 0)).transpose()?;
        Ok(wake.filter(|wake| *wake != Timestamp::NEVER))
    }

    pub(super) async fn read_inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<Arrival>> {
        self.heartbeat
            .query(
                query!("inbox"),
                params! {
                    "after": after.map_or(0, |id| id.0),
                    "node": node.uuid(),
                    "limit": numbers::limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::arrival)
            .collect()
    }

    pub(super) async fn read_arrivals(&self, run: RunId) -> Result<Vec<Arrival>> {
        let rows = self.connections.query(query!("arrivals"), params! { "run": run.uuid() }).await?;
        rows.iter().map(rows::arrival).collect()
    }

    pub(super) async fn replace_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        let (codec, state) = pack::pack(snapshot.state);
        self.connections
            .execute(
                query!("put_snapshot"),
                params! {
                    "seq": numbers::stored_seq(snapshot.seq)?,
                    "format": arrays::small(snapshot.format)?,
                    "codec": i16::from(codec.number()),
                    "state": state.as_slice(),
                    "run": run.uuid(),
                },
            )
            .await?;
        Ok(())
    }

    pub(super) async fn load(&self, run: RunId) -> Result<Option<Loaded>> {
        let connection = self.connections.get().await?;
        let id = run.uuid();
        let id = params! { "run": id };
        let (begun, found, snapshot) = future::join3(
            connection.begin(READ),
            connection.query(query!("load_run/1_run"), id),
            connection.query(query!("load_run/2_snapshot"), id),
        )
        .await;
        begun?;
        let Some(row) = found?.first().map(rows::run).transpose()? else {
            connection.commit().await?;
            return Ok(None);
        };
        // A snapshot that cannot be read is none: the journal is read from its beginning.
        let snapshot = snapshot?.first().and_then(|row| rows::snapshot(row).ok());
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let (stored, inbox) = future::join(
            connection.query(
                query!("journal"),
                params! { "run": run.uuid(), "after": numbers::place(after), "limit": i64::MAX },
            ),
            connection.query(query!("arrivals"), id),
        )
        .await;
        let mut journal = Readable::default();
        for row in stored? {
            journal.push(rows::seq(&row, 0)?, || rows::entry(&row))?;
        }
        let inbox = inbox?.iter().map(rows::arrival).collect::<Result<_>>()?;
        connection.commit().await?;
        let Readable { entries, unreadable } = journal;
        Ok(Some(Loaded { run: row, snapshot, entries, inbox, unreadable }))
    }

    pub(super) async fn read_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        let row = self
            .connections
            .query_opt(query!("get_run"), params! { "run": run.uuid(), "workspace": workspace.uuid() })
            .await?;
        row.as_ref().map(rows::run).transpose()
    }

    pub(super) async fn read_keyed_run(
        &self,
        workspace: WorkspaceId,
        scope: &str,
        key: &str,
    ) -> Result<Option<RunRow>> {
        if texts::has_nul(scope) || texts::has_nul(key) {
            return Ok(None);
        }
        let row = self
            .connections
            .query_opt(query!("find_run"), params! { "workspace": workspace.uuid(), "scope": scope, "key": key })
            .await?;
        row.as_ref().map(rows::run).transpose()
    }

    pub(super) async fn read_journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.connections
            .query(
                query!("journal"),
                params! {
                    "run": run.uuid(),
                    "after": numbers::place(after),
                    "limit": numbers::limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::entry)
            .collect()
    }

    pub(super) async fn read_waits(
        &self,
        workspace: WorkspaceId,
        event: &str,
        limit: usize,
    ) -> Result<Vec<(RunId, Wait)>> {
        if texts::has_nul(event) {
            return Ok(vec![]);
        }
        self.connections
            .query(
                query!("waits_for"),
                params! {
                    "workspace": workspace.uuid(),
                    "event": event,
                    "limit": numbers::limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::wait)
            .collect()
    }
}
