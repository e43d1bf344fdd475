//! Persists runs, journals and what belongs to them. It decides nothing about workflows.
//!
//! [`Store`] is the contract; each database has a folder of its own that fulfils it, with the same
//! file and query names. `everstep-testkit` holds the suite that every implementation passes.

mod access;
mod error;
mod expects;
mod filter;
mod item;
mod journal;
mod numbers;
mod pack;
pub mod postgres;
mod resources;
mod rows;
pub mod sqlite;
mod store;
mod texts;

pub use access::{AuditFilter, AuditRow, KeyRow, WorkspaceRow};
pub use error::{Error, Result};
pub use expects::{Choice, Expects, Put, Registered};
pub use filter::RunFilter;
pub use item::{Change, Gate, InboxId, Item, Message, NewEntry, NewRun, Outcome, Projection, Sent, Wait};
pub use resources::{ResourceKind, ResourceRow};
pub use rows::{
    Arrival, Counts, Deletion, Loaded, NewWorkflow, NodeRow, RunPage, RunRow, RunSummary, Snapshot, StoredEntry, Tick,
    VersionRow, Wants, WorkflowRow, WorkflowSummary,
};
pub use store::Store;
