//! Rows of the database as the contract's types.

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use rusqlite::types::Type;
use uuid::Uuid;

use crate::access::{AuditRow, KeyRow, WorkspaceRow};
use crate::error::{Error, Result};
use crate::item::{InboxId, Wait};
use crate::pack;
use crate::resources::{ResourceKind, ResourceRow};
use crate::rows::{
    Arrival, Counts, NodeRow, RunRow, RunSummary, Snapshot, StoredEntry, VersionRow, WorkflowRow, WorkflowSummary,
};

type Columns<'a> = rusqlite::Row<'a>;

/// In the order of `nodes.sql`.
pub(super) fn node(row: &Columns<'_>) -> rusqlite::Result<NodeRow> {
    Ok(NodeRow {
        id: NodeId::from_uuid(uuid(row, 0)?),
        lease_until: time(row, 1)?,
        fenced: row.get(2)?,
        is_expired: row.get(3)?,
        address: row.get(4)?,
    })
}

/// In the order of `get_run.sql`.
pub(super) fn run(row: &Columns<'_>) -> rusqlite::Result<RunRow> {
    let scope: Option<String> = row.get(10)?;
    let key: Option<String> = row.get(11)?;
    Ok(RunRow {
        id: RunId::from_uuid(uuid(row, 0)?),
        owner: optional_uuid(row, 1)?.map(NodeId::from_uuid),
        wake_at: time(row, 2)?,
        ended_at: optional_time(row, 3)?,
        status: status(row, 4)?,
        format: row.get(5)?,
        workspace: WorkspaceId::from_uuid(uuid(row, 6)?),
        workflow: row.get(7)?,
        version: row.get(8)?,
        lane: row.get(9)?,
        key: scope.zip(key),
        parent: optional_uuid(row, 12)?.map(RunId::from_uuid),
        retention_days: row.get(13)?,
        is_test: row.get(14)?,
        created_at: time(row, 15)?,
        origin: optional_uuid(row, 16)?.map(RunId::from_uuid),
        tags: text_payload(row, 17)?,
        error: failure(row, 18)?,
        input: text_payload(row, 19)?,
        output: row.get::<_, Option<Vec<u8>>>(20)?.map(|bytes| payload(20, bytes)).transpose()?,
        seq: seq(row, 21)?,
    })
}

/// In the order of `list_runs/all.sql`.
pub(super) fn summary(row: &Columns<'_>) -> rusqlite::Result<RunSummary> {
    Ok(RunSummary {
        id: RunId::from_uuid(uuid(row, 0)?),
        workflow: row.get(1)?,
        version: row.get(2)?,
        status: status(row, 3)?,
        wake_at: time(row, 4)?,
        error: failure(row, 5)?,
        tags: text_payload(row, 6)?,
        created_at: time(row, 7)?,
        ended_at: optional_time(row, 8)?,
        parent: optional_uuid(row, 9)?.map(RunId::from_uuid),
        origin: optional_uuid(row, 10)?.map(RunId::from_uuid),
    })
}

/// In the order of `journal.sql`.
pub(super) fn entry(row: &Columns<'_>) -> Result<StoredEntry> {
    let number: u8 = row.get(4)?;
    let kind = Kind::from_number(number)
        .ok_or_else(|| Error::Corrupt(format!("event kind {number} is unknown to this build")))?;
    let step: Option<&str> = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let bytes = row.get_ref(8)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(StoredEntry {
        seq: seq(row, 0)?,
        at: time(row, 1)?,
        writer: NodeId::from_uuid(uuid(row, 2)?),
        commit: optional_uuid(row, 3)?.map(CommitId::from_uuid),
        row: Row {
            kind,
            step: step.map(StepKey::from),
            attempt: row.get(6)?,
            payload: pack::unpack(row.get(7)?, bytes)?,
        },
    })
}

/// In the order of `load_run/2_snapshot.sql`.
pub(super) fn snapshot(row: &Columns<'_>) -> Result<Snapshot> {
    let bytes = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(Snapshot { seq: seq(row, 0)?, format: row.get(1)?, state: pack::unpack(row.get(2)?, bytes)? })
}

/// In the order of `inbox.sql`.
pub(super) fn arrival(row: &Columns<'_>) -> rusqlite::Result<Arrival> {
    Ok(Arrival { id: InboxId(row.get(0)?), run: RunId::from_uuid(uuid(row, 1)?), input: row.get(2)? })
}

/// In the order of `waits_for.sql`.
pub(super) fn wait(row: &Columns<'_>) -> rusqlite::Result<(RunId, Wait)> {
    let wait = Wait {
        step: StepKey::from(row.get::<_, String>(1)?),
        event: row.get(2)?,
        deadline: optional_time(row, 3)?,
        pattern: payload(4, row.get(4)?)?,
    };
    Ok((RunId::from_uuid(uuid(row, 0)?), wait))
}

