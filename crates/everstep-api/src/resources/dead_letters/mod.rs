//! `/v1/dead-letters`: work that failed permanently.
//!
//! * `read` lists and shows dead letters; `control` requeues and discards one, `bulk` many.
//! * `filter` reads the selection of a query or a body.

mod bulk;
mod control;
mod filter;
mod read;
mod routes;
mod wire;

pub(crate) use routes::add;
