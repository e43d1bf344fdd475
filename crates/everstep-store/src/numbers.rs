//! Numbers in the types of SQL.

use std::time::Duration;

use crate::error::{Error, Result};

/// A limit of rows. A limit beyond the integers of SQL is no limit.
pub(crate) fn clamp_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A seq that entries are compared with. A seq beyond the integers of SQL is after every entry.
pub(crate) fn clamp_seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// A seq that is stored.
pub(crate) fn checked_seq(seq: u64) -> Result<i64> {
    i64::try_from(seq).map_err(|_| Error::Refused(format!("a journal cannot have {seq} entries")))
}

/// A number that is stored as `integer`.
pub(crate) fn checked_integer(number: u32) -> Result<i32> {
    i32::try_from(number).map_err(|_| Error::Refused(format!("{number} exceeds the integers of the database")))
}

/// A time span in microseconds.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A stored size.
pub(crate) fn size(stored: i64) -> usize {
    usize::try_from(stored).unwrap_or_default()
}
