//! `/v1/catalog`: the kinds of graph nodes.

mod routes;
mod wire;

pub(crate) use routes::add;
