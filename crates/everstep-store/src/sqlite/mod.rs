//! SQLite: the embedded store, for one node.
//!
//! [`Database`] is one connection and does each verb of [`crate::Store`] synchronously, on the caller's thread.
//! [`SqliteStore`] puts one of them on a writer thread and a few on reader threads, and is the `Store`.
//! The statements stand in `queries/sqlite`, the schema in `migrations/sqlite`.

mod batch;
mod commit;
mod database;
mod errors;
mod folder;
mod forks;
mod keys;
mod lists;
mod nodes;
mod queries;
mod register;
mod resources;
mod rows;
mod runs;
mod settings;
mod store;
mod sweep;
mod threads;
mod tick;
#[cfg(test)]
mod upgrade;
mod workflows;
mod workspaces;

pub use database::Database;
pub use store::{Options, SqliteStore};
pub use sweep::Swept;
