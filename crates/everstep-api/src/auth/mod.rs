//! Who asks, and what they may do. Every route but the health checks needs a key.
//!
//! * `secret` makes keys; the database holds their SHA-256 alone.
//! * `permission` names what a key may be allowed to do.
//! * `keys` finds the holder of a key, and remembers it for a few seconds.
//! * `guard` stands before the routes.

mod guard;
mod keys;
mod permission;
mod secret;

pub(crate) use guard::{authenticate, by_key, given, lacks, permit, refuse, refuse_query};
pub(crate) use keys::Caller;
pub use keys::Keys;
pub use permission::Permission;
pub use secret::Secret;
