//! `/workflow-engine`: the same requests under the paths, the names and the statuses of the reference system.
//!
//! * `instances` are runs of state machines; `definitions` are their workflows.
//! * `routes` has the rows of the table, `wire` the request and response types. Requests accept names in snake case and
//!   in camel case.

mod definitions;
mod instances;
mod routes;
mod wire;

pub(super) use routes::{TRANSITION, add};
