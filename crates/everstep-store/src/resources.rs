//! Resources of workspaces: named bytes.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    Secret,
    Source,
    Query,
}

impl ResourceKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Source => "source",
            Self::Query => "query",
        }
    }
}

/// A resource with its body, which the store does not interpret.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRow {
    pub workspace: WorkspaceId,
    pub kind: ResourceKind,
    pub name: String,
    pub body: Vec<u8>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
