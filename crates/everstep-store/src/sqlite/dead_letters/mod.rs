//! Dead letters. Their rows are inserted by the commit (`runs`) and by the fan-out (`topics`).
//!
//! * `store`: the port's implementation. `read`, `change`, `take`: its verbs.

mod change;
mod insert;
mod read;
mod rows;
mod store;
mod take;

pub(super) use insert::insert;
