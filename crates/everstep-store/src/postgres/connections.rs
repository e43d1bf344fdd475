//! Connections: a pool of them, each lent for one call and closed when the call does not end well.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{ManagerConfig, Object, Pool, RecyclingMethod};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::Failure;
use super::queries::{Param, Query};
use super::store::Options;
use super::url::Address;
use crate::error::{Error, Result};

/// How often a statement is sent again because others were in its way.
const TRIES: usize = 20;
/// Every statement is written for one plan: nested loops over indexes. What the planner guesses about arrays and
/// about tables that were empty when it was asked must not lead it elsewhere, and planning costs as much as writing.
const PLANS: &str = "-c jit=off -c plan_cache_mode=force_generic_plan \
    -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off";

pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
    is_pooled: bool,
    call_timeout: Duration,
    calls: AtomicU64,
}

impl Connections {
    pub(super) fn new(address: &Address, options: &Options) -> Result<Self> {
        let mut config = address.config.clone();
        config.connect_timeout(options.connect_timeout);
        config
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        config.tcp_user_timeout(options.call_timeout.max(Duration::from_secs(5)));
        if config.get_application_name().is_none() {
            config.application_name("everstep");
        }
        // A pooler shares connections between clients: nothing may be set that another would find.
        if !options.pooled {
            let limit = options.call_timeout.as_millis();
            let theirs = config.get_options().unwrap_or_default();
            let options =
                format!("{PLANS} -c statement_timeout={limit} -c idle_in_transaction_session_timeout={limit} {theirs}");
            config.options(options.trim_end());
        }
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = deadpool_postgres::Manager::from_config(config, address.tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(options.connections.max(2))
            .build()
            .map_err(|error| Error::Unusable(format!("no pool of connections can be made: {error}")))?;
        Ok(Self {
            pool,
            tls: address.tls.clone(),
            is_pooled: options.pooled,
            call_timeout: options.call_timeout,
            calls: AtomicU64::new(0),
        })
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
        Ok(Connection {
            object: Some(object),
            home: self,
            deadline,
            limit,
            unanswered: AtomicUsize::new(0),
            is_spoilt: AtomicBool::new(false),
        })
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

/// A connection that is lent for one call.
///
/// It goes back to the pool only when every statement was answered and no transaction is open; otherwise
/// (an error of the wire, no answer in time, a caller that has gone) it is closed.
pub(super) struct Connection<'a> {
    object: Option<Object>,
    home: &'a Connections,
    deadline: Instant,
    limit: Duration,
    unanswered: AtomicUsize,
    is_spoilt: AtomicBool,
}

impl Connection<'_> {
    pub(super) async fn query(&self, query: &Query, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let params = query.bind(params);
        let client = self.client();
        self.within_time(async {
            if self.home.is_pooled {
                return client.query_typed(&query.sql, &params).await;
            }
            let (values, types): (Vec<_>, Vec<_>) = params.into_iter().unzip();
            let statement = client.prepare_typed_cached(&query.sql, &types).await?;
            client.query(&statement, &values).await
        })
        .await
    }

    pub(super) async fn execute(&self, query: &Query, params: &[Param<'_>]) -> Result<u64, Failure> {
        let params = query.bind(params);
        let client = self.client();
        self.within_time(async {
            if self.home.is_pooled {
                return client.execute_typed(&query.sql, &params).await;
            }
            let (values, types): (Vec<_>, Vec<_>) = params.into_iter().unzip();
            let statement = client.prepare_typed_cached(&query.sql, &types).await?;
            client.execute(&statement, &values).await
        })
        .await
    }

    /// Does statements that have no parameters and no rows: definitions of tables.
    pub(super) async fn define(&self, sql: &str) -> Result<(), Failure> {
        self.within_time(self.client().batch_execute(sql)).await
    }

    /// Begins a transaction. Unless it is committed, the connection is closed, and nothing was done.
    pub(super) async fn begin(&self, how: &str) -> Result<(), Failure> {
        self.is_spoilt.store(true, Ordering::Relaxed);
        self.define(how).await
    }

    pub(super) async fn commit(&self) -> Result<(), Failure> {
        self.define("commit").await?;
        self.is_spoilt.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn client(&self) -> &Object {
        self.object.as_ref().expect("it is lent until it is dropped")
    }

    async fn within_time<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        self.home.calls.fetch_add(1, Ordering::Relaxed);
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let result = match timeout_at(self.deadline, answer).await {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => Err(Failure::Late(self.limit)),
        };
        match &result {
            Err(Failure::Late(_)) => self.cancel(),
            Err(failure) if failure.spoils_connection() => self.is_spoilt.store(true, Ordering::Relaxed),
            _ => {}
        }
        if !matches!(result, Err(Failure::Late(_))) {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Asks the server to stop what this connection waits for. What we hold locked is then free again.
    fn cancel(&self) {
        let (token, tls, limit) = (self.client().cancel_token(), self.home.tls.clone(), self.home.call_timeout);
        tokio::spawn(async move {
            if let Ok(Err(error)) = tokio::time::timeout(limit, token.cancel_query(tls)).await {
                tracing::debug!(%error, "a late statement could not be cancelled");
            }
        });
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let is_clean = *self.unanswered.get_mut() == 0 && !*self.is_spoilt.get_mut();
        if let Some(object) = self.object.take().filter(|_| !is_clean) {
            drop(Object::take(object));
        }
    }
}
