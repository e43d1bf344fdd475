//! `/v1/nodes`: the servers that share the database.

mod list;
mod routes;
mod wire;

pub(crate) use routes::add;
