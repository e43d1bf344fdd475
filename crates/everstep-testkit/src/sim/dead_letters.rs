//! The port of dead letters behind the simulated wire.

use async_trait::async_trait;
use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::ids::{DeadLetterId, NodeId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_store::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterQuery, DeadLetterResult, DeadLetterRetention,
    DeadLetterRow, DeadLetterStore, Result, TakenLetters,
};

use super::wire::SimStore;

#[async_trait]
impl DeadLetterStore for SimStore {
    async fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        let query = query.clone();
        self.call("list_letters", move |db| db.list_letters(workspace, &query)).await
    }

    async fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>> {
        self.call("letter", move |db| db.letter(workspace, id)).await
    }

    async fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64> {
        let filter = filter.clone();
        self.call("count_letters", move |db| db.count_letters(workspace, &filter, limit)).await
    }

    async fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        self.call("count_dead_letters", move |db| db.count_dead_letters()).await
    }

    async fn queue_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        let filter = filter.clone();
        self.call("queue_letters", move |db| db.queue_letters(workspace, &filter, now, limit)).await
    }

    async fn discard_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        let (filter, reason) = (filter.clone(), reason.map(str::to_owned));
        let discard = move |db: &mut everstep_store::sqlite::Database| {
            db.discard_letters(workspace, &filter, reason.as_deref(), now, limit)
        };
        self.call("discard_letters", discard).await
    }

    async fn take_letters(&self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters> {
        let claim = claim.clone();
        self.call("take_letters", move |db| db.take_letters(node, &claim)).await
    }

    async fn settle_letters(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        let results = results.to_vec();
        self.call("settle_letters", move |db| db.settle_letters(node, &results)).await
    }

    async fn sweep_letters(&self, retention: DeadLetterRetention, limit: usize) -> Result<usize> {
        self.call("sweep_letters", move |db| db.sweep_letters(retention, limit)).await
    }
}
