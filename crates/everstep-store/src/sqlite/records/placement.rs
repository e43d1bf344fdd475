//! The places of records in their table.
//!
//! A record that is written twice within a few thousand changes, such as a counter or a cursor, is likely to be written
//! often. In a large table such records are far apart: each is on a page of its own, and a batch writes as many pages as
//! it has ops. Such a record is therefore moved to the end of the table, and shares pages with others that are written
//! often, however many records the table has.
//!
//! 1. A record whose last write was [`SOON_CHANGES`] changes of its namespace ago, or more, is not moved: a move changes
//!    two pages of the table and one of the index of keys.
//! 2. A record among the last [`LAST_ROWS`] rows of the table is not moved.
//! 3. A record of more than [`MOVED_BYTES_MAX`] bytes is not moved: few of them share a page.
//!
//! Rule 1 counts the changes of one namespace and rule 2 the rows of all. If several namespaces with thousands of counters
//! each are written in turn, more than [`LAST_ROWS`] rows can follow a counter before its next write, and it moves again.
//!
//! The place of a record is its row number (`rowid`), which has no other meaning.

use std::collections::BTreeMap;

use everstep_core::records::{Record, RecordId};
use rusqlite::{Connection, named_params};

use crate::error::Result;
use crate::sqlite::queries::query;

/// The changes of its namespace within which a record is written again soon.
const SOON_CHANGES: u64 = 4_096;
/// The rows at the end of the table: more than [`SOON_CHANGES`], because other namespaces have records there as well.
const LAST_ROWS: i64 = 8_192;
/// The size of the value of a record that is moved.
const MOVED_BYTES_MAX: usize = 1_024;

/// The rows of records of a batch that are moved when they are written.
pub(super) struct Placement {
    last_row: i64,
    moved: BTreeMap<RecordId, i64>,
}

impl Placement {
    pub(super) fn read(tx: &Connection) -> Result<Self> {
        let mut statement = tx.prepare_cached(query!("records/apply/1_last_row"))?;
        let last_row: Option<i64> = statement.query_row((), |row| row.get(0))?;
        Ok(Self { last_row: last_row.unwrap_or_default(), moved: BTreeMap::new() })
    }

    /// Notes the row of a record. `changes`: the number of its namespace's last change.
    pub(super) fn note(&mut self, row: i64, record: &Record, changes: u64) {
        let is_written_soon = changes.saturating_sub(record.change) < SOON_CHANGES;
        let is_far = self.last_row - row >= LAST_ROWS;
        if is_written_soon && is_far && record.bytes <= MOVED_BYTES_MAX {
            self.moved.insert(record.id, row);
        }
    }

    /// Moves a record that was written, if it is to be moved.
    pub(super) fn move_written(&self, tx: &Connection, record: &Record) -> Result<()> {
        if let Some(row) = self.moved.get(&record.id) {
            tx.prepare_cached(query!("records/apply/3_record_move"))?.execute(named_params! { ":row": row })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::WorkspaceId;
    use everstep_core::records::{Author, IncrementRequest, Op, OpAction, OpKey};
    use everstep_core::time::Timestamp;
    use serde_json::{Value, json};

    use crate::sqlite::Database;

    /// Records with the value 1: `k00001` is in the first row and was written by the first change.
    fn filled() -> Database {
        let database = Database::in_memory().unwrap();
        let records = "
            with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 20000)
            insert into records (
                workspace, namespace, key, id, revision, change, bytes, value_type, created_at, updated_at, codec, value
            )
            select ?1, 'n', printf('k%05d', n), randomblob(16), 1, n, 1, 'number', 0, 0, 0, x'31'
            from numbers";
        let namespace = "
            insert into store_namespaces (workspace, name, changes, keys, links, bytes, updated_at)
            values (?1, 'n', 20000, 20000, 0, 20000, 0)";
        for statement in [records, namespace] {
            database.connection.execute(statement, [WorkspaceId::DEFAULT.uuid().into_bytes()]).unwrap();
        }
        database
    }

    /// Increments records in one batch. Returns their values, and their rows after it.
    fn increment(database: &mut Database, batch: u128, keys: &[&str]) -> Vec<(Value, i64)> {
        let op = |key: &&str| Op {
            workspace: WorkspaceId::DEFAULT,
            namespace: "n".to_owned(),
            key: OpKey::from_stored(&format!("q:{batch}:{key}")),
            digest: None,
            random: batch,
            author: Author::system(),
            action: OpAction::Increment(IncrementRequest {
                key: (*key).to_owned(),
                by: 1.into(),
                initial: 0.into(),
                ttl_seconds: None,
            }),
        };
        let ops: Vec<_> = keys.iter().map(op).collect();
        let applied = database.apply_ops(&ops, Timestamp::EPOCH, Timestamp::EPOCH).unwrap();
        let outputs = applied.outcomes.into_iter().map(|outcome| outcome.unwrap().value()["value"].clone());
        let row = |key: &&str| {
            let row = "select rowid from records where namespace = 'n' and key = ?1";
            database.connection.query_row(row, [*key], |row| row.get(0)).unwrap()
        };
        outputs.zip(keys.iter().map(row)).collect()
    }

    #[test]
    fn records_that_are_written_often_come_to_the_end_of_the_table() {
        let mut database = filled();
        let keys = ["k00001", "k10000", "k15000"];
        let rows = |written: Vec<(Value, i64)>| written.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
        assert_eq!(rows(increment(&mut database, 1, &keys)), [1, 10_000, 15_000], "they were written long ago");
        assert_eq!(rows(increment(&mut database, 2, &keys)), [20_001, 20_002, 15_000], "one of them is near the end");
        let third = increment(&mut database, 3, &keys);
        assert_eq!(third, [(json!(4), 20_001), (json!(4), 20_002), (json!(4), 15_000)]);
    }
}
