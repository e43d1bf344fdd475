//! Real servers that share one PostgreSQL: they find each other, forward inputs and take over each other's runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod inputs;
mod keys;
mod nodes;
mod records;
mod sockets;
mod starts;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
mod workers;
mod workflows;
