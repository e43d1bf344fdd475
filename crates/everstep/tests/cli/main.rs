//! The real binary as a user runs it: its output, its exit codes, and its durability.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod client;
mod database;
mod dead_letters;
mod documents;
mod environment;
mod events;
mod examples;
mod guides;
mod http;
mod keys;
mod messages;
mod outside;
mod people;
mod reports;
mod retention;
mod run;
mod secrets;
mod serve;
mod shell;
mod starts;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
mod telemetry;
mod validate;
