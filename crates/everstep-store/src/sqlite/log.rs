//! Copies the log of SQLite into the database, beside the writer.
//!
//! By SQLite's own rule the commit that makes the log longer than 1,000 pages copies it, and every commit behind it waits.
//! Here the order of events is:
//!
//! 1. After each commit the writer compares the length of the log with what was copied. From [`COPY_PAGES`] on it wakes
//!    the copier, a thread with a connection of its own, which copies what no reader needs and does not wait for readers.
//! 2. SQLite writes to the beginning of the log again when a transaction begins and all of the log was copied. While
//!    commits follow each other without a pause, the copier is never so far. So from [`REUSE_PAGES`] on the writer copies
//!    the rest, which is short, after a commit between two passes of the copier.
//! 3. At [`LOG_PAGES_MAX`] the writer waits for the copier and copies the rest, however long it takes, so that the log is
//!    bounded.
//!
//! With little space on the disk the writer alone copies the log, after few pages: see `disk`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;

use crate::error::{Error, Result};

/// The pages behind which the copier begins.
const COPY_PAGES: u32 = 2_000;
/// The pages from which the log is used from its beginning again as soon as possible.
const REUSE_PAGES: u32 = 4_000;
/// The pages that the writer copies for that.
const REST_PAGES_MAX: u32 = 400;
/// The pages of the log at which the writer waits.
pub(super) const LOG_PAGES_MAX: u32 = 7_000;

/// The log of an open database, which the writer and the copier share.
pub(super) struct Log {
    /// The pages of the log at which the writer copies all of it.
    pages_max: AtomicU32,
    /// The pages that the copier has copied, of the present log or of the one before.
    copied: AtomicU32,
    is_copying: AtomicBool,
    /// Held while pages are copied: SQLite rejects a second copy at the same time.
    pass: Mutex<()>,
}

impl Log {
    pub(super) fn set_pages_max(&self, pages: u32) {
        self.pages_max.store(pages, Ordering::Relaxed);
    }

