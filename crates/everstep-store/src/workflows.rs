//! Versions of workflows, as the store receives and returns them.

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct NewWorkflow {
    pub workspace: WorkspaceId,
    pub name: String,
    pub style: String,
    /// The normalised definition.
    pub definition: Payload,
    /// SHA-256 of the definition, hexadecimal. Empty for a version of code that was only named.
    pub digest: String,
    pub retention_days: u32,
    pub created_at: Timestamp,
    /// Absent if no caller saves it; it then counts as [`Publisher::default`].
    pub publisher: Option<Publisher>,
    /// The idempotency key of the request that saves it.
    pub key: Option<ChangeKey>,
}

/// The idempotency key of a request that changes a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeKey {
    pub key: String,
    /// The digest of the request: another request has another one.
    pub digest: String,
    pub at: Timestamp,
}

/// A change of a workflow that was made under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedChange {
    pub digest: String,
    /// The version that its response names.
    pub version: u32,
}

impl NewWorkflow {
    /// The permissions of its publisher, which are compared with those of the newest version.
    pub(crate) fn permission_text(&self) -> String {
        self.publisher.as_ref().map_or_else(default_permissions, Publisher::permission_text)
    }

    /// Whether the version is registered without its definition.
    pub(crate) fn is_only_named(&self) -> bool {
        self.digest.is_empty()
    }
}

/// The permissions of a version that has none in its row.
pub(crate) fn default_permissions() -> String {
    Publisher::default().permission_text()
}

/// The columns of a workflow that lists show.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowSummary {
    pub name: String,
    /// Of its latest version.
    pub style: String,
    /// The version that new runs use; 0 while none is active.
    pub active_version: u32,
    pub latest_version: u32,
    /// When its latest version was saved.
    pub updated_at: Timestamp,
}

/// The columns of a version that lists show.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRow {
    pub version: u32,
    pub digest: String,
    pub created_at: Timestamp,
    pub retention_days: u32,
    pub is_active: bool,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Deleted,
    NotFound,
    /// This number of its runs has not ended: nothing was deleted.
    InUse(u64),
}

/// One immutable version of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRow {
    pub workspace: WorkspaceId,
    pub name: String,
    pub version: u32,
    pub style: String,
    pub definition: Payload,
    pub digest: String,
    pub retention_days: u32,
    pub created_at: Timestamp,
    /// Absent if no caller has saved it, or an earlier release has.
    pub publisher: Option<Publisher>,
    /// The search attributes of the workflow, which its active version declares; in order.
    pub search_paths: Vec<String>,
    /// Whether the version was deleted: it is kept for its runs.
    pub is_deleted: bool,
}
