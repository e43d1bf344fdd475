//! The disk of the data folder: its free space, and the reserve.
//!
//! 1. The file `reserve` takes 4 MiB, so that no other program can use all space of the disk.
//! 2. If less than 4 MiB are free, or SQLite reports a full disk, the file is deleted, and new work is refused: the
//!    space is for runs that have been started.
//! 3. If less than 1 MiB is free, accepted work waits. The rest is for items that end runs, and for retention.
//! 4. While new work is refused, the log of SQLite is copied into the database after 64 pages: otherwise the log alone
//!    would use the reserve. While less than 128 MiB are free, it is copied after 500 pages, so that there is space for
//!    the copies when the disk becomes full.
//! 5. When 12 MiB are free, the file is written again, and new work is accepted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::FallocateFlags;

use super::database::{BUSY_TIMEOUT, Database};
use super::folder::{FILE_MODE, RESERVE_FILE};
use super::log::LOG_PAGES_MAX;
use crate::error::{Error, Result};
use crate::space::Space;

const MEBIBYTE: u64 = 1024 * 1024;
/// The size of the reserve, and the free space below which new work is refused.
const RESERVE_BYTES: u64 = 4 * MEBIBYTE;
/// The free space below which accepted work waits.
const LAST_BYTES: u64 = MEBIBYTE;
/// The free space from which new work is accepted again.
const ROOM_BYTES: u64 = 3 * RESERVE_BYTES;
/// The time between two measurements.
pub(super) const MEASURE_PERIOD: Duration = Duration::from_millis(250);
/// A disk with a smaller free part is reported in the log; again only after the part was larger than the second number.
const FREE_PERCENT_LOW: u128 = 10;
const FREE_PERCENT_WELL: u128 = 12;
/// The free space below which the log of SQLite is short.
const SHORT_LOG_BYTES: u64 = 128 * MEBIBYTE;
/// The pages of a short log, and of that on a full disk.
const SHORT_LOG_PAGES: u32 = 500;
const LOG_PAGES_ON_FULL_DISK: u32 = 64;
/// The time for which the log is not cut because a reader uses it.
const CUT_LOG_TIMEOUT: Duration = Duration::from_millis(100);

/// What a call writes, in the order in which space is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Starts, records of callers, events, definitions.
    NewWork,
    /// Runs that have been started.
    AcceptedWork,
    /// The end of runs, retention, membership.
    Upkeep,
}

/// The disk of a data folder, as its writer knows it.
pub(super) struct Disk {
    folder: PathBuf,
    /// For readers of other threads.
    space: Arc<Mutex<Space>>,
    free_bytes: u64,
    is_refusing: bool,
    is_low: bool,
    measured_at: Instant,
    /// The size of the file in a test, which is then the size of the disk.
    pub(super) max_pages: Option<u32>,
}

impl Disk {
    /// Measures the disk before the database is opened. On a full disk, the reserve is for opening it.
    pub(super) fn open(folder: &Path) -> Self {
        let mut disk = Self {
            folder: folder.to_owned(),
            space: Arc::default(),
            free_bytes: u64::MAX,
            // Without the file there was no space for it when the last process ended, or this is the first one.
            is_refusing: !folder.join(RESERVE_FILE).exists(),
            is_low: false,
            measured_at: Instant::now(),
            max_pages: None,
        };
        disk.measure(u64::MAX);
        disk
    }

    pub(super) fn space(&self) -> Arc<Mutex<Space>> {
        Arc::clone(&self.space)
    }

    fn admit(&self, purpose: Purpose) -> Result<()> {
        let is_refused = match purpose {
            Purpose::NewWork => self.is_refusing,
            Purpose::AcceptedWork => self.is_refusing && self.free_bytes < LAST_BYTES,
            Purpose::Upkeep => false,
        };
        if is_refused { Err(Error::Full(self.reason())) } else { Ok(()) }
    }

    /// Measures the free space, at most `limit` bytes, and refuses or accepts new work.
    fn measure(&mut self, limit: u64) {
        self.measured_at = Instant::now();
        let (free, total) = free_and_total(&self.folder);
        self.free_bytes = free.min(limit);
        self.warn_if_low(total);
        if !self.is_refusing && self.free_bytes < RESERVE_BYTES {
            self.refuse();
        } else if self.is_refusing && self.free_bytes >= ROOM_BYTES {
            self.accept();
        }
        self.show();
    }

