//! Records and links: data of workspaces that outlives runs.
//!
//! * `handle`: [`Records`], which handlers, the API and the sweeper share.
//! * `port`: the port through which handlers use it.
//! * `writer`: the record writer, which applies ops in batches.
//! * `reader`: reads records by their keys, many in one call.
//! * `sweep`: jobs of the sweeper: deletes expired records, and changes that are no longer kept.

mod handle;
mod port;
mod reader;
pub(crate) mod sweep;
mod writer;

pub use everstep_core::records::NewOp;
pub use handle::Records;
