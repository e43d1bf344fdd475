//! The server as programs use it, over real HTTP, on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod access;
mod audit;
mod auth;
mod bodies;
mod bounds;
mod catalogue;
mod cluster;
mod code_runs;
mod console;
mod controls;
mod data;
mod dead_letters;
mod documents;
mod events;
mod files;
mod forks;
mod generators;
mod heads;
mod health;
mod inbox;
mod live_socket;
mod machine_definitions;
mod machines;
mod mails;
mod many;
mod messages;
mod people;
mod records;
mod runs;
mod schemas;
mod secrets;
mod sign_ins;
mod socket;
mod socket_polling;
mod stats;
mod steps;
mod stream;
mod support;
mod topics;
mod walk;
mod worker_socket;
mod worker_topics;
mod workers;
mod workflows;
