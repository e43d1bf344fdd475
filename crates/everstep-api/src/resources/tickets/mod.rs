//! `/v1/tickets`: credentials of a minute, for clients that cannot send headers.

mod create;
mod routes;
mod wire;

pub(crate) use routes::add;
pub(crate) use wire::Empty;
