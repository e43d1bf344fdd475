//! The port through which the handlers of steps use records and links.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::records::{
    LinkPage, LinkQuery, NamespaceCountPage, NamespaceFilter, NamespacesRequest, NewOp, Record, RecordPage, RecordQuery,
};
use everstep_store::{NamespaceQuery, RecordKey};

use super::handle::Records;
use crate::error::Error;

const READ_DELAY_MIN: Duration = Duration::from_millis(20);
const READ_DELAY_MAX: Duration = Duration::from_secs(1);

#[async_trait]
impl everstep_handlers::Records for Records {
    async fn apply(&self, op: NewOp) -> Result<Payload, Failure> {
        match Self::apply(self, op).await {
            Ok(outcome) => Ok(outcome?),
            Err(error) => Err(fail(error).await),
        }
    }

    async fn get(&self, workspace: WorkspaceId, namespace: &str, key: &str) -> Result<Option<Record>, Failure> {
        let key = RecordKey { workspace, namespace: namespace.to_owned(), key: key.to_owned() };
        match self.get_by_key(key, true).await {
            Ok(record) => Ok(record),
            Err(error) => Err(fail(error).await),
        }
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery) -> Result<RecordPage, Failure> {
        self.read(|| self.store().list(workspace, query, self.now())).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage, Failure> {
        self.read(|| self.store().links(workspace, query)).await
    }

    async fn namespaces(
        &self,
        workspace: WorkspaceId,
        filter: NamespaceFilter,
        request: &NamespacesRequest,
    ) -> Result<NamespaceCountPage, Failure> {
        let query = NamespaceQuery { name: None, filter, after: request.after()?, limit: request.limit };
        let page = self.read(|| self.store().namespaces(workspace, &query)).await?;
        let namespaces = page.namespaces.into_iter().map(|row| (row.name, row.counts)).collect();
        Ok(NamespaceCountPage { namespaces, next: page.next })
    }
}

impl Records {
    /// Reads for a step. While the database is unavailable, the step waits, as its run does.
    async fn read<T, F>(&self, read: impl Fn() -> F + Send + Sync) -> Result<T, Failure>
    where
        F: Future<Output = everstep_store::Result<T>> + Send,
    {
        let mut delay = READ_DELAY_MIN;
        loop {
            match read().await {
                Ok(page) => return Ok(page),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "records could not be read; reading them again");
                    self.clock().sleep(delay).await;
                    delay = (delay * 2).min(READ_DELAY_MAX);
                }
                Err(error) => return Err(fail(error.into()).await),
            }
        }
    }
}

/// The failure of a step whose op or read was not carried out.
async fn fail(error: Error) -> Failure {
    if matches!(error, Error::Stopping | Error::Unanswered) {
        // The step has neither failed nor completed: the next owner of the run performs it.
        std::future::pending::<()>().await;
    }
    Failure::transient(error.code(), error.to_string())
}
