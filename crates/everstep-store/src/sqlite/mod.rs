//! SQLite: the embedded store, for one node.
//!
//! [`SqliteStore`] implements the ports. It runs one [`Database`] on a writer thread and a few on reader threads.
//! [`Database`] is one connection; it has the verbs of runs and workflows as synchronous methods, which the simulator
//! calls on its own thread. The statements are in `queries/sqlite`, the schema in `migrations/sqlite`.
//!
//! * `runs`, `workflows` (with `register`), `access`, `resources`, `records`, `topics`, `dead_letters`, `files`: one
//!   file or folder per port.
//! * `store`, `threads`, `folder`, `disk`, `database`, `schema`: opening, threads, the lock of the data folder, its
//!   free space, connections, migrations.
//! * `queries`, `columns`, `errors`: statements, columns of rows, error codes.

mod access;
mod columns;
mod database;
mod dead_letters;
mod disk;
mod errors;
mod files;
mod folder;
mod log;
mod queries;
mod records;
mod register;
mod resources;
mod runs;
mod schema;
mod search;
mod store;
mod threads;
mod topics;
#[cfg(test)]
mod upgrade;
mod workflows;

pub use database::Database;
pub use runs::SweepResult;
pub use store::{Options, SqliteStore, open};
