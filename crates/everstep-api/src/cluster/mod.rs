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

/// Has a run decide an input, and answers with its reply.
const DELIVER: &str = "/cluster/v1/deliver";
/// Takes hints; they are not answered.
const HINTS: &str = "/cluster/v1/hints";
