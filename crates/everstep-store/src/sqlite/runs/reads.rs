//! Reading runs, journals and the inbox.

use everstep_core::ids::{NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::FORMAT;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, named_params};
use uuid::Uuid;

use super::entries::EntryReader;
use super::rows;
use crate::error::Result;
use crate::item::{InboxId, WaitKind};
use crate::journal::Readable;
use crate::rows::{InboxRow, RunGlance, RunRow, Snapshot, StoredEntry, StoredRun, WaitRow};
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::{numbers, pack};

impl Database {
    pub fn list_waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<&str>,
        after: Option<&(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>> {
        let (run, step) = after.map_or((Uuid::nil(), ""), |(run, step)| (run.uuid(), step.as_str()));
        let mut statement = self.connection.prepare_cached(query!("list_waits"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(), ":kind": kind.as_str(), ":run": run.into_bytes(),
            ":step": step, ":workflow": workflow, ":limit": numbers::clamp_limit(limit),
        };
        let waits = statement.query_map(params, |row| {
            Ok(WaitRow {
                run: RunId::from_uuid(columns::uuid(row, 0)?),
                workflow: row.get(1)?,
                step: StepKey::from(columns::text(row, 2)?),
                event: row.get(3)?,
                pattern: columns::payload(4, row.get(4)?)?,
                deadline: columns::optional_time(row, 5)?,
            })
        })?;
        Ok(waits.collect::<rusqlite::Result<_>>()?)
    }

    pub fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        let mut statement = self.connection.prepare_cached(query!("owned_runs"))?;
        let params = named_params! { ":node": node.uuid().into_bytes() };
        let runs = statement.query_map(params, |row| Ok(RunId::from_uuid(columns::uuid(row, 0)?)))?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    pub fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        let mut statement = self.connection.prepare_cached(query!("next_wake"))?;
        let params = named_params! { ":lane": lane, ":format": FORMAT };
        let wake = statement.query_row(params, |row| columns::time(row, 0)).optional()?;
        Ok(wake.filter(|wake| *wake != Timestamp::NEVER))
    }

    pub fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<InboxRow>> {
        read_inbox(&self.connection, node, after, limit)
    }

    pub fn arrivals(&self, run: RunId) -> Result<Vec<InboxRow>> {
        read_arrivals(&self.connection, run)
    }

    pub fn put_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<()> {
        let (codec, state) = pack::pack(snapshot.state);
        let mut statement = self.connection.prepare_cached(query!("put_snapshot"))?;
        statement.execute(named_params! {
            ":run": run.uuid().into_bytes(),
            ":seq": numbers::checked_seq(snapshot.seq)?,
            ":format": snapshot.format,
            ":codec": codec.number(),
            ":state": state,
        })?;
        Ok(())
    }

    pub fn load_run(&self, run: RunId) -> Result<Option<StoredRun>> {
        let tx = self.begin_read()?;
        let id = run.uuid().into_bytes();
        let row = tx
            .prepare_cached(query!("load_run/1_run"))?
            .query_row(named_params! { ":run": id }, rows::run_from_row)
            .optional()?;
        let Some(row) = row else {
            return Ok(None);
        };
        // A snapshot that cannot be read is ignored: the journal is read from its beginning.
        let snapshot = tx
            .prepare_cached(query!("load_run/2_snapshot"))?
            .query_and_then(named_params! { ":run": id }, rows::snapshot_from_row)?
            .next()
            .and_then(Result::ok);
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let Readable { entries, unreadable } = read_all(&tx, run, after)?;
        let inbox = read_arrivals(&tx, run)?;
        Ok(Some(StoredRun { run: row, snapshot, entries, inbox, unreadable }))
    }

    pub fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        let mut statement = self.connection.prepare_cached(query!("get_run"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":run": run.uuid().into_bytes(),
        };
        Ok(statement.query_row(params, rows::run_from_row).optional()?)
    }

    pub fn keyed_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunId>> {
        find_keyed(&self.connection, workspace, scope, key)
    }

    pub fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunGlance>> {
        let mut statement = self.connection.prepare_cached(query!("glance"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":run": run.uuid().into_bytes(),
        };
        Ok(statement.query_row(params, rows::glance_from_row).optional()?)
    }

    pub fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        read_journal(&self.connection, run, after, numbers::clamp_limit(limit))
    }
}

pub(super) fn read_inbox(
    connection: &Connection,
    node: NodeId,
    after: Option<InboxId>,
    limit: usize,
) -> Result<Vec<InboxRow>> {
    let mut statement = connection.prepare_cached(query!("inbox"))?;
    let params = named_params! {
        ":node": node.uuid().into_bytes(),
        ":after": after.map_or(0, |id| id.0),
        ":limit": numbers::clamp_limit(limit),
    };
    let mut arrivals: Vec<InboxRow> =
        statement.query_map(params, rows::read_inbox_row)?.collect::<rusqlite::Result<_>>()?;
    if planted::is_planted(Bug::ParkRacesSignal) {
        let mut owner = connection.prepare_cached(query!("commit/3_owner"))?;
        let mut is_ours = |arrival: &InboxRow| {
            let params = named_params! { ":run": arrival.run.uuid().into_bytes() };
            owner.query_row(params, |row| columns::optional_uuid(row, 0)).is_ok_and(|owner| owner == Some(node.uuid()))
        };
        arrivals.retain(|arrival| is_ours(arrival));
    }
    Ok(arrivals)
}

fn read_arrivals(connection: &Connection, run: RunId) -> Result<Vec<InboxRow>> {
    let mut statement = connection.prepare_cached(query!("arrivals"))?;
    let params = named_params! { ":run": run.uuid().into_bytes() };
    Ok(statement.query_map(params, rows::read_inbox_row)?.collect::<rusqlite::Result<_>>()?)
}

/// A journal up to the first entry that this build cannot read.
fn read_all(connection: &Connection, run: RunId, after: u64) -> Result<Readable> {
    let mut statement = connection.prepare_cached(query!("journal"))?;
    let mut stored = statement.query(named_params! {
        ":run": run.uuid().into_bytes(),
        ":after": numbers::clamp_seq(after),
        ":limit": -1,
    })?;
    let mut journal = Readable::default();
    let mut reader = EntryReader::new(connection, run);
    while let Some(row) = stored.next()? {
        journal.push(columns::seq(row, 0)?, || reader.read(row))?;
    }
    Ok(journal)
}

/// The run that has an idempotency key.
pub(in crate::sqlite) fn find_keyed(
    connection: &Connection,
    workspace: WorkspaceId,
    scope: &str,
    key: &str,
) -> Result<Option<RunId>> {
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":scope": scope, ":key": key };
    let mut statement = connection.prepare_cached(query!("keyed_run"))?;
    let found = statement.query_row(params, |row| columns::uuid(row, 0)).optional()?;
    Ok(found.map(RunId::from_uuid))
}

