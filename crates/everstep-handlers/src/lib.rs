//! Acts on the outside world: one file per kind of node.
//!
//! A handler is told a task and answers with a value or a failure. Retries, timeouts, the journal and the
//! resolution of templates are left to the engine and the core.

mod config;
mod handler;
mod javascript;
mod logs;
mod noop;
mod ports;
mod registry;

pub use handler::{Description, Handler, Report, Task};
pub use javascript::JavaScript;
pub use noop::Noop;
pub use ports::{Fetches, Ports, Query, Secrets, Source, Sources};
pub use registry::Registry;
