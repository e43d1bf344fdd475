//! `/v1/data-sources` and `/v1/queries`: where workflows get their data.

mod problem;
mod queries;
mod routes;
mod sources;
mod wire;

pub(crate) use routes::add;

/// Bytes of a source or a query.
const BODY_BYTES_MAX: usize = 256 * 1024;
