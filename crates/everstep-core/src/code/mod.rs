//! The code style: a function that a worker runs.
//!
//! A worker takes a run's turn, runs the function from the top and reports what its steps did ([`Report`]).
//! [`Progress`] is what the journal knows of those steps.

mod apply;
mod progress;
mod report;
mod reports;
mod trim;
mod waits;

pub(crate) use progress::{Buffered, Standing, matches};
pub use progress::{End, Progress, Step};
pub use report::{Moment, Report, StepKind};
