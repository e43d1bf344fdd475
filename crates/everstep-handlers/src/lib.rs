//! Acts on the outside world: one file per kind of node.
//!
//! A handler receives a task and returns a value or a failure. The engine and the core handle retries, timeouts, the
//! journal and the resolution of templates.

mod catalogue;
mod config;
mod data_query;
mod fetch;
mod handler;
mod http;
mod javascript;
mod links;
mod logs;
mod mask;
mod noop;
mod notify;
mod places;
mod ports;
mod registry;
mod secrets;
pub mod sources;
mod store;
mod webhook;

pub use catalogue::{CatalogueEntry, Handle, Timeout, catalogue, graph_schema, page};
pub use data_query::DataQueryHandler;
pub use handler::{Description, Example, Handler, Task, TaskResult};
pub use http::{HttpBounds, HttpHandler};
pub use javascript::JavaScriptHandler;
pub use noop::NoopHandler;
pub use notify::{MailServer, MailServerError, NotifyHandler};
pub use places::{Place, Places};
pub use ports::{FetchPolicy, NotifyPolicy, NotifyTarget, Ports, Records, Secrets, Sources};
pub use registry::Registry;
pub use store::RecordHandler;
pub use webhook::{WebhookBounds, WebhookHandler};
