//! The port of records: the real SQL behind the simulated wire.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, OpAction, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_store::{
    AppliedBatch, ChangePage, ChangeQuery, Error, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, RecordStore,
    Result,
};

use super::store::POISON;
use super::wire::SimStore;

/// Whether the database rejects the data of an op.
fn has_poison(op: &Op) -> bool {
    matches!(&op.action, OpAction::Set(set) if set.value.json().contains(POISON))
}

impl SimStore {
    /// Ops of runs are not sent by a node whose lease has nearly expired.
    fn watch_lease(&self, ops: &[Op]) {
        if ops.iter().all(|op| op.author.run.is_none()) {
            return;
        }
        let now = self.executor.now();
        let mut ledger = self.ledger();
        let (silence, is_late) = ledger.silence(self.machine, now);
        if is_late {
            let text = format!("ops are sent by server {} {} ms after a heartbeat", self.machine, silence.as_millis());
            ledger.violation(text);
        }
    }

    fn note_ops(&self, ops: &[Op], applied: &AppliedBatch) {
        for (op, outcome) in ops.iter().zip(&applied.outcomes) {
            self.executor.note(|| {
                let (key, verb) = (&op.key, op.action.verb().as_str());
                match outcome {
                    Ok(output) => format!("server {}: {verb} {key}: {}", self.machine, output.json()),
                    Err(failure) => format!("server {}: {verb} {key}: {failure}", self.machine),
                }
            });
        }
    }
}

#[async_trait]
impl RecordStore for SimStore {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        if ops.iter().any(has_poison) {
            return Err(Error::Refused("the data is rejected".to_owned()));
        }
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        self.watch_lease(ops);
        let (store, ops): (_, Arc<[Op]>) = (self.clone(), ops.into());
        self.call("apply", move |db| {
            let applied = db.apply_ops(&ops, now, kept_until)?;
            store.note_ops(&ops, &applied);
            Ok(applied)
        })
        .await
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
