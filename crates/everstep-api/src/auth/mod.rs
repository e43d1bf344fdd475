//! Who asks, and what they may do. Every route but the health checks needs a key.
//!
//! * `secret` makes keys; the database holds their SHA-256 alone.
//! * `permission` names what a key may be allowed to do.
//! * `new_key` is a key that is to be made.
//! * `role` names the usual sets of permissions.
//! * `keys` finds the holder of a key, and remembers it for a few seconds.
//! * `ticket` is what a browser shows in place of a key.
//! * `rate` counts how many requests a key sends.
//! * `guard` stands before the routes.

mod guard;
mod keys;
mod new_key;
mod permission;
mod rate;
mod role;
mod secret;
mod ticket;

pub use guard::Needs;
pub(crate) use guard::{
    Gate, TICKET, Tickets, authenticate, authenticate_header, authenticate_secret, authenticate_ticket, count, given,
    lacks, permit, refuse, refuse_keys,
};
pub(crate) use keys::Caller;
pub use keys::{Keys, RATE_LIMIT};
pub use new_key::{Allows, NewKey};
pub use permission::Permission;
pub use role::Role;
pub use secret::Secret;
