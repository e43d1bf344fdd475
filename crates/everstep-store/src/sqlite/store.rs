//! An open data folder: one thread that writes, a few that read, and one that copies the log.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use everstep_core::time::Timestamp;

use super::database::{Database, Durability};
use super::disk::{Disk, Purpose};
use super::folder::Folder;
use super::log::Copier;
use super::threads::Threads;
use crate::error::{Error, Result};
use crate::pace::Pace;
use crate::ports::Stores;
use crate::space::Space;

/// The time between two chunks of files, while the database has other callers: 32 MiB per second.
const CHUNK_PERIOD: Duration = Duration::from_millis(8);

/// Opens a data folder, as [`SqliteStore::open`] does. Returns its ports.
pub fn open(folder: &Path, options: &Options) -> Result<Stores> {
    Ok(Stores::new(Arc::new(SqliteStore::open(folder, options)?)))
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The number of reads that may run at the same time.
    pub readers: usize,
    /// The maximum number of pages of the file, as of a disk of that size; for tests.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { readers: 2, max_pages: None }
    }
}

/// A data folder with a SQLite database, locked for this process.
pub struct SqliteStore {
    // Dropped in this order: the last connection to close is the writer's, so that SQLite removes the files beside the
    // database, and the folder is unlocked after that.
    readers: Threads,
    _copier: Copier,
    writer: Threads,
    _folder: Folder,
    calls: AtomicU64,
    pub(super) pace: Pace,
    /// The calls to the store when the last chunk of a file was written. Held while a chunk is written.
    chunk_turn: tokio::sync::Mutex<u64>,
    space: Arc<Mutex<Space>>,
}

/// What a transaction of upkeep changes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Upkeep {
    /// As many rows as the pace allows.
    Rows,
    /// A fixed number of pages.
    Pages,
}

