//! Data sources and saved queries, asked in earnest: real databases, real files, real services.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod definitions;
mod http;
mod injection;
mod kind;
mod limits;
mod postgres;
mod sqlite;
mod support;
mod tls;
