//! Runs: the port of the engine.
//!
//! * `store`: the port's implementation.
//! * `commit`, `batch`, `arrays`: a batch of items as one statement.
//! * `tick`, `lists`, `forks`, `sweep`: the verbs of these names.

#[cfg(test)]
mod agreement;
mod arrays;
mod batch;
mod commit;
mod forks;
mod lists;
mod rows;
mod store;
mod sweep;
mod tick;
