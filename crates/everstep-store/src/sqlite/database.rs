//! One connection: opening, pragmas and the clock.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use everstep_core::time::Timestamp;
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::disk::Disk;
use super::log::Log;
use super::schema;
use crate::error::Result;
use crate::migrations;
use crate::quota::QuotaCounts;

/// For a new file: later these have no effect, except that the second one writes a page, which a full disk refuses.
const FILE_PRAGMAS: &str = "
    pragma page_size = 8192;
    pragma auto_vacuum = incremental;
";
const PRAGMAS: &str = "
    pragma journal_mode = wal;
    pragma synchronous = full;
    pragma journal_size_limit = 67108864;
    pragma cache_size = -32768;
    pragma temp_store = memory;
";
const READER_PRAGMAS: &str = "
    pragma query_only = on;
    pragma cache_size = -8192;
    pragma temp_store = memory;
";
/// The time for which a call waits for a lock. The folder's lock excludes other servers; only a tool such as `sqlite3`
/// may lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const CACHED_STATEMENTS_MAX: usize = 256;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// When it returns: it waits for the disk.
    AtCommit,
    /// With the next commit that waits for the disk, of this or a later transaction: the log has an order. After a loss of
    /// power before that, the transaction has not happened.
    Later,
}

/// One connection to one database, with the verbs of [`crate::RunStore`], [`crate::WorkflowStore`],
/// [`crate::RecordStore`], [`crate::TopicStore`] and [`crate::FileStore`] as methods.
///
/// It starts no threads, and its only clock is the one by which leases are measured.
pub struct Database {
    pub(super) connection: Connection,
    /// Of the writer of a data folder.
    pub(super) disk: Option<Disk>,
    /// The log, which a thread copies beside the writer of a data folder.
    pub(super) log: Option<Arc<Log>>,
    /// Whether the runs of ended processes are not yet released, because the disk was full.
    pub(super) must_release: bool,
    durability: Durability,
    clock: Box<dyn Fn() -> Timestamp + Send>,
    pub(super) workflow_counts: Arc<QuotaCounts>,
    pub(super) key_counts: QuotaCounts,
}

impl Database {
    /// Opens a file for reading and writing, and brings it to the newest schema.
    pub fn open(path: &Path) -> Result<Self> {
        Self::migrated(Connection::open(path)?)
    }

    /// Creates a database that exists as long as this value. The schema is copied from the first one of this process,
    /// because the simulator creates thousands.
    pub fn in_memory() -> Result<Self> {
        static FIRST: Mutex<Option<Connection>> = Mutex::new(None);
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        let template = match first.take() {
            Some(template) => template,
            None => Self::migrated(Connection::open_in_memory()?)?.connection,
        };
        let mut connection = Connection::open_in_memory()?;
        connection.execute_batch(FILE_PRAGMAS)?;
        connection.execute_batch(PRAGMAS)?;
        Backup::new(&template, &mut connection)?.step(-1)?;
        *first = Some(template);
        Self::configured(connection)
    }

    /// Opens a file that a writer has opened before, for reading.
    pub(super) fn open_reader(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.execute_batch(READER_PRAGMAS)?;
        Self::configured(connection)
    }

