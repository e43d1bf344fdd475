//! Rows of records, links, namespaces and changes, and what both databases share: the answers to the ops of a batch,
//! and the columns of a change.

mod change_columns;
mod pending;
mod rows;
mod texts;

pub(crate) use change_columns::{ChangeColumns, StoredChange, digest, pack_value, payload, value_type};
pub(crate) use pending::PendingOps;
pub use rows::{
    AppliedBatch, ChangePage, ChangeQuery, ChangeRow, ChangeValue, ExpiredRecord, NamespaceFilter, NamespacePage,
    NamespaceQuery, NamespaceRow, OpOutcome, RecordKey, TriedBatch,
};
pub(crate) use rows::{ChangeScan, NamespaceScan};
pub(crate) use texts::check_texts;
