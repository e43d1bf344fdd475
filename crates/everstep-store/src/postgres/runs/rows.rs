//! Rows of runs, journals, nodes and the inbox.

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row as EncodedEvent;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::item::InboxId;
use crate::numbers;
use crate::postgres::columns;
use crate::rows::{Counts, InboxRow, NodeRow, RunGlance, RunRow, RunSummary, Snapshot, StoredEntry, WaitRow};
use crate::stats::RunStats;

/// In the order of `nodes.sql`.
pub(super) fn node_from_row(row: &Row) -> Result<NodeRow> {
    Ok(NodeRow {
        id: NodeId::from_uuid(columns::get(row, 0)?),
        lease_until: columns::time(row, 1)?,
        fenced: columns::get(row, 2)?,
        is_expired: columns::get(row, 3)?,
        address: columns::get(row, 4)?,
    })
}

/// In the order of `get_run.sql`.
pub(super) fn run_from_row(row: &Row) -> Result<RunRow> {
    let scope: Option<String> = columns::get(row, 10)?;
    let key: Option<String> = columns::get(row, 11)?;
    Ok(RunRow {
        id: RunId::from_uuid(columns::get(row, 0)?),
        owner: columns::get::<Option<Uuid>>(row, 1)?.map(NodeId::from_uuid),
        wake_at: columns::time(row, 2)?,
        ended_at: columns::optional_time(row, 3)?,
        status: columns::status(row, 4)?,
        format: columns::integer(row, 5)?,
        workspace: WorkspaceId::from_uuid(columns::get(row, 6)?),
        workflow: columns::get(row, 7)?,
        version: columns::integer(row, 8)?,
        lane: columns::get(row, 9)?,
        key: scope.zip(key),
        parent: columns::get::<Option<Uuid>>(row, 12)?.map(RunId::from_uuid),
        retention_days: columns::bigint(row, 13)?,
        is_test: columns::get(row, 14)?,
        created_at: columns::time(row, 15)?,
        origin: columns::get::<Option<Uuid>>(row, 16)?.map(RunId::from_uuid),
        tags: columns::payload(columns::get(row, 17)?)?,
        error: columns::failure(row, 18)?,
        input: columns::payload(columns::get(row, 19)?)?,
        output: columns::get::<Option<&[u8]>>(row, 20)?.map(columns::bytes_payload).transpose()?,
        machine: columns::machine(row, 21)?,
        trigger: columns::json(row, 23)?,
        start: columns::json(row, 24)?,
        seq: columns::seq(row, 25)?,
    })
}

/// In the order of `glance.sql`.
pub(super) fn glance_from_row(row: &Row) -> Result<RunGlance> {
    Ok(RunGlance {
        owner: columns::get::<Option<Uuid>>(row, 0)?.map(NodeId::from_uuid),
        status: columns::status(row, 1)?,
        machine: columns::machine(row, 2)?,
        workflow: columns::get(row, 4)?,
        version: columns::integer(row, 5)?,
    })
}

/// In the order of `list_runs/all.sql`.
pub(super) fn summary_from_row(row: &Row) -> Result<RunSummary> {
    Ok(RunSummary {
        id: RunId::from_uuid(columns::get(row, 0)?),
        workflow: columns::get(row, 1)?,
        version: columns::integer(row, 2)?,
        status: columns::status(row, 3)?,
        wake_at: columns::time(row, 4)?,
        error: columns::failure(row, 5)?,
        tags: columns::payload(columns::get(row, 6)?)?,
        created_at: columns::time(row, 7)?,
        ended_at: columns::optional_time(row, 8)?,
        parent: columns::get::<Option<Uuid>>(row, 9)?.map(RunId::from_uuid),
        origin: columns::get::<Option<Uuid>>(row, 10)?.map(RunId::from_uuid),
        machine: columns::machine(row, 11)?,
        trigger: columns::json(row, 15)?,
    })
}

/// The place of a run among those that a statement examined.
pub(super) struct Place {
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) is_match: bool,
}

