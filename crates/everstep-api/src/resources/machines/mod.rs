//! State machines: what people do in their runs.
//!
//! * `routes` has the rows of the table. `aliases` are the same requests under the paths of the reference system.
//! * `reader` decides which runs a caller may read, and has the rights with which they act.
//! * `transition` and `assign` change a run; `refusal` is the answer if they may not. `offer` reserves the files of a
//!   transition. `attempt` counts and logs every attempt.
//! * `actions`, `history` and `evaluate` show a run, and change nothing.
//! * `wire` has the request and response types.

mod actions;
mod aliases;
mod assign;
mod attempt;
mod digest;
mod evaluate;
mod history;
mod offer;
mod reader;
mod refusal;
mod routes;
mod transition;
pub(crate) mod wire;

pub(crate) use attempt::observe_attempt;
pub(crate) use reader::{Reader, check_reader, cx};
pub(crate) use routes::add;
