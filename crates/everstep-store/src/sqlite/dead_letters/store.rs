//! The port: selects the thread that writes or one of those that read.

use async_trait::async_trait;
use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::ids::{DeadLetterId, NodeId, WorkspaceId};
use everstep_core::time::Timestamp;

use crate::dead_letters::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterQuery, DeadLetterResult, DeadLetterRetention,
    DeadLetterRow, TakenLetters,
};
use crate::error::Result;
use crate::ports::DeadLetterStore;
use crate::sqlite::database::Database;
use crate::sqlite::disk::Purpose;
use crate::sqlite::store::SqliteStore;

/// A dead letter counts as so many rows of a sweep: it is in several indexes.
const ROWS_OF_LETTER: usize = 4;

#[async_trait]
impl DeadLetterStore for SqliteStore {
    async fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        let query = query.clone();
        self.read(move |database| database.list_letters(workspace, &query)).await
    }

    async fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>> {
        self.read(move |database| database.letter(workspace, id)).await
    }

    async fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64> {
        let filter = filter.clone();
        self.read(move |database| database.count_letters(workspace, &filter, limit)).await
    }

    async fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        self.read(Database::count_dead_letters).await
    }

    async fn queue_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        let filter = filter.clone();
        self.write_for(Purpose::NewWork, move |database| database.queue_letters(workspace, &filter, now, limit)).await
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
        self.write(move |database| database.discard_letters(workspace, &filter, reason.as_deref(), now, limit)).await
    }

    async fn take_letters(&self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters> {
        let claim = claim.clone();
        self.write_for(Purpose::AcceptedWork, move |database| database.take_letters(node, &claim)).await
    }

    async fn settle_letters(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        let results = results.to_vec();
        self.write(move |database| database.settle_letters(node, &results)).await
    }

    async fn sweep_letters(&self, retention: DeadLetterRetention, limit: usize) -> Result<usize> {
        self.sweep_all(limit, ROWS_OF_LETTER, move |database, batch| database.sweep_letters(retention, batch)).await
    }
}
