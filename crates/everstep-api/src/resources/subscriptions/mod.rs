//! `/v1/topics/{pattern}/subscriptions` and `/v1/subscriptions`: subscriptions of workflows to topics.
//!
//! * `create`, `change` and `control` write subscriptions; `read` lists and shows them.
//! * `check` reads the parts of a request: pattern, filter, templates.

mod change;
mod check;
mod control;
mod create;
mod read;
mod routes;
mod wire;

pub(super) use read::find;
pub(crate) use routes::add;
