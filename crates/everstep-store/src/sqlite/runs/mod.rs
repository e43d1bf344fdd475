//! Runs: the port of the engine.
//!
//! * `store`: the port's implementation.
//! * `nodes`, `tick`: membership and leases. `commit`, `batch`: writing items. `claims`: owning runs.
//!   `reads`, `lists`: reading runs. `entries`: rows of the journal.
//! * `pending`: runs without a journal.
//! * `forks`, `counts`, `sweep`: forks and test runs, numbers of runs, deletion of expired rows.

mod batch;
mod claims;
mod commit;
mod counts;
mod entries;
mod forks;
mod lists;
mod nodes;
mod pending;
mod reads;
mod rows;
mod stats;
mod store;
mod sweep;
mod tick;

pub(super) use reads::find_keyed;
pub use sweep::SweepResult;
