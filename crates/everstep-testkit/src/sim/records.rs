//! The port of records: the real SQL behind the simulated wire.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_store::{
    AppliedBatch, ChangePage, ChangeQuery, Error, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, RecordStore,
    Result,
};

use super::wire::SimStore;

#[async_trait]
impl RecordStore for SimStore {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        let ops: Arc<[Op]> = ops.into();
        self.call("apply", move |db| db.apply_ops(&ops, now, kept_until)).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        let keys = keys.to_vec();
        self.call("get", move |db| db.get_records(&keys)).await
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        let query = query.clone();
        self.call("list", move |db| db.list_records(workspace, &query, now)).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        let query = query.clone();
        self.call("links", move |db| db.list_links(workspace, &query)).await
    }

    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        let query = query.clone();
        self.call("namespaces", move |db| db.list_namespaces(workspace, &query)).await
    }

    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        let query = query.clone();
        self.call("changes", move |db| db.list_changes(workspace, &query)).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        self.call("expired", move |db| db.expired_records(now, limit)).await
    }

    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.call("sweep_changes", move |db| db.sweep_changes(now, limit)).await
    }
}
