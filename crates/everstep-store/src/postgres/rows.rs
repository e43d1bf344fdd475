//! Rows of the database as the contract's types.

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row as Encoded;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::access::{AuditRow, KeyRow, WorkspaceRow};
use crate::error::{Error, Result};
use crate::item::{InboxId, Wait};
use crate::pack;
use crate::resources::{ResourceKind, ResourceRow};
use crate::rows::{
    Arrival, Counts, NodeRow, RunRow, RunSummary, Snapshot, StoredEntry, VersionRow, WorkflowRow, WorkflowSummary,
};

/// In the order of `nodes.sql`.
pub(super) fn node(row: &Row) -> Result<NodeRow> {
    Ok(NodeRow {
        id: NodeId::from_uuid(get(row, 0)?),
        lease_until: time(row, 1)?,
        fenced: get(row, 2)?,
        is_expired: get(row, 3)?,
        address: get(row, 4)?,
    })
}

/// In the order of `get_run.sql`.
pub(super) fn run(row: &Row) -> Result<RunRow> {
    let scope: Option<String> = get(row, 10)?;
    let key: Option<String> = get(row, 11)?;
    Ok(RunRow {
        id: RunId::from_uuid(get(row, 0)?),
        owner: get::<Option<Uuid>>(row, 1)?.map(NodeId::from_uuid),
        wake_at: time(row, 2)?,
        ended_at: optional_time(row, 3)?,
        status: status(row, 4)?,
        format: number(row, 5)?,
        workspace: WorkspaceId::from_uuid(get(row, 6)?),
        workflow: get(row, 7)?,
        version: number(row, 8)?,
        lane: get(row, 9)?,
        key: scope.zip(key),
        parent: get::<Option<Uuid>>(row, 12)?.map(RunId::from_uuid),
        retention_days: days(row, 13)?,
        is_test: get(row, 14)?,
        created_at: time(row, 15)?,
        origin: get::<Option<Uuid>>(row, 16)?.map(RunId::from_uuid),
        tags: payload(get(row, 17)?)?,
        error: failure(row, 18)?,
        input: payload(get(row, 19)?)?,
        output: get::<Option<&[u8]>>(row, 20)?.map(bytes_payload).transpose()?,
        seq: seq(row, 21)?,
    })
}

/// In the order of `list_runs/all.sql`.
pub(super) fn summary(row: &Row) -> Result<RunSummary> {
    Ok(RunSummary {
        id: RunId::from_uuid(get(row, 0)?),
        workflow: get(row, 1)?,
        version: number(row, 2)?,
        status: status(row, 3)?,
        wake_at: time(row, 4)?,
        error: failure(row, 5)?,
        tags: payload(get(row, 6)?)?,
        created_at: time(row, 7)?,
        ended_at: optional_time(row, 8)?,
        parent: get::<Option<Uuid>>(row, 9)?.map(RunId::from_uuid),
        origin: get::<Option<Uuid>>(row, 10)?.map(RunId::from_uuid),
    })
}

/// In the order of `journal.sql`.
pub(super) fn entry(row: &Row) -> Result<StoredEntry> {
    let number: i16 = get(row, 4)?;
    let kind = u8::try_from(number).ok().and_then(Kind::from_number);
    let kind = kind.ok_or_else(|| Error::Corrupt(format!("event kind {number} is unknown to this build")))?;
    Ok(StoredEntry {
        seq: seq(row, 0)?,
        at: time(row, 1)?,
        writer: NodeId::from_uuid(get(row, 2)?),
        commit: get::<Option<Uuid>>(row, 3)?.map(CommitId::from_uuid),
        row: Encoded {
            kind,
            step: get::<Option<&str>>(row, 5)?.map(StepKey::from),
            attempt: self::number(row, 6)?,
            payload: unpack(row, 7)?,
        },
    })
}

/// In the order of `load_run/2_snapshot.sql`.
pub(super) fn snapshot(row: &Row) -> Result<Snapshot> {
    Ok(Snapshot { seq: seq(row, 0)?, format: number(row, 1)?, state: unpack(row, 2)? })
}

/// In the order of `inbox.sql`.
pub(super) fn arrival(row: &Row) -> Result<Arrival> {
    Ok(Arrival { id: InboxId(get(row, 0)?), run: RunId::from_uuid(get(row, 1)?), input: get(row, 2)? })
}

/// In the order of `waits_for.sql`.
pub(super) fn wait(row: &Row) -> Result<(RunId, Wait)> {
    let wait = Wait {
        step: StepKey::from(get::<&str>(row, 1)?),
        event: get(row, 2)?,
        deadline: optional_time(row, 3)?,
        pattern: bytes_payload(get(row, 4)?)?,
    };
    Ok((RunId::from_uuid(get(row, 0)?), wait))
}

