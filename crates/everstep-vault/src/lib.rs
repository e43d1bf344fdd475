//! Keeps what handlers need of a workspace: secrets, data sources and saved queries.
//!
//! Rows are in the store; what is secret is sealed here, before it gets there.
//!
//! * `sources` keeps data sources and saved queries.

mod sources;

pub use sources::{DataSources, Refusal, Saved};
