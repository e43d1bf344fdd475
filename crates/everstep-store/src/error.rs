//! Errors of the database.

use everstep_core::ids::NodeId;
use everstep_core::limits;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This node was fenced: other nodes may own its runs. It must stop and join under a new id.
    #[error("node {0} was fenced: its lease expired, and other nodes may own its runs")]
    Fenced(NodeId),
    /// The database rejects the data itself. Nothing was written; resending would fail again.
    #[error("the database rejected the data: {0}")]
    Refused(String),
    /// The disk is full. Nothing was written; the same call succeeds when there is free space.
    #[error("the database is full: {0}; free some disk space, and the engine continues without a restart")]
    Full(String),
    /// The outcome is unknown, or nothing was done. The same call may be sent again.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Another process holds the data folder.
    #[error("{0}")]
    Locked(String),
    /// The database cannot be used in its present state or with the present settings. The message contains the remedy.
    #[error("{0}")]
    Unusable(String),
    /// This build cannot read stored data.
    #[error("the database contains data that this build cannot read: {0}")]
    Corrupt(String),
    #[error("{0} was not found")]
    NotFound(String),
    /// A workflow declares more triggers than the workspace has room for: it has this number of subscriptions already.
    /// Nothing was written.
    #[error("the workspace has {} subscriptions of {}, too many for the triggers of the workflow", .0, limits::SUBSCRIPTIONS)]
    QuotaReached(u64),
    /// The workspace has this number of workflows, and a new name is not added. Nothing was written.
    #[error("the workspace has {} workflows; at most {} are allowed", .0, limits::WORKFLOWS)]
    WorkflowQuotaReached(u64),
}

impl Error {
    /// Whether repeating the same call may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_))
    }
}
