//! The port of records and links: data of a workspace that outlives its runs.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::records::{
    AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, TriedBatch,
};

/// The rules of ops and pages are in [`everstep_core::records`]; a database reads what an op touches and writes its
/// changes. Every promise here is proved by `everstep_testkit::contract::records`.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Applies ops that were checked, in their order, as [`everstep_core::records::fold`] defines it.
    ///
    /// * Each op has an answer of its own. It is applied completely or not at all, and its failure affects no other op.
    /// * An op whose key is known returns the output that was stored with its first change.
    /// * The namespace of an op is its gate: of two nodes that write to one namespace at the same time, one writes
    ///   first, and the other folds its ops again over the new state.
    /// * `now` is the time of the ops; `kept_until` is when their changes may be deleted.
    /// * After an error, some ops may have been applied. The same ops may be sent again: those that were applied return
    ///   their output. After `Refused` and `Full`, nothing was written for the op that caused it.
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch>;

    /// Applies ops as [`Self::apply`] does, and does not fold them again: an op is left without an answer if another node
    /// has written to its namespace since it was read. It was not applied. The record writer sends it again together
    /// with the ops that have arrived since.
    async fn try_apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<TriedBatch> {
        Ok(self.apply(ops, now, kept_until).await?.into())
    }

    /// The records with these keys, in their order, each with its value; also expired ones that are not yet deleted.
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>>;

    /// A page of the records of a namespace, by key in the order of bytes. Paging is by keyset: records that are added
    /// do not shift later pages.
    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage>;

    /// A page of links, by keyset.
    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage>;

    /// A page of namespaces by name, without those that are empty; or one namespace.
    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage>;

    /// A page of the changes of a namespace, oldest first. Changes that were deleted by a sweep are missing.
    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage>;

    /// At most `limit` records of all workspaces that have expired at `now`, those that expired first.
    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>>;

    /// Deletes changes that are no longer kept at `now`. The changes of a run that exists are kept for another day.
    /// Returns the number of changes that were deleted or kept, at most `limit`.
    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize>;
}
