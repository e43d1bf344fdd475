//! `/`, `/docs` and `/v1/openapi.json`: the API as documents.

mod routes;
mod serve;
mod wire;

pub(crate) use routes::add;
pub use serve::openapi;
