//! The port: the verbs that are one statement are here, the others in the files beside this one.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;

use super::rows;
use crate::error::{Error, Result};
use crate::ports::RecordStore;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::records::{
    AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, TriedBatch,
};
use crate::retention::CHANGE_POSTPONEMENT;
use crate::{numbers, texts};

/// A change counts as so many rows of a sweep: it is in two indexes.
const ROWS_OF_CHANGE: usize = 2;

#[async_trait]
impl RecordStore for PostgresStore {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        self.apply_ops(ops, now, kept_until).await
    }

    async fn try_apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<TriedBatch> {
        self.apply_once(ops, now, kept_until).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        let mut records = vec![None; keys.len()];
        // A key with a NUL was never stored, and cannot be sent.
        let sent: Vec<_> = (0..keys.len())
            .filter(|index| !texts::has_nul(&keys[*index].namespace) && !texts::has_nul(&keys[*index].key))
            .collect();
        let sent_keys = || sent.iter().map(|index| &keys[*index]);
        let found = self
            .connections
            .query(
                query!("records/get"),
                params! {
                    "workspaces": sent_keys().map(|key| key.workspace.uuid()).collect::<Vec<_>>(),
                    "namespaces": sent_keys().map(|key| key.namespace.as_str()).collect::<Vec<_>>(),
                    "keys": sent_keys().map(|key| key.key.as_str()).collect::<Vec<_>>(),
                },
            )
            .await?;
        for row in &found {
            let place = numbers::size(columns::get(row, 13)?);
            let index = place.checked_sub(1).and_then(|place| sent.get(place));
            let index = *index.ok_or_else(|| Error::Corrupt("a record without a place".to_owned()))?;
            records[index] = Some(rows::record_from_row(row)?);
        }
        Ok(records)
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        self.list_records(workspace, query, now).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        self.list_links(workspace, query).await
    }

    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        self.list_namespaces(workspace, query).await
    }

    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        self.list_changes(workspace, query).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        let (now, limit) = (now.micros(), numbers::clamp_limit(limit));
        let found = self.connections.query(query!("records/expired"), params! { "now": now, "limit": limit }).await?;
        let expired = found.iter().map(|row| {
            let key = RecordKey {
                workspace: WorkspaceId::from_uuid(columns::get(row, 0)?),
                namespace: columns::get(row, 1)?,
                key: columns::get(row, 2)?,
            };
            Ok(ExpiredRecord { key, change: columns::seq(row, 3)? })
        });
        expired.collect()
    }

    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let (now, later) = (now.micros(), now.plus(CHANGE_POSTPONEMENT).micros());
        let params = params! { "now": now, "later": later };
        self.sweep_all(limit, ROWS_OF_CHANGE, query!("records/sweep_changes"), params).await
    }
}
