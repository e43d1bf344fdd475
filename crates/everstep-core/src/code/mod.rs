//! The code style: a function that a worker runs.
//!
//! A worker takes a run's turn, runs the function from the top and reports the results of its steps ([`Report`]).
//! [`Progress`] is the part of the journal that concerns those steps.

mod apply;
mod progress;
mod report;
mod reports;
mod run;
mod story;
mod trim;
mod waits;

pub(crate) use apply::fold;
pub use progress::{End, Progress, Step};
pub use report::{Moment, Report, Since, StepKind};
pub(crate) use reports::{on_report, on_turn_begun, on_turn_lost};
pub(crate) use run::{check_counts, context, next, step_status};
pub(crate) use story::{StepFacts, began_at, reopened, step_kind};
pub(crate) use waits::{on_event, on_signal, on_timer};
