//! PostgreSQL: the store that several nodes share.
//!
//! [`PostgresStore`] implements the ports. Nearly every verb is one statement on a connection of a pool; `commit` and
//! `tick` always are. The statements are in `queries/postgres`, the schema in `migrations/postgres`.
//!
//! * `runs`, `workflows` (with `register`), `access`, `resources`, `records`, `topics`, `dead_letters`, `files`: one
//!   file or folder per port.
//! * `store`, `url`, `tls`: opening a database, and connecting to its server.
//! * `connections`, `connection`: the pool; time limits; prepared statements, or unnamed ones behind a pooler.
//! * `server`, `schema`, `partitions`: the checks and tables that opening a database needs, and their maintenance.
//! * `disk`: the reports of a full disk. `upkeep`: sweeps in small transactions.
//! * `queries`, `arrays`, `columns`, `errors`: statements, their array parameters, columns of rows, error codes.

mod access;
mod arrays;
mod columns;
mod connection;
mod connections;
mod dead_letter_arrays;
mod dead_letters;
mod disk;
mod errors;
mod files;
mod partitions;
mod queries;
mod records;
mod register;
mod resources;
mod runs;
mod schema;
mod scratch;
mod search;
mod server;
mod store;
mod tls;
mod topics;
mod upkeep;
mod url;
mod workflows;

pub use scratch::{create_database, drop_database};
pub use store::{Options, PostgresStore, open};
