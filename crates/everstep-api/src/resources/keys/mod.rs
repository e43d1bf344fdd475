//! `/v1/keys` and `/v1/me`: API keys, and the key of the caller.

mod manage;
mod me;
mod routes;
pub(crate) mod wire;

pub(crate) use routes::add;
