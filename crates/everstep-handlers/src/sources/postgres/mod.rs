//! PostgreSQL as a data source.
//!
//! * `address` is the location of a database; `connection` and `pool` hold its connections.
//! * `ask` sends one statement in a separate transaction.
//! * `encode` and `decode` turn JSON into parameters and columns into JSON; `times` formats dates and times.
//! * `errors` maps errors of the server to failures.

mod address;
mod ask;
mod connection;
mod decode;
mod encode;
mod errors;
mod pool;
mod times;

pub(super) use ask::{DatabaseQuery, ask, test};
pub(super) use pool::Pool;
