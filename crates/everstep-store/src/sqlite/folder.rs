//! The data folder: one process at a time may use it, and no other user of the machine may read it.
//!
//! 1. A folder that is created here has the mode 0700, and its files have 0600, whatever the umask is.
//! 2. A folder that other users may enter is closed to them, with a message, if it is empty or has a database. One with
//!    other files is rejected: it may be a folder that other programs share.
//! 3. Files of the database that other users may read are closed to them, with a message.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const FOLDER_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;
/// The permissions of users other than the owner.
const OTHERS_MASK: u32 = 0o077;
const DATABASE_FILE: &str = "everstep.db";
const LOCK_FILE: &str = "lock";
/// The file that takes the space of the reserve.
pub(super) const RESERVE_FILE: &str = "reserve";

/// A locked data folder. The lock ends with this value, or with the process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder if it does not exist, readable only by its owner, and locks it. Fails if another process holds
    /// the lock.
    pub(super) fn lock(path: &Path) -> Result<Self> {
        let unusable =
            |error: io::Error| Error::Unavailable(format!("data folder {} cannot be used: {error}", path.display()));
        if path.is_dir() {
            close_folder(path)?;
        } else {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(unusable)?;
        }
        // Not truncated: until the lock is acquired, the file contains the id of the process that holds it.
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(FILE_MODE)
            .open(path.join(LOCK_FILE))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &mut lock)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        lock.set_len(0).map_err(unusable)?;
        match writeln!(lock, "{}", std::process::id()) {
            // The lock protects the folder without the id, which is for messages.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            written => written.map_err(unusable)?,
        }
        close_files(path).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }
}

/// Closes an existing folder to other users.
fn close_folder(path: &Path) -> Result<()> {
    let read = |error: io::Error| Error::Unavailable(format!("data folder {} cannot be read: {error}", path.display()));
    let mode = fs::metadata(path).map_err(read)?.permissions().mode();
    if mode & OTHERS_MASK == 0 {
        return Ok(());
    }
    let shown = path.display();
    let is_ours = path.join(DATABASE_FILE).exists() || fs::read_dir(path).map_err(read)?.next().is_none();
    if !is_ours {
        return Err(Error::Unavailable(format!(
            "data folder {shown} has other files and other users may enter it; choose a new folder with --data, or close \
             it with: chmod 700 {shown}"
        )));
    }
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)).map_err(|error| {
        Error::Unavailable(format!(
            "other users may enter data folder {shown}, and it cannot be closed to them ({error}); choose a folder inside \
             it with --data"
        ))
    })?;
    tracing::warn!(folder = %shown, "other users could enter the data folder; its mode is now 0700");
    Ok(())
}

/// Creates the file of the database, and closes the files that exist to other users. SQLite gives the files beside the
/// database (`-wal`, `-shm`) the mode of the database.
fn close_files(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path.join(DATABASE_FILE))?;
    for name in [DATABASE_FILE, "everstep.db-wal", "everstep.db-shm", "everstep.db-journal", LOCK_FILE, RESERVE_FILE] {
        let file = path.join(name);
        let mode = match fs::metadata(&file) {
            Ok(metadata) => metadata.permissions().mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if mode & OTHERS_MASK != 0 {
            fs::set_permissions(&file, Permissions::from_mode(FILE_MODE))?;
            tracing::warn!(file = %file.display(), "other users could read the file; its mode is now 0600");
        }
    }
    Ok(())
}

fn held(path: &Path, lock: &mut File) -> Error {
    let mut text = String::new();
    let holder = match lock.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
        // The holder has not written its id yet.
        _ => "another process".to_owned(),
    };
    Error::Locked(format!(
        "data folder {} is in use by {holder}; stop that process, or choose another folder with --data",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, SqliteStore};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn files(folder: &Path) -> Vec<(String, u32)> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_new_folder_is_its_owners_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("everstep/data");
        let _held = Folder::lock(&path).unwrap();
        assert_eq!((mode(&path), mode(&path.join("..").canonicalize().unwrap())), (0o700, 0o700));
    }

    #[tokio::test]
    async fn the_files_of_a_database_are_their_owners_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("data");
        let store = SqliteStore::open(&path, &Options::default()).unwrap();
        store.pages().await.unwrap();
        let names = ["everstep.db", "everstep.db-shm", "everstep.db-wal", "lock", "reserve"];
        assert_eq!(files(&path), names.map(|name| (name.to_owned(), 0o600)));
    }

    #[tokio::test]
    async fn a_folder_that_others_may_enter_is_closed_to_them() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("data");
        drop(SqliteStore::open(&path, &Options::default()).unwrap());
        // As an earlier release created them under the umask 022.
        for name in [DATABASE_FILE, LOCK_FILE] {
            fs::set_permissions(path.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let store = SqliteStore::open(&path, &Options::default()).unwrap();
        store.pages().await.unwrap();
        assert_eq!(mode(&path), 0o700);
        assert!(files(&path).iter().all(|(_, mode)| *mode == 0o600), "{:?}", files(&path));
    }

    #[test]
    fn an_empty_folder_that_others_may_enter_is_closed_to_them() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let _held = Folder::lock(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_shared_folder_of_other_files_is_rejected() {
        let above = tempfile::tempdir().unwrap();
        fs::write(above.path().join("notes.txt"), "mine").unwrap();
        fs::set_permissions(above.path(), Permissions::from_mode(0o755)).unwrap();
        let error = Folder::lock(above.path()).unwrap_err().to_string();
        assert!(error.contains("other users may enter it") && error.contains("chmod 700"), "{error}");
        assert_eq!((mode(above.path()), files(above.path()).len()), (0o755, 1), "nothing was changed");
    }
}
