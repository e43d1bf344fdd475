//! Rows of dead letters.

use rusqlite::{Row, Rows};

use crate::dead_letters::{DeadLetterColumns, DeadLetterRow};
use crate::error::Result;
use crate::sqlite::columns;

/// In the order of `dead_letters/letter.sql`. None if a later release has written the row's source.
pub(super) fn letter_from_row(row: &Row<'_>) -> Result<Option<DeadLetterRow>> {
    let columns = DeadLetterColumns {
        workspace: columns::uuid(row, 0)?,
        id: columns::uuid(row, 1)?,
        created_at: columns::time(row, 2)?,
        changed_at: columns::time(row, 3)?,
        notified_at: columns::optional_time(row, 4)?,
        run: columns::optional_uuid(row, 5)?,
        history: columns::optional_uuid(row, 6)?,
        event: columns::optional_uuid(row, 7)?,
        subscription: columns::optional_uuid(row, 8)?,
        taken_by: columns::optional_uuid(row, 9)?,
        status: row.get(10)?,
        source: row.get(11)?,
        kind: row.get(12)?,
        workflow: row.get(13)?,
        step: row.get(14)?,
        delivery: row.get(15)?,
        target: row.get(16)?,
        reason: row.get(17)?,
        secrets: row.get(18)?,
        attempts: row.get(19)?,
        written: row.get(20)?,
        config: row.get(21)?,
    };
    columns.into_row()
}

/// Reads rows up to a limit, without those that are not wanted.
pub(super) fn collect(
    mut rows: Rows<'_>,
    limit: usize,
    is_wanted: impl Fn(&DeadLetterRow) -> bool,
) -> Result<Vec<DeadLetterRow>> {
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        found.extend(letter_from_row(row)?.filter(&is_wanted));
    }
    Ok(found)
}
