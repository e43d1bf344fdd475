//! Numbers as SQL takes them.

use crate::error::{Error, Result};

/// A limit as SQL takes it. One that is beyond all rows is none.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A place in a journal as SQL takes it. One that SQL cannot count to is after every entry.
pub(crate) fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// A number of an entry as SQL stores it.
pub(crate) fn stored_seq(seq: u64) -> Result<i64> {
    i64::try_from(seq).map_err(|_| Error::Refused(format!("a journal cannot have {seq} entries")))
}