impl SqliteStore {
    /// Opens a data folder, which is created if it does not exist. Owned runs belonged to a process that has ended;
    /// they are released. On a full disk they are released when a node joins.
    pub fn open(folder: &Path, options: &Options) -> Result<Self> {
        let folder = Folder::lock(folder)?;
        let path = folder.database();
        let disk = Disk::open(folder.path());
        let space = disk.space();
        let mut writer = Database::open(&path)?;
        let (copier, log) = Copier::start(&path, &mut writer.connection)?;
        writer.log = Some(log);
        writer.attach_disk(disk);
        if let Some(pages) = options.max_pages {
            writer.set_max_pages(pages)?;
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match writer.release_all(Timestamp::EPOCH.plus(since)) {
            Err(Error::Full(_)) => {
                writer.must_release = true;
                writer.note_full_disk();
            }
            released => _ = released?,
        }
        let readers = (0..options.readers.max(1)).map(|_| Database::open_reader(&path)).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            readers: Threads::start("store-reader", readers)?,
            _copier: copier,
            writer: Threads::start("store-writer", vec![writer])?,
            _folder: folder,
            calls: AtomicU64::new(0),
            pace: Pace::default(),
            chunk_turn: tokio::sync::Mutex::default(),
            space,
        })
    }

    /// Fences every node and makes all their runs claimable at `now`. Returns the number of runs.
    pub async fn release_all(&self, now: Timestamp) -> Result<usize> {
        self.write(move |database| database.release_all(now)).await
    }

    /// Limits the file to a number of pages; a call that needs more fails with [`crate::Error::Full`].
    pub async fn set_max_pages(&self, pages: u32) -> Result<()> {
        self.write(move |database| database.set_max_pages(pages)).await
    }

    /// The number of pages of the file.
    pub async fn pages(&self) -> Result<u32> {
        self.write(|database| database.pages()).await
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn space(&self) -> Space {
        self.space.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Executes a call on the thread that writes, also on a full disk.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_for(Purpose::Upkeep, call).await
    }

    /// Executes a call of upkeep on the thread that writes, also on a full disk; and then pauses, if there are other calls.
    /// The call returns its result and the number of rows that it has changed.
    pub(super) async fn upkeep<T: Send + 'static>(
        &self,
        upkeep: Upkeep,
        call: impl FnOnce(&mut Database) -> Result<(T, usize)> + Send + 'static,
    ) -> Result<T> {
        let timed = move |database: &mut Database| {
            let begin = Instant::now();
            let (result, rows) = call(database)?;
            Ok((result, rows, begin.elapsed()))
        };
        // Rows that a loss of power brings back are deleted again.
        let (result, rows, took) = self.write_with(Purpose::Upkeep, Durability::Later, timed).await?;
        if upkeep == Upkeep::Rows {
            self.pace.record(rows, took);
        }
        let pause = self.pace.pause(took, self.calls(), 1);
        // On a full disk, other calls wait for upkeep.
        if !pause.is_zero() && self.space().refusal.is_none() {
            tokio::time::sleep(pause).await;
        }
        Ok(result)
    }

    /// Deletes at most `limit` objects of a kind, each with about `rows_each` rows, in transactions of the pace.
    pub(super) async fn sweep_all(
        &self,
        limit: usize,
        rows_each: usize,
        sweep: impl Fn(&mut Database, usize) -> Result<usize> + Copy + Send + 'static,
    ) -> Result<usize> {
        let mut swept = 0;
        while swept < limit {
            let batch = (limit - swept).min((self.pace.rows() / rows_each).max(1));
            let call = move |database: &mut Database| sweep(database, batch).map(|count| (count, count * rows_each));
            let count = self.upkeep(Upkeep::Rows, call).await?;
            swept += count;
            if count < batch {
                break;
            }
        }
        Ok(swept)
    }

    /// Executes a call on the thread that writes, if the disk has space for it.
    pub(super) async fn write_for<T: Send + 'static>(
        &self,
        purpose: Purpose,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_with(purpose, Durability::AtCommit, call).await
    }

    /// Executes a call that writes a chunk of a file. Commits go between chunks:
    ///
    /// 1. One chunk waits for the writer at a time, however many files are uploaded.
    /// 2. A chunk is durable with the next commit that waits for the disk; the end of its upload does.
    /// 3. While the database has other callers, the next chunk is written no earlier than [`CHUNK_PERIOD`] after this
    ///    one. Without this, files would fill the log faster than it is copied, and commits would wait for the copy.
    pub(super) async fn write_chunk<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut calls_before = self.chunk_turn.lock().await;
        let begin = Instant::now();
        let result = self.write_with(Purpose::NewWork, Durability::Later, call).await?;
        let calls = self.calls();
        if calls - std::mem::replace(&mut *calls_before, calls) > 1 {
            tokio::time::sleep(CHUNK_PERIOD.saturating_sub(begin.elapsed())).await;
        }
        Ok(result)
    }

    async fn write_with<T: Send + 'static>(
        &self,
        purpose: Purpose,
        durability: Durability,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let checked = move |database: &mut Database| {
            database.admit(purpose)?;
            database.set_durability(durability)?;
            let result = call(database);
            if let Err(Error::Full(_)) = result {
                database.note_full_disk();
            }
            result
        };
        self.writer.call(checked).await
    }

    /// Executes a call on one of the threads that read.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.readers.call(move |database| call(database)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_upkeep_does_not_wait_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), &Options::default()).unwrap();
        let level = |database: &mut Database| -> Result<u32> {
            Ok(database.connection.pragma_query_value(None, "synchronous", |row| row.get(0))?)
        };
        let upkeep = move |database: &mut Database| level(database).map(|level| (level, 0));
        assert_eq!(store.upkeep(Upkeep::Pages, upkeep).await.unwrap(), 1);
        assert_eq!(store.write(level).await.unwrap(), 2);
        let panic = |_: &mut Database| -> Result<((), usize)> { panic!("in a call of upkeep") };
        assert!(store.upkeep(Upkeep::Pages, panic).await.is_err());
        assert_eq!(store.write(level).await.unwrap(), 2);
    }
}
