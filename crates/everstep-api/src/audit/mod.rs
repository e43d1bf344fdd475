//! The audit: every request that changes something has a row with its actor, its action and its target.
//!
//! 1. The row of a request that changes a run is written in the item of that run: both exist, or neither.
//! 2. The row of a request that needs the permission to publish or to administrate is written before the request is
//!    answered.
//! 3. Rows of other requests are queued, and written after 200 ms at the latest and when the server stops. This
//!    includes requests for runs that wrote no item: a repeated start, a signal without an open wait.
//! 4. No row is dropped: when the queue is full, requests wait. A row that the database rejects permanently is counted
//!    and logged.

mod draft;
mod watch;
mod writer;

pub(crate) use draft::{AuditDraft, shorten};
pub(crate) use watch::{audit_request, write_action};
pub use writer::Audit;
