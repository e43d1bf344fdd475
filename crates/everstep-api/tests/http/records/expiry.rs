//! Records that expire while a request deletes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_store::{
    AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, RecordStore, Result,
};
use serde_json::json;

use crate::support::{Server, Setup, WrapRecords};

/// A store whose ops are applied an hour after they were sent, from a moment on.
struct LateRecords {
    store: Arc<dyn RecordStore>,
    is_late: Arc<AtomicBool>,
}

#[async_trait]
impl RecordStore for LateRecords {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        let late = if self.is_late.load(Ordering::SeqCst) { Duration::from_hours(1) } else { Duration::ZERO };
        self.store.apply(ops, now.plus(late), kept_until).await
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

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_emptied_of_records_that_expire_during_the_request() {
    let is_late: Arc<AtomicBool> = Arc::default();
    let records = {
        let is_late = Arc::clone(&is_late);
        let late = move |store| Arc::new(LateRecords { store, is_late }) as Arc<dyn RecordStore>;
        Some(Box::new(late) as WrapRecords)
    };
    let server = Server::launch(Setup { records, ..Setup::default() }).await;
    for n in 0..3 {
        server.put(&format!("/v1/store/brief/{n}"), &json!({"value": n, "ttlSeconds": 600})).await.is(201);
    }
    server.put("/v1/store/brief/lasting", &json!({"value": 1})).await.is(201);
    is_late.store(true, Ordering::SeqCst);
    let emptied = server.delete("/v1/namespaces/brief").await.is(200);
    assert_eq!(emptied, json!({"deleted": 4, "more": false}));
    let left = server.get("/v1/namespaces/brief").await.is(200);
    assert_eq!((&left["keys"], &left["bytes"]), (&json!(0), &json!(0)), "{left}");
}
