//! The pool of connections, and their settings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{ManagerConfig, Pool, QueueMode, RecyclingMethod};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::disk::FullReport;
use super::errors::StatementError;
use super::queries::{Param, Query};
use super::store::Options;
use super::url::Address;
use crate::error::{Error, Result};

/// How often a statement is sent again after a conflict with another transaction.
const RETRIES_MAX: usize = 20;
/// The calls of a statement of upkeep: its transaction begins, the statement, the commit.
pub(super) const UPKEEP_CALLS: u64 = 3;
/// Every statement is written for one plan: nested loops over indexes. Estimates about arrays, or about tables that
/// were empty when the statement was planned, must not lead to another plan; and planning costs as much as writing. A
/// bitmap scan reads all entries that match and sorts them, and a page needs the first ones.
const PLANNER_SETTINGS: [(&str, &str); 6] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];
/// A setting without effect: the server check reads it to detect a pooler that drops settings of connections.
const DIRECT_SETTING: &str = "-c everstep.is_direct=on";
/// The driver's default, which shows that the URL sets no other.
const KEEPALIVES_IDLE_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) struct Connections {
    pool: Pool,
    pub(super) tls: MakeRustlsConnect,
    /// Behind a pooler: the settings at the beginning of each transaction. They end with it, because other clients
    /// share the connection.
    pub(super) local: Option<String>,
    pub(super) call_timeout: Duration,
    pub(super) calls: AtomicU64,
    /// When the server reported last that its disk is full.
    pub(super) full: FullReport,
}

impl Connections {
    pub(super) fn new(address: &Address, options: &Options, connections_max: usize) -> Result<Self> {
        let config = configure(address.config.clone(), options);
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = deadpool_postgres::Manager::from_config(config, address.tls.clone(), recycling);
        // The pool lends the connection that was returned last. If it lent them in turn, each idle connection would be used
        // rarely: its server process would have to prepare every statement, and its plans and tables would no longer be in
        // the processor's cache.
        let pool = Pool::builder(manager)
            .max_size(connections_max)
            .queue_mode(QueueMode::Lifo)
            .build()
            .map_err(|error| Error::Unusable(format!("the pool of connections cannot be created: {error}")))?;
        Ok(Self {
            pool,
            tls: address.tls.clone(),
            local: options.pooled.then(|| set_locally(options)),
            call_timeout: options.call_timeout,
            calls: AtomicU64::new(0),
            full: FullReport::default(),
        })
    }

    /// Whether connections go through a pooler, so that settings last for one transaction.
    pub(super) fn is_pooled(&self) -> bool {
        self.local.is_some()
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Lends a connection for one call, which begins now.
    pub(super) async fn get(&self) -> Result<Connection<'_>, StatementError> {
        self.get_for(self.call_timeout).await
    }

    /// Lends a connection for a call with its own time limit.
    pub(super) async fn get_for(&self, limit: Duration) -> Result<Connection<'_>, StatementError> {
        let deadline = Instant::now() + limit;
        let object = timeout_at(deadline, self.pool.get()).await.map_err(|_| StatementError::Late(limit))??;
        Ok(Connection::new(object, self, deadline, limit))
    }

    /// Closes the idle connections. One connection has timed out, so the others may be broken as well.
    pub(super) fn close_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Executes one statement, on any connection. Returns its rows.
    pub(super) async fn query(&self, query: &Query, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let mut retries = 0;
        loop {
            match self.get().await?.query(query, params).await {
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                result => return Ok(result?),
            }
        }
    }

    /// Executes one statement, on any connection. Returns its only row, if it has one.
    pub(super) async fn query_opt(&self, query: &Query, params: &[Param<'_>]) -> Result<Option<Row>> {
        Ok(self.query(query, params).await?.into_iter().next())
    }

    /// Executes one statement that always returns a row.
    pub(super) async fn query_one(&self, query: &Query, params: &[Param<'_>]) -> Result<Row> {
        Ok(self.query_opt(query, params).await?.expect("the statement always returns a row"))
    }

    /// Executes one statement of upkeep, on any connection. The commit does not wait for the disk: it is durable with the
    /// next commit that does; after a crash of the server before that, the statement has had no effect. Returns its only
    /// row, and how long the statement took. It counts as [`UPKEEP_CALLS`].
    pub(super) async fn query_upkeep(&self, query: &Query, params: &[Param<'_>]) -> Result<(Row, Duration)> {
        let mut retries = 0;
        loop {
            match self.try_upkeep(query, params).await {
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                result => return Ok(result?),
            }
        }
    }

    async fn try_upkeep(&self, query: &Query, params: &[Param<'_>]) -> Result<(Row, Duration), StatementError> {
        let connection = self.get().await?;
        connection.begin("begin; set local synchronous_commit = off").await?;
        let begin = Instant::now();
        let rows = connection.query(query, params).await?;
        let took = begin.elapsed();
        connection.commit().await?;
        Ok((rows.into_iter().next().expect("the statement always returns a row"), took))
    }

    /// Executes one statement, on any connection. Returns the number of changed rows.
    pub(super) async fn execute(&self, query: &Query, params: &[Param<'_>]) -> Result<u64> {
        let mut retries = 0;
        loop {
            match self.get().await?.execute(query, params).await {
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                result => return Ok(result?),
            }
        }
    }
}

/// Sets the options that the URL does not set.
fn configure(mut config: Config, options: &Options) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect_timeout);
    }
    if config.get_keepalives_idle() == KEEPALIVES_IDLE_DEFAULT {
        config.keepalives_idle(Duration::from_secs(15));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(options.call_timeout.max(Duration::from_secs(5)));
    }
    if config.get_application_name().is_none() {
        config.application_name("everstep");
    }
    if !options.pooled {
        let ours = settings(options).into_iter().map(|(name, value)| format!("-c {name}={value}"));
        let theirs = config.get_options().map(str::to_owned);
        config.options(ours.chain([DIRECT_SETTING.to_owned()]).chain(theirs).collect::<Vec<_>>().join(" "));
    }
    config
}

fn set_locally(options: &Options) -> String {
    let settings = settings(options).into_iter().map(|(name, value)| format!("; set local {name} = '{value}'"));
    settings.collect()
}

fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let limit = options.call_timeout.as_millis();
    let plans = PLANNER_SETTINGS.into_iter().map(|(name, value)| (name, value.to_owned()));
    let limits = ["statement_timeout", "idle_in_transaction_session_timeout"].map(|name| (name, limit.to_string()));
    plans.chain(limits).collect()
}
