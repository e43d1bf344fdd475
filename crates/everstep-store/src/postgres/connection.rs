//! A connection that is lent for one call, and closed if the call fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::connections::Connections;
use super::errors::StatementError;
use super::queries::{Param, Query};
use crate::error::Result;

/// It returns to the pool only if every statement was answered and no transaction is open; otherwise (a network error,
/// a timeout, a cancelled call) it is closed.
pub(super) struct Connection<'a> {
    object: Option<Object>,
    home: &'a Connections,
    deadline: Instant,
    limit: Duration,
    unanswered: AtomicUsize,
    in_transaction: AtomicBool,
    is_broken: AtomicBool,
}

impl<'a> Connection<'a> {
    pub(super) fn new(object: Object, home: &'a Connections, deadline: Instant, limit: Duration) -> Self {
        Self {
            object: Some(object),
            home,
            deadline,
            limit,
            unanswered: AtomicUsize::new(0),
            in_transaction: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }
    }

    pub(super) async fn query(&self, query: &Query, params: &[Param<'_>]) -> Result<Vec<Row>, StatementError> {
        let (client, params) = (self.client(), query.bind(params));
        self.answered(async {
            if self.home.local.is_some() {
                return self.in_own_transaction(client.query_typed(&query.sql, &params)).await;
            }
            let (values, types): (Vec<_>, Vec<_>) = params.into_iter().unzip();
            let statement = client.prepare_typed_cached(&query.sql, &types).await?;
            client.query(&statement, &values).await
        })
        .await
    }

    pub(super) async fn execute(&self, query: &Query, params: &[Param<'_>]) -> Result<u64, StatementError> {
        let (client, params) = (self.client(), query.bind(params));
        self.answered(async {
            if self.home.local.is_some() {
                return self.in_own_transaction(client.execute_typed(&query.sql, &params)).await;
            }
            let (values, types): (Vec<_>, Vec<_>) = params.into_iter().unzip();
            let statement = client.prepare_typed_cached(&query.sql, &types).await?;
            client.execute(&statement, &values).await
        })
        .await
    }

    /// Executes statements without parameters and rows: definitions of tables.
    pub(super) async fn define(&self, sql: &str) -> Result<(), StatementError> {
        self.answered(self.client().batch_execute(sql)).await
    }

    /// Begins a transaction. Unless it is committed, the connection is closed and the transaction has no effect.
    pub(super) async fn begin(&self, how: &str) -> Result<(), StatementError> {
        self.in_transaction.store(true, Ordering::Relaxed);
        match &self.home.local {
            Some(local) => self.define(&format!("{how}{local}")).await,
            None => self.define(how).await,
        }
    }

    pub(super) async fn commit(&self) -> Result<(), StatementError> {
        self.define("commit").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn rollback(&self) -> Result<(), StatementError> {
        self.define("rollback").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Executes a statement behind a pooler in a separate transaction, which begins with the settings. The three
    /// messages are sent together and take one round trip.
    async fn in_own_transaction<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        if self.in_transaction.load(Ordering::Relaxed) {
            return statement.await;
        }
        let (client, local) = (self.client(), self.home.local.as_deref().unwrap_or_default());
        let begin = format!("begin{local}");
        let (begun, result, committed) =
            future::join3(client.batch_execute(&begin), statement, client.batch_execute("commit")).await;
        begun?;
        // After a failed statement, the commit is a rollback.
        let answer = result?;
        committed?;
        Ok(answer)
    }

    fn client(&self) -> &Object {
        self.object.as_ref().expect("the connection is lent until it is dropped")
    }

    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StatementError> {
        self.home.calls.fetch_add(1, Ordering::Relaxed);
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let Ok(result) = timeout_at(self.deadline, answer).await else {
            self.cancel();
            self.home.close_idle();
            return Err(StatementError::Late(self.limit));
        };
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        let result = result.map_err(StatementError::from);
        if let Err(failure) = &result {
            self.home.full.note(failure);
            if failure.breaks_connection() {
                self.is_broken.store(true, Ordering::Relaxed);
            }
        }
        result
    }

    /// Asks the server to cancel the running statement, so that its locks are released.
    fn cancel(&self) {
        let (token, tls, limit) = (self.client().cancel_token(), self.home.tls.clone(), self.home.call_timeout);
        tokio::spawn(async move {
            if let Ok(Err(error)) = tokio::time::timeout(limit, token.cancel_query(tls)).await {
                tracing::debug!(%error, "a statement that has timed out could not be cancelled");
            }
        });
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let is_open = *self.unanswered.get_mut() > 0 || *self.in_transaction.get_mut();
        if let Some(object) = self.object.take().filter(|_| is_open || *self.is_broken.get_mut()) {
            drop(Object::take(object));
        }
    }
}