fn read_journal(connection: &Connection, run: RunId, after: u64, limit: i64) -> Result<Vec<StoredEntry>> {
    let mut statement = connection.prepare_cached(query!("journal"))?;
    let params = named_params! {
        ":run": run.uuid().into_bytes(),
        ":after": numbers::clamp_seq(after),
        ":limit": limit,
    };
    let mut reader = EntryReader::new(connection, run);
    statement.query_and_then(params, |row| reader.read(row))?.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn runs_of_a_newer_format_are_left_alone() {
        let mut database = Database::in_memory().unwrap();
        let node = NodeId::new(Timestamp::EPOCH, 1);
        database.join(node, Duration::from_secs(10), None).unwrap();
        let run = |number, format| {
            let id = RunId::new(Timestamp::EPOCH, number);
            let insert = "insert into runs (id, wake_at, status, format, workspace, workflow, version, lane,
                    retention_days, is_test, created_at, tags, input)
                values (?1, ?2, 'running', ?3, ?1, 'orders', 1, '', 7, 0, 0, '[]', 'null')";
            let wake_at = i64::try_from(number).unwrap();
            database.connection.execute(insert, (id.uuid().into_bytes(), wake_at, format)).unwrap();
            id
        };
        run(1, FORMAT + 1);
        let ours = run(2, FORMAT);
        assert_eq!(database.next_wake("").unwrap(), Some(Timestamp::from_micros(2)));
        assert_eq!(database.claim_runs(node, "", Timestamp::NEVER, 10, None).unwrap().runs, [ours]);
        assert_eq!(database.next_wake("").unwrap(), None);
    }
}
