//! The server and its command line as a library.
//!
//! The binary `everstep` is `main.rs`, which only calls [`main`]. `everstep-lab` uses the public modules: they read
//! settings and workflow files, open the database and start a node exactly as the server does.

mod args;
mod cli;
mod client_args;
mod cluster;
pub mod command_settings;
mod commands;
pub mod config;
mod data_folder;
pub mod database;
mod dead_letter_args;
pub mod definition;
mod environment;
mod event_args;
pub mod exit;
mod fetch_policy;
mod first_key;
mod id_args;
pub mod identity;
pub mod input;
mod live;
pub mod logging;
mod ops_notices;
pub mod output;
#[cfg(test)]
mod reference;
mod remote;
mod secrets_key;
mod server_address;
pub mod settings;
pub mod signals;
mod spans;
mod steps;
mod target;
mod telemetry;
mod text;
pub mod wire;

pub use cli::main;
