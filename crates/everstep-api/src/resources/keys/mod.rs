//! `/v1/keys` and `/v1/me`: API keys, and the key of the caller.

mod manage;
mod me;
mod quotas;
mod routes;
pub(crate) mod wire;

pub(crate) use manage::too_many;
pub use quotas::Quotas;
pub(crate) use routes::add;
