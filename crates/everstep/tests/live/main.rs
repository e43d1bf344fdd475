//! Stock clients and real servers: live updates of runs for the Socket.IO client and for curl, events of the CloudEvents
//! SDKs, and webhooks for the library of Standard Webhooks.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod cloud_events;
mod follower;
mod nodes;
mod single;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
mod webhooks;
