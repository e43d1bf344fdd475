//! Rows of runs, snapshots, nodes and the inbox.

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use rusqlite::Row;

use crate::error::Result;
use crate::item::InboxId;
use crate::pack;
use crate::rows::{Counts, InboxRow, NodeRow, RunGlance, RunRow, RunSummary, Snapshot};
use crate::sqlite::columns;

/// In the order of `nodes.sql`.
pub(super) fn node_from_row(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
    Ok(NodeRow {
        id: NodeId::from_uuid(columns::uuid(row, 0)?),
        lease_until: columns::time(row, 1)?,
        fenced: row.get(2)?,
        is_expired: row.get(3)?,
        address: row.get(4)?,
    })
}

/// In the order of `get_run.sql`.
pub(super) fn run_from_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let scope: Option<String> = row.get(10)?;
    let key: Option<String> = row.get(11)?;
    Ok(RunRow {
        id: RunId::from_uuid(columns::uuid(row, 0)?),
        owner: columns::optional_uuid(row, 1)?.map(NodeId::from_uuid),
        wake_at: columns::time(row, 2)?,
        ended_at: columns::optional_time(row, 3)?,
        status: columns::status(row, 4)?,
        format: row.get(5)?,
        workspace: WorkspaceId::from_uuid(columns::uuid(row, 6)?),
        workflow: row.get(7)?,
        version: row.get(8)?,
        lane: row.get(9)?,
        key: scope.zip(key),
        parent: columns::optional_uuid(row, 12)?.map(RunId::from_uuid),
        retention_days: row.get(13)?,
        is_test: row.get(14)?,
        created_at: columns::time(row, 15)?,
        origin: columns::optional_uuid(row, 16)?.map(RunId::from_uuid),
        tags: columns::text_payload(row, 17)?,
        error: columns::failure(row, 18)?,
        input: columns::text_payload(row, 19)?,
        output: row.get::<_, Option<Vec<u8>>>(20)?.map(|bytes| columns::payload(20, bytes)).transpose()?,
        machine: columns::machine(row, 21)?,
        trigger: columns::json(row, 23)?,
        start: columns::json(row, 24)?,
        seq: columns::seq(row, 25)?,
    })
}

/// In the order of `glance.sql`.
pub(super) fn glance_from_row(row: &Row<'_>) -> rusqlite::Result<RunGlance> {
    Ok(RunGlance {
        owner: columns::optional_uuid(row, 0)?.map(NodeId::from_uuid),
        status: columns::status(row, 1)?,
        machine: columns::machine(row, 2)?,
        workflow: row.get(4)?,
        version: row.get(5)?,
    })
}

/// In the order of `list_runs/all.sql`.
pub(super) fn summary_from_row(row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    Ok(RunSummary {
        id: RunId::from_uuid(columns::uuid(row, 0)?),
        workflow: row.get(1)?,
        version: row.get(2)?,
        status: columns::status(row, 3)?,
        wake_at: columns::time(row, 4)?,
        error: columns::failure(row, 5)?,
        tags: columns::text_payload(row, 6)?,
        created_at: columns::time(row, 7)?,
        ended_at: columns::optional_time(row, 8)?,
        parent: columns::optional_uuid(row, 9)?.map(RunId::from_uuid),
        origin: columns::optional_uuid(row, 10)?.map(RunId::from_uuid),
        machine: columns::machine(row, 11)?,
        trigger: columns::json(row, 15)?,
    })
}

/// In the order of `load_run/2_snapshot.sql`.
pub(super) fn snapshot_from_row(row: &Row<'_>) -> Result<Snapshot> {
    let bytes = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(Snapshot { seq: columns::seq(row, 0)?, format: row.get(1)?, state: pack::unpack(row.get(2)?, bytes)? })
}

/// In the order of `inbox.sql`.
pub(super) fn read_inbox_row(row: &Row<'_>) -> rusqlite::Result<InboxRow> {
    Ok(InboxRow { id: InboxId(row.get(0)?), run: RunId::from_uuid(columns::uuid(row, 1)?), input: row.get(2)? })
}

/// In the order of `counts.sql`.
pub(super) fn count_from_row(row: &Row<'_>) -> rusqlite::Result<Counts> {
    Ok(Counts { workflow: row.get(0)?, status: columns::status(row, 1)?, n: row.get(2)? })
}
