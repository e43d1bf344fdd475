//! Topics: publishes events, and carries out their fan-out.
//!
//! * `handle`: [`Topics`], which the API and the shards share.
//! * `publisher`: the event publisher, which writes the events of many callers in one transaction.
//! * `queue`: events whose fan-out this node continues, workspaces in turn.
//! * `fanout`: the loop that writes slices of the fan-out. `slice` makes a slice, `starts` creates the runs of a slice.
//! * `sweep`: a job of the sweeper: deletes events that are no longer kept.

mod fanout;
mod handle;
mod publisher;
mod queue;
mod slice;
mod starts;
pub(crate) mod sweep;

pub(crate) use fanout::FanOut;
pub use handle::Topics;
pub(crate) use queue::{EventQueue, SLICE_ROWS_MAX};
pub(crate) use slice::{start_key, trigger};
