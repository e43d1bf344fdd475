//! PostgreSQL: the store that several nodes share.
//!
//! [`PostgresStore`] is the `Store`. A verb is one statement on a connection of a pool, nearly always; `commit` and
//! `tick` always are. The statements stand in `queries/postgres`, the schema in `migrations/postgres`.
//!
//! * `url`, `tls`: how to reach the server.
//! * `connections`, `connection`: the pool; time limits; prepared statements, or unnamed ones behind a pooler.
//! * `server`, `schema`, `partitions`: what is checked and made before anything else, and kept up later.
//! * `arrays`, `batch`, `commit`: a batch of items as one statement.

mod arrays;
mod batch;
mod commit;
mod connection;
mod connections;
mod errors;
mod forks;
mod keys;
mod lists;
mod nodes;
mod partitions;
mod queries;
mod register;
mod resources;
mod rows;
mod runs;
mod schema;
mod scratch;
mod server;
mod settings;
mod store;
mod sweep;
mod tick;
mod tls;
mod url;
mod workflows;
mod workspaces;

pub use scratch::{create_database, drop_database};
pub use store::{Options, PostgresStore};