    fn migrated(mut connection: Connection) -> Result<Self> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if connection.pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0))? == 0 {
            connection.execute_batch(FILE_PRAGMAS)?;
        }
        connection.execute_batch(PRAGMAS)?;
        schema::migrate(&mut connection, migrations::SQLITE)?;
        Self::configured(connection)
    }

    fn configured(connection: Connection) -> Result<Self> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Plans do not depend on bound values. Otherwise SQLite compares the values with the conditions of the partial
        // indexes, and compiles a statement again each time it is executed with other values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS_MAX);
        Ok(Self {
            connection,
            disk: None,
            log: None,
            must_release: false,
            durability: Durability::AtCommit,
            clock: Box::new(system_time),
            workflow_counts: Arc::default(),
            key_counts: QuotaCounts::default(),
        })
    }

    /// Replaces the clock by which leases are measured.
    pub fn set_clock(&mut self, clock: impl Fn() -> Timestamp + Send + 'static) {
        self.clock = Box::new(clock);
    }

    /// Limits the file to a number of pages; a call that needs more fails with [`Error::Full`]. The limit is at least
    /// the present number of pages.
    pub fn set_max_pages(&mut self, pages: u32) -> Result<()> {
        self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        if let Some(disk) = &mut self.disk {
            disk.max_pages = Some(pages);
        }
        self.measure_disk();
        Ok(())
    }

    /// The number of pages of the file.
    pub fn pages(&self) -> Result<u32> {
        Ok(self.connection.pragma_query_value(None, "page_count", |row| row.get(0))?)
    }

    /// The connection itself, for tests that read tables beside the ports.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Sets when the commits of the next call are durable.
    pub(super) fn set_durability(&mut self, durability: Durability) -> Result<()> {
        if self.durability != durability {
            self.connection.execute_batch(match durability {
                Durability::AtCommit => "pragma synchronous = full",
                Durability::Later => "pragma synchronous = normal",
            })?;
            self.durability = durability;
        }
        Ok(())
    }

    /// Begins a transaction that writes. It is rolled back unless it is committed.
    pub(super) fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
    }

    /// Begins a transaction whose reads see one snapshot.
    pub(super) fn begin_read(&self) -> rusqlite::Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH.plus(since)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use everstep_core::ids::NodeId;
    use rusqlite::StatementStatus;
    use rusqlite::types::Value;

    use super::*;
    use crate::error::Error;

    #[test]
    fn a_file_is_durable_and_has_large_pages() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("everstep.db")).unwrap();
        let pragma = |name| database.connection.pragma_query_value(None, name, |row| row.get::<_, Value>(0)).unwrap();
        assert_eq!(pragma("journal_mode"), Value::Text("wal".to_owned()));
        assert_eq!(pragma("synchronous"), Value::Integer(2));
        assert_eq!(pragma("page_size"), Value::Integer(8192));
        assert_eq!(pragma("auto_vacuum"), Value::Integer(2));
        assert_eq!(pragma("wal_autocheckpoint"), Value::Integer(1000));
    }

    #[test]
    fn a_statement_is_compiled_once_whatever_values_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("everstep.db")).unwrap();
        let due = "select id from runs where owner is null and ended_at is null and lane = ?1 and wake_at <= ?2";
        let mut statement = database.connection.prepare(due).unwrap();
        for wake_at in 1..=3 {
            assert!(!statement.exists((0, wake_at)).unwrap());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }

    #[test]
    fn readers_write_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        let _writer = Database::open(&path).unwrap();
        let mut reader = Database::open_reader(&path).unwrap();
        assert!(reader.join(NodeId::new(Timestamp::EPOCH, 1), Duration::ZERO, None).is_err());
        assert_eq!(reader.nodes().unwrap(), []);
    }

    #[test]
    fn leases_follow_the_clock_that_was_set() {
        let now = Arc::new(AtomicI64::new(0));
        let mut database = Database::in_memory().unwrap();
        let clock = now.clone();
        database.set_clock(move || Timestamp::from_micros(clock.load(Ordering::Relaxed)));
        let node = NodeId::new(Timestamp::EPOCH, 1);
        let lease = Duration::from_secs(10);
        database.join(node, lease, None).unwrap();
        let seen = Timestamp::EPOCH.plus(lease);
        assert_eq!(database.nodes().unwrap()[0].lease_until, seen);

        now.store(seen.micros() - 1, Ordering::Relaxed);
        assert!(!database.fence(node, seen).unwrap());
        now.store(seen.micros(), Ordering::Relaxed);
        assert!(database.fence(node, seen).unwrap());

        // A day later it is deleted.
        database.sweep(Timestamp::EPOCH, 10).unwrap();
        assert_eq!(database.nodes().unwrap().len(), 1);
        now.store(seen.plus(Duration::from_secs(86_401)).micros(), Ordering::Relaxed);
        database.sweep(Timestamp::EPOCH, 10).unwrap();
        assert_eq!(database.nodes().unwrap(), []);
    }

    #[test]
    fn a_schema_of_a_later_release_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        let database = Database::open(&path).unwrap();
        database
            .connection
            .execute_batch(
                "insert into everstep_migrations (version, name, checksum, applied_at)
                 values (9999, 'future', '1', '2030-01-01T00:00:00Z')",
            )
            .unwrap();
        drop(database);
        assert!(matches!(Database::open(&path), Err(Error::Corrupt(_))));
    }
}