    fn refuse(&mut self) {
        self.is_refusing = true;
        // It may be missing.
        let _ = fs::remove_file(self.folder.join(RESERVE_FILE));
        tracing::error!(
            free_bytes = self.free_bytes,
            "the disk is full; starts, records and events are refused until there is space; free some disk space"
        );
    }

    fn accept(&mut self) {
        let path = self.folder.join(RESERVE_FILE);
        match write_reserve(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let _ = fs::remove_file(path);
                return;
            }
            Err(error) => tracing::warn!(%error, "the reserve of the data folder cannot be written"),
        }
        self.is_refusing = false;
        tracing::info!(free_bytes = self.free_bytes, "the disk has space; new work is accepted");
    }

    fn warn_if_low(&mut self, total: u64) {
        let (free, total) = (u128::from(self.free_bytes), u128::from(total));
        let is_below = |percent: u128| free * 100 < total * percent;
        if !self.is_low && is_below(FREE_PERCENT_LOW) {
            self.is_low = true;
            tracing::warn!(
                free_bytes = self.free_bytes,
                "less than {FREE_PERCENT_LOW} % of the disk of the data folder is free"
            );
        } else if self.is_low && !is_below(FREE_PERCENT_WELL) {
            self.is_low = false;
        }
    }

    fn show(&self) {
        let space = Space {
            free_bytes: (self.free_bytes < u64::MAX).then_some(self.free_bytes),
            refusal: self.is_refusing.then(|| self.reason()),
        };
        *self.space.lock().unwrap_or_else(PoisonError::into_inner) = space;
    }

    fn log_pages_max(&self) -> u32 {
        match self.free_bytes {
            _ if self.is_refusing => LOG_PAGES_ON_FULL_DISK,
            free if free < SHORT_LOG_BYTES => SHORT_LOG_PAGES,
            _ => LOG_PAGES_MAX,
        }
    }

    fn reason(&self) -> String {
        let [free, room] = [self.free_bytes, ROOM_BYTES].map(|bytes| bytes / 1024);
        format!("{free} KiB of the disk of the data folder are free; new work is accepted from {room} KiB on")
    }
}

impl Database {
    /// Makes this connection the writer of a data folder.
    pub(super) fn attach_disk(&mut self, disk: Disk) {
        self.disk = Some(disk);
        self.adapt_log();
    }

    /// Measures the disk if the last measurement is old.
    pub(super) fn watch_disk(&mut self) {
        if self.disk.as_ref().is_some_and(|disk| disk.measured_at.elapsed() >= MEASURE_PERIOD) {
            self.measure_disk();
        }
    }

    /// Fails with [`Error::Full`] if the space that is left is not for this purpose.
    pub(super) fn admit(&mut self, purpose: Purpose) -> Result<()> {
        if self.is_refusing() {
            self.measure_disk();
        } else {
            self.watch_disk();
        }
        self.disk.as_ref().map_or(Ok(()), |disk| disk.admit(purpose))
    }

    /// Whether new work is refused because the disk is full.
    pub(super) fn is_refusing(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.is_refusing)
    }

    /// A call has failed because the disk is full.
    pub(super) fn note_full_disk(&mut self) {
        if let Some(disk) = self.disk.as_mut().filter(|disk| !disk.is_refusing) {
            disk.refuse();
            disk.show();
            self.adapt_log();
        }
        // Without a commit, SQLite does not copy the log.
        self.cut_log();
    }

    /// Measures the disk, and adapts the log of SQLite to it.
    pub(super) fn measure_disk(&mut self) {
        let Self { connection, disk: Some(disk), .. } = self else { return };
        let was_refusing = disk.is_refusing;
        let limit = disk.max_pages.map_or(u64::MAX, |pages| unused_bytes(connection, pages));
        disk.measure(limit);
        self.adapt_log();
        if !was_refusing && self.is_refusing() {
            self.cut_log();
        }
    }

    /// Bounds the log by the space that there is.
    fn adapt_log(&self) {
        if let (Some(log), Some(disk)) = (&self.log, &self.disk) {
            log.set_pages_max(disk.log_pages_max());
        }
    }

    /// Copies the log into the database, and frees its space, unless a reader uses it.
    pub(super) fn cut_log(&self) {
        // SQLite would refuse it beside the copier.
        let _pass = self.log.as_ref().map(|log| log.begin_pass());
        let wait_for = |timeout| self.connection.busy_timeout(timeout);
        let cut = || self.connection.query_row("pragma wal_checkpoint(truncate)", (), |_| Ok(()));
        let result = wait_for(CUT_LOG_TIMEOUT).and_then(|()| cut());
        if let Err(error) = result.and(wait_for(BUSY_TIMEOUT)) {
            tracing::debug!(%error, "the log of SQLite cannot be cut");
        }
    }
}

