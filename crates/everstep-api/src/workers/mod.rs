//! `/v1/worker`: sessions with workers, the processes of users that run code workflows.
//!
//! * `hello` opens a session, `report` is one report of a worker and `reports` a list of them, `messages` are the
//!   messages of the server.
//! * `http` and `websocket` are the two transports. `sessions` finds the node of a session; `local` serves a session of
//!   this node, `forward` passes requests on to the node of a session and serves those of other nodes.
//! * `list` shows the connected workers.
//!
//! Payloads remain the JSON text that was received: this module does not parse them.

mod backpressure;
pub(crate) mod forward;
mod hello;
mod http;
mod limits;
pub(crate) mod list;
mod local;
mod messages;
mod report;
mod reports;
mod retry;
mod routes;
mod sessions;
mod text;
mod websocket;

pub(crate) use routes::{add, is_uncounted, redact};
