//! Runs as they go, seen by the stock Socket.IO client and by curl, at real servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod follower;
mod nodes;
mod single;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
