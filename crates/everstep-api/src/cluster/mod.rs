//! The channel between nodes. It only saves time: without it, every node finds all changes in the database.
//!
//! * [`Channel`] sends: it forwards inputs to the node that owns a run, and batches hints.
//! * [`serve`] listens, at a separate address.
//! * `signature` and `nonces` accept only requests that a node of this cluster sent to this node, recently, and each
//!   only once.

mod address;
mod channel;
mod key;
mod listener;
mod nonces;
mod outbox;
mod signature;

pub use address::check_address;
pub use channel::Channel;
pub use key::ClusterKey;
pub use listener::serve;

/// Passes an input to the node that owns the run, and returns the run's reply.
const INPUTS_PATH: &str = "/cluster/v1/inputs";
/// Accepts hints, without a response body.
const HINTS_PATH: &str = "/cluster/v1/hints";
