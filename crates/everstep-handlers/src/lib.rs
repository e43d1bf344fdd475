//! Acts on the outside world: one file per kind of node.
//!
//! A handler is told a task and answers with a value or a failure. Retries, timeouts, the journal and the
//! resolution of templates are left to the engine and the core.

mod catalogue;
mod config;
mod data_query;
mod fetch;
mod handler;
mod http;
mod javascript;
mod logs;
mod noop;
mod ports;
mod registry;
pub mod schema;
mod secrets;
pub mod sources;

pub use catalogue::{Entry, Handle, Timeout, catalogue, page};
pub use data_query::DataQuery;
pub use handler::{Description, Example, Handler, Report, Task};
pub use http::Http;
pub use javascript::JavaScript;
pub use noop::Noop;
pub use ports::{Fetches, Ports, Secrets, Sources};
pub use registry::Registry;
