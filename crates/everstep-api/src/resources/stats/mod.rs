//! `/v1/stats`: figures of runs over time.

mod read;
mod routes;
mod wire;

pub(crate) use routes::add;
