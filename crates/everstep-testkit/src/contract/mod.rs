//! The promises of the store's ports, proved once for every backend.
//!
//! A backend writes `contract_tests!(fresh)`, where `fresh` is an async function that returns a [`FreshStore`], and
//! gets one test per promise. Each test runs on a separate store.
//!
//! `runs`, `workflows`, `access`, `resources`, `records`, `topics`, `dead_letters` and `files` contain the promises of
//! one port each; `stores` contains those that all ports share. A promise is a function; the type of its parameter shows which part of
//! the store it receives.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

pub mod access;
pub mod dead_letters;
pub mod files;
pub mod fixtures;
mod fresh;
mod list;
pub mod records;
pub mod resources;
pub mod runs;
pub mod stores;
pub mod topics;
pub mod workflows;

pub use fresh::{FreshStore, run};
