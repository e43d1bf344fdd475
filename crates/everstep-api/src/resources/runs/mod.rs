//! `/v1/runs`: runs are started, listed, shown, controlled and forked.
//!
//! * `routes` has the rows of the table.
//! * `start`, `fork` and `test` create runs; `control` and `bulk` send inputs to them.
//! * `show` is one run and the list of them, which `filter` selects; `steps`, `context`, `logs`, `view` and `journal` are
//!   its parts.
//! * `wire` has the request and response types.

mod bulk;
mod context;
mod control;
mod filter;
mod fork;
mod journal;
mod logs;
mod routes;
mod show;
mod start;
mod steps;
mod test;
mod view;
pub(crate) mod wire;

pub(crate) use routes::add;
pub(crate) use show::{read_id, row, show_loaded};
