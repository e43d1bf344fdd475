//! Authentication and permissions. Every route except the health checks and the documents needs a key or a token.
//!
//! * `caller` is the holder of an API key, or a person.
//! * `identity` verifies the tokens of people.
//! * `api_key` creates keys; the database stores only their SHA-256.
//! * `permission` lists the permissions.
//! * `new_key` is a key to be created.
//! * `role` names the usual sets of permissions.
//! * `role_maps` resolves the roles that state machines require, by the map of a workspace.
//! * `keys` finds the holder of a key, and caches it for a few seconds.
//! * `ticket` is a short-lived credential for clients that cannot send headers.
//! * `sign_in_code` is the code of a one-time link, which a browser exchanges for a key.
//! * `rate` limits the requests of a key and of a workspace.
//! * `guard` checks the caller before a route runs.

mod api_key;
mod caller;
mod guard;
pub mod identity;
mod keys;
mod new_key;
mod permission;
mod rate;
mod role;
mod role_maps;
mod sign_in_code;
mod ticket;

pub use api_key::ApiKey;
pub(crate) use caller::{Caller, KeyHolder, Principal};
pub use guard::Access;
pub(crate) use guard::{
    Gate, KEY_FILTER, TICKET, TicketPolicy, authenticate, authenticate_api_key, authenticate_header,
    authenticate_ticket, count_request, lacks_permission, permit, reject, reject_keys_in_query, sent_key,
};
pub use keys::{Keys, RATE_LIMIT_DEFAULT};
pub(crate) use new_key::NAME_CHARS_MAX;
pub use new_key::{Grant, NewKey};
pub use permission::Permission;
pub use role::Role;
pub use role_maps::RoleMaps;
pub(crate) use sign_in_code::{SIGN_IN_LIFETIME, SignInCode};
