//! PostgreSQL as a data source.
//!
//! * `address` is where a database is; `connection` and `pool` hold the way to it open.
//! * `ask` sends one statement in a transaction of its own.
//! * `encode` and `decode` turn JSON into parameters and columns into JSON; `times` writes dates and times.
//! * `errors` says what a failure means.

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