/// The bytes by which a file may grow that has at most so many pages.
fn unused_bytes(connection: &Connection, pages_max: u32) -> u64 {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let (Ok(pages), Ok(bytes)) = (read("page_count"), read("page_size")) else { return u64::MAX };
    u64::from(pages_max.saturating_sub(pages)) * u64::from(bytes)
}

/// The free bytes of the disk for this user, and all bytes. A file system that does not report them has space.
fn free_and_total(folder: &Path) -> (u64, u64) {
    match rustix::fs::statvfs(folder) {
        Ok(disk) if disk.f_blocks > 0 => {
            (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize))
        }
        Ok(_) | Err(_) => (u64::MAX, 0),
    }
}

/// Writes the file that takes the space.
fn write_reserve(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(FILE_MODE).open(path)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&mut file),
        Err(error) => Err(error.into()),
    }
}

/// For file systems that cannot allocate space without data. They may compress the data, so it is not the same byte.
fn fill(file: &mut File) -> io::Result<()> {
    let mut block = vec![0; 64 * 1024];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..RESERVE_BYTES / block.len() as u64 {
        for bytes in block.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes()[..bytes.len()]);
        }
        file.write_all(&block)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(folder: &Path) -> Option<u64> {
        fs::metadata(folder.join(RESERVE_FILE)).ok().map(|file| file.len())
    }

    #[test]
    fn the_reserve_exists_while_new_work_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::open(folder.path());
        assert_eq!((reserved(folder.path()), disk.is_refusing), (Some(RESERVE_BYTES), false));
        let refused = |disk: &Disk| {
            [Purpose::NewWork, Purpose::AcceptedWork, Purpose::Upkeep].map(|purpose| disk.admit(purpose).is_err())
        };
        // The free bytes that are measured, and what is refused with them, in this order.
        for (free, expected) in [
            (ROOM_BYTES, [false, false, false]),
            (RESERVE_BYTES, [false, false, false]),
            (RESERVE_BYTES - 1, [true, false, false]),
            (LAST_BYTES - 1, [true, true, false]),
            (0, [true, true, false]),
            (LAST_BYTES, [true, false, false]),
            (ROOM_BYTES - 1, [true, false, false]),
            (ROOM_BYTES, [false, false, false]),
        ] {
            disk.measure(free);
            assert_eq!(refused(&disk), expected, "{free} bytes are free");
            assert_eq!(reserved(folder.path()).is_none(), expected[0], "{free} bytes are free");
            let space = disk.space().lock().unwrap().clone();
            assert_eq!((space.free_bytes, space.refusal.is_some()), (Some(free), expected[0]));
        }
    }

    #[test]
    fn a_folder_without_the_reserve_had_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        drop(Disk::open(folder.path()));
        fs::remove_file(folder.path().join(RESERVE_FILE)).unwrap();
        assert!(!Disk::open(folder.path()).is_refusing, "the disk has space, and the file is written again");
        assert_eq!(reserved(folder.path()), Some(RESERVE_BYTES));
    }

    #[test]
    fn a_reserve_of_data_has_the_same_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RESERVE_FILE);
        fill(&mut File::create(&path).unwrap()).unwrap();
        assert_eq!(reserved(folder.path()), Some(RESERVE_BYTES));
    }
}
