//! Rows of the journal. A row omits the writer and the time if they equal those of the previous row of its item.
//!
//! 1. Such a row has an empty writer and the time 0. The first row of an item always contains both.
//! 2. A fork copies rows from the first one on, and a sweep deletes them from the last one on. So the previous row of a
//!    row exists.
//! 3. Rows written by earlier releases contain the writer and the time.

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row as EncodedEvent;
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use crate::error::{Error, Result};
use crate::rows::StoredEntry;
use crate::sqlite::columns;
use crate::sqlite::queries::query;
use crate::{numbers, pack};

/// Reads the rows of a run's journal, in their order.
pub(super) struct EntryReader<'c> {
    connection: &'c Connection,
    run: RunId,
    /// The writer and the time of the row that was read last.
    last: Option<(NodeId, Timestamp)>,
}

impl<'c> EntryReader<'c> {
    pub(super) fn new(connection: &'c Connection, run: RunId) -> Self {
        Self { connection, run, last: None }
    }

    /// Reads a row, with the columns of `journal.sql`.
    pub(super) fn read(&mut self, row: &Row<'_>) -> Result<StoredEntry> {
        let seq = columns::seq(row, 0)?;
        let (writer, at) = self.read_origin(row, seq)?;
        let number: u8 = row.get(4)?;
        let kind = Kind::from_number(number)
            .ok_or_else(|| Error::Corrupt(format!("event kind {number} is unknown to this build")))?;
        let step: Option<&str> = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let bytes = row.get_ref(8)?.as_blob().map_err(rusqlite::Error::from)?;
        Ok(StoredEntry {
            seq,
            at,
            writer,
            commit: columns::optional_uuid(row, 3)?.map(CommitId::from_uuid),
            row: EncodedEvent {
                kind,
                step: step.map(StepKey::from),
                attempt: row.get(6)?,
                payload: pack::unpack(row.get(7)?, bytes)?,
            },
        })
    }

    fn read_origin(&mut self, row: &Row<'_>, seq: u64) -> Result<(NodeId, Timestamp)> {
        let repeats = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?.is_empty();
        let origin = match self.last {
            _ if !repeats => (NodeId::from_uuid(columns::uuid(row, 2)?), columns::time(row, 1)?),
            Some(last) => last,
            None => self.find_origin(seq)?,
        };
        self.last = Some(origin);
        Ok(origin)
    }

    /// The writer and the time of a row that repeats them and is the first of a page.
    fn find_origin(&self, seq: u64) -> Result<(NodeId, Timestamp)> {
        let mut statement = self.connection.prepare_cached(query!("journal_origin"))?;
        let params = named_params! { ":run": self.run.uuid().into_bytes(), ":seq": numbers::clamp_seq(seq) };
        let origin = statement
            .query_row(params, |row| Ok((NodeId::from_uuid(columns::uuid(row, 0)?), columns::time(row, 1)?)))
            .optional()?;
        origin.ok_or_else(|| Error::Corrupt(format!("no row states the writer of entry {seq}")))
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::RunId;
    use everstep_core::time::Timestamp;

    use crate::error::Error;
    use crate::sqlite::Database;

    const INSERT: &str = "insert into journal (run_id, seq, writer, at, kind, attempt, codec, payload)
        values (?1, ?2, ?3, ?4, ?5, 0, 0, x'')";

    #[test]
    fn an_event_of_a_later_release_is_unreadable() {
        let database = Database::in_memory().unwrap();
        let run = RunId::new(Timestamp::EPOCH, 1);
        let id = run.uuid().into_bytes();
        database.connection.execute(INSERT, (id, 1, id, 0, 255)).unwrap();
        assert!(matches!(database.journal(run, 0, 10), Err(Error::Corrupt(_))));
    }

    #[test]
    fn a_row_repeats_the_writer_and_the_time_of_the_row_before_it() {
        let database = Database::in_memory().unwrap();
        let run = RunId::new(Timestamp::EPOCH, 1);
        let id = run.uuid().into_bytes();
        let rows: [(i64, Vec<u8>, i64); 5] =
            [(1, vec![1; 16], 7), (2, vec![], 0), (3, vec![], 0), (4, vec![2; 16], 9), (5, vec![], 0)];
        for (seq, writer, at) in rows {
            database.connection.execute(INSERT, (id, seq, writer, at, 20)).unwrap();
        }
        let read = |after, limit| {
            let entries = database.journal(run, after, limit).unwrap();
            entries.iter().map(|entry| (entry.writer.uuid().into_bytes()[0], entry.at.micros())).collect::<Vec<_>>()
        };
        assert_eq!(read(0, 10), [(1, 7), (1, 7), (1, 7), (2, 9), (2, 9)]);
        assert_eq!(read(2, 1), [(1, 7)]);
        assert_eq!(read(4, 10), [(2, 9)]);
    }
}
