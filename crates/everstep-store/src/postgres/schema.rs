//! The schema: migrations, which one node at a time applies.

use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::columns;
use super::connection::Connection;
use super::connections::Connections;
use super::errors::StatementError;
use super::queries::{params, query};
use super::server::Server;
use crate::error::{Error, Result};
use crate::migrations::{Applied, CREATE_HISTORY, Migration, POSTGRES, before_history, pending};

/// The advisory lock of calls that change the schema.
const SCHEMA_LOCK_KEY: i64 = 0x6576_6572_7374_6570;
/// The time for which a starting node waits for another node that migrates.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Waits for locks on tables are short, because all later users of the table queue behind a waiter.
const SET_LOCK_TIMEOUT: &str = "set local lock_timeout = '1s'";
/// The pause between two attempts to lock a table, for its other users.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Applies the migrations that the database does not record yet, all or nothing.
pub(super) async fn migrate(connections: &Connections, server: &Server) -> Result<()> {
    let until = Instant::now() + MIGRATION_TIMEOUT;
    loop {
        match try_to_migrate(connections, server).await? {
            // A long transaction uses a table. Writers would queue behind this transaction, so it yields to them.
            Progress::Hindered if Instant::now() < until => tokio::time::sleep(LOCK_RETRY_PAUSE).await,
            Progress::Hindered => {
                return Err(Error::Unavailable(
                    "the schema of the database cannot be upgraded, because other transactions have locked its \
                     tables for a long time; end those transactions (see pg_stat_activity), and start again"
                        .to_owned(),
                ));
            }
            Progress::Done => return Ok(()),
        }
    }
}

/// The result of an attempt to migrate.
enum Progress {
    Done,
    /// A table could not be locked in time. Nothing was changed.
    Hindered,
}

async fn try_to_migrate(connections: &Connections, server: &Server) -> Result<Progress> {
    let explain = |failure: StatementError| refused(failure, server);
    let connection = connections.get_for(MIGRATION_TIMEOUT).await?;
    connection.begin("begin").await?;
    connection.define("set local statement_timeout = 0").await?;
    lock(&connection).await?;
    connection.define(SET_LOCK_TIMEOUT).await?;
    if let Some(row) = connection.query(query!("schema/2_owner"), &[]).await?.first() {
        return Err(not_ours(columns::get(row, 0)?, server));
    }
    let tables = connection.query(query!("schema/2_tables"), &[]).await?;
    match (columns::get(&tables[0], 0)?, columns::get(&tables[0], 1)?) {
        (true, _) => {}
        (false, true) => return Err(before_history()),
        (false, false) => connection.define(CREATE_HISTORY).await.map_err(explain)?,
    }
    let applied = connection.query(query!("schema/3_applied"), &[]).await.map_err(explain)?;
    let applied = applied.iter().map(from_row).collect::<Result<Vec<_>>>()?;
    for migration in pending(POSTGRES, &applied)? {
        match connection.define(migration.sql).await {
            Err(failure) if failure.is_to_be_resent() => return Ok(Progress::Hindered),
            defined => defined.map_err(|failure| rejected(migration, failure, server))?,
        }
        let checksum = migration.checksum();
        let record = params! { "version": migration.version, "name": migration.name, "checksum": checksum };
        connection.execute(query!("schema/4_record"), record).await.map_err(explain)?;
        tracing::debug!(%migration, "applied a migration");
    }
    connection.commit().await?;
    Ok(Progress::Done)
}

/// Excludes other calls that change the schema or the partitions, until the end of the transaction.
pub(super) async fn lock(connection: &Connection<'_>) -> Result<(), StatementError> {
    connection.query(query!("schema/1_lock"), params! { "lock": SCHEMA_LOCK_KEY }).await?;
    Ok(())
}

fn from_row(row: &Row) -> Result<Applied> {
    Ok(Applied { version: columns::get(row, 0)?, name: columns::get(row, 1)?, checksum: columns::get(row, 2)? })
}

fn not_ours(owner: &str, server: &Server) -> Error {
    let (user, schema) = (&server.user, &server.schema);
    Error::Unusable(format!(
        "the tables in schema \"{schema}\" of the database belong to \"{owner}\"; user \"{user}\" may use them but \
         not change them, which a new week or release requires; connect as \"{owner}\", or as an administrator, run: \
         grant \"{owner}\" to \"{user}\""
    ))
}

/// The error of a migration. Class 42 means that a statement does not fit the tables.
fn rejected(migration: &Migration, failure: StatementError, server: &Server) -> Error {
    match failure.database() {
        Some(error) if error.code().code().starts_with("42") && *error.code() != SqlState::INSUFFICIENT_PRIVILEGE => {
            migration.rejected(error.message())
        }
        _ => refused(failure, server),
    }
}

fn refused(failure: StatementError, server: &Server) -> Error {
    if failure.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let (user, schema) = (&server.user, &server.schema);
        return Error::Unusable(format!(
            "user \"{user}\" may not create tables in schema \"{schema}\" of the database; as an administrator of it, run: grant create on schema \"{schema}\" to \"{user}\""
        ));
    }
    failure.into()
}
