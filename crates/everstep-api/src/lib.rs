//! Speaks HTTP. It asks the engine and shows what the engine says; it decides nothing.
//!
//! * `routes` is the table of all routes, with what each needs and its text; `openapi` makes a document of it.
//! * `listen` accepts connections.
//! * `auth` knows who asks; `body`, `query` and `headers` read what they ask; `problem` says why not.
//! * `audit` writes down who did what.
//! * `access` is about who may do what: keys, workspaces, tickets, the audit, secrets.
//! * One file per resource: `workflows`, `starts`, `runs`, `journal`, `controls`, `nodes`, `health`.
//! * `live` shows runs as they go.
//! * `wire` holds what is sent, in its own types, so that the core may change its mind without breaking a client.
//! * `worker` speaks with users' processes that run workflows written as code.
//! * [`cluster`] is the way between nodes.

mod access;
mod audit;
pub mod auth;
mod body;
mod bulk;
mod catalogue;
pub mod cluster;
mod context;
mod controls;
mod data;
mod deadline;
mod docs;
mod filter;
mod forks;
mod headers;
mod health;
mod id;
mod journal;
mod listen;
mod live;
mod logs;
mod metrics;
mod nodes;
mod openapi;
mod problem;
mod query;
mod routes;
mod run_routes;
mod runs;
mod server;
mod starts;
mod steps;
mod table;
mod test_runs;
mod views;
mod wire;
mod worker;
mod workflows;

pub use access::{check_workspace_name, first_key};
pub use audit::Audit;
pub use id::new_id;
pub use live::{StreamHub, Streams};
pub use metrics::{Meters, serve_metrics};
pub use openapi::openapi;
pub use routes::routes;
pub use server::{AppState, router, serve};
pub use table::Route;
