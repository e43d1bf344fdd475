//! The port of access: settings, API keys, workspaces and the audit.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::access::{AuditFilter, AuditRow, KeyOutcome, KeyRow, WorkspaceRow};
use crate::error::Result;

/// Every promise here is proved by `everstep_testkit::contract::access`.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// A setting that all nodes share. The first call stores its `default`; later calls return the stored value.
    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>>;

    /// Adds an API key ([`crate::Error::Refused`] if its id or its hash exists).
    async fn add_key(&self, key: &KeyRow) -> Result<()>;

    /// Adds an API key as `add_key` does, if the workspace has fewer keys than the quota. The key counts from its
    /// creation time on: see [`AccessStore::count_keys`]. With several nodes the quota may be exceeded by the keys that
    /// other nodes have added within five seconds.
    async fn add_key_within(&self, key: &KeyRow, quota: usize) -> Result<KeyOutcome>;

    /// The number of keys of a workspace that are neither revoked nor expired; keys of one-time links count until they
    /// are deleted.
    async fn count_keys(&self, workspace: WorkspaceId, now: Timestamp) -> Result<u64>;

    /// Adds an API key only if there has never been one. Of two calls at the same time, one adds its key.
    async fn add_first_key(&self, key: &KeyRow) -> Result<bool>;

    /// The key with a hash, unless it was revoked.
    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>>;

    /// The keys of a workspace, oldest first, including revoked ones.
    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>>;

    /// Revokes a key. A key that was revoked before keeps its time. `None`: no such key exists.
    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>>;

    /// Adds a workspace. `false`: its id or its name exists. The workspace `default` always exists.
    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool>;

    /// Replaces the options of a workspace. `false`: no such workspace exists.
    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool>;

    /// All workspaces, by name.
    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>>;

    /// Adds rows to the audit, all or none. An existing row does not change.
    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()>;

    /// At most `limit` rows of the audit, newest first, before the row `before`.
    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>>;
}
