//! Who did what: every request that changed something leaves a row.
//!
//! 1. What changes who may do what, or what runs do, is written before it is answered.
//! 2. What starts or steers runs is gathered, and written 200 ms later at the latest, and when the server stops.
//! 3. Nothing is dropped: who finds the buffer full waits. What the database refuses for good is counted and logged.

mod watch;
mod writer;

pub(crate) use watch::{audit_request, write_action};
pub use writer::Audit;
