//! One run in memory: its state, the inputs that wait, and the item on its way to the store.
//!
//! * `active` combines the parts, and answers questions about the run.
//! * `decide` passes inputs through the core; `advance` submits the result to the committer; `settle` acts on the
//!   verdict.
//! * `watchdog` measures decisions, and reports those that take long.
//! * `pending` is about runs that have not begun.
//! * `mailbox`, `in_flight`, `ownership`, `performer`, `waits`, `children` and `look_back` are the parts.
//!
//! A method that may end the run's stay in memory returns a [`Next`]; the shard applies it.

mod active;
mod advance;
mod call;
mod children;
mod decide;
mod end_report;
mod in_flight;
mod look_back;
mod mailbox;
mod ownership;
mod pending;
mod performer;
mod settle;
mod waits;
mod watchdog;

pub(crate) use active::{ActiveRun, FoldedRun, Loading, Next, RunSlot};
pub(crate) use decide::Decided;
pub(crate) use in_flight::{InFlight, Rest};
pub use look_back::EXAMINED_EVENTS_MAX;
pub(crate) use look_back::LookedBack;
pub(crate) use mailbox::{Envelope, ReplyTo, is_own_result};
pub(crate) use ownership::Ownership;
pub(crate) use performer::NoSeat;