/// In the order of `workflow.sql`.
pub(super) fn workflow(row: &Columns<'_>) -> rusqlite::Result<WorkflowRow> {
    Ok(WorkflowRow {
        workspace: WorkspaceId::from_uuid(uuid(row, 0)?),
        name: row.get(1)?,
        version: row.get(2)?,
        style: row.get(3)?,
        definition: payload(4, row.get(4)?)?,
        digest: row.get(5)?,
        retention_days: row.get(6)?,
        created_at: time(row, 7)?,
    })
}

/// In the order of `find_key.sql`.
pub(super) fn key(row: &Columns<'_>) -> rusqlite::Result<KeyRow> {
    let permissions: String = row.get(4)?;
    Ok(KeyRow {
        id: uuid(row, 0)?,
        workspace: WorkspaceId::from_uuid(uuid(row, 1)?),
        name: row.get(2)?,
        hash: row.get(3)?,
        permissions: permissions.split_whitespace().map(str::to_owned).collect(),
        role: row.get(5)?,
        rate_limit: row.get(6)?,
        created_at: time(row, 7)?,
        expires_at: optional_time(row, 8)?,
        revoked_at: optional_time(row, 9)?,
    })
}

/// In the order of `workspaces.sql`.
pub(super) fn workspace(row: &Columns<'_>) -> rusqlite::Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        id: WorkspaceId::from_uuid(uuid(row, 0)?),
        name: row.get(1)?,
        options: payload(2, row.get(2)?)?,
        created_at: time(row, 3)?,
    })
}

/// In the order of `list_audit.sql`.
pub(super) fn audit(row: &Columns<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: uuid(row, 0)?,
        workspace: WorkspaceId::from_uuid(uuid(row, 1)?),
        at: time(row, 2)?,
        actor: row.get(3)?,
        action: row.get(4)?,
        target: row.get(5)?,
        details: payload(6, row.get(6)?)?,
    })
}

/// In the order of `resource.sql`.
pub(super) fn resource(row: &Columns<'_>, workspace: WorkspaceId, kind: ResourceKind) -> rusqlite::Result<ResourceRow> {
    Ok(ResourceRow {
        workspace,
        kind,
        name: row.get(0)?,
        body: row.get(1)?,
        created_at: time(row, 2)?,
        updated_at: time(row, 3)?,
    })
}

/// In the order of `list_workflows.sql`.
pub(super) fn workflow_summary(row: &Columns<'_>) -> rusqlite::Result<WorkflowSummary> {
    Ok(WorkflowSummary {
        name: row.get(0)?,
        style: row.get(1)?,
        active_version: row.get(2)?,
        latest_version: row.get(3)?,
        updated_at: time(row, 4)?,
    })
}

/// In the order of `list_versions.sql`.
pub(super) fn version(row: &Columns<'_>) -> rusqlite::Result<VersionRow> {
    Ok(VersionRow {
        version: row.get(0)?,
        digest: row.get(1)?,
        created_at: time(row, 2)?,
        retention_days: row.get(3)?,
        is_active: row.get(4)?,
    })
}

/// In the order of `counts.sql`.
pub(super) fn count(row: &Columns<'_>) -> rusqlite::Result<Counts> {
    Ok(Counts { workflow: row.get(0)?, status: status(row, 1)?, n: row.get(2)? })
}

pub(super) fn seq(row: &Columns<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

pub(super) fn uuid(row: &Columns<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

pub(super) fn optional_uuid(row: &Columns<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
}

pub(super) fn time(row: &Columns<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn optional_time(row: &Columns<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn status(row: &Columns<'_>, column: usize) -> rusqlite::Result<Status> {
    text(row, column)?.parse().map_err(|error: String| unreadable(column, Type::Text, error))
}

fn failure(row: &Columns<'_>, column: usize) -> rusqlite::Result<Option<Failure>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(column, Type::Text, error))).transpose()
}

pub(super) fn text<'a>(row: &'a Columns<'_>, column: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn text_payload(row: &Columns<'_>, column: usize) -> rusqlite::Result<Payload> {
    Payload::from_json(row.get::<_, String>(column)?).map_err(|error| unreadable(column, Type::Text, error))
}

fn payload(column: usize, bytes: Vec<u8>) -> rusqlite::Result<Payload> {
    let text = String::from_utf8(bytes).map_err(|error| unreadable(column, Type::Blob, error))?;
    Payload::from_json(text).map_err(|error| unreadable(column, Type::Blob, error))
}

fn unreadable(
    column: usize,
    stored: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, stored, error.into())
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::RunId;
    use everstep_core::time::Timestamp;

    use crate::error::Error;
    use crate::sqlite::Database;

    #[test]
    fn an_event_of_a_later_release_is_unreadable() {
        let database = Database::in_memory().unwrap();
        let run = RunId::new(Timestamp::EPOCH, 1);
        database
            .connection
            .execute(
                "insert into journal (run_id, seq, writer, at, kind, attempt, codec, payload)
                 values (?1, 1, ?1, 0, 255, 0, 0, x'')",
                [run.uuid().into_bytes()],
            )
            .unwrap();
        assert!(matches!(database.journal(run, 0, 10), Err(Error::Corrupt(_))));
    }
}
