//! `/v1/secrets`: values that steps use and no response shows.

mod manage;
mod routes;
mod wire;

pub(crate) use routes::add;
