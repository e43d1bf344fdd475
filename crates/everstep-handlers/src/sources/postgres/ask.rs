//! Sends one statement in a separate transaction.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use everstep_net::Guard;
use futures_util::TryStreamExt;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::address::Address;
use super::connection::Connection;
use super::pool::{Lease, Pool};
use super::{decode, encode, errors};
use crate::ports::Secrets;
use crate::sources::QUERY_ERROR;
use crate::sources::query::{Limits, Values};
use crate::sources::result::{Field, QueryResult};
use crate::sources::rows::{self, Rows};
use crate::sources::source::PostgresSource;
use crate::sources::statement::Statement;

/// Rows of the first batch: few, because they may be wide.
const FIRST_BATCH_ROWS: usize = 8;
/// The maximum number of rows in a later batch.
const BATCH_ROWS_MAX: usize = 1_000;

/// A query of a PostgreSQL source, with its values.
pub(in crate::sources) struct DatabaseQuery<'a> {
    pub(in crate::sources) workspace: WorkspaceId,
    pub(in crate::sources) statement: &'a Statement,
    /// The statement as it was saved.
    pub(in crate::sources) sql: &'a str,
    pub(in crate::sources) values: &'a Values<'a>,
    pub(in crate::sources) writes: bool,
    pub(in crate::sources) limits: Limits,
    pub(in crate::sources) max_rows: Option<u32>,
    pub(in crate::sources) timeout: Duration,
}

/// Queries the database. Dropping the future cancels the statement, and so does its timeout.
pub(in crate::sources) async fn ask(
    pool: &Arc<Pool>,
    secrets: &dyn Secrets,
    guard: &Guard,
    query: &DatabaseQuery<'_>,
) -> Result<QueryResult, Failure> {
    let work = async {
        loop {
            let mut lease = pool.lend(query.workspace, secrets, guard).await?;
            let was_used = lease.connection().rested.is_some();
            match attempt(&mut lease, query).await {
                // Nothing was executed yet: the server has closed the idle connection.
                Err(Fault::NotBegun(_)) if was_used => {}
                Err(Fault::NotBegun(error)) => return Err(errors::refused(&error)),
                Err(Fault::Failed(failure)) => {
                    lease.give_back();
                    return Err(failure);
                }
                Ok(answer) => {
                    lease.give_back();
                    return Ok(answer);
                }
            }
        }
    };
    tokio::time::timeout(query.timeout, work).await.unwrap_or_else(|_| {
        let message = format!("no response within {} s: the statement was cancelled", query.timeout.as_secs_f64());
        Err(Failure::transient(code::STEP_TIMEOUT, message))
    })
}

/// Whether a source accepts the connection. Returns the server's version, and whether the role is a superuser.
pub(in crate::sources) async fn test(
    source: &PostgresSource,
    workspace: WorkspaceId,
    secrets: &dyn Secrets,
    guard: &Guard,
) -> Result<(String, bool), Failure> {
    let address = Address::from_source(source, workspace, secrets).await?;
    let connection = Connection::open(guard, address).await?;
    let row = connection.client.query_one("select current_setting('server_version')", &[]).await;
    let version: String = row.and_then(|row| row.try_get(0)).map_err(|error| errors::refused(&error))?;
    Ok((format!("PostgreSQL {version}"), connection.is_superuser))
}

enum Fault {
    /// The transaction did not begin.
    NotBegun(Error),
    Failed(Failure),
}

async fn attempt(lease: &mut Lease, query: &DatabaseQuery<'_>) -> Result<QueryResult, Fault> {
    let connection = lease.connection();
    connection.begin();
    let result = perform(connection, query).await;
    if result.is_err() && connection.is_overrun() {
        return Err(Fault::Failed(rows::too_large("the response of the database has more than 16 MiB")));
    }
    result
}

/// 1. A transaction begins, read-only unless both the source and the query allow writing.
/// 2. The server parses the statement, which is one, and returns the types of its parameters.
/// 3. The arguments are bound, and rows are fetched until there are enough.
/// 4. Writes are committed; otherwise the transaction is rolled back.
async fn perform(connection: &mut Connection, query: &DatabaseQuery<'_>) -> Result<QueryResult, Fault> {
    let statement_failure = |error: Error| Fault::Failed(errors::failed(&error, query.statement, query.sql));
    let builder = connection.client.build_transaction();
    let transaction = builder.read_only(!query.writes).start().await.map_err(Fault::NotBegun)?;
    // Longer than our own time limit, for the case that no client is left to cancel.
    let limit = query.timeout.as_millis() + 1_000;
    let settings = format!(
        "set local statement_timeout = {limit}; set local idle_in_transaction_session_timeout = {limit}; \
         set local standard_conforming_strings = on"
    );
    transaction.batch_execute(&settings).await.map_err(statement_failure)?;
    let prepared = transaction.prepare(&query.statement.text).await.map_err(statement_failure)?;
    let fields: Vec<Field> = prepared
        .columns()
        .iter()
        .map(|column| Field { name: column.name().to_owned(), kind: column.type_().name().to_owned() })
        .collect();
    rows::check_names(&fields).map_err(Fault::Failed)?;
    if let Some(column) = prepared.columns().iter().find(|column| !decode::knows(column.type_())) {
        let message = format!(
            "the column {:?} has the type {}, which JSON cannot represent: select it as text, {}::text",
            column.name(),
            column.type_().name(),
            column.name()
        );
        return Err(Fault::Failed(Failure::fatal(QUERY_ERROR, message)));
    }
    let bound = encode::bind(&query.statement.names, query.values, prepared.params()).map_err(Fault::Failed)?;
    let bound = bound.iter().map(|value| value as &(dyn ToSql + Sync));
    let portal = transaction.bind_raw(&prepared, bound.collect::<Vec<_>>()).await.map_err(statement_failure)?;

    let mut gathered = Rows::new(query.limits, query.max_rows, fields.clone());
    let (mut fetch, mut bytes, mut count) = (FIRST_BATCH_ROWS, 0_usize, 0_usize);
    let changed = loop {
        // One more than allowed: it shows whether there are more.
        fetch = fetch.min(gathered.rows_left() + 1);
        let stream = transaction.query_portal_raw(&portal, fetch as i32).await.map_err(statement_failure)?;
        let mut stream = std::pin::pin!(stream);
        let (mut came, mut wants_more) = (0, true);
        while let Some(row) = stream.try_next().await.map_err(statement_failure)? {
            came += 1;
            bytes += row.raw_size_bytes();
            if wants_more {
                wants_more = gathered.push(|out| write(out, &fields, &row)).map_err(Fault::Failed)?;
            }
        }
        let changed = stream.rows_affected();
        if changed.is_some() || came < fetch || !wants_more {
            break changed;
        }
        count += came;
        fetch = (gathered.bytes_left() / (bytes / count).max(1)).clamp(1, BATCH_ROWS_MAX);
    };
    if query.writes {
        transaction.commit().await.map_err(statement_failure)?;
    }
    Ok(gathered.finish(changed))
}

fn write(out: &mut String, fields: &[Field], row: &Row) -> Result<(), Failure> {
    rows::write_row(out, fields, |out, place| {
        let value: Option<decode::Raw<'_>> = row.try_get(place).map_err(|error| errors::refused(&error))?;
        let Some(value) = value else {
            out.push_str("null");
            return Ok(());
        };
        let unreadable =
            || Failure::fatal(QUERY_ERROR, format!("the column {:?} cannot be read as JSON", fields[place].name));
        value.write(out).ok_or_else(unreadable)
    })
}
