//! The way between nodes: what one has to say to another. Everything is true without it, only slower.
//!
//! * [`Channel`] speaks: it passes inputs on to the node that owns a run, and gathers hints.
//! * [`serve`] listens, on an address of its own.
//! * `signature` and `nonces` let in only what a node of this cluster sent, to this node, now and once.

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
/// Takes hints; they are not answered.
const HINTS_PATH: &str = "/cluster/v1/hints";
