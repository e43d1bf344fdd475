//! The port of dead letters.

use async_trait::async_trait;
use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::ids::{DeadLetterId, NodeId, WorkspaceId};
use everstep_core::time::Timestamp;

use crate::dead_letters::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterQuery, DeadLetterResult, DeadLetterRetention,
    DeadLetterRow, TakenLetters,
};
use crate::error::Result;

/// Dead letters are written with an item ([`crate::SideWrites::dead_letters`]) or with a slice of a fan-out.
///
/// Every promise here is proved by `everstep_testkit::contract::dead_letters`.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Dead letters, newest first. Paging is by keyset. The configs are left out.
    async fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>>;

    async fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>>;

    /// The number of dead letters with a filter and the status `dead`, counted to a limit.
    async fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64>;

    /// The number of dead letters with the status `dead`, by source; of all workspaces.
    async fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>>;

    /// Queues at most `limit` dead letters with a filter, oldest first. Only those with the status `dead` are queued.
    ///
    /// A caller that continues after the last one ([`DeadLetterFilter::after`]) queues none of them twice.
    async fn queue_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters>;

    /// Discards at most `limit` dead letters with a filter, oldest first. Only those with the status `dead` are
    /// discarded.
    async fn discard_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters>;

    /// Takes queued dead letters in the order in which they were queued, and notices to be sent.
    ///
    /// * No two live nodes take the same one. Those of a node that is fenced are taken by another.
    /// * Nothing is taken if `node` is not a live member ([`crate::Error::Fenced`]).
    /// * After an error the outcome is unknown; the next call returns what this one has taken.
    async fn take_letters(&self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters>;

    /// Writes the ends of what a node has taken, each unless another node has taken it since.
    ///
    /// After an error the outcome is unknown; the same results may be sent again.
    async fn settle_letters(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()>;

    /// Deletes at most `limit` dead letters that are no longer kept. Queued ones are always kept. Returns their number.
    async fn sweep_letters(&self, retention: DeadLetterRetention, limit: usize) -> Result<usize>;
}
