//! The journal in the SQLite database of a process that is running or dead.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::wait_for;

/// Opens the database of a data folder for reading; none if it does not exist yet.
pub(crate) fn open(data: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(data.join("everstep.db"), flags).ok()?;
    connection.busy_timeout(Duration::from_secs(5)).ok()?;
    Some(connection)
}

/// Waits until the journals of all runs together have at least this many entries.
pub(crate) fn wait_for_entries(data: &Path, entries: i64) {
    wait_for(&format!("{entries} entries"), || {
        let count = open(data)?.query_row("select count(*) from journal", [], |row| row.get(0)).ok();
        count.filter(|count: &i64| *count >= entries)
    });
}
