//! SQLite's errors as errors of the ports.

use rusqlite::{ErrorCode, ffi};

use crate::error::Error;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let message = error.to_string();
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => from_code(failure.code, message),
            rusqlite::Error::ToSqlConversionFailure(_) | rusqlite::Error::NulError(_) => Self::Refused(message),
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => Self::Corrupt(message),
            _ => Self::Unavailable(message),
        }
    }
}

fn from_code(code: ErrorCode, message: String) -> Error {
    match code {
        ErrorCode::DiskFull => Error::Full(message),
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig => Error::Refused(message),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt(message),
        _ => Error::Unavailable(message),
    }
}

/// Whether a row with the same unique key exists.
pub(super) fn is_taken(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error().map(|failure| failure.extended_code),
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID)
    )
}
