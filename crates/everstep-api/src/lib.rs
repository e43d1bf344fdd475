//! Serves HTTP. It passes requests to the engine and returns the replies; it decides nothing.
//!
//! * [`routes`] is the table of all routes, each with its access and its text.
//! * `http` is HTTP itself, without workflows: connections, the table, requests, problems, the OpenAPI document.
//! * `resources` has one folder per resource: its rows of the table, its handlers, its request and response types.
//! * `stream` sends the updates of runs to clients as they are committed.
//! * `workers` is the worker protocol: sessions with users' processes that run code workflows.
//! * `body_memory` bounds the bytes of the bodies of requests, `checks` the work of checks and dry runs.
//! * `auth` authenticates callers, `audit` records their actions, `metrics` counts and measures.
//! * [`cluster`] is the channel between nodes; `console` is the web console, which the binary contains.

mod audit;
pub mod auth;
mod body_memory;
mod checks;
pub mod cluster;
mod console;
mod errors;
mod http;
mod id;
mod metrics;
mod resources;
mod routes;
mod run_deadline;
mod server;
mod stream;
mod wait_places;
mod workers;

pub use audit::Audit;
pub use body_memory::{BodyMemory, BodyOptions};
pub use checks::{CheckOptions, Checks};
pub use console::digest as console_digest;
pub use http::listen::bind;
pub use http::table::Route;
pub use id::new_id;
pub use metrics::{Meters, serve_metrics};
pub use resources::documents::openapi;
pub use resources::files::{FILE_BYTES_MAX, Uploads};
pub use resources::keys::Quotas;
pub use resources::workspaces::{check_workspace_name, first_key};
pub use routes::routes;
pub use server::{AppServices, AppState, router, serve};
pub use stream::{StreamHub, Streams};
pub use wait_places::WaitPlaces;
