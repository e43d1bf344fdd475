//! Journals as they are read.

use crate::error::{Error, Result};
use crate::rows::StoredEntry;

/// A journal as far as this build can read it.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    pub(crate) entries: Vec<StoredEntry>,
    /// The last seq, and what stands in the way of reading up to it.
    pub(crate) unreadable: Option<(u64, String)>,
}

impl Readable {
    /// Adds the next entry, which is read only if all before it could be.
    pub(crate) fn push(&mut self, seq: u64, read: impl FnOnce() -> Result<StoredEntry>) -> Result<()> {
        if let Some((last, _)) = &mut self.unreadable {
            *last = seq;
            return Ok(());
        }
        match read() {
            Ok(entry) => self.entries.push(entry),
            Err(Error::Corrupt(reason)) => self.unreadable = Some((seq, reason)),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
