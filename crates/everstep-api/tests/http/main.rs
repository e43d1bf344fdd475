//! The server as programs meet it, over real HTTP, on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod auth;
mod cluster;
mod controls;
mod data;
mod documents;
mod events;
mod runs;
mod socket;
mod stream;
mod support;
mod workflows;
