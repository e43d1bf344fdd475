//! Persists runs, journals and what belongs to them. It decides nothing about workflows.
//!
//! [`Store`] is the contract; each database has a folder of its own that fulfils it, with the same
//! file and query names. `everstep-testkit` holds the suite that every implementation passes.

mod error;
mod item;
mod journal;
mod numbers;
mod pack;
pub mod postgres;
mod rows;
pub mod sqlite;
mod store;

pub use error::{Error, Result};
pub use item::{Change, Gate, InboxId, Item, Message, NewEntry, NewRun, Outcome, Projection, Sent, Wait};
pub use rows::{
    Arrival, Counts, KeyRow, Loaded, NewWorkflow, NodeRow, RunFilter, RunPage, RunRow, RunSummary, Snapshot,
    StoredEntry, Tick, Wants, WorkflowRow,
};
pub use store::Store;
