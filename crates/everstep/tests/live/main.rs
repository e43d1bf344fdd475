//! Live updates of runs for the stock Socket.IO client and for curl, from real servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod follower;
mod nodes;
mod single;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
