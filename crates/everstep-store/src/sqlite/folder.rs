//! The data folder, which one process at a time may use.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

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
        let unusable = |error: std::io::Error| {
            Error::Unavailable(format!("data folder {} cannot be used: {error}", path.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        // Not truncated: until the lock is acquired, the file contains the id of the process that holds it.
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("lock"))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &mut lock)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        lock.set_len(0).map_err(unusable)?;
        writeln!(lock, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("everstep.db")
    }
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_folder_is_its_owners_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("everstep/data");
        let _held = Folder::lock(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
