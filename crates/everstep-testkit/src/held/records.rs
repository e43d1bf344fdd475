//! A store of records whose ops wait for a gate.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_store::{
    AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, RecordStore, Result,
};

use super::gate::StoreGate;

/// Applies no ops before its gate is open.
pub(super) struct HeldRecords {
    pub(super) store: Arc<dyn RecordStore>,
    pub(super) gate: Arc<StoreGate>,
}

#[async_trait]
impl RecordStore for HeldRecords {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        self.gate.pass().await;
        self.store.apply(ops, now, kept_until).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        self.store.get(keys).await
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        self.store.list(workspace, query, now).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        self.store.links(workspace, query).await
    }

    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        self.store.namespaces(workspace, query).await
    }

    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        self.store.changes(workspace, query).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        self.store.expired(now, limit).await
    }

    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.store.sweep_changes(now, limit).await
    }
}
