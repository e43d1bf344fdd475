//! The server: whether it can be reached, and whether it can be used.

use everstep_core::time::Timestamp;
use tokio_postgres::error::SqlState;

use super::columns;
use super::connections::Connections;
use super::errors::{self, StatementError};
use super::queries::query;
use super::url::Address;
use crate::error::{Error, Result};

/// The oldest major version with all features that the statements use.
const VERSION_MIN: i32 = 14;
const POOLER: &str = "a connection pooler is between this node and PostgreSQL: set EVERSTEP_DATABASE_POOLED=true";

/// Facts that a server reports about itself.
pub(super) struct Server {
    pub(super) user: String,
    pub(super) schema: String,
    pub(super) clock: Timestamp,
}

/// Queries the server and checks that it can be used. An error contains the remedy.
pub(super) async fn greet(connections: &Connections, address: &Address) -> Result<Server> {
    let connection = connections.get().await.map_err(|failure| unreachable(&failure, address))?;
    let rows = connection.query(query!("server"), &[]).await.map_err(|failure| unreachable(&failure, address))?;
    let row = &rows[0];
    check_version(columns::get(row, 0)?, columns::get(row, 1)?, address)?;
    if columns::get(row, 2)? {
        return Err(Error::Unusable(format!(
            "PostgreSQL at {} is read-only: it is a standby, or default_transaction_read_only is on; \
             name the primary in the database URL (several hosts: add target_session_attrs=read-write)",
            address.name()
        )));
    }
    if !connections.is_pooled() && !columns::get(row, 6)? {
        return Err(Error::Unusable(format!(
            "settings of a connection to {} do not reach PostgreSQL; {POOLER}",
            address.name()
        )));
    }
    let user: String = columns::get(row, 3)?;
    let schema: Option<String> = columns::get(row, 4)?;
    let schema = schema.ok_or_else(|| {
        Error::Unusable(format!(
            "user \"{user}\" has no schema for its tables in the database: none of its search_path exists; \
             as an administrator of it, run: create schema \"{user}\" authorization \"{user}\""
        ))
    })?;
    Ok(Server { user, schema, clock: columns::time(row, 5)? })
}

fn check_version(number: i32, name: &str, address: &Address) -> Result<()> {
    if number / 10_000 >= VERSION_MIN {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "PostgreSQL at {} is version {name}, which is too old; upgrade it to {VERSION_MIN} or later",
        address.name()
    )))
}

fn unreachable(failure: &StatementError, address: &Address) -> Error {
    let (name, config) = (address.name(), &address.config);
    let user = config.get_user().unwrap_or("(none)");
    let StatementError::Database(error) = failure else {
        return Error::Unavailable(match failure {
            StatementError::Late(limit) => format!(
                "PostgreSQL at {name} sent no reply within {limit:?}; check that it is reachable from here and not \
                 overloaded"
            ),
            StatementError::Disconnected(reason) => reason.clone(),
            StatementError::Rejected(error) => error.to_string(),
            StatementError::Database(_) => unreachable!("errors of the database are handled above"),
        });
    };
    let Some(database) = error.as_db_error() else {
        let reason = errors::describe(error);
        let hint = if reason.contains("TLS") || reason.contains("certificate") {
            "see sslmode and sslrootcert in the database URL"
        } else {
            "check that it is running, and that the database URL names the right host and port"
        };
        return Error::Unavailable(format!("PostgreSQL at {name} cannot be reached ({reason}); {hint}"));
    };
    let said = database.message();
    let unusable = |hint: String| Error::Unusable(format!("PostgreSQL at {name} reports: {said}; {hint}"));
    match database.code() {
        code if *code == SqlState::INVALID_PASSWORD => {
            unusable(format!("check the password of user \"{user}\" in the database URL"))
        }
        code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => unusable(format!(
            "user \"{user}\" may not log in from here: check the user, sslmode, and the server's pg_hba.conf"
        )),
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            let database = config.get_dbname().unwrap_or_default();
            unusable(format!("create it: createdb --owner \"{user}\" \"{database}\""))
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            let database = config.get_dbname().unwrap_or_default();
            unusable(format!("as an administrator, run: grant connect on database \"{database}\" to \"{user}\""))
        }
        // Every supported version has this setting: the server is older.
        code if *code == SqlState::UNDEFINED_OBJECT && said.contains("configuration parameter") => {
            unusable(format!("it is too old; upgrade it to {VERSION_MIN} or later"))
        }
        code if *code == SqlState::PROTOCOL_VIOLATION && said.contains("startup parameter") => {
            unusable(POOLER.to_owned())
        }
        // The pooler executed a statement on another connection than the one that prepared it.
        code if [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code) => {
            unusable(POOLER.to_owned())
        }
        _ => Error::Unavailable(format!("PostgreSQL at {name} reports: {said} ({})", database.code().code())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_with_its_version() {
        let address = Address::parse("postgres://host/db").unwrap();
        assert!(check_version(140_000, "14.0", &address).is_ok());
        assert!(check_version(180_004, "18.4", &address).is_ok());
        let error = check_version(130_023, "13.23 (Debian 13.23-1)", &address).unwrap_err();
        assert_eq!(
            error.to_string(),
            "PostgreSQL at host:5432 is version 13.23 (Debian 13.23-1), which is too old; upgrade it to 14 or later"
        );
    }
}
