//! Runs: the port of the engine.
//!
//! * `store`: the port's implementation.
//! * `commit`, `batch`, `arrays`: a batch of items as one statement.
//! * `claims`: owning runs. `load`, `tick`, `lists`, `forks`, `sweep`: the verbs of these names. `pending`: runs without a journal.

#[cfg(test)]
mod agreement;
mod arrays;
mod batch;
mod claims;
mod commit;
mod forks;
mod lists;
mod load;
mod pending;
mod rows;
mod store;
mod sweep;
mod tick;