/// In the order of `workflow.sql`.
pub(super) fn workflow(row: &Row) -> Result<WorkflowRow> {
    Ok(WorkflowRow {
        workspace: WorkspaceId::from_uuid(get(row, 0)?),
        name: get(row, 1)?,
        version: number(row, 2)?,
        style: get(row, 3)?,
        definition: bytes_payload(get(row, 4)?)?,
        digest: get(row, 5)?,
        retention_days: days(row, 6)?,
        created_at: time(row, 7)?,
    })
}

/// In the order of `find_key.sql`.
pub(super) fn key(row: &Row) -> Result<KeyRow> {
    let hash: &[u8] = get(row, 3)?;
    let permissions: &str = get(row, 4)?;
    Ok(KeyRow {
        id: get(row, 0)?,
        workspace: WorkspaceId::from_uuid(get(row, 1)?),
        name: get(row, 2)?,
        hash: hash.try_into().map_err(unreadable)?,
        permissions: permissions.split_whitespace().map(str::to_owned).collect(),
        role: get(row, 5)?,
        rate_limit: get::<Option<i64>>(row, 6)?.map(u32::try_from).transpose().map_err(unreadable)?,
        created_at: time(row, 7)?,
        expires_at: optional_time(row, 8)?,
        revoked_at: optional_time(row, 9)?,
    })
}

/// In the order of `workspaces.sql`.
pub(super) fn workspace(row: &Row) -> Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        id: WorkspaceId::from_uuid(get(row, 0)?),
        name: get(row, 1)?,
        options: bytes_payload(get(row, 2)?)?,
        created_at: time(row, 3)?,
    })
}

/// In the order of `list_audit.sql`.
pub(super) fn audit(row: &Row) -> Result<AuditRow> {
    Ok(AuditRow {
        id: get(row, 0)?,
        workspace: WorkspaceId::from_uuid(get(row, 1)?),
        at: time(row, 2)?,
        actor: get(row, 3)?,
        action: get(row, 4)?,
        target: get(row, 5)?,
        details: bytes_payload(get(row, 6)?)?,
    })
}

/// In the order of `resource.sql`.
pub(super) fn resource(row: &Row, workspace: WorkspaceId, kind: ResourceKind) -> Result<ResourceRow> {
    Ok(ResourceRow {
        workspace,
        kind,
        name: get(row, 0)?,
        body: get(row, 1)?,
        created_at: time(row, 2)?,
        updated_at: time(row, 3)?,
    })
}

/// In the order of `list_workflows.sql`.
pub(super) fn workflow_summary(row: &Row) -> Result<WorkflowSummary> {
    Ok(WorkflowSummary {
        name: get(row, 0)?,
        style: get(row, 1)?,
        active_version: number(row, 2)?,
        latest_version: number(row, 3)?,
        updated_at: time(row, 4)?,
    })
}

/// In the order of `list_versions.sql`.
pub(super) fn version(row: &Row) -> Result<VersionRow> {
    Ok(VersionRow {
        version: number(row, 0)?,
        digest: get(row, 1)?,
        created_at: time(row, 2)?,
        retention_days: days(row, 3)?,
        is_active: get(row, 4)?,
    })
}

/// In the order of `counts.sql`.
pub(super) fn count(row: &Row) -> Result<Counts> {
    Ok(Counts { workflow: get(row, 0)?, status: status(row, 1)?, n: get(row, 2)? })
}

/// A column. One that is not what it should be was not written by us.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| Error::Corrupt(super::errors::told(&error)))
}

/// An array, which is null when it is empty.
pub(super) fn list<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<Vec<T>> {
    Ok(get::<Option<Vec<T>>>(row, column)?.unwrap_or_default())
}

pub(super) fn seq(row: &Row, column: usize) -> Result<u64> {
    u64::try_from(get::<i64>(row, column)?).map_err(unreadable)
}

pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

fn optional_time(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

pub(super) fn number(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(get::<i32>(row, column)?).map_err(unreadable)
}

pub(super) fn days(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(get::<i64>(row, column)?).map_err(unreadable)
}

fn status(row: &Row, column: usize) -> Result<Status> {
    get::<&str>(row, column)?.parse().map_err(|error: String| Error::Corrupt(error))
}

fn failure(row: &Row, column: usize) -> Result<Option<Failure>> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| serde_json::from_str(text).map_err(unreadable)).transpose()
}

fn payload(text: String) -> Result<Payload> {
    Payload::from_json(text).map_err(unreadable)
}

fn bytes_payload(bytes: &[u8]) -> Result<Payload> {
    payload(std::str::from_utf8(bytes).map_err(unreadable)?.to_owned())
}

/// The bytes of a column that stands behind the column of their codec.
fn unpack(row: &Row, codec: usize) -> Result<Vec<u8>> {
    let number: i16 = get(row, codec)?;
    pack::unpack(u8::try_from(number).map_err(unreadable)?, get(row, codec + 1)?)
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Corrupt(error.to_string())
}
