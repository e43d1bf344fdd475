//! Data sources and saved queries with real databases, files and services.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod definitions;
mod http;
mod injection;
mod kind;
mod limits;
mod messages;
mod postgres;
mod sqlite;
mod support;
mod tls;
