//! PostgreSQL's errors as errors of the ports.

use std::error::Error as _;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, SqlState};

use crate::error::Error;

/// Why a statement, or a transaction of several statements, failed.
#[derive(Debug)]
pub(super) enum StatementError {
    Database(tokio_postgres::Error),
    /// The call timed out. Whether the statement was executed is unknown.
    Late(Duration),
    /// No connection could be made.
    Disconnected(String),
    /// The database has replied, and the transaction must not continue: a row cannot be read, or a quota is reached.
    Rejected(Error),
}

impl StatementError {
    pub(super) fn code(&self) -> Option<&SqlState> {
        self.database().map(DbError::code)
    }

    pub(super) fn database(&self) -> Option<&DbError> {
        match self {
            Self::Database(error) => error.as_db_error(),
            Self::Late(_) | Self::Disconnected(_) | Self::Rejected(_) => None,
        }
    }

    /// Whether the statement failed without effect, because of a conflict with another transaction.
    pub(super) fn is_to_be_resent(&self) -> bool {
        let codes =
            [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE];
        self.code().is_some_and(|code| codes.contains(code))
    }

    /// Whether the connection must be closed although it is open, because it does not know a partition. It may be the
    /// only such connection (behind a pooler, the closed connection may be a different one).
    pub(super) fn breaks_connection(&self) -> bool {
        let is_useless =
            |code: &SqlState| *code == SqlState::READ_ONLY_SQL_TRANSACTION || code.code().starts_with("57P");
        self.code().is_none_or(is_useless) || self.lacks_partition()
    }

    /// Whether a row with the same unique key exists.
    pub(super) fn is_taken(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether an entry's week has no partition yet. PostgreSQL reports a failed check without a constraint name.
    pub(super) fn lacks_partition(&self) -> bool {
        self.database().is_some_and(|error| {
            *error.code() == SqlState::CHECK_VIOLATION
                && error.constraint().is_none()
                && error.table() == Some("journal")
        })
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for StatementError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Database(error),
            error => Self::Disconnected(error.to_string()),
        }
    }
}

impl From<Error> for StatementError {
    fn from(error: Error) -> Self {
        Self::Rejected(error)
    }
}

impl From<StatementError> for Error {
    fn from(failure: StatementError) -> Self {
        match failure {
            StatementError::Database(error) => match error.as_db_error() {
                Some(error) => from_db_error(error),
                None => Self::Unavailable(describe(&error)),
            },
            StatementError::Late(limit) => Self::Unavailable(format!("the server sent no reply within {limit:?}")),
            StatementError::Disconnected(reason) => Self::Unavailable(reason),
            StatementError::Rejected(error) => error,
        }
    }
}

/// The server's message, without the detail, which may contain data.
pub(super) fn from_db_error(error: &DbError) -> Error {
    let code = error.code().code();
    let message = format!("{} ({code})", error.message());
    match code {
        "53100" | "53200" => Error::Full(message),
        "XX001" | "XX002" => Error::Corrupt(message),
        "25006" => Error::Unavailable(format!("{message}; it is a standby or was set to read-only")),
        _ => match &code[..2] {
            "22" | "23" | "54" => Error::Refused(message),
            _ => Error::Unavailable(message),
        },
    }
}

/// An error with its causes.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
