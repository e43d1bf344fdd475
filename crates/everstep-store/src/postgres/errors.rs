//! PostgreSQL's errors in the words of the contract.

use std::error::Error as _;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use crate::error::Error;

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Failure {
    Database(tokio_postgres::Error),
    /// There was no answer in time. Whether the statement was done is unknown.
    Late(Duration),
    /// There is no connection.
    Disconnected(String),
}

impl Failure {
    pub(super) fn code(&self) -> Option<&SqlState> {
        self.database().map(DbError::code)
    }

    pub(super) fn database(&self) -> Option<&DbError> {
        match self {
            Self::Database(error) => error.as_db_error(),
            Self::Late(_) | Self::Disconnected(_) => None,
        }
    }

    /// Whether nothing was done, and only because others were at it at the same time.
    pub(super) fn is_to_be_resent(&self) -> bool {
        let codes =
            [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE];
        self.code().is_some_and(|code| codes.contains(code))
    }

    /// Whether the connection is of no use any more, although it is open. One that lacks a partition may be the only
    /// one that does (behind a pooler, what is closed is not that one).
    pub(super) fn spoils_connection(&self) -> bool {
        let is_useless =
            |code: &SqlState| *code == SqlState::READ_ONLY_SQL_TRANSACTION || code.code().starts_with("57P");
        self.code().is_none_or(is_useless) || self.lacks_partition()
    }

    /// Whether a row stands where one was to be written.
    pub(super) fn is_taken(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether an entry's week has no partition yet. (It is told as a check that failed, but one without a name.)
    pub(super) fn lacks_partition(&self) -> bool {
        self.database().is_some_and(|error| {
            *error.code() == SqlState::CHECK_VIOLATION
                && error.constraint().is_none()
                && error.table() == Some("journal")
        })
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Database(error),
            error => Self::Disconnected(error.to_string()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match &failure {
            Failure::Database(error) => match error.as_db_error() {
                Some(error) => of_code(error),
                None => Self::Unavailable(told(error)),
            },
            Failure::Late(limit) => Self::Unavailable(format!("it gave no answer within {limit:?}")),
            Failure::Disconnected(reason) => Self::Unavailable(reason.clone()),
        }
    }
}

/// What the server said, without the data that it may have said it about.
fn of_code(error: &DbError) -> Error {
    let code = error.code().code();
    let message = format!("{} ({code})", error.message());
    match code {
        "53100" | "53200" => Error::Full(message),
        "XX001" | "XX002" => Error::Corrupt(message),
        "25006" => Error::Unavailable(format!("{message}; it is a standby or was made read-only")),
        _ => match &code[..2] {
            "22" | "23" | "54" => Error::Refused(message),
            _ => Error::Unavailable(message),
        },
    }
}

/// An error with its causes: the outer ones alone say little.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
