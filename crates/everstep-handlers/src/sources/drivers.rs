//! Queries sources of every type.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_net::Client;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::postgres::{self, Pool};
use super::query::Query;
use super::result::{QueryResult, SourceTest};
use super::source::{PostgresSource, Source};
use super::statement::Dialect;
use super::{QUERY_ERROR, arguments, http, sqlite};
use crate::ports::Secrets;

/// The timeout of a test of a source.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Queries are read-only and limited, but a superuser can leave the database: it reads files and runs programs.
const SUPERUSER_MESSAGE: &str = "the database accepts the connection, but the role is a superuser; use a role with only the permissions that \
     workflows need";

/// Queries data sources. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Drivers {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    secrets: Arc<dyn Secrets>,
    files: sqlite::SqliteFiles,
    pools: Mutex<HashMap<(WorkspaceId, String), Arc<Pool>>>,
}

/// A query with its source, its arguments and its limits.
#[derive(Clone, Copy)]
pub struct QueryRequest<'a> {
    pub workspace: WorkspaceId,
    pub source: &'a Source,
    pub query: &'a Query,
    /// `{name: value}`.
    pub args: &'a Value,
    /// A limit of rows below the query's own.
    pub max_rows: Option<u32>,
    pub timeout: Duration,
}

impl Drivers {
    /// `folder` is the folder of SQLite files.
    pub fn new(client: Client, secrets: Arc<dyn Secrets>, folder: Option<PathBuf>) -> Self {
        let files = sqlite::SqliteFiles::new(folder);
        Self { inner: Arc::new(Inner { client, secrets, files, pools: Mutex::default() }) }
    }

    /// Queries a source. Dropping the future cancels the query.
    ///
    /// The future is boxed so that this crate compiles the drivers, not each crate that queries.
    pub fn ask<'a>(&'a self, ask: QueryRequest<'a>) -> BoxFuture<'a, Result<QueryResult, Failure>> {
        Box::pin(self.ask_source(ask))
    }

    async fn ask_source(&self, ask: QueryRequest<'_>) -> Result<QueryResult, Failure> {
        let QueryRequest { workspace, source, query, args, max_rows, .. } = ask;
        if let Some(problem) = query.check_source(source).into_iter().next() {
            let hint = problem.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            let message = format!("the query does not fit its source: {}: {}{hint}", problem.path, problem.message);
            return Err(Failure::fatal(QUERY_ERROR, message));
        }
        let values = arguments::settle(query, args)?;
        let (limits, timeout) = (query.limits, query.timeout(ask.timeout));
        let unreadable = |message| Failure::fatal(QUERY_ERROR, message);
        let Inner { client, secrets, files, .. } = &*self.inner;
        match source {
            Source::Postgres(database) => {
                let statement = query.statement(Dialect::Postgres).map_err(unreadable)?;
                let pool = self.pool(workspace, &query.source, database);
                let asked = postgres::DatabaseQuery {
                    workspace,
                    statement: &statement,
                    sql: query.sql.as_deref().unwrap_or_default(),
                    values: &values,
                    writes: !query.read_only && !source.is_read_only(),
                    limits,
                    max_rows,
                    timeout,
                };
                postgres::ask(&pool, &**secrets, client.guard(), &asked).await
            }
            Source::Sqlite(file) => {
                let statement = query.statement(Dialect::Sqlite).map_err(unreadable)?;
                let bound = sqlite::bind(&statement.names, &values)?;
                files.ask(workspace, file, sqlite::FileQuery { statement, bound, limits, max_rows }, timeout).await
            }
            Source::Http(service) => {
                let Some(request) = &query.http else { return Err(unreadable("the query has no request".to_owned())) };
                let asked = http::ServiceQuery { workspace, request, values: &values, limits, max_rows, timeout };
                http::ask(service, client, &**secrets, &asked).await
            }
        }
    }

    /// Whether a source can be reached and accepts the credentials.
    pub fn test<'a>(&'a self, workspace: WorkspaceId, source: &'a Source) -> BoxFuture<'a, SourceTest> {
        Box::pin(self.test_source(workspace, source))
    }

    async fn test_source(&self, workspace: WorkspaceId, source: &Source) -> SourceTest {
        let begin = Instant::now();
        let Inner { client, secrets, files, .. } = &*self.inner;
        let tested = tokio::time::timeout(TEST_TIMEOUT, async {
            match source {
                Source::Postgres(database) => {
                    let (version, is_superuser) =
                        postgres::test(database, workspace, &**secrets, client.guard()).await?;
                    let message = match is_superuser {
                        true => SUPERUSER_MESSAGE,
                        false => "the database accepts the connection",
                    };
                    Ok((message.to_owned(), Some(version)))
                }
                Source::Sqlite(file) => {
                    let version = files.test(workspace, file, TEST_TIMEOUT).await?;
                    Ok(("the file is a database".to_owned(), Some(version)))
                }
                Source::Http(service) => {
                    let message = http::test(service, client, workspace, &**secrets, TEST_TIMEOUT).await?;
                    Ok((message, None))
                }
            }
        });
        let tested = tested.await.unwrap_or_else(|_| {
            Err(Failure::transient(QUERY_ERROR, format!("no response within {} s", TEST_TIMEOUT.as_secs())))
        });
        let latency_ms = begin.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        match tested {
            Ok((message, server_version)) => SourceTest { ok: true, message, server_version, latency_ms },
            Err(failure) => SourceTest { ok: false, message: failure.to_string(), server_version: None, latency_ms },
        }
    }

    /// The connections of a source with its present configuration.
    fn pool(&self, workspace: WorkspaceId, name: &str, source: &PostgresSource) -> Arc<Pool> {
        let mut pools = self.inner.pools.lock().expect("no holder of the lock panics");
        let key = (workspace, name.to_owned());
        if let Some(pool) = pools.get(&key).filter(|pool| pool.is_of(source)) {
            return Arc::clone(pool);
        }
        // Pools without users and without open connections are removed.
        pools.retain(|_, pool| Arc::strong_count(pool) > 1 || pool.has_connections());
        let pool = Pool::new(source.clone());
        pools.insert(key, Arc::clone(&pool));
        pool
    }
}
