//! Reading a journal up to the first entry that this build cannot read.

use crate::error::{Error, Result};
use crate::rows::StoredEntry;

/// A journal as far as this build can read it.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    pub(crate) entries: Vec<StoredEntry>,
    /// The last seq, and why the journal cannot be read up to it.
    pub(crate) unreadable: Option<(u64, String)>,
}

impl Readable {
    /// Adds the next entry. It is decoded only if all entries before it could be decoded.
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