/// In the order of `list_runs/all.sql`; none for a statement that returns only runs that match.
pub(super) fn place_from_row(row: &Row) -> Result<Option<Place>> {
    if row.len() <= 16 {
        return Ok(None);
    }
    Ok(Some(Place { number: numbers::size(columns::get(row, 16)?), is_match: columns::get(row, 17)? }))
}

/// The columns of an entry.
pub(super) struct EntryColumns<'a> {
    pub(super) seq: i64,
    pub(super) at: i64,
    pub(super) writer: Uuid,
    pub(super) commit: Option<Uuid>,
    pub(super) kind: i16,
    pub(super) step: Option<&'a str>,
    pub(super) attempt: i32,
    pub(super) codec: i16,
    pub(super) payload: &'a [u8],
}

impl EntryColumns<'_> {
    pub(super) fn read(&self) -> Result<StoredEntry> {
        let kind = u8::try_from(self.kind).ok().and_then(Kind::from_number);
        let kind = kind.ok_or_else(|| Error::Corrupt(format!("event kind {} is unknown to this build", self.kind)))?;
        Ok(StoredEntry {
            seq: columns::checked_seq(self.seq)?,
            at: Timestamp::from_micros(self.at),
            writer: NodeId::from_uuid(self.writer),
            commit: self.commit.map(CommitId::from_uuid),
            row: EncodedEvent {
                kind,
                step: self.step.map(StepKey::from),
                attempt: u32::try_from(self.attempt).map_err(columns::unreadable)?,
                payload: columns::unpack_bytes(self.codec, self.payload)?,
            },
        })
    }
}

/// In the order of `journal.sql`.
pub(super) fn entry_from_row(row: &Row) -> Result<StoredEntry> {
    let entry = EntryColumns {
        seq: columns::get(row, 0)?,
        at: columns::get(row, 1)?,
        writer: columns::get(row, 2)?,
        commit: columns::get(row, 3)?,
        kind: columns::get(row, 4)?,
        step: columns::get(row, 5)?,
        attempt: columns::get(row, 6)?,
        codec: columns::get(row, 7)?,
        payload: columns::get(row, 8)?,
    };
    entry.read()
}

/// The columns of a snapshot from the given one on, in the order of `load_run/3_snapshot.sql`.
pub(super) fn snapshot_from_row(row: &Row, first: usize) -> Result<Snapshot> {
    Ok(Snapshot {
        seq: columns::seq(row, first)?,
        format: columns::integer(row, first + 1)?,
        state: columns::unpack(row, first + 2)?,
    })
}

/// In the order of `inbox.sql`.
pub(super) fn read_inbox_row(row: &Row) -> Result<InboxRow> {
    Ok(InboxRow {
        id: InboxId(columns::get(row, 0)?),
        run: RunId::from_uuid(columns::get(row, 1)?),
        input: columns::get(row, 2)?,
    })
}

/// In the order of `counts.sql`.
pub(super) fn count_from_row(row: &Row) -> Result<Counts> {
    Ok(Counts { workflow: columns::get(row, 0)?, status: columns::status(row, 1)?, n: columns::get(row, 2)? })
}

/// In the order of `list_waits.sql`.
pub(super) fn wait_from_row(row: &Row) -> Result<WaitRow> {
    Ok(WaitRow {
        run: RunId::from_uuid(columns::get(row, 0)?),
        workflow: columns::get(row, 1)?,
        step: StepKey::from(columns::get::<&str>(row, 2)?),
        event: columns::get(row, 3)?,
        pattern: columns::bytes_payload(columns::get(row, 4)?)?,
        deadline: columns::optional_time(row, 5)?,
    })
}

/// In the order of `run_stats.sql`.
pub(super) fn stats_from_row(row: &Row) -> Result<(usize, RunStats)> {
    let durations: Vec<i64> = columns::get(row, 5)?;
    let stats = RunStats {
        started: columns::get(row, 1)?,
        completed: columns::get(row, 2)?,
        failed: columns::get(row, 3)?,
        cancelled: columns::get(row, 4)?,
        durations: durations.try_into().map_err(|_| columns::unreadable("durations have another number of buckets"))?,
    };
    Ok((usize::try_from(columns::get::<i64>(row, 0)?).map_err(columns::unreadable)?, stats))
}
