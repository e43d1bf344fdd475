//! A PostgreSQL server for tests: in a temporary folder, on a private port, never as root.
//!
//! [`Cluster::shared`] is one server per test process; [`Cluster::database`] gives each test its own database. A test
//! that stops or breaks its server starts one with [`Cluster::start`]. However the process ends, its servers are
//! stopped and their folders removed.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod binaries;
mod cluster;
mod database;
mod guard;
mod pooler;

pub use cluster::{Cluster, Durability};
pub use database::TestDatabase;
pub use pooler::Pooler;
