//! `/v1/inbox`: what the caller can decide.

mod list;
mod routes;
mod wire;

pub(crate) use routes::add;
