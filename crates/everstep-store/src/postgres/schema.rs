//! The schema: migrations, which one node at a time applies.

use std::time::{Duration, Instant};

use refinery::Migration;
use tokio_postgres::error::SqlState;

use super::columns;
use super::connection::Connection;
use super::connections::Connections;
use super::errors::Failure;
use super::queries::{params, query};
use super::server::Server;
use crate::error::{Error, Result};

mod migrations {
    refinery::embed_migrations!("migrations/postgres");
}

/// The advisory lock of calls that change the schema.
const SCHEMA_LOCK_KEY: i64 = 0x6576_6572_7374_6570;
/// How long a node that starts waits for another one that migrates.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Waits for locks on tables are short, because all later users of the table queue behind a waiter.
const SET_LOCK_TIMEOUT: &str = "set local lock_timeout = '1s'";
/// How long other users of a table get between two attempts to lock it.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(250);
const HISTORY: &str = "create table refinery_schema_history (
    version integer primary key,
    name varchar(255),
    applied_on varchar(255),
    checksum varchar(255)
)";

/// Brings the database to the newest schema, all or nothing.
pub(super) async fn migrate(connections: &Connections, server: &Server) -> Result<()> {
    let until = Instant::now() + MIGRATION_TIMEOUT;
    loop {
        match try_to_migrate(connections, server).await? {
            // A long transaction uses a table. Writers would queue behind this one, so it lets them pass.
            Progress::Hindered if Instant::now() < until => tokio::time::sleep(LOCK_RETRY_PAUSE).await,
            Progress::Hindered => {
                return Err(Error::Unavailable(
                    "its schema cannot be brought up to date, because somebody uses its tables for very long; \
                     end their transactions (see pg_stat_activity), and start again"
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
    let explain = |failure: Failure| refused(failure, server);
    let connection = connections.get_for(MIGRATION_TIMEOUT).await?;
    connection.begin("begin").await?;
    connection.define("set local statement_timeout = 0").await?;
    lock(&connection).await?;
    connection.define(SET_LOCK_TIMEOUT).await?;
    if let Some(row) = connection.query(query!("schema/2_owner"), &[]).await?.first() {
        return Err(not_ours(columns::get(row, 0)?, server));
    }
    let is_new = connection.query(query!("schema/2_is_new"), &[]).await?;
    if columns::get(&is_new[0], 0)? {
        connection.define(HISTORY).await.map_err(explain)?;
    }
    let applied = connection.query(query!("schema/3_applied"), &[]).await.map_err(explain)?;
    let applied = applied.iter().map(Applied::from_row).collect::<Result<Vec<_>>>()?;
    let mut migrations = migrations::migrations::runner().get_migrations().clone();
    migrations.sort();
    for migration in pending(&migrations, &applied)? {
        match connection.define(migration.sql().expect("it is embedded")).await {
            Err(failure) if failure.is_to_be_resent() => return Ok(Progress::Hindered),
            defined => defined.map_err(explain)?,
        }
        let (version, name, checksum) = (migration.version(), migration.name(), migration.checksum().to_string());
        let record = params! { "version": version, "name": name, "checksum": checksum };
        connection.execute(query!("schema/4_record"), record).await.map_err(explain)?;
    }
    connection.commit().await?;
    Ok(Progress::Done)
}

/// Excludes other calls that change the schema or the partitions, until the end of the transaction.
pub(super) async fn lock(connection: &Connection<'_>) -> Result<(), Failure> {
    connection.query(query!("schema/1_lock"), params! { "lock": SCHEMA_LOCK_KEY }).await?;
    Ok(())
}

/// A migration that was applied.
struct Applied {
    version: i32,
    name: String,
    checksum: String,
}

impl Applied {
    fn from_row(row: &tokio_postgres::Row) -> Result<Self> {
        Ok(Self { version: columns::get(row, 0)?, name: columns::get(row, 1)?, checksum: columns::get(row, 2)? })
    }
}

/// The migrations that are not applied yet.
fn pending<'a>(migrations: &'a [Migration], applied: &[Applied]) -> Result<impl Iterator<Item = &'a Migration>> {
    let newest = migrations.last().map_or(0, Migration::version);
    for done in applied {
        let known = migrations.iter().find(|migration| migration.version() == done.version);
        let Some(known) = known else {
            return Err(Error::Corrupt(format!(
                "its schema is of a later release (V{}, and this one knows V{newest}); run that release",
                done.version
            )));
        };
        if known.checksum().to_string() != done.checksum {
            return Err(Error::Corrupt(format!(
                "its schema V{} ({}) is not the one of this release",
                done.version, done.name
            )));
        }
    }
    let done: Vec<_> = applied.iter().map(|done| done.version).collect();
    Ok(migrations.iter().filter(move |migration| !done.contains(&migration.version())))
}

fn not_ours(owner: &str, server: &Server) -> Error {
    let (user, schema) = (&server.user, &server.schema);
    Error::Unusable(format!(
        "the tables in schema \"{schema}\" of the database belong to \"{owner}\", and user \"{user}\" may use but \
         not change them, as a new week or release needs; connect as \"{owner}\", or as an administrator, \
         run: grant \"{owner}\" to \"{user}\""
    ))
}

fn refused(failure: Failure, server: &Server) -> Error {
    if failure.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let (user, schema) = (&server.user, &server.schema);
        return Error::Unusable(format!(
            "user \"{user}\" may not create tables in schema \"{schema}\" of the database; as an administrator of it, run: grant create on schema \"{schema}\" to \"{user}\""
        ));
    }
    failure.into()
}
