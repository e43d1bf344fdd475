//! A PostgreSQL server of our own for tests: in a temporary folder, on a private port, never as root.
//!
//! [`Cluster::shared`] is one server per test process; [`Cluster::database`] gives each test a database of its own.
//! A test that stops or breaks its server starts one with [`Cluster::start`]. Whatever becomes of the process,
//! its servers are stopped and their folders removed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binaries;
mod cluster;
mod database;
mod guard;
mod pooler;

pub use cluster::{Cluster, Durability};
pub use database::TestDatabase;
pub use pooler::Pooler;
