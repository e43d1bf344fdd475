//! PostgreSQL: the store that several nodes share.
//!
//! [`PostgresStore`] implements the ports. A verb is one statement on a connection of a pool, nearly always; `commit`
//! and `tick` always are. The statements are in `queries/postgres`, the schema in `migrations/postgres`.
//!
//! * `runs`, `workflows` (with `register`), `access`, `resources`: one file or folder per port.
//! * `store`, `url`, `tls`: opening, and how to reach the server.
//! * `connections`, `connection`: the pool; time limits; prepared statements, or unnamed ones behind a pooler.
//! * `server`, `schema`, `partitions`: what is checked and created when a database is opened, and maintained later.
//! * `queries`, `columns`, `errors`: statements, columns of rows, error codes.

mod access;
mod columns;
mod connection;
mod connections;
mod errors;
mod partitions;
mod queries;
mod register;
mod resources;
mod runs;
mod schema;
mod scratch;
mod server;
mod store;
mod tls;
mod url;
mod workflows;

pub use scratch::{create_database, drop_database};
pub use store::{Options, PostgresStore, open};
