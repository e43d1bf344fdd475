//! Who did what: every request that changed something leaves a row.
//!
//! 1. The row of a request that changes a run is written in the item of that run: both exist, or neither.
//! 2. What changes who may do what, or what runs do, is written before it is answered.
//! 3. Other requests are gathered, and written 200 ms later at the latest, and when the server stops. So are requests
//!    for runs that wrote no item: a repeated start, a signal that nothing waits for.
//! 4. Nothing is dropped: who finds the buffer full waits. What the database refuses for good is counted and logged.

mod draft;
mod watch;
mod writer;

pub(crate) use draft::AuditDraft;
pub(crate) use watch::{audit_request, write_action};
pub use writer::Audit;
