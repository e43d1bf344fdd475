//! An open data folder: one thread that writes, a few that read.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use everstep_core::time::Timestamp;

use super::database::Database;
use super::disk::{Disk, Purpose};
use super::folder::Folder;
use super::threads::Threads;
use crate::error::{Error, Result};
use crate::ports::Stores;
use crate::space::Space;

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
    writer: Threads,
    _folder: Folder,
    calls: AtomicU64,
    space: Arc<Mutex<Space>>,
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
            writer: Threads::start("store-writer", vec![writer])?,
            _folder: folder,
            calls: AtomicU64::new(0),
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

    /// Executes a call on the thread that writes, if the disk has space for it.
    pub(super) async fn write_for<T: Send + 'static>(
        &self,
        purpose: Purpose,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let checked = move |database: &mut Database| {
            database.admit(purpose)?;
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