    /// Waits until no other thread copies pages, and keeps others from it.
    pub(super) fn begin_pass(&self) -> MutexGuard<'_, ()> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the writer does after a commit that made the log this long.
    fn next(&self, pages: u32) -> Next {
        let pages_max = self.pages_max.load(Ordering::Relaxed);
        if pages >= pages_max {
            return Next::CopyAll;
        }
        let is_copying = self.is_copying.load(Ordering::Acquire);
        let copied = self.copied.load(Ordering::Relaxed);
        // The log was begun again since.
        let copied = if copied > pages { 0 } else { copied };
        let rest = pages - copied;
        match () {
            () if is_copying || pages_max < REUSE_PAGES => Next::Nothing,
            () if pages >= REUSE_PAGES && rest <= REST_PAGES_MAX => Next::CopyAll,
            () if rest >= COPY_PAGES || pages >= REUSE_PAGES => Next::Wake,
            () => Next::Nothing,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The copier begins a pass.
    Wake,
    /// The writer copies what is left.
    CopyAll,
}

/// The thread that copies the log. Dropping it waits for its end.
pub(super) struct Copier {
    passes: SyncSender<Pass>,
    handle: Option<JoinHandle<()>>,
}

enum Pass {
    Copy,
    End,
}

impl Copier {
    /// Starts the thread, and replaces SQLite's rule on the connection of the writer.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<(Self, Arc<Log>)> {
        let log = Arc::new(Log {
            pages_max: AtomicU32::new(LOG_PAGES_MAX),
            copied: AtomicU32::new(0),
            is_copying: AtomicBool::new(false),
            pass: Mutex::new(()),
        });
        let connection = Connection::open(path)?;
        // A copied page is on disk before its place in the log is used again.
        connection.execute_batch("pragma synchronous = full")?;
        let (passes, received) = mpsc::sync_channel(1);
        let of_thread = Arc::clone(&log);
        let handle = thread::Builder::new()
            .name("store-copier".to_owned())
            .spawn(move || copy_until_end(&connection, &of_thread, &received))
            .map_err(|error| Error::Unavailable(format!("a thread cannot be started: {error}")))?;
        let (of_writer, wake) = (Arc::clone(&log), passes.clone());
        writer.wal_hook(Some(move |wal: &mut Wal, pages| {
            after_commit(&of_writer, &wake, wal, u32::try_from(pages).unwrap_or_default());
            Ok(())
        }))?;
        Ok((Self { passes, handle: Some(handle) }, log))
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        // The thread may have panicked.
        let _ = self.passes.send(Pass::End);
        if self.handle.take().is_some_and(|handle| handle.join().is_err()) {
            tracing::error!("the thread that copies the log of SQLite panicked");
        }
    }
}

fn after_commit(log: &Log, wake: &SyncSender<Pass>, wal: &mut Wal, pages: u32) {
    match log.next(pages) {
        Next::Nothing => {}
        Next::Wake => {
            log.is_copying.store(true, Ordering::Release);
            if wake.try_send(Pass::Copy).is_err() {
                log.is_copying.store(false, Ordering::Release);
            }
        }
        Next::CopyAll => {
            let _pass = log.begin_pass();
            match wal.checkpoint_v2(CheckpointMode::PASSIVE) {
                Ok((_, copied)) => log.copied.store(u32::try_from(copied).unwrap_or_default(), Ordering::Relaxed),
                // Another program has locked the file; a later commit tries again.
                Err(error) => tracing::debug!(%error, pages, "the log of SQLite was not copied"),
            }
        }
    }
}

fn copy_until_end(connection: &Connection, log: &Log, passes: &Receiver<Pass>) {
    while let Ok(Pass::Copy) = passes.recv() {
        let _pass = log.begin_pass();
        let copied = connection.query_row("pragma wal_checkpoint(passive)", (), |row| row.get::<_, i64>(2));
        match copied {
            Ok(copied) => log.copied.store(u32::try_from(copied).unwrap_or_default(), Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "the log of SQLite cannot be copied"),
        }
        log.is_copying.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(copied: u32) -> Log {
        let (pages_max, is_copying) = (AtomicU32::new(LOG_PAGES_MAX), AtomicBool::new(false));
        Log { pages_max, copied: AtomicU32::new(copied), is_copying, pass: Mutex::new(()) }
    }

    #[test]
    fn the_copier_begins_when_many_pages_are_not_copied() {
        assert_eq!(log(0).next(COPY_PAGES - 1), Next::Nothing);
        assert_eq!(log(0).next(COPY_PAGES), Next::Wake);
        assert_eq!(log(1_900).next(COPY_PAGES), Next::Nothing);
        // What was copied belongs to the log before.
        assert_eq!(log(6_000).next(COPY_PAGES), Next::Wake);
        let busy = log(0);
        busy.is_copying.store(true, Ordering::Relaxed);
        assert_eq!(busy.next(COPY_PAGES), Next::Nothing);
    }

    #[test]
    fn the_writer_copies_a_short_rest_so_that_the_log_begins_again() {
        assert_eq!(log(REUSE_PAGES - REST_PAGES_MAX).next(REUSE_PAGES), Next::CopyAll);
        assert_eq!(log(REUSE_PAGES - REST_PAGES_MAX - 1).next(REUSE_PAGES), Next::Wake);
        let busy = log(REUSE_PAGES);
        busy.is_copying.store(true, Ordering::Relaxed);
        assert_eq!(busy.next(REUSE_PAGES), Next::Nothing);
        assert_eq!(busy.next(LOG_PAGES_MAX), Next::CopyAll, "the log is bounded");
    }

    #[test]
    fn on_a_full_disk_the_writer_copies_after_few_pages() {
        let full = log(0);
        full.set_pages_max(64);
        assert_eq!(full.next(63), Next::Nothing);
        assert_eq!(full.next(64), Next::CopyAll);
    }

    #[test]
    fn the_log_stays_short_while_commits_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        let mut writer = Connection::open(&path).unwrap();
        writer.execute_batch("pragma journal_mode = wal; pragma synchronous = off; create table t (x blob)").unwrap();
        let (copier, log) = Copier::start(&path, &mut writer).unwrap();
        let mut longest = 0;
        for _ in 0..600 {
            // About 60 pages each.
            writer.execute("insert into t values (zeroblob(240000))", ()).unwrap();
            let bytes = std::fs::metadata(folder.path().join("everstep.db-wal")).unwrap().len();
            longest = longest.max(bytes / 4_096);
        }
        assert!(longest >= u64::from(COPY_PAGES), "{longest} pages");
        assert!(longest < u64::from(LOG_PAGES_MAX) + 200, "{longest} pages");
        assert!(log.copied.load(Ordering::Relaxed) > 0);
        drop(copier);
        drop(writer);
        assert!(!folder.path().join("everstep.db-wal").exists(), "the last connection removes the log");
        let again = Connection::open(&path).unwrap();
        assert_eq!(again.query_row("select count(*) from t", (), |row| row.get::<_, i64>(0)).unwrap(), 600);
    }
}
