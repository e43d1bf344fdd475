//! The port: selects the thread that writes or one of those that read.
//!
//! The writer thread executes calls in the order of their arrival. The committer has one batch of items in flight, and
//! the record writer has one batch of ops: so the two alternate, and neither waits for more than one batch of the other.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{Author, LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::ports::RecordStore;
use crate::records::{AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey};
use crate::sqlite::disk::Purpose;
use crate::sqlite::store::SqliteStore;

/// A change counts as so many rows of a sweep: it is in two trees.
const ROWS_OF_CHANGE: usize = 2;

#[async_trait]
impl RecordStore for SqliteStore {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        // Ops of runs and of the sweeper are accepted work.
        let is_accepted = |op: &Op| op.author.run.is_some() || op.author == Author::system();
        let purpose = if ops.iter().all(is_accepted) { Purpose::AcceptedWork } else { Purpose::NewWork };
        let ops = ops.to_vec();
        self.write_for(purpose, move |database| database.apply_ops(&ops, now, kept_until)).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        let keys = keys.to_vec();
        self.read(move |database| database.get_records(&keys)).await
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        let query = query.clone();
        self.read(move |database| database.list_records(workspace, &query, now)).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        let query = query.clone();
        self.read(move |database| database.list_links(workspace, &query)).await
    }

    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        let query = query.clone();
        self.read(move |database| database.list_namespaces(workspace, &query)).await
    }

    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        let query = query.clone();
        self.read(move |database| database.list_changes(workspace, &query)).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        self.read(move |database| database.expired_records(now, limit)).await
    }

    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.sweep_all(limit, ROWS_OF_CHANGE, move |database, batch| database.sweep_changes(now, batch)).await
    }
}
