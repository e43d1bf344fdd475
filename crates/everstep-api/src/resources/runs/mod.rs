//! `/v1/runs`: runs are started, listed, shown, controlled and forked.
//!
//! * `routes` has the rows of the table.
//! * `start`, `fork` and `test` create runs; `control` and `bulk` send inputs to them.
//! * `list` is the list of runs, which `filter` selects and `cursor` pages; `show` is one run; `wait` is many runs when
//!   they have ended; `steps`, `step`, `context`,
//!   `logs`, `view` and `journal` are its parts.
//! * `wire` has the request and response types.

mod bulk;
mod context;
mod control;
mod cursor;
mod filter;
mod fork;
mod journal;
mod list;
mod logs;
mod routes;
mod show;
mod start;
mod step;
mod steps;
mod test;
mod view;
mod wait;
pub(crate) mod wire;

pub(crate) use cursor::read_seq;
pub(crate) use journal::{EntryForm, VIEW, read_view};
pub(crate) use routes::add;
pub(crate) use show::{read_id, row, show_loaded};
