//! Connections: a pool of them, and what is set on each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{ManagerConfig, Pool, RecyclingMethod};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::errors::Failure;
use super::queries::{Param, Query};
use super::store::Options;
use super::url::Address;
use crate::error::{Error, Result};

/// How often a statement is sent again because others were in its way.
const TRIES: usize = 20;
/// Every statement is written for one plan: nested loops over indexes. What the planner guesses about arrays and
/// about tables that were empty when it was asked must not lead it elsewhere, and planning costs as much as writing.
const PLANS: [(&str, &str); 5] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];
/// Set on every connection to no effect: it tells whether anybody in between leaves such settings out.
const DIRECT: &str = "-c everstep.is_direct=on";
/// The driver's own, when a URL says nothing else.
const IDLE_FOR_HOURS: Duration = Duration::from_secs(2 * 60 * 60);

pub(super) struct Connections {
    pool: Pool,
    pub(super) tls: MakeRustlsConnect,
    /// Behind a pooler: what a transaction begins with, so that nothing stays set on a connection that others use.
    pub(super) local: Option<String>,
    pub(super) call_timeout: Duration,
    pub(super) calls: AtomicU64,
}

impl Connections {
    pub(super) fn new(address: &Address, options: &Options, most: usize) -> Result<Self> {
        let config = configure(address.config.clone(), options);
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = deadpool_postgres::Manager::from_config(config, address.tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(most)
            .build()
            .map_err(|error| Error::Unusable(format!("no pool of connections can be made: {error}")))?;
        Ok(Self {
            pool,
            tls: address.tls.clone(),
            local: options.pooled.then(|| set_locally(options)),
            call_timeout: options.call_timeout,
            calls: AtomicU64::new(0),
        })
    }

    /// Whether nothing is set on a connection, because a pooler shares it with others.
    pub(super) fn is_pooled(&self) -> bool {
        self.local.is_some()
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Lends a connection for one call, which begins now.
    pub(super) async fn get(&self) -> Result<Connection<'_>, Failure> {
        self.get_for(self.call_timeout).await
    }

    /// Lends a connection for a call that may take longer or must be shorter than most.
    pub(super) async fn get_for(&self, limit: Duration) -> Result<Connection<'_>, Failure> {
        let deadline = Instant::now() + limit;
        let object = timeout_at(deadline, self.pool.get()).await.map_err(|_| Failure::Late(limit))??;
        Ok(Connection::new(object, self, deadline, limit))
    }

    /// Closes the connections that nobody uses just now. One has fallen silent: the others may have as well.
    pub(super) fn close_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Does one statement, on any connection. Returns its rows.
    pub(super) async fn query(&self, query: &Query, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let mut tries = 0;
        loop {
            match self.get().await?.query(query, params).await {
                Err(failure) if failure.is_to_be_resent() && tries < TRIES => tries += 1,
                result => return Ok(result?),
            }
        }
    }

    /// Does one statement, on any connection. Returns its only row, if it has one.
    pub(super) async fn query_opt(&self, query: &Query, params: &[Param<'_>]) -> Result<Option<Row>> {
        Ok(self.query(query, params).await?.into_iter().next())
    }

    /// Does one statement that always has a row.
    pub(super) async fn query_one(&self, query: &Query, params: &[Param<'_>]) -> Result<Row> {
        Ok(self.query_opt(query, params).await?.expect("the statement always returns a row"))
    }

    /// Does one statement, on any connection. Returns how many rows it changed.
    pub(super) async fn execute(&self, query: &Query, params: &[Param<'_>]) -> Result<u64> {
        let mut tries = 0;
        loop {
            match self.get().await?.execute(query, params).await {
                Err(failure) if failure.is_to_be_resent() && tries < TRIES => tries += 1,
                result => return Ok(result?),
            }
        }
    }
}

/// What a URL leaves open.
fn configure(mut config: Config, options: &Options) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.connect_timeout);
    }
    if config.get_keepalives_idle() == IDLE_FOR_HOURS {
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
        config.options(ours.chain([DIRECT.to_owned()]).chain(theirs).collect::<Vec<_>>().join(" "));
    }
    config
}

fn set_locally(options: &Options) -> String {
    let settings = settings(options).into_iter().map(|(name, value)| format!("; set local {name} = '{value}'"));
    settings.collect()
}

fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let limit = options.call_timeout.as_millis();
    let plans = PLANS.into_iter().map(|(name, value)| (name, value.to_owned()));
    let limits = ["statement_timeout", "idle_in_transaction_session_timeout"].map(|name| (name, limit.to_string()));
    plans.chain(limits).collect()
}
