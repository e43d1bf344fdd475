//! Rows of dead letters.

use tokio_postgres::Row;

use crate::dead_letters::{DeadLetterColumns, DeadLetterRow};
use crate::error::Result;
use crate::postgres::columns;

/// In the order of `dead_letters/letter.sql`, from a column on. None if a later release has written the row's source.
pub(super) fn letter_from_row(row: &Row, first: usize) -> Result<Option<DeadLetterRow>> {
    let columns = DeadLetterColumns {
        workspace: columns::get(row, first)?,
        id: columns::get(row, first + 1)?,
        created_at: columns::time(row, first + 2)?,
        changed_at: columns::time(row, first + 3)?,
        notified_at: columns::optional_time(row, first + 4)?,
        run: columns::get(row, first + 5)?,
        history: columns::get(row, first + 6)?,
        event: columns::get(row, first + 7)?,
        subscription: columns::get(row, first + 8)?,
        taken_by: columns::get(row, first + 9)?,
        status: columns::get(row, first + 10)?,
        source: columns::get(row, first + 11)?,
        kind: columns::get(row, first + 12)?,
        workflow: columns::get(row, first + 13)?,
        step: columns::get(row, first + 14)?,
        delivery: columns::get(row, first + 15)?,
        target: columns::get(row, first + 16)?,
        reason: columns::get(row, first + 17)?,
        secrets: columns::get(row, first + 18)?,
        attempts: columns::get(row, first + 19)?,
        written: columns::get(row, first + 20)?,
        config: columns::get(row, first + 21)?,
    };
    columns.into_row()
}
