//! Loads a run: its row, its snapshot, the entries after it and the inputs that wait, all of one moment.

use everstep_core::ids::RunId;
use futures_util::future;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows::{self, EntryColumns};
use crate::error::Result;
use crate::item::InboxId;
use crate::journal::Readable;
use crate::numbers;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::rows::{InboxRow, StoredRun};

/// Begins a transaction whose reads see one snapshot.
const BEGIN_SNAPSHOT: &str = "begin isolation level repeatable read read only";
/// The number of entries and of inputs that one statement reads. A run that parks has a snapshot, so that most runs have
/// fewer.
const SHORT: usize = 256;

/// The first columns of the snapshot, the entries and the inputs in `load_run/1_short.sql`.
const SNAPSHOT: usize = 26;
const ENTRIES: usize = SNAPSHOT + 4;
const INPUTS: usize = ENTRIES + 9;

impl PostgresStore {
    /// Reads a short run by one statement. A long one is read by several in a transaction.
    pub(super) async fn load(&self, run: RunId) -> Result<Option<StoredRun>> {
        let limit = numbers::clamp_limit(SHORT);
        let row = self
            .connections
            .query_opt(query!("load_run/1_short"), params! { "run": run.uuid(), "limit": limit })
            .await?;
        let Some(row) = row else { return Ok(None) };
        match read_short(&row)? {
            Some(stored) => Ok(Some(stored)),
            None => self.load_long(run).await,
        }
    }

    async fn load_long(&self, run: RunId) -> Result<Option<StoredRun>> {
        let connection = self.connections.get().await?;
        let id = run.uuid();
        let id = params! { "run": id };
        let (begun, found, snapshot) = future::join3(
            connection.begin(BEGIN_SNAPSHOT),
            connection.query(query!("load_run/2_run"), id),
            connection.query(query!("load_run/3_snapshot"), id),
        )
        .await;
        begun?;
        let Some(row) = found?.first().map(rows::run_from_row).transpose()? else {
            connection.commit().await?;
            return Ok(None);
        };
        // A snapshot that cannot be read is ignored: the journal is read from its beginning.
        let snapshot = snapshot?.first().and_then(|row| rows::snapshot_from_row(row, 0).ok());
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let (stored, inbox) = future::join(
            connection.query(
                query!("journal"),
                params! { "run": run.uuid(), "after": numbers::clamp_seq(after), "limit": i64::MAX },
            ),
            connection.query(query!("arrivals"), id),
        )
        .await;
        let mut journal = Readable::default();
        for row in stored? {
            journal.push(columns::seq(&row, 0)?, || rows::entry_from_row(&row))?;
        }
        let inbox = inbox?.iter().map(rows::read_inbox_row).collect::<Result<_>>()?;
        connection.commit().await?;
        let Readable { entries, unreadable } = journal;
        Ok(Some(StoredRun { run: row, snapshot, entries, inbox, unreadable }))
    }
}

/// A run from its row of `load_run/1_short.sql`. None if there may be more entries or inputs than the row contains, and if
/// its snapshot cannot be read, because the entries before the snapshot are needed then.
fn read_short(row: &Row) -> Result<Option<StoredRun>> {
    let run = rows::run_from_row(row)?;
    let has_snapshot = columns::get::<Option<i64>>(row, SNAPSHOT)?.is_some();
    let snapshot = has_snapshot.then(|| rows::snapshot_from_row(row, SNAPSHOT).ok());
    if matches!(snapshot, Some(None)) {
        return Ok(None);
    }
    let entries = read_entries(row)?;
    let inputs: Vec<Vec<u8>> = columns::list(row, INPUTS + 1)?;
    if entries.len() == SHORT || inputs.len() == SHORT {
        return Ok(None);
    }
    let mut journal = Readable::default();
    for entry in entries {
        journal.push(columns::checked_seq(entry.seq)?, || entry.read())?;
    }
    let ids: Vec<i64> = columns::list(row, INPUTS)?;
    let arrivals = ids.into_iter().zip(inputs);
    let inbox = arrivals.map(|(id, input)| InboxRow { id: InboxId(id), run: run.id, input }).collect();
    let Readable { entries, unreadable } = journal;
    Ok(Some(StoredRun { run, snapshot: snapshot.flatten(), entries, inbox, unreadable }))
}

/// The columns of each entry, from one array per column.
fn read_entries(row: &Row) -> Result<Vec<EntryColumns<'_>>> {
    let mut seqs = columns::list::<i64>(row, ENTRIES)?.into_iter();
    let mut times = columns::list::<i64>(row, ENTRIES + 1)?.into_iter();
    let mut writers = columns::list::<Uuid>(row, ENTRIES + 2)?.into_iter();
    let mut commits = columns::list::<Option<Uuid>>(row, ENTRIES + 3)?.into_iter();
    let mut kinds = columns::list::<i16>(row, ENTRIES + 4)?.into_iter();
    let mut steps = columns::list::<Option<&str>>(row, ENTRIES + 5)?.into_iter();
    let mut attempts = columns::list::<i32>(row, ENTRIES + 6)?.into_iter();
    let mut codecs = columns::list::<i16>(row, ENTRIES + 7)?.into_iter();
    let mut payloads = columns::list::<&[u8]>(row, ENTRIES + 8)?.into_iter();
    let next = || {
        Some(EntryColumns {
            seq: seqs.next()?,
            at: times.next()?,
            writer: writers.next()?,
            commit: commits.next()?,
            kind: kinds.next()?,
            step: steps.next()?,
            attempt: attempts.next()?,
            codec: codecs.next()?,
            payload: payloads.next()?,
        })
    };
    Ok(std::iter::from_fn(next).collect())
}
